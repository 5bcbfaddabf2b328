"""Noisy second moment: Analyze Gauss with noise isotropic in the Frobenius inner product.

One release of the d x d matrix of second moments; its whole spectrum is free post-processing.

References
----------
C. Dwork, K. Talwar, A. Thakurta, L. Zhang (2014). "Analyze Gauss: optimal bounds for
privacy-preserving principal component analysis". STOC. :doi:`10.1145/2591796.2591883`
"""

from collections.abc import Callable

import numpy as np

from skdp.data.rows import Rows
from skdp.decomposition._factors import Factors
from skdp.linalg.spectrum import denoise_eigenvalues, noise_edge
from skdp.privacy import PrivacyBudget, Release

#: Computes factors from a released second moment and the standard deviation of its noise.
Decomposition = Callable[..., Factors]


def decompose(noisy: np.ndarray, noise_std: float, squared_bound: float = 1.0) -> Factors:
    """Decompose a released second moment; it and its noise are in units of `squared_bound`."""
    eigenvalues, vectors = np.linalg.eigh(noisy)
    eigenvalues = eigenvalues[::-1]
    # Symmetric noise has half the variance off the diagonal, and that moves the eigenvalues.
    off_diagonal_std = noise_std * np.sqrt(0.5)
    return Factors(
        components=vectors.T[::-1],
        eigenvalues=squared_bound * denoise_eigenvalues(eigenvalues, off_diagonal_std),
        total=squared_bound * float(eigenvalues.sum()),
        eigenvalue_noise=squared_bound * noise_std,
        n_above_noise=int(np.sum(eigenvalues > noise_edge(off_diagonal_std, len(eigenvalues)))),
    )


def solve_covariance(
    rows: Rows,
    second_moment: Release,
    budget: PrivacyBudget,
    decomposition: Decomposition = decompose,
) -> Factors:
    """Decompose a noisy second moment of clipped rows: time O(n d^2 + d^3), memory O(d^2)."""
    moment, rounding = rows.gram()
    return decomposition(*budget.release(second_moment, moment, rows.bound, rounding=rounding))
