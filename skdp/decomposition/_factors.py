"""What every solver gives back."""

from dataclasses import dataclass, field, replace

import numpy as np

from skdp.linalg.subspace import deterministic_signs

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
    left : ndarray of shape (n_rows, n_eigenvalues) or None, default=None
        Left singular vectors; of a symmetric matrix the components with the signs of its
        eigenvalues. None where there are none that may be published.
    failed : bool, default=False
        Whether a basis exceeded the coherence bound, so that the iteration ended early.
    mean : ndarray of shape (n_features,)
        Means of the columns as released, or a public centre.
    mean_noise : float, default=0.0
        Variance of the noise in each mean, beside what the factors are about.
    row_norm : float or None, default=None
        What the rows were clipped to; None where they were not clipped in norm.
    left_signal : float, default=1.0
        How much of what the left vectors stem from is not noise, at the best of them.
    """

    components: np.ndarray
    eigenvalues: np.ndarray
    total: float
    noise_scale: float
    n_above_noise: int
    left: np.ndarray | None = None
    failed: bool = False
    mean: np.ndarray = field(default_factory=lambda: np.zeros(0))
    mean_noise: float = 0.0
    row_norm: float | None = None
    left_signal: float = 1.0

    def leading(self, n_components: int) -> "Factors":
        """Keep the first components, and flip them with their left vectors by the rule of signs."""
        components = self.components[:n_components]
        signs = deterministic_signs(components)
        return replace(
            self,
            components=components * signs[:, np.newaxis],
            eigenvalues=self.eigenvalues[:n_components],
            left=None if self.left is None else self.left[:, :n_components] * signs,
        )
