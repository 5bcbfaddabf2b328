r"""Row-level sensitivities: how far one row can move a statistic, at worst.

Throughout, rows are clipped to Euclidean norm `c` (`row_norm`), and the adjacency is

- ``"replace"``: one row is exchanged for any other, n stays;
- ``"zero_out"``: one row becomes null and contributes nothing to any sum or count, n stays.

Every function returns the supremum over all neighbouring datasets in the Euclidean (for matrices
the Frobenius) norm, plus twice `rounding` times the largest contribution of a row: the computed
sums of two neighbours may each be off by that much [1]_. `rounding` is what
:class:`skdp.linalg.rows.Rows` reports with the sum.

References
----------
.. [1] S. Casacuberta, M. Shoemate, S. Vadhan, C. Wagaman (2022). "Widespread underestimation of
   sensitivity in differentially private libraries and how to fix it". CCS. :arxiv:`2207.10635`
"""

import math

__all__ = [
    "ADJACENCIES",
    "clipped_projection",
    "count",
    "histogram",
    "projected_spectrum",
    "row_sum",
    "second_moment",
]

ADJACENCIES = ("replace", "zero_out")


def row_sum(row_norm: float, adjacency: str, rounding: float = 0.0) -> float:
    r"""Sensitivity of :math:`\sum_i x_i`: `c` for zero_out, `2 c` for replace.

    Replace: :math:`\|x - y\| \le 2c`, attained by :math:`y = -x`.
    """
    return row_norm * (_choose(adjacency, zero_out=1.0, replace=2.0) + 2 * rounding)


def second_moment(row_norm: float, adjacency: str, rounding: float = 0.0) -> float:
    r"""Sensitivity of :math:`\sum_i x_i x_i^T`: `c^2` for zero_out, `sqrt(2) c^2` for replace.

    Replace: :math:`\|xx^T - yy^T\|_F^2 = \|x\|^4 + \|y\|^4 - 2 (x \cdot y)^2 \le 2 c^4`, attained
    by orthogonal x and y.
    """
    return row_norm**2 * (_choose(adjacency, zero_out=1.0, replace=math.sqrt(2)) + 2 * rounding)


def clipped_projection(
    row_norm: float, level: float, adjacency: str, rounding: float = 0.0
) -> float:
    r"""Sensitivity of :math:`\sum_i x_i \psi(V^T x_i)^T`, V with orthonormal columns.

    :math:`\psi` clips to norm `b` (`level`). zero_out: `c b`. Replace: the smaller of `2 c b`, by
    the triangle inequality, and `sqrt(2) c^2`. For the latter let :math:`\alpha = V^T x`,
    :math:`\beta = V^T y`, :math:`A = \|\alpha\|^2`, :math:`B = \|\beta\|^2`, and let s, t <= 1 be
    the factors of the clipping. What x and y have outside the span of V has norms at most
    :math:`\sqrt{c^2 - A}` and :math:`\sqrt{c^2 - B}`, so

    .. math::
        (x \cdot y)(\psi_x \cdot \psi_y)
        \ge st\,[(\alpha \cdot \beta)^2
            - |\alpha \cdot \beta| \sqrt{(c^2 - A)(c^2 - B)}]
        \ge -\tfrac{1}{4} (c^2 - A)(c^2 - B),

    and the squared distance is at most
    :math:`c^2 (A + B) + \tfrac12 (c^2 - A)(c^2 - B)`. That is linear in A and in B, hence largest
    in a corner of :math:`[0, c^2]^2`, where it is at most :math:`2 c^4`.
    """
    level = min(level, row_norm)
    replace = min(2 * level, math.sqrt(2) * row_norm)
    factor = _choose(adjacency, zero_out=level, replace=replace)
    return row_norm * (factor + 2 * rounding * level)


def projected_spectrum(row_norm: float, adjacency: str, rounding: float = 0.0) -> float:
    r"""Sensitivity of :math:`\sum_i (z_i z_i^T, \|x_i\|^2 - \|z_i\|^2)`, :math:`z_i = V^T x_i`.

    `c^2` for zero_out: :math:`\|z\|^4 + (\|x\|^2 - \|z\|^2)^2 \le \|x\|^4` because
    :math:`\|z\| \le \|x\|`, so that the second coordinate is free. `sqrt(2) c^2` for replace: the
    contributions of two rows have an inner product that is not negative.
    """
    return second_moment(row_norm, adjacency, rounding)


def count() -> float:
    """Sensitivity of the number of rows with a property: 1. Counts of rows are exact."""
    return 1.0


def histogram(adjacency: str) -> float:
    """Sensitivity of disjoint counts: 1 for zero_out; replace takes from one and adds to one."""
    return _choose(adjacency, zero_out=1.0, replace=math.sqrt(2))


def _choose(adjacency: str, *, zero_out: float, replace: float) -> float:
    return {"zero_out": zero_out, "replace": replace}[adjacency]
