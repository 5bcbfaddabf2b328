"""Clipping that holds in floating point: no norm overflows, no clipped norm exceeds its bound."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import numpy as np
from scipy.sparse import csr_array, issparse

from skdp.linalg.norms import row_norms, with_data

# The square of a bound must not be subnormal: subnormal floats have fewer digits.
SMALLEST_BOUND = 1e-100  # not tuned
#: Largest bound, also where rows need no clipping: squares of longer vectors could overflow.
NO_CLIPPING = 1 / SMALLEST_BOUND  # not tuned

# A smaller weight counts as 0. Products of weights and entries then neither overflow nor lose
# digits, whatever the order of multiplication.
SMALLEST_WEIGHT = 2.0**-500  # not tuned

_EPS = np.finfo(np.float64).eps
T = TypeVar("T")


def clip_weights(norms: np.ndarray, bound: float | np.ndarray, n_features: int) -> np.ndarray:
    """Compute weights in [0, 1] that shorten vectors of the given norms to norm at most `bound`.

    `norms` are norms in float64, or upper bounds on them; NaN marks a null row. `bound` is one
    number for all rows, or an array with a number for each row. A null row gets weight 0, and so
    does a row whose weight would be below `SMALLEST_WEIGHT`.
    """
    # The rounding error of a norm grows with the number of features.
    shrunk = np.asarray(bound, np.float64) * (1 - (n_features + 4) * _EPS)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        weights = np.minimum(shrunk / norms, 1.0)
    weights[~(weights >= SMALLEST_WEIGHT)] = 0.0
    return weights


def weighting_to(bound: float, n_features: int) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function from the norms of rows to the weights that clip these rows to `bound`."""
    # Even an infinite bound shortens huge rows, as their products could overflow.
    return partial(clip_weights, bound=min(bound, NO_CLIPPING), n_features=n_features)


def clipped(rows: T, bound: float) -> T:
    """Return a view of `rows`, clipped to norm at most `bound`."""
    view: Any = rows
    return view.clipped(bound, weighting_to(bound, view.n_features))


def clip_rows(values: np.ndarray, bound: float) -> np.ndarray:
    """Clip rows in place to norm at most `bound`; a row that is not finite becomes 0.

    Callers silence numpy's warnings of overflow.
    """
    weights = clip_weights(row_norms(values), bound, values.shape[1])
    values *= weights[:, None]
    values[weights == 0] = 0.0
    return values


def clip_entries(values: Any, *, lower: float, upper: float, keep_zeros: bool) -> Any:
    """Clip the entries of an array or sparse matrix to the bounds; 0 stays 0 if `keep_zeros`.

    Entries that a sparse matrix does not store stay 0 in any case. `values` is not changed. If no
    entry exceeds the bounds, `values` itself is returned.
    """
    if not np.issubdtype(values.dtype, np.floating):
        values = values.astype(np.float64)
    entries = values.data if issparse(values) else values
    lower, upper = float(lower), float(upper)
    low, high = _representable(lower, upper, entries.dtype)
    if low > high:
        # No number of this dtype lies between the bounds: continue in float64.
        values = values.astype(np.float64)
        return clip_entries(values, lower=lower, upper=upper, keep_zeros=keep_zeros)
    if not entries.size or (entries.min() >= low and entries.max() <= high):
        return values
    # fmax and fmin replace NaN by a bound; numpy.clip would keep NaN.
    clipped = np.fmax(np.fmin(entries, high), low)
    if keep_zeros:
        clipped[entries == 0] = 0
    return with_data(values, clipped) if issparse(values) else clipped


def shift_entries(values: Any, shift: float) -> Any:
    """Subtract a number from the entries of an array or sparse matrix that are not 0."""
    if shift == 0:
        return values
    entries = values.data if issparse(values) else values
    shifted = entries - shift
    shifted[entries == 0] = 0
    return with_data(values, shifted) if issparse(values) else shifted


def binarize(values: Any) -> Any:
    """Replace entries that are not 0 by 1."""
    entries = values.data if issparse(values) else values
    ones = (entries != 0).astype(values.dtype)
    return with_data(values, ones) if issparse(values) else ones


def keep_largest(rows: csr_array, *, n_entries: int, priority: np.ndarray) -> csr_array:
    """Keep the `n_entries` largest entries of each row, by absolute value.

    If entries are equally large, those whose columns have a lower `priority` stay. Which entries of
    a row stay does not depend on other rows.
    """
    counts = np.diff(rows.indptr)
    if counts.max(initial=0) <= n_entries:
        return rows
    row_of_entry = np.repeat(np.arange(len(counts)), counts)
    # All entries, row by row, and within a row from the largest to the smallest.
    order = np.lexsort((priority[rows.indices], -np.abs(rows.data), row_of_entry))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order)) - np.repeat(rows.indptr[:-1], counts)
    # Copied, because `eliminate_zeros` would overwrite the index arrays that `rows` shares.
    largest = with_data(rows, np.where(rank < n_entries, rows.data, 0)).copy()
    largest.eliminate_zeros()
    return largest


def _representable(lower: float, upper: float, dtype: np.dtype) -> tuple[Any, Any]:
    """Round bounds inwards to numbers of a dtype."""
    with np.errstate(over="ignore"):
        low, high = dtype.type(lower), dtype.type(upper)
    # float() makes the comparison exact: numpy would first round the bound to the dtype.
    if float(low) < lower:
        low = np.nextafter(low, dtype.type(np.inf))
    if float(high) > upper:
        high = np.nextafter(high, dtype.type(-np.inf))
    return low, high
