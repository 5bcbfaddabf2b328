"""The Gaussian model of probabilistic PCA: a low-rank covariance plus isotropic noise.

References
----------
M. E. Tipping, C. M. Bishop (1999). "Probabilistic principal component analysis". Journal of the
Royal Statistical Society B 61(3). :doi:`10.1111/1467-9868.00196`
"""

import numpy as np

__all__ = ["covariance", "log_likelihood", "precision"]


def covariance(components: np.ndarray, variances: np.ndarray, noise_variance: float) -> np.ndarray:
    """Covariance with the given variances along the components and `noise_variance` elsewhere."""
    excess = np.maximum(variances - noise_variance, 0.0)
    model = (components.T * excess) @ components
    model.flat[:: len(model) + 1] += noise_variance
    return model


def precision(components: np.ndarray, variances: np.ndarray, noise_variance: float) -> np.ndarray:
    """Inverse of `covariance`, by the orthonormality of the components where there is noise."""
    if noise_variance == 0 or len(components) == components.shape[1]:
        return np.linalg.inv(covariance(components, variances, noise_variance))
    shrinkage = 1 - noise_variance / np.maximum(variances, noise_variance)
    inverse = -(components.T * shrinkage) @ components
    inverse.flat[:: len(inverse) + 1] += 1.0
    return inverse / noise_variance


def log_likelihood(centered: np.ndarray, inverse: np.ndarray) -> np.ndarray:
    """Log density of each centred row under N(0, inverse ** -1)."""
    quadratic = np.einsum("ij,ij->i", centered @ inverse, centered)
    log_volume = len(inverse) * np.log(2 * np.pi) - np.linalg.slogdet(inverse)[1]
    return -0.5 * (quadratic + log_volume)
