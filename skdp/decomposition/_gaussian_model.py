"""The Gaussian model of probabilistic PCA: a low-rank covariance plus isotropic noise.

References
----------
M. E. Tipping, C. M. Bishop (1999). "Probabilistic principal component analysis". Journal of the
Royal Statistical Society B 61(3). :doi:`10.1111/1467-9868.00196`
"""

from typing import Any

import numpy as np
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from skdp.privacy.clipping import SMALLEST_BOUND

__all__ = ["GaussianModelMixin", "check_center"]


class GaussianModelMixin:
    """Coordinates and likelihood of rows under released components, variances and mean."""

    components_: np.ndarray
    explained_variance_: np.ndarray
    mean_: np.ndarray
    noise_variance_: float
    whiten: bool

    def get_covariance(self) -> np.ndarray:
        """Covariance of the probabilistic model: components and isotropic noise.

        Returns
        -------
        ndarray of shape (n_features, n_features)
            Model covariance. Covered by the guarantee.
        """
        check_is_fitted(self)
        return _covariance(self.components_, self.explained_variance_, self.noise_variance_)

    def get_precision(self) -> np.ndarray:
        """Inverse of the model covariance.

        Returns
        -------
        ndarray of shape (n_features, n_features)
            Model precision. Covered by the guarantee.
        """
        check_is_fitted(self)
        return _precision(self.components_, self.explained_variance_, self.noise_variance_)

    def score_samples(self, X: Any) -> np.ndarray:
        """Log-likelihood of each row under the probabilistic model.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; what is returned is not covered by the guarantee.

        Returns
        -------
        ndarray of shape (n_samples,)
            Log-likelihoods.
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=(np.float64, np.float32), reset=False)
        X = self._as_decomposed(X)  # type: ignore[attr-defined]
        return _log_likelihood(X - self.mean_, self.get_precision())

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-likelihood of rows under the probabilistic model.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; what is returned is not covered by the guarantee.
        y : None
            Ignored.

        Returns
        -------
        float
            Mean log-likelihood.
        """
        return float(np.mean(self.score_samples(X)))

    def _project(self, X: Any) -> np.ndarray:
        scores = super()._project(X) - self.mean_ @ self.components_.T  # type: ignore[misc]
        return np.asarray(scores / self._scales() if self.whiten else scores)

    def _restore(self, scores: np.ndarray) -> np.ndarray:
        if self.whiten:
            scores = scores * self._scales()
        return super()._restore(scores) + self.mean_  # type: ignore[misc]

    def _scales(self) -> np.ndarray:
        """Return standard deviations for whitening, none below that of the axes left out."""
        smallest = max(self.noise_variance_, np.finfo(self.explained_variance_.dtype).eps)
        return np.sqrt(np.maximum(self.explained_variance_, smallest))


def _covariance(components: np.ndarray, variances: np.ndarray, noise_variance: float) -> np.ndarray:
    """Covariance with the given variances along the components and `noise_variance` elsewhere."""
    excess = np.maximum(variances - noise_variance, 0.0)
    model = (components.T * excess) @ components
    model.flat[:: len(model) + 1] += noise_variance
    return model


def _precision(components: np.ndarray, variances: np.ndarray, noise_variance: float) -> np.ndarray:
    """Invert `_covariance`, by the orthonormality of the components where there is noise."""
    if noise_variance == 0 or len(components) == components.shape[1]:
        return np.linalg.inv(_covariance(components, variances, noise_variance))
    shrinkage = 1 - noise_variance / np.maximum(variances, noise_variance)
    inverse = -(components.T * shrinkage) @ components
    inverse.flat[:: len(inverse) + 1] += 1.0
    return inverse / noise_variance


def _log_likelihood(centered: np.ndarray, inverse: np.ndarray) -> np.ndarray:
    """Log density of each centred row under N(0, inverse ** -1)."""
    quadratic = np.einsum("ij,ij->i", centered @ inverse, centered)
    log_volume = len(inverse) * np.log(2 * np.pi) - np.linalg.slogdet(inverse)[1]
    return -0.5 * (quadratic + log_volume)


def check_center(center: Any, n_features: int) -> None:
    """Refuse a public centre that does not fit the rows."""
    if isinstance(center, str) or center is False:
        return
    center = check_array(center, ensure_2d=False, dtype=np.float64, input_name="center")
    if np.abs(center).max(initial=0.0) > 1 / SMALLEST_BOUND:
        raise ValueError(f"center must not exceed {1 / SMALLEST_BOUND} in size.")
    if center.shape != (n_features,):
        raise ValueError(f"center has shape {center.shape}, but X has {n_features} features.")
