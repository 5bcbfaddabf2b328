"""Noisy second moment: Analyze Gauss with noise isotropic in the Frobenius inner product.

One release of the d x d matrix of second moments; its whole spectrum is free post-processing.

References
----------
C. Dwork, K. Talwar, A. Thakurta, L. Zhang (2014). "Analyze Gauss: optimal bounds for
privacy-preserving principal component analysis". STOC. :doi:`10.1145/2591796.2591883`
"""

from skdp.data.rows import Rows
from skdp.decomposition._factors import Factors
from skdp.decomposition._rows.moment import Decomposition, decompose
from skdp.decomposition._rows.plan import CovarianceReleases
from skdp.privacy import PrivacyBudget

__all__ = ["solve_covariance"]


def solve_covariance(
    rows: Rows,
    plan: CovarianceReleases,
    budget: PrivacyBudget,
    decomposed: Decomposition = decompose,
) -> Factors:
    """Decompose a noisy second moment of clipped rows: time O(n d^2 + d^3), memory O(d^2)."""
    moment, rounding = rows.gram()
    return decomposed(*budget.release(plan.second_moment, moment, rows.bound, rounding=rounding))
