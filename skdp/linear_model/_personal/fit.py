"""From users and a budget to what is published."""

import numpy as np

from skdp.data.users import Users
from skdp.linear_model._personal.altmin import alternate
from skdp.linear_model._personal.center import release_center
from skdp.linear_model._personal.gradient import descend
from skdp.linear_model._personal.heads import choose_mix
from skdp.linear_model._personal.model import SharedModel
from skdp.linear_model._personal.plan import center_rounds
from skdp.linear_model._personal.problem import PersonalProblem
from skdp.linear_model._personal.start import Start, release_start
from skdp.linear_model._personal.whitening import release_user_whitening
from skdp.privacy import PrivacyBudget

__all__ = ["solve_personal"]


def solve_personal(
    problem: PersonalProblem,
    users: Users,
    budget: PrivacyBudget,
    generator: np.random.Generator,
) -> SharedModel:
    """Release scales, then the representation, then how far it is to be trusted."""
    center, response_center = np.zeros(users.n_features), 0.0
    if problem.fit_intercept:
        for name in center_rounds(problem):
            rows, responses = release_center(name, users, budget)
            users.map_rows(rows)
            users.shift_responses(responses)
            center, response_center = center + rows, response_center + responses
    whitening: np.ndarray | None = None
    doubts: tuple[str, ...] = ()
    if problem.whiten:
        whitening, doubts = release_user_whitening(users, budget)
        users.map_rows(np.zeros(users.n_features), whitening)
    start = _representation(problem, users, budget)
    return SharedModel(
        center, response_center, whitening, start.mean_head, start.prior, start.snr, doubts
    )


def _representation(problem: PersonalProblem, users: Users, budget: PrivacyBudget) -> Start:
    """Release the representation and the prior of the heads, of whitened rows."""
    start = release_start(users, budget, problem)
    if problem.is_pooled:
        return start
    steps = {"gradient": descend, "altmin": alternate}[problem.solver]
    return choose_mix(steps(start, users, budget, problem.n_iter), users, budget)
