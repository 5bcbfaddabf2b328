"""Two sketches of a matrix that is there already, taken in one pass over it."""

from typing import Any, cast

import numpy as np
from scipy.sparse import issparse

from skdp.data.rows import Rows
from skdp.decomposition._factors import Factors
from skdp.decomposition._problem import DecompositionProblem
from skdp.decomposition._sketches.fit import fit_sketches
from skdp.decomposition._sketches.plan import (
    LONG_SIDE_SHARE,
    Sketches,
    StreamUnit,
    sketch_sizes,
    stretch,
    tail_of,
)
from skdp.linalg.norms import LEAST_ROUNDING, UNIT_ROUNDOFF
from skdp.linalg.sketch import draw_sketch
from skdp.privacy import PlannedRelease, PrivacyBudget, sensitivity
from skdp.units._changes import ResolvedFrobeniusChange
from skdp.units._resolved import MatrixUnit

__all__ = ["plan_one_pass", "solve_one_pass"]


def plan_one_pass(problem: DecompositionProblem) -> list[PlannedRelease]:
    """Plan both sketches, with bounds that hold for every one that may be drawn."""
    shape, sizes = problem.shape, _sizes(problem)
    share = LONG_SIDE_SHARE if shape[0] >= shape[1] else 1 - LONG_SIDE_SHARE
    sides = (
        ("right sketch", shape[0], (shape[1], sizes[0]), share),
        ("left sketch", shape[1], (shape[0], sizes[1]), 1 - share),
    )
    return [
        PlannedRelease(
            name,
            "gaussian",
            own,
            _sensitivity(problem, length, sketched),
            shape=(length, sketched[1]),
        )
        for name, length, sketched, own in sides
    ]


def solve_one_pass(
    problem: DecompositionProblem, raw: Rows, budget: PrivacyBudget, generator: np.random.Generator
) -> Factors:
    """Release both sketches, and fit them.

    Time O(nnz) for entries and O(nnz (t + v)) for promised changes, memory O(m t + n v), for
    promised changes O(n t + m v) more.
    """
    plan = budget.plan
    assert plan is not None
    sketches = _draw(problem, generator)
    values, scales = [], []
    for line, sums in zip(plan.releases, _sketched(raw, sketches), strict=True):
        released, scale = budget.gaussian(line.name, sums, sensitivity=line.sensitivity or 0.0)
        values.append(released)
        scales.append(scale)
    found = fit_sketches(
        (values[0], values[1]),
        (sketches.right, sketches.left),
        (scales[0], scales[1]),
        int(cast(int, problem.n_components)),
    )
    squares = np.square(found.singular_values)
    return Factors(
        components=found.right.T,
        eigenvalues=squares,
        total=float(squares.sum()),
        noise_scale=scales[0] ** 2,
        n_above_noise=found.rank,
        left=found.left,
    )


def _sizes(problem: DecompositionProblem) -> tuple[int, int]:
    return sketch_sizes(problem.shape, int(cast(int, problem.n_components)), None, None)


def _draw(problem: DecompositionProblem, generator: np.random.Generator) -> Sketches:
    (n_rows, n_columns), sizes = problem.shape, _sizes(problem)
    kind = "haar" if isinstance(problem.unit, ResolvedFrobeniusChange) else "countsketch"
    right = draw_sketch(kind, n_columns, sizes[0], generator)
    left = draw_sketch(kind, n_rows, sizes[1], generator)
    return Sketches(right, left, problem.delta_tail > 0)


def _sketched(raw: Rows, sketches: Sketches) -> tuple[np.ndarray, np.ndarray]:
    """Multiply the matrix by one sketch and its transpose by the other, block by block."""
    right, left = sketches.right.matrix, sketches.left.matrix
    row_sums = np.empty((raw.n_rows, right.shape[1]))
    column_sums = np.zeros((raw.n_features, left.shape[1]))
    for rows, given in raw.source.blocks(range(len(raw.source.block_starts) - 1)):
        block = given.astype(np.float64, copy=False)
        row_sums[rows] = _dense(block @ right)
        column_sums += _dense(block.T @ left[rows])
    return row_sums, column_sums


def _dense(values: Any) -> np.ndarray:
    return np.asarray(values.toarray() if issparse(values) else values)


def _sensitivity(problem: DecompositionProblem, length: int, sketched: tuple[int, int]) -> float:
    """Bound how far one unit moves a sketch, whichever is drawn, with the rounding of its sums."""
    unit, (n, t) = cast(StreamUnit, problem.unit), sketched
    matrix_unit = cast(MatrixUnit, problem.unit)
    if isinstance(unit, ResolvedFrobeniusChange):
        tail = tail_of(n, t, problem.delta) if problem.delta_tail > 0 else 0.0
        change = sensitivity.frobenius_product(unit.change, stretch(n, t, tail))
        longest = stretch(n, t, 0.0)
    else:
        change, longest = sensitivity.entry_product(unit.step, np.ones(1)), 1.0
    # Sums of n terms in any order, each at most the largest entry times a row of the sketch.
    rounding = (n + 2) * UNIT_ROUNDOFF * matrix_unit.largest * n * longest
    return (change + 2 * matrix_unit.row_errors(length) * rounding) * (1 + LEAST_ROUNDING)
