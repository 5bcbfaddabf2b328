"""The fit of a linear regression: scale and whiten rows by released values, then descend."""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from skdp.exceptions import counted
from skdp.linear_model import _descent as descents
from skdp.linear_model._weighted_rows import bounds_of, standardization
from skdp.linear_model.least_squares import steps as descent_steps
from skdp.linear_model.least_squares.plan import LeastSquaresReleases, LeastSquaresSpec
from skdp.linear_model.least_squares.records import (
    PriorPart,
    Records,
    Scaling,
    release_agreement,
    release_response_scale,
)
from skdp.linear_model.least_squares.steps import Descent
from skdp.preprocessing.scales import Scales, release_scales, warnings_for_columns
from skdp.privacy import Plan, PrivacyBudget
from skdp.privacy.clipping import clipped

# ------------------------------
# Warnings, from public facts and released values.

# If the strength, a field of the spec, is below this, the fit warns, as many fits are then no
# better than the mean: benchmarks/least_squares/least_squares.md.
_LEAST_STRENGTH = 20.0
# If most responses are equal, the fit warns if the strength, computed with the number of the other
# responses in place of the number of units, is below this; not studied.
_LEAST_RARE = 25.0
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
            f"mean of the responses. Pass more {spec.unit.counted}, a larger epsilon, or fewer "
            "features."
        )


def warnings_for_fit(
    spec: LeastSquaresSpec, scales: Scales, descent: Descent, *, doubt: str, off_center: float
) -> Iterator[str]:
    """Warn of hidden or far columns, weak predictions or too few steps, from released values.

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
        loss = "Predictions may be worse than a constant"
        yield descents.warning_of_rare(spec, "fewer features", loss)
    elif doubt and spec.strength >= _LEAST_STRENGTH and spec.prior is None:
        yield descents.warning_of_doubt(spec, "fewer features", doubt)
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
    at_bound = tuple(descents.warnings_for_bound(scale.center, spec.response_bound))
    if plan.features is None:
        part = release_agreement(plan.agreement, spec, view, scale, budget)
        return Estimate(part, np.zeros(spec.n_features), part.scale.center, None, None, at_bound)
    assert plan.steps is not None
    shape, off_center = (spec.n_units, spec.n_features), scale.off_center
    scales = release_scales(plan.features, view, shape, spec.interval, budget)
    is_centered, is_bounded = spec.fit_intercept and not spec.is_sparse, spec.interval is not None
    shift_and_factor = standardization(scales, spec, is_centered=is_centered, is_bounded=is_bounded)
    largest = np.where(scales.is_void, min(1.0, spec.entry), spec.entry)
    scaling = Scaling(*shift_and_factor, largest, spec.fit_intercept, spec.is_sparse)
    records = view.scaled(scaling, view.responses)
    fitted = scales, scaling, records
    part = release_agreement(plan.agreement, spec, view, scale, budget, fitted)
    records = clipped(replace(records, responses=part.responses), spec.row_norm).measured()
    if plan.moment is None:
        white = descent_steps.without_moment(scaling, scales)
    else:
        white = descent_steps.release_whitening(spec, plan.moment, records, budget)
    whitened = descent_steps.whitened(spec, records, white, off_center)
    descent = descent_steps.descend(plan.steps, whitened, budget)
    weights, shortened, doubt = descent_steps.calibrate(plan.calibration, descent, whitened, budget)
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
