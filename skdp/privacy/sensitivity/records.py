"""Sensitivities of regressions, and of the singular subspaces that these start from.

A row comes with a response. Either the row and its response change together, or the rows are public
and one response changes. The conventions are those of :mod:`skdp.privacy.sensitivity`.

References
----------
.. [1] C. Davis, W. M. Kahan (1970). "The rotation of eigenvectors by a perturbation. III". SIAM
   Journal on Numerical Analysis 7(1). :doi:`10.1137/0707001`
"""

import math

from skdp.privacy.adjacency import choose
from skdp.privacy.precision import in_double_precision

__all__ = ["response_sum", "singular_gap", "subspace_pair"]


@in_double_precision
def response_sum(
    level: float, response_range: float, largest_norm: float, adjacency: str, rounding: float = 0.0
) -> float:
    r"""Sensitivity of :math:`\sum_i \psi(y_i - p_i) z_i` to one response, z and p public.

    :math:`\psi` clips to :math:`[-b, b]` (`level`), :math:`\|z_i\| \le m` (`largest_norm`), and the
    response changes by at most d (`response_range`, inf if unbounded).

    - Replace: :math:`\min(2 b, d) m`, since :math:`\psi` lies between its bounds and has a slope of
      at most 1. Attained by residuals of opposite signs.
    - zero_out: :math:`b m`, since the null response contributes nothing, whatever the prediction.
      Attained by a residual beyond b.
    """
    moved = choose(adjacency, zero_out=level, replace=min(2 * level, response_range))
    # 0 times an infinite level would be NaN.
    charged = 2 * rounding * level if rounding else 0.0
    return largest_norm * (moved + charged)


@in_double_precision
def singular_gap(product_sensitivity: float) -> float:
    r"""Sensitivity of :math:`s_r - s_{r+1}`, singular values of a matrix: :math:`2 \beta`.

    :math:`\beta` (`product_sensitivity`) is the largest change of the matrix in the spectral norm.
    No singular value moves further (Weyl). Attained by
    :math:`\beta (u_r v_r^T - u_{r+1} v_{r+1}^T)` if there is an (r + 1)-st singular value.
    """
    return 2 * product_sensitivity


@in_double_precision
def subspace_pair(product_sensitivity: float, gap: float, rank: int) -> float:
    r"""Sensitivity of :math:`(U U^T, V V^T)`, the r leading singular vectors of a matrix.

    The matrix B changes by at most :math:`\beta` (`product_sensitivity`) in the spectral norm, and
    :math:`g \le s_r(B) - s_{r+1}(B)` (`gap`). Together the projections change by at most

    .. math:: 2 \sqrt r \sin(\arcsin(2 \beta / g) / 2) \le 2 \sqrt r \beta / (g - \beta)

    for :math:`g > 2 \beta`, and by at most :math:`2 \sqrt r` in any case.

    Proof. Let H be the symmetric matrix with the blocks B and :math:`B^T` off its diagonal. Its r
    leading eigenvalues are the :math:`s_i`, with the eigenvectors :math:`(u_i, v_i)/\sqrt 2`; the
    gap after them is g, and H changes by :math:`\beta`. No angle :math:`\theta_i` between the old
    and the new eigenvectors has a :math:`\sin 2\theta_i` above :math:`2 \beta / g` [1]_: reflect H
    in the span of the new ones, which turns it by :math:`2\theta`, leaves the gap as it is, and
    changes H by at most :math:`2 \beta`. None exceeds 45 degrees, as the gap stays open while H
    changes from the one to the other. With :math:`M = U_1^T U_2` and :math:`N = V_1^T V_2` the
    projections move by :math:`4 r - 2 \|M\|_F^2 - 2 \|N\|_F^2` squared, which is at most
    :math:`4 r - \|M + N\|_F^2 = 4 \sum_i \sin^2 \theta_i`.

    Attained by r planes that turn on both sides, if both have 2 r dimensions; at
    :math:`g = 2 \beta` the singular values may become equal, and their vectors anything. The gap of
    the neighbor does not matter. If a caller knows g from a noisy release only, the probability
    that it is too large belongs to the `delta_tail` of the budget.
    """
    ratio = 2 * product_sensitivity / gap if gap > 2 * product_sensitivity else math.inf
    sine = math.sin(math.asin(ratio) / 2) if ratio < 1 else 1.0
    return 2 * math.sqrt(rank) * sine
