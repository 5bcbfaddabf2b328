r"""Entries of a 0/1 table whose rows are divided by the square roots of their sums."""

import math

import numpy as np

from skdp.privacy.precision import in_double_precision

__all__ = ["interaction_mean", "interaction_product", "interaction_squares"]


@in_double_precision
def interaction_product(norms: np.ndarray, degree_floor: int) -> float:
    r"""Sensitivity of :math:`\sum_u r_u r_u^T Z / \max(d_u, f)` to one interaction.

    The rows :math:`r_u` are 0/1 with :math:`d_u` ones, f is the floor, the columns of Z are
    orthonormal or shorter, and m is its largest row norm:

    .. math:: \sqrt{\max\left(\min(1/f, m^2) + (f - 1) m^2/f^2,\;
              \min((1 + m^2)/(f + 1), m^2)\right)}.

    Proof. Remove item k of a user with d items. Let x be the row of Z for item k, and s the sum of
    the rows of Z for the user's other items, so that
    :math:`\|s\| \le \min(\sqrt{d - 1}, (d - 1) m)` and :math:`\|s + x\| \le \min(\sqrt d, d m)`.
    For :math:`d \le f` row k changes by :math:`(s + x)/f`, the others by :math:`x/f`: at most the
    first term, at d = f. For :math:`d > f` the squared change is
    :math:`\|x\|^2/d + \|s\|^2/(d (d - 1))`: at most the second, at d = f + 1.
    """
    largest, floor = float(norms.max()) ** 2, float(degree_floor)
    below = min(1 / floor, largest) + (floor - 1) * largest / floor**2
    above = min((1 + largest) / (floor + 1), largest)
    return math.sqrt(max(below, above))


@in_double_precision
def interaction_mean(degree_floor: int, n_rows: int) -> float:
    r"""Sensitivity of the mean of the rows :math:`r_u/\sqrt{\max(d_u, f)}` to one interaction.

    For a user with :math:`d \le f` items the sum moves by :math:`1/\sqrt f`. With more items its
    squared change is :math:`2 - 2\sqrt{1 - 1/d} \le 1/(d - 1) \le 1/f`.
    """
    return 1 / (math.sqrt(degree_floor) * n_rows)


@in_double_precision
def interaction_squares(degree_floor: int) -> float:
    r"""Sensitivity of the sum of the squared norms of these rows, :math:`\min(1, d_u / f)`."""
    return 1 / degree_floor
