"""A least-squares fit: rows are scaled and whitened by releases, then gradient steps follow."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from skdp.exceptions import counted
from skdp.linear_model._descent import bounded, warning_of_doubt, warnings_for_bound
from skdp.linear_model._weighted_rows import bounds_of
from skdp.linear_model.least_squares import steps as descent_steps
from skdp.linear_model.least_squares.plan import LeastSquaresReleases, LeastSquaresSpec
from skdp.linear_model.least_squares.records import (
    PriorPart,
    Records,
    in_scale,
    release_agreement,
    release_response_scale,
    scaling_by,
)
from skdp.linear_model.least_squares.steps import Descent
from skdp.preprocessing.scales import Scales, release_scales, warnings_for_hidden
from skdp.privacy import Plan, PrivacyBudget
from skdp.privacy.clipping import clipped

# ------------------------------
# Warnings, from public facts and released values.

# With less strength than this, fits are often no better than the mean:
# benchmarks/least_squares/least_squares.md.
_LEAST_STRENGTH = 20.0
# The same limit if most responses are equal and the rest carry all signal; not studied.
_LEAST_RARE = 25.0
# With at least this strength, a prior predicts from clipped rows, else from unclipped ones.
_CLIPPED = 250.0  # benchmarks/least_squares/prior.md
# A fit that is not weak is doubtful if the calibration factor of its predictions is below this.
_DOUBTFUL = 0.5  # not studied
# A fit that is not weak warns of hidden features from this part of them on: with fewer, it lost
# little. benchmarks/least_squares/made_up.md
_MANY_HIDDEN = 1 / 2
# The fit warns if more steps would explain this much more of the variance; not studied.
_LEAST_GAIN = 0.03


def warnings_for_size(spec: LeastSquaresSpec, plan: Plan) -> Iterator[str]:
    """Warn if records are too few, from public facts only."""
    if not spec.cost.is_private:
        return
    units = f"{spec.n_units} {spec.unit.counted} with epsilon={spec.cost.epsilon:g}"
    pass_more = f"Pass more {spec.unit.counted}, a larger epsilon, or fewer features."
    if spec.is_hopeless:
        found = "all are 0, and each prediction is the released center of the responses"
        if spec.prior is not None:
            found = "the model is a mixture of the prior and of the released center of responses"
        yield (
            f"{units} are too few for any coefficient: {found}. Pass more "
            f"{spec.unit.counted}, or a larger epsilon."
        )
    elif spec.strength < _LEAST_STRENGTH or spec.n_units <= spec.n_free:
        yield (
            f"{units} are too few for {counted(spec.n_free, 'coefficient')}: predictions may be "
            f"no better than the mean of the responses. {pass_more}"
        )


def warnings_for_fit(
    spec: LeastSquaresSpec, found: Scales, descent: Descent, *, is_doubtful: bool, off_center: float
) -> Iterator[str]:
    """Warn of hidden features, weak predictions or too few steps, from released values."""
    are_hidden = found.are_hidden() & spec.cost.is_private
    yield from warnings_for_hidden(
        are_hidden & (spec.is_weak or np.mean(are_hidden) >= _MANY_HIDDEN),
        f"Pass more {spec.unit.counted}, a larger epsilon, or bounds of DPLinearRegression that "
        "are known without looking at X; or subtract a public guess of the centers.",
    )
    if off_center < 1 and off_center * spec.strength < _LEAST_RARE <= spec.strength:
        yield (
            "Predictions may be worse than a constant: most responses are the same, and those that "
            f"differ are too few for {counted(spec.n_free, 'coefficient')}. "
            f"Pass more {spec.unit.counted}, a larger epsilon, or fewer features."
        )
    elif is_doubtful and spec.strength >= _LEAST_STRENGTH and spec.prior is None:
        yield warning_of_doubt(spec.unit.counted, "fewer features")
    elif descent.gain > _LEAST_GAIN:
        yield (
            "The descent has not converged: more steps would explain more of the responses. Pass a "
            "larger n_iter, or leave out features that are nearly the same as others."
        )


# ------------------------------
# The fit.


class Estimate(NamedTuple):
    """Released coefficients in the units of the data, and the bounds to which features are clipped.

    The noise of coefficients is None if it is unknown. The coefficients of a prior are separate.
    """

    prior: PriorPart
    coef: np.ndarray
    intercept: float
    bounds: np.ndarray | None
    noise_stds: np.ndarray | None
    warnings: tuple[str, ...] = ()


def solve_least_squares(
    spec: LeastSquaresSpec,
    plan: LeastSquaresReleases,
    view: Records,
    budget: PrivacyBudget,
    generator: np.random.Generator,
) -> Estimate:
    """Release the scales, the agreement with a prior, the joint moment and the steps."""
    bound = spec.response_bound
    view = replace(view, responses=view.responses.mapped(partial(bounded, bound=bound)))
    scale = release_response_scale(plan, view, bound, budget)
    of_bound = tuple(warnings_for_bound(scale.center, bound))
    view = replace(view, responses=view.responses.mapped(partial(in_scale, scale=scale)))
    if plan.features is None:
        part = release_agreement(plan.agreement, spec, view, None, scale, budget)
        return Estimate(part, np.zeros(spec.n_features), part.scale.center, None, None, of_bound)
    shape = spec.n_units, spec.n_features
    found = release_scales(plan.features, view, shape, spec.interval, budget)
    scaling = scaling_by(found, spec)
    records = view.scaled(scaling, view.responses)
    rows, of_rows = (records, scaling) if spec.left_strength >= _CLIPPED else (view, None)
    stds = np.sqrt(found.variance)
    part = release_agreement(plan.agreement, spec, rows, of_rows, scale, budget, stds)
    scale, records = part.scale, replace(records, responses=part.responses)
    records = clipped(records, spec.row_norm).measured()
    white = descent_steps.release_whitening(spec, plan, records, scaling, found, budget)
    whitened_records = descent_steps.whitened(records, white, spec.loosening)
    usual, *more = plan.steps.branches if plan.steps else ((),)
    steps = more[0] if more and white.is_hidden.any() else usual
    descent = descent_steps.descend(spec, steps, whitened_records, budget, scale.off_center)
    joint, is_doubtful = white.root @ descent.weights, False
    of_features = joint[: spec.n_features]
    shortened = np.zeros(spec.n_features)
    if plan.calibration is not None:
        known = descent, whitened_records, records.responses, spec, budget, scale.off_center
        calibration = descent_steps.calibrate(plan.calibration, *known)
        factor, is_doubtful = calibration.factor, calibration.is_doubtful
        if not spec.is_weak:
            beyond = descent_steps.part_beyond_noise(descent, white, has_one=spec.fit_intercept)
            shortened = max(0.0, beyond - factor) * of_features
            factor = min(factor, beyond)
            is_doubtful = factor < _DOUBTFUL
        of_features *= factor
        # Predictions are shortened towards their mean.
        middle = white.mean_of(descent.weights) if spec.fit_intercept else 0.0
        joint[spec.n_features :] *= factor
        joint[spec.n_features :] += (1 - factor) * middle + calibration.mean
    coef = scale.size * scaling.multiplier * joint[: spec.n_features]
    intercept = scale.center
    if spec.fit_intercept:
        intercept += scale.size * float(joint[-1])
    if scaling.center is not None:
        intercept -= float(coef @ scaling.center)
    noise_stds = None
    # The effect of hidden directions and of a calibration factor on the noise is not computed.
    is_known = not white.is_hidden.any() and not spec.is_weak and not found.is_void.any()
    if is_known or not spec.cost.is_private:
        variances = np.square(white.root) @ (spec.cost.is_private * descent.variances)
        noise = np.hypot(np.sqrt(variances)[: spec.n_features], shortened)
        noise_stds = scale.size * scaling.multiplier * noise
    warnings = warnings_for_fit(
        spec, found, descent, is_doubtful=is_doubtful, off_center=scale.off_center
    )
    bounds = bounds_of(scaling.center, scaling.multiplier, scaling.largest)
    return Estimate(part, coef, intercept, bounds, noise_stds, of_bound or tuple(warnings))
