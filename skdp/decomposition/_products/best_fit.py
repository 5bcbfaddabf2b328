"""Factors whose product is as near to a matrix as its noisy singular vectors allow."""

from dataclasses import replace
from typing import Any

import numpy as np

from skdp.decomposition._factors import Factors
from skdp.decomposition._problem import EntriesProblem
from skdp.decomposition._products.above_noise import gaussian_norm, spherical_norm
from skdp.decomposition._products.fit import solve_by_products
from skdp.linalg.singular_values import shrunk

__all__ = ["solve_best_fit"]


def solve_best_fit(problem: EntriesProblem, *opened: Any) -> Factors:
    """Release the singular factors, and shrink the singular values for noise in the vectors."""
    factors = solve_by_products(problem, *opened)
    scale = float(np.sqrt(factors.noise_scale))
    values = np.sqrt(factors.eigenvalues)
    if problem.solver == "input":
        values = shrunk(values, scale, problem.shape)
    else:
        # The core shows how long the matrix is along the noisy vectors: nothing is left to shrink.
        noise_norm = spherical_norm if problem.cost.is_pure else gaussian_norm
        floor = noise_norm((problem.basis_size,) * 2, scale)
        values = np.where(values > floor, values, 0.0)
    return replace(factors, eigenvalues=np.square(values))
