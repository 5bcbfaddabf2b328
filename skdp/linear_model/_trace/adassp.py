r"""Private linear regression from perturbed sufficient statistics, with an adaptive ridge [1]_.

Released are the second moments of the features, their products with the responses, and the smallest
eigenvalue of the former, from which the ridge follows that keeps the noise of the moments from
making the system singular.

References
----------
.. [1] Y.-X. Wang (2018). "Revisiting differentially private linear regression: optimal and adaptive
   prediction and estimation in unbounded domain". UAI. :arxiv:`1803.02596`
"""

import math

import numpy as np

from skdp.linear_model._trace.estimate import Estimate
from skdp.linear_model._trace.normal_equations import solve, sufficient_statistics
from skdp.linear_model._trace.records import NO_CLIPPING, Records
from skdp.linear_model._trace.releases import MomentReleases
from skdp.privacy import PrivacyBudget
from skdp.privacy.release import Search

__all__ = ["release_row_norm", "solve_adassp"]

# benchmarks/trace_regression/defaults.md, "The norm that adassp clips to": a higher quantile
# would need more precise counts, or the norm that is found may mean nothing. Most norms are below
# this.
_NORM_QUANTILE = 0.75
_NORM_MARGIN = 1.25
# Probability with which the ridge may be too small; not studied.
_RIDGE_FAILURE = 0.05


def release_row_norm(search: Search, records: Records, budget: PrivacyBudget) -> float:
    """Release a norm that most of the matrices do not exceed."""
    norms = records.design.norms()
    norms[np.isnan(records.responses)] = np.nan
    return _NORM_MARGIN * budget.quantile(search, norms, q=_NORM_QUANTILE)


def solve_adassp(
    plan: MomentReleases,
    records: Records,
    rank: int,
    budget: PrivacyBudget,
    row_norm: float,
    response_bound: float,
) -> Estimate:
    """Solve the perturbed normal equations where records are the unit."""
    norm = min(math.hypot(row_norm, records.intercept), NO_CLIPPING)
    response_bound = min(response_bound, NO_CLIPPING)
    squares, sums = sufficient_statistics(records, norm, response_bound)
    rounding = records.design.rounding
    moment, moment_noise = budget.release(plan.second_moment, squares, norm, rounding=rounding)
    eigenvalue = np.linalg.eigvalsh(squares)[0]
    smallest, _ = budget.release(plan.smallest_eigenvalue, eigenvalue, norm, rounding=rounding)
    products, _ = budget.release(plan.products, sums, norm, response_bound, rounding=rounding)
    size = len(products)
    reach = moment_noise * math.sqrt(size * math.log(2 * size**2 / _RIDGE_FAILURE))
    ridge = max(0.0, reach - max(float(smallest), 0.0))
    return solve(records, rank, moment + ridge * np.eye(size), products)
