"""What a personal regression releases, and with which shares, from public facts."""

import math
from functools import partial
from typing import Any

import numpy as np

from skdp.linear_model._descent import Step, growing, plan_steps
from skdp.linear_model._medians import ANY_SIZE, plan_medians
from skdp.linear_model._personal.grids import PRIORS, RATIOS, RELATIVE_SIZES, SIZES, row_counts
from skdp.linear_model._personal.levels import CENTER_CERTAINTY, MEAN_CERTAINTY
from skdp.linear_model._personal.problem import PersonalProblem
from skdp.linear_model._units_of_data import OTHER_UNITS_OF_Y
from skdp.privacy import Release, sensitivity
from skdp.privacy.quantile import search_steps
from skdp.privacy.shares import left_of, share_for_counts
from skdp.privacy.unmoved import planned_search

__all__ = [
    "N_CLOSER",
    "center_rounds",
    "finds_levels",
    "finds_mean",
    "mean_clip",
    "plan_personal",
    "response_search",
]

# Not studied: benchmarks/personalization measures all together.
# Wanted noise of a count as a fraction of the users, limits of its share, and one that is cheap.
_SEARCH_PRECISION, _COUNT_LIMITS, _CHEAP_COUNT = 0.12, (6e-4, 8.5e-3), 1.5e-3
_VOTE_PRECISION, _VOTE_LIMITS = 0.05, (4e-3, 0.04)
_CENTER_SHARE, _RESPONSE_SHARE, _MEAN_SHARE = 0.01, 0.01, 0.02
# Noise of a mean, in units of the level that it is clipped to, beyond which it tells nothing.
_LARGEST_NOISE, _LARGEST_RESPONSE_NOISE = 0.8, 0.3  # not studied
#: How many searches close in on the median of the responses.
N_CLOSER = 2  # not studied
_MOMENT_SHARE, _PRODUCT_SHARE = 0.15, 0.26  # not studied
_PRIOR_PRECISION, _PRIOR_LIMITS = 0.1, (0.02, 0.12)  # not studied
# With one model for all: the share of the moment, and about what is left for the mean products.
_POOLED_MOMENT_SHARE, _POOLED_MEAN_SHARE = 0.4, 0.5  # not studied
# Noise of a mean that is wanted, in units of the level that its parts are clipped to.
_MEAN_NOISE, _LARGEST_MEAN_CLIP = 0.1, 8.0  # not studied
# The last steps start from the best point: each gets so many times the share of the one before.
_GROWTH = 1.5  # not studied


def plan_personal(problem: PersonalProblem) -> list[Any]:
    """Plan all releases in their order."""
    before = [*_plan_features(problem), *_search("product norm", problem)]
    if problem.is_pooled:
        return [*before, _mean_products(problem, left_of(before))]
    last = Release(
        "prior vote",
        "gaussian",
        share_for_counts(
            2, problem.n_units, problem.cost.mu, precision=_PRIOR_PRECISION, limits=_PRIOR_LIMITS
        ),
        sensitivity.histogram(problem.unit.adjacency),
        shape=(len(PRIORS),),
    )
    means = [_mean_products(problem, _MEAN_SHARE)] * finds_mean(problem)
    heads = _search("head norm", problem, len(RELATIVE_SIZES))
    left = left_of(before, heads, last, means)
    products = min(_PRODUCT_SHARE, left / 2) if problem.n_iter else left
    size = (problem.facts.n_features,) * 2
    start = _line("products", products, "product norm", size, "symmetric_gaussian")
    steps: Any = ()
    if problem.n_iter:
        plan_solver = {"gradient": _plan_gradient, "altmin": _plan_altmin}[problem.solver]
        steps = plan_solver(problem, left - products)
    return [*before, start, *means, *heads, steps, last]


def mean_clip(problem: PersonalProblem) -> float:
    """Choose how far the mean of the products is clipped beyond the level of their second moment.

    A low level costs a mean more than a second moment, of which only the directions count; a high
    one is right where its noise is small beside the level.
    """
    share = _POOLED_MEAN_SHARE if problem.is_pooled else _MEAN_SHARE
    noise = _noise_of_mean(problem, share) * math.sqrt(problem.facts.n_features)
    return float(np.clip(_MEAN_NOISE / max(noise, 1e-9), 1.0, _LARGEST_MEAN_CLIP))


def center_rounds(problem: PersonalProblem) -> tuple[str, ...]:
    """Name the rounds in which the centre of the rows is found, none where noise would hide it.

    Noise follows the distance from the origin in the first one, and what is left of it in the next,
    which there is where counts cost little.
    """
    rounds = ("row centre", "row centre, closer")[: 1 + _counts_are_cheap(problem)]
    size, share = problem.facts.n_features, _CENTER_SHARE / len(rounds)
    is_hidden = (
        _noise_of_mean(problem, share) * (math.sqrt(size) + CENTER_CERTAINTY) > _LARGEST_NOISE
    )
    return rounds if problem.fit_intercept and not is_hidden else ()


def response_search(problem: PersonalProblem) -> str:
    """Choose how the centre of the responses is found: "median", "mean" or, in noise, not at all.

    A median is exact whatever the units, and takes more counts.
    """
    if not problem.fit_intercept:
        return ""
    if _counts_are_cheap(problem):
        return "median"
    return "mean" if _noise_of_mean(problem, _RESPONSE_SHARE) <= _LARGEST_RESPONSE_NOISE else ""


def finds_levels(problem: PersonalProblem) -> bool:
    """Whether it is found how users' own levels differ."""
    return problem.fit_intercept and not problem.is_pooled and problem.max_rows_per_user != 1


def finds_mean(problem: PersonalProblem) -> bool:
    """Whether the mean of the products is released: not where noise would hide it."""
    noise = _noise_of_mean(problem, _MEAN_SHARE) * (
        math.sqrt(problem.n_components) + MEAN_CERTAINTY
    )
    return problem.mean_head and noise <= _LARGEST_NOISE


def _noise_of_mean(problem: PersonalProblem, share: float) -> float:
    """Compute the noise of a mean over users, in units of the level that they are clipped to."""
    change = sensitivity.row_sum(1.0, problem.unit.adjacency)
    return problem.cost.noise_std("gaussian", change, share) / problem.n_units


def _counts_are_cheap(problem: PersonalProblem) -> bool:
    return _count_share(problem) <= _CHEAP_COUNT


def _plan_features(problem: PersonalProblem) -> list[Release]:
    """Plan the centre of rows and responses, and what whitens the rows."""
    d = problem.facts.n_features
    lines = _plan_responses(problem)
    rounds = center_rounds(problem)
    for name in rounds:
        lines += _search(f"{name} norm", problem)
        lines.append(_line(name, _CENTER_SHARE / len(rounds), f"{name} norm", (d,)))
    if problem.decorrelate:
        lines += _search("moment norm", problem)
        share = _POOLED_MOMENT_SHARE if problem.is_pooled else _MOMENT_SHARE
        lines.append(_line("second moment", share, "moment norm", (d, d), "symmetric_gaussian"))
    return lines


def _plan_responses(problem: PersonalProblem) -> list[Release]:
    """Plan the centre of the responses, numbers of rows, and how far users' levels differ."""
    kind, lines = response_search(problem), list[Release]()
    name = "response centre"
    if kind == "median":
        lines += plan_medians(
            problem.cost, name, _count_share(problem), ANY_SIZE, N_CLOSER, remedy=OTHER_UNITS_OF_Y
        )
    elif kind == "mean":
        lines += _search(f"{name} norm", problem)
        lines.append(_line(name, _RESPONSE_SHARE, f"{name} norm", ()))
    if not problem.is_pooled:
        lines += _search("row count", problem, len(row_counts(problem.max_rows_per_user)))
    if finds_levels(problem):
        lines += _search("user level", problem)
        lines += _search("response spread", problem, len(RATIOS))
    return lines


def _count_share(problem: PersonalProblem) -> float:
    """Compute the share of one count of a search."""
    return share_for_counts(
        1, problem.n_units, problem.cost.mu, precision=_SEARCH_PRECISION, limits=_COUNT_LIMITS
    )


def _plan_gradient(problem: PersonalProblem, share: float) -> tuple[Step, ...]:
    """Plan a gradient and a count for each step."""
    n_iter, shape = problem.n_iter, (problem.facts.n_features, problem.n_components)
    votes = share_for_counts(
        n_iter, problem.n_units, problem.cost.mu, precision=_VOTE_PRECISION, limits=_VOTE_LIMITS
    )
    shares = growing(share - votes, n_iter, _GROWTH)
    change = partial(sensitivity.row_sum, adjacency=problem.unit.adjacency)
    return plan_steps(problem.cost, shares, votes, change, shape, "head norm")


def _plan_altmin(problem: PersonalProblem, share: float) -> list[Release]:
    """Plan the normal equations of each step, and the norms of what users add to them."""
    lines = [*_search("normal matrix norm", problem), *_search("normal product norm", problem)]
    n_unknowns = problem.facts.n_features * problem.n_components
    rest = share - math.fsum(line.share for line in lines)
    for step, own in enumerate(growing(rest, problem.n_iter, _GROWTH), start=1):
        name, size = f"normal matrix {step}", (n_unknowns,) * 2
        lines.append(_line(name, own / 2, "normal matrix norm", size, "symmetric_gaussian"))
        name = f"normal products {step}"
        lines.append(_line(name, own / 2, "normal product norm", (n_unknowns,)))
    return lines


def _mean_products(problem: PersonalProblem, share: float) -> Release:
    return _line("mean products", share, "product norm", (problem.facts.n_features,))


def _search(name: str, problem: PersonalProblem, n_points: int = len(SIZES)) -> list[Release]:
    """Plan a search over a grid, for a share that follows the number of users."""
    n_steps = search_steps(n_points)
    return planned_search(name, n_steps * _count_share(problem), n_points) if n_steps else []


def _line(
    name: str, share: float, follows: str, shape: tuple[int, ...], mechanism: str = "gaussian"
) -> Release:
    return Release(name, mechanism, share, follows=follows, shape=shape)
