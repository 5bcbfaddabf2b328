"""The noisy second moment of rows, and what its spectrum tells."""

from collections.abc import Callable

import numpy as np

from skdp.decomposition._factors import Factors
from skdp.linalg.spectrum import denoise_eigenvalues, noise_edge

__all__ = ["Decomposition", "decompose"]

#: What makes factors of a released second moment and the scale of its noise.
Decomposition = Callable[..., Factors]


def decompose(noisy: np.ndarray, noise_std: float, squared_bound: float = 1.0) -> Factors:
    """Decompose a released second moment; it and its scale are relative to `squared_bound`."""
    eigenvalues, vectors = np.linalg.eigh(noisy)
    eigenvalues = eigenvalues[::-1]
    off_diagonal_std = noise_std * np.sqrt(0.5)
    return Factors(
        components=vectors.T[::-1],
        eigenvalues=squared_bound * denoise_eigenvalues(eigenvalues, off_diagonal_std),
        total=squared_bound * float(eigenvalues.sum()),
        eigenvalue_noise=squared_bound * noise_std,
        n_above_noise=int(np.sum(eigenvalues > noise_edge(off_diagonal_std, len(eigenvalues)))),
    )
