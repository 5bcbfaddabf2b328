"""Clipping that holds in floating point: no norm overflows, no clipped norm exceeds its bound."""

from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from skdp.linalg.compressed import with_data
from skdp.linalg.norms import row_norms

__all__ = [
    "SMALLEST_BOUND",
    "SMALLEST_WEIGHT",
    "binarize",
    "clip_entries",
    "clip_rows",
    "clip_weights",
    "keep_largest",
]

# Squares of bounds, and what is computed from them, must stay normal floating-point numbers.
SMALLEST_BOUND = 1e-100  # not tuned

# A smaller weight is taken for 0: products of weights and entries then neither overflow nor lose
# digits, in whatever order they are formed.
SMALLEST_WEIGHT = 2.0**-500  # not tuned

_EPS = np.finfo(np.float64).eps


def clip_weights(norms: np.ndarray, bound: float, n_features: int) -> np.ndarray:
    """Compute weights in [0, 1] that bring vectors of these norms to norm at most `bound`.

    Norms are those computed in float64, or upper bounds; NaN stands for a null row. The weight is 0
    for null rows and where it would be below `SMALLEST_WEIGHT`. The rounding error of a norm grows
    with `n_features`.
    """
    shrunk = float(bound) * (1 - (n_features + 4) * _EPS)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        weights = np.minimum(shrunk / norms, 1.0)
    weights[~(weights >= SMALLEST_WEIGHT)] = 0.0
    return weights


def clip_rows(values: np.ndarray, bound: float) -> np.ndarray:
    """Clip the rows of `values` to norm at most `bound`, in place; a non-finite row becomes 0.

    Callers silence the warnings of overflow.
    """
    weights = clip_weights(row_norms(values), bound, values.shape[1])
    values *= weights[:, None]
    values[weights == 0] = 0.0
    return values


def clip_entries(values: Any, *, lower: float, upper: float, keep_zeros: bool) -> Any:
    """Clip the entries of an array or sparse matrix to the bounds; 0 stays 0 if `keep_zeros`.

    What a sparse matrix does not store stays 0 anyway. `values` are left as they are, and returned
    themselves where nothing exceeds the bounds.
    """
    if not np.issubdtype(values.dtype, np.floating):
        values = values.astype(np.float64)
    entries = values.data if issparse(values) else values
    lower, upper = float(lower), float(upper)
    low, high = _representable(lower, upper, entries.dtype)
    if low > high:
        # No number of that type lies between the bounds.
        return clip_entries(
            values.astype(np.float64), lower=lower, upper=upper, keep_zeros=keep_zeros
        )
    if not entries.size or (entries.min() >= low and entries.max() <= high):
        return values
    # Unlike clip, these give a bound for NaN.
    clipped = np.fmax(np.fmin(entries, high), low)
    if keep_zeros:
        clipped[entries == 0] = 0
    return with_data(values, clipped) if issparse(values) else clipped


def binarize(values: Any) -> Any:
    """Turn entries that are not 0 into 1; `values` itself if there is nothing to turn."""
    entries = values.data if issparse(values) else values
    is_one = entries != 0
    if np.array_equal(entries, is_one):
        return values
    ones = is_one.astype(values.dtype)
    return with_data(values, ones) if issparse(values) else ones


def keep_largest(rows: csr_array, *, n_entries: int, priority: np.ndarray) -> csr_array:
    """Keep the `n_entries` entries of each row that are largest in size.

    Of equal ones those stay whose column has the lower `priority`: a function of that row alone.
    """
    counts = np.diff(rows.indptr)
    if counts.max(initial=0) <= n_entries:
        return rows
    row_of_entry = np.repeat(np.arange(len(counts)), counts)
    order = np.lexsort((priority[rows.indices], -np.abs(rows.data), row_of_entry))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order)) - np.repeat(rows.indptr[:-1], counts)
    data = np.where(rank < n_entries, rows.data, 0)
    return _without_zeros(with_data(rows, data))


def _representable(lower: float, upper: float, dtype: np.dtype) -> tuple[Any, Any]:
    """Round the bounds inwards to numbers of that type."""
    with np.errstate(over="ignore"):
        low, high = dtype.type(lower), dtype.type(upper)
    # As floats: numpy would round the bounds before it compares.
    if float(low) < lower:
        low = np.nextafter(low, dtype.type(np.inf))
    if float(high) > upper:
        high = np.nextafter(high, dtype.type(-np.inf))
    return low, high


def _without_zeros(rows: csr_array) -> csr_array:
    kept = rows.copy()
    kept.eliminate_zeros()
    return kept
