"""Files of numpy as parts of rows: each is a part, and is mapped into memory."""

import os
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from skdp.data.containers import with_text

_PATHS = str | bytes | os.PathLike


class NpyFile(NamedTuple):
    """A file of one array: what maps it into memory, and what is public of it."""

    loader: Callable[[], np.ndarray]
    shape: tuple[int, ...]
    dtype: np.dtype


def npy_files(paths: Any, n_dimensions: int) -> list[NpyFile]:
    """Look at files that `numpy.save` has written; refuse those that hold something else.

    Parameters
    ----------
    paths : path-like or sequence of path-like
        The files.
    n_dimensions : int
        1 for targets, numbers or texts; 2 for rows, numbers.

    Returns
    -------
    list of NpyFile
        Each file with its loader, which can be pickled.

    Raises
    ------
    OSError
        If there is no such file.
    ValueError
        If a file holds something else.
    """
    name = "paths" if n_dimensions == 2 else "y"
    return [_npy_file(path, n_dimensions) for path in paths_of(paths, name)]


def paths_of(paths: Any, name: str = "paths") -> list[str]:
    """Return one path, or several, in full: other processes may run in another directory."""
    several = [paths] if isinstance(paths, _PATHS) else list(paths)
    if not several:
        raise ValueError(f"{name} must name at least one file, got none.")
    for path in several:
        if not isinstance(path, _PATHS):
            raise ValueError(f"{name} must be paths of files, got {type(path).__name__}.")
    return [os.path.abspath(os.fsdecode(path)) for path in several]


def _npy_file(path: str, n_dimensions: int) -> NpyFile:
    """Map a file of one array; the text of an error is left out, unless the system raised it."""
    loader = partial(np.lib.format.open_memmap, path, mode="r")
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
    return NpyFile(loader, found.shape, found.dtype)
