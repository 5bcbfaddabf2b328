"""The best length of the scores of a fit, by released losses; standard errors of coefficients.

Standard errors assume that whitened rows are normal. Then the coefficients of the population
determine the gradient at released weights, and so follow from released gradients.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import entr, softmax

from skdp.data.parts import Targets
from skdp.data.rows import Block, products_of
from skdp.linalg.norms import row_norms, row_squares
from skdp.linear_model.logistic.plan import (
    FACTORS,
    LabeledRows,
    LogisticSpec,
    Pace,
    Whitening,
    centered,
    curvature_at,
    loss_level,
    normal_points,
    of_classes,
    seen_spread,
)
from skdp.privacy import PrivacyBudget, Release
from skdp.privacy.clipping import clip_rows

# Scores are multiplied by the factor with the least loss. The factor is guessed first, and released
# losses correct the guess. The error of the guess has a standard deviation of `_FACTOR_STD` times
# the guess, or times `_LEAST_GUESS` if that is larger. A guessed difference between the losses at
# two factors has a smaller error, which `_CHANGE_STD` states as an error of the factor.
_FACTOR_STD, _LEAST_GUESS = 0.7, 0.6  # benchmarks/sweep/sweep.md, job "classes"
_CHANGE_STD = 0.2  # benchmarks/classification/weak.md
# The guess of the factor is at least `_LEAST_FACTOR`. For caution, `_CAUTION` standard deviations
# of noise are added to the losses.
_LEAST_FACTOR, _CAUTION = 0.05, 3.0  # benchmarks/sweep/sweep.md, job "classes"
# Scores that do not predict are shortened to a root mean square of `_SMALL`, where they cost little
# loss and still rank rows; but they are multiplied by `_SMALLEST_FACTOR` at least.
_SMALL, _SMALLEST_FACTOR = 0.1, 0.02  # not studied
# Released losses differ from a parabola by noise alone if the sum of squared differences is below
# this many noise variances. By noise alone the sum is chi-square with 2 degrees of freedom, whose
# mean and standard deviation are 2.
_NOISE_OF_BEND = 16.0  # benchmarks/sweep/sweep.md, job "classes"
#: Penalty, relative to the penalty of `LogisticRegression` with ``C=1`` on standardized columns.
# Without a penalty, and with a large epsilon, scores would fit the training records alone. The
# whole penalty makes scores too short, as clipped gradients and few steps shrink weights, too.
OF_PENALTY = 0.25  # benchmarks/classification/momentum.md
# With two classes, a record has two possible vectors of losses, one per label. The record gets a
# smaller weight if the longer vector exceeds this many clip levels.
_EVENLY = 1.5  # benchmarks/classification/spreads.md
_TINY = np.finfo(float).tiny
# Scores of a prior are scaled down to this root mean square if theirs is larger.
_LONGEST = 30.0  # not tuned
#: Standard errors are computed up to this number of classes: for more they would fill the memory.
MOST_CLASSES = 100  # not tuned
# Standard errors take `_STEPS` steps of an iteration to the coefficients of the population, and a
# matrix of curvatures of at most `_IN_FULL` rows, one for each pair of a direction and a class.
_STEPS, _IN_FULL = 20, 700  # not studied
# Standard errors assume that the true scores have at most this standard deviation.
_MOST_VARIED = 6.0  # not studied
# Eigenvalues and singular values below this fraction of the largest one are not inverted.
_LEAST = 1e-8  # not tuned


@dataclass(frozen=True)
class Scores:
    """Scores :math:`t (x^T W - w) + b(t)` of rows x, with a factor t still to be chosen."""

    slopes: np.ndarray  # W
    shift: np.ndarray  # w
    constant: np.ndarray  # b(0), the intercepts if all predictions are the class frequencies
    move: np.ndarray  # b(t) is `constant` plus min(1, t) times `move`
    size: float  # root mean square of x^T W - w
    noise: float  # estimated fraction of the square of `size` that is noise
    penalty: float = 0.0  # of the slopes, for t = 1
    base: np.ndarray | float = 0.0  # weights of a prior, whose scores are added
    farthest: float = math.inf  # to which predictions clip x^T W - w
    hidden: float = 0.0  # estimated loss, divided by t times `size`, that clipping removes
    fraction_std: float = 0.0  # standard deviation of the noise of the class frequencies

    def offsets(self, factor: float) -> np.ndarray:
        """Return the intercepts for scores multiplied by `factor`."""
        return np.asarray(self.constant + min(1.0, factor) * self.move)

    def bounds(self, factor: float) -> np.ndarray:
        """Return the lower and upper bounds of the scores, for each column."""
        offsets, farthest = self.offsets(factor), factor * self.farthest
        return np.stack([offsets - farthest, offsets + farthest])

    def weights(self, factor: float) -> np.ndarray:
        """Return weights of raw rows, for scores multiplied by `factor`; intercepts come last."""
        own = np.vstack([factor * self.slopes, self.offsets(factor) - factor * self.shift])
        return np.asarray(own + self.base)


def scores_of(
    mean: np.ndarray, start: np.ndarray, pace: Pace, white: Whitening, n_units: int
) -> Scores:
    """Compute scores, and estimates of their size and noise.

    `mean` has the mean weights of the last half of the steps, and `start` the weights before the
    steps; the last row of both has the intercepts.
    """
    spread, n_free = seen_spread(white), max(1, start.shape[1] - 1)
    noise = n_free * float((spread * pace.weight_noise(spread)).sum())
    square = float(spread @ np.sum((white.vectors.T @ mean[:-1]) ** 2, axis=1))
    square, move = max(square, noise, _TINY), mean[-1] - start[-1]
    # The change of the intercepts is shrunk by its noise.
    noise_of_move = n_free * float(pace.weight_noise(np.ones(1))[0])
    move *= max(0.0, 1 - noise_of_move / max(float(move @ move), _TINY))
    slopes = white.root @ mean[:-1]
    slopes[white.is_flat] = 0.0
    penalty = OF_PENALTY / (2 * n_units) * float(white.variances @ row_squares(slopes))
    size, shift = math.sqrt(square), white.mean @ slopes
    return Scores(slopes, shift, start[-1], move, size, noise / square, penalty)


def release_factor(
    spec: LogisticSpec, release: Release, view: LabeledRows, scores: Scores, budget: PrivacyBudget
) -> tuple[float, float]:
    """Release the losses of the scores times each of `FACTORS`; return the best factor, and a gain.

    The gain is a lower bound of the loss that the model saves, relative to the loss of constant
    predictions, the class frequencies. Noise of the frequencies adds to the loss. Released losses
    correct a guess, which is a parabola in the factor t. All losses are divided by t times the size
    of the scores, so that the guess is linear in t.
    """
    kernel = partial(_losses, codes=view.codes, scores=scores, level=loss_level(spec))
    total, noise_std = budget.release(release, view.map_sum(kernel, len(FACTORS)))
    released = total / spec.n_units + scores.hidden
    variance = (noise_std / spec.n_units) ** 2 / len(FACTORS)
    guess = max(_LEAST_FACTOR, 1 - scores.noise)
    curvature = curvature_at(scores.constant)
    # Scores save at most the log loss of the class frequencies.
    fractions = softmax(of_classes(scores.constant))
    null_loss = max(float(entr(fractions).sum()), _TINY)
    guessed_gain = curvature * (guess * scores.size) ** 2 / 2
    # The guessed losses are flattened, so that they never save more than `null_loss`.
    slope = curvature * scores.size / (1 + guessed_gain / null_loss)
    guessed = slope / 2 * (FACTORS - 2 * guess)
    unknown = (slope * _FACTOR_STD * max(guess, _LEAST_GUESS)) ** 2
    of_mean = unknown / max(unknown + variance, _TINY)
    unknown, noise_of_one = (slope * _CHANGE_STD) ** 2, len(FACTORS) * variance
    of_change, error = unknown / max(unknown + noise_of_one, _TINY), released - guessed
    # The error of the guess is averaged over factors. Its mean, and the differences from its mean,
    # are shrunk separately, each by its own noise.
    estimate = guessed + of_change * error + (of_mean - of_change) * error.mean()
    estimate += _CAUTION * math.sqrt(of_mean * variance)
    smallest = min(1.0, max(_SMALLEST_FACTOR, _SMALL / scores.size))
    factors = np.geomspace(smallest, FACTORS[-1], 160)
    losses = scores.size * factors * _between(estimate, factors, of_change**2 * noise_of_one)
    losses += scores.penalty * factors**2
    best = int(losses.argmin())
    std = scores.fraction_std
    fraction_loss = std**2 * float(np.sum(1 / (fractions + std))) / 2
    return float(factors[best]), (-float(losses[best]) - fraction_loss) / null_loss


def _between(values: np.ndarray, factors: np.ndarray, variance: float) -> np.ndarray:
    """Interpolate losses, given at `FACTORS`, by a parabola in the logarithm of the factor.

    If the losses differ from the parabola by more than noise of the given `variance`, a curve of
    degree 4 is added. Below the least of `FACTORS`, the curve continues as a line.
    """
    log_factors = np.log(FACTORS)
    parabola = np.polynomial.Polynomial.fit(log_factors, values, 2)
    differences = values - parabola(log_factors)
    square = max(float(differences @ differences), _TINY)
    bend = max(0.0, 1 - _NOISE_OF_BEND * variance / square)
    curve = parabola + bend * np.polynomial.Polynomial.fit(log_factors, differences, 4)
    least, second = curve(log_factors[:2])
    line = least + (second - least) / (FACTORS[1] - FACTORS[0]) * (factors - FACTORS[0])
    return np.where(factors < FACTORS[0], line, curve(np.log(factors)))


class PriorPart(NamedTuple):
    """The part of a prior, a published model, that a fit builds on."""

    weight: float = 0.0  # factor of the prior's scores, from 0 to 1
    gain: float = 0.0  # log loss that the prior saves, over the log loss of the class frequencies
    offsets: np.ndarray | float = 0.0  # intercepts at which the steps start
    base: np.ndarray | float = 0.0  # used part of the prior's weights, for whitened rows
    on_rows: np.ndarray | float = 0.0  # the same for raw rows


def release_agreement(
    spec: LogisticSpec,
    release: Release,
    view: LabeledRows,
    constant: np.ndarray,
    white: Whitening,
    budget: PrivacyBudget,
) -> PriorPart:
    """Release the losses of multiples of a prior's scores; return the best multiple, at most 1.

    The losses are first guessed as those of a good prior. If noise hides them, the multiple is 0.
    `constant` has the intercepts of the class frequencies, as in `Scores`.
    """
    assert spec.prior is not None
    slopes, intercepts = spec.prior[:-1], spec.prior[-1]
    with np.errstate(all="ignore"):
        white_slopes = np.nan_to_num(np.linalg.solve(white.root, slopes))
        size = float(np.linalg.norm(np.sqrt(seen_spread(white))[:, np.newaxis] * white_slopes))
        part = min(1.0, _LONGEST / max(size, _TINY))
        shift, size = part * (white.mean @ slopes), max(_TINY, part * size)
        move = np.nan_to_num(centered((intercepts + shift)[None])[0] - constant)
    # At the mean row, a good prior predicts about the released class frequencies: so large moves
    # of the intercepts are clipped.
    move = np.clip(move, -1 - size, 1 + size)
    scores = Scores(part * slopes, shift, constant, move, size, 0.0)
    factor, gain = release_factor(spec, release, view, scores, budget)
    weight = min(1.0, factor) if gain > 0 else 0.0
    base = np.vstack([weight * part * white_slopes, np.zeros_like(constant)])
    on_rows = weight * np.vstack([part * slopes, -shift])
    return PriorPart(weight, gain, scores.offsets(weight), base, on_rows)


# The losses of records.


def _losses(rows: slice, block: Block, codes: Targets, scores: Scores, level: float) -> np.ndarray:
    """Sum the clipped losses of records, for scores times each of `FACTORS`.

    The loss of the class frequencies is subtracted. Wrong predictions have the largest losses, so
    clipping alone would favor them. With two classes, a record is therefore weighted first, by its
    losses for the label that makes them larger.
    """
    with np.errstate(all="ignore"):
        signals, labels = products_of(block, scores.slopes) - scores.shift, codes[rows]
        signals = np.clip(signals, -scores.farthest, scores.farthest)
        base = scores.base
        of_base = base if isinstance(base, float) else products_of(block, base[:-1]) + base[-1]
        null = np.broadcast_to(scores.constant + of_base, signals.shape)
        scaled = [factor * signals + scores.offsets(factor) + of_base for factor in FACTORS]

        def _relative(labels: np.ndarray) -> np.ndarray:
            losses = np.column_stack([losses_at(one, labels) for one in scaled])
            # Losses grow with factor and size. Divided by both, all losses are clipped alike.
            return (losses - losses_at(null, labels)[:, np.newaxis]) / (FACTORS * scores.size)

        values = _relative(labels)
        if signals.shape[1] == 1:
            norms = np.maximum(row_norms(values), row_norms(_relative((labels == 0) * 1)))
            values *= (_EVENLY * level / np.maximum(norms, _EVENLY * level))[:, np.newaxis]
        clipped = clip_rows(values, level)
    clipped[block.is_null] = 0.0
    return np.asarray(block.times_sample_weight(clipped).sum(axis=0))


def losses_at(scores: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return the log loss of each record; `codes` has the indices of the true classes."""
    by_class = np.ascontiguousarray(of_classes(scores).T)
    return np.asarray(np.logaddexp.reduce(by_class) - by_class[codes, np.arange(len(codes))])


# ------------------------------
# Standard errors of the coefficients.


class Path(NamedTuple):
    """Mean weights and mean released gradient of the last half of the steps, on whitened rows."""

    weights: np.ndarray  # (n_features + 1, n_columns); the last row has the intercepts
    gradient: np.ndarray  # (n_features, n_columns)
    wobble: np.ndarray  # covariance of a row's scores, as weights vary around their mean
    variance: float  # noise variance of an entry of the gradient

    @staticmethod
    def of(
        weights: list[np.ndarray], gradients: list[np.ndarray], noise_std: float, white: Whitening
    ) -> "Path":
        """Average the last half of the steps, in coordinates along the whitening's eigenvectors."""
        half = slice(len(weights) // 2, None)
        points, gradient = np.array(weights[half]), np.mean(gradients[half], axis=0)
        mean = points.mean(axis=0)
        errors = np.einsum("kd,tkc->tdc", white.vectors, (points - mean)[:, :-1])
        rotated = np.vstack([white.vectors.T @ mean[:-1], mean[-1:]])
        wobble = np.einsum("d,tda,tdb->ab", seen_spread(white), errors, errors) / len(points)
        return Path(rotated, white.vectors.T @ gradient[:-1], wobble, noise_std**2 / len(points))


class _Residuals(NamedTuple):
    """Clipped residuals of random rows, for each possible label, and probabilities of labels.

    With label k, a row has the residual ``parts[k] * (fitted - e_k)``; `e_k` is a unit vector.
    """

    likely: np.ndarray  # true probabilities of labels, (n_rows, n_classes)
    fitted: np.ndarray  # predicted probabilities, (n_rows, n_columns)
    parts: np.ndarray  # clip weights, (n_rows, n_classes)

    @property
    def mean(self) -> np.ndarray:
        """Mean residual of each row, over its possible labels."""
        weights = self.likely * self.parts
        return weights.sum(axis=1, keepdims=True) * self.fitted - self._of_columns(weights)

    @property
    def square(self) -> np.ndarray:
        """Mean outer product of the residual of each row, over its possible labels."""
        weights = self.likely * self.parts**2
        # The square of p - e_k is e_k e_k^T plus `half`, p (p / 2 - e_k)^T, and its transpose.
        own = self._of_columns(weights)
        middle = 0.5 * weights.sum(axis=1, keepdims=True) * self.fitted - own
        half = self.fitted[:, :, np.newaxis] * middle[:, np.newaxis]
        return half + half.transpose(0, 2, 1) + own[:, :, np.newaxis] * np.eye(own.shape[1])

    @property
    def curvature(self) -> np.ndarray:
        """Derivative of the mean residual of each row by its true scores."""
        likely, own = map(self._of_columns, (self.likely, self.likely * self.parts))
        change = likely[:, :, np.newaxis] * self.mean[:, np.newaxis]
        change -= own[:, :, np.newaxis] * self.fitted[:, np.newaxis]
        return change + own[:, :, np.newaxis] * np.eye(own.shape[1])

    @property
    def mean_curvature(self) -> np.ndarray:
        """Mean of `curvature` over the drawn rows."""
        likely, own = map(self._of_columns, (self.likely, self.likely * self.parts))
        total = likely.T @ self.mean - own.T @ self.fitted + np.diag(own.sum(axis=0))
        return np.asarray(total / len(own))

    def _of_columns(self, by_label: np.ndarray) -> np.ndarray:
        # Residuals of two classes have one column, for the second class.
        return by_label[:, -self.fitted.shape[1] :]


def _residuals(scores: np.ndarray, true: np.ndarray, limit: float) -> _Residuals:
    """Compute residuals of predicted `scores`, clipped to `limit`.

    Labels are distributed by the scores `true`.
    """
    probs, likely = softmax(of_classes(scores), axis=1), softmax(of_classes(true), axis=1)
    columns = probs[:, -scores.shape[1] :]
    # The squared norm of p - e_k is |p|^2 + 1 - 2 p_k, or |p|^2 if class k has no column, as the
    # first of two classes.
    own = np.where(np.arange(probs.shape[1]) >= probs.shape[1] - columns.shape[1], 1 - 2 * probs, 0)
    sizes = np.sqrt(np.maximum(np.square(columns).sum(axis=1, keepdims=True) + own, 0.0))
    return _Residuals(likely, columns, np.minimum(1.0, limit / np.maximum(sizes, limit)))


def std_errors(
    path: Path, white: Whitening, level: float, n_units: int, published: np.ndarray
) -> np.ndarray | None:
    r"""Return the root mean squared error of each published coefficient; None if it overflows.

    The error has three parts: noise; sampling; and the distance of coefficients, which are shrunk
    and stopped early, from those of the population. All parts follow from released values, if
    whitened rows are :math:`z = \Sigma^{1/2} u` with a standard normal u.
    """
    spread = np.minimum(seen_spread(white), 1.0)
    size = min(math.sqrt(max(1.0, float(spread.sum()))), white.clip_norm)
    limit = level / math.hypot(size, 1.0)
    with np.errstate(all="ignore"):
        try:
            coef, stds = _of_population(path, spread, limit)
            root = (white.root @ white.vectors) / np.sqrt(spread)
            variances = _variances(coef, stds, path.weights[-1], limit, root, n_units)
        except np.linalg.LinAlgError:
            return None
        errors = np.sqrt(variances + np.square(root @ coef - published))
    return errors if np.isfinite(errors).all() else None


def _of_population(path: Path, spread: np.ndarray, limit: float) -> tuple[np.ndarray, np.ndarray]:
    """Estimate the coefficients of the population; return also a noise std of each entry.

    Whitened rows are normal, so Stein's lemma holds: the mean product of a row and its residual,
    the released gradient, is a linear combination of the fitted weights and the wanted
    coefficients. Its factors depend on the covariance of fitted and true scores, and so on the
    coefficients: the equation is solved by fixed-point iteration.

    `spread` has the variances of whitened rows, and residuals are clipped to `limit`.
    """
    roots, n_columns = np.sqrt(spread)[:, np.newaxis], path.weights.shape[1]
    weights, offsets = roots * path.weights[:-1], path.weights[-1]
    coef, points, noise = weights, normal_points(2 * n_columns), path.variance / roots**2
    noise_of_one = noise - (n_columns > 1) * noise / n_columns
    precisions = (noise.min() / noise) ** 2
    parts, least = precisions / precisions.sum(), noise.min() * math.sqrt(2 / precisions.sum())
    fractions = softmax(of_classes(offsets))[-n_columns:]
    largest = (_MOST_VARIED * fractions * (1 - fractions)) ** 2 / len(noise)
    inner = weights.T @ weights + path.wobble
    for _ in range(_STEPS):
        cross = weights.T @ coef
        values, vectors = np.linalg.eigh(np.block([[inner, cross], [cross.T, coef.T @ coef]]))
        lengths = np.sqrt(np.maximum(values, _LEAST * max(values[-1], _LEAST)))
        scores = (points * lengths) @ vectors.T
        drawn = _residuals(scores[:, :n_columns] + offsets, scores[:, n_columns:] + offsets, limit)
        # Stein's lemma: the mean product of a standard normal row and its residual is
        # [weights, coef] @ explained.
        explained = (vectors / lengths) @ (points.T @ drawn.mean) / len(points)
        curvature = drawn.mean_curvature
        products = np.hstack([weights, coef]) @ explained - path.gradient / roots + coef @ curvature
        # Products of rows and labels are shrunk by the fraction of their square that is noise.
        signal = np.sum(parts * (products**2 - noise_of_one), axis=0)
        signal_variance = np.minimum(np.maximum(signal, least), largest)
        shrinkage = signal_variance / (signal_variance + noise)
        coef = (shrinkage * products) @ np.linalg.pinv(curvature, _LEAST)
        coef *= min(1.0, _MOST_VARIED / max(float(np.linalg.norm(coef)), _LEAST))
    return coef, np.sqrt(shrinkage * noise)


def _variances(
    coef: np.ndarray,
    stds: np.ndarray,
    offsets: np.ndarray,
    limit: float,
    root: np.ndarray,
    n_units: int,
) -> np.ndarray:
    """Return sandwich variances of coefficients of raw rows, by noise and sampling.

    The loss is flatter along directions in which classes differ. So the leading singular vectors of
    `coef` get a curvature of their own, and all other directions the mean curvature.

    `coef` are coefficients of rows whose covariance is the identity, which `root` maps to raw rows;
    `stds` has the noise of the products of these rows and labels.
    """
    n_columns = coef.shape[1]
    left, sizes, right = np.linalg.svd(coef, full_matrices=False)
    rank = min(len(sizes), max(1, _IN_FULL // n_columns))
    points = normal_points(2 * n_columns)[:, : len(sizes)]
    scores = (points * sizes) @ right + offsets
    drawn, left, points = _residuals(scores, scores, limit), left[:, :rank], points[:, :rank]
    squares = np.einsum("ni,nj->nij", points, points).reshape(len(points), -1)
    # A common change of the scores of all classes has no effect, so it is projected out of noise.
    is_free = np.eye(n_columns) - (n_columns > 1) / n_columns

    def _paired(by_draw: np.ndarray) -> np.ndarray:
        """Average ``kron(outer(z, z), m)`` over `points` z, each with its m in `by_draw`."""
        product = squares.T @ by_draw.reshape(len(points), -1) / len(points)
        by_pair = product.reshape(rank, rank, n_columns, n_columns)
        return by_pair.transpose(0, 2, 1, 3).reshape(rank * n_columns, -1)

    noise = (left[:, :, np.newaxis] * stds[:, np.newaxis]).reshape(len(left), -1)
    middle = _paired(drawn.square) / n_units + (noise.T @ noise) * np.tile(is_free, (rank, rank))
    inverse = np.linalg.pinv(_paired(drawn.curvature), _LEAST)
    by_pair = (inverse.T @ middle @ inverse).reshape(rank, n_columns, rank, n_columns)
    along = root @ left
    variances = np.einsum("di,iaja,dj->da", along, by_pair, along, optimize=True)
    across = np.square(root - along @ left.T)
    inverse = np.linalg.pinv(drawn.mean_curvature, _LEAST)
    of_rows = drawn.square.mean(axis=0) / n_units * across.sum(axis=1)[:, np.newaxis, np.newaxis]
    of_rows += np.einsum("jd,da,db->jab", across, stds, stds, optimize=True) * is_free
    variances += np.einsum("jab,ac,bc->jc", of_rows, inverse, inverse, optimize=True)
    return np.asarray(variances)
