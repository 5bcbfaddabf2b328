"""What a personal regression publishes: a representation, a mean model, and a prior of heads."""

from dataclasses import dataclass, replace

import numpy as np

__all__ = ["Prior", "SharedModel"]


@dataclass(frozen=True)
class Prior:
    """A normal prior of what a user's coefficients add to those of the mean model."""

    # Columns: orthonormal directions in which users differ.
    basis: np.ndarray
    # Of the coordinates in it.
    variances: np.ndarray
    intercept_variance: float
    # Of a response.
    noise_variance: float
    # Share of the variance that is spread evenly over all directions.
    mix: float = 0.0

    @property
    def spread(self) -> float:
        """Variance in each direction at a mix of 1: that of equal trace."""
        return float(self.variances.sum()) / len(self.basis)

    def changed(self, mix: float, noise_factor: float) -> "Prior":
        """Return the prior of another mix, its noise variance multiplied by a factor."""
        return replace(self, mix=mix, noise_variance=noise_factor * self.noise_variance)

    def root(self) -> np.ndarray:
        """Return a root of the covariance: one column a component or, with a mix, symmetric."""
        if self.mix == 0:
            return self.basis * np.sqrt(self.variances)
        outside = self.mix * self.spread
        inside = np.sqrt((1 - self.mix) * self.variances + outside)
        symmetric = (self.basis * (inside - np.sqrt(outside))) @ self.basis.T
        symmetric[np.diag_indices(len(symmetric))] += np.sqrt(outside)
        return symmetric


@dataclass(frozen=True)
class SharedModel:
    """All that is released; the prior and the mean head are about whitened and centered rows."""

    center: np.ndarray
    response_center: float
    # What centered rows are multiplied by; None for nothing.
    whitening: np.ndarray | None
    mean_head: np.ndarray
    prior: Prior
    # How far the weakest component stands out from the noise.
    snr: float
    warnings: tuple[str, ...] = ()
