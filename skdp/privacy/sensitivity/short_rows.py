r"""Rows that have few nonzero entries."""

import math

import numpy as np

from skdp.privacy.adjacency import choose
from skdp.privacy.precision import in_double_precision
from skdp.privacy.sensitivity.entries import entry_squares

__all__ = ["short_row", "short_row_product", "short_row_rmatmul", "short_row_squares"]


@in_double_precision
def short_row(largest: float, step: float, n_entries: int, adjacency: str) -> float:
    r"""Largest change of a row of at most w entries (`n_entries`), of size at most `largest`.

    Let b be `largest` and d be `step`. The squared change is :math:`w b^2` for zero_out and
    :math:`w \max(2 b^2, d^2)` for replace: if j columns hold an entry before and after, which
    changes by d, then 2 (w - j) columns hold one either before or after, and
    :math:`j d^2 + 2 (w - j) b^2` is largest for j = 0 or j = w. It is also the largest change of
    the sum of all rows.
    """
    squared = choose(adjacency, zero_out=largest**2, replace=max(2 * largest**2, step**2))
    return math.sqrt(n_entries * squared)


@in_double_precision
def short_row_rmatmul(
    largest: float, step: float, n_entries: int, adjacency: str, norms: np.ndarray
) -> float:
    """Sensitivity of A' Y to such a row: the change of the row times the largest row norm of Y."""
    return short_row(largest, step, n_entries, adjacency) * float(norms.max())


@in_double_precision
def short_row_squares(
    lower: float, upper: float, n_entries: int, adjacency: str, center: np.ndarray
) -> float:
    """Sensitivity of the sum in `entry_squares` to such a row; not always attained."""
    n_changed = min(n_entries, len(center)) * choose(adjacency, zero_out=1.0, replace=2.0)
    return n_changed * entry_squares(lower, upper, center)


@in_double_precision
def short_row_product(
    largest: float, step: float, n_entries: int, adjacency: str, norms: np.ndarray
) -> float:
    r"""Sensitivity of A Z to such a row, for columns of Z that are orthonormal or shorter.

    One row of the product changes, by :math:`\sum_j c_j z_j` over the entries that change. For
    zero_out these are w entries, each of which changes by at most b. For replace j columns may hold
    an entry before and after, which changes by d, and 2 (w - j) columns one either before or after,
    which changes by b. The bound is the maximum over j, with the largest row norms for the entries
    that change most: d is at least b, as 0 lies between the bounds. The change is also no longer
    than that of the row itself, `short_row`. The smaller of the two bounds need not be attained.
    """
    n_entries = min(n_entries, len(norms))
    n_changed = n_entries * int(choose(adjacency, zero_out=1, replace=2))
    sums = np.concatenate([[0.0], np.cumsum(-np.sort(-norms)[:n_changed])])
    shared = np.arange(n_entries + 1) if adjacency == "replace" else np.zeros(1, dtype=int)
    both = sums[np.minimum(shared, len(sums) - 1)]
    one_or_both = sums[np.minimum(n_changed - shared, len(sums) - 1)]
    by_entries = step * both + largest * np.maximum(one_or_both - both, 0.0)
    return min(float(by_entries.max()), short_row(largest, step, n_entries, adjacency))
