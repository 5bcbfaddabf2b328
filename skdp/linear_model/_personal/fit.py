"""From users and a budget to what is published."""

from typing import Any

import numpy as np

from skdp.data.users import Users
from skdp.linear_model._personal.altmin import alternate
from skdp.linear_model._personal.center import release_response_center, release_row_center
from skdp.linear_model._personal.doubts import doubts_of_prior
from skdp.linear_model._personal.gradient import descend
from skdp.linear_model._personal.heads import choose_prior
from skdp.linear_model._personal.model import SharedModel
from skdp.linear_model._personal.plan import center_rounds, finds_levels, response_search
from skdp.linear_model._personal.problem import PersonalProblem
from skdp.linear_model._personal.start import release_row_count, release_start
from skdp.linear_model._personal.user_levels import UserLevels, release_user_levels
from skdp.linear_model._personal.whitening import release_user_whitening
from skdp.privacy import PrivacyBudget

__all__ = ["solve_personal"]


def solve_personal(
    problem: PersonalProblem,
    plan: Any,
    users: Users,
    budget: PrivacyBudget,
    generator: np.random.Generator,
) -> SharedModel:
    """Release scales, then the representation, then how far it is to be trusted."""
    center, response_center = np.zeros(users.n_features), 0.0
    kind = response_search(problem)
    if kind:
        response_center = release_response_center(kind, users, budget)
        users.shift_responses(response_center)
    row_count = 1.0 if problem.is_pooled else release_row_count(users, budget, problem)
    levels = UserLevels()
    if finds_levels(problem):
        levels = release_user_levels(users, row_count, budget)
    for name in center_rounds(problem):
        shift = release_row_center(name, users, budget)
        users.shift_rows(shift)
        center = center + shift
    whitening: np.ndarray | None = None
    doubts: tuple[str, ...] = ()
    if problem.decorrelate:
        whitening, doubts = release_user_whitening(users, budget)
        users.multiply_rows(whitening)
    start = release_start(users, budget, problem, row_count, levels)
    if not problem.is_pooled:
        if problem.solver == "gradient":
            found = descend(start, users, budget, plan[-2])
        else:
            found = alternate(start, users, budget, problem.n_iter)
        start = choose_prior(found, users, budget)
        doubts += doubts_of_prior(found.prior, start.prior)
    return SharedModel(
        center, response_center, whitening, start.mean_head, start.prior, start.snr, doubts
    )
