r"""Rows, clipped in norm: sums, second moments and projections of them."""

import math

from skdp.privacy.adjacency import choose
from skdp.privacy.precision import in_double_precision

__all__ = [
    "clipped_projection",
    "clipped_squares",
    "projected_spectrum",
    "row_sum",
    "second_moment",
]


@in_double_precision
def row_sum(row_norm: float, adjacency: str, rounding: float = 0.0) -> float:
    r"""Sensitivity of :math:`\sum_i x_i`: `c` for zero_out, `2 c` for replace.

    Replace: :math:`\|x - y\| \le 2c`, attained by :math:`y = -x`.
    """
    return row_norm * (choose(adjacency, zero_out=1.0, replace=2.0) + 2 * rounding)


@in_double_precision
def second_moment(row_norm: float, adjacency: str, rounding: float = 0.0) -> float:
    r"""Sensitivity of :math:`\sum_i x_i x_i^T`: `c^2` for zero_out, `sqrt(2) c^2` for replace.

    Replace: :math:`\|xx^T - yy^T\|_F^2 = \|x\|^4 + \|y\|^4 - 2 (x \cdot y)^2 \le 2 c^4`, attained
    by orthogonal x and y.
    """
    return row_norm**2 * (choose(adjacency, zero_out=1.0, replace=math.sqrt(2)) + 2 * rounding)


@in_double_precision
def clipped_projection(
    row_norm: float, level: float, adjacency: str, rounding: float = 0.0
) -> float:
    r"""Sensitivity of :math:`\sum_i x_i \psi(V^T x_i)^T`, V with orthonormal columns.

    :math:`\psi` clips to norm `b` (`level`). zero_out: `c b`. Replace, for `b <= c`:

    - :math:`2 b \sqrt{c^2 - b^2}` up to :math:`b = c / \sqrt 3`,
    - :math:`\sqrt{2 c^2 b^2 + (c^2 - b^2)^2 / 2}` beyond.

    Proof for c = 1; rows of norm 1 are the worst. Let A and B be the squared norms of
    :math:`V^T x` and :math:`V^T y`, clipped to norms u and v, and :math:`\kappa` the size of the
    cosine between them. Outside the span of V the rows have norms :math:`\sqrt{1 - A}` and
    :math:`\sqrt{1 - B}` and, at worst, opposite inner products, so that the squared distance is

    .. math:: D = u^2 + v^2 + 2 \kappa u v [\sqrt{(1 - A)(1 - B)} - \kappa \sqrt{AB}].

    It falls in A where :math:`u = b`, so let :math:`A = u^2 \le b^2`, :math:`B = v^2 \le b^2`. If
    the best :math:`\kappa` is below 1, :math:`D = A + B + (1 - A)(1 - B)/2`, which rises in A and
    in B. If it is 1, then with :math:`A = \sin^2 s` and :math:`B = \sin^2 t` one has
    :math:`D = \sin^2(s + t)`, and :math:`\cos(s + t) \ge \sin s \sin t \ge 0`, so D rises in s and
    in t. Hence :math:`A = B = b^2`, where :math:`\kappa = \min(1, (1 - b^2) / (2 b^2))`.
    """
    # inf / inf would be NaN.
    clipped = min(level / row_norm, 1.0) if math.isfinite(row_norm) else 1.0
    if 3 * clipped**2 <= 1:
        replace = 2 * clipped * math.sqrt(1 - clipped**2)
    else:
        replace = math.sqrt(2 * clipped**2 + (1 - clipped**2) ** 2 / 2)
    factor = choose(adjacency, zero_out=clipped, replace=replace)
    return row_norm**2 * (factor + 2 * rounding * clipped)


@in_double_precision
def projected_spectrum(row_norm: float, adjacency: str, rounding: float = 0.0) -> float:
    r"""Sensitivity of :math:`\sum_i (z_i z_i^T, \|x_i\|^2 - \|z_i\|^2)`, :math:`z_i = V^T x_i`.

    `c^2` for zero_out: :math:`\|z\|^4 + (\|x\|^2 - \|z\|^2)^2 \le \|x\|^4` because
    :math:`\|z\| \le \|x\|`, so that the second coordinate is free. `sqrt(2) c^2` for replace: the
    contributions of two rows have an inner product that is not negative.
    """
    return second_moment(row_norm, adjacency, rounding)


@in_double_precision
def clipped_squares(row_norm: float, n_levels: int, adjacency: str, rounding: float = 0.0) -> float:
    r"""Sensitivity of :math:`\sum_i \psi_b(z_i) \circ z_i / \beta`, :math:`z_i = V^T x_i`.

    The entries are stacked over m levels :math:`b = \beta c`, :math:`0 < \beta \le 1`, and
    :math:`\psi_b` clips to norm b. :math:`\sqrt m c^2` for zero_out: the entries of a row are not
    negative, those of one level sum to :math:`\|\psi_b(z)\| \|z\| / \beta \le c^2`, and a sum of
    such entries is at least their norm. A row of norm c in the span attains it. :math:`\sqrt 2`
    times as much for replace, as two such contributions have an inner product that is not
    negative; attained by two orthogonal rows.
    """
    return math.sqrt(n_levels) * second_moment(row_norm, adjacency, rounding)
