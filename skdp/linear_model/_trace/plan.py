"""What a trace regression releases, and with which shares, from public facts."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from skdp.linear_model._descent import growing, plan_steps
from skdp.linear_model._medians import (
    ANY_SIZE,
    UP_TO_ONE,
    affordable_searches,
    n_counts,
    plan_medians,
)
from skdp.linear_model._trace.covariances import diagonal_reach, moment_bound
from skdp.linear_model._trace.problem import TraceProblem
from skdp.linear_model._trace.records import NO_CLIPPING
from skdp.linear_model._trace.sizes import N_POWERS
from skdp.linear_model._trace.standardization import StandardizationPlan, mean_bound
from skdp.linear_model._units_of_data import OTHER_UNITS_OF_X, OTHER_UNITS_OF_Y
from skdp.privacy import Release, sensitivity
from skdp.privacy.quantile import SCALE_GRID, search_steps
from skdp.privacy.release import Search
from skdp.privacy.shares import left_of, share_for_counts
from skdp.privacy.unmoved import planned_search

__all__ = [
    "START_SHARE",
    "plan_standardization",
    "plan_trace",
    "standardization_of",
]

# Wanted noise of a count, as a fraction of the records: of a search, each step of which is clear
# unless it is the last; and of the histogram of the responses, which is to show rare ones, the
# finer one if it costs no more than the spare share. benchmarks/house/constants.md has .01.
_PRECISION = 0.05
_BIN_PRECISION, _FINE_PRECISION = 0.01, 0.005
_SPARE_SHARE = 0.01
_LEAST_SHARE = 2e-3
_SHARE_LIMITS = _LEAST_SHARE, 0.1
# Where a count is off by more than that, as a fraction of the records, a search tells nothing; not
# studied.
_USELESS = 0.2
# The same for features: of a search, of a histogram, and of a mean in spreads;
# benchmarks/house/constants.md has `_SPREAD_PRECISION`.
_COUNT_PRECISION = 0.1
_LEAST_SPREAD_PRECISION, _SPREAD_PRECISION = 0.05, 0.02
_MEAN_PRECISION, _LEAST_MEAN_SHARE = 0.1, 2e-3
_LARGEST_FEATURE_SHARE = 0.03
# Largest eigenvalue that noise may give a covariance whose own eigenvalues are about 1;
# benchmarks/house/constants.md has the largest share.
_WANTED_EDGE = 0.3
_LEAST_WHITENING_SHARE, _LARGEST_WHITENING_SHARE = 5e-3, 0.05
#: Share of the budget that a start from data takes.
START_SHARE = 0.25  # not studied
_CORE_SHARE, _GAP_SHARE, _SUBSPACE_SHARE = 0.2, 0.1, 0.7  # not studied
# Standard deviation of a count of unclipped records, as a fraction of all; not studied.
_VOTE_PRECISION = 0.03
# Each step gets this many times the share of the one before: benchmarks/house/constants.md.
_GROWTH = 1.2
# Fractions of what is left for adassp; not studied.
_MOMENT_SHARE, _EIGENVALUE_SHARE = 0.5, 0.05
_SPREAD = "response spread"


def plan_trace(problem: TraceProblem) -> list[Any]:
    """Plan all releases in their order."""
    lines: list[Any] = [*_plan_center(problem), *_plan_transform(problem)]
    if problem.cost.is_private:
        lines.append(_plan_spread(problem))
    # What is spent is taken off what is left, to the last bit.
    if problem.solver != "adassp":
        return lines + _plan_descent(problem, left_of(lines))
    if not problem.protects_matrices:
        size = problem.facts.n_entries + problem.fit_intercept
        return [*lines, _line("products with responses", left_of(lines), _SPREAD, (size,))]
    if problem.row_norm is None and problem.cost.is_private:
        share = _share_of_counts(search_steps(len(SCALE_GRID)), problem)
        lines += planned_search("row norm", share, len(SCALE_GRID))
    return lines + _plan_moments(problem, left_of(lines))


def _share_of_counts(count: int, problem: TraceProblem, precision: float = _PRECISION) -> float:
    return share_for_counts(
        count, problem.facts.n_records, problem.cost.mu, precision=precision, limits=_SHARE_LIMITS
    )


def _plan_center(problem: TraceProblem) -> tuple[Search, ...]:
    """Plan the search for the median of the responses; none if noise would hide it."""
    if not problem.fit_intercept:
        return ()
    bound, n_records = problem.response_bound, problem.facts.n_records
    grid = ANY_SIZE if bound is None or math.isinf(bound) else bound * UP_TO_ONE
    largest = _LEAST_SHARE * (_PRECISION * n_records * problem.cost.mu) ** 2
    n_searches = affordable_searches(len(grid), 1, largest)
    count = n_counts(len(grid), n_searches)
    share = _share_of_counts(count, problem)
    noise = problem.cost.noise_std("gaussian", sensitivity.count(), share / count)
    if noise > _USELESS * n_records:
        return ()
    name, own = "response centre", share / count
    return plan_medians(problem.cost, name, own, grid, n_searches, remedy=OTHER_UNITS_OF_Y)


def _plan_spread(problem: TraceProblem) -> Release:
    least, fine = (
        _share_of_counts(2, problem, precision) for precision in (_BIN_PRECISION, _FINE_PRECISION)
    )
    share = max(least, min(fine, _SPARE_SHARE))
    return _plan_sizes(_SPREAD, share, 1, problem)


def _plan_sizes(name: str, share: float, n_columns: int, problem: TraceProblem) -> Release:
    change = sensitivity.histograms(n_columns, problem.unit.adjacency)
    return Release(name, "gaussian", share, change, shape=(n_columns, N_POWERS))


def _plan_transform(problem: TraceProblem) -> list[Release]:
    """Plan what is found of the scales of the matrices, and what whitens them."""
    if problem.covariance != "private" or not problem.protects_matrices:
        return []
    lines = _plan_scales(problem)
    if problem.solver == "adassp":
        return lines
    sides = (side for side in (0, 1) if problem.facts.matrix_shape[side] > 1)
    return lines + [_plan_whitening(side, problem) for side in sides]


def _plan_scales(problem: TraceProblem) -> list[Release]:
    facts, plan = problem.facts, standardization_of(problem)
    if plan is None:
        share = _share_of_counts(search_steps(len(SCALE_GRID)), problem)
        return planned_search("matrix norm", share, len(SCALE_GRID))
    lines, n_features = list[Release](), facts.n_entries
    if problem.fit_intercept:
        lines += plan_medians(
            problem.cost,
            "feature centres",
            plan.center_share / n_counts(len(ANY_SIZE), plan.n_searches),
            ANY_SIZE,
            plan.n_searches,
            n_columns=n_features,
            remedy=OTHER_UNITS_OF_X,
        )
    lines.append(_plan_sizes("feature spreads", plan.spread_share, n_features, problem))
    if plan.mean_share:
        change = sensitivity.row_sum(mean_bound(n_features), problem.unit.adjacency)
        shape = (n_features,)
        lines.append(Release("feature means", "gaussian", plan.mean_share, change, shape=shape))
    return lines


def standardization_of(problem: TraceProblem) -> StandardizationPlan | None:
    """Plan the scales of single features; None where all share one."""
    facts, mu = problem.facts, problem.cost.mu
    if not facts.is_vector:
        return None
    centered = problem.fit_intercept
    return plan_standardization(facts.n_entries, facts.n_records, mu, centered=centered)


def plan_standardization(
    n_features: int, n_records: int, mu: float, *, centered: bool
) -> StandardizationPlan | None:
    """Plan the standardization from public facts; None if its shares are too large.

    A record takes part in the counts of all features, so that their noise grows with the root of
    the number of features.
    """
    center_share, mean_share, n_searches = 0.0, 0.0, 0
    if centered:
        needed = (2 * mean_bound(n_features) / (_MEAN_PRECISION * n_records * mu)) ** 2
        mean_share = max(needed, _LEAST_MEAN_SHARE) if needed <= _SPARE_SHARE else 0.0
        largest = _SPARE_SHARE * (_COUNT_PRECISION * n_records * mu) ** 2
        n_searches = affordable_searches(len(ANY_SIZE), n_features, largest)
        count = n_counts(len(ANY_SIZE), n_searches) * n_features
        center_share = share_for_counts(
            count, n_records, mu, precision=_COUNT_PRECISION, limits=_SHARE_LIMITS
        )
    least, wanted = (
        share_for_counts(2 * n_features, n_records, mu, precision=precision, limits=_SHARE_LIMITS)
        for precision in (_LEAST_SPREAD_PRECISION, _SPREAD_PRECISION)
    )
    if max(center_share, least) > _LARGEST_FEATURE_SHARE:
        return None
    spread_share = min(wanted, _LARGEST_FEATURE_SHARE)
    return StandardizationPlan(center_share, spread_share, mean_share, n_searches)


def _plan_whitening(side: int, problem: TraceProblem) -> Release:
    """Plan the covariance of a side, whose noise is to have the wanted edge."""
    facts = problem.facts
    size, other = facts.matrix_shape[side], facts.matrix_shape[1 - side]
    is_sparse = facts.factors is not None and facts.factors[side]
    bound, adjacency = moment_bound(facts.n_entries), problem.unit.adjacency
    largest = sensitivity.second_moment(bound, adjacency, facts.rounding)
    reach = diagonal_reach(size) if is_sparse else math.sqrt(2 * size)
    edge = largest * reach / (facts.n_records * other)
    wanted = (edge / (problem.cost.mu * _WANTED_EDGE)) ** 2
    share = np.clip(wanted, _LEAST_WHITENING_SHARE, _LARGEST_WHITENING_SHARE)
    return Release(
        ("row", "column")[side] + (" variances" if is_sparse else " covariance"),
        "gaussian" if is_sparse else "symmetric_gaussian",
        float(share),
        sensitivity.second_moment(bound, adjacency),
        shape=(size,) if is_sparse else (size, size),
    )


def _plan_descent(problem: TraceProblem, share: float) -> list[Any]:
    """Plan a start, and a gradient and a count for each step."""
    lines = list[Any]()
    if problem.init == "spectral":
        lines, share = list(_plan_start(problem)), share - START_SHARE
    n_steps = problem.n_iter
    votes = _share_of_counts(n_steps, problem, _VOTE_PRECISION)
    size = problem.rank * sum(problem.facts.matrix_shape) + problem.fit_intercept
    shares = growing(share - votes, n_steps, _GROWTH)
    return [*lines, plan_steps(problem.cost, shares, votes, float, (size,), _SPREAD)]


def _plan_start(problem: TraceProblem) -> Iterator[Release]:
    """Plan a start from data, which may fail its test."""
    shape, rank = problem.facts.matrix_shape, problem.rank
    yield _line("start, gap", START_SHARE * _GAP_SHARE, _SPREAD)
    spaces = Release(
        "start, subspaces",
        "symmetric_gaussian",
        START_SHARE * _SUBSPACE_SHARE,
        follows="start, gap",
        shape=(sum(shape),) * 2,
    )
    core = _line("start, core", START_SHARE * _CORE_SHARE, _SPREAD, (rank**2,))
    for line in (spaces, core):
        yield replace(line, may_be_skipped=problem.cost.is_private)


def _line(name: str, share: float, follows: str, shape: tuple[int, ...] = ()) -> Release:
    return Release(name, "gaussian", share, follows=follows, shape=shape)


def _plan_moments(problem: TraceProblem, share: float) -> list[Release]:
    """Plan the second moment, its smallest eigenvalue, and the products with the responses."""
    norm: float | None = None
    if problem.row_norm is not None or not problem.cost.is_private:
        row_norm = math.inf if problem.row_norm is None else problem.row_norm
        norm = min(math.hypot(row_norm, problem.fit_intercept), NO_CLIPPING)
    size = problem.facts.n_entries + problem.fit_intercept
    moment = Release(
        "second moment",
        "symmetric_gaussian",
        share * _MOMENT_SHARE,
        None if norm is None else sensitivity.second_moment(norm, problem.unit.adjacency),
        follows="row norm",
        shape=(size, size),
    )
    smallest = Release(
        "smallest eigenvalue",
        "gaussian",
        share * _EIGENVALUE_SHARE,
        None if norm is None else sensitivity.smallest_eigenvalue(norm),
        follows="row norm",
    )
    rest = share * (1 - _MOMENT_SHARE - _EIGENVALUE_SHARE)
    return [moment, smallest, _line("products with responses", rest, _SPREAD, (size,))]
