"""Released factors of both sides of a matrix, as streams return them."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from skdp._checks import INPUT, by_chunks, check_numbers, check_rows, check_width
from skdp.data.parts import RowBlocks, transformed_blocks
from skdp.data.rows import Rows
from skdp.data.sources import as_source
from skdp.decomposition._projection import Projection
from skdp.decomposition._reconstruction import ReconstructionMixin
from skdp.privacy import PrivacySpent


@dataclass(frozen=True, eq=False)
class LowRankFactors(ReconstructionMixin):  # numpydoc ignore=PR02
    """Low-rank factors of a private matrix, as released.

    :meth:`DPStreamingFactorizer.finalize` and :meth:`DPContinualFactorizer.release` return them.

    Parameters
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Right singular vectors.
    singular_values_ : ndarray of shape (n_components,)
        Lengths of the approximation along the factors; 0 where nothing stands out from noise.
    left_components_ : ndarray of shape (n_samples, n_components)
        Left singular vectors.
    privacy_spent_ : PrivacySpent
        Record of every release.

    Notes
    -----
    **Privacy.** All attributes are covered by the guarantee of the stream, and so is a pickle.
    """

    components_: np.ndarray
    singular_values_: np.ndarray
    left_components_: np.ndarray
    privacy_spent_: PrivacySpent

    @by_chunks
    def transform(self, X: Any) -> Any:
        """Project rows on the components.

        A noise-free function of the rows passed in, which the guarantee does not cover.

        Parameters
        ----------
        X : {array-like, sparse matrix, RowBlocks, dask collection} of shape (n_samples, n_features)
            Rows to project.

        Returns
        -------
        ndarray, RowBlocks or dask array of shape (n_samples, n_components)
            Coordinates of the rows; those of blocks or chunks are computed when they are read.
        """
        size, n_features = self.components_.shape
        if not isinstance(X, RowBlocks):
            X = check_rows(X, type(self).__name__)
        check_width(X, n_features)
        if isinstance(X, RowBlocks):
            return transformed_blocks(X, Projection(self.components_).apply, size)
        return Rows(as_source(X)).matmul(self.components_.T)

    def inverse_transform(self, X: Any) -> np.ndarray:
        """Map coordinates back to the space of the rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
            Coordinates.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Rows in the span of the components.
        """
        coordinates = check_numbers(X, "X", dtype=INPUT["dtype"], ensure_2d=False)
        return np.asarray(coordinates @ self.components_)

    def __repr__(self) -> str:
        n_rows, size = self.left_components_.shape
        return f"LowRankFactors(shape={(n_rows, self.components_.shape[1])}, n_components={size})"
