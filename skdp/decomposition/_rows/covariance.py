"""Noisy second moment: Analyze Gauss with noise isotropic in the Frobenius inner product.

One release of the d x d matrix of second moments; its whole spectrum is free post-processing.

References
----------
C. Dwork, K. Talwar, A. Thakurta, L. Zhang (2014). "Analyze Gauss: optimal bounds for
privacy-preserving principal component analysis". STOC. :doi:`10.1145/2591796.2591883`
"""

import numpy as np

from skdp.data.rows import Rows
from skdp.decomposition._factors import Factors
from skdp.linalg.spectrum import denoise_eigenvalues, noise_edge
from skdp.privacy import PrivacyBudget, Released, sensitivity

__all__ = ["decompose", "release_moment", "solve_covariance"]


def solve_covariance(rows: Rows, budget: PrivacyBudget) -> Factors:
    """Decompose a noisy second moment of `rows`, clipped to ``rows.bound``.

    Time O(n d^2 + d^3), memory O(d^2) beside a few blocks of rows.
    """
    noisy, scale = release_moment(rows, budget, rows.gram(), name="second moment")
    return decompose(noisy, scale)


def release_moment(
    rows: Rows, budget: PrivacyBudget, moment: tuple[np.ndarray, float], *, name: str
) -> Released:
    """Release the second moment of `rows`, given with its rounding."""
    exact, rounding = moment
    return budget.symmetric_gaussian(
        name,
        exact,
        sensitivity=sensitivity.second_moment(rows.bound, budget.adjacency, rounding),
    )


def decompose(noisy: np.ndarray, scale: float, squared_bound: float = 1.0) -> Factors:
    """Decompose a released second moment whose noise has the given scale.

    Both are relative to `squared_bound`.
    """
    eigenvalues, vectors = np.linalg.eigh(noisy)
    eigenvalues = eigenvalues[::-1]
    entry_scale = scale * np.sqrt(0.5)
    return Factors(
        components=vectors.T[::-1],
        eigenvalues=squared_bound * denoise_eigenvalues(eigenvalues, entry_scale),
        total=squared_bound * float(eigenvalues.sum()),
        noise_scale=squared_bound * scale,
        n_above_noise=int(np.sum(eigenvalues > noise_edge(entry_scale, len(eigenvalues)))),
    )
