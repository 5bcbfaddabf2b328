"""From users and a budget to the released model."""

import numpy as np

from skdp.data.users import Users
from skdp.linear_model._personal.altmin import alternate
from skdp.linear_model._personal.center import release_response_center, release_row_center
from skdp.linear_model._personal.gradient import descend
from skdp.linear_model._personal.heads import choose_prior
from skdp.linear_model._personal.model import SharedModel
from skdp.linear_model._personal.plan import AltminReleases, MeanReleases, PersonalReleases
from skdp.linear_model._personal.problem import PersonalProblem
from skdp.linear_model._personal.start import release_mean_model, release_row_count, release_start
from skdp.linear_model._personal.user_levels import UserLevels, release_user_levels
from skdp.linear_model._personal.warnings import warnings_for_prior
from skdp.linear_model._personal.whitening import release_user_whitening
from skdp.privacy import PrivacyBudget


def solve_personal(
    problem: PersonalProblem,
    plan: PersonalReleases,
    users: Users,
    budget: PrivacyBudget,
    generator: np.random.Generator,
) -> SharedModel:
    """Release scales, then the representation, then how far heads should trust it."""
    center, response_center = np.zeros(users.n_features), 0.0
    if plan.response_center:
        response_center = release_response_center(plan.response_center, users, budget)
        users.shift_responses(response_center)
    row_count = 1.0 if plan.row_count is None else release_row_count(plan.row_count, users, budget)
    levels = UserLevels()
    if plan.user_levels:
        levels = release_user_levels(plan.user_levels, users, row_count, budget)
    for round_of_center in plan.row_center:
        shift = release_row_center(round_of_center, users, budget)
        users.shift_rows(shift)
        center = center + shift
    whitening: np.ndarray | None = None
    warnings: tuple[str, ...] = ()
    if plan.user_moment is not None:
        whitening, warnings = release_user_whitening(plan.user_moment, users, budget)
        users.multiply_rows(whitening)
    model = plan.model
    if isinstance(model, MeanReleases):
        start = release_mean_model(problem, model, users, budget)
    else:
        fitted = release_start(problem, model, users, row_count, levels, budget)
        if isinstance(model.steps, AltminReleases):
            fitted = alternate(model.steps, fitted, users, budget)
        else:
            fitted = descend(model.steps, fitted, users, budget)
        start = choose_prior(model.prior_vote, fitted, users, budget)
        warnings += warnings_for_prior(fitted.prior, start.prior)
    return SharedModel(center, response_center, whitening, start.prior, start.snr, warnings)
