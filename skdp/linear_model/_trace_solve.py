"""From checked input and a budget to a released matrix and intercept."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtri

from skdp.linalg.design import Design
from skdp.linalg.fixed_rank import FixedRank, within_norm
from skdp.linear_model._solvers import scales
from skdp.linear_model._solvers.adassp import (
    release_row_norm,
    row_norm_steps,
    solve_public_design,
    solve_sufficient_statistics,
)
from skdp.linear_model._solvers.clipping import Clipping, RecordClipping, ResponseClipping
from skdp.linear_model._solvers.covariances import exact_whitening, release_whitening
from skdp.linear_model._solvers.gradient import Descent, Estimate, descend, gradient_shares
from skdp.linear_model._solvers.initial import START_SHARE, random_start, release_start
from skdp.linear_model._solvers.records import Records
from skdp.linear_model._solvers.spaces import AllDirections, TangentSpace
from skdp.linear_model._solvers.standardization import (
    plan_standardization,
    release_standardization,
)
from skdp.linear_model._trace_parameters import (
    CheckedInput,
    doubts_of_cells,
    signal_strength,
)
from skdp.linear_model._transform import Transform, inverse_root
from skdp.privacy import PrivacyBudget

__all__ = ["TraceResult", "solve"]

# Rows with one rare feature are not to be clipped, and those with two only by as much.
_ROOM = 1.25
# With a bound of the responses in normal units: all but one per cent of them are below it.
_RESPONSE_SPREADS = 2.5
# Standard deviation of a count of unclipped records, as a share of all.
_VOTE_PRECISION = 0.03
_QUANTILE, _QUANTILE_OF_MANY, _QUANTILE_OF_UNLIKE = 0.5, 0.8, 0.9
# With so few rare features a record, many records have none, and their gradients are short.
_FEW = 2.0
# So strong a signal beside the noise that clipping costs more than it saves.
_MANY = 300.0
# The norm of the coefficients of uncorrelated features is at most the spread of the responses,
# with some room, and more where it is a released covariance that makes them uncorrelated.
_SPREAD_MARGIN = 1.1
_RELEASED_MARGIN = 1.5


@dataclass(frozen=True)
class TraceResult:
    """What a fit releases, in the units of the data."""

    point: FixedRank
    intercept: float
    n_cut: int
    doubts: tuple[str, ...] = ()


def solve(
    parameters: Any,
    checked: CheckedInput,
    budget: PrivacyBudget,
    generator: np.random.Generator,
) -> TraceResult:
    """Release the scales, then the coefficients, with the parameters of an estimator."""
    bound = math.inf if parameters.response_bound is None else parameters.response_bound
    responses = np.clip(checked.responses, -bound, bound)
    center = 0.0
    if parameters.fit_intercept:
        center = scales.release_center(responses, budget, bound)
        responses = responses - center
    design = Design(checked.source, checked.matrix_shape, parameters.n_jobs)
    transform = _transform(parameters, checked, design, responses, budget)
    spread = scales.Spread(math.inf)
    if budget.is_private:
        spread = scales.release_spread(responses, budget, bound + abs(center))
    records = Records(transform.apply(design), responses, float(parameters.fit_intercept))
    if parameters.solver == "adassp":
        estimate = _solve_moments(parameters, records, spread.size, bound, transform, budget)
    else:
        estimate = _solve_gradient(parameters, records, spread, transform, budget, generator)
    point, offset = transform.undo(estimate)
    if parameters.coef_bound is not None:
        point = within_norm(point, parameters.coef_bound)
    doubts = (
        *estimate.doubts,
        *_doubts_of_scales(spread, transform.rare),
        *doubts_of_cells(parameters, checked, transform, budget.mu),
    )
    return TraceResult(point, center + offset, estimate.n_cut, doubts)


def _doubts_of_scales(spread: scales.Spread, rare: scales.RareFeatures | None) -> tuple[str, ...]:
    """Doubt the scales of responses and rare features that noise hides."""
    doubts = []
    if spread.is_guess:
        doubts.append(
            "Too few responses differ from the median to be told from noise. Pass response_bound, "
            "a public bound of their size, a larger epsilon, or more records."
        )
    if rare is not None and rare.is_guess:
        doubts.append(
            f"{rare.n_features} of the features hardly differ, being constant or rare: where they "
            "do, they are taken to be about as large as the others, or 1. If one is in much larger "
            "units, divide it by a public guess of its size."
        )
    return tuple(doubts)


def _transform(
    parameters: Any,
    checked: CheckedInput,
    design: Design,
    responses: np.ndarray,
    budget: PrivacyBudget,
) -> Transform:
    """Choose the maps that make the entries alike: known, public, or released."""
    if parameters.row_cov is not None or parameters.col_cov is not None:
        covariances = (parameters.row_cov, parameters.col_cov)
        maps = [None if c is None else inverse_root(np.asarray(c, np.float64)) for c in covariances]
        return Transform(row_map=maps[0], column_map=maps[1])
    if parameters.isotropic or parameters.scale is None:
        return Transform()
    scaled = _scales(parameters, checked, design, responses, budget)
    if parameters.solver == "adassp":
        return scaled
    view, is_null = scaled.apply(design), np.isnan(responses)
    if parameters.privacy_unit == "response":
        rows, columns = exact_whitening(view, 0), exact_whitening(view, 1)
    else:
        rows = release_whitening(view, 0, is_null, budget)
        columns = release_whitening(view, 1, is_null, budget)
    return replace(
        scaled,
        row_map=rows.symmetric_map,
        column_map=columns.symmetric_map,
        least_variance=rows.least_variance * columns.least_variance,
    )


def _scales(
    parameters: Any,
    checked: CheckedInput,
    design: Design,
    responses: np.ndarray,
    budget: PrivacyBudget,
) -> Transform:
    """Find the maps that bring entries to mean squares of 1."""
    is_vector = checked.is_dense and min(checked.matrix_shape) == 1
    centered = parameters.fit_intercept
    if parameters.privacy_unit == "response":
        if is_vector:
            found = scales.exact_standardization(design, centered=centered)
            return Transform(found.center, found.multiplier)
        return Transform(multiplier=_unit_variance(scales.exact_norm(design), design))
    plan = plan_standardization(design.n_entries, design.n_records, budget.mu, centered=centered)
    if is_vector and plan is not None:
        found = release_standardization(design, budget, plan, centered=centered)
        return Transform(found.center, found.multiplier, rare=found.rare)
    norm = scales.release_norm(design, np.isnan(responses), budget)
    return Transform(multiplier=_unit_variance(norm, design))


def _unit_variance(norm: float, design: Design) -> float:
    """Return the factor that gives entries a mean square of 1 if matrices have that norm."""
    return math.sqrt(design.n_entries) / norm


def _solve_gradient(
    parameters: Any,
    records: Records,
    spread: scales.Spread,
    transform: Transform,
    budget: PrivacyBudget,
    generator: np.random.Generator,
) -> Estimate:
    shape = records.design.matrix_shape
    rank = min(shape) if parameters.solver == "gd" else parameters.rank
    space = TangentSpace(rank) if parameters.solver == "rgrad" else AllDirections(rank)
    share = _left(budget)
    start = random_start(shape, rank, generator)
    if parameters.init != "random":
        share -= START_SHARE
        start = release_start(parameters.init, records, start, spread.size, budget)
    clipping: Clipping = RecordClipping(records, space, budget.adjacency)
    if parameters.privacy_unit == "response":
        clipping = ResponseClipping(records, space, budget.adjacency, _range(parameters))
    descent = _descent(parameters, records, spread, transform, budget.mu, share)
    return descend(clipping, start, budget, descent)


def _descent(
    parameters: Any,
    records: Records,
    spread: scales.Spread,
    transform: Transform,
    mu: float,
    share: float,
) -> Descent:
    n_steps = parameters.n_iter
    votes = scales.counts_share(n_steps, records.n_records, mu, precision=_VOTE_PRECISION)
    quantile = parameters.clip_quantile
    if quantile == "auto":
        quantile = _usual_quantile(parameters, records, spread, transform, mu)
    # Cells of a table that are seen more or less often, say, have no smallest variance.
    is_even = parameters.isotropic or parameters.scale is None
    is_even = is_even or _is_white(transform, records.design.matrix_shape)
    return Descent(
        step_size=parameters.step_size,
        quantile=quantile,
        gradient_shares=gradient_shares(share - votes, n_steps),
        vote_share=votes / n_steps,
        spread=spread.size,
        spread_to_level=float(ndtri((1 + quantile) / 2)),
        largest_coefficients=_largest_coefficients(
            parameters, spread.size, transform, records.design.matrix_shape
        ),
        least_curvature=transform.least_variance if is_even else 0.0,
        noise_cut=parameters.noise_cut,
    )


def _usual_quantile(
    parameters: Any, records: Records, spread: scales.Spread, transform: Transform, mu: float
) -> float:
    """Choose the share of unclipped records from public and released facts.

    The gradients of sparse and rank-one matrices differ too much in length for a low share. Else a
    low one has the least noise for its signal, but a median of the residuals is worse than their
    mean where there is hardly any noise. Of responses that are mostly the same, half of the others
    are not to be clipped.
    """
    if spread.others < 1:
        return max(_QUANTILE_OF_UNLIKE, 1 - spread.others / 2)
    if _is_sparse(transform.rare) or not records.design.is_written_out:
        return _QUANTILE_OF_UNLIKE
    shape = records.design.matrix_shape
    strength = signal_strength(parameters, records.n_records, shape, mu)
    return _QUANTILE_OF_MANY if strength > _MANY else _QUANTILE


def _is_sparse(rare: scales.RareFeatures | None) -> bool:
    """Whether many records have none of the features that others differ by."""
    return rare is not None and rare.are_many and rare.n_features * rare.share < _FEW


def _solve_moments(
    parameters: Any,
    records: Records,
    spread: float,
    bound: float,
    transform: Transform,
    budget: PrivacyBudget,
) -> Estimate:
    response_bound = min(_RESPONSE_SPREADS * spread, 2 * bound)
    if parameters.privacy_unit == "response":
        return solve_public_design(
            records,
            parameters.rank,
            budget,
            response_bound=response_bound,
            response_range=_range(parameters),
            share=_left(budget),
        )
    row_norm = math.inf if parameters.row_norm is None else parameters.row_norm
    if parameters.row_norm is None and budget.is_private:
        share = scales.counts_share(row_norm_steps(), records.n_records, budget.mu)
        row_norm = release_row_norm(records, budget, share)
        if transform.rare is not None and transform.rare.are_many:
            # Most rows may be without any of the rare features.
            row_norm = max(row_norm, _ROOM / math.sqrt(transform.rare.share))
    return solve_sufficient_statistics(
        records,
        parameters.rank,
        budget,
        row_norm=row_norm,
        response_bound=response_bound,
        share=_left(budget),
    )


def _largest_coefficients(
    parameters: Any, spread: float, transform: Transform, shape: tuple[int, int]
) -> float:
    """Bound the norm of what is fitted."""
    is_scaled = transform.row_map is None and transform.column_map is None
    own = math.inf
    if parameters.coef_bound is not None and is_scaled and np.ndim(transform.multiplier) == 0:
        own = float(parameters.coef_bound / transform.multiplier)
    return min(own, _usual_bound(parameters, spread, transform, shape))


def _usual_bound(
    parameters: Any, spread: float, transform: Transform, shape: tuple[int, int]
) -> float:
    """Bound the norm of coefficients by the spread of the responses that they explain."""
    if parameters.isotropic:
        return _SPREAD_MARGIN * spread
    if parameters.row_cov is not None or parameters.col_cov is not None:
        return _SPREAD_MARGIN * spread if _is_white(transform, shape) else math.inf
    if parameters.scale is None:
        return math.inf
    return _RELEASED_MARGIN * spread / math.sqrt(max(transform.least_variance, 1e-12))


def _is_white(transform: Transform, shape: tuple[int, int]) -> bool:
    """Whether both sides are mapped, as far as they need to be."""
    maps = (transform.row_map, transform.column_map)
    return all(m is not None for m, n in zip(maps, shape, strict=True) if n > 1)


def _range(parameters: Any) -> float:
    """Bound how far a response can change."""
    return math.inf if parameters.response_bound is None else 2 * parameters.response_bound


def _left(budget: PrivacyBudget) -> float:
    """Compute the share of the budget that is not spent."""
    return 1 - math.fsum(release.share for release in budget.spent().releases)
