"""Noise on every entry of the matrix; decomposing the noisy matrix costs no more privacy.

References
----------
A. Blum, C. Dwork, F. McSherry, K. Nissim (2005). "Practical privacy: the SuLQ framework". PODS.
:doi:`10.1145/1065167.1065184`
"""

import numpy as np

from skdp.decomposition._entries.above_noise import gaussian_norm
from skdp.decomposition._entries.noisy_matrix import NoisyMatrix
from skdp.decomposition._factors import Factors
from skdp.linalg.denoising import are_mostly_signal, debiased
from skdp.privacy import Release


def solve_input(matrix: NoisyMatrix, entries: Release, n_components: int) -> Factors:
    """Decompose the noisy matrix: time O(m n min(m, n)), memory O(m n), even for sparse rows."""
    noisy, noise_std = matrix.with_noise(entries)
    left, singular_values, right = np.linalg.svd(noisy, full_matrices=False)
    singular_values = singular_values[:n_components]
    cleaned = debiased(singular_values, noise_std, noisy.shape)
    stands_out = singular_values > gaussian_norm(noisy.shape, noise_std)
    stands_out &= are_mostly_signal(cleaned, noise_std, noisy.shape)
    return matrix.factors(
        left[:, :n_components],
        cleaned,
        right[:n_components].T,
        noise_std=noise_std,
        n_above_noise=int(np.sum(stands_out)),
    )
