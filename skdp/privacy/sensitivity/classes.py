r"""Records with a class: the second moment of a row, a constant and the class together."""

import math

from skdp.linalg.norms import UNIT_ROUNDOFF
from skdp.privacy.precision import in_double_precision
from skdp.privacy.sensitivity.rows import second_moment

__all__ = ["class_moment"]

# What the few operations below may lose.
_MARGIN = 16 * UNIT_ROUNDOFF  # not tuned


@in_double_precision
def class_moment(
    row_norm: float,
    constant: float,
    label_weight: float,
    n_classes: int,
    adjacency: str,
    rounding: float = 0.0,
) -> float:
    r"""Sensitivity of :math:`\sum_i u_i u_i^T`, :math:`u_i = (x_i, a, b (e_{y_i} - 1/K))`.

    :math:`e_y` is the unit vector of the class y, one of K (`n_classes`); a is the `constant`, and
    b the `label_weight`. All of a record is one vector, with

    .. math:: \|u\|^2 \le Q = c^2 + a^2 + b^2 (1 - 1/K),

    attained by rows of norm c, whatever the class. So the sensitivity is that of `second_moment`: Q
    for zero_out, :math:`\sqrt 2 Q` for replace. The latter is attained by u and v that are
    orthogonal: by rows with :math:`x \cdot y = b^2/K - a^2` and different classes, which there are
    from two features on if :math:`|b^2/K - a^2| \le c^2`.
    """
    label = label_weight * math.sqrt(1 - 1 / n_classes)
    longest = math.hypot(row_norm, constant, label) * (1 + _MARGIN)
    return second_moment(longest, adjacency, rounding)
