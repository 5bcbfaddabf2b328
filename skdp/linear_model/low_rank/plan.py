"""The releases of a trace regression, and their shares, from public facts."""

import math
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from skdp.linalg.norms import n_halvings
from skdp.linear_model import _descent as descents
from skdp.linear_model.low_rank.records import N_POWERS, diagonal_limit
from skdp.linear_model.low_rank.spec import TraceSpec
from skdp.preprocessing.intervals import OTHER_UNITS_OF_X
from skdp.preprocessing.scales import ScaleReleases, ScaleSpec, plan_scales
from skdp.privacy import Release, sensitivity
from skdp.privacy.clipping import NO_CLIPPING
from skdp.privacy.plan import AnyOf, left_of, plan_sum, share_for_counts
from skdp.privacy.releases import SCALE_GRID, Search

# Wanted noise of a count, as a fraction of the records: `_PRECISION` in searches, `_BIN_PRECISION`
# in the histogram of responses. As far as the share `_SPARE_SHARE` affords it, the histogram has
# less noise, down to `_FINE_PRECISION`, to show rare responses. benchmarks/house/constants.md has
# .01.
_PRECISION = 0.05
_BIN_PRECISION, _FINE_PRECISION = 0.01, 0.003
_SPARE_SHARE = 0.025
_LEAST_SHARE = 2e-3
_SHARE_LIMITS = _LEAST_SHARE, 0.1
# If the noise of a count exceeds this fraction of the records, a search is useless; not studied.
_USELESS = 0.2
# Scales of features: the wanted noise is `_SIZES_PRECISION` for a count of entries by size, as a
# fraction of the records, and `_MOMENTS_PRECISION` for a mean, in half widths of the interval of
# its feature. The share of counts and the share of means are at least `_LEAST_FEATURE_SHARE`.
_SIZES_PRECISION, _MOMENTS_PRECISION = 0.0035, 0.005  # not studied
_LEAST_FEATURE_SHARE = 0.01  # not studied
_LARGEST_SIZES_SHARE, _LARGEST_MOMENTS_SHARE = 0.07, 0.15  # benchmarks/trace_regression/scales.md
# Share of finer counts, which find the center of a feature whose spread is small beside its center.
_PLACES_SHARE = 0.03  # benchmarks/trace_regression/looks.md
# Wanted noise of the eigenvalues of a covariance, which are near 1. Limits of the share of the
# covariance: benchmarks/house/constants.md varies the upper one.
_WANTED_EDGE = 0.3
_LEAST_WHITENING_SHARE, _LARGEST_WHITENING_SHARE = 5e-3, 0.05
# For covariances, d1 x d2 matrices are clipped to `_CLIP` times sqrt(d1 d2), their norm if entries
# have mean square 1: benchmarks/house/constants.md. Rows of features are clipped less, as far as
# the noise of eigenvalues stays below `_WANTED_NOISE`, and at most down to the clipped fraction
# `_LEAST_CLIPPED`: benchmarks/budgets/clipping.md.
_CLIP, _LEAST_CLIPPED, _WANTED_NOISE = 1.3, 1 / 256, 0.1
# Largest share of a start with singular values; the steps get at least as much.
_START_SHARE = 0.25  # not studied
# The share of a start with singular vectors alone is within `_DIRECTION_SHARES`, and should reach
# the signal-to-noise ratio `_WANTED_STRENGTH`. If the ratio is below `_LEAST_STRENGTH` even with
# the whole budget, the start is random. benchmarks/trace_regression/starts.md
_DIRECTION_SHARES, _WANTED_STRENGTH, _LEAST_STRENGTH = (0.01, 0.1), 16.0, 5.0
# Wanted noise of a count of unclipped records, as a fraction of all records; not studied.
_VOTE_PRECISION = 0.03
# Wanted noise of the calibration sums, as a fraction of the records, and limits of their share.
_CALIBRATION_PRECISION, _CALIBRATION_LIMITS = 0.01, (2e-3, 0.08)  # not studied beyond weak signals
# Share of a step, relative to the share of the step before: benchmarks/house/constants.md.
_GROWTH = 1.2
# Wanted noise of a count in a histogram of curvatures, as a fraction of the records, and the
# largest share of all such histograms. Not studied beyond digits, sensors and independent entries.
_CURVATURE_PRECISION, _LARGEST_CURVATURE_SHARE = 0.035, 0.08
# Shares of means of matrices: the first is taken around 0, each further one around the last.
_MEAN_SHARES = 0.01, 0.02, 0.03  # not studied
# Shares of the sums by row and column: of responses before the steps, of residuals after the steps.
# benchmarks/trace_regression/margins.md
_MARGINS_SHARES = 0.1, 0.15
# Largest share of the spread of residuals, if the spread only shows whether predictions are worse
# than a constant; not studied.
_LARGEST_SHARE_OF_RESIDUALS = 0.02
# Largest share of the search for the norm of matrices around a released center.
_LARGEST_SHARE_OF_NORM = 0.02  # not tuned
# Names of releases. The spread of the responses sets the first clip level of gradients.
_SPREAD = descents.RESPONSE_SPREAD
_RESIDUALS = "residual spread"


# Releases of one round of a center: the median distance of matrices from the last round's center,
# and the mean of their clipped differences from this center.
CenterReleases = tuple[Search, Release]


class FittedReleases(NamedTuple):
    """Releases after the first mean of the matrices."""

    # Further means of matrices; () unless the first mean is far from 0.
    centers: tuple[CenterReleases, ...]
    # The median norm of matrices; None if it is known, or if matrices or covariances are public.
    matrix_norm: Search | None
    # Covariances of rows and of columns; None for a side of length 1; () if they are public.
    covariances: tuple[Release | None, ...]
    # The spread of responses; None without noise, as nothing is clipped.
    response_spread: Release | None
    # Sums of responses by row and column of a table; None for other matrices.
    margins: Release | None
    # The start; None if it is random.
    start: Release | None
    steps: tuple[descents.DescentStep, ...]
    # The calibration of coefficients and intercept; None unless the signal is weak.
    calibration: Release | None
    # The spread of residuals after the steps; None if it is not needed.
    last_spread: Release | None
    # Sums of residuals by row and column of a table; None for other matrices.
    last_margins: Release | None


class TraceReleases(NamedTuple):
    """All releases of a fit: centers and scales, then the descent."""

    # The median of the responses; () without an intercept, or if noise would hide the median.
    response_center: tuple[Search, ...]
    # Scales of each feature; None for matrices, and if features or their covariance are public.
    features: ScaleReleases | None
    # The first mean of matrices; None if they are not centered.
    first_center: CenterReleases | None
    # One `FittedReleases`; or, if there is a first mean, a second one for matrices far from 0.
    branches: AnyOf


def plan_trace(spec: TraceSpec) -> TraceReleases:
    """Plan all releases in their order."""
    is_private = spec.has_private_scales
    features = _plan_features(spec) if is_private and spec.is_vector else None
    first = _plan_round(spec, 0) if is_private and spec.is_centered else None
    center = descents.plan_center(
        spec,
        refined=(_LEAST_SHARE, _PRECISION),
        precision=_PRECISION,
        limits=_SHARE_LIMITS,
        useless=_USELESS,
    )
    before = center, features, first
    has_norm = is_private and features is None and first is None
    branches = [_plan_fit(spec, before, _plan_norm(spec, 0) if has_norm else None)]
    if first is not None:
        rounds = range(1, len(_MEAN_SHARES)) if spec.cost.is_private else ()
        centers = tuple(_plan_round(spec, number) for number in rounds)
        norm = _plan_norm(spec, len(centers) + 1)
        branches.append(_plan_fit(spec, before, norm, centers))
    return TraceReleases(*before, AnyOf(tuple(branches)))


def _plan_fit(
    spec: TraceSpec, before: Any, norm: Search | None, centers: tuple[CenterReleases, ...] = ()
) -> FittedReleases:
    """Plan the releases after the first mean: scales, a start, and steps.

    The steps get the share that all other releases leave, including those in `before`. The means
    of `centers` refine the first mean.
    """
    spread = _plan_spread(spec) if spec.cost.is_private else None
    sides = (0, 1) if spec.has_private_scales else ()
    covariances = tuple(_plan_covariance(side, spec) for side in sides)
    margins, *last = _plan_margins(spec)
    scales = centers, norm, covariances, spread, margins
    start, share = None, left_of(before, scales, last)
    # Shares of the counts of unclipped records, and of the curvatures, for all steps.
    n_steps = spec.n_iter
    votes, curvatures = _share_of_counts(n_steps, spec, _VOTE_PRECISION), 0.0
    if spec.has_curvatures:
        limits = _LEAST_SHARE, _LARGEST_CURVATURE_SHARE
        curvatures = share_for_counts(spec, 2 * n_steps, _CURVATURE_PRECISION, limits)
    if wanted := _share_of_start(spec):
        left = (share - (votes + curvatures)) / 2
        of_start = min(wanted, left) if n_steps else share
        start = plan_sum(spec, "start", of_start, (spec.n_entries,), _SPREAD, sensitivity.row_sum)
        share -= of_start
    calibration = None
    if spec.is_weak:
        part = share_for_counts(spec, 1, _CALIBRATION_PRECISION, _CALIBRATION_LIMITS)
        calibration = descents.plan_calibration(spec, part)
        share -= part
    steps = _plan_steps(spec, share, votes, curvatures) if n_steps else ()
    return FittedReleases(*scales, start, steps, calibration, *last)


def _share_of_start(spec: TraceSpec) -> float:
    """Return the largest share of a start from data, or 0 for a random start."""
    is_written_out = spec.factors is None and min(spec.matrix_shape) > 1
    if spec.init != "auto" or not is_written_out:
        return _START_SHARE * (spec.init == "spectral")
    # The strength is the singular value of a signal whose singular values are all equal, over the
    # largest singular value of the noise.
    edge = math.sqrt(spec.n_entries * spec.rank) * sum(np.sqrt(spec.matrix_shape))
    strength = spec.n_units * spec.cost.mu / edge
    share = float(np.clip((_WANTED_STRENGTH / strength) ** 2, *_DIRECTION_SHARES))
    return share * (strength >= _LEAST_STRENGTH)


def _share_of_counts(count: int, spec: TraceSpec, precision: float = _PRECISION) -> float:
    return share_for_counts(spec, count, precision, _SHARE_LIMITS)


def _plan_spread(spec: TraceSpec, name: str = _SPREAD) -> Release:
    """Plan the histogram of sizes of responses, or of residuals."""
    least = _share_of_counts(2, spec, _BIN_PRECISION)
    fine = _share_of_counts(2, spec, _FINE_PRECISION)
    return _plan_powers(spec, name, max(least, min(fine, _SPARE_SHARE)))


def _plan_powers(spec: TraceSpec, name: str, share: float) -> Release:
    """Plan a histogram of numbers by powers of two; without noise, their sum."""
    if not spec.cost.is_private:
        unbounded = partial(float, math.inf)
        return spec.cost.release(name, "gaussian", share, unbounded, {}, shape=(1,))
    change, shape = partial(sensitivity.histograms, 1, spec.unit.adjacency), (1, N_POWERS)
    return spec.cost.release(name, "gaussian", share, change, {}, shape=shape)


def _plan_margins(spec: TraceSpec) -> tuple[Release | None, ...]:
    """Plan sums by row and column of a table, the spread of residuals, and sums of residuals."""
    if not spec.has_margins:
        # The spread of residuals only shows whether predictions are worse than a constant.
        share = min(_share_of_counts(2, spec, _BIN_PRECISION), _LARGEST_SHARE_OF_RESIDUALS)
        is_planned = spec.cost.is_private and spec.has_curvatures and spec.n_iter > 0
        return None, _plan_powers(spec, _RESIDUALS, share) if is_planned else None, None
    name, (first, last), shape = "row and column sums", _MARGINS_SHARES, (sum(spec.matrix_shape),)
    spread = _plan_spread(spec, _RESIDUALS) if spec.cost.is_private else None
    return (
        plan_sum(spec, name, first, shape, _SPREAD, sensitivity.row_sum),
        spread,
        plan_sum(spec, f"residual {name}", last, shape, _RESIDUALS, sensitivity.row_sum),
    )


def _plan_norm(spec: TraceSpec, number: int) -> Search:
    """Plan the search for the median distance of matrices from a center, which is 0 at first."""
    name, share = "matrix norm", _share_of_counts(n_halvings(len(SCALE_GRID)), spec)
    if number:
        name, share = f"{name} around center {number}", min(share, _LARGEST_SHARE_OF_NORM)
    return spec.cost.search(name, share, SCALE_GRID, remedy=OTHER_UNITS_OF_X)


def _plan_round(spec: TraceSpec, number: int) -> CenterReleases:
    """Plan the median distance of matrices from center `number`, and then the next center.

    The next center is the last one plus the mean difference of the matrices from it; differences
    are clipped to a multiple of this distance.
    """
    norm, name = _plan_norm(spec, number), f"matrix mean {number + 1}"
    share, shape = _MEAN_SHARES[number], (spec.n_entries,)
    return norm, plan_sum(spec, name, share, shape, norm.name, sensitivity.row_sum)


def _plan_features(spec: TraceSpec) -> ScaleReleases:
    """Plan the scales of each feature: as precise as wanted, within limits of the shares."""
    least, places = _LEAST_FEATURE_SHARE, _PLACES_SHARE
    share_for = partial(share_for_counts, spec, spec.n_entries)
    sizes = share_for(_SIZES_PRECISION, (least, _LARGEST_SIZES_SHARE))
    moments = share_for(_MOMENTS_PRECISION, (least, _LARGEST_MOMENTS_SHARE))
    known = {name: getattr(spec, name) for name in ("cost", "unit", "n_units", "rounding")}
    facts = ScaleSpec(**known, n_features=spec.n_entries, interval=None)
    return plan_scales(facts, sizes=sizes, places=places, moments=moments + places)


def _plan_covariance(side: int, spec: TraceSpec) -> Release | None:
    """Plan the covariance of rows or of columns, with the wanted noise of eigenvalues."""
    # The sensitivity of second moments x x' of vectors also holds here. Its proof needs two facts,
    # which also hold for X X' and for its diagonal: the norm is at most the squared norm of X, and
    # two such products have a nonnegative inner product.
    change = sensitivity.second_moment
    size, other = spec.matrix_shape[side], spec.matrix_shape[1 - side]
    if size == 1:
        return None
    is_sparse = spec.factors is not None and spec.factors[side]
    bound = covariance_bound(spec)
    limit = diagonal_limit(size) if is_sparse else math.sqrt(2 * size)
    largest = change(bound, spec.unit.adjacency, spec.rounding)
    edge = largest * limit / (spec.n_units * other)
    wanted = (edge / (spec.cost.mu * _WANTED_EDGE)) ** 2
    share = float(np.clip(wanted, _LEAST_WHITENING_SHARE, _LARGEST_WHITENING_SHARE))
    name = ("row", "column")[side]
    if is_sparse:
        return plan_sum(spec, f"{name} variances", share, (size,), bound, change)
    name, shape, mechanism = f"{name} covariance", (size, size), "symmetric_gaussian"
    return plan_sum(spec, name, share, shape, bound, change, mechanism)


def covariance_bound(spec: TraceSpec) -> float:
    """Return the norm to which matrices are clipped for covariances."""
    size, cost = spec.n_entries, spec.cost
    if not spec.is_vector:
        return _CLIP * math.sqrt(size)
    if not cost.is_private:
        return NO_CLIPPING
    # The matrices are rows of features. `noise` is the largest eigenvalue of the noise if rows are
    # clipped to the root of `size`, and the covariance has its largest share.
    change = sensitivity.second_moment(math.sqrt(size), spec.unit.adjacency, spec.rounding)
    noise = change * math.sqrt(2 * size / _LARGEST_WHITENING_SHARE) / (spec.n_units * cost.mu)
    limits = _LEAST_CLIPPED, 1 / _CLIP**2
    fraction = descents.clipped_fraction(1 / noise, 1 / _WANTED_NOISE, limits)
    # By Chebyshev's inequality, if entries have mean square 1, at most `fraction` of the rows are
    # longer than the result.
    return 1 / math.sqrt(fraction) * math.sqrt(size)


def _plan_steps(
    spec: TraceSpec, share: float, votes: float, curvatures: float
) -> tuple[descents.DescentStep, ...]:
    """Plan the releases of all steps; `share` includes `votes` for counts, and `curvatures`."""
    shares = share - votes - curvatures, votes, _GROWTH
    change = sensitivity.row_sum if spec.unit.is_whole else sensitivity.response_sum
    shape = (spec.rank * sum(spec.matrix_shape) + spec.fit_intercept,)
    steps = descents.plan_descent(spec, *shares, change, follows=_SPREAD, shape=shape)
    if not spec.has_curvatures:
        return steps
    return tuple(
        step._replace(curvature=_plan_powers(spec, f"curvature {number}", curvatures / spec.n_iter))
        for number, step in enumerate(steps, start=1)
    )
