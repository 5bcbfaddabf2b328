"""A fit of a classifier of matrices: their mean, a start, and steps along matrices of low rank.

Gradients are projected on the tangent space of the matrices of the rank, so that the noise has only
as many dimensions as these have. Each is clipped to about a third of what it can be at most.
"""

import math
from functools import partial

import numpy as np
from scipy.special import expit

from skdp.data.matrices import Design
from skdp.data.parts import Targets
from skdp.data.rows import Block
from skdp.linalg.matrices import (
    DenseMatrices,
    FixedRank,
    Matrices,
    project_coordinates,
    retract,
    truncate,
)
from skdp.linear_model._logistic.fit import Estimate, release_norm
from skdp.linear_model._logistic.records import LabeledRows, clipped, with_norms
from skdp.linear_model._trace.class_plan import TraceClassProblem, TraceClassReleases, clip_level
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
    bound = release_norm(problem, plan.norm, view, budget)
    total, _ = clipped(view, bound).total()
    mean = budget.release(plan.mean, total, bound, rounding=rounding).value / problem.n_units
    # Clipped anew: the mean may make a matrix longer.
    view = with_norms(view.centered(mean))
    kernel = partial(_class_difference, codes=view.codes)
    total = clipped(view, bound).map_sum(kernel, problem.n_features)[:, 0]
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
    assert view.center is not None
    center = view.center.reshape(problem.matrix_shape)
    design = Design(view.source, problem.matrix_shape, view.n_jobs, center=center)
    level, size = clip_level(problem), start.left.size + start.right.size + 1
    point, offset, kept = start, 0.0, []
    for release in plan:
        kernel = partial(
            _clipped_gradients,
            codes=view.codes,
            known=view.cache.norms,
            scale=scale,
            point=point,
            offset=offset,
            level=level,
        )
        total = design.map_sum(kernel, size)
        noisy = budget.release(release, total, level, rounding=problem.rounding).value
        step = _STEP / problem.n_units * noisy
        point, offset = retract(point, project_coordinates(point, step[:-1]), -1), offset - step[-1]
        kept.append((point.matrix, offset))
    matrices, offsets = zip(*kept[len(plan) // 2 :], strict=True)
    return truncate(np.mean(matrices, axis=0), problem.rank), float(np.mean(offsets))


# Kernels.


def _class_difference(rows: slice, block: Block, codes: Targets) -> np.ndarray:
    return block.rmatmul(codes[rows][:, np.newaxis] - 0.5)


def _clipped_gradients(
    rows: slice,
    matrices: Matrices,
    *,
    codes: Targets,
    known: np.ndarray | None,
    scale: tuple[float, float],
    point: FixedRank,
    offset: float,
    level: float,
) -> np.ndarray:
    """Sum gradients at clipped matrices, clipped themselves; `known` are norms from before."""
    assert isinstance(matrices, DenseMatrices)
    bound, unit = scale
    norms = matrices.norms() if known is None else known[rows]
    shrinking = clip_weights(norms, bound, math.prod(point.shape)) / unit
    shrunk = matrices.values * shrinking[:, np.newaxis, np.newaxis]
    coordinates, inner = DenseMatrices(shrunk).tangent(point, 1.0)
    places = codes[rows]
    # Where the label is not known, the record is null.
    coordinates.multiply(np.where(places < 0, np.nan, expit(inner + offset) - places))
    weights = clip_weights(coordinates.norms(), level, coordinates.size)
    return coordinates.weighted_sum(weights)
