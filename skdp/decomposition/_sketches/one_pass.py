"""Two sketches of a matrix in memory, computed in one pass over it."""

from functools import partial
from typing import Any, cast

import numpy as np
from scipy.sparse import issparse

from skdp.data.reduce import PerRow, map_sum
from skdp.data.rows import Rows
from skdp.decomposition._factors import Factors
from skdp.decomposition._problem import EntriesProblem, rank_of
from skdp.decomposition._sketches.fit import fit_sketches
from skdp.decomposition._sketches.plan import (
    Sketches,
    SketchReleases,
    draw_sketches,
    planned_sketches,
    probable_norm,
    sketch_sizes,
    tail_probabilities,
)
from skdp.linalg.norms import LEAST_ROUNDING, UNIT_ROUNDOFF
from skdp.linalg.sketches import Sketch, haar_norm
from skdp.privacy import PrivacyBudget, sensitivity
from skdp.units import ResolvedEntry, ResolvedFrobeniusChange


def plan_one_pass(problem: EntriesProblem) -> SketchReleases:
    """Plan both sketches, with sensitivities that hold whichever sketches are drawn."""
    (n_rows, n_columns), sizes = problem.shape, sketch_sizes(problem.shape, rank_of(problem))
    # A part of delta is reserved only if nobody knows the sketches.
    delta = problem.cost.delta if problem.cost.delta_tail > 0 else 0.0
    tails = tail_probabilities(problem.shape, sizes, delta)
    right = _sensitivity(problem, n_rows, (n_columns, sizes[0]), tails[0])
    left = _sensitivity(problem, n_columns, (n_rows, sizes[1]), tails[1])
    return planned_sketches(problem.cost, problem.shape, sizes, (right, left))


def solve_one_pass(
    problem: EntriesProblem,
    plan: SketchReleases,
    raw: Rows,
    budget: PrivacyBudget,
    generator: np.random.Generator,
) -> Factors:
    """Release both sketches, and fit them.

    Time O(nnz) for entries and O(nnz (t + v)) for promised changes. Memory O(m t + n v), and for
    promised changes O(n t + m v) more.
    """
    kind = "haar" if isinstance(problem.unit, ResolvedFrobeniusChange) else "countsketch"
    sizes = sketch_sizes(problem.shape, rank_of(problem))
    pair = draw_sketches(kind, problem.shape, sizes, generator)
    from_right, from_left = _sketched(raw, pair)
    right, left = budget.release(plan.right, from_right), budget.release(plan.left, from_left)
    fit, rank = fit_sketches((right, left), Sketches(*pair), rank_of(problem))
    squares = np.square(fit.values)
    return Factors(
        components=fit.right.T,
        eigenvalues=squares,
        total=float(squares.sum()),
        eigenvalue_noise=right.noise_std**2,
        n_above_noise=rank,
        left=fit.left,
    )


def _sketched(raw: Rows, pair: tuple[Sketch, Sketch]) -> tuple[np.ndarray, np.ndarray]:
    """Multiply the matrix by one sketch and its transpose by the other, block by block."""
    right, left = pair
    kernel = partial(_sketch, right=right.integers, left=left.integers)
    size = raw.n_features * left.shape[1]
    from_right, from_left = map_sum(raw.source, kernel, size, raw.n_jobs)
    # Units are powers of two, so that these products are exact.
    return from_right * right.unit, from_left * left.unit


def _sketch(rows: slice, raw: Any, right: Any, left: Any) -> tuple[PerRow, np.ndarray]:
    block = raw.astype(np.float64, copy=False)
    return PerRow(_dense(block @ right)), _dense(block.T @ left[rows])


def _dense(values: Any) -> np.ndarray:
    return np.asarray(values.toarray() if issparse(values) else values)


def _sensitivity(
    problem: EntriesProblem, length: int, sketched: tuple[int, int], tail: float
) -> float:
    """Bound how far one unit moves a sketch, whichever is drawn, with the rounding of its sums."""
    unit, (n, t) = cast("ResolvedEntry | ResolvedFrobeniusChange", problem.unit), sketched
    if isinstance(unit, ResolvedFrobeniusChange):
        longest = haar_norm(n, t)
        norm = probable_norm(n, t, tail) if tail > 0 else longest
        change = sensitivity.frobenius_product(unit.change, norm)
    else:
        change, longest = sensitivity.entry_product(unit.step, np.ones(1)), 1.0
    # Rounding of sums of n terms in any order; a term is at most the largest entry times a row of
    # the sketch.
    rounding = (n + 2) * UNIT_ROUNDOFF * unit.largest * n * longest
    return (change + 2 * unit.row_errors(length) * rounding) * (1 + LEAST_ROUNDING)
