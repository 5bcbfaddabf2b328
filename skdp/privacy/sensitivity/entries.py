r"""Entries of a matrix, alone or with their mirror image: an entry, or an edge of a graph.

References
----------
.. [1] M. Hardt, A. Roth (2013). "Beyond worst-case analysis in private singular vector
   computation". STOC. :arxiv:`1211.0975`
"""

import math

import numpy as np

from skdp.privacy.adjacency import choose
from skdp.privacy.precision import in_double_precision

__all__ = [
    "edge_core",
    "edge_mean",
    "edge_mean_l1",
    "edge_product",
    "edge_product_l1",
    "edge_squares",
    "entry_core",
    "entry_mean",
    "entry_product",
    "entry_squares",
    "entry_step",
    "symmetric_edge_core",
]


@in_double_precision
def entry_step(lower: float, upper: float, adjacency: str) -> float:
    """Largest change of an entry between the bounds: to any other value, or to 0."""
    return choose(adjacency, zero_out=max(abs(lower), abs(upper)), replace=upper - lower)


@in_double_precision
def entry_product(step: float, norms: np.ndarray) -> float:
    r"""Sensitivity of A Z to one entry: `step` times the largest row norm of Z.

    :math:`C Z = \alpha e_s z_t^T` has one row that is not zero, so that this holds for the sum of
    row norms too. It is linear in the size of the row, not in that of Z as a whole: the more evenly
    Z is spread, the less one entry matters [1]_.
    """
    return step * float(norms.max())


@in_double_precision
def entry_core(step: float, left_norms: np.ndarray, right_norms: np.ndarray) -> float:
    r"""Sensitivity of :math:`Y^T A Z` to one entry: the change is :math:`\alpha y_s z_t^T`."""
    return step * float(left_norms.max() * right_norms.max())


@in_double_precision
def entry_squares(lower: float, upper: float, center: np.ndarray) -> float:
    r"""Sensitivity of :math:`\sum_{ij} (a_{ij} - p_j)^2` to one entry between the bounds.

    Both values of :math:`(a - p)^2` lie between 0 and its maximum over the bounds, to which 0
    belongs where an entry may be missing or null. Attained if p lies between the bounds.
    """
    return float(np.maximum((upper - center) ** 2, (lower - center) ** 2).max())


@in_double_precision
def entry_mean(step: float, n_rows: int) -> float:
    """Sensitivity of the means of the columns to one entry."""
    return step / n_rows


@in_double_precision
def edge_product(step: float, norms: np.ndarray) -> float:
    r"""Sensitivity of A Z to an edge, an entry together with its mirror image.

    :math:`C Z = \alpha (e_s z_t^T + e_t z_s^T)`, two rows, of norm at most
    :math:`\sqrt{r_1^2 + r_2^2}` with the two largest row norms of Z. The largest alone, which is
    right for an entry and for a loop, would be too little by up to :math:`\sqrt 2`.
    """
    return step * math.hypot(*_two_largest(norms))


@in_double_precision
def edge_product_l1(step: float, norms: np.ndarray) -> float:
    """Sum of the row norms of the change that `edge_product` bounds."""
    return step * math.fsum(_two_largest(norms))


@in_double_precision
def edge_mean(step: float, n_rows: int) -> float:
    """Sensitivity of the means of the columns to an edge, which changes two of them."""
    return math.sqrt(2) * entry_mean(step, n_rows)


@in_double_precision
def edge_mean_l1(step: float, n_rows: int) -> float:
    """Sum of the changes of the means that `edge_mean` bounds."""
    return 2 * entry_mean(step, n_rows)


@in_double_precision
def edge_squares(lower: float, upper: float, center: np.ndarray) -> float:
    """Sensitivity to an edge of the sum in `entry_squares`: that of two entries."""
    return 2 * entry_squares(lower, upper, center)


@in_double_precision
def edge_core(step: float, left_norms: np.ndarray, right_norms: np.ndarray) -> float:
    r"""Sensitivity of :math:`Y^T A Z` to an edge: :math:`y_{(1)} z_{(1)} + y_{(2)} z_{(2)}`.

    The change is :math:`\alpha (y_s z_t^T + y_t z_s^T)`, and of all ways to pair the two largest
    norms of either side the sorted one gives the largest sum. Not always attained.
    """
    pairs = zip(_two_largest(left_norms), _two_largest(right_norms), strict=True)
    return step * math.fsum(left * right for left, right in pairs)


@in_double_precision
def symmetric_edge_core(step: float, norms: np.ndarray) -> float:
    r"""Sensitivity of :math:`Z^T A Z` to an edge: :math:`\max(2 r_1 r_2, r_1^2)`.

    An edge between two nodes moves it by :math:`\alpha (z_s z_t^T + z_t z_s^T)`, a loop by
    :math:`\alpha z_s z_s^T`.
    """
    first, second = _two_largest(norms)
    return step * max(2 * first * second, first**2)


def _two_largest(norms: np.ndarray) -> tuple[float, float]:
    if len(norms) == 1:
        return float(norms[0]), 0.0
    second, first = np.partition(norms, len(norms) - 2)[-2:]
    return float(first), float(second)
