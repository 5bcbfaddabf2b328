"""What a personal regression releases, and with which shares, from public facts."""

import math

import numpy as np

from skdp.linear_model._counts import share_for_counts
from skdp.linear_model._personal.grids import PRIORS, RELATIVE_SIZES, SIZES, row_counts
from skdp.linear_model._personal.problem import PersonalProblem
from skdp.privacy import PlannedRelease, sensitivity
from skdp.privacy.plan import planned_search
from skdp.privacy.quantile import search_steps

__all__ = [
    "center_rounds",
    "mean_clip",
    "plan_personal",
]

# Wanted noise of a count, as a fraction of the users.
_SEARCH_PRECISION, _COUNT_LIMITS, _CHEAP_COUNT = 0.12, (6e-4, 8.5e-3), 1.5e-3
_VOTE_PRECISION, _VOTE_LIMITS = 0.05, (4e-3, 0.04)
_CENTER_SHARE, _MEAN_SHARE = 0.02, 0.02
_MOMENT_SHARE, _PRODUCT_SHARE = 0.15, 0.26
_PRIOR_PRECISION, _PRIOR_LIMITS = 0.1, (0.02, 0.12)
# Of what is left when all users share one model.
_POOLED_MOMENT_SHARE, _POOLED_MEAN_SHARE = 0.4, 0.5
# Noise of a mean that is wanted, in units of the level that its parts are clipped to.
_MEAN_NOISE, _LARGEST_MEAN_CLIP = 0.1, 8.0
# The last steps start from the best point: each gets so many times the share of the one before.
_GROWTH, _LARGEST_GROWTH = 1.5, 10.0


def plan_personal(problem: PersonalProblem) -> list[PlannedRelease]:
    """Plan all releases in their order."""
    before = [*_plan_features(problem), *_search("product norm", problem)]
    if problem.is_pooled:
        return [*before, _mean_products(problem, _left(before))]
    between = [
        *planned_counts("row count", row_counts(problem.max_rows), problem),
        *planned_counts("head norm", RELATIVE_SIZES, problem),
    ]
    last = PlannedRelease(
        "prior vote",
        "gaussian",
        share_for_counts(
            2, problem.n_units, problem.mu, precision=_PRIOR_PRECISION, limits=_PRIOR_LIMITS
        ),
        sensitivity.histogram(problem.unit.adjacency),
        shape=(len(PRIORS),),
    )
    means = [_mean_products(problem, _MEAN_SHARE)] * problem.mean_head
    left = _left([*before, *between, last, *means])
    products = _PRODUCT_SHARE if problem.n_iter else left
    size = (problem.facts.n_features,) * 2
    start = _line("products", products, "product norm", size, "symmetric_gaussian")
    plan_steps = {"gradient": _plan_gradient, "altmin": _plan_altmin}[problem.solver]
    steps = plan_steps(problem, left - products) if problem.n_iter else []
    return [*before, start, *means, *between, *steps, last]


def planned_counts(name: str, grid: np.ndarray, problem: PersonalProblem) -> list[PlannedRelease]:
    """Plan a search over a grid, for a share that follows the number of users."""
    n_steps = search_steps(len(grid))
    if n_steps == 0:
        return []
    return planned_search(name, n_steps * _count_share(problem), len(grid))


def mean_clip(problem: PersonalProblem) -> float:
    """Choose how far the mean of the products is clipped beyond the level of their second moment.

    A low level costs a mean more than a second moment, of which only the directions count; a high
    one is right where its noise is small beside the level.
    """
    n_users, d = problem.n_units, problem.facts.n_features
    share = _POOLED_MEAN_SHARE if problem.is_pooled else _MEAN_SHARE
    change = sensitivity.row_sum(1.0, problem.unit.adjacency)
    noise = problem.currency.noise_scale("gaussian", change, share) * math.sqrt(d) / n_users
    return float(np.clip(_MEAN_NOISE / max(noise, 1e-9), 1.0, _LARGEST_MEAN_CLIP))


def _plan_features(problem: PersonalProblem) -> list[PlannedRelease]:
    """Plan the centre of rows and responses, and what whitens the rows."""
    d, lines = problem.facts.n_features, []
    rounds = center_rounds(problem) if problem.fit_intercept else ()
    for name in rounds:
        share = _CENTER_SHARE / len(rounds)
        for kind, size in (("", (d,)), (" of responses", ())):
            lines += _search(f"{name} norm{kind}", problem)
            lines.append(_line(f"{name}{kind}", share / 2, f"{name} norm{kind}", size))
    if problem.whiten:
        lines += _search("moment norm", problem)
        share = _POOLED_MOMENT_SHARE if problem.is_pooled else _MOMENT_SHARE
        lines.append(_line("second moment", share, "moment norm", (d, d), "symmetric_gaussian"))
    return lines


def center_rounds(problem: PersonalProblem) -> tuple[str, ...]:
    """Name the rounds in which a centre is found: a second one where its counts cost little.

    Noise follows the distance from the origin in the first one, and what is left of it in the next.
    """
    is_cheap = _count_share(problem) <= _CHEAP_COUNT
    return ("centre", "centre, closer") if is_cheap else ("centre",)


def _count_share(problem: PersonalProblem) -> float:
    """Compute the share of one count of a search."""
    return share_for_counts(
        1, problem.n_units, problem.mu, precision=_SEARCH_PRECISION, limits=_COUNT_LIMITS
    )


def _plan_gradient(problem: PersonalProblem, share: float) -> list[PlannedRelease]:
    """Plan a gradient and a count for each step."""
    n_iter, facts = problem.n_iter, problem.facts
    votes = share_for_counts(
        n_iter, problem.n_units, problem.mu, precision=_VOTE_PRECISION, limits=_VOTE_LIMITS
    )
    lines, follows = [], "head norm"
    for step, own in enumerate(_growing(share - votes, n_iter), start=1):
        size = (facts.n_features, problem.n_components)
        lines.append(_line(f"gradient {step}", own, follows, size))
        follows = f"clip vote {step}"
        lines.append(PlannedRelease(follows, "gaussian", votes / n_iter, sensitivity.count()))
    return lines


def _plan_altmin(problem: PersonalProblem, share: float) -> list[PlannedRelease]:
    """Plan the normal equations of each step, and the norms of what users add to them."""
    norms = [*_search("normal matrix norm", problem), *_search("normal product norm", problem)]
    n_unknowns, lines = problem.facts.n_features * problem.n_components, norms
    rest = share - math.fsum(line.share for line in norms)
    for step, own in enumerate(_growing(rest, problem.n_iter), start=1):
        lines = [
            *lines,
            _line(
                f"normal matrix {step}",
                own / 2,
                "normal matrix norm",
                (n_unknowns,) * 2,
                "symmetric_gaussian",
            ),
            _line(f"normal products {step}", own / 2, "normal product norm", (n_unknowns,)),
        ]
    return lines


def _growing(total: float, n_steps: int) -> list[float]:
    """Split a share over the steps, the later ones getting more."""
    growth = min(_GROWTH, _LARGEST_GROWTH ** (1 / n_steps))
    weights = growth ** np.arange(n_steps)
    shares: list[float] = (total * weights / weights.sum()).tolist()
    return shares


def _mean_products(problem: PersonalProblem, share: float) -> PlannedRelease:
    return _line("mean products", share, "product norm", (problem.facts.n_features,))


def _search(name: str, problem: PersonalProblem) -> list[PlannedRelease]:
    return planned_counts(name, SIZES, problem)


def _left(lines: list[PlannedRelease]) -> float:
    return 1 - math.fsum(line.share for line in lines)


def _line(
    name: str, share: float, follows: str, shape: tuple[int, ...], mechanism: str = "gaussian"
) -> PlannedRelease:
    return PlannedRelease(name, mechanism, share, follows=follows, shape=shape)
