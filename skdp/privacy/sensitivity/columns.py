r"""Columns, clipped to an interval each: their means and mean squares together.

Histograms of columns are in :mod:`skdp.privacy.sensitivity.counts`.
"""

import math

from skdp.privacy.adjacency import choose
from skdp.privacy.precision import in_double_precision

__all__ = ["column_moments"]


@in_double_precision
def column_moments(n_columns: int, adjacency: str, rounding: float = 0.0) -> float:
    r"""Sensitivity of :math:`\sum_i (t_{ij}, t_{ij}^2 - 1/2)` of all d columns, `|t| <= 1`.

    :math:`2 \sqrt d` for replace, :math:`\sqrt{5d/4}` for zero_out. A row has a part in every
    column, so that the squares of the changes add up over columns, and one column is enough:

    - Replace: :math:`(t - s)^2 + (t^2 - s^2)^2 = a^2 (1 + b^2)` with :math:`a = |t - s|` and
      :math:`b = |t + s|`, for which :math:`a + b = 2 \max(|t|, |s|) \le 2`. So it is at most
      :math:`a^2 (1 + (2 - a)^2)`. The derivative of that is :math:`2a (2a^2 - 6a + 5)`, which is
      not negative: it rises up to 4 at a = 2, attained by t = 1, s = -1.
    - zero_out: :math:`t^2 + (t^2 - 1/2)^2 = t^4 + 1/4 \le 5/4`, attained by t = 1. Without the 1/2
      it would be 2. A null row adds nothing to either sum.

    :math:`\sqrt{5d/4}` is also the longest contribution of a row, which `rounding` is relative to.
    The steps to t and to its square round, too, entry by entry and alike in both neighbors; what
    that adds to the bounds, a few parts in 1e16, is far less than the least rounding charged.
    """
    longest = math.sqrt(5 * n_columns / 4)
    change = choose(adjacency, zero_out=longest, replace=2 * math.sqrt(n_columns))
    return change + 2 * rounding * longest
