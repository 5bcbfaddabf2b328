"""From a raw matrix to released factors, by products with released bases or all its entries."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import cast

import numpy as np

from skdp.data.rows import Rows
from skdp.decomposition._factors import Factors
from skdp.decomposition._problem import EntriesProblem
from skdp.decomposition._products.alternating import solve_alternating
from skdp.decomposition._products.deflation import solve_deflation
from skdp.decomposition._products.input_perturbation import solve_input
from skdp.decomposition._products.iteration import Steps
from skdp.decomposition._products.noisy_matrix import CenteredMatrix, NoisyMatrix, NoisyMoment
from skdp.decomposition._products.plan import mean_sensitivity, squares_sensitivity
from skdp.decomposition._products.symmetric_power import solve_symmetric_power
from skdp.privacy import PrivacyBudget, Released
from skdp.units._resolved import MatrixUnit

__all__ = ["BASIS_CUT", "PURE_CUT", "solve_by_products"]

#: What the rows of a basis are cut to, in units of their mean square; and what without delta, where
#: products are not shrunk and a basis has no column to spare: benchmarks/entries/cut.md.
BASIS_CUT, PURE_CUT = 0.25, 1.0


def solve_by_products(
    problem: EntriesProblem, raw: Rows, budget: PrivacyBudget, generator: np.random.Generator
) -> Factors:
    """Release the means of the columns, the sum of squares, and the singular factors."""
    unit = cast(MatrixUnit, problem.unit)
    rows = unit.weighted(raw)
    mean, scale = np.zeros(rows.n_features), 0.0
    if problem.releases_mean and unit.has_totals:
        mean, scale = _release_mean(rows, budget, unit)
    elif isinstance(problem.center, np.ndarray):
        mean = problem.center
    total = None
    if unit.has_totals and problem.releases_total:
        is_centered = problem.center is not None
        total = _release_total(
            rows,
            budget,
            unit,
            point=mean if is_centered else np.zeros(rows.n_features),
            point_noise=scale**2 if is_centered else 0.0,
        )
    factors = _decompose(problem, unit, _matrix_of(problem, unit, rows, budget), generator)
    return replace(
        factors,
        left=factors.left if unit.has_left_factors else None,
        total=factors.total if total is None else total,
        mean=mean,
        mean_noise=scale**2,
    )


def _release_mean(rows: Rows, budget: PrivacyBudget, unit: MatrixUnit) -> Released:
    total, rounding = rows.total()
    release = budget.laplace if budget.cost.is_pure else budget.gaussian
    change = mean_sensitivity(unit, rows.source.shape, rounding, by_rows=budget.cost.is_pure)
    return release("column means", total / rows.n_rows, sensitivity=change)


def _release_total(
    rows: Rows, budget: PrivacyBudget, unit: MatrixUnit, *, point: np.ndarray, point_noise: float
) -> float:
    """Release the sum of the squared distances of the rows from a public point.

    If the point is their mean with noise of variance `point_noise`, those from the mean are meant.
    """
    if unit.is_second_moment:
        squares, rounding = rows.squared_norm()
    else:
        squares, rounding = rows.squared_deviations(point)
    release = budget.laplace if budget.cost.is_pure else budget.gaussian
    change = squares_sensitivity(unit, point, rounding)
    noisy, _ = release("sum of squares", squares, sensitivity=change)
    # From squared distances back to squared norms, without what the noise of the point adds.
    shift = rows.n_rows * (float(point @ point) - rows.n_features * point_noise)
    return max(float(noisy) + shift, 0.0)


def _matrix_of(
    problem: EntriesProblem, unit: MatrixUnit, rows: Rows, budget: PrivacyBudget
) -> NoisyMatrix:
    """Hide the rows behind noisy products."""
    kind = NoisyMoment if unit.is_second_moment else NoisyMatrix
    if isinstance(problem.center, str):
        kind = CenteredMatrix
    cut = PURE_CUT if budget.cost.is_pure else BASIS_CUT
    matrix = kind(
        rows,
        budget,
        unit,
        # Cutting keeps the noise small, and without noise it would only do harm.
        cut=cut if budget.is_private and unit.follows_rows else None,
        coherence_bound=problem.coherence_bound,
    )
    if isinstance(problem.center, np.ndarray):
        matrix = matrix.minus(np.ones((rows.n_rows, 1)), problem.center[:, None])
    return matrix


def _decompose(
    problem: EntriesProblem,
    unit: MatrixUnit,
    matrix: NoisyMatrix,
    generator: np.random.Generator,
) -> Factors:
    assert isinstance(problem.n_components, int)
    if problem.solver == "input":
        return solve_input(matrix, n_components=problem.n_components)
    steps = Steps(int(problem.n_iter), problem.basis_size, generator)
    solvers: dict[str, Callable[..., Factors]] = {
        "alternating": solve_alternating,
        "deflation": partial(solve_deflation, is_symmetric=unit.is_symmetric),
        "power": partial(solve_symmetric_power, is_definite=unit.is_second_moment),
    }
    return solvers[problem.solver](matrix, steps, n_components=problem.n_components)
