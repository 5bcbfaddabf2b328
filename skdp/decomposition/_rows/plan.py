"""What a fit that protects rows releases, and with which shares, from public facts."""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from skdp.decomposition._problem import MEAN, RowsProblem, rank_of
from skdp.privacy import Plan, Release, sensitivity
from skdp.privacy.plan import OneOf, growing_shares, left_of
from skdp.privacy.quantile import SCALE_GRID
from skdp.privacy.release import Search

__all__ = [
    "ADAPTIVE_SHARES",
    "NORM_SHARE",
    "N_LEVELS",
    "PROBE_LEVELS",
    "ROW_NORM",
    "AdaptiveReleases",
    "CovarianceReleases",
    "PowerReleases",
    "RowReleases",
    "SolverReleases",
    "Way",
    "norm_quantile",
    "plan_norm",
    "plan_rows",
    "plan_solver",
    "warnings_for_rows",
]

_MEAN_NORM, ROW_NORM = "mean norm", "row norm"
# Of a guided fit: share of the count that opens it. That of the mean falls with the square root of
# its signal, within limits; that of both means before an iteration does so, too.
_POSITIVITY_SHARE = 0.005  # not studied
_GUIDE_FACTOR, _GUIDE_LIMITS = 0.2, (0.02, 0.05)  # not studied
_ITERATED_FACTOR, _ITERATED_LIMITS = 1.5, (0.07, 0.7)  # not studied
# Of its iteration: steps, columns beside those sought, and how many times the share of a step the
# next one gets; and from which signal on the latter.
_FEW_STEPS, _MANY_STEPS, _STRONG_SIGNAL = (4, 1, 3.0), (5, 3, 2.0), 200.0  # not studied
#: Share of the budget for the search of a norm.
NORM_SHARE = 0.03  # not studied
# Those of the mean, for centering and for variances; the solver takes the rest.
_CENTER_SHARE, _MEAN_SHARE = 0.15, 0.02  # not studied
# Of what the solver has. Of the power method: for the levels, and for the spectrum.
_LEVEL_SHARE, _SPECTRUM_SHARE = 0.05, 0.10  # not studied
# A step gets this many times the share of the one before.
_GROWTH = 3.0  # benchmarks/high_dimension/captured.md, "power, equal shares"
#: How many levels the power method chooses from.
N_LEVELS = 24  # not studied
#: Of the adaptive solver: for the first matrix, the probe, two steps, of which the second has the
#: better basis and so four times as much, and the spectrum.
ADAPTIVE_SHARES = (0.30, 0.02, 0.13, 0.52, 0.03)  # not studied
#: Clip levels to choose from, in units of the bound of the rows. Lower ones would count rows rather
#: than variance; the last clips nothing.
PROBE_LEVELS = (0.2, 0.4, 1.0)  # not studied
_NORM_QUANTILE, _LEAST_QUANTILE = 0.95, 0.5  # benchmarks/guided/guided.md, "Private bounds"
# From which signal on more than the median is sought, and by how much for e times as much.
_LEAST_SIGNAL, _QUANTILE_GROWTH = 50.0, 0.18  # benchmarks/guided/guided.md, "Private bounds"
# So many standard deviations a count of all rows stays above the quantile sought: one step of the
# search that goes wrong can end far away.
_COUNT_MARGIN = 4.0  # not studied


class CovarianceReleases(NamedTuple):
    """The matrix of second moments, as a whole."""

    second_moment: Release


class Refinement(NamedTuple):
    """Steps beside a matrix, and the variances along the final span."""

    steps: tuple[Release, ...]
    variances: Release


class AdaptiveReleases(NamedTuple):
    """A matrix, a probe, and what the probe decides between."""

    second_moment: Release
    clipped_squares: Release
    rest: OneOf  # more second moments, or a refinement


class PowerReleases(NamedTuple):
    """The steps of an iteration, and the spectrum."""

    steps: tuple[tuple[Release | None, Release], ...]  # clip level, none without noise; product
    projected_moment: Release


SolverReleases = CovarianceReleases | AdaptiveReleases | PowerReleases


class Way(NamedTuple):
    """What comes behind the bounds."""

    means: tuple[Release, ...]  # none, the column means, or those that guide: twice an iteration
    solver: SolverReleases


class RowReleases(NamedTuple):
    """What a fit of rows releases, in this order."""

    mean_norm: Search | None
    center: Release | None  # the mean that rows are centered by
    row_norm: Search | None
    positivity: Release | None  # how many rows are mostly positive: whether the mean may guide
    ways: OneOf  # the first one is not guided


def warnings_for_rows(problem: RowsProblem, plan: Plan) -> list[str]:
    """Doubt norms that are sought among too few rows."""
    n_rows = problem.shape[0]
    return [
        f"{n_rows} rows are too few to find {name} privately at this epsilon; pass "
        f"{name} as a public bound in the units of X."
        for name, part in plan.parts._asdict().items()
        if isinstance(part, Search) and _quantile(part, n_rows) < _LEAST_QUANTILE
    ]


def norm_quantile(search: Search, problem: RowsProblem) -> float:
    """Choose the quantile that is sought as a norm.

    That of the rows before centering is .95. The other one rises from the median, where noise is
    all, to .95 where there is hardly any, with the logarithm of the signal that the longest
    possible sum of rows has beside its noise. With few rows the noise of a count would blur a high
    one; below the median nothing is gained.
    """
    sought = _NORM_QUANTILE
    if search.name == ROW_NORM:
        signal = max(_signal(problem) / _LEAST_SIGNAL, 1.0)
        sought = _LEAST_QUANTILE + _QUANTILE_GROWTH * math.log(signal)
    return max(min(sought, _quantile(search, problem.shape[0])), _LEAST_QUANTILE)


def _quantile(search: Search, n_rows: int) -> float:
    return min(_NORM_QUANTILE, 1 - _COUNT_MARGIN * (search.noise_std or 0.0) / n_rows)


def _signal(problem: RowsProblem) -> float:
    """Compare the longest possible sum of rows with its noise, if all of mu were spent on it."""
    n_rows, n_features = problem.shape
    change = sensitivity.row_sum(1.0, problem.unit.adjacency)
    return n_rows * problem.cost.mu / (change * math.sqrt(n_features))


def plan_rows(problem: RowsProblem) -> RowReleases:
    """Plan all releases in their order, with all ways that a fit may take."""
    is_centered, positivity = isinstance(problem.center, str), None
    seeks_mean_norm = is_centered and problem.mean_norm is None
    if problem.is_guided:
        count = sensitivity.count
        positivity = problem.cost.release("positive rows", "gaussian", _POSITIVITY_SHARE, count, {})
    before = (
        plan_norm(problem, _MEAN_NORM) if seeks_mean_norm else None,
        _plan_mean(problem, MEAN, _CENTER_SHARE) if is_centered else None,
        plan_norm(problem) if problem.row_norm is None else None,
        positivity,
    )
    return RowReleases(*before, OneOf(tuple(_plan_ways(problem, left_of(before)))))


def _plan_ways(problem: RowsProblem, share: float) -> Iterator[Way]:
    """Plan what comes behind the bounds: the usual way, and those that the mean guides."""
    if not problem.releases_mean or problem.center is not None:
        yield Way((), plan_solver(problem, share))
        return
    mean = _plan_mean(problem, MEAN, _MEAN_SHARE)
    yield Way((mean,), plan_solver(problem, share - _MEAN_SHARE))
    if not problem.is_guided:
        return
    first, more = _guide_shares(problem)
    guide = _plan_mean(problem, "guiding mean 1", first)
    if problem.solver != "power":
        yield Way((guide,), plan_solver(problem, share - first))
    if problem.has_guided_power:
        again = _plan_mean(problem, "guiding mean 2", more)
        yield Way((guide, again), _plan_guided_power(problem, share - first - more))


def plan_norm(problem: RowsProblem, name: str = ROW_NORM) -> Search:
    """Plan the search of a bound."""
    remedy = f"Pass {name.replace(' ', '_')} as a public bound in the units of X."
    return problem.cost.search(name, NORM_SHARE, SCALE_GRID, remedy=remedy)


def plan_solver(problem: RowsProblem, share: float) -> SolverReleases:
    """Plan what the solver releases, if no mean guides it."""
    return _PLANS[problem.solver](problem, share)


def _guide_shares(problem: RowsProblem) -> tuple[float, float]:
    """Return the share of the guiding mean, and that of its repetition for an iteration.

    Both follow the signal that the longest possible sum of rows has beside its noise: the weaker
    it is, the more goes to the mean, which noise hides last.
    """
    signal = math.sqrt(_signal(problem))
    first = float(np.clip(_GUIDE_FACTOR / signal, *_GUIDE_LIMITS))
    whole = float(np.clip(_ITERATED_FACTOR / signal, *_ITERATED_LIMITS))
    return first, whole - first


def _plan_mean(problem: RowsProblem, name: str, share: float) -> Release:
    norm, follows = problem.mean_norm, _MEAN_NORM
    if norm is None and not isinstance(problem.center, str):
        norm, follows = problem.row_norm, ROW_NORM
    n_rows, n_features = problem.shape
    change = partial(_mean_change, n_rows=n_rows, adjacency=problem.unit.adjacency)
    known, shape = _known(problem, norm), (n_features,)
    return problem.cost.release(
        name, "gaussian", share, change, known, follows=follows, shape=shape
    )


def _known(problem: RowsProblem, norm: float | None) -> dict[str, float] | None:
    """Return what a plan knows of a bound of rows."""
    return None if norm is None else {"row_norm": norm, "rounding": problem.rounding}


def _mean_change(row_norm: float, rounding: float, *, n_rows: int, adjacency: str) -> float:
    return sensitivity.row_sum(row_norm, adjacency, rounding) / n_rows


def _plan_guided_power(problem: RowsProblem, share: float) -> PowerReleases:
    """Plan the steps beside the mean, which joins the basis in the end.

    Little noise leaves more directions to be found, which takes more steps and columns.
    """
    n_steps, n_more, growth = _FEW_STEPS if _signal(problem) < _STRONG_SIGNAL else _MANY_STEPS
    n_columns = min(rank_of(problem) + n_more, problem.shape[1] - 1)
    # With the mean, and what lies outside.
    return _plan_iteration(problem, share, (n_steps, n_columns, growth), n_columns + 2)


def _plan_moment(
    problem: RowsProblem,
    share: float,
    name: str,
    mechanism: str = "symmetric_gaussian",
    spectrum_of: tuple[int, ...] = (),
) -> Release:
    """Plan the second moment, or what is projected of it, of that shape."""
    follows, known = ROW_NORM, _known(problem, problem.row_norm)
    if problem.is_sparse and problem.center is not None:
        # They are centered in the products, whose rounding is that of the center.
        follows, known = MEAN if isinstance(problem.center, str) else "center", None
    of_bound = sensitivity.projected_spectrum if spectrum_of else sensitivity.second_moment
    change = partial(of_bound, adjacency=problem.unit.adjacency)
    shape = spectrum_of or (problem.shape[1],) * 2
    return problem.cost.release(name, mechanism, share, change, known, follows=follows, shape=shape)


def _plan_adaptive(problem: RowsProblem, share: float) -> AdaptiveReleases | CovarianceReleases:
    """Plan a matrix, a probe, and what the probe decides between."""
    if not problem.cost.is_private:
        return _plan_covariance(problem, share)
    first, probe, *steps, spectrum = (share * own for own in ADAPTIVE_SHARES)
    numbered = enumerate((first, *steps, spectrum), start=1)
    moment, *more = (_plan_moment(problem, own, f"second moment {n}") for n, own in numbered)
    n_levels, size = len(PROBE_LEVELS), problem.basis_size
    change = partial(
        sensitivity.clipped_squares, n_levels=n_levels, adjacency=problem.unit.adjacency
    )
    known = None if moment.sensitivity is None else {"row_norm": problem.row_norm}
    name, follows, shape = "clipped squares", moment.follows, (n_levels, size)
    squares = problem.cost.release(
        name, "gaussian", probe, change, known, follows=follows, shape=shape
    )
    refined = tuple(
        _plan_product(problem, own, f"step {n}", name, size) for n, own in enumerate(steps, start=1)
    )
    last, length = "projected variances", rank_of(problem) + 1
    variances = _plan_moment(problem, spectrum, last, "gaussian", (length,))
    return AdaptiveReleases(moment, squares, OneOf((tuple(more), Refinement(refined, variances))))


def _plan_product(
    problem: RowsProblem, share: float, name: str, follows: str, n_columns: int
) -> Release:
    """Plan the second moment times a basis, with clipped projections."""
    change = partial(sensitivity.clipped_projection, adjacency=problem.unit.adjacency)
    known = None
    if not problem.cost.is_private:
        known = {"row_norm": problem.row_norm, "level": math.inf}
    shape = problem.shape[1], n_columns
    return problem.cost.release(
        name, "gaussian", share, change, known, follows=follows, shape=shape
    )


def _plan_power(problem: RowsProblem, share: float) -> PowerReleases:
    n_steps, size = int(problem.n_iter), problem.basis_size
    return _plan_iteration(problem, share, (n_steps, size, _GROWTH), size + 1)


def _plan_iteration(
    problem: RowsProblem,
    share: float,
    iteration: tuple[int, int, float],
    size: int,
) -> PowerReleases:
    """Plan a clip level and a product for each step, and the spectrum, of that size."""
    n_steps, n_columns, growth = iteration
    shares = growing_shares(share * (1 - _LEVEL_SHARE - _SPECTRUM_SHARE), n_steps, growth)
    counts = partial(sensitivity.histogram, problem.unit.adjacency)
    steps = list[tuple[Release | None, Release]]()
    for step, own in enumerate(shares, start=1):
        level, follows = None, f"clip level {step}"
        if problem.cost.is_private:
            of_level, shape = share * _LEVEL_SHARE / n_steps, (N_LEVELS,)
            level = problem.cost.release(follows, "gaussian", of_level, counts, {}, shape=shape)
        product = _plan_product(problem, own, f"step {step}", follows, n_columns)
        steps.append((level, product))
    name, own = "projected second moment", share * _SPECTRUM_SHARE
    return PowerReleases(tuple(steps), _plan_moment(problem, own, name, spectrum_of=(size,) * 2))


def _plan_covariance(problem: RowsProblem, share: float) -> CovarianceReleases:
    return CovarianceReleases(_plan_moment(problem, share, "second moment"))


_PLANS: dict[str, Callable[[RowsProblem, float], SolverReleases]] = {
    "covariance": _plan_covariance,
    "adaptive": _plan_adaptive,
    "power": _plan_power,
}
