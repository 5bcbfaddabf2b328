"""Users: sums with one term for each user, which is a matrix or holds the losses of options.

A user changes all of its rows at once, so that only its contribution as a whole is bounded. For a
sum of clipped vectors see `row_sum`, for one of their outer products `second_moment`.
"""

import math

from skdp.privacy.adjacency import choose
from skdp.privacy.precision import in_double_precision
from skdp.privacy.sensitivity.counts import count

__all__ = ["count_distance", "loss_range", "user_moment"]


@in_double_precision
def user_moment(level: float, adjacency: str, rounding: float = 0.0) -> float:
    r"""Sensitivity of :math:`\sum_j A_j`, positive semi-definite of Frobenius norm at most c.

    `c` (`level`) for zero_out, :math:`\sqrt 2 c` for replace: since
    :math:`\langle A, B\rangle = \|A^{1/2} B^{1/2}\|_F^2 \ge 0`,
    :math:`\|A - B\|_F^2 \le \|A\|_F^2 + \|B\|_F^2`. Attained by users whose
    rows are orthogonal.
    """
    return level * (choose(adjacency, zero_out=1.0, replace=math.sqrt(2)) + 2 * rounding)


@in_double_precision
def loss_range(largest: float, adjacency: str, rounding: float = 0.0) -> float:
    r"""Sensitivity of sums of losses of public options; those of one user differ by at most b.

    Losses in :math:`[0, b]` or in :math:`[-b/2, b/2]` do. The sensitivity is the largest change of
    the difference of two sums: `b` (`largest`) for zero_out, `2 b` for replace, attained by users
    with opposite losses. Each of the four sums, two of either neighbor, may be rounded.
    """
    return largest * (choose(adjacency, zero_out=1.0, replace=2.0) + 4 * rounding)


@in_double_precision
def count_distance() -> float:
    """Sensitivity, in the sense of `loss_range`, of distances of counts from public numbers: 2.

    A user moves each count by at most 1, which may raise one distance and lower another.
    """
    return 2 * count()
