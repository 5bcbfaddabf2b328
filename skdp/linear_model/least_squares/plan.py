"""Parameters and public facts of a least-squares fit, and its releases with their shares."""

import math
from dataclasses import dataclass, field
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
from skdp.privacy.plan import AnyOf, left_of, plan_histogram, plan_sum, share_for_counts
from skdp.privacy.releases import Search

# If the number of units times mu is below this, all coefficients are 0: without a prior, a fit then
# releases only the center of the responses or, without an intercept, their scale.
_HOPELESS = 60.0  # benchmarks/least_squares/least_squares.md
# The scales of features get the share (`_OF_FEATURES` / strength)^2, within limits. The strength is
# a field of the spec. From the strength `_PLENTY` on, the lower limit is the second one:
# benchmarks/least_squares/least_squares.md.
_OF_FEATURES, _LARGEST_OF_FEATURES, _LEAST_OF_FEATURES = 60.0, 0.3, (0.15, 0.05)
# Fractions of the share for scales of features. Histograms of entries by size get the first of
# `_OF_SIZES`, or the second with a weak signal. Histograms within intervals, which find narrow
# features, get `_OF_PLACES`. benchmarks/sweep/sweep.md; the others are not studied.
_OF_SIZES, _OF_PLACES = (3 / 8, 0.55), 1 / 5
# The center and scale of the responses get the share (`_OF_RESPONSES` / (units times mu))^2, within
# limits: benchmarks/least_squares/least_squares.md.
_OF_RESPONSES, _LARGEST_OF_RESPONSES, _LEAST_OF_RESPONSES = 80.0, 0.4, (0.1, 0.03)
_PLENTY = 1000.0  # benchmarks/least_squares/least_squares.md
# The center of the responses gets the fraction `_OF_CENTER` of the share for center and scale; each
# of the two gets at least `_LEAST_SHARE`. The wanted noise of a count, as a fraction of records, is
# `_FINE` in searches for the center, and `_FINE_BIN` in the histogram for the scale. There are as
# many finer searches as the share for the center affords with the noise `_ROUGH`. Not studied.
_OF_CENTER, _ROUGH, _FINE, _FINE_BIN, _LEAST_SHARE = 0.6, 0.05, 0.02, 0.0025, 2e-3
# Fractions of the share that scales and prior leave: `_MOMENT_SHARE` for the joint moment of rows
# and responses, `_SIZES_SHARE` for each histogram of gradient sizes, and `_CALIBRATION_SHARE` for
# the calibration of a weak fit: benchmarks/least_squares/least_squares.md.
_MOMENT_SHARE, _SIZES_SHARE, _CALIBRATION_SHARE = 0.3, 0.01, 0.15
# Fraction of the same share for the calibration of all other fits. That calibration corrects the
# intercept, and shortens predictions that are too far from 0: clipped gradients fit most records,
# but a few far rows may have other coefficients. It clips predictions to `_SURE_PREDICTION` scales
# of the responses, or to their clip level if that is smaller, times the field `loosening`.
_SURE_SHARE, _SURE_PREDICTION = 0.1, 5.0  # benchmarks/least_squares/made_up.md
# If its `left_strength` is below `_WEAK`, a fit is weak, and takes `_STEPS_OF_WEAK` steps. Without
# momentum, other fits take `_STEPS` times the fourth root of this strength, within limits:
# benchmarks/least_squares/least_squares.md.
_WEAK, _STEPS_OF_WEAK, _STEPS, _STEP_LIMITS = 150.0, 5, 10 / 3, (8, 24)
# Momentum halves the number of steps, but not below this one. Fits of fewer steps have no momentum.
# Not studied.
_FEWEST_WITH_MOMENTUM = 8
# From the strength `_CLEAR` on, a fit takes `_STEPS_OF_HIDDEN` steps if noise hides the variance of
# the rows along a direction, as with nearly equal columns: weights along such a direction
# converge slowly.
_CLEAR, _STEPS_OF_HIDDEN = 400.0, 48  # benchmarks/least_squares/made_up.md
# Without noise, steps start at the least-squares solution, and only remove rounding errors.
_STEPS_OF_EXACT = 2  # not tuned
# With more columns no joint moment is released, as it would fill the memory.
_LONGEST_WITH_MOMENT = 4096  # not studied
# Without a moment, steps converge slowly. From each of these strengths on, a fit takes the first
# number of steps, with the second as momentum. Without noise, the last pair holds.
_STEPS_WITHOUT_MOMENT = {  # benchmarks/least_squares/made_up.md
    _WEAK: (24, 0.5),
    _CLEAR: (48, 0.8),
    1000.0: (100, 0.9),
}
# Rows are clipped to f times the norm of a row whose entries have mean square 1. Here f is the root
# of `_NORM` times the strength of the released moment over the number of columns, within limits.
# benchmarks/least_squares/least_squares.md
_NORM, _NORM_LIMITS = 0.04, (1.3, 3.0)
# Entries are clipped to so many standard deviations, times `loosening`:
# benchmarks/least_squares/least_squares.md.
_ENTRY = 5.0
# Scaled responses are clipped to this number times the root of the strength, within limits; not
# studied.
_RESPONSE, _RESPONSE_LIMITS = 0.2, (3.0, 10.0)
# From this strength on, clip levels of entries and whitened rows grow with the root of the
# strength, so that clipping long tails costs no more than noise. benchmarks/sweep/sweep.md.
_LOOSE = 4000.0
# `_N_SIZES` histograms of gradient sizes are released, in steps that are spread evenly over the
# first `_LAST_SIZES` of all steps.
_N_SIZES, _LAST_SIZES = 3, 2 / 3  # not studied
# A release of two mean products shows how well a prior predicts. The wanted noise of such a mean is
# `_AGREED` times the sensitivity of a sum of products that are clipped to 1. The share of the
# release is within `_OF_AGREEMENT`, or is `_OF_AGREEMENT_ALONE` if records are too few for
# coefficients. Products are clipped to the number of units times the mu that the scales leave,
# divided by `_PER_PRODUCT`, within `_PRODUCT_LIMITS`: benchmarks/least_squares/prior.md.
_AGREED, _OF_AGREEMENT, _OF_AGREEMENT_ALONE = 0.025, (0.01, 0.3), 0.4
_PER_PRODUCT, _PRODUCT_LIMITS = 200.0, (1.5, 8.0)
_MOMENT = "response moment"
#: Exponents of the bins of gradient sizes, which are powers of the square root of 2.
SIZE_BINS = np.arange(-20, 31)  # not studied


@dataclass(frozen=True, kw_only=True)
class LeastSquaresSpec(ScaleSpec):
    """Parameters of a linear regression as plain values, and public facts of the records."""

    dtype: np.dtype
    depth: int  # the longest chain of additions of a sum over the records
    # Whether the fitted rows are sparse; sparse rows are not centered.
    is_sparse: bool
    response_bound: float  # inf for none
    fit_intercept: bool
    n_iter: int | str
    prior: tuple[np.ndarray, float] | None

    n_free: int = field(init=False)  # free coefficients, each of which gets noise
    # The number of units times mu, divided by the root of the number of features plus 1: the larger
    # it is, the smaller is the noise in coefficients.
    strength: float = field(init=False)
    shares_of_scales: tuple[float, float] = field(init=False)  # of features, and of responses
    left_strength: float = field(init=False)  # `strength` with the mu that the scales leave
    is_hopeless: bool = field(init=False)  # the budget is not enough for any coefficient
    is_weak: bool = field(init=False)  # the budget is enough for few steps only
    has_moment: bool = field(init=False)  # a moment of rows and responses is released for whitening
    loosening: float = field(init=False)  # factor of clip levels, above 1 where noise is small
    entry: float = field(init=False)  # size that scaled entries are clipped to
    largest_response: float = field(init=False)  # size that scaled responses are clipped to
    row_norm: float = field(init=False)  # norm that scaled rows are clipped to
    # Clip level of the products of a prior's predictions and responses.
    largest_product: float = field(init=False)

    def __post_init__(self) -> None:
        """Compute the fields that follow from public facts."""
        n_mu, n_free = self.n_units * self.cost.mu, self.n_features + self.fit_intercept
        strength = n_mu / math.sqrt(self.n_features + 1)
        is_plenty = strength >= _PLENTY
        features = max((_OF_FEATURES / strength) ** 2, _LEAST_OF_FEATURES[is_plenty])
        responses = max((_OF_RESPONSES / n_mu) ** 2, _LEAST_OF_RESPONSES[is_plenty])
        shares = (min(_LARGEST_OF_FEATURES, features), min(_LARGEST_OF_RESPONSES, responses))
        left = strength * math.sqrt(1 - sum(shares))
        loosening = max(1.0, math.sqrt(left / _LOOSE))
        entry, row_norm = math.inf, NO_CLIPPING
        if self.cost.is_private:
            entry = _ENTRY * loosening
            factor = math.sqrt(_NORM * left * math.sqrt(_MOMENT_SHARE) / n_free)
            row_norm = float(np.clip(factor, *_NORM_LIMITS)) * math.sqrt(n_free)
        response = float(np.clip(_RESPONSE * math.sqrt(left), *_RESPONSE_LIMITS))
        product = n_mu * math.sqrt(1 - sum(shares)) / _PER_PRODUCT
        vars(self).update(
            n_free=n_free,
            strength=strength,
            shares_of_scales=shares,
            left_strength=left,
            is_hopeless=n_mu < _HOPELESS,
            is_weak=left < _WEAK,
            has_moment=n_free <= _LONGEST_WITH_MOMENT,
            loosening=loosening,
            entry=entry,
            largest_response=response,
            row_norm=row_norm,
            largest_product=float(np.clip(product, *_PRODUCT_LIMITS)),
        )

    @property
    def calibrated(self) -> tuple[float, float]:
        """The bounds to which the calibration clips predictions and responses."""
        if self.is_weak:
            return _descent.CALIBRATED
        # Responses are clipped as in the moment, and no further.
        bound = self.largest_response
        return min(bound, _SURE_PREDICTION) * self.loosening, bound


class Step(NamedTuple):
    """Releases of one step: clipped gradients and, in some steps, the counts of their sizes."""

    gradient: Release
    sizes: Release | None


class LeastSquaresReleases(NamedTuple):
    """Releases of a fit, in order; if records are too few, none for coefficients."""

    center: tuple[Search, ...]
    spread: Release | None
    features: ScaleReleases | None
    agreement: Release | None
    moment: Release | None
    steps: AnyOf | None  # of `Step`: the usual number; or more, if noise hides how rows vary
    calibration: Release | None


def plan_least_squares(spec: LeastSquaresSpec) -> LeastSquaresReleases:
    """Plan all releases in their order."""
    feature_share, response_share = spec.shares_of_scales
    has_prior = spec.prior is not None and spec.cost.is_private
    if spec.is_hopeless:
        response_share = 1 - _OF_AGREEMENT_ALONE * has_prior
    has_center_alone = spec.is_hopeless and not has_prior
    share = response_share * (1.0 if has_center_alone else _OF_CENTER)
    refined, limits = (share, _ROUGH), (_LEAST_SHARE, share)
    center = _descent.plan_center(spec, refined=refined, precision=_FINE, limits=limits)
    if spec.is_hopeless:
        spread = None
        if has_prior or not center:
            spread = _plan_spread(spec, left_of(center, total=response_share))
        agreement = _plan_agreement(spec, left_of(center, spread)) if has_prior else None
        return LeastSquaresReleases(center, spread, None, agreement, None, None, None)
    responses = center, _plan_spread(spec, response_share - share)
    sizes, places = _OF_SIZES[spec.is_weak] * feature_share, _OF_PLACES * feature_share
    features = plan_scales(spec, sizes=sizes, places=places, moments=feature_share - sizes)
    left, agreement = left_of(responses, features), None
    if has_prior:
        precision = _AGREED / spec.largest_product
        share = share_for_counts(spec, 1, precision, _OF_AGREEMENT, of=left)
        agreement = _plan_agreement(spec, share)
        left = left_of(responses, features, agreement)
    moment = calibration = None
    if spec.has_moment:
        bound = spec.row_norm if spec.cost.is_private else math.inf
        share, shape = _MOMENT_SHARE * left, (spec.n_free + 1,) * 2
        change = sensitivity.response_moment
        moment = plan_sum(spec, _MOMENT, share, shape, bound, change, "symmetric_gaussian")
    if spec.cost.is_private:
        share = _CALIBRATION_SHARE if spec.is_weak else _SURE_SHARE
        calibration = _descent.plan_calibration(spec, share * left, spec.calibrated)
    rest = left_of(responses, features, agreement, moment, calibration)
    branches = [(steps_of(spec)[0], WHITENED_GRADIENT)]
    may_add_steps = spec.cost.is_private and spec.has_moment and isinstance(spec.n_iter, str)
    if may_add_steps and spec.left_strength >= _CLEAR:
        branches.append((_STEPS_OF_HIDDEN, "collinear gradient"))
    steps = AnyOf(tuple(_plan_steps(spec, rest, _SIZES_SHARE * left, *one) for one in branches))
    return LeastSquaresReleases(*responses, features, agreement, moment, steps, calibration)


def _plan_spread(spec: LeastSquaresSpec, share: float) -> Release:
    """Plan the histogram of the sizes of centered responses, with at most this share."""
    share = share_for_counts(spec, 2, _FINE_BIN, (_LEAST_SHARE, share))
    change, shape = partial(sensitivity.histograms, 1, spec.unit.adjacency), (1, N_POWERS)
    return spec.cost.release(_descent.RESPONSE_SPREAD, "gaussian", share, change, {}, shape=shape)


def _plan_agreement(spec: LeastSquaresSpec, share: float) -> Release:
    """Plan the two sums that show how well a prior predicts the responses."""
    change, facts = partial(sensitivity.agreement, spec.unit.adjacency), {"rounding": spec.rounding}
    return spec.cost.release(AGREEMENT, "gaussian", share, change, facts, shape=(2,))


def steps_of(spec: LeastSquaresSpec) -> tuple[int, float]:
    """Return the number of steps, and their momentum, 0 for none."""
    is_exact = not spec.cost.is_private and spec.has_moment
    if not isinstance(spec.n_iter, str):
        has_momentum = spec.n_iter >= _FEWEST_WITH_MOMENTUM and not is_exact
        return spec.n_iter, 0.5 if has_momentum else 0.0
    if is_exact:
        return _STEPS_OF_EXACT, 0.0
    if not (spec.has_moment or spec.is_weak):
        reached = max(least for least in _STEPS_WITHOUT_MOMENT if least <= spec.left_strength)
        return _STEPS_WITHOUT_MOMENT[reached]
    n_without_momentum = _STEPS_OF_WEAK
    if not spec.is_weak:
        strength = min(spec.left_strength, 1e12)
        n_without_momentum = round(float(np.clip(_STEPS * strength**0.25, *_STEP_LIMITS)))
    n_steps = max(min(_FEWEST_WITH_MOMENTUM, n_without_momentum), round(n_without_momentum / 2))
    has_momentum = n_steps >= _FEWEST_WITH_MOMENTUM
    return n_steps, 1 - n_steps / n_without_momentum if has_momentum else 0.0


def _plan_steps(
    spec: LeastSquaresSpec, share: float, of_sizes: float, count: int, name: str
) -> tuple[Step, ...]:
    """Plan the gradient of each of `count` steps, and in some a histogram of gradient sizes."""
    sizes = dict[int, Release]()
    if spec.cost.is_private:
        places = {round(k * count * _LAST_SIZES / _N_SIZES) for k in range(_N_SIZES)}
        for number, place in enumerate(sorted(places), start=1):
            of_step = f"gradient sizes {number}"
            sizes[place] = plan_histogram(spec, of_step, of_sizes, len(SIZE_BINS))
    share -= of_sizes * len(sizes)
    gradients = plan_steps(spec, count, name, share, (spec.n_free,), _MOMENT)
    return tuple(Step(gradient, sizes.get(number)) for number, gradient in enumerate(gradients))
