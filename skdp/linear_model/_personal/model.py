"""The released model: a representation, a mean model, and a prior of heads."""

from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class Prior:
    """A normal prior of a user's coefficients and intercept, for centered and whitened rows."""

    # Coefficients of the mean model.
    mean: np.ndarray
    # Columns: orthonormal directions in which users differ.
    basis: np.ndarray
    # Variances of the coordinates in the basis.
    variances: np.ndarray
    intercept_variance: float
    # Variance of the noise of a response.
    noise_variance: float
    # Share of the variance that is spread evenly over all directions.
    mix: float = 0.0

    @property
    def spread(self) -> float:
        """Variance in each direction at a mix of 1, which leaves the trace the same."""
        return float(self.variances.sum()) / len(self.basis)

    def changed(self, mix: float, noise_factor: float) -> "Prior":
        """Return the prior with another mix, and its noise variance multiplied by a factor."""
        return replace(self, mix=mix, noise_variance=noise_factor * self.noise_variance)

    def root(self) -> np.ndarray:
        """Return a root of the covariance: a column per component or, with a mix, symmetric."""
        if self.mix == 0:
            return self.basis * np.sqrt(self.variances)
        outside = self.mix * self.spread
        inside = np.sqrt((1 - self.mix) * self.variances + outside)
        symmetric = (self.basis * (inside - np.sqrt(outside))) @ self.basis.T
        symmetric[np.diag_indices(len(symmetric))] += np.sqrt(outside)
        return symmetric


@dataclass(frozen=True)
class SharedModel:
    """All that is released."""

    center: np.ndarray
    response_center: float
    # Centered rows are multiplied by it; None for the identity.
    whitening: np.ndarray | None
    prior: Prior
    # How far the weakest component stands out, in units of the largest eigenvalue of the noise.
    snr: float
    warnings: tuple[str, ...] = ()
