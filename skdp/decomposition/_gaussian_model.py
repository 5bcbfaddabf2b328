"""The Gaussian model of probabilistic PCA: a low-rank covariance plus isotropic noise.

References
----------
M. E. Tipping, C. M. Bishop (1999). "Probabilistic principal component analysis". Journal of the
Royal Statistical Society B 61(3). :doi:`10.1111/1467-9868.00196`
"""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skdp._checks import by_chunks, check_features, check_numbers, check_rows_of, in_parts
from skdp.data.parts import PartResults, RowBlocks
from skdp.data.sources import sum_of_results
from skdp.decomposition._projection import Projection


class GaussianModelMixin:
    """Coordinates and likelihood of rows under released components, variances and mean."""

    components_: np.ndarray
    explained_variance_: np.ndarray
    mean_: np.ndarray
    noise_variance_: float
    whiten: bool
    n_jobs: int | None

    def get_covariance(self) -> np.ndarray:
        """Covariance of the probabilistic model: components and isotropic noise.

        Returns
        -------
        ndarray of shape (n_features, n_features)
            Model covariance. Covered by the guarantee.
        """
        check_is_fitted(self)
        excess = np.maximum(self.explained_variance_ - self.noise_variance_, 0.0)
        covariance = (self.components_.T * excess) @ self.components_
        covariance.flat[:: len(covariance) + 1] += self.noise_variance_
        return np.asarray(covariance)

    def get_precision(self) -> np.ndarray:
        """Inverse of the model covariance, with no variance below the rounding of the largest.

        Returns
        -------
        ndarray of shape (n_features, n_features)
            Model precision. Covered by the guarantee.
        """
        check_is_fitted(self)
        along, outside = self._model_variances()
        # Takes an explicit basis of the orthogonal complement. The identity less the components has
        # a rounding error, and dividing by a small variance outside would blow this up.
        rest = np.linalg.qr(self.components_.T, mode="complete")[0][:, len(along) :]
        precision = (self.components_.T / along) @ self.components_ + rest @ rest.T / outside
        return np.asarray((precision + precision.T) / 2)

    @by_chunks
    def score_samples(self, X: Any) -> Any:
        """Log-likelihood of each row under the probabilistic model.

        Parameters
        ----------
        X : {array-like, RowBlocks, dask collection} of shape (n_samples, n_features)
            Rows; what is returned is not covered by the guarantee.

        Returns
        -------
        ndarray, PartResults or dask array of shape (n_samples,)
            Log-likelihoods; those of blocks or chunks are computed when they are read.
        """
        check_is_fitted(self)
        if not isinstance(X, RowBlocks):
            return self._log_likelihoods(check_rows_of(X, self, accept_sparse=False))
        check_features(X, self)
        return PartResults(X, self._of_block, X.shape[:1], np.float64)

    def _of_block(self, block: Any) -> np.ndarray:
        return self._log_likelihoods(check_numbers(block, "X"))

    def _log_likelihoods(self, X: np.ndarray) -> np.ndarray:
        X = self._as_decomposed(X)  # type: ignore[attr-defined]
        centered = X - self.mean_.astype(np.float64)
        # Does without the precision, whose entries cancel if the model is degenerate.
        scores = centered @ self.components_.T
        rest = centered - scores @ self.components_
        along, outside = self._model_variances()
        n_outside = centered.shape[1] - len(along)
        squares = np.square(scores) @ (1 / along) + np.square(rest).sum(axis=1) / outside
        log_volume = np.log(2 * np.pi * along).sum() + n_outside * np.log(2 * np.pi * outside)
        return np.asarray(-0.5 * (squares + log_volume))

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-likelihood of rows under the probabilistic model.

        Parameters
        ----------
        X : {array-like, RowBlocks, dask collection} of shape (n_samples, n_features)
            Rows; what is returned is not covered by the guarantee.
        y : None
            Ignored.

        Returns
        -------
        float
            Mean log-likelihood.
        """
        X, _ = in_parts(X)
        scores = self.score_samples(X)
        if isinstance(scores, PartResults):
            return float(sum_of_results(scores, _total, 1, self.n_jobs)) / len(scores)
        return float(np.mean(scores))

    @property
    def _projection(self) -> Projection:
        stds = self._whitening_stds() if self.whiten else None
        return super()._projection._replace(mean=self.mean_, stds=stds)  # type: ignore[misc]

    def _model_variances(self) -> tuple[np.ndarray, float]:
        """Return the variances along the components, and the variance outside.

        No variance is below the rounding error of the largest, so that even a degenerate model has
        a likelihood.
        """
        variances = self.explained_variance_.astype(np.float64)
        largest = max(float(variances.max()), self.noise_variance_) or 1.0
        rounding = np.finfo(self.components_.dtype).eps * largest
        smallest = max(self.noise_variance_, rounding, np.finfo(np.float64).tiny)
        along = np.maximum(variances, smallest)
        is_whole = len(along) == self.components_.shape[1]
        return along, float(along.min()) if is_whole else smallest

    def _whitening_stds(self) -> np.ndarray:
        """Return standard deviations for whitening, at least that of the noise variance."""
        smallest = max(self.noise_variance_, np.finfo(self.explained_variance_.dtype).eps)
        return np.sqrt(np.maximum(self.explained_variance_, smallest))


def _total(_: slice, scores: np.ndarray) -> np.ndarray:
    return np.asarray(scores.sum())
