"""From raw rows to released factors: scales, the mean, and the solver."""

import math
from dataclasses import replace
from functools import partial

import numpy as np

from skdp.data.rows import Rows
from skdp.decomposition._factors import Factors
from skdp.decomposition._problem import DecompositionProblem
from skdp.decomposition._rows.adaptive import solve_adaptive
from skdp.decomposition._rows.covariance import solve_covariance
from skdp.decomposition._rows.plan import norm_quantile
from skdp.decomposition._rows.power import solve_power
from skdp.privacy import PrivacyBudget, Released, sensitivity
from skdp.privacy.clipping import SMALLEST_BOUND, clip_weights
from skdp.privacy.quantile import SCALE_GRID

__all__ = ["clip_to_norm", "solve_clipped", "solve_rows"]


def solve_rows(
    problem: DecompositionProblem, raw: Rows, budget: PrivacyBudget, generator: np.random.Generator
) -> Factors:
    """Release the norms and the mean that are asked for, and the factors."""
    mean, scale = np.zeros(raw.n_features), 0.0
    if isinstance(problem.center, str):
        clipped = clip_to_norm(raw, budget, problem.mean_norm, "mean_norm")
        # The rest is about the released mean, whatever its noise.
        mean, _ = _release_mean(clipped, budget)
    elif problem.center is not None:
        mean = problem.center
    rows = raw if problem.center is None else raw.centered(mean)
    rows = clip_to_norm(rows, budget, problem.row_norm, "row_norm")
    if problem.center is None and problem.releases_mean:
        clipped = rows
        if problem.mean_norm is not None:
            clipped = clip_to_norm(raw, budget, problem.mean_norm, "mean_norm")
        mean, scale = _release_mean(clipped, budget)
    factors = solve_clipped(problem, rows, budget, generator)
    return replace(factors, mean=mean, mean_noise=scale**2, row_norm=float(rows.bound))


def clip_to_norm(rows: Rows, budget: PrivacyBudget, bound: float | None, name: str) -> Rows:
    """Clip the rows to norm `bound`; ``None`` releases one first, which holds for most of them."""
    if bound == math.inf:
        # Products must not overflow.
        weighting = partial(clip_weights, bound=1 / SMALLEST_BOUND, n_features=rows.n_features)
        return rows.clipped(math.inf, weighting)
    norms = None
    if bound is None:
        norms = rows.norms()
        q = norm_quantile(name, budget.plan, len(norms))
        bound = budget.quantile(name, norms, q=q, grid=SCALE_GRID)
    weighting = partial(clip_weights, bound=bound, n_features=rows.n_features)
    return rows.clipped(bound, weighting, norms)


def _release_mean(rows: Rows, budget: PrivacyBudget) -> Released:
    """Release the mean of `rows`, clipped to ``rows.bound``."""
    total, rounding = rows.total()
    change = sensitivity.row_sum(rows.bound, budget.adjacency, rounding) / rows.n_rows
    return budget.gaussian("mean", total / rows.n_rows, sensitivity=change)


def solve_clipped(
    problem: DecompositionProblem, rows: Rows, budget: PrivacyBudget, generator: np.random.Generator
) -> Factors:
    """Run the solver on clipped rows."""
    if problem.solver == "covariance":
        return solve_covariance(rows, budget)
    assert isinstance(problem.n_components, int)
    if problem.solver == "adaptive":
        return solve_adaptive(
            rows, budget, n_components=problem.n_components, basis_size=problem.basis_size
        )
    return solve_power(
        rows,
        budget,
        basis_size=problem.basis_size,
        n_iter=int(problem.n_iter),
        generator=generator,
    )
