"""What every solver gives back."""

from dataclasses import dataclass

import numpy as np

__all__ = ["Factors"]


@dataclass(frozen=True)
class Factors:  # numpydoc ignore=PR02
    """Released second moment of the rows, decomposed.

    Parameters
    ----------
    components : ndarray of shape (n_eigenvalues, n_features)
        Orthonormal directions, by descending eigenvalue.
    eigenvalues : ndarray of shape (n_eigenvalues,)
        Eigenvalues of the second moment (a sum, not a mean) along them, not negative.
    total : float
        Noisy trace of the second moment; may be below the sum of the eigenvalues.
    noise_scale : float
        Standard deviation of the noise in an eigenvalue.
    n_above_noise : int
        How many components stand out from what noise alone would give.
    """

    components: np.ndarray
    eigenvalues: np.ndarray
    total: float
    noise_scale: float
    n_above_noise: int
