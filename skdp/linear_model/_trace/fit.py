"""From records and a budget to a released matrix and intercept."""

import math
from dataclasses import replace
from functools import partial

import numpy as np

from skdp._scales import release_scales
from skdp.data.matrices import Design
from skdp.data.parts import Targets
from skdp.linear_model._medians import median_of_responses
from skdp.linear_model._trace import scales
from skdp.linear_model._trace.clipping import Clipping, RecordClipping, ResponseClipping
from skdp.linear_model._trace.covariances import exact_whitening, release_whitening
from skdp.linear_model._trace.descent import Estimate, descend
from skdp.linear_model._trace.initial import random_start, release_start
from skdp.linear_model._trace.plan import TraceReleases
from skdp.linear_model._trace.problem import TraceProblem
from skdp.linear_model._trace.records import Records
from skdp.linear_model._trace.standardization import exact_standardization, standardized_by
from skdp.linear_model._trace.transform import Transform, inverse_root
from skdp.linear_model._trace.warnings import signal_strength, warnings_for_fit
from skdp.privacy import PrivacyBudget

# Wanted fractions of unclipped gradients: benchmarks/trace_regression/errors.md, "Designs", and
# defaults.md, "quantile", of the first and the last, which is also in
# benchmarks/house/constants.md; .8 is not studied.
_QUANTILE, _QUANTILE_OF_STRONG, _QUANTILE_OF_UNLIKE = 0.5, 0.8, 0.9
# With a stronger signal than that, clipping costs more than it saves; not studied.
_STRONG_SIGNAL = 300.0
# The norm of the coefficients is taken to be at most the spread of the responses times this margin,
# or times the second one where a released covariance makes the features uncorrelated. Not studied.
_SPREAD_MARGIN = 1.1
_RELEASED_MARGIN = 1.5


def solve_trace(
    problem: TraceProblem,
    plan: TraceReleases,
    view: Records,
    budget: PrivacyBudget,
    generator: np.random.Generator,
) -> Estimate:
    """Release the scales, then the coefficients and the intercept, in the units of the data."""
    bound, center, n_jobs = problem.largest_response, 0.0, view.design.n_jobs
    responses = view.responses.mapped(partial(_centered, center=center, bound=bound))
    if plan.response_center:
        center = median_of_responses(plan.response_center, responses, budget, n_jobs)
        responses = view.responses.mapped(partial(_centered, center=center, bound=bound))
    transform = _transform(problem, plan, view.design, responses, budget)
    # Without noise nothing is clipped: the spread is infinite.
    spread = scales.Spread(math.inf)
    if plan.response_spread is not None:
        farthest = bound + abs(center)
        spread = scales.release_spread(plan.response_spread, responses, budget, farthest, n_jobs)
    records = Records(transform.apply(view.design), responses, view.intercept)
    estimate = _descend(problem, plan, records, spread, transform, budget, generator)
    point, offset = transform.undo(estimate)
    warnings = warnings_for_fit(problem, spread, transform, estimate.n_cut)
    return Estimate(
        point, center + offset, warnings=(*estimate.warnings, *warnings), bounds=transform.bounds
    )


def _centered(responses: np.ndarray, center: float, bound: float) -> np.ndarray:
    """Clip and center responses; one that is not finite in a later pass makes a null record."""
    return np.where(np.isfinite(responses), np.clip(responses, -bound, bound) - center, np.nan)


def _transform(
    problem: TraceProblem,
    plan: TraceReleases,
    design: Design,
    responses: Targets,
    budget: PrivacyBudget,
) -> Transform:
    """Return the map to entries that are uncorrelated, of variance 1: as promised, or released."""
    if not isinstance(problem.covariance, str):
        maps = [None if side is None else inverse_root(side) for side in problem.covariance]
        return Transform(row_map=maps[0], column_map=maps[1])
    if problem.covariance == "identity":
        return Transform()
    scaled = _scales(problem, plan, design, responses, budget)
    view = scaled.apply(design)
    if problem.protects_matrices:
        maps, least_variance = release_whitening(plan.covariances, view, responses, budget)
    else:
        maps, least_variance = exact_whitening(view)
    return replace(scaled, row_map=maps[0], column_map=maps[1], least_variance=least_variance)


def _scales(
    problem: TraceProblem,
    plan: TraceReleases,
    design: Design,
    responses: Targets,
    budget: PrivacyBudget,
) -> Transform:
    """Return the map to entries whose mean square is 1, each by itself or all together."""
    if plan.features is not None:
        shape = design.n_records, design.n_entries
        found = release_scales(plan.features, design, shape, problem.interval, budget)
        return standardized_by(found, problem)
    if plan.matrix_norm is not None:
        norm = scales.release_norm(plan.matrix_norm, design, responses, budget)
    elif problem.is_vector:
        return exact_standardization(design, centered=problem.fit_intercept)
    else:
        norm = scales.exact_norm(design)
    return Transform(multiplier=math.sqrt(design.n_entries) / norm)


def _descend(
    problem: TraceProblem,
    plan: TraceReleases,
    records: Records,
    spread: scales.Spread,
    transform: Transform,
    budget: PrivacyBudget,
    generator: np.random.Generator,
) -> Estimate:
    start = random_start(records.design.matrix_shape, problem.rank, generator)
    if plan.start is not None:
        start = release_start(plan.start, records, start, spread.size, budget)
    clipping: Clipping = RecordClipping(records)
    if not problem.protects_matrices:
        clipping = ResponseClipping(records, 2 * problem.largest_response)
    quantile = problem.clip_quantile
    if isinstance(quantile, str):
        quantile = _default_quantile(problem, records, spread, transform)
    # Without whitening the smallest variance is not known: some cells of a table may be rare.
    is_white = problem.covariance == "identity" or _is_white(transform, start.shape)
    return descend(
        plan.steps,
        clipping,
        start,
        budget,
        spread=spread.size,
        quantile=quantile,
        largest_coefficients=_largest_coefficients(problem, spread, transform, is_white=is_white),
        least_curvature=transform.least_variance if is_white else 0.0,
    )


def _default_quantile(
    problem: TraceProblem, records: Records, spread: scales.Spread, transform: Transform
) -> float:
    """Choose the fraction of unclipped records from public and released facts.

    A low fraction has the least noise for its signal, but with hardly any noise a median of the
    residuals is worse than their mean. The gradients of sparse and of rank-one matrices differ too
    much in length for a low fraction. If most responses are the same, half of the others are left
    unclipped.
    """
    if spread.fraction_off_center < 1:
        return max(_QUANTILE_OF_UNLIKE, 1 - spread.fraction_off_center / 2)
    if transform.are_rare or not records.design.is_written_out:
        return _QUANTILE_OF_UNLIKE
    return _QUANTILE_OF_STRONG if signal_strength(problem) > _STRONG_SIGNAL else _QUANTILE


def _largest_coefficients(
    problem: TraceProblem, spread: scales.Spread, transform: Transform, *, is_white: bool
) -> float:
    """Bound the norm of coefficients by the spread of the responses.

    For uncorrelated features of variance 1 it is at most the spread of what they explain.
    """
    if problem.covariance == "private":
        return _RELEASED_MARGIN * spread.size / math.sqrt(max(transform.least_variance, 1e-12))
    return _SPREAD_MARGIN * spread.size if is_white else math.inf


def _is_white(transform: Transform, shape: tuple[int, int]) -> bool:
    """Tell whether all sides longer than 1 are whitened."""
    maps = (transform.row_map, transform.column_map)
    return all(m is not None for m, n in zip(maps, shape, strict=True) if n > 1)
