"""Parts of several regressions: adaptive clip levels, medians of responses, and calibrations."""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from skdp.data.parts import Targets
from skdp.data.people import sample_weight_of
from skdp.data.reduce import map_sum
from skdp.exceptions import counted
from skdp.linalg.norms import GridCounts, bin_counts, n_halvings
from skdp.privacy import PrivacyBudget, Release, sensitivity
from skdp.privacy.plan import PrivacyCost, growing_shares, plan_sum, share_for_counts
from skdp.privacy.releases import Released, Search

#: Advice if responses exceed the range of searches.
OTHER_UNITS_OF_Y = "Pass y in other units: divide it by a public guess of its size."
#: Advice if products of X and y exceed the range of searches.
OTHER_UNITS = "Pass X and y in other units: divide them by public guesses of their sizes."


# ------------------------------
# The fraction of vectors to clip: one rule for all clip levels, by public facts.


def clipped_fraction(
    strength: float, wanted: float, limits: tuple[float, float], power: float = 1.0
) -> float:
    r"""Return the fraction of vectors that may be clipped: the stronger the signal, the fewer.

    A sum of n vectors clipped to a bound c has a bias of at most c per clipped vector, and noise of
    length :math:`c \sqrt{d} / \mu` in d dimensions. If a fraction f is clipped, the ratio of bias
    to noise is at most f times the `strength` :math:`n \mu / \sqrt{d}`. So a constant f would let
    the bias exceed the noise as the budget grows. `wanted` is the ratio that is accepted.
    The bias of few clipped vectors has no common direction: a `power` above 1 allows for that.
    """
    with np.errstate(divide="ignore", over="ignore"):
        return float(np.clip((np.float64(wanted) / strength) ** power, *limits))


# ------------------------------
# The releases of a gradient descent, and its clip level, which follows a released count.

#: Prefix of the names of releases of the number of unclipped gradients, called votes.
VOTE = "clip vote"
# A step multiplies the clip level by exp(`_LEVEL_RATE` * d), where d is the wanted fraction of
# unclipped gradients minus the released one. benchmarks/trace_regression/errors.md, "The singular
# value", compares this rate with 0, a constant level; other rates are not studied.
_LEVEL_RATE = 2.0
# Largest share of the last step, relative to the share of the first: not studied.
_LARGEST_GROWTH = 10.0


class DescentStep(NamedTuple):
    """The releases of one step: a sum of clipped gradients, and the number of unclipped ones."""

    gradient: Release
    vote: Release
    # Curvature along the gradient; None if the curvature is public, or the step needs none.
    curvature: Release | None = None


def plan_descent(
    spec: Any,
    gradients: float,
    votes: float,
    growth: float,
    change: Callable[..., float],
    *,
    follows: str,
    shape: tuple[int, ...],
) -> tuple[DescentStep, ...]:
    """Plan the gradient and the vote, a count of unclipped gradients, of each step.

    The sums of all steps have the share `gradients` together, and the counts the share `votes`. The
    release `follows` determines the first clip level; votes determine the later ones.
    """
    steps, share = list[DescentStep](), votes / spec.n_iter
    for step, gradient_share in enumerate(shares_of_steps(gradients, spec.n_iter, growth), start=1):
        gradient = plan_sum(spec, f"gradient {step}", gradient_share, shape, follows, change)
        follows = f"{VOTE} {step}"
        vote = spec.cost.release(follows, "gaussian", share, sensitivity.count, {})
        steps.append(DescentStep(gradient, vote))
    return tuple(steps)


def shares_of_steps(total: float, n_steps: int, growth: float) -> list[float]:
    """Split a share over steps; later steps, which decide the final error, get more."""
    return growing_shares(total, n_steps, min(growth, _LARGEST_GROWTH ** (1 / n_steps)))


def n_within(sizes: np.ndarray, level: float, weights: np.ndarray | None = None) -> Any:
    """Count the sizes up to a level, or sum their weights; NaN, of a null unit, is not counted."""
    is_within = sizes <= level
    counted = np.count_nonzero(is_within) if weights is None else weights[is_within].sum()
    return np.asarray(counted, dtype=np.float64)


def release_fraction(
    release: Release, count: np.ndarray, n_units: int, budget: PrivacyBudget
) -> tuple[float, float]:
    """Release a count; return it as a fraction of all units, and the noise std of the fraction."""
    noisy, noise_std = budget.release(release, count)
    return min(max(float(noisy) / n_units, 0.0), 1.0), noise_std / n_units


def followed_level(
    level: float, unclipped: float, quantile: float, limits: tuple[float, float]
) -> float:
    """Return the next clip level, which rises if the fraction `unclipped` is below `quantile`."""
    return min(max(level * math.exp(_LEVEL_RATE * (quantile - unclipped)), limits[0]), limits[1])


# ------------------------------
# The median of responses in unknown units: a rough search, then searches near its result.

#: Name of the release of the responses' center.
RESPONSE_CENTER = "response center"
#: Name of the release of the sizes of responses around their center.
RESPONSE_SPREAD = "response spread"
# Positive points of a grid, less than one percent apart. One of them is 1, so that the median of
# responses that are mostly 1 is exact.
_SIDE = 10.0 ** np.linspace(-9, 18, 8191)  # not studied
#: Grid for numbers in any unit.
ANY_SIZE = np.concatenate([-_SIDE[::-1], [0.0], _SIDE])  # not studied
_SIDE_UP_TO_ONE = np.geomspace(1e-9, 1.0, 1534)  # not studied
#: Grid from -1 to 1 for numbers divided by a public bound: evenly spaced, and finer near 0, in case
#: the bound is far too large.
UP_TO_ONE = np.unique(  # not studied
    np.concatenate([-_SIDE_UP_TO_ONE, np.linspace(-1.0, 1.0, 1025), _SIDE_UP_TO_ONE])
)
# Largest distance between neighboring points of `ANY_SIZE` and `UP_TO_ONE`, relative to their size.
_STEP = 0.015  # not tuned
# Grid of a finer search around the last result, in units of the distance to the next point of the
# last grid.
_AROUND = np.linspace(-1.0, 1.0, 255)  # not studied
_STEP_AROUND = float(_AROUND[1] - _AROUND[0])  # not tuned
_HALVINGS_AROUND = n_halvings(len(_AROUND))  # not tuned
# Largest number of finer searches for the median: the last one leaves a relative error of 1e-8.
_MOST_REFINEMENTS = 3  # not studied


def plan_median(
    cost: PrivacyCost, share_of_count: float, grid: np.ndarray, n_refinements: int
) -> tuple[Search, ...]:
    """Plan a rough search and finer ones, with `share_of_count` for each count."""
    # Only `ANY_SIZE` needs a remedy: another grid covers all responses between the public bounds.
    remedy = OTHER_UNITS_OF_Y if grid is ANY_SIZE else None
    share, finer = share_of_count * n_halvings(len(grid)), share_of_count * _HALVINGS_AROUND
    searches = [cost.search(RESPONSE_CENTER, share, grid, remedy=remedy)]
    for number in range(1, 1 + n_refinements):
        name = f"{RESPONSE_CENTER}, refinement {number}"
        searches.append(cost.search(name, finer, _AROUND))
    return tuple(searches)


def plan_center(
    spec: Any,
    *,
    refined: tuple[float, float],
    precision: float,
    limits: tuple[float, float],
    useless: float = math.inf,
) -> tuple[Search, ...]:
    """Plan the searches for the median of the responses, if there is an intercept.

    Searches count responses. The noise of a search is the standard deviation of one noisy count, as
    a fraction of the units. All searches together get the share, within `limits`, with which this
    noise is `precision`. If the noise would exceed `useless`, nothing is planned. One to three of
    the searches are finer: as many as the share `refined[0]` affords with the noise `refined[1]`.
    """
    if not spec.fit_intercept:
        return ()
    bound, n_units, mu = spec.response_bound, spec.n_units, spec.cost.mu
    grid = ANY_SIZE if math.isinf(bound) else bound * UP_TO_ONE
    n_counts, most_counts = n_halvings(len(grid)), refined[0] * (refined[1] * n_units * mu) ** 2
    n_refinements = int(np.clip((most_counts - n_counts) / _HALVINGS_AROUND, 1, _MOST_REFINEMENTS))
    n_counts += n_refinements * _HALVINGS_AROUND
    share = share_for_counts(spec, n_counts, precision, limits)
    noise_std = spec.cost.noise_std("gaussian", sensitivity.count(), share / n_counts)
    if noise_std > useless * n_units:
        return ()
    return plan_median(spec.cost, share / n_counts, grid, n_refinements)


def bounded(responses: np.ndarray, bound: float, center: float = 0.0) -> np.ndarray:
    """Clip responses and subtract `center`; values that are not finite become NaN, as null."""
    return np.where(np.isfinite(responses), np.clip(responses, -bound, bound) - center, np.nan)


def median_of_responses(
    searches: Sequence[Search], responses: Targets, budget: PrivacyBudget, view: Any
) -> float:
    """Release the median of responses; with users, the records of a user count as one together.

    `view` is a view of the rows of the responses. Each refinement searches a smaller neighborhood
    of the last result, within the first grid.
    """
    center, step, edges = 0.0, 1.0, np.zeros(0)

    def _counts(rows: slice, responses: np.ndarray) -> np.ndarray:
        weights = sample_weight_of(view.people, rows)
        return bin_counts(responses[:, 0], edges, weights).astype(np.float64)

    for number, search in enumerate(searches):
        edges = np.append(center + step * search.grid, np.inf)
        # One pass counts in all bins at once; the search then needs no further passes.
        counts = map_sum(responses, _counts, len(edges), view.n_jobs)
        up_to = GridCounts.of(search.grid, counts, view.n_units)
        center = center + step * budget.quantile(search, up_to, q=0.5)
        step = _STEP * abs(center) if number == 0 else _STEP_AROUND * step
    return float(np.clip(center, *searches[0].grid[[0, -1]]))


# A released median is at the public bound if it is at least this fraction of the bound; not
# studied.
_AT_BOUND = 0.99


def warnings_for_bound(center: float, bound: float) -> Iterator[str]:
    """Warn if the released median of the responses is at the bound.

    Then at least half of the responses are at the bound, or clipped to it.
    """
    if abs(center) >= _AT_BOUND * bound:
        yield (
            "Predictions may be far too small: at least half of the responses are at "
            f"response_bound={bound:g}, or beyond it, where they are clipped. If "
            "responses exceed it, pass a larger response_bound."
        )


# ------------------------------
# The calibration of predictions: a released factor that multiplies them, and their mean error.

#: To what size a calibration clips predictions, and to what size responses.
Bounds = tuple[float, float]
# The calibration of a fit with a weak signal clips predictions to the first of these numbers of
# standard deviations, and responses to the second: benchmarks/least_squares/least_squares.md.
CALIBRATED = (1.0, 1.5)
# With a weak signal, the mean square of predictions is taken to be at least `_LEAST_SQUARE` times
# the expected one, and the noise of predictions at least `_LEAST_NOISE` times their size.
_LEAST_SQUARE, _LEAST_NOISE = 0.2, 1e-3  # not studied
# For caution, `_OF_FACTOR` standard deviations of noise are subtracted from the factor of a weak
# signal, and `_OF_EXPLAINED` from the slope before the explained variance is computed: the second
# number is for predictions that are mostly noise. benchmarks/least_squares/made_up.md
_OF_FACTOR, _OF_EXPLAINED = 0.5, (1.5, 3.0)
# A fit with a strong signal multiplies its predictions by the released slope only if the slope is
# below 1 by `_TOO_LONG` standard deviations. For caution, `_OF_SURE` standard deviations are then
# added to the slope. The mean square of predictions is taken to be at least `_LEAST_SEEN` standard
# deviations of its noise.
# benchmarks/least_squares/made_up.md
_TOO_LONG, _OF_SURE, _LEAST_SEEN = 3.0, 1.0, 3.0
# Predictions that explain a smaller fraction of the responses' mean square may be worse than the
# noisy mean of the responses: benchmarks/least_squares/least_squares.md.
_LEAST_EXPLAINED = 0.02
# A released mean error is shrunk: to 0 if its square is below this many variances of its noise.
_MADE_OF_NOISE = 2.0  # not studied


class Calibration(NamedTuple):
    """A factor for the predictions of a fit, and their mean error, in units of the responses."""

    factor: float  # from 0 to 1
    mean: float  # mean error of the predictions after the factor
    is_doubtful: bool  # whether predictions may be no better than the mean of the responses
    square: float  # mean square of the predictions before the factor
    slope: float  # slope of the responses on the predictions before the factor


def plan_calibration(spec: Any, share: float, bounds: Bounds = CALIBRATED) -> Release:
    """Plan the release of the sums that `calibration_sums` computes."""
    change = partial(sensitivity.calibration, bounds, spec.unit.adjacency)
    known = {"rounding": spec.rounding}
    return spec.cost.release("calibration sums", "gaussian", share, change, known, shape=(3,))


def calibration_sums(
    block: Any, predicted: np.ndarray, true: np.ndarray, size: float, bounds: Bounds
) -> np.ndarray:
    """Sum three terms over a block: prediction times response, squared prediction, and residual.

    Predictions, in units of `size`, and responses are clipped to `bounds`. The terms are weighted
    so that their bounds are similar. Records whose prediction or response is not finite add 0.
    """
    is_usable = np.isfinite(true) & np.isfinite(predicted)
    predicted, true = np.where(is_usable, predicted, 0.0), np.where(is_usable, true, 0.0)
    prediction_bound, response_bound = (bound * (1 - 1e-12) for bound in bounds)
    errors = np.clip(true - predicted, -response_bound, response_bound)
    predicted = np.clip(predicted / size, -prediction_bound, prediction_bound)
    true = np.clip(true, -response_bound, response_bound)
    square_weight = math.sqrt(2) * response_bound / prediction_bound
    squares, errors = square_weight * predicted**2, prediction_bound / math.sqrt(2) * errors
    products = np.column_stack([predicted * true, squares, errors])
    return np.asarray(block.times_sample_weight(products).sum(axis=0))


def calibration_of(
    means: Released, size: float, weights_noise: float, off_center: float, bounds: Bounds
) -> Calibration:
    """Compute a calibration from the released sums of `calibration_sums`, over the records.

    With a weak signal, the factor of the predictions is an average of the released slope and of 1,
    the slope without noise. With a strong signal, which has other `bounds`, the factor is 1 unless
    predictions are clearly too long.

    Parameters
    ----------
    means : Released
        Means of the three products, and the standard deviation of their noise.
    size : float
        Expected root mean square of the predictions.
    weights_noise : float
        Standard deviation of the noise of a prediction.
    off_center : float
        Fraction of the responses that differ from the center.
    bounds : tuple of float
        Bounds of the predictions and of the responses in the products.

    Returns
    -------
    Calibration
        The factor of the predictions, their mean error, and what they explain.
    """
    prediction_bound, response_bound = bounds
    (product, square, mean), noise_std = means
    # If few responses differ from the center, these exceed the bound: the clipping is corrected.
    correction = max(1.0, 1 / (response_bound * math.sqrt(off_center)))
    square_weight = math.sqrt(2) * response_bound / prediction_bound
    is_weak = bounds == CALIBRATED
    least = _LEAST_SQUARE if is_weak else _LEAST_SEEN * noise_std / square_weight
    square = size * max(square / square_weight, least)
    slope, slope_std = correction * product / square, correction * noise_std / square
    if is_weak:
        precisions = np.array([max(weights_noise / size, _LEAST_NOISE) ** -4, slope_std**-2])
        total = float(precisions.sum())
        factor = float(np.array([1.0, slope]) @ precisions) / total - _OF_FACTOR / math.sqrt(total)
    else:
        # Standard deviation of a slope of 1, by the noise of product and square.
        std_of_one = slope_std * math.hypot(1.0, 1 / square_weight)
        factor = slope + _OF_SURE * slope_std if slope + _TOO_LONG * std_of_one < 1 else 1.0
    factor = min(max(factor, 0.0), 1.0)
    # `explained` is a cautious estimate of the explained fraction of the responses' mean square.
    of_explained = _OF_EXPLAINED[bool(2 * weights_noise**2 > size**2)]
    explained = size**2 * factor * (2 * (slope - of_explained * slope_std) - factor)
    mean_weight = correction * math.sqrt(2) / prediction_bound
    # A mean error whose square is below `least_square` becomes 0. If that error is not noise, the
    # model loses as much explained variance.
    least_square = _MADE_OF_NOISE * noise_std**2
    explained -= mean_weight**2 * least_square
    mean *= mean_weight * (1 - least_square / max(mean**2, least_square))
    mean = float(np.clip(mean, -1.0, 1.0))
    is_doubtful = bool(explained < _LEAST_EXPLAINED)
    return Calibration(factor, mean, is_doubtful, float(size * square), float(slope))


def warning_of_rare(spec: Any, fewer: str, loss: str) -> str:
    """Return the warning that most responses are equal, and the others too few for a fit."""
    return (
        f"{loss}: most responses are the same, and those that differ are too few for "
        f"{counted(spec.n_free, 'coefficient')}. Pass more {spec.unit.counted}, a larger epsilon, "
        f"or {fewer}."
    )


#: Why predictions may be useless, for a warning.
MOSTLY_NOISE = "what they explain does not stand out from the noise"


def warning_of_doubt(spec: Any, fewer: str, reason: str = MOSTLY_NOISE) -> str:
    """Return the warning that predictions may be no better than the mean of the responses."""
    return (
        f"Predictions may be no better than the mean of the responses: {reason}. Pass more "
        f"{spec.unit.counted}, a larger epsilon, or {fewer}."
    )
