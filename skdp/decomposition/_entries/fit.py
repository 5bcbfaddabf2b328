"""From a raw matrix to released factors: products with released bases, or all entries."""

from dataclasses import replace
from typing import Any

import numpy as np

from skdp.data.rows import Rows
from skdp.decomposition._entries.above_noise import gaussian_norm, spherical_norm
from skdp.decomposition._entries.alternating import solve_alternating
from skdp.decomposition._entries.deflation import solve_deflation
from skdp.decomposition._entries.input_perturbation import solve_input
from skdp.decomposition._entries.noisy_matrix import NoisyMatrix, NoisyMoment
from skdp.decomposition._entries.plan import DeflationReleases, EntryReleases, IterationReleases
from skdp.decomposition._entries.symmetric_power import solve_symmetric_power
from skdp.decomposition._factors import Factors
from skdp.decomposition._problem import EntriesProblem, rank_of
from skdp.linalg.denoising import shrunk
from skdp.privacy import PrivacyBudget, Release
from skdp.units import MatrixUnit

#: Largest squared row norm of a basis, in units of their mean. The second is for ``delta=0``, where
#: products are not shrunk and a basis has no columns to spare: benchmarks/entries/cut.md.
BASIS_CUT, PURE_CUT = 0.25, 1.0


def solve_entries(
    problem: EntriesProblem,
    plan: EntryReleases,
    raw: Rows,
    budget: PrivacyBudget,
    generator: np.random.Generator,
) -> Factors:
    """Release the means of the columns, the sum of squares, and the singular factors."""
    unit = problem.unit
    rows = unit.weighted(raw)
    mean, noise_std = np.zeros(rows.n_features), 0.0
    if plan.mean is not None:
        total, rounding = rows.total()
        mean, noise_std = budget.release(plan.mean, total / rows.n_rows, rounding)
    elif isinstance(problem.center, np.ndarray):
        mean = problem.center
    squares = None
    if plan.total is not None:
        is_centered = problem.center is not None
        point, variance = (mean, noise_std**2) if is_centered else (np.zeros_like(mean), 0.0)
        squares = _release_total(plan.total, rows, budget, unit, point, variance)
    factors = _decompose(problem, plan.solver, _matrix_of(problem, rows, budget), generator)
    return replace(
        factors,
        left=factors.left if unit.has_left_factors else None,
        total=factors.total if squares is None else squares,
        mean=mean,
        mean_noise_variance=noise_std**2,
    )


def solve_best_fit(problem: EntriesProblem, *opened: Any) -> Factors:
    """Release the singular factors, with singular values shrunk for the noise in the vectors."""
    factors = solve_entries(problem, *opened)
    noise_std = float(np.sqrt(factors.eigenvalue_noise))
    values = np.sqrt(factors.eigenvalues)
    if problem.solver == "input":
        values = shrunk(values, noise_std, problem.shape)
    else:
        # The core has the matrix along the noisy vectors themselves, so no shrinkage is needed.
        noise_norm = spherical_norm if problem.cost.is_pure else gaussian_norm
        floor = noise_norm((problem.basis_size,) * 2, noise_std)
        values = np.where(values > floor, values, 0.0)
    return replace(factors, eigenvalues=np.square(values))


def _release_total(
    release: Release,
    rows: Rows,
    budget: PrivacyBudget,
    unit: MatrixUnit,
    point: np.ndarray,
    point_variance: float,
) -> float:
    """Release the squared distances of the rows from a point; return the sum of squared norms.

    If the point is their mean with noise of variance `point_variance`, the noise is corrected for.
    """
    if unit.is_second_moment:
        squares, rounding = rows.squared_norm()
    else:
        squares, rounding = rows.squared_deviations(point)
    noisy, _ = budget.release(release, squares, point, rounding)
    # Turns squared distances into squared norms, and subtracts what the noise of the point adds.
    shift = rows.n_rows * (float(point @ point) - rows.n_features * point_variance)
    return max(float(noisy) + shift, 0.0)


def _matrix_of(problem: EntriesProblem, rows: Rows, budget: PrivacyBudget) -> NoisyMatrix:
    """Wrap the rows, so that solvers see only noisy products."""
    kind = NoisyMoment if problem.unit.is_second_moment else NoisyMatrix
    cut = PURE_CUT if budget.cost.is_pure else BASIS_CUT
    # Cutting keeps the noise small; without noise it would only add an error.
    matrix = kind(
        problem, rows, budget, cut if budget.is_private and problem.unit.follows_rows else None
    )
    if isinstance(problem.center, np.ndarray):
        matrix = matrix.minus(np.ones((rows.n_rows, 1)), problem.center[:, None])
    return matrix


def _decompose(
    problem: EntriesProblem,
    plan: Release | IterationReleases | DeflationReleases,
    matrix: NoisyMatrix,
    generator: np.random.Generator,
) -> Factors:
    """Run the solver whose releases the plan has."""
    rank, unit = rank_of(problem), problem.unit
    if isinstance(plan, DeflationReleases):
        return solve_deflation(matrix, plan, generator, is_symmetric=unit.is_symmetric)
    if isinstance(plan, Release):
        return solve_input(matrix, plan, rank)
    if isinstance(plan.products[0], Release):
        is_definite = unit.is_second_moment
        return solve_symmetric_power(matrix, plan, generator, rank, is_definite=is_definite)
    return solve_alternating(matrix, plan, generator, rank)
