"""The fit of a linear regression: scale and whiten rows by released values, then descend."""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from skdp.exceptions import counted
from skdp.linear_model._descent import MOSTLY_NOISE, warning_of_doubt, warnings_for_bound
from skdp.linear_model._weighted_rows import bounds_of
from skdp.linear_model.least_squares import steps as descent_steps
from skdp.linear_model.least_squares.plan import LeastSquaresReleases, LeastSquaresSpec
from skdp.linear_model.least_squares.records import (
    PriorPart,
    Records,
    release_agreement,
    release_response_scale,
    scaling_by,
)
from skdp.linear_model.least_squares.steps import Descent, WhitenedRecords
from skdp.preprocessing.scales import Scales, release_scales, warnings_for_columns
from skdp.privacy import Plan, PrivacyBudget, Release
from skdp.privacy.clipping import clipped

# ------------------------------
# Warnings, from public facts and released values.

# Below this strength, a field of the spec, fits are often no better than the mean:
# benchmarks/least_squares/least_squares.md.
_LEAST_STRENGTH = 20.0
# If most responses are equal, the fit warns if too few differ from them: the strength with their
# number in place of the number of units is below this; not studied.
_LEAST_RARE = 25.0
# A fit tests a prior, a published model, by its predictions. The prior predicts from clipped rows
# if it is not far off and the strength that is left for the steps is at least this, else from
# unclipped rows.
_CLIPPED = 250.0  # benchmarks/least_squares/prior.md
# The calibration multiplies predictions by a factor up to 1. A fit with a strong signal warns if
# the factor is below this.
_DOUBTFUL = 0.6  # benchmarks/least_squares/made_up.md
# With more coefficients per record than this, a fit also warns if its predictions explain so little
# of the records that they probably explain nothing of new records.
_FREE_PER_RECORD = 1 / 100  # benchmarks/least_squares/made_up.md
_BY_CHANCE = "so many coefficients explain as much of so few records by chance"
# With a strong signal, a fit warns of features that noise hides if they are at least this fraction
# of all features: fewer cost little. benchmarks/least_squares/made_up.md
_MANY_HIDDEN = 1 / 2
# The fit warns if more steps would explain this much more of the variance; not studied.
_LEAST_GAIN = 0.03
# Without an intercept the fit warns if a column lies this many of its standard deviations from 0.
_FAR_FROM_0 = 20.0  # benchmarks/least_squares/made_up.md


def warnings_for_size(spec: LeastSquaresSpec, plan: Plan) -> Iterator[str]:
    """Warn if records are too few, from public facts only."""
    if not spec.cost.is_private:
        return
    few = f"Too few {spec.unit.counted}, {spec.n_units} with epsilon={spec.cost.epsilon:g}, for"
    pass_more = f"Pass more {spec.unit.counted}, a larger epsilon, or fewer features."
    if spec.is_hopeless:
        result = "all are 0, and each prediction is the released center of the responses"
        if spec.prior is not None:
            result = "the model is a mixture of the prior and of the released center of responses"
        yield (
            f"{few} any coefficient: {result}. Pass more {spec.unit.counted}, or a larger epsilon."
        )
    elif spec.strength < _LEAST_STRENGTH or spec.n_units <= spec.n_free:
        yield (
            f"{few} {counted(spec.n_free, 'coefficient')}: predictions may be no better than the "
            f"mean of the responses. {pass_more}"
        )


def warnings_for_fit(
    spec: LeastSquaresSpec, scales: Scales, descent: Descent, *, doubt: str, off_center: float
) -> Iterator[str]:
    """Warn of features hidden by noise, weak predictions or too few steps, from released values.

    `doubt` is the reason to distrust predictions, or empty, and `off_center` the fraction of the
    responses that differ from their center.
    """
    are_hidden = scales.are_hidden() & spec.cost.is_private
    yield from warnings_for_columns(
        scales,
        spec,
        are_hidden & (spec.is_weak or np.mean(are_hidden) >= _MANY_HIDDEN),
        f"Pass more {spec.unit.counted}, a larger epsilon, or bounds of DPLinearRegression that "
        "are known without looking at X, and contain most values of each column; or subtract a "
        "public guess of the centers.",
    )
    is_far = np.abs(scales.center) > _FAR_FROM_0 * np.sqrt(scales.variance)
    if not spec.fit_intercept and spec.cost.is_private and np.any(is_far & ~are_hidden):
        yield (
            "Predictions may be worse than the mean of the responses: columns lie far from 0, and "
            "noise in their coefficients moves all predictions together. Pass fit_intercept=True, "
            "or subtract public centers from X and y."
        )
    if off_center < 1 and off_center * spec.strength < _LEAST_RARE <= spec.strength:
        yield (
            "Predictions may be worse than a constant: most responses are the same, and those that "
            f"differ are too few for {counted(spec.n_free, 'coefficient')}. "
            f"Pass more {spec.unit.counted}, a larger epsilon, or fewer features."
        )
    elif doubt and spec.strength >= _LEAST_STRENGTH and spec.prior is None:
        yield warning_of_doubt(spec.unit.counted, "fewer features", doubt)
    elif descent.gain > _LEAST_GAIN:
        yield (
            "The descent has not converged: more steps would explain more of the responses. Pass a "
            "larger n_iter, or leave out features that are nearly the same as others."
        )


# ------------------------------
# The fit.


class Estimate(NamedTuple):
    """Released coefficients in the units of the data, and the bounds to which features are clipped.

    `coef` does not include the coefficients of a prior. `noise_stds` is None if they are unknown.
    """

    prior: PriorPart
    coef: np.ndarray
    intercept: float
    bounds: np.ndarray | None
    noise_stds: np.ndarray | None
    warnings: tuple[str, ...] = ()


def solve_least_squares(
    spec: LeastSquaresSpec, plan: LeastSquaresReleases, view: Records, budget: PrivacyBudget
) -> Estimate:
    """Make all planned releases in their order: scales, prior, moment, steps and calibration.

    If records are too few for any coefficient, release only the center of the responses and how far
    they agree with a prior.
    """
    view, scale = release_response_scale(plan, view, spec.response_bound, budget)
    at_bound = tuple(warnings_for_bound(scale.center, spec.response_bound))
    if plan.features is None:
        part = release_agreement(plan.agreement, spec, view, None, scale, budget)
        return Estimate(part, np.zeros(spec.n_features), part.scale.center, None, None, at_bound)
    assert plan.steps is not None
    shape, off_center = (spec.n_units, spec.n_features), scale.off_center
    scales = release_scales(plan.features, view, shape, spec.interval, budget)
    scaling = scaling_by(scales, spec)
    records = view.scaled(scaling, view.responses)
    stds = np.sqrt(scales.variance)
    is_far = scale.is_far_from(spec.prior, scales.center, stds)
    is_unclipped = is_far or spec.left_strength < _CLIPPED
    rows, used_scaling = (view, None) if is_unclipped else (records, scaling)
    part = release_agreement(
        plan.agreement, spec, rows, used_scaling, scale, budget, stds, is_far=is_far
    )
    records = clipped(replace(records, responses=part.responses), spec.row_norm).measured()
    if plan.moment is None:
        white = descent_steps.without_moment(scaling, scales)
    else:
        white = descent_steps.release_whitening(spec, plan.moment, records, budget)
    whitened = descent_steps.whitened(spec, records, white, off_center)
    descent = descent_steps.descend(plan.steps, whitened, budget)
    weights, shortened, doubt = _calibrated(plan.calibration, whitened, descent, budget)
    of_fit = tuple(warnings_for_fit(spec, scales, descent, doubt=doubt, off_center=off_center))
    # Coefficients, noise and intercept in units of the data.
    units, intercept = part.scale.size * scaling.multiplier, part.scale.center
    coef, noise_stds = units * weights[: spec.n_features], None
    if spec.fit_intercept:
        intercept += part.scale.size * float(weights[-1])
    if scaling.center is not None:
        intercept -= float(coef @ scaling.center)
    # The noise of coefficients is unknown if noise hides directions or features, or if the signal
    # is weak, as the calibration then changes the noise.
    is_unknown = white.is_hidden.any() or spec.is_weak or scales.is_void.any()
    if not (spec.cost.is_private and is_unknown):
        variances = np.dot(np.square(white.root), descent.variances)
        noise_stds = units * np.hypot(np.sqrt(variances)[: spec.n_features], shortened)
    bounds = bounds_of(scaling.center, scaling.multiplier, scaling.largest)
    return Estimate(part, coef, intercept, bounds, noise_stds, at_bound or of_fit)


def _calibrated(
    release: Release | None, whitened: WhitenedRecords, descent: Descent, budget: PrivacyBudget
) -> tuple[np.ndarray, np.ndarray, str]:
    """Shorten predictions toward their mean by a released factor, and add the mean error.

    Return three results: the weights of scaled rows, for scaled responses; by how much the slopes
    are shortened beyond what their noise explains; and why the predictions may be no better than
    the mean, or "".
    """
    spec, white = whitened.spec, whitened.white
    weights, shortened = np.dot(white.root, descent.weights), np.zeros(spec.n_features)
    if release is None:
        return weights, shortened, ""
    calibration = descent_steps.calibrate(release, descent, whitened, budget)
    factor, is_doubtful, by_chance = calibration.factor, calibration.is_doubtful, False
    slopes, constant = weights[: spec.n_features], weights[spec.n_features :]
    if not spec.is_weak:
        signal = descent_steps.part_beyond_noise(descent, white, has_one=spec.fit_intercept)
        shortened = max(0.0, signal - factor) * slopes
        factor = min(factor, signal)
        is_doubtful = factor < _DOUBTFUL
        # With f coefficients per record, the mean square error of least squares on new records is
        # (1 + f) / (1 - f) times the mean square error on the records of the fit.
        free = spec.n_free / spec.n_units
        explained = calibration.square * factor * (2 * calibration.slope - factor)
        by_chance = explained < 2 * free / (1 + free)
        by_chance &= free > _FREE_PER_RECORD
    mean = white.mean_of(descent.weights) if spec.fit_intercept else 0.0
    constant = factor * constant + ((1 - factor) * mean + calibration.mean)
    doubt = MOSTLY_NOISE if is_doubtful else _BY_CHANCE if by_chance else ""
    return np.append(factor * slopes, constant), shortened, doubt
