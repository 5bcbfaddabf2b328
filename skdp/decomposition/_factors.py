"""What every solver returns."""

from dataclasses import dataclass, field, replace

import numpy as np

from skdp.linalg.spectrum import deterministic_signs


@dataclass(frozen=True)
class Factors:
    """Released second moment of the rows, decomposed."""

    components: np.ndarray  # (n_eigenvalues, n_features), orthonormal, by descending eigenvalue
    eigenvalues: np.ndarray  # of the second moment (a sum, not a mean), not negative
    total: float  # noisy trace of the second moment; may be below the sum of the eigenvalues
    # Standard deviation of the noise in an eigenvalue. If noise was added to a matrix and not to
    # its second moment, the variance of the noise in a singular value.
    eigenvalue_noise: float
    n_above_noise: int  # components that stand out from noise alone
    # (n_rows, n_eigenvalues), singular vectors, if they may be published
    left: np.ndarray | None = None
    failed: bool = False  # a basis exceeded the coherence bound and ended the iteration
    mean: np.ndarray = field(default_factory=lambda: np.zeros(0))  # as released, or a public center
    mean_noise_variance: float = 0.0  # of an entry; 0 if the mean is the center itself
    row_norm: float | None = None  # bound that the rows were clipped to, if any
    left_signal: float = 1.0  # largest part of a left vector's squared length that is not noise

    def leading(self, n_components: int) -> "Factors":
        """Keep the first components; flip them and their left vectors to deterministic signs."""
        components = self.components[:n_components]
        signs = deterministic_signs(components)
        return replace(
            self,
            components=components * signs[:, np.newaxis],
            eigenvalues=self.eigenvalues[:n_components],
            left=None if self.left is None else self.left[:, :n_components] * signs,
        )
