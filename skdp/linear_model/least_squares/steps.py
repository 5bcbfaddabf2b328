"""Whitening by a released moment, the descent on whitened rows, and its calibration."""

import math
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

from skdp.data.parts import Targets
from skdp.data.reduce import Kernel, PerRow, rounding_of_depth
from skdp.data.rows import Block, DenseBlock, Rows, SparseBlock, products_of
from skdp.data.sources import Source
from skdp.linalg.norms import with_data
from skdp.linalg.spectrum import noise_edge
from skdp.linear_model._descent import MOSTLY_NOISE, calibration_of, calibration_sums
from skdp.linear_model._weighted_rows import joint_gram, noise_in_mean, whitened_norms
from skdp.linear_model.least_squares import plan as squares_plan
from skdp.linear_model.least_squares.plan import LeastSquaresSpec
from skdp.linear_model.least_squares.records import Records, Scaling
from skdp.preprocessing.scales import Scales
from skdp.privacy import PrivacyBudget, Release
from skdp.privacy.clipping import NO_CLIPPING, clip_weights
from skdp.privacy.plan import AnyOf

# ------------------------------
# The moment of rows and responses, which whitens the rows and gives the start of the descent.

# With noise, eigenvalues of the moment are raised to at least `_LEAST_OF_LARGEST` times the largest
# one. Without noise, eigenvalues below `_ROUNDING` times the largest one are rounding errors.
_LEAST_OF_LARGEST, _ROUNDING = 1e-5, 1e-13  # not studied
# Noise hides the variances of rows along some directions. Their sum is assumed to be at least
# `_LEAST_HIDDEN` times the number of columns, and each variance at least `_LEAST_SPREAD` times the
# value to which eigenvalues are raised.
_LEAST_HIDDEN, _LEAST_SPREAD = 0.05, 1e-3  # benchmarks/least_squares/least_squares.md
# If no moment is released, its largest eigenvalue is assumed to be at least this.
_UNKNOWN = 33.0  # benchmarks/least_squares/least_squares.md


class Whitening(NamedTuple):
    """The map z = R'x of rows x."""

    root: np.ndarray  # R, or a number r in place of r times the identity, to save memory
    spread: np.ndarray  # mean squares of the entries of z, at most 1
    start: np.ndarray  # weights of z with which the descent begins
    is_hidden: np.ndarray  # entries of z whose variance noise hides

    @property
    def size(self) -> float:
        """Root mean square norm of a whitened row."""
        return math.sqrt(float(self.spread.sum()))

    def mean_of(self, weights: np.ndarray) -> float:
        """Return the mean prediction of weights, by the released moment of the column of ones.

        Released centers are not exact means, so the mean prediction includes slopes times mean
        rows. Scaled responses have mean square 1: a mean above 1 is noise, and is clipped.
        """
        if self.root.ndim == 0:
            return float(np.clip(self.spread[-1] * weights[-1] / self.root, -1.0, 1.0))
        squares = self.squares()
        of_ones = np.divide(self.root[-1], squares, out=np.zeros_like(squares), where=squares > 0)
        return float(np.clip((of_ones * self.spread) @ weights, -1.0, 1.0))

    def squares(self) -> np.ndarray:
        """Return the squared norms of the columns of R."""
        return np.asarray(np.square(np.atleast_2d(self.root)).sum(axis=0))


def release_whitening(
    spec: LeastSquaresSpec, release: Release, records: Records, budget: PrivacyBudget
) -> Whitening:
    """Release the moment of rows and responses; return the map that whitens the rows."""
    # Responses are one more column, times a weight: none exceeds half of the clipping norm of rows.
    responses, weight, largest = records.responses, 1.0, NO_CLIPPING
    if spec.cost.is_private:
        largest = spec.largest_response
        weight = spec.row_norm / (2 * largest)

    def _joint_moment(rows: slice, block: Block) -> np.ndarray:
        weighted = weight * np.clip(block.weights * responses[rows], -largest, largest)
        return joint_gram(block, weighted[:, np.newaxis])

    total = records.map_sum(_joint_moment, (spec.n_free + 1) ** 2)
    return whitening_of(*budget.release(release, total).mean(spec.n_units), weight)


def whitening_of(moment: np.ndarray, noise_std: float, weight: float) -> Whitening:
    """Whiten by a noisy moment; raise eigenvalues below the largest eigenvalue of pure noise.

    In the moment, responses have the factor `weight`. The descent starts at the least-squares
    solution. The entries of this solution, in order of variance and in blocks of 1, 1, 2, 4, ...,
    are shrunk as by James and Stein, by the mean of the squared noise plus a standard deviation.
    """
    off_diagonal_std, size = noise_std * math.sqrt(0.5), len(moment) - 1
    values, vectors = np.linalg.eigh(moment[:-1, :-1])
    values, vectors = values[::-1], vectors[:, ::-1]
    cross, cross_std = moment[:-1, -1] / weight, off_diagonal_std / weight
    edge, top = noise_edge(off_diagonal_std, size), max(float(values[0]), 1e-300)
    if noise_std == 0:
        is_visible = values > _ROUNDING * top
        root = np.where(is_visible, vectors / np.sqrt(np.where(is_visible, values, 1.0)), 0.0)
        return Whitening(root, is_visible.astype(np.float64), root.T @ cross, ~is_visible)
    floor = max(edge, _LEAST_OF_LARGEST * top)
    is_hidden, raised = values < floor, np.maximum(values, floor)
    spread = np.clip(values / raised, 0.0, 1.0)
    if is_hidden.any():
        hidden = max(np.trace(moment[:-1, :-1]) - values[~is_hidden].sum(), _LEAST_HIDDEN * size)
        spread[is_hidden] = np.clip(hidden / is_hidden.sum() / floor, _LEAST_SPREAD, 1.0)
    start, stds = (vectors.T @ cross) / np.sqrt(raised), cross_std / np.sqrt(raised)
    for ends in pairwise([0, *(1 << np.arange((size - 1).bit_length())), size]):
        block = slice(*ends)
        noise = np.sum(stds[block] ** 2) + math.sqrt(2 * np.sum(stds[block] ** 4))
        start[block] *= max(0.0, 1 - noise / max(np.sum(start[block] ** 2), 1e-300))
    return Whitening(vectors / np.sqrt(raised), spread, start, is_hidden)


def without_moment(scaling: Scaling, scales: Scales) -> Whitening:
    """Divide very long rows by one number instead of whitening them: steps then converge slowly."""
    size, largest = scaling.n_columns, _UNKNOWN
    if scaling.center is None:
        # The largest eigenvalue of the moment is at least the squared norm of the mean row.
        largest = max(largest, 2 * float(np.square(scales.center * scaling.multiplier).sum()))
    root, spread = np.array(math.sqrt(1 / largest)), np.full(size, 1 / largest)
    return Whitening(root, spread, start=np.zeros(size), is_hidden=np.full(size, True))


# ------------------------------
# Gradient steps on whitened rows.

# Whitened rows are clipped to this many root mean square norms, times the field `loosening`.
_CLIP_NORM = 4.0  # benchmarks/least_squares/least_squares.md
# Weight of the squared bias of clipped gradients, against the variance of their noise.
_BIAS = 0.1  # benchmarks/least_squares/least_squares.md
# Histograms of gradient sizes change the clip level of gradients. A count is visible if it exceeds
# `_VISIBLE` standard deviations of its noise. The level changes only if visible bins have at least
# the fraction `_LEAST_COUNTED` of the records. The first level is `_FIRST_LEVEL` times the root
# mean square norm of whitened rows.
_VISIBLE, _LEAST_COUNTED, _FIRST_LEVEL = 4.0, 0.5, 1.3  # not studied
# With few units, the noise of one count of a histogram may be as large as half of the units. So the
# sum of all visible counts must exceed this many standard deviations of noise, and so must each
# count of a bin far from the fullest one.
_SURELY_SEEN = 6.0  # benchmarks/least_squares/made_up.md
# The curvature of the clipped loss is `_CURVATURE` times the fraction of unclipped gradients, which
# is taken to be at least `_LEAST_UNCLIPPED`.
_CURVATURE, _LEAST_UNCLIPPED = 0.9, 0.3  # benchmarks/noise_errors/coefficients.md
# `_LEVELS` are the candidates for the clip level, `_MIDDLES` the geometric middles of the bins of
# sizes, and `_ENDS` the limits to which squared sizes are clipped before they are counted.
_LEVELS = 2.0 ** (np.arange(-40, 62) / 4)  # not studied
_MIDDLES = 2.0 ** ((squares_plan.SIZE_BINS + 0.5) / 2)  # not tuned
_ENDS = 2.0 ** squares_plan.SIZE_BINS[[0, -1]]  # not tuned


@dataclass(frozen=True)
class WhitenedRecords:
    """Whitened records of a linear regression, whose clipped gradients are summed.

    `weighted_values` returns, for a block: the rows times their clip weights, these weights, the
    weighted responses, and the norms of the weighted, whitened rows. For null records all results
    are 0. Rows in parts must round as rows in memory do, or a seed would give other noise.
    """

    spec: LeastSquaresSpec
    white: Whitening
    responses: Targets  # without their weights
    off_center: float  # fraction of the responses that differ from their median
    view: Rows
    weighted_values: Kernel

    def gradient(
        self, weights: np.ndarray, level: float, *, counts: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Sum the clipped gradients of whitened rows; with `counts`, also count them by size.

        The weights and the sum are whitened instead of the rows, so that no whitened row is stored
        and sparse rows stay sparse.
        """
        slopes, weighted_values = np.dot(self.white.root, weights), self.weighted_values

        def _clipped(rows: slice, block: Block) -> tuple[np.ndarray, np.ndarray]:
            """Sum the clipped gradients of a block, and count them by size."""
            block, _, responses, norms = weighted_values(rows, block)
            predicted = _predicted(block, slopes)
            errors = np.subtract(responses, predicted, out=predicted)
            sizes = np.abs(errors)
            sizes *= norms
            in_bins = np.zeros(0)
            if counts:
                is_there, n_bins = norms > 0, len(squares_plan.SIZE_BINS)
                counted = None if block.sample_weight is None else block.sample_weight[is_there]
                # The bin of a size is the exponent of its square, as a power of two: NumPy may
                # round a logarithm differently in another array.
                squares = np.clip(np.square(sizes[is_there]), *_ENDS)
                places = np.frexp(squares)[1] - 1 - squares_plan.SIZE_BINS[0]
                in_bins = np.bincount(places, counted, n_bins).astype(np.float64)
            errors *= clip_weights(sizes, level, len(slopes))
            return np.asarray(block.rmatmul(errors[:, np.newaxis])[:, 0]), in_bins

        n_sums = len(slopes) + len(squares_plan.SIZE_BINS) * counts
        total, sizes = self.view.map_sum(_clipped, n_sums)
        return np.dot(self.white.root.T, total), sizes

    def predicted(self, rows: slice, block: Block, slopes: np.ndarray) -> np.ndarray:
        """Return predictions from unclipped rows, as from new data; NaN for null records."""
        block, weights, *_ = self.weighted_values(rows, block)
        return _predicted(block, slopes) / np.where(weights == 0, np.nan, weights)


def whitened(
    spec: LeastSquaresSpec, view: Records, white: Whitening, off_center: float
) -> WhitenedRecords:
    """Compute clip weights, weighted responses and norms, in a pass that costs O(n d^2).

    Rows that may change between passes get new values in each step; other rows have the values of
    this pass. Rows that the fit has copied are multiplied by their clip weights in place.
    """
    largest = float(np.sqrt(white.squares().max()))
    is_clipped = view.bound < NO_CLIPPING
    clip_norm = _CLIP_NORM * spec.loosening * white.size if is_clipped else math.inf
    made_of = partial(WhitenedRecords, spec, white, view.responses, off_center)

    def _weighted_values(rows: slice, block: Block) -> list[np.ndarray]:
        """Return clip weights, weighted responses and norms of whitened rows; 0 for null ones."""
        norms = whitened_norms(block, white.root, None, largest=largest, bound=view.bound)
        factors = clip_weights(norms, clip_norm, len(white.spread))
        weights, is_null = block.weights, factors == 0
        values = [factors * weights, weights * view.responses[rows], factors * norms]
        return [np.where(is_null, 0.0, value) for value in values]

    def _reweighted(block: Block, values: list[np.ndarray]) -> tuple[Any, ...]:
        """Return the block with its raw rows times the first of `values`, followed by `values`."""
        made = _multiplied(block.raw, values[0])
        plain = SparseBlock(made, None) if issparse(made) else DenseBlock(made, None, made)
        return plain.with_sample_weight(block.sample_weight), *values

    if not view.source.is_repeatable:
        return made_of(view, lambda rows, block: _reweighted(block, _weighted_values(rows, block)))
    known = view.map_sum(lambda rows, block: tuple(map(PerRow, _weighted_values(rows, block))), 0)
    if view.scaling is not None:
        return made_of(
            view, lambda rows, block: _reweighted(block, [*map(itemgetter(rows), known)])
        )
    made = _multiplied(view.source.X, known[0], in_place=True)
    plain = Rows(Source(made, like=view.source), view.n_jobs, people=view.people)
    return made_of(plain, lambda rows, block: (block, *map(itemgetter(rows), known)))


def _multiplied(rows: Any, weights: np.ndarray, *, in_place: bool = False) -> Any:
    """Multiply rows by their weights; rows of weight 0 become 0, even if they are not finite."""
    if issparse(rows):
        data = rows.data * np.repeat(weights, np.diff(rows.indptr))
        return with_data(rows, np.where(np.isfinite(data), data, 0.0))
    made = np.multiply(rows, weights[:, np.newaxis], out=rows if in_place else None)
    made[weights == 0] = 0.0
    return made


def _predicted(block: Block, slopes: np.ndarray) -> np.ndarray:
    return products_of(block, slopes[:, np.newaxis])[:, 0]


class Level(NamedTuple):
    """The clip level of gradients."""

    value: float
    unclipped: float  # the fraction of gradients that are not clipped


def level_from(
    counts: np.ndarray,
    noise_std: float,
    n_units: int,
    noise: float,
    previous: Level,
    rare: tuple[float, float] = (1.0, 0.0),
) -> Level:
    """Choose the clip level that balances bias and noise of gradients, from a released histogram.

    `noise` is the root mean square error of predictions by the noise in the mean of all steps, in
    units of the level. Only visible bins around the fullest one are used, and far bins whose count
    is surely not noise; so a few far rows do not raise the level. If the used bins have too few
    records, the `previous` level stays. If most responses are equal, `rare` has the fraction of the
    others and the mean square of all gradient sizes. The gradients of these others are then taken
    to be so large that they explain the part of the mean square that the used bins lack.
    """
    visible = np.where(counts > _VISIBLE * noise_std, counts, 0.0)
    first = last = int(visible.argmax())
    while first > 0 and visible[first - 1] > 0:
        first -= 1
    while last < len(visible) - 1 and visible[last + 1 : last + 3].any():
        last += 1
    is_unsure = counts <= _SURELY_SEEN * noise_std
    is_unsure[first : last + 1] = False
    visible[is_unsure] = 0.0
    if visible.sum() < max(_LEAST_COUNTED * n_units, _SURELY_SEEN * noise_std):
        return previous
    fractions, middles = visible / visible.sum(), _MIDDLES
    rare_fraction, missing_square = rare[0], rare[1] - fractions @ middles**2
    if rare_fraction < 1 and missing_square > 0:
        fractions = np.append((1 - rare_fraction) * fractions, rare_fraction)
        middles = np.append(middles, math.sqrt(missing_square / rare_fraction))
    levels = _LEVELS[:, np.newaxis]
    bias = (fractions * np.maximum(middles - levels, 0.0)).sum(axis=1)
    # Clipping flattens the loss, which increases bias and noise alike.
    flattening = (fractions * np.minimum(1.0, levels / middles)).sum(axis=1)
    errors = ((noise * _LEVELS) ** 2 + _BIAS * bias**2) / np.maximum(flattening, 0.05) ** 2
    best = int(errors.argmin())
    unclipped = float(fractions[_LEVELS[best] >= middles].sum())
    return Level(float(_LEVELS[best]), max(_LEAST_UNCLIPPED, unclipped))


# This many standard deviations of noise are subtracted from a curvature, and from the expected gain
# of more steps.
_NOISE_STDS = 3.0  # not studied


class Descent(NamedTuple):
    """The mean `weights` of the last half of the iterates, and the noise variance of each mean.

    `gain` is the fraction of the variance that twice as many steps would explain in addition.
    """

    weights: np.ndarray
    variances: np.ndarray
    gain: float


def descend(plan: AnyOf, records: WhitenedRecords, budget: PrivacyBudget) -> Descent:
    """Take the planned steps: the usual number, or more if noise hides variances of the rows."""
    spec, white = records.spec, records.white
    n_units, is_private = spec.n_units, spec.cost.is_private
    usual, *longer = plan.branches
    steps = longer[0] if longer and white.is_hidden.any() else usual
    rounding, mean_noise = _rounding(spec, white), 0.0
    if is_private:
        shares = math.fsum(step.gradient.share for step in steps)
        change = steps[0].gradient.sensitivity_for(1.0, rounding=rounding)
        mean_noise = change / (spec.cost.mu * math.sqrt(shares)) * white.size / n_units
    level = Level(_FIRST_LEVEL * white.size, 0.5) if is_private else Level(NO_CLIPPING, 1.0)
    previous, weights, momentum = white.start, white.start, squares_plan.steps_of(spec)[1]
    iterates, gradients, noise_stds, unclipped = [], [], [], []
    curvature = 1.0
    last: tuple[np.ndarray, np.ndarray, Level] | None = None  # point, gradient and clip level
    for step in steps:
        extrapolated = weights + momentum * (weights - previous)
        total, sizes = records.gradient(extrapolated, level.value, counts=step.sizes is not None)
        noisy, noise_std = budget.release(step.gradient, total, level.value, rounding=rounding)
        if not spec.has_moment:
            if last is not None and last[2] == level:
                moved, change = extrapolated - last[0], noisy - last[1]
                curvature = max(curvature, _curvature(moved, change, noise_std) / n_units)
            last = extrapolated, noisy, level
        previous, weights = weights, extrapolated + noisy / (n_units * curvature)
        iterates.append(weights)
        gradients.append(noisy / n_units)
        noise_stds.append(noise_std / n_units)
        unclipped.append(level.unclipped)
        if step.sizes is not None:
            counts, counts_std = budget.release(step.sizes, sizes)
            rare = records.off_center, white.size**2
            level = level_from(counts, counts_std, n_units, mean_noise, level, rare)
    n_steps, half = len(steps), len(steps) // 2
    decay = 1 - _CURVATURE * float(np.mean(unclipped)) * white.spread / curvature
    step_variance = float(np.mean(np.square(noise_stds[half:])))
    variances = step_variance / curvature**2 * noise_in_mean(decay, momentum, n_steps)
    # The gain of as many more steps: along a visible direction one step reaches the minimum; along
    # a hidden one all steps follow the mean of the later gradients.
    lengths = np.where(white.is_hidden, n_steps / (1 - momentum), 1.0) / curvature
    gain_noise = step_variance / (n_steps - half)
    gain_noise *= lengths.sum() + _NOISE_STDS * math.sqrt(2 * np.sum(lengths**2))
    gain = float(np.mean(gradients[half:], axis=0) ** 2 @ lengths - gain_noise)
    return Descent(np.mean(iterates[half:], axis=0), variances, gain)


def _curvature(moved: np.ndarray, change: np.ndarray, noise_std: float) -> float:
    """Estimate the curvature along a step from the change of noisy gradients, beyond their noise.

    Without whitening, steps of length 1 diverge where few directions have most of the variance.
    """
    size, length = len(change), float(np.linalg.norm(moved))
    noise = 2 * noise_std**2 * (size + _NOISE_STDS * math.sqrt(2 * size))
    beyond = math.sqrt(max(float(change @ change) - noise, 0.0))
    return beyond / length if length else 0.0


def _rounding(spec: LeastSquaresSpec, white: Whitening) -> float:
    r"""Bound the rounding error of a sum of gradients, in units of the clip level.

    Gradients are summed before the map R whitens them, when they may be :math:`\|R^{-1}\|` times as
    long. The map multiplies the error of the sum by :math:`\|R\|`, and has an error of its own. The
    rounding error of a row times weights does not depend on the position of the row.
    """
    depth, squares = spec.depth + math.ceil(spec.n_free**1.5), white.squares()
    condition = float(np.sqrt(squares.max() / squares[squares > 0].min(initial=np.inf)))
    return rounding_of_depth(depth, spec.n_units, condition)


# ------------------------------
# How much of the result is noise.


def part_beyond_noise(descent: Descent, white: Whitening, *, has_one: bool) -> float:
    """Return the fraction of the mean squared prediction that is not noise (James-Stein)."""
    square = float(white.spread @ descent.weights**2)
    square -= has_one * white.mean_of(descent.weights) ** 2
    noise = float(white.spread @ descent.variances)
    return 1 - noise / square if square > noise else 0.0


# ------------------------------
# The calibration: a released factor of the predictions, and their mean error.

# The calibration multiplies predictions by a factor up to 1. A fit with a strong signal warns if
# the factor is below this.
_DOUBTFUL = 0.6  # benchmarks/least_squares/made_up.md
# With more coefficients per record than this, a fit also warns if its predictions explain so little
# of the responses that predictions for new records are probably useless.
_FREE_PER_RECORD = 1 / 100  # benchmarks/least_squares/made_up.md
_BY_CHANCE = "so many coefficients explain as much of so few records by chance"


def calibrate(
    release: Release | None, descent: Descent, records: WhitenedRecords, budget: PrivacyBudget
) -> tuple[np.ndarray, np.ndarray, str]:
    """Release how predictions and responses agree; shorten predictions, and add their mean error.

    Predictions are shortened toward their mean. Return three results: the weights of scaled rows,
    for scaled responses; by how much the slopes are shortened beyond what their noise explains; and
    why the predictions may be no better than the mean, or "".
    """
    spec, white = records.spec, records.white
    slopes, constant = np.split(np.dot(white.root, descent.weights), [spec.n_features])
    shortened = np.zeros(spec.n_features)
    if release is None:
        return np.append(slopes, constant), shortened, ""
    mean = white.mean_of(descent.weights) if spec.fit_intercept else 0.0
    around_mean, bounds = np.append(slopes, constant - mean), spec.calibrated
    noise = math.sqrt(float(white.spread @ descent.variances))
    square = float(white.spread @ descent.weights**2)
    size = math.sqrt(max(square - mean**2, noise**2)) or 1.0

    def _sums(rows: slice, block: Block) -> np.ndarray:
        predicted = records.predicted(rows, block, around_mean)
        return calibration_sums(block, predicted, records.responses[rows] - mean, size, bounds)

    means = budget.release(release, records.view.map_sum(_sums, 3)).mean(spec.n_units)
    calibration = calibration_of(means, size, noise, records.off_center, bounds)
    factor, is_doubtful, by_chance = calibration.factor, calibration.is_doubtful, False
    if not spec.is_weak:
        signal = part_beyond_noise(descent, white, has_one=spec.fit_intercept)
        shortened = max(0.0, signal - factor) * slopes
        factor = min(factor, signal)
        is_doubtful = factor < _DOUBTFUL
        # With f coefficients per record, the mean square error of least squares on new records is
        # (1 + f) / (1 - f) times the mean square error on the records of the fit.
        free = spec.n_free / spec.n_units
        explained = calibration.square * factor * (2 * calibration.slope - factor)
        by_chance = free > _FREE_PER_RECORD and explained < 2 * free / (1 + free)
    constant = factor * constant + ((1 - factor) * mean + calibration.mean)
    doubt = MOSTLY_NOISE if is_doubtful else _BY_CHANCE if by_chance else ""
    return np.append(factor * slopes, constant), shortened, doubt
