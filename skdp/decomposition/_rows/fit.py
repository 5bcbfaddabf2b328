"""From raw rows to released factors: scales, the mean, and the solver."""

import math
from dataclasses import replace
from functools import partial

import numpy as np

from skdp.data.blocks import Weighting
from skdp.data.opening import open_rows
from skdp.data.rows import Found, Rows
from skdp.decomposition._factors import Factors
from skdp.decomposition._problem import DecompositionProblem, rank_of
from skdp.decomposition._rows.adaptive import solve_adaptive
from skdp.decomposition._rows.covariance import solve_covariance
from skdp.decomposition._rows.guide import Guide, release_gate, release_guide, release_mean
from skdp.decomposition._rows.guided_moment import decompose_beside
from skdp.decomposition._rows.guided_power import solve_guided_power
from skdp.decomposition._rows.moment import Decomposition, decompose
from skdp.decomposition._rows.plan import GUIDES, guided_iteration, norm_quantile
from skdp.decomposition._rows.power import solve_power
from skdp.linalg.spectrum import noise_edge
from skdp.privacy import PrivacyBudget, sensitivity
from skdp.privacy.clipping import SMALLEST_BOUND, clip_weights
from skdp.privacy.quantile import SCALE_GRID
from skdp.privacy.unmoved import named_search

__all__ = ["clip_to_norm", "open_for", "solve_clipped", "solve_rows"]

# What the mean shows has to be so many times the edge of the noise of a matrix for that to be
# released: far less for a single component, which has nothing beside it that noise could hide.
_LEAST_RATIO, _LEAST_RATIO_OF_ONE = 8.0, 1.0  # not studied


def open_for(
    problem: DecompositionProblem, raw: Rows, *, is_keyed: bool
) -> tuple[Rows, bytes | None]:
    """Read all rows once, for what the first releases need; return them, and their digest."""
    rows, bound = raw, problem.mean_norm
    if isinstance(problem.center, np.ndarray):
        rows = raw.centered(problem.center)
    elif problem.center is None and bound is None:
        bound = problem.row_norm
    first = None
    if problem.releases_mean and bound is not None:
        first = bound, _weighting(bound, raw.n_features)
    return open_rows(rows, is_keyed=is_keyed, needs_signs=problem.is_guided, first=first)


def solve_rows(
    problem: DecompositionProblem, raw: Rows, budget: PrivacyBudget, generator: np.random.Generator
) -> Factors:
    """Release the norms and the mean that are asked for, and the factors."""
    mean, scale = np.zeros(raw.n_features), 0.0
    if isinstance(problem.center, str):
        clipped = clip_to_norm(raw, budget, problem.mean_norm, "mean_norm")
        # The rest is about the released mean, whatever its noise.
        mean, _ = release_mean(clipped, budget)
    elif problem.center is not None:
        mean = problem.center
    rows = raw.centered(mean) if isinstance(problem.center, str) else raw
    rows = clip_to_norm(rows, budget, problem.row_norm, "row_norm")
    if problem.center is None and problem.releases_mean:
        clipped = rows
        if problem.mean_norm is not None:
            clipped = clip_to_norm(raw, budget, problem.mean_norm, "mean_norm")
        if problem.is_guided and release_gate(raw, budget):
            return _solve_guided(problem, rows, clipped, budget, generator)
        mean, scale = release_mean(clipped, budget)
    factors = solve_clipped(problem, rows, budget, generator)
    return replace(factors, mean=mean, mean_noise=scale**2, row_norm=float(rows.bound))


# What underflows is 0, also where the caller asks for an error.
@np.errstate(under="ignore")
def _solve_guided(
    problem: DecompositionProblem,
    rows: Rows,
    clipped: Rows,
    budget: PrivacyBudget,
    generator: np.random.Generator,
) -> Factors:
    """Release the mean of rows that are mostly positive, and what lies beside it."""
    guide = release_guide(clipped, budget, GUIDES[0])
    if problem.has_guided_power and not _shows_in_a_matrix(problem, rows, budget, guide):
        guide = guide.averaged(release_guide(clipped, budget, GUIDES[1]))
        n_steps, n_columns, _ = guided_iteration(problem)
        factors = solve_guided_power(
            rows, budget, guide, n_steps=n_steps, n_columns=n_columns, generator=generator
        )
    else:
        beside = partial(decompose_beside, axis=guide.axis)
        factors = solve_clipped(problem, rows, budget, generator, beside)
    return replace(factors, mean=guide.mean, mean_noise=guide.scale**2, row_norm=float(rows.bound))


def _shows_in_a_matrix(
    problem: DecompositionProblem, rows: Rows, budget: PrivacyBudget, guide: Guide
) -> bool:
    """Tell whether a noisy second moment would show what the mean shows."""
    if problem.solver == "power":
        return False
    least = _LEAST_RATIO if rank_of(problem) > 1 else _LEAST_RATIO_OF_ONE
    left = 1.0 - sum(one.share for one in budget.spent().releases)
    scale = budget.noise_scale(sensitivity.second_moment(rows.bound, budget.adjacency), left)
    edge = noise_edge(scale * np.sqrt(0.5), rows.n_features)
    return bool(rows.n_rows * (guide.cleaned @ guide.cleaned) >= least * edge)


def clip_to_norm(rows: Rows, budget: PrivacyBudget, bound: float | None, name: str) -> Rows:
    """Clip the rows to norm `bound`; ``None`` releases one first, which holds for most of them."""
    if bound is None:
        norms = rows.norms()
        assert budget.plan is not None
        q = norm_quantile(name, budget.plan, (len(norms), rows.n_features))
        remedy = f"Pass {name} as a public bound in the units of X."
        bound = budget.quantile(named_search(budget, name, SCALE_GRID, remedy), norms, q=q)
        rows = replace(rows, found=Found(norms))
    return rows.clipped(bound, _weighting(bound, rows.n_features))


def _weighting(bound: float, n_features: int) -> Weighting:
    # Products must not overflow where nothing is clipped.
    largest = 1 / SMALLEST_BOUND if bound == math.inf else bound
    return partial(clip_weights, bound=largest, n_features=n_features)


def solve_clipped(
    problem: DecompositionProblem,
    rows: Rows,
    budget: PrivacyBudget,
    generator: np.random.Generator,
    decomposed: Decomposition = decompose,
) -> Factors:
    """Run the solver on clipped rows."""
    if problem.solver == "covariance":
        return solve_covariance(rows, budget, decomposed)
    assert isinstance(problem.n_components, int)
    if problem.solver == "adaptive":
        return solve_adaptive(
            rows,
            budget,
            n_components=problem.n_components,
            basis_size=problem.basis_size,
            decomposed=decomposed,
        )
    return solve_power(
        rows,
        budget,
        basis_size=problem.basis_size,
        n_iter=int(problem.n_iter),
        generator=generator,
    )
