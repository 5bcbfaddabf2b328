"""The scale of the scores of a fit: a guess, and losses released at several scales."""

import math
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import entr, softmax

from skdp.data.parts import Targets
from skdp.data.rows import Block
from skdp.linalg.norms import row_squares
from skdp.linear_model.logistic.plan import (
    FACTORS,
    LabeledRows,
    LogisticSpec,
    Pace,
    Whitening,
    centered,
    curvature_at,
    loss_level,
    of_classes,
    seen_spread,
)
from skdp.privacy import PrivacyBudget, Release
from skdp.privacy.clipping import clip_rows

# The guessed factor: its relative standard deviation, and its least value in that. The guessed
# change of losses errs less, as noise rarely hides that scores are too large.
_FACTOR_STD, _LEAST_GUESS = 0.7, 0.6  # benchmarks/sweep/sweep.md, job "classes"
_CHANGE_STD = 0.2  # benchmarks/classification/weak.md
# Least guess; unknown losses count with this many standard deviations. Scores of the size below
# cost nothing and still rank records; then the least factor.
_LEAST_FACTOR, _CAUTION = 0.05, 3.0  # benchmarks/sweep/sweep.md, job "classes"
_SMALL, _SMALLEST_FACTOR = 0.1, 0.02  # not studied
# Largest squared deviation of a curve from a parabola that noise explains, in variances of noise:
# two values, plus seven standard deviations.
_NOISE_OF_BEND = 16.0  # benchmarks/sweep/sweep.md, job "classes"
# Part of the penalty of scikit-learn's `LogisticRegression` with ``C=1`` on standardized columns.
# Without it, scores of few records grow with epsilon until they fit these records alone. Early
# steps shrink weights, too, so that the whole penalty makes scores too short.
_OF_PENALTY = 0.25  # benchmarks/sweep/sweep.md, job "classes"
_TINY = np.finfo(float).tiny
# Scores of a prior are scaled down to this root mean square.
_LONGEST = 30.0  # not tuned


@dataclass(frozen=True)
class Scores:
    """Scores :math:`t (x^T W - w) + b(t)` of rows x, with a factor t still to be chosen.

    `size` is their root mean square for t = 1, `noise` the part of its square that is noise, as far
    as both are known, and the `penalty` of the slopes counts as a loss. From t = 0 to 1, offsets b
    go from those of the class `fractions` to those after the steps. The weights `base` of rows are
    added.
    """

    slopes: np.ndarray
    shift: np.ndarray
    fractions: np.ndarray
    move: np.ndarray
    size: float
    noise: float
    penalty: float
    base: np.ndarray | float = 0.0

    def offsets(self, factor: float) -> np.ndarray:
        """Return the intercepts for scores multiplied by `factor`."""
        return np.asarray(self.fractions + min(1.0, factor) * self.move)

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
    penalty = _OF_PENALTY / (2 * n_units) * float(white.variances @ row_squares(slopes))
    size, shift = math.sqrt(square), white.mean @ slopes
    return Scores(slopes, shift, start[-1], move, size, noise / square, penalty)


def length_of(
    spec: LogisticSpec,
    release: Release,
    view: LabeledRows,
    scores: Scores,
    fraction_std: float,
    budget: PrivacyBudget,
) -> tuple[float, float]:
    """Release losses at several factors of the scores; average the best factor with a guess.

    The second result is the least gain, as a part of the loss of the fractions. The loss is convex,
    and nearly a parabola for short scores: the loss per unit of length rises nearly in a line.
    Noise of the fractions, of that deviation, is a loss of its own.
    """
    kernel = partial(_losses, codes=view.codes, scores=scores, level=loss_level(spec))
    total, noise_std = budget.release(release, view.map_sum(kernel, len(FACTORS)))
    found, variance = total / spec.n_units, (noise_std / spec.n_units) ** 2 / len(FACTORS)
    guess = max(_LEAST_FACTOR, 1 - scores.noise)
    curvature = curvature_at(scores.fractions)
    # Scores gain at most the log loss of the class fractions.
    fractions = softmax(of_classes(scores.fractions))
    whole = max(float(entr(fractions).sum()), _TINY)
    gain = curvature * (guess * scores.size) ** 2 / 2
    bend = curvature * scores.size / (1 + gain / whole)
    guessed = bend / 2 * (FACTORS - 2 * guess)
    unknown = (bend * _FACTOR_STD * max(guess, _LEAST_GUESS)) ** 2
    weight = unknown / (unknown + variance)
    # The same for the differences between losses at different factors.
    unknown, of_each = (bend * _CHANGE_STD) ** 2, len(FACTORS) * variance
    own, beyond = unknown / (unknown + of_each), found - guessed
    likely = guessed + own * beyond + (weight - own) * beyond.mean()
    likely += _CAUTION * math.sqrt(weight * variance)
    smallest = min(1.0, max(_SMALLEST_FACTOR, _SMALL / scores.size))
    factors = np.geomspace(smallest, FACTORS[-1], 160)
    losses = scores.size * factors * _between(likely, factors, own**2 * of_each)
    losses += scores.penalty * factors**2
    best = int(losses.argmin())
    lost = fraction_std**2 * float(np.sum(1 / (fractions + fraction_std))) / 2
    return float(factors[best]), (-float(losses[best]) - lost) / whole


def _between(values: np.ndarray, factors: np.ndarray, variance: float) -> np.ndarray:
    """Fit a parabola to losses over log factors; below the least factor it continues as a line.

    It bends toward the values if these differ from it by more than noise of that `variance`.
    """
    places = np.log(FACTORS)
    parabola = np.polynomial.Polynomial.fit(places, values, 2)
    beyond = values - parabola(places)
    square = max(float(beyond @ beyond), _TINY)
    bend = max(0.0, 1 - _NOISE_OF_BEND * variance / square)
    curve = parabola + bend * np.polynomial.Polynomial.fit(places, beyond, 4)
    least, second = curve(places[:2])
    line = least + (second - least) / (FACTORS[1] - FACTORS[0]) * (factors - FACTORS[0])
    return np.where(factors < FACTORS[0], line, curve(np.log(factors)))


class PriorPart(NamedTuple):
    """The part of a prior that a fit uses: its intercepts, and weights of whitened and raw rows."""

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
    """Release losses at multiples of a prior's scores; take the best multiple, at most 1.

    If noise hides these losses, the prior is assumed to be good.
    """
    assert spec.prior is not None
    slopes, constant = spec.prior[:-1], spec.prior[-1]
    with np.errstate(all="ignore"):
        of_white = np.nan_to_num(np.linalg.solve(white.root, slopes))
        size = float(np.linalg.norm(np.sqrt(seen_spread(white))[:, np.newaxis] * of_white))
        part = min(1.0, _LONGEST / max(size, _TINY))
        shift, size = part * (white.mean @ slopes), max(_TINY, part * size)
        move = np.nan_to_num(centered((constant + shift)[None])[0] - fractions)
    # At the mean row, a good prior gives about the released class fractions.
    move = np.clip(move, -1 - size, 1 + size)
    scores = Scores(part * slopes, shift, fractions, move, size, 0.0, 0.0)
    factor, gain = length_of(spec, release, view, scores, 0.0, budget)
    weight = min(1.0, factor) if gain > 0 else 0.0
    none = np.zeros_like(fractions)
    return PriorPart(
        weight,
        gain,
        scores.offsets(weight),
        np.vstack([weight * part * of_white, none]),
        weight * np.vstack([part * slopes, -shift]),
    )


# Kernels.


def _losses(rows: slice, block: Block, codes: Targets, scores: Scores, level: float) -> np.ndarray:
    """Sum the losses at each factor, minus those of class fractions, clipped by record."""
    # In the next pass, a user's rows may stand at other places.
    product = block.matmul if block.mass is None else block.matmul_anywhere
    with np.errstate(all="ignore"):
        lengths, of_rows = product(scores.slopes) - scores.shift, codes[rows]
        base = scores.base
        of_base = base if isinstance(base, float) else product(base[:-1]) + base[-1]
        plain = losses_at(np.broadcast_to(scores.fractions + of_base, lengths.shape), of_rows)
        values = [
            (losses_at(factor * lengths + scores.offsets(factor) + of_base, of_rows) - plain)
            / (factor * scores.size)
            for factor in FACTORS
        ]
        clipped = clip_rows(np.column_stack(values), level)
    clipped[block.is_null] = 0.0
    return np.asarray(block.times_mass(clipped).sum(axis=0))


def losses_at(scores: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return the log loss of each record."""
    by_class = np.ascontiguousarray(of_classes(scores).T)
    return np.asarray(np.logaddexp.reduce(by_class) - by_class[codes, np.arange(len(codes))])
