"""What every solver gives back."""

from dataclasses import dataclass, field, replace

import numpy as np

from skdp.linalg.subspace import deterministic_signs

__all__ = ["Factors"]


@dataclass(frozen=True)
class Factors:
    """Released second moment of the rows, decomposed."""

    components: np.ndarray  # (n_eigenvalues, n_features), orthonormal, by descending eigenvalue
    eigenvalues: np.ndarray  # of the second moment (a sum, not a mean), not negative
    total: float  # noisy trace of the second moment; may be below the sum of the eigenvalues
    # Standard deviation of an eigenvalue; where noise is on a matrix itself and not on its second
    # moment, the square of that of a singular value.
    eigenvalue_noise: float
    n_above_noise: int  # components that stand out from what noise alone would give
    # (n_rows, n_eigenvalues), singular vectors, if they may be published
    left: np.ndarray | None = None
    failed: bool = False  # a basis exceeded the coherence bound and ended the iteration
    mean: np.ndarray = field(default_factory=lambda: np.zeros(0))  # as released, or a public center
    mean_noise_variance: float = 0.0  # variance in each mean, beside what the factors are about
    row_norm: float | None = None  # what the rows were clipped to in norm, if to anything
    left_signal: float = 1.0  # part of the best left vector's product that is not noise

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
