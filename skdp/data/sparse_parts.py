"""Whether the parts of a sparse matrix fit together: scipy trusts them without a check."""

from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np


def fits_together(X: Any) -> bool:
    """Tell whether all indices of a sparse matrix are within its shape and its other parts.

    This takes a few passes over the indices and none over the values. Only the indices of LIL and
    DOK are copied, as these are not arrays.

    Parameters
    ----------
    X : sparse matrix
        In any format of scipy.

    Returns
    -------
    bool
        False where scipy, or a product, might read or write memory that X does not own.
    """
    fits = _FITS.get(X.format)
    return fits is not None and bool(fits(X))


def _fits_compressed(X: Any) -> bool:
    """Check CSR, CSC or BSR; in BSR, lines and columns are those of blocks."""
    shape, starts, indices, data = (1, *X.shape)[-2:], X.indptr, X.indices, X.data
    sides = data.shape[1:] if X.format == "bsr" else (1, 1)
    if len(sides) != 2 or 0 in sides or any(np.remainder(shape, sides)):
        return False
    n_lines, length = np.floor_divide(shape, sides)[:: -1 if X.format == "csc" else 1]
    if not _are_lists(starts, indices) or not _is_array(data, 3 if X.format == "bsr" else 1):
        return False
    if len(starts) != n_lines + 1 or len(indices) != len(data):
        return False
    if starts[0] != 0 or starts[-1] > len(indices) or (starts[1:] < starts[:-1]).any():
        return False
    # Entries behind the end of the last line do not belong to X.
    return _are_within(indices[: starts[-1]], length)


def _fits_coo(X: Any) -> bool:
    # One-dimensional arrays have no `row`, and old versions of scipy have no `coords`.
    coordinates = X.coords if hasattr(X, "coords") else (X.row, X.col)
    if not _are_lists(*coordinates) or not _is_array(X.data, 1):
        return False
    axes = zip(coordinates, X.shape, strict=True)
    return all(len(each) == len(X.data) and _are_within(each, length) for each, length in axes)


def _fits_dia(X: Any) -> bool:
    offsets = X.offsets
    if not _are_lists(offsets) or not _is_array(X.data, 2) or len(offsets) != len(X.data):
        return False
    is_within = not len(offsets) or -X.shape[0] < offsets.min() <= offsets.max() < X.shape[1]
    return is_within and len(np.unique(offsets)) == len(offsets)


def _fits_lil(X: Any) -> bool:
    if not X.rows.shape == X.data.shape == X.shape[:1]:
        return False
    lines, values = X.rows.tolist(), X.data.tolist()
    if set(map(type, chain(lines, values))) - {list}:
        return False
    is_even = [*map(len, lines)] == [*map(len, values)]
    return is_even and _are_within(np.array([*chain.from_iterable(lines)]), X.shape[1])


def _fits_dok(X: Any) -> bool:
    places = np.array([*X.keys()]).reshape(-1, X.ndim).T
    return all(map(_are_within, places, X.shape))


_FITS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("bsr", "csc", "csr"), _fits_compressed),
    "coo": _fits_coo,
    "dia": _fits_dia,
    "dok": _fits_dok,
    "lil": _fits_lil,
}


def _is_array(values: Any, n_dimensions: int) -> bool:
    return isinstance(values, np.ndarray) and values.ndim == n_dimensions


def _are_lists(*parts: Any) -> bool:
    """Tell whether these are one-dimensional arrays of integers."""
    return all(_is_array(part, 1) and part.dtype.kind in "iu" for part in parts)


def _are_within(indices: np.ndarray, length: int) -> bool:
    if not len(indices):
        return True
    is_whole = indices.dtype.kind in "iu"
    return is_whole and bool(indices.min() >= 0 and indices.max() < length)
