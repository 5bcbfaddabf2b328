"""The best length of the scores of a fit, by released losses; standard errors of coefficients.

For the errors, whitened rows are taken to be normal. Then gradients at released weights follow
from the coefficients of the population, and these coefficients from released gradients.
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

# A factor that shortens scores is guessed first, with a standard deviation of `_FACTOR_STD` times
# the guess or, if larger, `_LEAST_GUESS`. The guess of how losses change with the factor has the
# smaller `_CHANGE_STD`, as noise rarely hides that scores are too large.
_FACTOR_STD, _LEAST_GUESS = 0.7, 0.6  # benchmarks/sweep/sweep.md, job "classes"
_CHANGE_STD = 0.2  # benchmarks/classification/weak.md
# Least guess of the factor; number of standard deviations of noise that are added to losses.
_LEAST_FACTOR, _CAUTION = 0.05, 3.0  # benchmarks/sweep/sweep.md, job "classes"
# Size to which useless scores are shortened: they cost nothing and still rank; and least factor.
_SMALL, _SMALLEST_FACTOR = 0.1, 0.02  # not studied
# Noise explains deviations of released losses from a parabola up to this sum of squares, in noise
# variances: it is chi-square of 2 degrees of freedom, whose mean and standard deviation are 2.
_NOISE_OF_BEND = 16.0  # benchmarks/sweep/sweep.md, job "classes"
#: Part of the penalty of scikit-learn's `LogisticRegression` with ``C=1`` on standardized columns.
# Without any penalty, scores of few records grow with epsilon until they fit these records alone.
# The whole penalty makes scores too short, as clipped gradients and few steps shrink weights, too.
OF_PENALTY = 0.25  # benchmarks/classification/momentum.md
# With two classes, a record counts less if the larger loss of both labels exceeds so many levels.
_EVENLY = 1.5  # benchmarks/classification/spreads.md
_TINY = np.finfo(float).tiny
# Largest root mean square of a prior's scores, to which longer ones are scaled down.
_LONGEST = 30.0  # not tuned
#: With more classes than this, coefficients have no errors: they would fill the memory.
MOST_CLASSES = 100  # not tuned
# For standard errors: number of steps to the coefficients of the population; and the most pairs of
# a direction and a class that are treated together, with one matrix of curvatures.
_STEPS, _IN_FULL = 20, 700  # not studied
# For errors, the true scores are assumed to have at most this standard deviation.
_MOST_VARIED = 6.0  # not studied
# Least eigenvalue that is inverted, relative to the largest one.
_LEAST = 1e-8  # not tuned


@dataclass(frozen=True)
class Scores:
    """Scores :math:`t (x^T W - w) + b(t)` of rows x, with a factor t still to be chosen.

    W are the `slopes` and w is the `shift`. The root mean square of scores for t = 1 is `size`; the
    part `noise` of its square is noise, as far as both are known. The `penalty` of slopes counts as
    a loss. From t = 0 to 1, offsets b `move` from those of the class `fractions` to those after the
    steps. Weights `base` are added. For probabilities, :math:`x^T W - w` is clipped to `farthest`.
    The known part of the loss that the clipping of records hides is `hidden`, per unit of size.
    """

    slopes: np.ndarray
    shift: np.ndarray
    fractions: np.ndarray
    move: np.ndarray
    size: float
    noise: float
    penalty: float = 0.0
    base: np.ndarray | float = 0.0
    farthest: float = math.inf
    hidden: float = 0.0

    def offsets(self, factor: float) -> np.ndarray:
        """Return the intercepts for scores multiplied by `factor`."""
        return np.asarray(self.fractions + min(1.0, factor) * self.move)

    def bounds(self, factor: float) -> np.ndarray:
        """Return the lower and upper bounds of the scores, for each column."""
        reach = factor * self.farthest
        return np.stack([self.offsets(factor) - reach, self.offsets(factor) + reach])

    def weights(self, factor: float) -> np.ndarray:
        """Return the weights of rows; the last row has the intercepts."""
        own = np.vstack([factor * self.slopes, self.offsets(factor) - factor * self.shift])
        return np.asarray(own + self.base)


def scores_of(
    mean: np.ndarray, start: np.ndarray, pace: Pace, white: Whitening, n_units: int
) -> Scores:
    """Compute scores from the mean of the iterates, with their size and noise."""
    spread, n_free = seen_spread(white), max(1, start.shape[1] - 1)
    noise = n_free * float((spread * pace.weight_noise(spread)).sum())
    square = float(spread @ np.sum((white.vectors.T @ mean[:-1]) ** 2, axis=1))
    square, move = max(square, noise, _TINY), mean[-1] - start[-1]
    of_move = n_free * float(pace.weight_noise(np.ones(1))[0])
    move *= max(0.0, 1 - of_move / max(float(move @ move), _TINY))
    slopes = white.root @ mean[:-1]
    slopes[white.is_flat] = 0.0
    penalty = OF_PENALTY / (2 * n_units) * float(white.variances @ row_squares(slopes))
    size, shift = math.sqrt(square), white.mean @ slopes
    return Scores(slopes, shift, start[-1], move, size, noise / square, penalty)


def release_factor(
    spec: LogisticSpec,
    release: Release,
    view: LabeledRows,
    scores: Scores,
    fraction_std: float,
    budget: PrivacyBudget,
) -> tuple[float, float]:
    """Release the losses of multiples of the scores; return the best factor, and its gain.

    Released losses are averaged with a guess. The gain is a lower bound, relative to the loss of
    the class fractions, whose noise of std `fraction_std` adds to the loss. The loss is convex, and
    nearly a parabola for short scores: divided by the factor, it is nearly linear in it.
    """
    kernel = partial(_losses, codes=view.codes, scores=scores, level=loss_level(spec))
    total, noise_std = budget.release(release, view.map_sum(kernel, len(FACTORS)))
    released = total / spec.n_units + scores.hidden
    variance = (noise_std / spec.n_units) ** 2 / len(FACTORS)
    guess = max(_LEAST_FACTOR, 1 - scores.noise)
    curvature = curvature_at(scores.fractions)
    # The gain of scores is at most the log loss of the class fractions.
    fractions = softmax(of_classes(scores.fractions))
    null_loss = max(float(entr(fractions).sum()), _TINY)
    gain = curvature * (guess * scores.size) ** 2 / 2
    bend = curvature * scores.size / (1 + gain / null_loss)
    guessed = bend / 2 * (FACTORS - 2 * guess)
    unknown = (bend * _FACTOR_STD * max(guess, _LEAST_GUESS)) ** 2
    of_mean = unknown / max(unknown + variance, _TINY)
    # Then the variance of the differences between losses at different factors.
    unknown, noise_of_one = (bend * _CHANGE_STD) ** 2, len(FACTORS) * variance
    of_change, beyond = unknown / max(unknown + noise_of_one, _TINY), released - guessed
    # The mean over factors, and the differences from it, are shrunk apart, each by its own noise.
    estimate = guessed + of_change * beyond + (of_mean - of_change) * beyond.mean()
    estimate += _CAUTION * math.sqrt(of_mean * variance)
    smallest = min(1.0, max(_SMALLEST_FACTOR, _SMALL / scores.size))
    factors = np.geomspace(smallest, FACTORS[-1], 160)
    losses = scores.size * factors * _between(estimate, factors, of_change**2 * noise_of_one)
    losses += scores.penalty * factors**2
    best = int(losses.argmin())
    fraction_loss = fraction_std**2 * float(np.sum(1 / (fractions + fraction_std))) / 2
    return float(factors[best]), (-float(losses[best]) - fraction_loss) / null_loss


def _between(values: np.ndarray, factors: np.ndarray, variance: float) -> np.ndarray:
    """Fit a parabola to losses over log factors; below the least factor it continues as a line.

    The curve bends toward the values if these differ from it by more than noise of that `variance`.
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
    """The used part of a prior: intercepts, weights of whitened rows, `base`, and of raw rows."""

    weight: float = 0.0
    gain: float = 0.0
    offsets: np.ndarray | float = 0.0
    base: np.ndarray | float = 0.0
    on_rows: np.ndarray | float = 0.0


def release_agreement(
    spec: LogisticSpec,
    release: Release,
    view: LabeledRows,
    fractions: np.ndarray,
    white: Whitening,
    budget: PrivacyBudget,
) -> PriorPart:
    """Release losses of multiples of a prior's scores; use the best multiple, at most 1.

    If noise hides these losses, the prior is assumed to be good.
    """
    assert spec.prior is not None
    slopes, constant = spec.prior[:-1], spec.prior[-1]
    with np.errstate(all="ignore"):
        white_slopes = np.nan_to_num(np.linalg.solve(white.root, slopes))
        size = float(np.linalg.norm(np.sqrt(seen_spread(white))[:, np.newaxis] * white_slopes))
        part = min(1.0, _LONGEST / max(size, _TINY))
        shift, size = part * (white.mean @ slopes), max(_TINY, part * size)
        move = np.nan_to_num(centered((constant + shift)[None])[0] - fractions)
    # At the mean row, a good prior predicts about the released class fractions.
    move = np.clip(move, -1 - size, 1 + size)
    scores = Scores(part * slopes, shift, fractions, move, size, 0.0)
    factor, gain = release_factor(spec, release, view, scores, 0.0, budget)
    weight = min(1.0, factor) if gain > 0 else 0.0
    no_intercepts = np.zeros_like(fractions)
    base = np.vstack([weight * part * white_slopes, no_intercepts])
    on_rows = weight * np.vstack([part * slopes, -shift])
    return PriorPart(weight, gain, scores.offsets(weight), base, on_rows)


# The losses of records.


def _losses(rows: slice, block: Block, codes: Targets, scores: Scores, level: float) -> np.ndarray:
    """Sum each record's clipped losses at all factors, minus the loss of the class fractions.

    A long score of the wrong class has a large loss: clipped alone, errors would count too little.
    With two classes, records are first weighted by the longer of their losses with both labels.
    """
    with np.errstate(all="ignore"):
        lengths, of_rows = products_of(block, scores.slopes) - scores.shift, codes[rows]
        lengths = np.clip(lengths, -scores.farthest, scores.farthest)
        base = scores.base
        of_base = base if isinstance(base, float) else products_of(block, base[:-1]) + base[-1]
        null = np.broadcast_to(scores.fractions + of_base, lengths.shape)
        scaled = [factor * lengths + scores.offsets(factor) + of_base for factor in FACTORS]

        def _relative(labels: np.ndarray) -> np.ndarray:
            losses = np.column_stack([losses_at(one, labels) for one in scaled])
            # Losses grow with the scores: divided by their size, those of all factors clip alike.
            return (losses - losses_at(null, labels)[:, np.newaxis]) / (FACTORS * scores.size)

        values = _relative(of_rows)
        if lengths.shape[1] == 1:
            norms = np.maximum(row_norms(values), row_norms(_relative((of_rows == 0) * 1)))
            values *= (_EVENLY * level / np.maximum(norms, _EVENLY * level))[:, np.newaxis]
        clipped = clip_rows(values, level)
    clipped[block.is_null] = 0.0
    return np.asarray(block.times_sample_weight(clipped).sum(axis=0))


def losses_at(scores: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return the log loss of each record."""
    by_class = np.ascontiguousarray(of_classes(scores).T)
    return np.asarray(np.logaddexp.reduce(by_class) - by_class[codes, np.arange(len(codes))])


# ------------------------------
# Standard errors of the coefficients.


class Path(NamedTuple):
    """Mean weights and mean released gradient of the last half of the steps.

    Weights vary around their mean: `wobble` is the covariance, by class, that this adds to the
    scores of a row. An entry of the mean gradient has noise of that `variance`.
    """

    weights: np.ndarray
    gradient: np.ndarray
    wobble: np.ndarray
    variance: float

    @staticmethod
    def of(
        weights: list[np.ndarray], gradients: list[np.ndarray], noise_std: float, white: Whitening
    ) -> "Path":
        """Average the last half of the steps, in coordinates of the whitening."""
        half = slice(len(weights) // 2, None)
        points, gradient = np.array(weights[half]), np.mean(gradients[half], axis=0)
        mean = points.mean(axis=0)
        moves = np.einsum("kd,tkc->tdc", white.vectors, (points - mean)[:, :-1])
        rotated = np.vstack([white.vectors.T @ mean[:-1], mean[-1:]])
        wobble = np.einsum("d,tda,tdb->ab", seen_spread(white), moves, moves) / len(points)
        return Path(rotated, white.vectors.T @ gradient[:-1], wobble, noise_std**2 / len(points))


class _Residuals(NamedTuple):
    """Clipped residuals and label probabilities, for each drawn row.

    Label k has the probability `likely[k]`. Its residual is the probabilities `fitted` minus
    the k-th unit vector, times the clip weight `parts[k]`.
    """

    likely: np.ndarray
    fitted: np.ndarray
    parts: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        """Mean residuals over the labels of a row."""
        weights = self.likely * self.parts
        return weights.sum(axis=1, keepdims=True) * self.fitted - self._of_columns(weights)

    @property
    def square(self) -> np.ndarray:
        """Mean products of two columns of residuals, over the labels of a row."""
        weights = self.likely * self.parts**2
        own = self._of_columns(weights)
        middle = 0.5 * weights.sum(axis=1, keepdims=True) * self.fitted - own
        half = self.fitted[:, :, np.newaxis] * middle[:, np.newaxis]
        return half + half.transpose(0, 2, 1) + own[:, :, np.newaxis] * np.eye(own.shape[1])

    @property
    def curvature(self) -> np.ndarray:
        """Derivatives of the mean residuals by the true scores."""
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
        # Two classes have one column, of the second class.
        return by_label[:, -self.fitted.shape[1] :]


def _residuals(scores: np.ndarray, true: np.ndarray, limit: float) -> _Residuals:
    """Compute residuals at `scores`, clipped to `limit`, for labels that follow the true scores."""
    probs, likely = softmax(of_classes(scores), axis=1), softmax(of_classes(true), axis=1)
    columns = probs[:, -scores.shape[1] :]
    # The squared norm of p - e_k is |p|^2 + 1 - 2 p_k; the first of two classes has no column.
    own = np.where(np.arange(probs.shape[1]) >= probs.shape[1] - columns.shape[1], 1 - 2 * probs, 0)
    sizes = np.sqrt(np.maximum(np.square(columns).sum(axis=1, keepdims=True) + own, 0.0))
    return _Residuals(likely, columns, np.minimum(1.0, limit / np.maximum(sizes, limit)))


def std_errors(
    path: Path, white: Whitening, level: float, n_units: int, published: np.ndarray
) -> np.ndarray | None:
    r"""Return the root mean squared error of each published coefficient; None if it overflows.

    Whitened rows are :math:`z = \Sigma^{1/2} u` with a standard normal u. Published coefficients
    are shrunk or stopped early: their distance from the coefficients of the population is an error
    in addition to noise and sampling. All three errors depend on released values and public facts
    only.
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
    """Estimate the population's coefficients, and the noise std of the products they follow from.

    By Stein's lemma the mean of residuals times u lies in the span of the weights and of these
    coefficients, with matrices that depend only on the covariance of both scores.
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
        # By Stein's lemma, the mean of residuals times u is [weights, coef] @ explained.
        explained = (vectors / lengths) @ (points.T @ drawn.mean) / len(points)
        curvature = drawn.mean_curvature
        products = np.hstack([weights, coef]) @ explained - path.gradient / roots + coef @ curvature
        # Products of rows and labels are shrunk by the part of them that may be noise.
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
    """Return the sandwich variances of coefficients, by noise and sampling; `root` maps to columns.

    Along the clearest directions of the classes the loss is flatter than along all others.
    """
    n_columns = coef.shape[1]
    # Each of the leading singular vectors `left` gets its curvature, all other directions the mean.
    left, sizes, right = np.linalg.svd(coef, full_matrices=False)
    rank = min(len(sizes), max(1, _IN_FULL // n_columns))
    points = normal_points(2 * n_columns)[:, : len(sizes)]
    scores = (points * sizes) @ right + offsets
    drawn, left, points = _residuals(scores, scores, limit), left[:, :rank], points[:, :rank]
    squares = np.einsum("ni,nj->nij", points, points).reshape(len(points), -1)
    # Scores of all classes may change together without any effect, so noise has no such part.
    is_free = np.eye(n_columns) - (n_columns > 1) / n_columns

    def _paired(by_draw: np.ndarray) -> np.ndarray:
        """Average matrices of drawn rows, as a block of classes for each pair of directions."""
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
