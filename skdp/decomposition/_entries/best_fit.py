"""Singular factors whose product approximates the matrix best, given noisy singular vectors."""

from dataclasses import replace
from typing import Any

import numpy as np

from skdp.decomposition._entries.above_noise import gaussian_norm, spherical_norm
from skdp.decomposition._entries.fit import solve_entries
from skdp.decomposition._factors import Factors
from skdp.decomposition._problem import EntriesProblem
from skdp.linalg.singular_values import shrunk

__all__ = ["solve_best_fit"]


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
