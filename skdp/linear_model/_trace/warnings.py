"""Warnings of a trace regression, from public facts and released values."""

import math
from collections.abc import Iterator

import numpy as np

from skdp._scales import MOST_NOISE, ScaleReleases
from skdp.linalg.matrices import tangent_dimension
from skdp.linear_model._trace.problem import TraceProblem
from skdp.linear_model._trace.scales import Spread
from skdp.linear_model._trace.transform import Transform
from skdp.privacy import Plan
from skdp.privacy.plan import paths_of

# benchmarks/trace_regression/errors.md, "How many records it takes": with less signal than that, in
# units of the noise in all directions together, a fit is of no use.
_LEAST_SIGNAL = 2.0
# The same for matrices of rank one, each of which tells about few directions, and for single cells,
# in units of the noise in one direction: docs/user_guide/low_rank_regression.rst, "When it cannot
# work", and of cells benchmarks/trace_regression/unlike_data.md, "strength".
_LEAST_SIGNAL_OF_OUTER, _LEAST_SIGNAL_OF_CELLS = 5.0, 7.0


def warnings_for_size(problem: TraceProblem, plan: Plan) -> Iterator[str]:
    """Warn of fits whose noise is larger than any signal, from public facts only."""
    if not problem.cost.is_private:
        return
    strength, least = signal_strength(problem), _least_signal(problem)
    if strength < least:
        reason = "each record tells about few of these only, and noise easily hides that"
        if strength < _LEAST_SIGNAL:
            reason = "the noise is as large as any signal"
        yield (
            f"{problem.n_units} records with epsilon={problem.cost.epsilon:g} are too few for "
            f"{_n_free(problem)} coefficients: {reason}. Pass some {least / strength:.2g} times as "
            f"many records, a larger epsilon, or {_fewer(problem)}."
        )
    if plan.parts.features is not None:
        yield from _warnings_for_scales(problem, plan.parts.features)


def _warnings_for_scales(problem: TraceProblem, features: ScaleReleases) -> Iterator[str]:
    """Warn if noise will hide most centers and scales."""
    noise_std = paths_of(features)[0][-1].noise_std
    if noise_std is not None and noise_std > MOST_NOISE:
        known = ", or bounds of DPLinearRegression that are known without looking at X"
        yield (
            f"{problem.n_units} records with epsilon={problem.cost.epsilon:g} are too few to scale "
            f"{problem.n_entries} features one by one: noise hides most of their centers and "
            "scales. Pass more records, a larger epsilon, or fewer features"
            f"{known if problem.interval is None else ''}."
        )


def warnings_for_fit(
    problem: TraceProblem, spread: Spread, transform: Transform, n_cut: int
) -> Iterator[str]:
    """Warn of scales and singular values that noise hides, from released values."""
    if spread.is_guess:
        yield (
            "Too few responses differ from the median to be distinguished from noise. Pass "
            "response_bound, a public bound of their size, a larger epsilon, or more records."
        )
    if transform.n_hidden:
        yield (
            f"{transform.n_hidden} of the features hardly differ from 0, being constant or rare. "
            "Noise hides how far they differ, and what they tell may be lost. If one is in much "
            "larger units, divide it by a public guess of its size."
        )
    if problem.are_cells and problem.cost.is_private and _has_rare_cells(problem, transform):
        yield (
            "Some rows or columns are observed so much more rarely than others that predictions of "
            "their cells are mostly noise. Leave rarely observed rows and columns out, or pass a "
            "smaller rank, a larger epsilon, or more records."
        )
    if n_cut:
        cut = "The" if _are_rows(problem) else f"{n_cut} of {problem.rank} singular values of the"
        yield (
            f"{cut} coefficients do not stand out from the noise and are 0. Pass "
            f"{_fewer(problem)}, a larger epsilon, or more records."
        )


def _are_rows(problem: TraceProblem) -> bool:
    """Tell whether records are rows of features, which have no rank to choose."""
    return min(problem.matrix_shape) == 1


def _fewer(problem: TraceProblem) -> str:
    """Name what leaves fewer coefficients to find."""
    return "fewer features" if _are_rows(problem) else "a smaller rank or matrix_shape"


def _has_rare_cells(problem: TraceProblem, transform: Transform) -> bool:
    """Tell by released variances whether some rows or columns have too few observed cells."""
    rows, columns = transform.row_map, transform.column_map
    if rows is None or columns is None:
        return False
    unevenness = math.sqrt(_unevenness(rows) * _unevenness(columns))
    least = _least_signal(problem)
    return least <= signal_strength(problem) < least * unevenness


def _unevenness(roots: np.ndarray) -> float:
    """Divide the mean variance by the harmonic mean, both from inverse roots of variances."""
    if roots.ndim > 1:
        return 1.0
    inverses = np.square(roots)
    return float(np.mean(inverses) * np.mean(1 / inverses))


def signal_strength(problem: TraceProblem) -> float:
    """Compute the largest signal in units of the noise in all directions, from public facts."""
    return problem.n_units * problem.cost.mu / (_n_free(problem) * math.sqrt(problem.n_iter))


def _least_signal(problem: TraceProblem) -> float:
    """Return the signal strength that a fit needs, from public facts only.

    A singular vector has to stand out from the noise in its own direction, which is a smaller part
    of all noise the more directions there are. Only matrices of rank one need more than that: their
    signal is rare.
    """
    shape = problem.matrix_shape
    if problem.factors is None or min(shape) == 1:
        return _LEAST_SIGNAL
    least = _LEAST_SIGNAL_OF_CELLS if problem.are_cells else _LEAST_SIGNAL_OF_OUTER
    return max(_LEAST_SIGNAL, least / math.sqrt(_n_free(problem) / sum(shape)))


def _n_free(problem: TraceProblem) -> int:
    """Count the free coefficients, to each of which noise is added."""
    return tangent_dimension(problem.matrix_shape, problem.rank) + problem.fit_intercept
