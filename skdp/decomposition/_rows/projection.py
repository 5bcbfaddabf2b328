r"""Factors of both sides of a matrix whose rows are protected: components, then their projections.

The components V are those of a solver of rows. The clipped rows times V are released with noise: a
row that is exchanged moves them by at most 2 c. A row is one person's, and the noise covers it as a
whole, so that little is left of its own coordinates. They are shrunk by
:math:`\lambda_j / (\lambda_j + n \sigma^2)`, where :math:`\lambda_j` is the released second moment
along component j and :math:`\sigma` the scale of the noise in n coordinates. This has the least
squared error of all factors; where it is small, they are shrunk to nothing.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from skdp.data.rows import Rows
from skdp.decomposition._factors import Factors
from skdp.decomposition._problem import DecompositionProblem, rank_of
from skdp.decomposition._rows.fit import clip_to_norm, solve_clipped
from skdp.decomposition._rows.plan import plan_unguided
from skdp.linalg.norms import UNIT_ROUNDOFF
from skdp.privacy import PrivacyBudget, Release, sensitivity
from skdp.privacy.plan import OneOf

__all__ = ["plan_projection", "solve_projection"]

# Share of the budget for the projected rows. Components serve all rows, and need most of it.
_PROJECTION_SHARE = 0.2  # not studied
# With less, next to nothing would be gained, and much be lost where the moment is noise itself.
_LEAST_SIGNAL = 0.1  # not studied


def plan_projection(problem: DecompositionProblem) -> list[Any]:
    """Plan the releases of the components, and that of the rows projected on them."""
    components = list(map(_with_its_part, plan_unguided(problem)))
    change = None
    if problem.row_norm is not None:
        change = _sensitivity(problem, problem.row_norm)
    shape = (problem.shape[0], rank_of(problem))
    return [
        *components,
        Release(
            "projected rows",
            "gaussian",
            _PROJECTION_SHARE,
            change,
            follows="row_norm",
            shape=shape,
        ),
    ]


def _with_its_part(planned: Any) -> Any:
    """Lower the share of a release, or of all of several ways."""
    if isinstance(planned, OneOf):
        return OneOf(tuple(list(map(_with_its_part, way)) for way in planned.ways))
    return replace(planned, share=planned.share * (1 - _PROJECTION_SHARE))


def solve_projection(
    problem: DecompositionProblem, raw: Rows, budget: PrivacyBudget, generator: np.random.Generator
) -> Factors:
    """Release the components and the rows projected on them, in O(n_rows n_components) more."""
    rows = clip_to_norm(raw, budget, problem.row_norm, "row_norm")
    factors = solve_clipped(problem, rows, budget, generator).leading(rank_of(problem))
    released, scale = budget.gaussian(
        "projected rows",
        rows.matmul(factors.components.T),
        sensitivity=_sensitivity(problem, rows.bound),
    )
    noise = len(released) * scale**2
    signal = _signal_of(factors.eigenvalues, noise)
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


def _sensitivity(problem: DecompositionProblem, row_norm: float) -> float:
    """Bound how far one row moves the rows times orthonormal components, with its rounding."""
    terms, size = problem.shape[1], rank_of(problem)
    rounding = (terms + 2) * UNIT_ROUNDOFF * math.sqrt(size)
    return sensitivity.row_sum(row_norm, problem.unit.adjacency, rounding)


def _signal_of(eigenvalues: np.ndarray, noise: float) -> np.ndarray:
    """Share of the squared length of noisy coordinates that is not noise."""
    total = eigenvalues + noise
    return np.divide(eigenvalues, total, out=np.zeros_like(total), where=total > 0)
