"""Files of numpy as parts of rows: each is a part, and is mapped into memory."""

import os
from functools import partial
from typing import Any

import numpy as np

from skdp.data.containers import with_text

_PATHS = str | bytes | os.PathLike


def parts_of_files(paths: Any, y: Any) -> tuple[Any, ...]:
    """Describe files that `numpy.save` has written, and make functions that map them.

    Parameters
    ----------
    paths : path-like or sequence of path-like
        Files of rows, 2-D arrays of numbers.
    y : path-like, sequence of path-like or None
        Files of their targets, 1-D arrays of numbers or texts.

    Returns
    -------
    tuple
        Arguments of `RowParts`: functions that can be pickled, and what is public of their rows.

    Raises
    ------
    OSError
        If there is no such file.
    ValueError
        If a file holds something else, or files do not fit together.
    """
    loaders, rows = _mapped(paths, "paths")
    of_targets, targets = (None, rows) if y is None else _mapped(y, "y")
    widths, lengths = {one.shape[1] for one in rows}, [len(one) for one in rows]
    if len(widths) > 1:
        raise ValueError(f"paths must be files of one number of columns, got {sorted(widths)}.")
    if [len(one) for one in targets] != lengths:
        raise ValueError("y must have a file for each of paths, of as many entries as rows.")
    dtype = np.float32 if all(one.dtype == np.float32 for one in rows) else np.float64
    return loaders, lengths, widths.pop(), dtype, of_targets


def paths_of(paths: Any, name: str = "paths") -> list[str]:
    """Return one path, or several, in full: other processes may run in another directory."""
    several = [paths] if isinstance(paths, _PATHS) else list(paths)
    if not several:
        raise ValueError(f"{name} must name at least one file, got none.")
    for path in several:
        if not isinstance(path, _PATHS):
            raise ValueError(f"{name} must be paths of files, got {type(path).__name__}.")
    return [os.path.abspath(os.fsdecode(path)) for path in several]


def _mapped(paths: Any, name: str) -> tuple[list[partial[Any]], list[np.ndarray]]:
    """Return functions that map the files, and the arrays."""
    loaders = [partial(np.lib.format.open_memmap, path, mode="r") for path in paths_of(paths, name)]
    return loaders, [_array_of(loader, n_dimensions=1 if name == "y" else 2) for loader in loaders]


def _array_of(loader: partial[Any], n_dimensions: int) -> np.ndarray:
    """Map a file of one array; the text of an error is left out, unless the system raised it."""
    (path,) = loader.args
    text = (
        f"{path} is no file of one array of numbers or strings that numpy.save has written. Write "
        "an array of objects with astype(float) or astype(str)."
    )
    found = with_text(text, loader, OSError)
    is_taken = np.can_cast(found.dtype, np.float64) or (n_dimensions, found.dtype.kind) == (1, "U")
    if found.ndim != n_dimensions or not is_taken:
        raise ValueError(
            f"{path} has shape {found.shape} and dtype {found.dtype}, but must be a "
            f"{n_dimensions}-D array of real numbers of at most 64 bits"
            f"{', or of strings' * (n_dimensions == 1)}."
        )
    return found
