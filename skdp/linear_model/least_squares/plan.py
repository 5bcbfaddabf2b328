"""What a least-squares fit is asked for, and its releases with their shares, from public facts."""

import math
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from skdp._prior import AGREEMENT
from skdp.linear_model import _descent
from skdp.linear_model._weighted_rows import WHITENED_GRADIENT, plan_steps
from skdp.linear_model.low_rank.records import N_POWERS
from skdp.preprocessing.scales import ScaleReleases, ScaleSpec, plan_scales
from skdp.privacy import Release, sensitivity
from skdp.privacy.clipping import NO_CLIPPING
from skdp.privacy.plan import left_of, plan_sum, share_for_counts
from skdp.privacy.releases import Search

# With fewer units than that, times mu, not even the center of the responses is found: it gets all.
_HOPELESS = 60.0  # benchmarks/least_squares/least_squares.md
# Shares of the scales of features: they fall with the square of the strength, from a largest one to
# a least one, which is the second where there is plenty: benchmarks/least_squares/least_squares.md.
_OF_FEATURES, _LARGEST_OF_FEATURES, _LEAST_OF_FEATURES = 60.0, 0.3, (0.15, 0.05)
# Fractions of that share: for the sizes of features, usually and where the signal is weak, and for
# the zoom on narrow features. benchmarks/sweep/sweep.md; the others are not studied.
_OF_SIZES, _OF_PLACES = (3 / 8, 0.55), 1 / 5
# The same of the center and scale of the responses, by the number of units times mu:
# benchmarks/least_squares/least_squares.md.
_OF_RESPONSES, _LARGEST_OF_RESPONSES, _LEAST_OF_RESPONSES = 80.0, 0.4, (0.1, 0.03)
_PLENTY = 1000.0  # benchmarks/least_squares/least_squares.md
# Part of the latter for the center; noise of a count, as a fraction of the records, that is wanted
# for one more refinement, for the center, and for the scale; least share of either. Not studied.
_OF_CENTER, _ROUGH, _FINE, _FINE_BIN, _LEAST_SHARE = 0.6, 0.05, 0.02, 0.0025, 2e-3
# Parts of what is left: of the joint moment, of each histogram, and of the calibration:
# benchmarks/least_squares/least_squares.md.
_MOMENT_SHARE, _SIZES_SHARE, _CALIBRATION_SHARE = 0.3, 0.01, 0.05
# Up to this strength there are few steps, and their result is calibrated; beyond, steps without
# momentum have a factor and limits: benchmarks/least_squares/least_squares.md.
_WEAK, _STEPS_OF_WEAK, _STEPS, _STEP_LIMITS = 150.0, 5, 10 / 3, (8, 24)
# With momentum half as many steps lead as far; so few steps have none. Not studied.
_FEWEST_WITH_MOMENTUM = 8
# Without noise the start is least squares, and steps take off what its rounding leaves.
_STEPS_OF_EXACT = 2  # not tuned
# Rows of up to this many numbers have a joint moment; of longer ones it would fill the memory.
_LONGEST_WITH_MOMENT = 4096  # not studied
# Norms of rows, in units of that of one whose entries have mean square 1, and their limits:
# benchmarks/least_squares/least_squares.md.
_NORM, _NORM_LIMITS = 0.04, (1.3, 3.0)
# Responses are clipped to this multiple of scale times root of strength, in limits; not studied.
_RESPONSE, _RESPONSE_LIMITS = 0.2, (3.0, 10.0)
# Entries are clipped to this multiple of their scale: benchmarks/least_squares/least_squares.md.
_ENTRY = 5.0
# From this strength on, they and the norm of whitened rows grow with its square root: columns with
# long tails lose no more than noise costs. benchmarks/sweep/sweep.md.
_LOOSE = 4000.0
# So many histograms of the sizes of gradients, evenly within the first two thirds of the steps.
_N_SIZES, _LAST_SIZES = 3, 2 / 3  # not studied
# Share of the agreement with a prior: what makes its noise so small a part of the records, within
# limits; and where records are too few for any coefficient: benchmarks/least_squares/prior.md.
_AGREED, _OF_AGREEMENT, _OF_AGREEMENT_ALONE = 0.025, (0.01, 0.3), 0.4
_MOMENT = "response moment"
#: Half powers of two, by which sizes of gradients of standardized records are counted.
SIZE_BINS = np.arange(-20, 31)  # not studied
#: Predictions and responses are clipped to so many scales for the calibration.
CALIBRATED = 3.0  # not studied


@dataclass(frozen=True, kw_only=True)
class LeastSquaresSpec(ScaleSpec):
    """Parameters of a linear regression as plain values, and public facts of the records."""

    dtype: np.dtype
    depth: int  # the longest chain of additions of a sum over the records
    # Whether rows stay sparse; they are not centered then.
    is_sparse: bool
    response_bound: float | None
    fit_intercept: bool
    n_iter: int | str
    prior: tuple[np.ndarray, float] | None

    @property
    def n_free(self) -> int:
        """Number of free coefficients, each of which gets noise."""
        return self.n_features + self.fit_intercept

    @property
    def strength(self) -> float:
        """Signal of all records together, in units of the noise of all free coefficients."""
        return self.n_units * self.cost.mu / math.sqrt(self.n_features + 1)

    @property
    def is_hopeless(self) -> bool:
        """Whether so few records show nothing but the center of the responses."""
        return self.n_units * self.cost.mu < _HOPELESS

    @property
    def left_strength(self) -> float:
        """The strength of what the shares of scales leave."""
        return self.strength * math.sqrt(1 - sum(shares_of_scales(self)))

    @property
    def is_weak(self) -> bool:
        """Whether the signal is so weak that few steps are taken, and calibrated."""
        return self.left_strength < _WEAK

    @property
    def has_moment(self) -> bool:
        """Whether rows are whitened by a joint moment, which longer ones do without."""
        return self.n_free <= _LONGEST_WITH_MOMENT

    @property
    def loosening(self) -> float:
        """By how much clipping of entries and whitened rows is loosened, as noise gets small."""
        return max(1.0, math.sqrt(self.left_strength / _LOOSE))

    @property
    def entry(self) -> float:
        """Number of scales to which entries of rows are clipped."""
        return _ENTRY * self.loosening if self.cost.is_private else math.inf

    @property
    def row_norm(self) -> float:
        """Norm to which rows in units of their scales are clipped, by a weight of each row."""
        if not self.cost.is_private:
            return NO_CLIPPING
        factor = math.sqrt(_NORM * self.left_strength * math.sqrt(_MOMENT_SHARE) / self.n_free)
        return float(np.clip(factor, *_NORM_LIMITS)) * math.sqrt(self.n_free)

    @property
    def largest_response(self) -> float:
        """Public bound of the size of a response; inf for none."""
        return math.inf if self.response_bound is None else self.response_bound

    @property
    def response_clip(self) -> float:
        """Number of scales to which weighted responses are clipped, beside rows."""
        if not self.cost.is_private:
            return NO_CLIPPING
        return float(np.clip(_RESPONSE * math.sqrt(self.left_strength), *_RESPONSE_LIMITS))

    @property
    def response_weight(self) -> float:
        """What responses are multiplied by, beside rows, so that none exceeds half the norm."""
        return self.row_norm / (2 * self.response_clip) if self.cost.is_private else 1.0


class Step(NamedTuple):
    """The sum of clipped gradients and, of some steps, a histogram of their sizes."""

    gradient: Release
    sizes: Release | None


class LeastSquaresReleases(NamedTuple):
    """What a fit releases, in this order; of too few records the center of responses alone."""

    center: tuple[Search, ...]
    spread: Release | None
    features: ScaleReleases | None
    agreement: Release | None
    moment: Release | None
    steps: tuple[Step, ...]
    calibration: Release | None


def shares_of_scales(spec: LeastSquaresSpec) -> tuple[float, float]:
    """Return the shares of the scales of features, and of responses."""
    strength, is_plenty = spec.strength, spec.strength >= _PLENTY
    of_one = spec.n_units * spec.cost.mu
    features = max((_OF_FEATURES / strength) ** 2, _LEAST_OF_FEATURES[is_plenty])
    responses = max((_OF_RESPONSES / of_one) ** 2, _LEAST_OF_RESPONSES[is_plenty])
    return min(_LARGEST_OF_FEATURES, features), min(_LARGEST_OF_RESPONSES, responses)


def plan_least_squares(spec: LeastSquaresSpec) -> LeastSquaresReleases:
    """Plan all releases in their order."""
    of_features, of_responses = shares_of_scales(spec)
    of_center = _OF_CENTER * of_responses
    has_prior = spec.prior is not None and spec.cost.is_private
    if spec.is_hopeless:
        left = 1 - _OF_AGREEMENT_ALONE * has_prior
        center = _plan_center(spec, left * (_OF_CENTER if has_prior else 1.0))
        spread = (
            _plan_spread(spec, left_of(center, total=left)) if has_prior or not center else None
        )
        agreement = _plan_agreement(spec, left_of(center, spread)) if has_prior else None
        return LeastSquaresReleases(center, spread, None, agreement, None, (), None)
    responses = _plan_center(spec, of_center), _plan_spread(spec, of_responses - of_center)
    sizes, places = _OF_SIZES[spec.is_weak] * of_features, _OF_PLACES * of_features
    features = plan_scales(spec, sizes=sizes, places=places, moments=of_features - sizes)
    left, agreement = left_of(responses, features), None
    if has_prior:
        mu, limits = spec.cost.mu * math.sqrt(left), _OF_AGREEMENT
        part = share_for_counts(1, spec.n_units, mu, precision=_AGREED, limits=limits)
        agreement = _plan_agreement(spec, part * left)
        left = left_of(responses, features, agreement)
    moment, calibration = None, None
    if spec.has_moment:
        bound = spec.row_norm if spec.cost.is_private else math.inf
        facts = _MOMENT_SHARE * left, (spec.n_free + 1,) * 2, bound, sensitivity.response_moment
        moment = plan_sum(spec, _MOMENT, *facts, "symmetric_gaussian")
    if spec.cost.is_private and spec.is_weak:
        change = partial(sensitivity.calibration, CALIBRATED, spec.unit.adjacency)
        known = {"rounding": spec.rounding}
        share, name = _CALIBRATION_SHARE * left, "calibration sums"
        calibration = spec.cost.release(name, "gaussian", share, change, known, shape=(2,))
    others = left_of(responses, features, agreement, moment, calibration)
    steps = _plan_steps(spec, others, _SIZES_SHARE * left)
    return LeastSquaresReleases(*responses, features, agreement, moment, steps, calibration)


def _plan_center(spec: LeastSquaresSpec, share: float) -> tuple[Search, ...]:
    """Plan the searches for the median of the responses, for up to this share."""
    if not spec.fit_intercept:
        return ()
    bound, mu, n_units = spec.largest_response, spec.cost.mu, spec.n_units
    grid = _descent.ANY_SIZE if math.isinf(bound) else bound * _descent.UP_TO_ONE
    refinements = _descent.affordable_refinements(len(grid), share * (_ROUGH * n_units * mu) ** 2)
    count = _descent.n_counts(len(grid), refinements)
    limits = _LEAST_SHARE, share
    share = share_for_counts(count, n_units, mu, precision=_FINE, limits=limits)
    return _descent.plan_median(spec.cost, share / count, grid, refinements)


def _plan_spread(spec: LeastSquaresSpec, share: float) -> Release:
    """Plan the histogram of the sizes of centered responses, for up to this share."""
    facts = spec.n_units, spec.cost.mu
    share = share_for_counts(2, *facts, precision=_FINE_BIN, limits=(_LEAST_SHARE, share))
    change, shape = partial(sensitivity.histograms, 1, spec.unit.adjacency), (1, N_POWERS)
    return spec.cost.release(_descent.RESPONSE_SPREAD, "gaussian", share, change, {}, shape=shape)


def _plan_agreement(spec: LeastSquaresSpec, share: float) -> Release:
    """Plan the sums that show how far responses follow the prior."""
    change, known = partial(sensitivity.agreement, spec.unit.adjacency), {"rounding": spec.rounding}
    return spec.cost.release(AGREEMENT, "gaussian", share, change, known, shape=(2,))


def steps_alone(spec: LeastSquaresSpec) -> int:
    """Count steps without momentum, from public facts."""
    if not spec.cost.is_private and spec.has_moment:
        return _STEPS_OF_EXACT
    if spec.is_weak:
        return _STEPS_OF_WEAK
    strength = min(spec.left_strength, 1e12)
    return round(float(np.clip(_STEPS * strength**0.25, *_STEP_LIMITS)))


def n_steps(spec: LeastSquaresSpec) -> int:
    """Count steps with momentum, or those that are asked for."""
    if not isinstance(spec.n_iter, str):
        return spec.n_iter
    alone = steps_alone(spec)
    return max(min(_FEWEST_WITH_MOMENTUM, alone), round(alone / 2))


def momentum_of(spec: LeastSquaresSpec) -> float:
    """Return the momentum with which the steps lead as far as more of them alone."""
    count = n_steps(spec)
    if count < _FEWEST_WITH_MOMENTUM or not spec.cost.is_private:
        return 0.0
    alone = steps_alone(spec) if isinstance(spec.n_iter, str) else 2 * count
    return 1 - count / alone


def _plan_steps(spec: LeastSquaresSpec, share: float, of_sizes: float) -> tuple[Step, ...]:
    """Plan the gradients, and of the first ones histograms of their sizes."""
    count, sizes = n_steps(spec), dict[int, Release]()
    if spec.cost.is_private:
        change = partial(sensitivity.histogram, spec.unit.adjacency)
        places = {round(k * count * _LAST_SIZES / _N_SIZES) for k in range(_N_SIZES)}
        for number, place in enumerate(sorted(places), start=1):
            name = f"gradient sizes {number}"
            sizes[place] = spec.cost.release(
                name, "gaussian", of_sizes, change, {}, shape=SIZE_BINS.shape
            )
    share -= of_sizes * len(sizes)
    shape = (spec.n_free,)
    gradients = plan_steps(spec, count, WHITENED_GRADIENT, share, shape, _MOMENT)
    return tuple(Step(one, sizes.get(number)) for number, one in enumerate(gradients))
