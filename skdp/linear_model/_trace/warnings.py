"""What public facts and released values say against a trace regression."""

import math
from collections.abc import Iterator

import numpy as np

from skdp.linalg.fixed_rank import tangent_dimension
from skdp.linear_model._trace.problem import TraceProblem
from skdp.linear_model._trace.scales import Spread
from skdp.linear_model._trace.transform import Transform
from skdp.privacy import Plan

__all__ = ["signal_strength", "warnings_for_fit", "warnings_for_size"]

# benchmarks/trace_regression/errors.md, "How many records it takes": below so many times the noise
# in all directions together, a fit is no better than none.
_LEAST_SIGNAL = 2.0
# docs/user_guide/low_rank_regression.rst, "When it cannot work", and of cells
# benchmarks/trace_regression/unlike_data.md, "strength": the same for matrices of rank one, which
# tell of few directions each, and for single cells, in units of the noise in one direction.
_LEAST_SIGNAL_OF_OUTER, _LEAST_SIGNAL_OF_CELLS = 5.0, 7.0


def warnings_for_size(problem: TraceProblem, plan: Plan) -> Iterator[str]:
    """Doubt fits whose noise is larger than any signal, from public facts only."""
    if not problem.cost.is_private:
        return
    strength, least = signal_strength(problem), _least_signal(problem)
    if strength < least:
        reason = "what each of them tells of so few of these is easily lost in the noise"
        if strength < _LEAST_SIGNAL:
            reason = "the noise is as large as any signal"
        yield (
            f"{problem.n_units} records with epsilon={problem.cost.epsilon:g} are too few for "
            f"{_n_free(problem)} coefficients: {reason}. Some {least / strength:.2g} times as many "
            "records, a larger epsilon, or a smaller rank or matrix_shape would do."
        )
    if problem.is_vector and plan.parts.matrix_norm is not None:
        yield (
            f"{problem.n_units} records with epsilon={problem.cost.epsilon:g} are too few to scale "
            f"{problem.n_entries} features one by one: all share one scale. If their units differ, "
            "center and divide them by public guesses of their means and spreads."
        )


def warnings_for_fit(
    problem: TraceProblem, spread: Spread, transform: Transform, n_cut: int
) -> Iterator[str]:
    """Doubt, by released values, scales and singular values that noise hides."""
    rare = transform.rare
    if spread.is_guess:
        yield (
            "Too few responses differ from the median to be told from noise. Pass response_bound, "
            "a public bound of their size, a larger epsilon, or more records."
        )
    if rare is not None and rare.is_guess:
        yield (
            f"{rare.n_features} of the features hardly differ, being constant or rare: where they "
            "do, they are taken to be about as large as the others, or 1. If one is in much larger "
            "units, divide it by a public guess of its size."
        )
    if problem.are_cells and problem.cost.is_private and _has_rare_cells(problem, transform):
        yield (
            "Some rows or columns are observed so much more rarely than others that their cells "
            "are mostly noise. Pass a smaller rank, a larger epsilon, or more records, or leave "
            "rarely observed rows and columns out."
        )
    if n_cut:
        yield (
            f"{n_cut} of {problem.rank} singular values of the coefficients do not stand out from "
            "the noise and are 0. Pass a smaller rank, a larger epsilon, or more records."
        )


def _has_rare_cells(problem: TraceProblem, transform: Transform) -> bool:
    """Tell cells that are seen too rarely by the released variances of rows and columns."""
    rows, columns = transform.row_map, transform.column_map
    if rows is None or columns is None:
        return False
    unevenness = math.sqrt(_unevenness(rows) * _unevenness(columns))
    least = _least_signal(problem)
    return least <= signal_strength(problem) < least * unevenness


def _unevenness(roots: np.ndarray) -> float:
    """Compare the mean variance of rows with the harmonic one, from their inverse roots."""
    if roots.ndim > 1:
        return 1.0
    inverses = np.square(roots)
    return float(np.mean(inverses) * np.mean(1 / inverses))


def signal_strength(problem: TraceProblem) -> float:
    """Compare the records with the noise of all directions together, from public facts only."""
    n_steps = 1 if problem.solver == "adassp" else problem.n_iter
    return problem.n_units * problem.cost.mu / (_n_free(problem) * math.sqrt(n_steps))


def _least_signal(problem: TraceProblem) -> float:
    """Return the signal strength that a fit needs, from public facts only.

    What each singular vector has to stand out from is the noise in its own direction, which is
    weaker the more of them the noise is shared by: for matrices of rank one, the signal of which
    is rare, that is what decides.
    """
    shape = problem.matrix_shape
    if problem.factors is None or min(shape) == 1:
        return _LEAST_SIGNAL
    least = _LEAST_SIGNAL_OF_CELLS if problem.are_cells else _LEAST_SIGNAL_OF_OUTER
    return max(_LEAST_SIGNAL, least / math.sqrt(_n_free(problem) / sum(shape)))


def _n_free(problem: TraceProblem) -> int:
    """Count the coefficients that noise is added to."""
    n_free = problem.n_entries
    if problem.solver == "rgrad":
        n_free = tangent_dimension(problem.matrix_shape, problem.rank)
    return n_free + problem.fit_intercept
