r"""Users: sums of positive semi-definite matrices, one a user, each clipped as a whole.

A user changes all of its rows at once, so that only what it contributes as a whole is bounded. The
other sums over users are those of :mod:`skdp.privacy.sensitivity`: a sum of clipped vectors is
`row_sum`, one of outer products of such vectors `second_moment`.
"""

import math

from skdp.privacy.adjacency import choose
from skdp.privacy.precision import in_double_precision

__all__ = ["user_moment"]


@in_double_precision
def user_moment(level: float, adjacency: str, rounding: float = 0.0) -> float:
    r"""Sensitivity of :math:`\sum_j A_j`, positive semi-definite of Frobenius norm at most c.

    `c` (`level`) for zero_out, :math:`\sqrt 2 c` for replace: as
    :math:`\langle A, B\rangle = \|A^{1/2} B^{1/2}\|_F^2 \ge 0`,
    :math:`\|A - B\|_F^2 \le \|A\|_F^2 + \|B\|_F^2`. Attained by users whose
    rows are orthogonal.
    """
    return level * (choose(adjacency, zero_out=1.0, replace=math.sqrt(2)) + 2 * rounding)
