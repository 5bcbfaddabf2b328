"""Users: sums of positive semi-definite matrices, and losses of public options, a term each.

A user changes all of its rows at once, so that only what it contributes as a whole is bounded. A
sum of clipped vectors is `row_sum`, one of outer products of such vectors `second_moment`.
"""

import math

from skdp.privacy.adjacency import choose
from skdp.privacy.precision import in_double_precision
from skdp.privacy.sensitivity.counts import count

__all__ = ["count_distance", "loss_range", "user_moment"]


@in_double_precision
def user_moment(level: float, adjacency: str, rounding: float = 0.0) -> float:
    r"""Sensitivity of :math:`\sum_j A_j`, positive semi-definite of Frobenius norm at most c.

    `c` (`level`) for zero_out, :math:`\sqrt 2 c` for replace: as
    :math:`\langle A, B\rangle = \|A^{1/2} B^{1/2}\|_F^2 \ge 0`,
    :math:`\|A - B\|_F^2 \le \|A\|_F^2 + \|B\|_F^2`. Attained by users whose
    rows are orthogonal.
    """
    return level * (choose(adjacency, zero_out=1.0, replace=math.sqrt(2)) + 2 * rounding)


@in_double_precision
def loss_range(largest: float, adjacency: str, rounding: float = 0.0) -> float:
    r"""Sensitivity of sums of losses of public options, those of a user at most b apart.

    Losses in :math:`[0, b]` are, and so are any in :math:`[-b/2, b/2]`. It is by how much one
    option can become worse against another: `b` (`largest`) for zero_out,
    `2 b` for replace, attained by users with opposite opinions. Both sums may be rounded twice.
    """
    return largest * (choose(adjacency, zero_out=1.0, replace=2.0) + 4 * rounding)


@in_double_precision
def count_distance() -> float:
    """Sensitivity of distances of counts from public numbers, as `loss_range`: 2.

    A user moves each count by 1 at most, one distance up and another one down.
    """
    return 2 * count()
