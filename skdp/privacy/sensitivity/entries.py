r"""Entries of a matrix, and edges of a graph: entries with their mirror image.

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
    """Largest change of an entry between the bounds: to another value, or to 0 for zero_out."""
    return choose(adjacency, zero_out=max(abs(lower), abs(upper)), replace=upper - lower)


@in_double_precision
def entry_product(step: float, norms: np.ndarray) -> float:
    r"""Sensitivity of A Z to one entry: `step` times the largest row norm of Z.

    :math:`C Z = \alpha e_s z_t^T` has a single nonzero row, so that the bound holds for the sum of
    row norms, too. It depends on single rows of Z, not on Z as a whole: the more evenly Z is spread
    over its rows, the less one entry matters [1]_.
    """
    return step * float(norms.max())


@in_double_precision
def entry_core(step: float, left_norms: np.ndarray, right_norms: np.ndarray) -> float:
    r"""Sensitivity of :math:`Y^T A Z` to one entry: the change is :math:`\alpha y_s z_t^T`."""
    return step * float(left_norms.max() * right_norms.max())


@in_double_precision
def entry_squares(lower: float, upper: float, center: np.ndarray) -> float:
    r"""Sensitivity of :math:`\sum_{ij} (a_{ij} - p_j)^2` to one entry between the bounds.

    Both values of :math:`(a - p)^2` lie between 0 and the maximum over the bounds. The bounds
    include 0 if an entry may be missing or null. Attained if p lies between the bounds.
    """
    return float(np.maximum((upper - center) ** 2, (lower - center) ** 2).max())


@in_double_precision
def entry_mean(step: float, n_rows: int) -> float:
    """Sensitivity of the means of the columns to one entry."""
    return step / n_rows


@in_double_precision
def edge_product(step: float, norms: np.ndarray) -> float:
    r"""Sensitivity of A Z to an edge, an entry together with its mirror image.

    :math:`C Z = \alpha (e_s z_t^T + e_t z_s^T)` has two nonzero rows, and a norm of at most
    :math:`|\alpha| \sqrt{r_1^2 + r_2^2}`, where :math:`r_1` and :math:`r_2` are the two largest row
    norms of Z. The bound of an entry or a loop, :math:`r_1` alone, would be too small by a factor
    of up to :math:`\sqrt 2`.
    """
    return step * math.hypot(*_two_largest(norms))


@in_double_precision
def edge_product_l1(step: float, norms: np.ndarray) -> float:
    """Sum of the row norms of the change that `edge_product` bounds."""
    return step * math.fsum(_two_largest(norms))


@in_double_precision
def edge_mean(step: float, n_rows: int) -> float:
    """Sensitivity of the means of the columns to an edge, which changes two means."""
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

    The change is :math:`\alpha (y_s z_t^T + y_t z_s^T)`. Of all ways to pair the two largest norms
    of each side, pairing them in sorted order gives the largest sum. Not always attained.
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
