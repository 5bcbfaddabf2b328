"""What a fit that protects rows releases, and with which shares, from public facts."""

import math
from collections.abc import Callable
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np

from skdp._estimator import check_finite_bound
from skdp.decomposition._problem import DecompositionProblem, check_solver, rank_of
from skdp.linalg.norms import row_norms
from skdp.privacy import Plan, Release, sensitivity
from skdp.privacy.plan import OneOf
from skdp.privacy.quantile import SCALE_GRID
from skdp.privacy.unmoved import planned_search

__all__ = [
    "ADAPTIVE_SHARES",
    "GATE",
    "GUIDES",
    "N_LEVELS",
    "PROBE_LEVELS",
    "doubts_of_rows",
    "guided_iteration",
    "norm_quantile",
    "plan_rows",
    "plan_unguided",
    "settle_rows",
]

# Where rows may be spread over many more dimensions than matter, and eigenvectors cost little.
_ADAPTIVE_FEATURES = (400, 1000)  # benchmarks/high_dimension/captured.md, "skdp, adaptive"
# Beyond, clipped projections lose less to noise than the d x d matrix does, and cost less; less
# often so where a row is exchanged, as that moves a step twice as far.
_LARGEST_MATRIX = {"zero_out": 1000, "replace": 2000}  # not studied
# The square of so much longer a centre leaves no digit for that of a sparse row beside it.
_LARGEST_RATIO = 1e8  # not tuned
#: Of a guided fit: the count that opens it, and the means.
GATE, GUIDES = "positive rows", ("guiding mean", "guiding mean again")
# Share of the count. That of the mean falls with the square root of its signal, within limits; that
# of both means before an iteration does so, too.
_GATE_SHARE = 0.005  # not studied
_GUIDE_FACTOR, _GUIDE_LIMITS = 0.2, (0.02, 0.05)  # not studied
_ITERATED_FACTOR, _ITERATED_LIMITS = 1.5, (0.07, 0.7)  # not studied
# Of its iteration: steps, columns beside those sought, and how many times the share of a step the
# next one gets; and from which signal on the latter.
_FEW_STEPS, _MANY_STEPS, _STRONG_SIGNAL = (4, 1, 3.0), (5, 3, 2.0), 200.0  # not studied
_FEWEST_GUIDED_FEATURES, _FEWEST_ITERATED_FEATURES = 3, 400  # not studied
# Share of the budget for the search of a norm.
_NORM_SHARE = 0.03  # not studied
# Those of the mean, for centring and for variances; the solver takes the rest.
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


def settle_rows(problem: DecompositionProblem) -> DecompositionProblem:
    """Refuse what contradicts itself, and replace what is "auto", from public facts only."""
    if problem.solver != "auto" or problem.cost.is_pure:
        check_solver(problem)
    _check_bounds(problem)
    if not problem.cost.is_private:
        # Nothing is sought, and what is not given bounds nothing.
        row_norm, mean_norm = problem.row_norm, problem.mean_norm
        is_centered = isinstance(problem.center, str)
        problem = replace(
            problem,
            row_norm=math.inf if row_norm is None else row_norm,
            mean_norm=math.inf if mean_norm is None and is_centered else mean_norm,
        )
    n_rows, n_features = problem.shape
    n_components, solver = problem.n_components, problem.solver
    if not isinstance(n_components, Integral):
        _check_whole_spectrum(problem)
        return replace(problem, solver="covariance")
    name = "min(n_samples, n_features)" if problem.is_pca else "n_features"
    most = min(n_rows, n_features) if problem.is_pca else n_features
    if n_components > most:
        raise ValueError(
            f"n_components={n_components} must be at most {name}={most}, got n_samples={n_rows} "
            f"and n_features={n_features}."
        )
    if solver == "auto":
        fewest, largest = _ADAPTIVE_FEATURES
        solver = "adaptive" if fewest <= n_features <= largest else "covariance"
        if n_features > _LARGEST_MATRIX[problem.unit.adjacency]:
            solver = "power"
    is_guided, iterates = _guidance(problem, solver)
    extra = n_components if problem.n_oversamples == "auto" else int(problem.n_oversamples)
    return replace(
        problem,
        solver=solver,
        basis_size=min(int(n_components) + int(extra), n_features),
        n_iter=problem.support.steps[solver] if problem.n_iter == "auto" else problem.n_iter,
        is_guided=is_guided,
        has_guided_power=iterates,
    )


def _guidance(problem: DecompositionProblem, solver: str) -> tuple[bool, bool]:
    """Tell whether the mean may guide a fit, and an iteration of it."""
    n_features = problem.shape[1]
    is_guided = problem.cost.is_private and problem.releases_mean and problem.center is None
    is_guided = is_guided and n_features >= _FEWEST_GUIDED_FEATURES
    is_usual = problem.n_iter == problem.n_oversamples == "auto"
    if not is_guided or (solver == "power" and not is_usual):
        return False, False
    may_iterate = problem.solver == "auto" and n_features >= _FEWEST_ITERATED_FEATURES
    return True, is_usual and (may_iterate or solver == "power")


def _check_bounds(problem: DecompositionProblem) -> None:
    """Refuse bounds that do not act, or that are none."""
    if problem.coherence_bound is not None:
        raise ValueError(
            f"coherence_bound={problem.coherence_bound:g} is for iterations whose noise follows "
            f"the released bases, got {problem.given_unit}: pass coherence_bound=None."
        )
    check_finite_bound("row_norm", problem.row_norm, problem.cost)
    check_finite_bound("mean_norm", problem.mean_norm, problem.cost)
    if problem.mean_norm is not None and not problem.releases_mean:
        raise ValueError(
            f"mean_norm={problem.mean_norm:g} bounds rows for their private mean, and none is "
            "released: pass mean_norm=None, or center='private'."
        )
    if problem.is_sparse and problem.center is not None:
        _check_sparse_center(problem)


def _check_sparse_center(problem: DecompositionProblem) -> None:
    """Refuse a centre so long beside sparse rows that rounding may leave nothing of them.

    They are centred in their products, whose terms are as long as the centre.
    """
    name, norm = "mean_norm", problem.mean_norm
    if isinstance(problem.center, np.ndarray):
        name, norm = "center", float(row_norms(problem.center[np.newaxis])[0])
    if problem.row_norm is None or norm is None:
        return
    if math.isfinite(norm) and norm > _LARGEST_RATIO * problem.row_norm:
        raise ValueError(
            f"row_norm={problem.row_norm} is too small beside the norm {norm:.3g} of {name}: "
            "sparse rows would be lost in rounding when they are centred. Pass a "
            f"{name} of at most {_LARGEST_RATIO:.0e} times row_norm, a dense X, or center=False."
        )


def _check_whole_spectrum(problem: DecompositionProblem) -> None:
    """Refuse to choose the number of components where the spectrum does not tell it."""
    n_components, (n_rows, n_features) = problem.n_components, problem.shape
    if problem.solver not in ("auto", "covariance"):
        raise ValueError(
            f"n_components={n_components!r} needs the whole spectrum; pass an int, or "
            "solver='covariance'."
        )
    if isinstance(n_components, str) and n_rows < n_features:
        raise ValueError(
            "n_components='mle' is only supported if n_samples >= n_features, got "
            f"{n_rows} < {n_features}."
        )


def doubts_of_rows(problem: DecompositionProblem, plan: Plan) -> list[str]:
    """Doubt norms that are sought among too few rows."""
    n_rows = problem.shape[0]
    return [
        f"{n_rows} rows are too few to find {name} privately at this epsilon; pass {name} as a "
        "public bound in the units of X."
        for name in ("mean_norm", "row_norm")
        for line in plan.releases
        if line.name == f"{name}, count 1" and _quantile(line, n_rows) < _LEAST_QUANTILE
    ]


def norm_quantile(name: str, plan: Plan, shape: tuple[int, int]) -> float:
    """Choose the quantile that is sought as a norm.

    That of the rows before centring is .95. The other one rises from the median, where noise is
    all, to .95 where there is hardly any, with the logarithm of the signal that the longest
    possible sum of rows has beside its noise. With few rows the noise of a count would blur a high
    one; below the median nothing is gained.
    """
    (line,) = (line for line in plan.releases if line.name == f"{name}, count 1")
    sought = _NORM_QUANTILE
    if name == "row_norm":
        signal = signal_of(shape, plan.mu, plan.adjacency)
        sought = _LEAST_QUANTILE + _QUANTILE_GROWTH * math.log(max(signal / _LEAST_SIGNAL, 1.0))
    return max(min(sought, _quantile(line, shape[0])), _LEAST_QUANTILE)


def signal_of(shape: tuple[int, int], mu: float, adjacency: str) -> float:
    """Compare the longest possible sum of rows with its noise, if all of mu were spent on it."""
    n_rows, n_features = shape
    return n_rows * mu / (sensitivity.row_sum(1.0, adjacency) * math.sqrt(n_features))


def _quantile(count: Release, n_rows: int) -> float:
    return min(_NORM_QUANTILE, 1 - _COUNT_MARGIN * (count.noise_scale or 0.0) / n_rows)


def plan_rows(problem: DecompositionProblem) -> list[Any]:
    """Plan all releases in their order, with all ways that a fit may take."""
    return _plan_guided(problem) if problem.is_guided else plan_unguided(problem)


def plan_unguided(problem: DecompositionProblem) -> list[Any]:
    """Plan all releases in their order, of a fit that no mean guides."""
    is_centered = isinstance(problem.center, str)
    shares = {
        "mean_norm": _NORM_SHARE * (is_centered and problem.mean_norm is None),
        "mean": _CENTER_SHARE if is_centered else _MEAN_SHARE * problem.releases_mean,
        "row_norm": _NORM_SHARE * (problem.row_norm is None),
    }
    n_points = len(SCALE_GRID)
    lines: dict[str, list[Release]] = {
        "mean_norm": planned_search("mean_norm", shares["mean_norm"], n_points),
        "mean": [_plan_mean(problem, "mean", shares["mean"])],
        "row_norm": planned_search("row_norm", shares["row_norm"], n_points),
    }
    order = ("mean_norm", "mean", "row_norm") if is_centered else ("row_norm", "mean")
    before = [line for name in order if shares[name] for line in lines[name]]
    return before + _PLANS[problem.solver](problem, 1.0 - math.fsum(shares.values()))


def _plan_guided(problem: DecompositionProblem) -> list[Any]:
    """Plan a fit whose mean may guide it, with all ways that it may take."""
    norm_share = _NORM_SHARE * (problem.row_norm is None)
    search = planned_search("row_norm", norm_share, len(SCALE_GRID)) if norm_share else []
    gate = Release(GATE, "gaussian", _GATE_SHARE, sensitivity.count())
    before, left = [*search, gate], 1.0 - norm_share - _GATE_SHARE
    mean = _plan_mean(problem, "mean", _MEAN_SHARE)
    ways = [[mean, *_PLANS[problem.solver](problem, left - _MEAN_SHARE)]]
    first, more = _guide_shares(problem)
    guide, again = (
        _plan_mean(problem, name, share) for name, share in zip(GUIDES, (first, more), strict=True)
    )
    if problem.solver != "power":
        ways.append([guide, *_PLANS[problem.solver](problem, left - first)])
    if problem.has_guided_power:
        ways.append([guide, again, *_plan_guided_power(problem, left - first - more)])
    return [*before, OneOf(tuple(ways))]


def _guide_shares(problem: DecompositionProblem) -> tuple[float, float]:
    """Return the share of the guiding mean, and that of its repetition for an iteration.

    Both follow the signal that the longest possible sum of rows has beside its noise: the weaker
    it is, the more goes to the mean, which noise hides last.
    """
    signal = math.sqrt(_signal(problem))
    first = float(np.clip(_GUIDE_FACTOR / signal, *_GUIDE_LIMITS))
    whole = float(np.clip(_ITERATED_FACTOR / signal, *_ITERATED_LIMITS))
    return first, whole - first


def _signal(problem: DecompositionProblem) -> float:
    return signal_of(problem.shape, problem.cost.mu, problem.unit.adjacency)


def _plan_mean(problem: DecompositionProblem, name: str, share: float) -> Release:
    norm, follows = problem.mean_norm, "mean_norm"
    if norm is None and not isinstance(problem.center, str):
        norm, follows = problem.row_norm, "row_norm"
    change = None
    if norm is not None:
        adjacency, rounding = problem.unit.adjacency, problem.rounding
        change = sensitivity.row_sum(norm, adjacency, rounding) / problem.shape[0]
    return Release(name, "gaussian", share, change, None, follows, (problem.shape[1],))


def _plan_guided_power(problem: DecompositionProblem, share: float) -> list[Release]:
    """Plan the steps beside the mean, which joins the basis in the end."""
    n_steps, n_columns, growth = guided_iteration(problem)
    *steps, spectrum = _plan_iteration(problem, share, "guided step", n_steps, n_columns, growth)
    return [*steps, replace(spectrum, shape=(n_columns + 2,) * 2)]


def guided_iteration(problem: DecompositionProblem) -> tuple[int, int, float]:
    """Choose how many steps and columns a guided iteration has, and how its shares grow.

    Little noise leaves more directions to be found, which takes more of both.
    """
    n_steps, n_more, growth = _FEW_STEPS if _signal(problem) < _STRONG_SIGNAL else _MANY_STEPS
    return n_steps, min(rank_of(problem) + n_more, problem.shape[1] - 1), growth


def _plan_moment(problem: DecompositionProblem, share: float, name: str) -> Release:
    follows, change = "row_norm", None
    if problem.is_sparse and problem.center is not None:
        # They are centred in the products, whose rounding is that of the centre.
        follows = "mean" if isinstance(problem.center, str) else "center"
    elif problem.row_norm is not None:
        adjacency, rounding = problem.unit.adjacency, problem.rounding
        change = sensitivity.second_moment(problem.row_norm, adjacency, rounding)
    shape = (problem.shape[1],) * 2
    return Release(name, "symmetric_gaussian", share, change, None, follows, shape)


def _plan_adaptive(problem: DecompositionProblem, share: float) -> list[Any]:
    """Plan a matrix, a probe, and what the probe decides between."""
    if not problem.cost.is_private:
        return [_plan_moment(problem, share, "second moment")]
    first, probe, *steps, spectrum = (share * own for own in ADAPTIVE_SHARES)
    moment = _plan_moment(problem, first, "second moment 1")
    squares = replace(
        moment,
        name="clipped squares",
        mechanism="gaussian",
        share=probe,
        shape=(len(PROBE_LEVELS), problem.basis_size),
    )
    if moment.sensitivity is not None and problem.row_norm is not None:
        adjacency = problem.unit.adjacency
        change = sensitivity.clipped_squares(problem.row_norm, len(PROBE_LEVELS), adjacency)
        squares = replace(squares, sensitivity=change)
    more, refined = [], []
    for number, step in enumerate(steps, start=1):
        line = replace(moment, share=step, sensitivity=None, follows="clipped squares")
        more.append(replace(line, name=f"second moment {number + 1}"))
        refined.append(replace(line, name=f"refinement {number}", mechanism="gaussian"))
    more.append(replace(moment, name=f"second moment {len(steps) + 2}", share=spectrum))
    refined.append(replace(more[-1], name="projected variances", mechanism="gaussian"))
    return [moment, squares, OneOf((more, refined))]


def _plan_power(problem: DecompositionProblem, share: float) -> list[Release]:
    n_iter, basis_size = int(problem.n_iter), problem.basis_size
    return _plan_iteration(problem, share, "power step", n_iter, basis_size, _GROWTH)


def _plan_iteration(
    problem: DecompositionProblem,
    share: float,
    kind: str,
    n_steps: int,
    n_columns: int,
    growth: float,
) -> list[Release]:
    """Plan a clip level and a product for each step, and the spectrum."""
    adjacency, shape = problem.unit.adjacency, (problem.shape[1], n_columns)
    weights = growth ** np.arange(n_steps)
    shares = share * (1 - _LEVEL_SHARE - _SPECTRUM_SHARE) * weights / weights.sum()
    level_share, lines = share * _LEVEL_SHARE / n_steps, []
    change = None
    if problem.row_norm is not None and not problem.cost.is_private:
        change = sensitivity.clipped_projection(problem.row_norm, math.inf, adjacency)
    for step, step_share in enumerate(shares.tolist(), start=1):
        follows = f"clip level {step}"
        if problem.cost.is_private:
            counts = sensitivity.histogram(adjacency)
            lines.append(Release(follows, "gaussian", level_share, counts, shape=(N_LEVELS,)))
        name = f"{kind} {step}"
        lines.append(Release(name, "gaussian", step_share, change, None, follows, shape))
    # Its sensitivity is that of a second moment.
    spectrum = _plan_moment(problem, share * _SPECTRUM_SHARE, "projected second moment")
    return [*lines, replace(spectrum, shape=(n_columns + 1,) * 2)]


_PLANS: dict[str, Callable[[DecompositionProblem, float], list[Any]]] = {
    "covariance": lambda problem, share: [_plan_moment(problem, share, "second moment")],
    "adaptive": _plan_adaptive,
    "power": _plan_power,
}
