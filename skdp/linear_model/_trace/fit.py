"""From records and a budget to a released matrix and intercept."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import ndtri

from skdp.data.design import Design
from skdp.linear_model._descent import Step
from skdp.linear_model._trace import scales
from skdp.linear_model._trace.adassp import release_row_norm, solve_adassp
from skdp.linear_model._trace.clipping import Clipping, RecordClipping, ResponseClipping
from skdp.linear_model._trace.covariances import exact_whitening, release_whitening
from skdp.linear_model._trace.descent import Descent, descend
from skdp.linear_model._trace.doubts import (
    doubts_of_cells,
    doubts_of_cut,
    doubts_of_scales,
    signal_strength,
)
from skdp.linear_model._trace.estimate import Estimate
from skdp.linear_model._trace.initial import random_start, release_start
from skdp.linear_model._trace.plan import standardization_of
from skdp.linear_model._trace.problem import TraceProblem
from skdp.linear_model._trace.public_design import solve_public_design
from skdp.linear_model._trace.records import Records
from skdp.linear_model._trace.standardization import (
    RareFeatures,
    exact_standardization,
    release_standardization,
)
from skdp.linear_model._trace.transform import Transform, inverse_root
from skdp.privacy import PrivacyBudget
from skdp.privacy.unmoved import parts_of

__all__ = ["solve_trace"]

# Rows with one rare feature are not to be clipped, and those with two only by as much; not studied.
_ROOM = 1.25
# With a bound of the responses in normal units: all but one per cent of them are below it. Not
# studied.
_RESPONSE_SPREADS = 2.5
# benchmarks/trace_regression/errors.md, "Designs", and defaults.md, "quantile", of the first and
# the last, which is also in benchmarks/house/constants.md; .8 is not studied.
_QUANTILE, _QUANTILE_OF_MANY, _QUANTILE_OF_UNLIKE = 0.5, 0.8, 0.9
# With so few rare features a record, many records have none, and their gradients are short; not
# studied.
_FEW = 2.0
# So strong a signal beside the noise that clipping costs more than it saves; not studied.
_MANY = 300.0
# The norm of the coefficients of uncorrelated features is at most the spread of the responses,
# with some room, and more where it is a released covariance that makes them uncorrelated. Not
# studied.
_SPREAD_MARGIN = 1.1
_RELEASED_MARGIN = 1.5


def solve_trace(
    problem: TraceProblem,
    plan: Any,
    view: Records,
    budget: PrivacyBudget,
    generator: np.random.Generator,
) -> Estimate:
    """Release the scales, then the coefficients and the intercept, in the units of the data."""
    bound = math.inf if problem.response_bound is None else problem.response_bound
    responses, center = np.clip(view.responses, -bound, bound), 0.0
    searches = parts_of(budget, "response centre")
    if searches:
        center = scales.release_center(responses, budget, searches)
        responses = responses - center
    transform = _transform(problem, view.design, responses, budget)
    spread = scales.Spread(math.inf)
    if budget.is_private:
        spread = scales.release_spread(responses, budget, bound + abs(center))
    records = Records(transform.apply(view.design), responses, view.intercept)
    if problem.solver == "adassp":
        estimate = _solve_moments(problem, records, spread.size, bound, transform, budget)
    else:
        estimate = _solve_gradient(problem, plan[-1], records, spread, transform, budget, generator)
    point, offset = transform.undo(estimate)
    doubts = (
        *estimate.doubts,
        *doubts_of_scales(spread, transform),
        *doubts_of_cells(problem, transform),
        *doubts_of_cut(estimate.n_cut, point.rank),
    )
    return replace(
        estimate, point=point, offset=center + offset, doubts=doubts, bounds=transform.bounds
    )


def _transform(
    problem: TraceProblem, design: Design, responses: np.ndarray, budget: PrivacyBudget
) -> Transform:
    """Choose the maps that make the entries alike: known, public, or released."""
    if not isinstance(problem.covariance, str):
        maps = [None if side is None else inverse_root(side) for side in problem.covariance]
        return Transform(row_map=maps[0], column_map=maps[1])
    if problem.covariance == "identity":
        return Transform()
    scaled = _scales(problem, design, responses, budget)
    if problem.solver == "adassp":
        return scaled
    view, is_null = scaled.apply(design), np.isnan(responses)
    if problem.protects_matrices:
        rows, columns = release_whitening(view, is_null, budget)
    else:
        rows, columns = exact_whitening(view)
    return replace(
        scaled,
        row_map=rows.symmetric_map,
        column_map=columns.symmetric_map,
        least_variance=rows.least_variance * columns.least_variance,
    )


def _scales(
    problem: TraceProblem, design: Design, responses: np.ndarray, budget: PrivacyBudget
) -> Transform:
    """Find the maps that bring entries to mean squares of 1."""
    is_vector, centered = problem.facts.is_vector, problem.fit_intercept
    if not problem.protects_matrices:
        if is_vector:
            found = exact_standardization(design, centered=centered)
            return Transform(found.center, found.multiplier)
        return Transform(multiplier=_unit_variance(scales.exact_norm(design), design))
    plan = standardization_of(problem)
    if plan is not None:
        found = release_standardization(design, budget, plan, centered=centered)
        return Transform(found.center, found.multiplier, rare=found.rare, largest=found.largest)
    norm = scales.release_norm(design, np.isnan(responses), budget)
    return Transform(multiplier=_unit_variance(norm, design))


def _unit_variance(norm: float, design: Design) -> float:
    """Return the factor that gives entries a mean square of 1 if matrices have that norm."""
    return math.sqrt(design.n_entries) / norm


def _solve_gradient(
    problem: TraceProblem,
    steps: Sequence[Step],
    records: Records,
    spread: scales.Spread,
    transform: Transform,
    budget: PrivacyBudget,
    generator: np.random.Generator,
) -> Estimate:
    start = random_start(records.design.matrix_shape, problem.rank, generator)
    if problem.init == "spectral":
        start = release_start(records, start, spread.size, budget)
    clipping: Clipping = RecordClipping(records, budget.adjacency)
    if not problem.protects_matrices:
        clipping = ResponseClipping(records, budget.adjacency, _range(problem))
    descent = _descent(problem, steps, records, spread, transform)
    return descend(clipping, start, budget, descent)


def _descent(
    problem: TraceProblem,
    steps: Sequence[Step],
    records: Records,
    spread: scales.Spread,
    transform: Transform,
) -> Descent:
    quantile = problem.clip_quantile
    if isinstance(quantile, str):
        quantile = _usual_quantile(problem, records, spread, transform)
    # Cells of a table that are seen more or less often, say, have no smallest variance.
    is_even = problem.covariance == "identity"
    is_even = is_even or _is_white(transform, records.design.matrix_shape)
    return Descent(
        steps=steps,
        quantile=quantile,
        spread=spread.size,
        spread_to_level=float(ndtri((1 + quantile) / 2)),
        largest_coefficients=_largest_coefficients(
            problem, spread.size, transform, records.design.matrix_shape
        ),
        least_curvature=transform.least_variance if is_even else 0.0,
    )


def _usual_quantile(
    problem: TraceProblem, records: Records, spread: scales.Spread, transform: Transform
) -> float:
    """Choose the fraction of unclipped records from public and released facts.

    The gradients of sparse and rank-one matrices differ too much in length for a low fraction. Else
    a low one has the least noise for its signal, but a median of the residuals is worse than their
    mean where there is hardly any noise. Of responses that are mostly the same, half of the others
    are not to be clipped.
    """
    if spread.others < 1:
        return max(_QUANTILE_OF_UNLIKE, 1 - spread.others / 2)
    if _is_sparse(transform.rare) or not records.design.is_written_out:
        return _QUANTILE_OF_UNLIKE
    return _QUANTILE_OF_MANY if signal_strength(problem) > _MANY else _QUANTILE


def _is_sparse(rare: RareFeatures | None) -> bool:
    """Whether many records have none of the features that others differ by."""
    return rare is not None and rare.are_many and rare.n_features * rare.fraction < _FEW


def _solve_moments(
    problem: TraceProblem,
    records: Records,
    spread: float,
    bound: float,
    transform: Transform,
    budget: PrivacyBudget,
) -> Estimate:
    response_bound = min(_RESPONSE_SPREADS * spread, 2 * bound)
    if not problem.protects_matrices:
        return solve_public_design(
            records,
            problem.rank,
            budget,
            response_bound=response_bound,
            response_range=_range(problem),
        )
    row_norm = math.inf if problem.row_norm is None else problem.row_norm
    if problem.row_norm is None and budget.is_private:
        row_norm = release_row_norm(records, budget)
        if transform.rare is not None and transform.rare.are_many:
            # Most rows may be without any of the rare features.
            row_norm = max(row_norm, _ROOM / math.sqrt(transform.rare.fraction))
    return solve_adassp(
        records,
        problem.rank,
        budget,
        row_norm=row_norm,
        response_bound=response_bound,
    )


def _largest_coefficients(
    problem: TraceProblem, spread: float, transform: Transform, shape: tuple[int, int]
) -> float:
    """Bound the norm of coefficients by the spread of the responses that they explain."""
    if problem.covariance == "identity":
        return _SPREAD_MARGIN * spread
    if problem.covariance != "private":
        return _SPREAD_MARGIN * spread if _is_white(transform, shape) else math.inf
    return _RELEASED_MARGIN * spread / math.sqrt(max(transform.least_variance, 1e-12))


def _is_white(transform: Transform, shape: tuple[int, int]) -> bool:
    """Whether both sides are mapped, as far as they need to be."""
    maps = (transform.row_map, transform.column_map)
    return all(m is not None for m, n in zip(maps, shape, strict=True) if n > 1)


def _range(problem: TraceProblem) -> float:
    """Bound how far a response can change."""
    return math.inf if problem.response_bound is None else 2 * problem.response_bound
