r"""Factors of both sides of a matrix whose rows are protected: components, then rows on these.

A solver for rows finds the components V. Then the clipped rows times V are released with noise:
exchanging a row of norm c moves them by at most 2 c. As this noise hides whole rows, it leaves
little signal in the coordinates of a single row. These are shrunk by
:math:`\lambda_j / (\lambda_j + n \sigma^2)`, where :math:`\lambda_j` is the released second moment
along component j and :math:`\sigma` the standard deviation of the noise in each of the n
coordinates. This factor has the least squared error of all. A small factor becomes 0.
"""

import math
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from skdp.data.rows import Rows
from skdp.decomposition._factors import Factors
from skdp.decomposition._problem import RowsProblem, rank_of
from skdp.decomposition._rows.fit import clip_to_norm, solve_clipped
from skdp.decomposition._rows.plan import (
    NORM_SHARE,
    ROW_NORM,
    SolverReleases,
    plan_norm,
    plan_solver,
)
from skdp.linalg.norms import UNIT_ROUNDOFF
from skdp.privacy import PrivacyBudget, Release, sensitivity
from skdp.privacy.releases import Search

# Share of the budget for the projected rows. Components serve all rows, and need most of it.
_PROJECTION_SHARE = 0.2  # not studied
# Components with a smaller factor become 0. Keeping them would gain next to nothing, and lose much
# where the released moment is noise itself.
_LEAST_SIGNAL = 0.1  # not studied


class RowFactorReleases(NamedTuple):
    """What a fit of rows and their factors releases, in this order."""

    row_norm: Search | None
    components: SolverReleases
    projected_rows: Release


def plan_projection(problem: RowsProblem) -> RowFactorReleases:
    """Plan the releases of the components, and then the rows projected on them."""
    # Shares of the components are parts of what the projection leaves.
    before = replace(problem, cost=replace(problem.cost, part=1 - _PROJECTION_SHARE))
    row_norm = plan_norm(before) if problem.row_norm is None else None
    shape = (problem.shape[0], rank_of(problem))
    return RowFactorReleases(
        row_norm,
        plan_solver(before, 1.0 - NORM_SHARE * (problem.row_norm is None)),
        problem.cost.release(
            "projected rows",
            "gaussian",
            _PROJECTION_SHARE,
            partial(_projection_change, problem=problem),
            None if problem.row_norm is None else {"row_norm": problem.row_norm},
            follows=ROW_NORM,
            shape=shape,
        ),
    )


def solve_projection(
    problem: RowsProblem,
    plan: RowFactorReleases,
    raw: Rows,
    budget: PrivacyBudget,
    generator: np.random.Generator,
) -> Factors:
    """Release the components, and the rows on them: O(n_rows n_components) more memory."""
    rows = clip_to_norm(raw, plan.row_norm, problem.row_norm, problem, budget)
    factors = solve_clipped(problem, plan.components, rows, budget, generator)
    factors = factors.leading(rank_of(problem))
    projected = rows.matmul(factors.components.T)
    released, noise_std = budget.release(plan.projected_rows, projected, rows.bound)
    total = factors.eigenvalues + len(released) * noise_std**2
    signal = np.divide(factors.eigenvalues, total, out=np.zeros_like(total), where=total > 0)
    weights = np.where(signal > _LEAST_SIGNAL, signal, 0.0)
    left, singular_values, turn = np.linalg.svd(released * weights, full_matrices=False)
    return replace(
        factors,
        components=turn @ factors.components,
        eigenvalues=np.square(singular_values),
        left=left,
        left_signal=float(signal.max(initial=0.0)),
        row_norm=float(rows.bound),
    )


def _projection_change(row_norm: float, problem: RowsProblem) -> float:
    """Bound how far one row moves the projected rows, with the rounding of a projection."""
    terms, size = problem.shape[1], rank_of(problem)
    rounding = (terms + 2) * UNIT_ROUNDOFF * math.sqrt(size)
    return sensitivity.row_sum(row_norm, problem.unit.adjacency, rounding)
