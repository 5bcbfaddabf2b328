"""The noisy second moment of rows, and what its spectrum tells."""

from collections.abc import Callable

import numpy as np

from skdp.data.rows import Rows
from skdp.decomposition._factors import Factors
from skdp.linalg.spectrum import denoise_eigenvalues, noise_edge
from skdp.privacy import PrivacyBudget, Released, sensitivity

__all__ = ["Decomposition", "decompose", "release_moment"]

#: What makes factors of a released second moment and the scale of its noise.
Decomposition = Callable[..., Factors]


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
    """Decompose a released second moment; it and its scale are relative to `squared_bound`."""
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
