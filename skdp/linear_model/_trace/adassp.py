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
from dataclasses import dataclass

import numpy as np

from skdp.data.matrices import DenseCoordinates, Matrices
from skdp.linalg.fixed_rank import truncate
from skdp.linear_model._trace.descent import Estimate
from skdp.linear_model._trace.public_rows import even_weights, usual_rows
from skdp.linear_model._trace.records import NO_CLIPPING, Records
from skdp.privacy import PrivacyBudget, sensitivity
from skdp.privacy.clipping import clip_rows
from skdp.privacy.quantile import SCALE_GRID

__all__ = [
    "release_row_norm",
    "solve_public_design",
    "solve_sufficient_statistics",
]

# Of a high quantile a wrong count would make a norm of no meaning; most norms are below this one.
_NORM_QUANTILE = 0.75
_NORM_MARGIN = 1.25
# The ridge is large enough with all but this probability.
_RIDGE_FAILURE = 0.05


@dataclass(frozen=True)
class _Statistics:
    """Sums of products of the features, the intercept as the last one, and the responses."""

    moment: np.ndarray
    products: np.ndarray


def release_row_norm(records: Records, budget: PrivacyBudget) -> float:
    """Release a norm that most of the matrices do not exceed."""
    norms = records.design.fill(lambda _, matrices: matrices.norms())
    norms[np.isnan(records.responses)] = np.nan
    found = budget.quantile("row norm", norms, q=_NORM_QUANTILE, grid=SCALE_GRID)
    return _NORM_MARGIN * found


def solve_sufficient_statistics(
    records: Records,
    rank: int,
    budget: PrivacyBudget,
    *,
    row_norm: float,
    response_bound: float,
) -> Estimate:
    """Solve the perturbed normal equations where records are the unit."""
    norm = min(math.hypot(row_norm, records.intercept), NO_CLIPPING)
    response_bound = min(response_bound, NO_CLIPPING)
    statistics = _sums(records, norm, response_bound)
    rounding = records.design.rounding
    moment, moment_noise = budget.symmetric_gaussian(
        "second moment",
        statistics.moment,
        sensitivity=sensitivity.second_moment(norm, budget.adjacency, rounding),
    )
    smallest, _ = budget.gaussian(
        "smallest eigenvalue",
        np.linalg.eigvalsh(statistics.moment)[0],
        sensitivity=sensitivity.smallest_eigenvalue(norm, rounding),
    )
    products, _ = budget.gaussian(
        "products with responses",
        statistics.products,
        sensitivity=sensitivity.labelled_moment(norm, response_bound, budget.adjacency, rounding),
    )
    size = len(products)
    reach = moment_noise * math.sqrt(size * math.log(2 * size**2 / _RIDGE_FAILURE))
    ridge = max(0.0, reach - max(float(smallest), 0.0))
    return _estimate(records, rank, moment + ridge * np.eye(size), products)


def solve_public_design(
    records: Records,
    rank: int,
    budget: PrivacyBudget,
    *,
    response_bound: float,
    response_range: float,
) -> Estimate:
    """Solve the normal equations where only the responses are private.

    Rows longer than the median are weighted down to it, in both sums, and those that are much
    longer than all but a few take no part.
    """
    response_bound = min(response_bound, NO_CLIPPING)
    design = records.design.written_out()
    norms = design.fill(lambda _, matrices: matrices.entries(records.intercept).norms())
    evens_out = response_bound < NO_CLIPPING
    if evens_out:
        norms[~usual_rows(records.design)] = 0.0
    weights = even_weights(norms, evens_out=evens_out)
    statistics = _sums(records, NO_CLIPPING, response_bound, weights)
    # What has no weight contributes nothing to the sums.
    norms[weights == 0] = 0.0
    products, _ = budget.gaussian(
        "products with responses",
        statistics.products,
        sensitivity=sensitivity.response_sum(
            response_bound,
            response_range,
            float(np.clip((weights * norms).max(), 1 / NO_CLIPPING, NO_CLIPPING)),
            budget.adjacency,
            records.design.rounding,
        ),
    )
    return _estimate(records, rank, statistics.moment, products)


def _sums(
    records: Records,
    row_norm: float,
    response_bound: float,
    public_weights: np.ndarray | None = None,
) -> _Statistics:
    """Sum over rows clipped to a norm and responses clipped to a bound, public rows with weights.

    A null record is null in both sums, a null response beside a public row in one.
    """

    def _kernel(rows: slice, matrices: Matrices) -> np.ndarray:
        coordinates = matrices.entries(records.intercept)
        assert isinstance(coordinates, DenseCoordinates)
        responses = records.responses[rows]
        if public_weights is None:
            coordinates.values[np.isnan(responses)] = np.nan
        features = clip_rows(coordinates.values, row_norm)
        weighted = features
        if public_weights is not None:
            weighted = features * public_weights[rows, np.newaxis]
        responses = np.clip(np.nan_to_num(responses), -response_bound, response_bound)
        return np.column_stack([weighted.T @ features, weighted.T @ responses])

    sums = records.design.written_out().add_up(_kernel)
    return _Statistics(sums[:, :-1], sums[:, -1])


def _estimate(records: Records, rank: int, moment: np.ndarray, products: np.ndarray) -> Estimate:
    solution = np.linalg.lstsq(moment, products, rcond=None)[0]
    # What a public moment as small as its smallest numbers makes of products may overflow.
    solution = np.clip(np.nan_to_num(solution), -NO_CLIPPING, NO_CLIPPING)
    shape, offset = records.design.matrix_shape, 0.0
    if records.intercept > 0:
        solution, offset = solution[:-1], float(solution[-1]) * records.intercept
    return Estimate(truncate(solution.reshape(shape), rank), offset)
