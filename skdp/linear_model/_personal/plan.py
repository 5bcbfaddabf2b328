"""The releases of a personal regression, and their shares, from public facts."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from skdp._scales import OTHER_UNITS_OF_X
from skdp.linear_model._descent import DescentStep, plan_descent, shares_of_steps
from skdp.linear_model._medians import ANY_SIZE, RESPONSE_CENTER, plan_median
from skdp.linear_model._personal import grids
from skdp.linear_model._personal.levels import CENTER_CERTAINTY, MEAN_CERTAINTY
from skdp.linear_model._personal.problem import PersonalProblem
from skdp.linear_model._units_of_data import OTHER_UNITS, OTHER_UNITS_OF_Y
from skdp.privacy import Release, sensitivity
from skdp.privacy.plan import left_of, share_for_counts
from skdp.privacy.releases import Search, search_steps

# Not studied one by one: benchmarks/personalization measures all together.
# Wanted noise of a count as a fraction of the users, limits of its share, and a cheap share.
_SEARCH_PRECISION, _COUNT_LIMITS, _CHEAP_COUNT = 0.12, (6e-4, 8.5e-3), 1.5e-3
_VOTE_PRECISION, _VOTE_LIMITS = 0.05, (4e-3, 0.04)
_CENTER_SHARE, _RESPONSE_SHARE, _MEAN_SHARE = 0.01, 0.01, 0.02
# With more noise than this, in units of the clip level, a mean is of no use: of rows, of responses.
_LARGEST_NOISE, _LARGEST_RESPONSE_NOISE = 0.8, 0.3  # not studied
# Number of refinements of the median of the responses.
_N_REFINEMENTS = 2  # not studied
_MOMENT_SHARE, _PRODUCT_SHARE = 0.15, 0.26  # not studied
_PRIOR_PRECISION, _PRIOR_LIMITS = 0.1, (0.02, 0.12)  # not studied
# With one model for all: the share of the moment, and about that of the mean products.
_POOLED_MOMENT_SHARE, _POOLED_MEAN_SHARE = 0.4, 0.5  # not studied
# Wanted noise of a mean, in units of the level that users are clipped to.
_MEAN_NOISE, _LARGEST_MEAN_CLIP = 0.1, 8.0  # not studied
_GROWTH = 1.5  # not studied


class ClippedSum(NamedTuple):
    """A clip level, and the sum of vectors or matrices of users, clipped to it."""

    norm: Search
    total: Release


class AltminReleases(NamedTuple):
    """In each step a matrix and a right-hand side of normal equations, at the same clip levels."""

    matrix_norm: Search
    product_norm: Search
    steps: tuple[tuple[Release, Release], ...]


class MeanReleases(NamedTuple):
    """One model for all, from the mean of users' products of rows and responses."""

    product_norm: Search
    mean_products: Release


class HeadReleases(NamedTuple):
    """A representation, and the prior of the heads on it."""

    product_norm: Search
    products: Release
    mean_products: Release | None  # None if noise would hide it
    head_norm: Search
    steps: tuple[DescentStep, ...] | AltminReleases
    prior_vote: Release


class PersonalReleases(NamedTuple):
    """Releases of a personal regression, in this order."""

    response_center: tuple[Search, ...] | ClippedSum  # a median; a mean; () if noise hides both
    row_count: Search | None
    user_levels: tuple[Search, ...]  # of means of responses, and of responses; () without
    row_center: tuple[ClippedSum, ...]  # each corrects the one before; () if noise hides it
    user_moment: ClippedSum | None
    model: MeanReleases | HeadReleases


def plan_personal(problem: PersonalProblem) -> PersonalReleases:
    """Plan all releases in their order."""
    before = (
        _plan_response_center(problem),
        *_plan_levels(problem),
        _plan_row_center(problem),
        _plan_user_moment(problem),
    )
    remedy = OTHER_UNITS_OF_Y if problem.decorrelate else OTHER_UNITS
    norm = _search(problem, "product norm", remedy=remedy)
    if problem.is_pooled:
        mean = _mean_products(problem, left_of(before, norm), norm)
        return PersonalReleases(*before, MeanReleases(norm, mean))
    return PersonalReleases(*before, _plan_heads(problem, before, norm))


def mean_clip(problem: PersonalProblem) -> float:
    """Return the clip level of the mean products, in units of that of their second moment.

    A low level harms a mean more than a second moment, of which only the directions matter. A high
    level is right if the noise of the mean is small beside it.
    """
    share = _POOLED_MEAN_SHARE if problem.is_pooled else _MEAN_SHARE
    noise_std = _noise_of_mean(problem, share) * math.sqrt(problem.n_features)
    return float(np.clip(_MEAN_NOISE / max(noise_std, 1e-9), 1.0, _LARGEST_MEAN_CLIP))


def _plan_response_center(problem: PersonalProblem) -> tuple[Search, ...] | ClippedSum:
    """Plan a median, which works in any units but takes more counts, or else a mean."""
    if not problem.fit_intercept:
        return ()
    if _counts_are_cheap(problem):
        return plan_median(problem.cost, _count_share(problem), ANY_SIZE, _N_REFINEMENTS)
    if _noise_of_mean(problem, _RESPONSE_SHARE) > _LARGEST_RESPONSE_NOISE:
        return ()
    norm = _level(problem, f"{RESPONSE_CENTER} norm", OTHER_UNITS_OF_Y)
    return ClippedSum(
        norm, _sum(problem, RESPONSE_CENTER, _RESPONSE_SHARE, norm, sensitivity.row_sum)
    )


def _plan_levels(problem: PersonalProblem) -> tuple[Search | None, tuple[Search, ...]]:
    """Plan how many rows users have and, with intercepts, how far the levels of users differ."""
    if problem.is_pooled or problem.max_rows_per_user == 1:
        return None, ()
    count = _search(problem, "row count", grids.row_counts(problem.max_rows_per_user))
    if not problem.fit_intercept:
        return count, ()
    level = _search(problem, "user level", remedy=OTHER_UNITS_OF_Y)
    return count, (level, _search(problem, "response ratio", grids.RATIOS))


def _plan_row_center(problem: PersonalProblem) -> tuple[ClippedSum, ...]:
    """Plan the rounds that release the center of the rows.

    The noise of the first round is proportional to the distance of the rows from 0. If counts are
    cheap, there is a second round, whose noise is proportional to the error of the first.
    """
    n_rounds = 1 + _counts_are_cheap(problem)
    size, share = problem.n_features, _CENTER_SHARE / n_rounds
    noise_std = _noise_of_mean(problem, share) * (math.sqrt(size) + CENTER_CERTAINTY)
    if not problem.fit_intercept or noise_std > _LARGEST_NOISE:
        return ()
    rounds = list[ClippedSum]()
    for number in range(1, 1 + n_rounds):
        norm = _level(problem, f"row center norm {number}", OTHER_UNITS_OF_X)
        total = _sum(problem, f"row center {number}", share, norm, sensitivity.row_sum, size)
        rounds.append(ClippedSum(norm, total))
    return tuple(rounds)


def _plan_user_moment(problem: PersonalProblem) -> ClippedSum | None:
    """Plan the second moment that decorrelates features, if wanted."""
    if not problem.decorrelate:
        return None
    norm = _level(problem, "user moment norm", OTHER_UNITS_OF_X, grids.SQUARES)
    share = _POOLED_MOMENT_SHARE if problem.is_pooled else _MOMENT_SHARE
    shape = (problem.n_features,) * 2
    total = _sum(problem, "user moment", share, norm, sensitivity.user_moment, *shape)
    return ClippedSum(norm, total)


def _plan_heads(problem: PersonalProblem, before: Any, norm: Search) -> HeadReleases:
    """Plan a start and steps, which share the rest of the budget, and a vote."""
    mean = _mean_products(problem, _MEAN_SHARE, norm) if _shows_mean(problem) else None
    head_norm, vote = _search(problem, "head norm", grids.RELATIVE_SIZES), _plan_vote(problem)
    left = left_of(before, norm, mean, head_norm, vote)
    share = min(_PRODUCT_SHARE, left / 2) if problem.n_iter else left
    shape = (problem.n_features,) * 2
    products = _sum(problem, "products", share, norm, sensitivity.second_moment, *shape)
    steps = _plan_steps(problem, left - share, head_norm)
    return HeadReleases(norm, products, mean, head_norm, steps, vote)


def _shows_mean(problem: PersonalProblem) -> bool:
    """Tell whether the mean of the products can stand out from its noise."""
    certainty = math.sqrt(problem.n_components) + MEAN_CERTAINTY
    return problem.mean_head and (
        _noise_of_mean(problem, _MEAN_SHARE) * certainty <= _LARGEST_NOISE
    )


def _plan_vote(problem: PersonalProblem) -> Release:
    """Plan the counts of users whom each prior predicts best."""
    share = _share_of_counts(2, problem, _PRIOR_PRECISION, _PRIOR_LIMITS)
    change, shape = partial(sensitivity.histogram, problem.unit.adjacency), (len(grids.PRIORS),)
    return problem.cost.release("prior vote", "gaussian", share, change, {}, shape=shape)


def _plan_steps(
    problem: PersonalProblem, share: float, norm: Search
) -> tuple[DescentStep, ...] | AltminReleases:
    """Plan the steps: a gradient and a count each, or normal equations."""
    if not problem.n_iter:
        return ()
    if problem.solver == "altmin":
        return _plan_altmin(problem, share)
    votes = _share_of_counts(problem.n_iter, problem, _VOTE_PRECISION, _VOTE_LIMITS)
    return plan_descent(
        problem.cost,
        shares_of_steps(share - votes, problem.n_iter, _GROWTH),
        votes,
        partial(sensitivity.row_sum, adjacency=problem.unit.adjacency),
        follows=norm.name,
        shape=(problem.n_features, problem.n_components),
    )


def _plan_altmin(problem: PersonalProblem, share: float) -> AltminReleases:
    """Plan the normal equations of each step, and the clip levels of users' terms."""
    matrix_norm = _level(problem, "normal matrix norm", OTHER_UNITS_OF_Y, grids.SQUARES)
    product_norm = _level(problem, "normal product norm", OTHER_UNITS_OF_Y, grids.SQUARES)
    size = problem.n_features * problem.n_components
    rest, steps = left_of(matrix_norm, product_norm, total=share), list[tuple[Release, Release]]()
    for step, both in enumerate(shares_of_steps(rest, problem.n_iter, _GROWTH), start=1):
        of_matrix = f"normal matrix {step}", both / 2, matrix_norm, sensitivity.user_moment
        of_sides = f"normal products {step}", both / 2, product_norm, sensitivity.row_sum
        steps.append((_sum(problem, *of_matrix, size, size), _sum(problem, *of_sides, size)))
    return AltminReleases(matrix_norm, product_norm, tuple(steps))


def _mean_products(problem: PersonalProblem, share: float, norm: Search) -> Release:
    size = problem.n_features
    return _sum(problem, "mean products", share, norm, sensitivity.row_sum, size)


def _noise_of_mean(problem: PersonalProblem, share: float) -> float:
    """Compute the noise std of a mean over users, in units of the clip level."""
    change = sensitivity.row_sum(1.0, problem.unit.adjacency)
    return problem.cost.noise_std("gaussian", change, share) / problem.n_units


def _share_of_counts(
    count: int, problem: PersonalProblem, precision: float, limits: tuple[float, float]
) -> float:
    n_units, mu = problem.n_units, problem.cost.mu
    return share_for_counts(count, n_units, mu, precision=precision, limits=limits)


def _count_share(problem: PersonalProblem) -> float:
    """Compute the share of one count of a search."""
    return _share_of_counts(1, problem, _SEARCH_PRECISION, _COUNT_LIMITS)


def _counts_are_cheap(problem: PersonalProblem) -> bool:
    return _count_share(problem) <= _CHEAP_COUNT


def _search(
    problem: PersonalProblem, name: str, grid: np.ndarray = grids.SIZES, remedy: str | None = None
) -> Search:
    """Plan a search over a grid; its share follows from the number of users."""
    share = search_steps(len(grid)) * _count_share(problem)
    return problem.cost.search(name, share, grid, remedy=remedy)


def _level(problem: PersonalProblem, name: str, remedy: str, grid: Any = grids.SIZES) -> Search:
    """Plan the search of a clip level; without noise nothing is clipped, and no warning needed."""
    return _search(problem, name, grid, remedy if problem.cost.is_private else None)


def _sum(
    problem: PersonalProblem,
    name: str,
    share: float,
    norm: Search,
    change: Callable[..., float],
    *shape: int,
) -> Release:
    """Plan a sum over users of vectors or symmetric matrices, clipped to a norm."""
    change = partial(change, adjacency=problem.unit.adjacency)
    mechanism = "symmetric_gaussian" if len(shape) == 2 else "gaussian"
    return problem.cost.release(name, mechanism, share, change, follows=norm.name, shape=shape)
