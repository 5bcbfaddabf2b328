"""Noise on every entry of the matrix, whose singular value decomposition is then free.

References
----------
A. Blum, C. Dwork, F. McSherry, K. Nissim (2005). "Practical privacy: the SuLQ framework". PODS.
:doi:`10.1145/1065167.1065184`
"""

import numpy as np

from skdp.decomposition._factors import Factors
from skdp.decomposition._products.above_noise import gaussian_norm
from skdp.decomposition._products.noisy_matrix import NoisyMatrix
from skdp.linalg.singular_values import are_mostly_signal, debiased
from skdp.privacy import Release

__all__ = ["solve_input"]


def solve_input(matrix: NoisyMatrix, entries: Release, n_components: int) -> Factors:
    """Decompose the noisy matrix: time O(m n min(m, n)), memory O(m n), also of sparse rows."""
    noisy, scale = matrix.perturbed(entries)
    left, singular_values, right = np.linalg.svd(noisy, full_matrices=False)
    seen = singular_values[:n_components]
    cleaned = debiased(seen, scale, noisy.shape)
    is_found = seen > gaussian_norm(noisy.shape, scale)
    is_found &= are_mostly_signal(cleaned, scale, noisy.shape)
    return matrix.factors(
        left[:, :n_components],
        cleaned,
        right[:n_components].T,
        noise_scale=scale,
        n_above_noise=int(np.sum(is_found)),
    )
