"""Gradient descent of a trace regression: clipped gradients, start, steps and calibration."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from skdp.linalg import matrices as fixed_rank
from skdp.linalg.matrices import Coordinates, DenseCoordinates, DenseMatrices, FixedRank, Matrices
from skdp.linalg.spectrum import random_basis
from skdp.linear_model import _descent as descents
from skdp.linear_model._descent import DescentStep
from skdp.linear_model.low_rank import records as trace_records
from skdp.linear_model.low_rank.records import Records, Spread, Vectors, products
from skdp.linear_model.low_rank.spec import TraceSpec
from skdp.privacy import PrivacyBudget, Release
from skdp.privacy.clipping import NO_CLIPPING, clip_weights

# ------------------------------
# Sums of clipped gradients of the squared loss, for each privacy unit.


class ClippedGradient(NamedTuple):
    """The sum of the clipped gradients of all records, and what its release needs."""

    total: np.ndarray  # tangent coordinates, then the slope of the intercept, if there is one
    facts: tuple[float, ...]  # public or released numbers that determine the sensitivity
    n_unclipped: np.ndarray  # number of unclipped gradients, or residuals
    gain: float = 1.0  # approximate factor by which public weights change the sum
    whitening: np.ndarray | None = None  # map that has whitened the tangent coordinates


def tangent_whitening(point: FixedRank, covariance: np.ndarray | None) -> np.ndarray | None:
    """Return the symmetric map that whitens tangent coordinates of matrices.

    `covariance` is that of all entries of the matrices, None for the identity.
    """
    if covariance is None:
        return None
    basis = DenseMatrices(np.eye(len(covariance)).reshape(-1, *point.shape))
    coordinates, _ = basis.tangent(point, 0.0)
    assert isinstance(coordinates, DenseCoordinates)
    moment = coordinates.values.T @ covariance @ coordinates.values
    values, vectors = np.linalg.eigh(moment)
    # There are more coordinates than dimensions, so the smallest eigenvalues are 0, and left out.
    inside = slice(-fixed_rank.tangent_dimension(point.shape, point.rank), None)
    return np.asarray((vectors[:, inside] / np.sqrt(values[inside])) @ vectors[:, inside].T)


@dataclass
class RecordClipping:
    """Gradients whose norms are clipped: for units that change a matrix and its response."""

    records: Records

    @property
    def has_intercept(self) -> bool:
        """Whether gradients have a last entry for the intercept."""
        return self.records.intercept > 0

    def curvature(
        self, plan: Release | None, gradient: "_Gradient", level: float, budget: PrivacyBudget
    ) -> float:
        r"""Release the curvature of the clipped loss along a released gradient.

        For matrices :math:`Z_i` and a direction P of length 1, the curvature is the mean of
        :math:`w_i \langle P, Z_i \rangle^2`, where :math:`w_i` is the clip weight of the gradient.
        As no bound of the terms of this mean is known, a fit releases a histogram of their sizes
        or, without noise, their sum.
        """
        assert plan is not None
        in_bins, design = budget.is_private, self.records.design
        vectors = self._vectors(gradient.point, gradient.offset, gradient.whitening)
        direction, shift = gradient.unit_step(self.records.intercept)

        def _curvatures(rows: slice, matrices: Matrices) -> np.ndarray:
            coordinates, factors = vectors(rows, matrices)
            coordinates.multiply(factors)
            norms = coordinates.norms()
            inner = matrices.tangent(direction, 0.0)[1] + shift
            curvatures = clip_weights(norms, level, coordinates.size) * inner**2
            usable = np.where(np.isfinite(norms) & np.isfinite(curvatures), curvatures, np.nan)
            if in_bins:
                return trace_records.count_by_power(usable, matrices.sample_weight)
            return np.array([np.nansum(matrices.times_sample_weight(usable))])

        counts = design.map_sum(_curvatures, trace_records.N_POWERS if in_bins else 1)
        if not in_bins:
            # The curvature is 0 along a gradient of 0, as for constant responses: 1 replaces it.
            return float(budget.release(plan, counts)[0][0]) / design.n_records or 1.0
        (fractions,), noise_std = budget.release(plan, counts[np.newaxis]).mean(design.n_records)
        return trace_records.mean_curvature(fractions, noise_std, gradient.unclipped)

    def _sum(self, vectors: Vectors, level: float, size: int) -> ClippedGradient:
        total, n_unclipped = trace_records.clipped_sum(self.records.design, vectors, level, size)
        return ClippedGradient(total, (level,), n_unclipped)

    def gradient(self, point: FixedRank, offset: float, level: float) -> ClippedGradient:
        """Sum the clipped gradients at released coefficients `point` and intercept `offset`."""
        size = point.left.size + point.right.size + self.has_intercept
        whitening = tangent_whitening(point, self.records.covariance)
        gradient = self._sum(self._vectors(point, offset, whitening), level, size)
        # Rounding errors move the sum out of the tangent space, so it is projected again.
        inside = fixed_rank.project_coordinates(point, gradient.total[: size - self.has_intercept])
        total = np.append(inside, gradient.total[len(inside) :])
        return gradient._replace(total=total, whitening=whitening)

    def _vectors(self, point: FixedRank, offset: float, whitening: np.ndarray | None) -> Vectors:
        """Return a function from a block of matrices to whitened coordinates and residuals."""
        records = self.records

        def _coordinates(rows: slice, matrices: Matrices) -> tuple[Coordinates, np.ndarray]:
            coordinates, inner = matrices.tangent(point, records.intercept)
            if whitening is not None:
                assert isinstance(coordinates, DenseCoordinates)
                values = coordinates.values[:, : len(whitening)]
                times = np.matmul if matrices.sample_weight is None else fixed_rank.one_by_one
                values[:] = times(values, whitening)
            return coordinates, inner + records.intercept * offset - records.responses[rows]

        return _coordinates


@dataclass
class ResponseClipping(RecordClipping):
    """Gradients with clipped residuals: for public matrices, where only a response may change.

    Public weights shorten tangent coordinates to their median length. A matrix with a norm much
    larger than most has the weight 0.
    """

    response_range: float

    def __post_init__(self) -> None:
        self._is_inlier = trace_records.inlier_mask(self.records.design)
        self._weights = np.zeros(0)

    def curvature(
        self, plan: Release | None, gradient: "_Gradient", level: float, budget: PrivacyBudget
    ) -> float:
        """Compute the curvature along a released gradient from the matrices, which are public.

        The loss of a clipped residual is linear. Too long a step costs more than too short a one,
        so half of the curvature without clipping counts for these residuals.
        """
        design, (direction, shift) = self.records.design, gradient.unit_step(self.records.intercept)
        inner = design.inner(direction) + shift
        inner[(self._weights == 0) | ~np.isfinite(inner)] = 0.0
        unclipped = max(gradient.unclipped, trace_records.LEAST_UNCLIPPED)
        curvature = float(self._weights @ inner**2) / design.n_records
        return max(curvature * (1 + unclipped) / 2, trace_records.LEAST_CURVATURE * unclipped)

    def _sum(self, vectors: Vectors, level: float, size: int) -> ClippedGradient:
        """Sum tangent vectors times public weights and clipped residuals; count unclipped ones."""
        design = self.records.design
        lengths = design.map_rows(lambda rows, matrices: vectors(rows, matrices)[0].norms())
        downweights = level < NO_CLIPPING
        if downweights:
            lengths[~self._is_inlier] = 0.0
        weights = trace_records.downweight_long_rows(lengths, downweights=downweights)
        lengths[weights == 0] = 0.0

        def _clipped(records: slice, matrices: Matrices) -> tuple[np.ndarray, Any]:
            coordinates, residuals = vectors(records, matrices)
            clipped = np.clip(residuals, -level, level)
            factors = np.where(np.isfinite(residuals), weights[records] * clipped, 0.0)
            coordinates.multiply(factors)
            total = coordinates.weighted_sum((factors != 0).astype(np.float64))
            return total, descents.n_within(np.abs(residuals), level)

        total, n_unclipped = design.map_sum(_clipped, size + 1)
        largest = max(float((weights * lengths).max()), 1 / NO_CLIPPING)
        squares = lengths @ lengths
        # The factor by which the weights multiply the curvature, if coordinates are uncorrelated.
        gain = float(weights @ lengths**2 / squares) if squares > 0 else 1.0
        self._weights = weights / gain
        return ClippedGradient(total, (level, self.response_range, largest), n_unclipped, gain)


# ------------------------------
# The start of a descent: coefficients 0 with random singular vectors, or a released estimate.

# Products of responses and matrices are clipped to a multiple of their usual norm: `_START_CLIP`
# for a start with singular values, `_DIRECTION_CLIP` for a start with singular vectors alone.
# benchmarks/trace_regression/starts.md
_START_CLIP, _DIRECTION_CLIP = 1.5, 0.8
# The largest singular value of a d1 x d2 matrix of standard normal noise exceeds
# sqrt(d1) + sqrt(d2) + 2 with a probability of at most exp(-2).
_BEYOND_EDGE = 2.0  # not tuned


class Start(NamedTuple):
    """The coefficients at which a descent starts."""

    point: FixedRank
    noise_std: float = 0.0  # of an entry
    # Singular values of the released mean, over the largest one that noise and chance explain.
    ratios: np.ndarray | None = None


def random_start(shape: tuple[int, int], rank: int, generator: np.random.Generator) -> Start:
    """Return coefficients 0 with random singular vectors, along which a descent can leave 0."""
    left, right = (random_basis(size, rank, generator) for size in shape)
    return Start(FixedRank(left, np.zeros(rank), right))


def release_start(
    spec: TraceSpec, plan: Release, records: Records, spread: float, budget: PrivacyBudget
) -> Start:
    """Release the mean product of responses and matrices, and truncate it to the rank.

    For matrices with independent entries of variance 1, the mean estimates the coefficients. The
    start has the singular vectors of the mean, because a descent from random ones may end in a
    local minimum. Singular values become 0, as their noise would last for some steps, unless the
    parameter `init` is "spectral".

    The published start (M. Zha, 2024, :arxiv:`2403.15999`) adds noise to singular subspaces, whose
    sensitivity is bounded only if singular values have a gap. Noise in the mean needs no gap.
    """
    design, has_values = records.design, spec.init == "spectral"
    clip = _START_CLIP if has_values else _DIRECTION_CLIP
    level = min(clip * spread * math.sqrt(design.n_entries), NO_CLIPPING)
    vectors = partial(products, responses=records.responses)
    total, _ = trace_records.clipped_sum(design, vectors, level, design.n_entries)
    released = budget.release(plan, total, level, rounding=design.rounding)
    mean, noise_std = released.mean(design.n_records)
    if records.covariance is not None:
        inverse = np.linalg.inv(records.covariance)
        mean, noise_std = inverse @ mean, noise_std * _rms_factor(inverse, len(inverse))
    mean = mean.reshape(design.matrix_shape)
    whole = fixed_rank.truncate(mean, min(mean.shape))
    ratios = None
    if budget.is_private:
        # Standard deviation of an entry of the mean if responses are independent of matrices.
        by_chance = min(clip, 1.0) * spread / math.sqrt(design.n_records)
        edge = sum(np.sqrt(mean.shape)) + _BEYOND_EDGE
        ratios = whole.values / (math.hypot(noise_std, by_chance) * edge)
    point = whole.leading(spec.rank)
    if not has_values:
        return Start(point.with_values(0 * point.values), ratios=ratios)
    return Start(point, noise_std, ratios)


# ------------------------------
# Gradient descent with clip levels that adapt to the residuals.

# Step length for rows of features, relative to a step of Newton's method, the inverse curvature.
# benchmarks/trace_regression/defaults.md, "step"
_STEP = 0.5
# Clipping is assumed to multiply the curvature by at least this; not studied.
_LEAST_FLATTENING = 0.1
# If the counts of a released curvature have more noise than this fraction of the records, the mean
# of all curvatures so far replaces the curvature if it is larger.
# benchmarks/trace_regression/unlike_data.md
_ROUGH = 0.02
# The clip level never falls below this fraction of the first clip level; not studied.
_LEAST_LEVEL = 1e-9
# The fit warns if, in one of the last `_LAST_VOTES` steps, too few gradients were unclipped: the
# released fraction plus `_CERTAINTY` standard deviations of its noise is below `_LEAST_OF_WANTED`
# times the wanted fraction; not studied.
_LAST_VOTES = 3
_LEAST_OF_WANTED = 0.5
_CERTAINTY = 3.0
# The fit also warns if the root mean square length of the last `_LAST_MOVES` steps exceeds `_MOVED`
# times the norm of the coefficients. To leave out what is noise in a step, `_NOISE_OF_MOVES` times
# the noise variance is subtracted from the squared norm of its gradient. Not studied beyond images,
# sensors, independent entries and cells.
_LAST_MOVES, _MOVED, _NOISE_OF_MOVES = 2, 0.25, 4.0
# Without noise, the descent has converged if the last gradient is shorter than this fraction of the
# first gradient; not studied.
_LEFT = 0.05
# In tables, whose row and column means are fitted first, singular values below this multiple of the
# noise become 0, as rarely observed rows are noisier. benchmarks/sweep/sweep.md, "ratings"; not
# studied beyond.
_LEAST_RATIO = 3.0
# Least length of a step with a noisy gradient, relative to its full length: `_LEAST_PART` if at
# least the fraction `_MANY_OFF_CENTER` of the responses differs from the center, else
# `_LEAST_PART_OF_FEW`. Not studied beyond independent entries, digits and sensors.
_MANY_OFF_CENTER, _LEAST_PART, _LEAST_PART_OF_FEW = 0.5, 0.5, 0.2
_NOT_CONVERGED = (
    "The descent has not converged. Pass a larger n_iter, and features whose offsets are not many "
    "times their spread."
)


@dataclass(frozen=True)
class Estimate:
    """Released coefficients and intercept of a trace regression, and warnings about them."""

    point: FixedRank  # coefficients
    offset: float  # intercept
    n_cut: int = 0  # number of singular values that noise hides, so that they became 0
    noise_std: float = 0.0  # of a tangent coordinate of the coefficients, and of the offset
    warnings: tuple[str, ...] = ()
    bounds: np.ndarray | None = None  # to which features are clipped, of shape (2, n_entries)
    start_ratios: np.ndarray | None = None  # `Start.ratios`

    def without_coefficients(self, most: float, *warnings: str) -> "Estimate":
        """Set all coefficients to 0; `warnings`, if there are any, replace the present ones.

        An intercept far above `most` is noise, so it is divided by 1 + (intercept / most)².
        """
        zero = self.point.with_values(0 * self.point.values)
        ratio = self.offset / most
        offset = self.offset / (1 + ratio * ratio)
        return replace(self, point=zero, offset=offset, warnings=warnings or self.warnings)


class _Gradient(NamedTuple):
    """A released mean gradient of the loss by the coefficients and the intercept."""

    point: FixedRank  # coefficients at which the gradient is taken
    offset: float  # intercept at which the gradient is taken
    coordinates: np.ndarray  # gradient by the coefficients, in tangent coordinates
    direction: FixedRank  # gradient by the coefficients, as a matrix
    slope: float  # derivative by the intercept
    size: float  # norm of coordinates and slope, before the whitening is undone
    noise_std: np.float64  # of a coordinate, before the whitening is undone
    unclipped: float  # released fraction of unclipped records
    vote_std: float  # noise of `unclipped`
    whitening: np.ndarray | None

    def unit_step(self, intercept: float) -> tuple[FixedRank, float]:
        """Return the gradient over its norm: a matrix, and the change of all predictions.

        `intercept` is the constant that every record has as a further coordinate.
        """
        size = self.size or 1.0
        direction = self.direction.with_values(self.direction.values / size)
        return direction, intercept * self.slope / size

    def step_noise(self, dimension: int) -> np.float64:
        """Return the noise std of a step of length 1, along each of `dimension` directions."""
        if self.whitening is None:
            return self.noise_std
        return self.noise_std * _rms_factor(self.whitening, dimension)

    @property
    def flattening(self) -> float:
        """Factor by which clipping is assumed to multiply the curvature."""
        return max(self.unclipped, _LEAST_FLATTENING)


def descend(
    spec: TraceSpec,
    plan: tuple[DescentStep, ...],
    clipping: RecordClipping,
    start: Start,
    spread: Spread,
    quantile: float,
    bounds: tuple[float, float],
    budget: PrivacyBudget,
) -> Estimate:
    """Run all gradient steps; their number does not depend on the data.

    Every step releases the sum of the clipped gradients of the records, moves along it, and
    releases the number of unclipped gradients, which sets the clip level of the next step. As
    residuals shrink, so do the clip level and the noise. Gradients are projected on the tangent
    space of low-rank matrices (M. Zha, 2024, :arxiv:`2403.15999`), so that the noise has only the
    dimensions of this space. The schedule of clip levels and shares is ours.

    `spread` is the spread of the responses, inf without clipping, and `quantile` the wanted
    fraction of unclipped gradients. `bounds` are the largest norm of the coefficients, and the
    least curvature of the loss, by which each step shrinks the noise of earlier steps.
    """
    largest_coefficients, least_curvature = bounds
    are_many = spread.fraction_off_center >= _MANY_OFF_CENTER
    least_part = _LEAST_PART if are_many else _LEAST_PART_OF_FEW
    point, offset, variance = start.point, 0.0, start.noise_std**2
    dimension = fixed_rank.tangent_dimension(point.shape, point.rank) + clipping.has_intercept
    # At coefficients 0, the residuals are the responses, and a gradient is usually longer, by the
    # root of its dimension, if entries have variance 1. If responses are normal, the first clip
    # level leaves the wanted fraction of gradients, or of residuals, unclipped.
    usual = spread.size * math.sqrt(dimension) if spec.unit.is_whole else spread.size
    largest = min(usual * float(ndtri((1 + quantile) / 2)), NO_CLIPPING)
    clips, level = largest < NO_CLIPPING, largest
    # For rows of features: the largest known curvature of the unclipped loss, and the length of a
    # full step. Without clipping, the curvature of the loss on whitened rows is 1, and a step of
    # length 1 leads to least squares. Clipping multiplies the curvature by about the quantile.
    steepest, full_length, length = 1.0, _STEP / quantile if clips else 1.0, 0.0
    gradients, curvatures, moves = list[_Gradient](), list[float](), list[float]()
    for releases in plan:
        gradient = _release_gradient(releases, clipping, point, offset, level, budget)
        gradients.append(gradient)
        if min(point.shape) == 1:
            if len(gradients) > 1:
                between = _curvature_between(gradients[-2], gradient, length, dimension)
                steepest = max(steepest, between)
            length = min(full_length, 1 / gradient.flattening) / steepest
            decay = 1 - _STEP * least_curvature / steepest
        else:
            curvature = clipping.curvature(releases.curvature, gradient, level, budget)
            curvatures.append(curvature)
            rough = _ROUGH * clipping.records.design.n_records
            if releases.curvature is not None and (releases.curvature.noise_std or 0.0) > rough:
                # Noise may hide the few records that make a curvature large. A step that is far too
                # long costs more than one that is too short, so the larger of two curvatures
                # counts.
                curvature = max(curvature, float(np.mean(curvatures)))
            noise = dimension * float(gradient.noise_std) ** 2
            clear = max(gradient.size**2 - _NOISE_OF_MOVES * noise, 0.0)
            moves.append(math.sqrt(clear) / curvature)  # the length of a full step, without noise
            signal_part = 1 - noise / gradient.size**2 if gradient.size > 0 else 0.0
            part = max(least_part, signal_part)
            length, decay = part / curvature, 1 - part * least_curvature
        point = fixed_rank.retract(point, gradient.coordinates, -length)
        if (norm := float(np.linalg.norm(point.values))) > largest_coefficients:
            point = point.with_values(point.values * (largest_coefficients / norm))
        offset -= length * gradient.slope
        variance = decay**2 * variance + np.square(length * gradient.step_noise(dimension))
        if clips:
            limits = _LEAST_LEVEL * largest, largest
            level = descents.followed_level(level, gradient.unclipped, quantile, limits)
    by_chance = 0.0
    if spec.is_weak:
        # Sampling error of a coordinate: the standard deviation of the residuals, over root n.
        left = max(spread.of_all**2 - float(point.values @ point.values), 0.0)
        by_chance = math.sqrt(left / clipping.records.design.n_records)
    least_ratio = _LEAST_RATIO if spec.has_margins else 1.0
    estimate = cut(point, offset, math.sqrt(variance), by_chance, least_ratio)
    norm = float(np.linalg.norm(point.values))
    warnings = _warnings(gradients, moves, norm, quantile, clips=clips)
    return replace(estimate, warnings=warnings)


def _curvature_between(
    before: _Gradient, gradient: _Gradient, length: float, dimension: int
) -> float:
    """Return a lower bound of the curvature of the unclipped loss along a step of this length.

    The curvature is 1 for independent features of variance 1, and larger along some direction for
    correlated features. It follows from the difference of two released gradients, less twice the
    standard deviation of its noise.
    """
    step, shift = gradient.point.minus(before.point), gradient.offset - before.offset
    squares = step.inner(step) + shift * shift
    if not squares > 0:
        return 0.0
    change = step.inner(gradient.direction) - step.inner(before.direction)
    change += shift * (gradient.slope - before.slope)
    # The last step and the difference of gradients share the noise of the earlier gradient. The
    # mean product of the shared noise is subtracted, and its standard deviation adds to the error.
    common = length * np.square(before.noise_std)
    error = np.hypot(gradient.noise_std, before.noise_std) * math.sqrt(squares)
    error += common * math.sqrt(2 * dimension)
    flattening = (gradient.flattening + before.flattening) / 2
    return float((change - common * dimension - 2 * error) / (squares * flattening))


def _release_gradient(
    plan: DescentStep,
    clipping: RecordClipping,
    point: FixedRank,
    offset: float,
    level: float,
    budget: PrivacyBudget,
) -> _Gradient:
    """Release the mean gradient at a point, and the fraction of unclipped records."""
    total, facts, n_unclipped, gain, whitening = clipping.gradient(point, offset, level)
    design = clipping.records.design
    released, noise_std = budget.release(plan.gradient, total, *facts, rounding=design.rounding)
    divisor = design.n_records * gain
    released, noise_std = released / divisor, np.float64(noise_std) / divisor
    # The fraction is released even if nothing is clipped, as the plan does not depend on that.
    vote = descents.release_fraction(plan.vote, n_unclipped, design.n_records, budget)
    slope = float(released[-1]) if clipping.has_intercept else 0.0
    coordinates = released[:-1] if clipping.has_intercept else released
    coordinates = fixed_rank.project_coordinates(point, coordinates)
    size = math.hypot(float(np.linalg.norm(coordinates)), slope)
    if whitening is not None:
        coordinates = fixed_rank.project_coordinates(point, whitening @ coordinates)
    direction = fixed_rank.tangent_vector(point, coordinates)
    return _Gradient(
        point, offset, coordinates, direction, slope, size, noise_std, *vote, whitening
    )


def _rms_factor(symmetric: np.ndarray, dimension: int) -> float:
    """Return the factor by which a symmetric map changes the root mean square of noise."""
    return float(np.linalg.norm(symmetric)) / math.sqrt(dimension)


def _warnings(
    gradients: list[_Gradient], moves: Sequence[float], norm: float, quantile: float, *, clips: bool
) -> tuple[str, ...]:
    """Warn if the descent has not converged.

    It has not if too few gradients were unclipped, or if the last steps, whose lengths are `moves`,
    are long relative to the `norm` of the coefficients.
    """
    if not gradients:
        return ()
    if not clips:
        return (_NOT_CONVERGED,) if gradients[-1].size > _LEFT * gradients[0].size else ()
    unclipped, noise_std = min((one.unclipped, one.vote_std) for one in gradients[-_LAST_VOTES:])
    if unclipped + _CERTAINTY * noise_std < _LEAST_OF_WANTED * quantile:
        return (
            "The descent has not converged, and the coefficients are probably useless. If you "
            "passed a covariance, entries of X may be much larger than it implies, or far from 0: "
            "pass 'private'. Else pass a larger n_iter, or more data.",
        )
    last = math.sqrt(np.mean(np.square(moves[-_LAST_MOVES:]))) if moves else 0.0
    return (_NOT_CONVERGED,) if last > _MOVED * norm else ()


def cut(
    point: FixedRank, offset: float, noise_std: float, by_chance: float, least_ratio: float
) -> Estimate:
    """Set singular values that may be noise or sampling error to 0, and shrink the larger ones.

    `noise_std` and `by_chance` are the standard deviations of noise and of sampling error, along
    each tangent coordinate.
    """
    if noise_std == 0:
        return Estimate(point, offset)
    edge = math.hypot(noise_std, by_chance) * sum(np.sqrt(point.shape))
    is_noise = point.values <= least_ratio * edge
    # The square of a singular value includes the square of its noise, which is subtracted.
    noise_part = np.square(edge / np.where(is_noise, np.inf, point.values))
    values = np.where(is_noise, 0.0, point.values * np.sqrt(1 - noise_part))
    return Estimate(point.with_values(values), offset, int(is_noise.sum()), noise_std)
