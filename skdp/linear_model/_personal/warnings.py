"""What public facts and released values say against a personal regression."""

import math

from skdp.linear_model._personal.model import Prior, SharedModel
from skdp.linear_model._personal.plan import HeadReleases, MeanReleases, PersonalReleases
from skdp.linear_model._personal.problem import PersonalProblem
from skdp.privacy import Plan
from skdp.units._rows import ResolvedRow

__all__ = ["warnings_for_model", "warnings_for_prior", "warnings_for_users"]

# The largest eigenvalue that users can give to a sum of products, in units of that of its noise,
# below which a representation is no better than none: it would take users who all agree.
# Not studied.
_LEAST_SIGNAL = 3.0


def warnings_for_users(problem: PersonalProblem, plan: Plan) -> list[str]:
    """Doubt fits without ids, and those whose noise is larger than any signal."""
    warnings: list[str] = []
    if not problem.cost.is_private:
        return warnings
    if isinstance(problem.unit, ResolvedRow):
        warnings.append(
            "There are no ids of users: every row is taken for a user of its own, and who has "
            "several is protected for one of them only. Pass groups to fit, or user_column; "
            "require_groups=True makes an error of this."
        )
    if problem.solver == "exponential":
        return warnings
    warnings += _warnings_for_centers(problem, plan.parts)
    signal = _signal(problem, plan.parts.model)
    if signal < _LEAST_SIGNAL:
        warnings.append(
            f"{problem.n_units} {problem.unit.counted} with epsilon={problem.cost.epsilon:g} are "
            f"too few for {problem.n_features} features: the noise is as large as any "
            f"signal. It takes {_LEAST_SIGNAL / signal:.2g} times as many at least, a larger "
            "epsilon, or fewer features."
        )
    return warnings


def _warnings_for_centers(problem: PersonalProblem, plan: PersonalReleases) -> list[str]:
    """Doubt fits that are asked for centers which noise would hide."""
    if not problem.fit_intercept:
        return []
    hidden = ["the rows"] * (not plan.row_center)
    hidden += ["the responses"] * (not plan.response_center)
    if not hidden:
        return []
    return [
        f"{problem.n_units} {problem.unit.counted} with epsilon={problem.cost.epsilon:g} are too "
        f"few to find the center of {' and '.join(hidden)}, which is taken for 0. Subtract a "
        "public guess."
    ]


def warnings_for_model(model: SharedModel, problem: PersonalProblem) -> list[str]:
    """Doubt a representation that does not stand out from the noise, or is of no use to users."""
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
            "regression of each user by itself is as good, and needs no budget. More users, a "
            "larger epsilon, or more or fewer n_components may help."
        )
    return warnings


def warnings_for_prior(found: Prior, chosen: Prior) -> tuple[str, ...]:
    """Doubt heads if users have voted for a prior with so much noise that these are next to 0."""
    if chosen.noise_variance <= found.noise_variance:
        return ()
    return (
        "Most users are predicted best by the mean model: their heads add little to it. "
        "n_components=0 leaves them out.",
    )


def _signal(problem: PersonalProblem, plan: MeanReleases | HeadReleases) -> float:
    """Compare users who all agree with the noise of their products, from public facts only."""
    if isinstance(plan, MeanReleases):
        release, size = plan.mean_products, problem.n_features
    else:
        release, size = plan.products, 2 * problem.n_features
    noise_std = problem.cost.noise_std(release.mechanism, release.change(1.0), release.share)
    return problem.n_units / (noise_std * math.sqrt(size))
