"""Warnings of a personal regression, from public facts and released values."""

import math

from skdp.linear_model._personal.model import Prior, SharedModel
from skdp.linear_model._personal.plan import HeadReleases, MeanReleases, PersonalReleases
from skdp.linear_model._personal.problem import PersonalProblem
from skdp.privacy import Plan
from skdp.units import ResolvedRow

# With a smaller signal than that, a representation is no better than none. The signal is the
# largest eigenvalue of a sum of products if all users agreed, in units of that of the noise. Not
# studied.
_LEAST_SIGNAL = 3.0


def warnings_for_users(problem: PersonalProblem, plan: Plan) -> list[str]:
    """Warn of fits without ids, and of those whose noise is larger than any signal."""
    warnings: list[str] = []
    if not problem.cost.is_private:
        return warnings
    if isinstance(problem.unit, ResolvedRow):
        warnings.append(
            "There are no ids of users: every row is taken for a user of its own, and somebody "
            "with several rows is protected only one row at a time. Pass groups to fit, or "
            "user_column; require_groups=True turns this warning into an error."
        )
    if problem.solver == "exponential":
        return warnings
    warnings += _warnings_for_centers(problem, plan.parts)
    signal = _signal(problem, plan.parts.model)
    if signal < _LEAST_SIGNAL:
        warnings.append(
            f"{problem.n_units} {problem.unit.counted} with epsilon={problem.cost.epsilon:g} are "
            f"too few for {problem.n_features} features: the noise is as large as any signal. "
            f"Pass at least {_LEAST_SIGNAL / signal:.2g} times as many, a larger epsilon, or fewer "
            "features."
        )
    return warnings


def _warnings_for_centers(problem: PersonalProblem, plan: PersonalReleases) -> list[str]:
    """Warn if noise would hide a center, which then is not released."""
    if not problem.fit_intercept:
        return []
    hidden = ["the rows"] * (not plan.row_center)
    hidden += ["the responses"] * (not plan.response_center)
    if not hidden:
        return []
    return [
        f"{problem.n_units} {problem.unit.counted} with epsilon={problem.cost.epsilon:g} are too "
        f"few to find the center of {' and '.join(hidden)}, which is taken to be 0. Subtract a "
        "public guess of it, or pass more of them or a larger epsilon."
    ]


def warnings_for_model(model: SharedModel, problem: PersonalProblem) -> list[str]:
    """Warn if the representation does not stand out from the noise, or helps few users."""
    warnings = list(model.warnings)
    if problem.is_pooled:
        return warnings
    if model.snr < 1 and problem.solver != "exponential":
        warnings.append(
            f"The weakest of {problem.n_components} components does not stand out from the noise "
            f"(snr_ is {model.snr:.2g}, below 1). Pass fewer n_components, a larger epsilon, or "
            "more users."
        )
    if model.prior.mix == 1:
        warnings.append(
            "Most users are predicted best without the representation (prior_mix_ is 1): a ridge "
            "regression for each user alone is as good, and needs no budget. Try more users, a "
            "larger epsilon, or more or fewer n_components."
        )
    return warnings


def warnings_for_prior(before: Prior, chosen: Prior) -> tuple[str, ...]:
    """Warn if users voted for a prior with so much noise that their heads are nearly 0."""
    if chosen.noise_variance <= before.noise_variance:
        return ()
    return (
        "Most users are predicted best by the mean model: their heads add little to it. Pass "
        "n_components=0 to fit the mean model alone.",
    )


def _signal(problem: PersonalProblem, plan: MeanReleases | HeadReleases) -> float:
    """Compute the signal of users who all agree, in units of the noise, from public facts only."""
    if isinstance(plan, MeanReleases):
        release, size = plan.mean_products, problem.n_features
    else:
        release, size = plan.products, 2 * problem.n_features
    noise_std = problem.cost.noise_std(release.mechanism, release.change(1.0), release.share)
    return problem.n_units / (noise_std * math.sqrt(size))
