"""Parameters, records and releases of a logistic regression; whitening, start and momentum."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri, softmax
from scipy.stats.qmc import Sobol

from skdp._prior import AGREEMENT
from skdp.data.parts import Targets
from skdp.data.rows import Block, Rows
from skdp.linalg.norms import row_squares
from skdp.linalg.spectrum import noise_edge
from skdp.linear_model._descent import clipped_fraction
from skdp.linear_model._weighted_rows import WHITENED_GRADIENT, noise_in_mean, plan_steps
from skdp.preprocessing.intervals import OTHER_UNITS_OF_X
from skdp.privacy import Release, sensitivity
from skdp.privacy.clipping import NO_CLIPPING
from skdp.privacy.plan import PrivacyCost, left_of, plan_histogram, plan_sum, share_for_counts
from skdp.units import ResolvedRecord


@dataclass(frozen=True, eq=False)
class LogisticSpec:
    """Parameters of a logistic regression as plain values, and public facts of the records."""

    cost: PrivacyCost
    unit: ResolvedRecord
    n_units: int
    n_features: int
    n_free: int  # number of free coefficients of a class
    classes: np.ndarray  # sorted
    rounding: float  # bound of the rounding error of a sum, in units of its largest term
    depth: int  # longest chain of additions in a sum
    dtype: np.dtype
    row_norm: float | None
    # Weights of a published model, of shape (n_features + 1, n_columns), intercepts last.
    prior: np.ndarray | None = field(default=None, kw_only=True)
    # Whether several owners hold the records. The owners search the clipping norm by added counts.
    has_owners: bool = field(default=False, kw_only=True)

    # What warnings advise to pass for less noise.
    fewer: str = field(default="fewer features", kw_only=True)

    n_classes: int = field(init=False)
    # Number of columns of scores: one per class or, with two classes, log odds of the second class.
    n_columns: int = field(init=False)
    # Strength of the signal, relative to the noise: units times mu, per free coefficient.
    strength: float = field(init=False)

    def __post_init__(self) -> None:
        """Compute the fields that follow from the others."""
        n_classes, strength = len(self.classes), self.n_units * self.cost.mu / self.n_free
        n_columns = 1 if n_classes == 2 else n_classes
        vars(self).update(n_classes=n_classes, n_columns=n_columns, strength=strength)


# ------------------------------
# Rows with the class index of each, which is negative for null records.


@dataclass(eq=False)
class LabeledRows(Rows):
    """Rows, each with the index of its class; a row with a negative index is null."""

    codes: Targets = field(kw_only=True)

    def blocks(self, group: range) -> Iterator[tuple[slice, Block]]:
        """Yield blocks of centered, weighted rows; rows without a class are null."""
        for rows, block in super().blocks(group):
            yield rows, block.without(self.codes[rows] < 0)


def weights_beside(row_norm: float) -> tuple[float, float]:
    """Return the constant and the weight of labels that the class moment appends to each row."""
    constant = row_norm / 2
    return constant, math.hypot(row_norm, constant) / 2


# ------------------------------
# The releases and their shares, from public facts.

# Candidates for the clipping norm of rows, a factor of 2 ** (1/4) apart.
NORMS = 2.0 ** (np.arange(-80, 161) / 4)  # not studied
_NORM_SHARE = 0.03  # benchmarks/classification/constants.md
# Share of the class moment, the second moment of rows and labels: the first number or, with more
# than two classes whose counts are not released, the second number:
# benchmarks/classification/constants.md.
_MOMENT_SHARES = 0.2, 0.3
# The fit releases the losses of its scores multiplied by each of `FACTORS`, with this share.
_LOSSES_SHARE = 0.04  # benchmarks/sweep/sweep.md, job "classes"
FACTORS = 2.0 ** np.arange(-3, 2)  # benchmarks/sweep/sweep.md, job "classes"
# The loss of a record for scores times a factor is divided by the factor and the size of the
# scores, and clipped to `_LOSS_LEVEL`. If the number of records times mu exceeds `_STRONG`, the
# clip level grows with the root of that product, up to `_LARGEST_LEVEL` times `_LOSS_LEVEL`.
_LOSS_LEVEL, _STRONG, _LARGEST_LEVEL = 0.5, 3000.0, 3.0  # benchmarks/sweep/sweep.md, job "classes"
# Wanted noise of the losses of a prior, as a fraction of the number of records; and limits of the
# share of these losses:
# benchmarks/classification/prior.md.
_AGREED, _OF_AGREEMENT = 0.0125, (0.01, 0.3)
# Class counts of n records get the share (`_OF_COUNTS` / (n mu))^2, at most `_MOST_OF_COUNTS`. If
# that is below `_LEAST_OF_COUNTS`, the class moment shows the class frequencies well enough, and
# the counts are not released.
# benchmarks/classification/weak.md.
_OF_COUNTS, _MOST_OF_COUNTS, _LEAST_OF_COUNTS = 45.0, 0.4, 0.03
# If the number of units times mu is below this, noise hides the norms of the rows.
_LEAST_COUNT = 150.0  # benchmarks/classification/constants.md
# Without momentum, the number of steps is the fourth root of the strength, times a factor for two
# classes or for more, within limits: benchmarks/classification/constants.md.
_STEPS_OF_TWO, _STEPS_OF_MORE, _STEP_LIMITS = 10, 14, (8, 100)
# Let s be the strength divided by the number of classes minus 1. The fraction of whitened rows and
# gradients that may be clipped is this value over s, within limits:
# benchmarks/classification/constants.md.
_LEVEL_STRENGTH, _BEYOND_LEVEL_LIMITS = 60.0, (1 / 16, 1.0)


class LogisticReleases(NamedTuple):
    """Releases of a fit, in order; with ``epsilon=inf``, the coefficients alone."""

    norm: Release | None  # clipping norm of rows; None if given or guessed
    counts: Release | None  # records per class; None if the moment shows them well enough
    moment: Release | None  # second moment of rows and labels
    agreement: Release | None  # losses of the scores of a prior, at several multiples
    gradients: tuple[Release, ...]
    losses: Release | None  # losses of the fitted scores, at several multiples
    coefficients: Release | None


def plan_logistic(spec: LogisticSpec) -> LogisticReleases:
    """Plan all releases in their order; the gradients get the share that other releases leave."""
    if not spec.cost.is_private:
        change = partial(sensitivity.row_sum, NO_CLIPPING, spec.unit.adjacency)
        name, shape = "coefficients", (spec.n_features + 1, spec.n_columns)
        exact = spec.cost.release(name, "gaussian", 1.0, change, {}, shape=shape)
        return LogisticReleases(None, None, None, None, (), None, exact)
    counts, share = None, (_OF_COUNTS / (spec.n_units * spec.cost.mu)) ** 2
    if share >= _LEAST_OF_COUNTS:
        share = min(share, _MOST_OF_COUNTS)
        counts = plan_histogram(spec, "class counts", share, spec.n_classes)
    norm = plan_norm(spec)
    bound = clip_norm(spec) if norm is None else norm.name
    # The second moment of rows, each with a constant and indicators of the classes appended.
    shape = (spec.n_features + 1 + spec.n_classes,) * 2
    change, noise = partial(_moment_change, n_classes=spec.n_classes), "symmetric_gaussian"
    share = _MOMENT_SHARES[spec.n_classes > 2 and counts is None]
    moment = plan_sum(spec, "class moment", share, shape, bound, change, noise)
    losses, agreement = plan_losses(spec), None
    if spec.prior is not None:
        share = share_for_counts(spec, 1, _AGREED, _OF_AGREEMENT)
        agreement = plan_losses(spec, AGREEMENT, share)
    shape, count = (spec.n_features + 1, spec.n_columns), n_steps(spec)
    if spec.n_classes == 2:
        # Momentum halves the number of steps.
        count = max(_STEP_LIMITS[0], round(count / 2))
    left = left_of(norm, counts, moment, agreement, losses)
    gradients = plan_steps(spec, count, WHITENED_GRADIENT, left, shape, moment.name)
    return LogisticReleases(norm, counts, moment, agreement, gradients, losses, None)


def is_norm_guessed(spec: LogisticSpec) -> bool:
    """Return whether noise hides the norms of rows; then rows are assumed to be standardized."""
    return spec.row_norm is None and spec.n_units * spec.cost.mu < _LEAST_COUNT


def n_steps(spec: LogisticSpec) -> int:
    """Compute the number of steps without momentum."""
    factor = _STEPS_OF_TWO if spec.n_classes == 2 else _STEPS_OF_MORE
    return round(float(np.clip(factor * spec.strength**0.25, *_STEP_LIMITS)))


def level_factor(spec: LogisticSpec) -> float:
    """Return the clipping norm of whitened rows over their root mean square norm.

    With more records, less noise allows a larger clipping norm.
    """
    strength = spec.strength / (spec.n_classes - 1)
    fraction = clipped_fraction(strength, _LEVEL_STRENGTH, _BEYOND_LEVEL_LIMITS)
    # Chebyshev's inequality: at most `fraction` of norms exceed their root mean square this much.
    return 1 / math.sqrt(fraction)


def plan_norm(spec: LogisticSpec, name: str = "clip norm") -> Release | None:
    """Plan the release of a quantile of row norms, unless the norm is given or guessed."""
    if spec.row_norm is not None or is_norm_guessed(spec):
        return None
    if spec.has_owners:
        return spec.cost.search(name, _NORM_SHARE, NORMS, remedy=OTHER_UNITS_OF_X)
    change, shape = sensitivity.count_distance, NORMS.shape
    return spec.cost.release(name, "exponential", _NORM_SHARE, change, {}, shape=shape)


def plan_losses(
    spec: LogisticSpec, name: str = "losses of scores", share: float = _LOSSES_SHARE
) -> Release:
    """Plan the release of the losses of the scores times each of `FACTORS`, one sum for each."""
    return plan_sum(spec, name, share, FACTORS.shape, loss_level(spec), sensitivity.row_sum)


def loss_level(spec: LogisticSpec) -> float:
    """Return the clip level of a record's vector of losses, which has an entry per factor."""
    growth = math.sqrt(spec.n_units * spec.cost.mu / _STRONG)
    level = _LOSS_LEVEL * float(np.clip(growth, 1.0, _LARGEST_LEVEL))
    # With two classes, a record has one score, else one per class.
    return level * math.sqrt(len(FACTORS) * (1 if spec.n_classes == 2 else 2))


def clip_norm(spec: LogisticSpec) -> float:
    """Return the given clipping norm of rows, or the guess for standardized rows."""
    given = spec.row_norm
    return float(np.sqrt(spec.n_features) if given is None else given)


def _moment_change(row_norm: float, rounding: float, n_classes: int, adjacency: str) -> float:
    """Return the sensitivity of the moment of rows with a constant and labels appended."""
    beside = weights_beside(row_norm)
    return sensitivity.class_moment(row_norm, *beside, n_classes, adjacency, rounding)


# ------------------------------
# What follows from the released class moment: whitening, class frequencies, and the start.

# Smaller eigenvalues of a covariance are raised to `_LEAST_OF_LARGEST` times the largest
# eigenvalue, and to `_LEAST_OF_MEAN` times their mean. Results hardly depend on these fractions:
# benchmarks/classification/constants.md.
_LEAST_OF_LARGEST, _LEAST_OF_MEAN = 1e-4, 1e-2
# Least assumed frequency of a class: too small to matter, but with a finite logarithm.
_LEAST_FRACTION = 1e-12  # not tuned
# The variance of a column is visible above `_VISIBLE` standard deviations of its noise, and an
# outlier above `_FAR_OUT` times the median variance: benchmarks/classification/units.md.
_VISIBLE, _FAR_OUT = 4.0, 5.0
# A column counts as constant if its variance is below `_UNSEEN` standard deviations of its noise,
# and the noise is too small to hide the fraction `_FLAT` of the median variance.
_UNSEEN, _FLAT = 2.0, 0.25  # not studied


@dataclass(frozen=True)
class Whitening:
    """The map from rows x to whitened rows :math:`z = A (x - m)`, by a noisy covariance."""

    mean: np.ndarray  # m
    root: np.ndarray  # A, symmetric
    vectors: np.ndarray  # eigenvectors of A, as columns
    spread: np.ndarray  # variances of z along `vectors`: 1 or, where noise hides them, less
    largest: float  # spectral norm of A
    clip_norm: float  # norm to which z is clipped
    variances: np.ndarray  # of the columns of x; 0 if noise makes them negative
    is_hidden: bool  # whether noise hides all eigenvalues, or most variances beside large ones
    is_flat: np.ndarray  # by column: whether x hardly varies, and noise would not hide it
    class_noise: float = 0.0  # noise std of an entry of the mean product of rows and labels


def whitening_of(
    moment: np.ndarray, noise_std: float, constant: float, n_features: int
) -> Whitening:
    """Return the whitening by a noisy second moment; it uses released values only.

    The moment is the mean outer product of rows, each with a `constant` and weighted labels
    appended, and `noise_std` the standard deviation of the noise of a diagonal entry. Small
    eigenvalues of the covariance are raised: to the largest one of pure noise, or to a fraction of
    the largest or mean eigenvalue. The mean is shrunk toward 0 by its noise. The `clip_norm` of the
    result is the root mean square norm of whitened rows.
    """
    off_diagonal_std = noise_std * math.sqrt(0.5)
    noisy_mean = moment[:n_features, n_features] / constant
    mean_square = float(row_squares(noisy_mean[None])[0])
    mean_noise = n_features * (off_diagonal_std / constant) ** 2
    mean = noisy_mean * max(0.0, 1 - mean_noise / mean_square) if mean_square else noisy_mean
    # The covariance is taken around the shrunk mean, as the noisy mean may be longer than any row.
    shift = np.outer(mean, noisy_mean)
    covariance = moment[:n_features, :n_features] - shift - shift.T + np.outer(mean, mean)
    values, vectors = np.linalg.eigh(covariance)
    edge = noise_edge(off_diagonal_std, n_features)
    least = max(edge, _LEAST_OF_LARGEST * values[-1], _LEAST_OF_MEAN * values.mean())
    raised = np.maximum(values, least)
    spread = values / raised
    clip_norm = math.sqrt(max(1.0, float(spread.sum())))
    half = (vectors / np.sqrt(raised)) @ vectors.T
    root, largest = (half + half.T) / 2, 1 / math.sqrt(raised[0])
    variances = np.diag(covariance)
    is_flat = variances < _UNSEEN * noise_std
    is_flat &= _VISIBLE * noise_std < _FLAT * np.median(variances)
    # The median of noisy variances may be negative, so it is at least the noise. Of two middle
    # variances the smaller one is taken, as their mean may be large if only one of them is.
    median = max(float(np.quantile(variances, 0.5, method="lower")), noise_std)
    are_unlike = median < _VISIBLE * noise_std and variances.max() > _FAR_OUT * median
    is_hidden = bool(are_unlike or values[-1] <= edge or spread.sum() < 1)
    variances = np.maximum(variances, 0.0)
    return Whitening(mean, root, vectors, spread, largest, clip_norm, variances, is_hidden, is_flat)


def start_of(
    moment: np.ndarray,
    whitening: Whitening,
    row_norm: float,
    counted: tuple[np.ndarray, float] | None,
) -> tuple[np.ndarray, np.ndarray, float]:
    """Take a Newton step from constant predictions, the class frequencies.

    The step is exact for equally frequent classes; for a rare class its length is capped.
    `counted` has released class frequencies, if there are any, and the standard deviation of their
    noise: they are averaged with those from the moment. `row_norm` is the clipping norm of rows.

    Returns the weights of whitened rows, of shape (n_features + 1, n_columns), whose last row has
    the intercepts; the noisy class frequencies; and the standard deviation of their noise.
    """
    (constant, label_weight), n_features = weights_beside(row_norm), len(whitening.mean)
    n_classes = len(moment) - n_features - 1
    sums = centered(moment[: n_features + 1, n_features + 1 :] / label_weight)
    excess = sums[n_features] / constant
    noise_std = whitening.class_noise / constant
    if counted is not None:
        counted_fractions, counted_std = counted
        weight = noise_std**2 / (noise_std**2 + counted_std**2)
        excess = excess + weight * (counted_fractions - counted_fractions.mean() - excess)
        noise_std = math.sqrt(weight) * counted_std
    fractions = likely_fractions(excess, noise_std)
    cross = sums[:n_features] - np.outer(whitening.mean, excess)
    slopes = (whitening.root @ cross) * np.minimum(n_classes, 1 / fractions)
    weights = np.vstack([slopes, np.log(fractions)])
    weights = weights[:, 1:] - weights[:, :1] if n_classes == 2 else centered(weights)
    return weights, excess + 1 / n_classes, noise_std


def likely_fractions(excess: np.ndarray, noise_std: float) -> np.ndarray:
    """Return class frequencies shrunk toward equal ones, by their noise.

    `excess` has the noisy frequencies minus those of equally frequent classes.
    """
    n_classes, n_free = len(excess), len(excess) - 1
    variance = noise_std**2 * n_free / n_classes
    square = float(excess @ excess)
    noise = variance * (n_free + math.sqrt(2 * n_free))
    fractions = 1 / n_classes + excess * (max(0.0, 1 - noise / square) if square else 0.0)
    # Up to a common factor, a large fraction stays as it is, and 0 becomes half of the noise std.
    fractions = np.maximum(fractions + np.sqrt(fractions**2 + variance), _LEAST_FRACTION)
    return np.asarray(fractions / fractions.sum())


def centered(weights: np.ndarray) -> np.ndarray:
    """Subtract the mean over classes from each row, which does not change probabilities.

    A single column, which has the log odds of two classes, stays as it is.
    """
    if weights.shape[1] == 1:
        return weights
    return np.asarray(weights - weights.mean(axis=1, keepdims=True))


def of_classes(scores: np.ndarray) -> np.ndarray:
    """Return a score for each class; from log odds, 0 for the first class of two."""
    return np.hstack([np.zeros_like(scores), scores]) if scores.shape[-1] == 1 else scores


# ------------------------------
# The choice of momentum: with more momentum, each step gains more, and noise grows.

# With more than two classes, a fit chooses among these momenta. `_LARGEST` caps the momentum that
# follows from the strength, for any number of classes.
_MOMENTA = (0.0, 0.5, 0.8, 0.9, 0.95, 0.97)  # benchmarks/classification/momentum.md
_LARGEST = 0.9  # benchmarks/classification/momentum.md
# Momentum is chosen by a predicted loss. One term is the gain that steps do not reach: `_OF_GROWTH`
# times f to the power `_POWER`, over the total length of the steps, where f is the fraction of the
# variance of the classes that rows explain. Another term is overfitting, with the weight
# `_OF_CHANCE`.
_OF_GROWTH, _POWER, _OF_CHANCE = 8.0, 4, 0.001  # benchmarks/classification/momentum.md
# At the end of the steps, the loss is assumed to have this fraction of its curvature at the start.
_FLATTER = 0.5  # benchmarks/classification/momentum.md
# Rows are assumed to explain at most the fraction `_MOST_KNOWN` of the variance of the classes. In
# directions whose variance noise hides, rows are assumed to have `_VARY_MORE` times the usual
# variance along differences of classes.
_MOST_KNOWN, _VARY_MORE = 0.8, 4.0  # benchmarks/classification/momentum.md
# Noise hides variances of whitened rows below 1. The error of their sum has this std.
_STD_OF_HIDDEN = 0.7  # not tuned
# With more than `_MANY` records per feature, steps tend to end too early. So the momentum is then
# at least 1 - c / s, or with more than two classes at least the next lower candidate. Here c is
# `_LESS_OF_TWO` or `_LESS_OF_MORE`, and s is the strength divided by the number of classes minus 1,
# times the curvature of the loss, times the number of classes.
_MANY, _LESS_OF_TWO, _LESS_OF_MORE = 25.0, 27.0, 4.0  # benchmarks/classification/momentum.md
# With two classes, a rare class lowers the curvature of the loss, and so raises the momentum. For
# the momentum, the curvature is at least `_SHOWN` / s times that at equal frequencies, s as above.
_SHOWN = 5.0  # benchmarks/classification/momentum.md
# Base-2 logarithm of the number of points that `normal_points` makes.
_DRAWS = 10  # not studied
_TINY = np.finfo(float).tiny


@dataclass(frozen=True)
class Pace:
    """Steps with momentum: each starts at the last iterate plus `momentum` times the last move."""

    n_steps: int
    step: float  # step length: factor of the gradient
    momentum: float
    curvature: float  # assumed second derivative of the loss by a score
    step_noise: float  # standard deviation that one step adds to an entry of the weights

    def weight_noise(self, spread: np.ndarray) -> np.ndarray:
        """Return the noise variance of a weight, along directions with row variances `spread`."""
        decay = 1 - self.step * self.curvature * spread
        return self.step_noise**2 * noise_in_mean(decay, self.momentum, self.n_steps)


def momentum_of(spec: LogisticSpec, pace: Pace, start: np.ndarray, white: Whitening) -> float:
    """Choose the momentum: with more than two classes, the one with the least predicted log loss.

    With two classes, steps with this momentum go as far as twice as many steps without. If one
    class is rare, or if noise hardly matters, the momentum is larger.
    """
    has_two, curvature = spec.n_classes == 2, curvature_at(start[-1])
    strength = spec.strength / (spec.n_classes - 1) * curvature * spec.n_classes
    scale = _LESS_OF_TWO if has_two else _LESS_OF_MORE
    has_many = spec.n_units >= _MANY * spec.n_features
    least = min(_LARGEST, 1 - scale / max(scale, strength)) if has_many else 0.0
    if has_two:
        # The curvature is 1/4 for equally frequent classes, and smaller if one class is rare.
        part = max(4 * curvature, _SHOWN / max(_SHOWN, strength))
        return max(min(_LARGEST, 1 - part * pace.n_steps / n_steps(spec)), least)
    largest = _curvatures_at(start[-1]).max()
    # Momenta with which even noise-free steps would diverge are left out.
    paces = [
        replace(pace, momentum=momentum)
        for momentum in _MOMENTA
        if pace.step * largest < 1 + 1 / (1 + 2 * momentum) or momentum == 0
    ]
    paces = paces[sum(pace.momentum <= least for pace in paces[1:]) :]
    spread = seen_spread(white, _MARGIN)
    total, clearest, hidden, started = explained_by_start(start, white)

    def _excess(pace: Pace) -> float:
        """Predict by how much the log loss after all steps exceeds its minimum, to second order."""
        progress = _progress(curvature, pace)
        # Weights of classes that rows separate well grow slowly.
        unreached = _OF_GROWTH * max(clearest, total) ** _POWER / progress
        # Along directions hidden by noise, the start is too short.
        missing = (1 - started) * math.exp(-progress * started)
        noise = (1 - total) * _loss_by_noise(curvature, spread, pace)
        score_loss = hidden * missing**2 / 2 + noise
        overfitting = progress * spread.sum() / spec.n_units
        return float(unreached + (spec.n_classes - 1) * (score_loss + _OF_CHANCE * overfitting))

    return min(paces, key=_excess).momentum


def explained_by_start(start: np.ndarray, white: Whitening) -> tuple[float, float, float, float]:
    """Estimate from the start how much rows explain of the variance of three or more classes.

    A direction is hidden if noise hides the variance of rows along it, else clear. The first three
    results are explained fractions of a variance: of the classes, by all directions; of the one
    contrast of classes that clear directions explain best, by clear directions; and of the classes,
    by hidden directions. The last result is the length of the start along hidden directions, over
    the length of the best weights: it is too short, as whitened rows have a variance below 1 there.
    """
    curvature, n_free = curvature_at(start[-1]), start.shape[1] - 1
    is_hidden, fractions = white.spread < 1, softmax(start[-1])
    scaled = math.sqrt(curvature / n_free) * (white.vectors.T @ start[:-1])
    squares = np.sum(scaled**2, axis=1)
    clear = min(_MOST_KNOWN, float(squares[~is_hidden].sum()))
    clearest = n_free * float(np.linalg.norm(scaled * ~is_hidden[:, np.newaxis], 2)) ** 2
    noise_stds = white.class_noise * white.largest * np.minimum(len(fractions), 1 / fractions)
    square = max(0.0, float(np.sum(squares[is_hidden] - curvature * np.mean(noise_stds**2))))
    spread = _VARY_MORE * seen_spread(white, _MARGIN).min()
    # The ratio of what hidden directions explain to what no direction explains: `square / spread`.
    hidden, started = (1 - clear) * square / (spread + square), (spread + square) / (1 - clear)
    return min(_MOST_KNOWN, clear + hidden), min(1.0, clearest), hidden, min(1.0, started)


def seen_spread(white: Whitening, margin: float = 0.0) -> np.ndarray:
    """Return the variances of whitened rows along eigenvectors; hidden ones become their mean.

    Noise hides variances below 1. `_STD_OF_HIDDEN` is the standard deviation of the error of their
    sum, and smaller sums are raised to it. A `margin` is added to the sum.
    """
    is_hidden = white.spread < 1
    total = max(_STD_OF_HIDDEN, white.spread[is_hidden].sum()) + margin
    return np.where(is_hidden, min(1.0, total / max(1, is_hidden.sum())), white.spread)


def _progress(curvature: float, pace: Pace) -> float:
    """Return the total length of all steps, in units of a step of Newton's method at the start."""
    return curvature * pace.n_steps * pace.step / (1 - pace.momentum)


def _loss_by_noise(curvature: float, spread: np.ndarray, pace: Pace) -> float:
    """Predict the log loss that noise adds by one column of weights, if rows explain nothing."""
    flatter = replace(pace, curvature=_FLATTER * pace.curvature)
    return curvature * float((spread * flatter.weight_noise(spread)).sum()) / 2


def step_factors(
    spec: LogisticSpec, pace: Pace, most: float, offsets: np.ndarray, white: Whitening
) -> Callable[[np.ndarray], float]:
    """Return a function from released weights to a factor, 1 to `most`, of the next step.

    Steps become longer as the scores of rows grow, because the loss becomes flatter. Rows that
    nearly tell the classes apart need large scores, which take many steps of one length. The
    curvature of the loss at the weights is computed for normal rows. A longer step adds noise, and
    leaves less gain unreached: the factor minimizes the predicted sum of both losses. `offsets` are
    the intercepts before the first step.
    """
    if most == 1:
        return lambda weights: 1.0
    spread, n_free, curvature = seen_spread(white), spec.n_classes - 1, curvature_at(offsets)
    roots = np.sqrt(spread)[:, np.newaxis] * white.vectors.T
    loss_by_noise = _loss_by_noise(curvature, seen_spread(white, _MARGIN), pace)
    noise = n_free * loss_by_noise * _progress(curvature, pace) / _OF_GROWTH
    noise_square = n_free * float((spread * pace.weight_noise(spread)).sum())
    points = normal_points(min(len(spread), len(offsets)))

    def _factor(weights: np.ndarray) -> float:
        along = roots @ weights[:-1]
        signal = max(0.0, 1 - noise_square / max(float(np.vdot(along, along)), _TINY))
        scores = math.sqrt(signal) * points @ np.linalg.qr(along, mode="r") + weights[-1]
        likely = softmax(of_classes(scores), axis=1)
        unexplained = float(np.sum(likely * (1 - likely))) / len(likely)
        unexplained = min(1.0, max(unexplained / n_free / curvature, _TINY))
        best = math.sqrt((1 - unexplained) ** _POWER / max(noise * unexplained, _TINY))
        return max(1.0, min(best, 1 / unexplained, most))

    return _factor


def normal_points(n_columns: int) -> np.ndarray:
    """Return points spread evenly over a standard normal distribution, the same in every fit."""
    points = Sobol(n_columns, scramble=False).random_base2(_DRAWS) + 0.5 / 2**_DRAWS
    return np.asarray(ndtri(points))


# ------------------------------
# The mean of the iterates, and its weights along directions in which noise hides the variance.

# Margin of an estimate of hidden variances: in standard deviations in `shrinkage_of_hidden`, and
# added to their sum by `seen_spread`.
_MARGIN = 2.0  # benchmarks/classification/constants.md
#: From this strength on, weights along directions hidden by noise are shrunk, usually to 0. With
#: less strength, all these weights together still predict.
LEAST_TO_DROP = 60.0  # benchmarks/classification/unseen.md


def mean_of(iterates: list[np.ndarray], pace: Pace, white: Whitening, *, drops: bool) -> np.ndarray:
    """Return the mean of the last half of the iterates, as its noise is smaller.

    With `drops`, weights along directions hidden by noise are shrunk, usually to 0. Training rows
    hardly vary along these directions, so steps do not correct the noise of these weights, which
    would add to the scores of new rows.
    """
    mean = np.mean(iterates[pace.n_steps // 2 :], axis=0)
    hidden = white.vectors[:, white.spread < 1]
    if drops and hidden.size:
        along = hidden.T @ mean[:-1]
        mean[:-1] -= (1 - shrinkage_of_hidden(along, pace, white)) * hidden @ along
    return np.asarray(mean)


def shrinkage_of_hidden(weights: np.ndarray, pace: Pace, white: Whitening) -> float:
    """Return the factor of weights along directions in which noise hides the variance of rows.

    Whitened rows have a variance (`spread`) below 1 along these directions. The factor is the
    larger of two cautious estimates. The first is the fraction of the noise variance that later
    steps remove if the spread is one standard deviation below the released one. The second is the
    excess of the squared weights over the noise with an even smaller spread, in `_MARGIN` standard
    deviations of the squared weights.
    """
    n_hidden, n_free = len(weights), max(1, weights.shape[1] - 1)
    mean, std = white.spread[white.spread < 1].mean(), 1 / math.sqrt(2 * len(white.mean) * n_hidden)
    spread = np.maximum(0.0, [mean - std, mean - _MARGIN * std, 0.0])
    noise, noise_most, noise_flat = pace.weight_noise(spread)
    excess = np.sum(weights**2) / (n_free * n_hidden * noise_most) - 1
    in_margins = excess / (_MARGIN * math.sqrt(2 / (n_free * n_hidden)))
    # The squared weights bound their noise: short weights show that later steps remove noise.
    noise = min(noise, np.sum(weights**2) / (n_free * n_hidden))
    return float(np.clip(in_margins, 1 - noise / noise_flat, 1.0))


def curvature_at(offsets: np.ndarray) -> float:
    """Return the mean second derivative of the log loss by the scores, at the scores `offsets`.

    With K classes the mean is over K - 1 directions, as adding a number to all scores changes no
    probability.
    """
    return float(_curvatures_at(offsets).sum()) / max(1, len(offsets) - 1)


def _curvatures_at(offsets: np.ndarray) -> np.ndarray:
    """Return the eigenvalues of the second derivative of the log loss, if scores are `offsets`."""
    fractions = softmax(of_classes(offsets))
    if len(offsets) == 1:
        return fractions[:1] * fractions[1:]
    return np.linalg.eigvalsh(np.diag(fractions) - np.outer(fractions, fractions))
