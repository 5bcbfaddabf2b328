r"""Private linear regression from perturbed sufficient statistics, with an adaptive ridge [1]_.

A fit releases the second moment of the features, its smallest eigenvalue, and the products of the
features with the responses. The eigenvalue decides on a ridge that keeps the noise of the moment
from making the system singular. If the matrices are public, the fit releases only the products.

References
----------
.. [1] Y.-X. Wang (2018). "Revisiting differentially private linear regression: optimal and adaptive
   prediction and estimation in unbounded domain". UAI. :arxiv:`1803.02596`
"""

import math
from functools import partial

import numpy as np

from skdp.linalg.fixed_rank import truncate
from skdp.linalg.matrices import DenseCoordinates, Matrices
from skdp.linear_model._trace.estimate import Estimate
from skdp.linear_model._trace.public_rows import downweight_long_rows, inlier_mask
from skdp.linear_model._trace.records import NO_CLIPPING, Records
from skdp.linear_model._trace.releases import MomentReleases
from skdp.linear_model._trace.scales import release_norm
from skdp.privacy import PrivacyBudget, Release
from skdp.privacy.clipping import clip_rows
from skdp.privacy.release import Search

__all__ = ["release_row_norm", "solve_adassp", "solve_public_design"]

# Most rows are not clipped. A higher quantile would need more precise counts, or noise may decide
# which norm the search finds: benchmarks/trace_regression/defaults.md, "The norm that adassp clips
# to".
_NORM_QUANTILE = 0.75
_NORM_MARGIN = 1.25
# Probability that the ridge is too small; not studied.
_RIDGE_FAILURE = 0.05


def release_row_norm(search: Search, records: Records, budget: PrivacyBudget) -> float:
    """Release a norm that most matrices do not exceed."""
    is_null = np.isnan(records.responses)
    return _NORM_MARGIN * release_norm(search, records.design, is_null, budget, _NORM_QUANTILE)


def solve_adassp(
    plan: MomentReleases,
    records: Records,
    rank: int,
    budget: PrivacyBudget,
    row_norm: float,
    response_bound: float,
) -> Estimate:
    """Solve the perturbed normal equations, for whole records as the unit."""
    norm = min(math.hypot(row_norm, records.intercept), NO_CLIPPING)
    response_bound = min(response_bound, NO_CLIPPING)
    squares, sums = _sufficient_statistics(records, norm, response_bound)
    rounding = records.design.rounding
    moment, moment_std = budget.release(plan.second_moment, squares, norm, rounding=rounding)
    eigenvalue = np.linalg.eigvalsh(squares)[0]
    smallest, _ = budget.release(plan.smallest_eigenvalue, eigenvalue, norm, rounding=rounding)
    products, _ = budget.release(plan.products, sums, norm, response_bound, rounding=rounding)
    size = len(products)
    # A bound of the spectral norm of the noise that fails with that probability.
    reach = moment_std * math.sqrt(size * math.log(2 * size**2 / _RIDGE_FAILURE))
    ridge = max(0.0, reach - max(float(smallest), 0.0))
    return _solve(records, rank, moment + ridge * np.eye(size), products)


def solve_public_design(
    plan: Release,
    records: Records,
    rank: int,
    budget: PrivacyBudget,
    response_bound: float,
    response_range: float,
) -> Estimate:
    """Solve the normal equations if only the responses are private.

    In both sums, weights shorten rows longer than the median to that length, and rows much longer
    than all but a few take no part.
    """
    response_bound = min(response_bound, NO_CLIPPING)
    design = records.design.written_out()
    norms = design.map_rows(partial(_row_norms, intercept=records.intercept))
    downweights = response_bound < NO_CLIPPING
    if downweights:
        norms[~inlier_mask(records.design)] = 0.0
    weights = downweight_long_rows(norms, downweights=downweights)
    moment, sums = _sufficient_statistics(records, NO_CLIPPING, response_bound, weights)
    # Rows without weight contribute nothing to the sums, whatever their norm.
    norms[weights == 0] = 0.0
    largest = float(np.clip((weights * norms).max(), 1 / NO_CLIPPING, NO_CLIPPING))
    facts, rounding = (response_bound, response_range, largest), records.design.rounding
    products, _ = budget.release(plan, sums, *facts, rounding=rounding)
    return _solve(records, rank, moment, products)


def _row_norms(_: slice, matrices: Matrices, intercept: float) -> np.ndarray:
    return matrices.entries(intercept).norms()


def _sufficient_statistics(
    records: Records,
    row_norm: float,
    response_bound: float,
    public_weights: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Sum products of features with each other and with responses; the last is for an intercept.

    Rows are clipped to a norm, or weighted if they are public; responses are clipped to a bound. A
    null record adds 0 to both sums. A null response with a public row adds 0 to the second.
    """
    kernel = partial(
        _statistics,
        records=records,
        row_norm=row_norm,
        response_bound=response_bound,
        public_weights=public_weights,
    )
    design = records.design.written_out()
    sums = design.map_sum(kernel, (design.n_entries + 1) * (design.n_entries + 2))
    return sums[:, :-1], sums[:, -1]


def _statistics(
    rows: slice,
    matrices: Matrices,
    *,
    records: Records,
    row_norm: float,
    response_bound: float,
    public_weights: np.ndarray | None,
) -> np.ndarray:
    coordinates, responses = matrices.entries(records.intercept), records.responses[rows]
    assert isinstance(coordinates, DenseCoordinates)
    if public_weights is None:
        coordinates.values[np.isnan(responses)] = np.nan
    features = clip_rows(coordinates.values, row_norm)
    weighted = features
    if public_weights is not None:
        weighted = features * public_weights[rows, np.newaxis]
    responses = np.clip(np.nan_to_num(responses), -response_bound, response_bound)
    return np.column_stack([weighted.T @ features, weighted.T @ responses])


def _solve(records: Records, rank: int, moment: np.ndarray, products: np.ndarray) -> Estimate:
    """Solve for the coefficients, and return the nearest ones of the rank."""
    solution = np.linalg.lstsq(moment, products, rcond=None)[0]
    # The solution may overflow if the moment of public rows is almost 0.
    solution = np.clip(np.nan_to_num(solution), -NO_CLIPPING, NO_CLIPPING)
    shape, offset = records.design.matrix_shape, 0.0
    if records.intercept > 0:
        solution, offset = solution[:-1], float(solution[-1]) * records.intercept
    return Estimate(truncate(solution.reshape(shape), rank), offset)
