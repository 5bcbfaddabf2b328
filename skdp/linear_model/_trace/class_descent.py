"""A fit of a classifier of matrices: their mean, a start, and steps along matrices of low rank.

Gradients are projected on the tangent space of the matrices of the rank, so that the noise has only
as many dimensions as these have. Each is clipped to about a third of what it can be at most.
"""

import math
from functools import partial

import numpy as np
from scipy.special import expit

from skdp.data.design import Design
from skdp.linalg.fixed_rank import FixedRank, project_coordinates, retract, truncate
from skdp.linalg.matrices import Coordinates, DenseMatrices, Matrices
from skdp.linear_model._logistic.fit import Estimate, release_norm
from skdp.linear_model._logistic.records import LabeledRows, clipped, with_norms
from skdp.linear_model._trace.class_plan import TraceClassProblem, TraceClassReleases, clip_level
from skdp.linear_model._trace.records import clipped_sum
from skdp.privacy import PrivacyBudget, Release
from skdp.privacy.clipping import clip_weights

# Length of a step: at p = 1/2, where the loss is steepest, its curvature is 1/4. Not studied.
_STEP = 4.0


def solve_trace_classes(
    problem: TraceClassProblem,
    plan: TraceClassReleases,
    view: LabeledRows,
    budget: PrivacyBudget,
    generator: np.random.Generator,
) -> Estimate:
    """Release the clip level, the mean, the difference of the classes, and the gradients."""
    view, rounding = with_norms(view), problem.rounding
    bound = release_norm(problem, plan.norm, view.rows.norms(), budget)
    total, _ = clipped(view, bound).rows.total()
    mean = budget.release(plan.mean, total, bound, rounding=rounding).value / problem.n_units
    # Clipped anew: the mean may make a matrix longer.
    view = with_norms(LabeledRows(view.rows.centered(mean), view.codes))
    signs = view.codes[:, np.newaxis] - 0.5
    total = clipped(view, bound).rows.rmatmul(signs)[:, 0]
    noisy = budget.release(plan.start, total, bound / 2, rounding=rounding).value
    # In this unit matrices have entries of variance 1 at most, in the mean.
    unit = bound / math.sqrt(problem.n_features)
    start = truncate(
        (_STEP / unit / problem.n_units * noisy).reshape(problem.matrix_shape), problem.rank
    )
    point, offset = _descend(problem, plan.gradients, view, (bound, unit), start, budget)
    slopes = point.matrix.ravel() / unit
    weights = np.append(slopes, offset - mean @ slopes)
    return Estimate(np.column_stack([np.zeros_like(weights), weights]))


def _descend(
    problem: TraceClassProblem,
    plan: tuple[Release, ...],
    view: LabeledRows,
    scale: tuple[float, float],
    start: FixedRank,
    budget: PrivacyBudget,
) -> tuple[FixedRank, float]:
    """Take all steps; return the mean of the last half of the iterates, cut to the rank."""
    rows, (bound, unit) = view.rows, scale
    center = np.zeros(1) if rows.center is None else rows.center
    center = center.reshape(problem.matrix_shape)
    design = Design(rows.source, problem.matrix_shape, rows.n_jobs, center=center)
    shrinking = clip_weights(rows.norms(), bound, problem.n_features) / unit
    level, size = clip_level(problem), start.left.size + start.right.size + 1
    point, offset, kept = start, 0.0, []
    for release in plan:
        vectors = partial(
            _gradients, point=point, offset=offset, shrinking=shrinking, codes=view.codes
        )
        total, _ = clipped_sum(design, vectors, level, size)
        noisy = budget.release(release, total, level, rounding=problem.rounding).value
        step = _STEP / problem.n_units * noisy
        point, offset = retract(point, project_coordinates(point, step[:-1]), -1), offset - step[-1]
        kept.append((point.matrix, offset))
    matrices, offsets = zip(*kept[len(plan) // 2 :], strict=True)
    return truncate(np.mean(matrices, axis=0), problem.rank), float(np.mean(offsets))


# Kernels.


def _gradients(
    rows: slice,
    matrices: Matrices,
    *,
    point: FixedRank,
    offset: float,
    shrinking: np.ndarray,
    codes: np.ndarray,
) -> tuple[Coordinates, np.ndarray]:
    """Return coordinates of clipped matrices, and residuals: NaN for null ones."""
    assert isinstance(matrices, DenseMatrices)
    shrunk = matrices.values * shrinking[rows, np.newaxis, np.newaxis]
    coordinates, inner = DenseMatrices(shrunk).tangent(point, 1.0)
    return coordinates, expit(inner + offset) - codes[rows]
