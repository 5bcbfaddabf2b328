"""What released components do with rows: projections, reconstructions, and factors of streams."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skdp._checks import INPUT, by_chunks, check_numbers, check_transformed, in_parts, transformed
from skdp.data.containers import checked_container, finite
from skdp.data.parts import NOT_FINITE
from skdp.data.rows import Rows
from skdp.data.sources import as_source
from skdp.privacy import PrivacySpent


class Projection(NamedTuple):
    """The map from rows to coordinates and back, for arrays and CSR matrices.

    It holds nothing else of a fit.
    """

    components: np.ndarray
    normalize: Callable[[Any], Any] | None = None  # what the unit does to rows first
    mean: np.ndarray | None = None
    stds: np.ndarray | None = None  # that coordinates are divided by

    def apply(self, X: Any) -> np.ndarray:
        """Project rows; finite ones may overflow, and stay finite all the same."""
        with np.errstate(all="ignore"):
            rows = X if self.normalize is None else self.normalize(X)
            scores = np.asarray(rows @ self.components.T)
            if self.mean is not None:
                scores = scores - self.mean @ self.components.T
            return finite(scores if self.stds is None else scores / self.stds)

    def undo(self, scores: np.ndarray) -> np.ndarray:
        """Map coordinates back."""
        with np.errstate(all="ignore"):
            scores = scores if self.stds is None else scores * self.stds
            rows = np.asarray(scores @ self.components)
            return finite(rows if self.mean is None else rows + self.mean)


class ReconstructionMixin:
    """Products of released factors: `left_components_`, `singular_values_`, `components_`."""

    left_components_: np.ndarray
    singular_values_: np.ndarray
    components_: np.ndarray

    def reconstruct(self, rows: Any = None, columns: Any = None) -> np.ndarray:
        """Compute entries of the released approximation of X. Covered by the guarantee.

        Parameters
        ----------
        rows, columns : int, slice, array-like or None, default=None
            Which rows and columns, as numpy indexes an axis; ``None`` takes all.

        Returns
        -------
        ndarray of shape (n_rows, n_columns)
            The product of the three factors there; an axis that is indexed by an int is dropped.

        Raises
        ------
        IndexError
            If there are no such rows or columns.
        """
        if hasattr(self, "fit"):
            check_is_fitted(self)
        left = _indexed(self.left_components_, rows, "rows") * self.singular_values_
        return np.asarray(left @ _indexed(self.components_.T, columns, "columns").T)

    def score(self, X: Any, y: Any = None) -> float:
        """Return minus the mean squared entry of rows outside the span of the components.

        The score rises with every component, even with one that is noise. To see how many are worth
        keeping, look at `singular_values_`, which are 0 for the others. The score is a noise-free
        function of the rows passed in, which the guarantee does not cover.

        Parameters
        ----------
        X : {array-like, sparse matrix, RowBlocks, dask collection} of shape (n_samples, n_features)
            Rows.
        y : None
            Ignored.

        Returns
        -------
        float
            Minus the mean of the squared entries of ``X - X @ V @ V.T``; larger is better.
        """
        X, _ = in_parts(X)
        scores = self.transform(X)  # type: ignore[attr-defined]
        checked = check_transformed(X, self.components_.shape[1], type(self).__name__)
        (squares, _), (inside, _) = (Rows(as_source(of)).squared_norm() for of in (checked, scores))
        # Rows in blocks have been read by now: those that are not finite became NaN.
        if np.isnan(inside):
            raise ValueError(NOT_FINITE)
        return -max(squares - inside, 0.0) / (checked.shape[0] * checked.shape[1])


def _indexed(factor: np.ndarray, which: Any, name: str) -> np.ndarray:
    """Index rows of a factor; errors do not name the index, which may come from private data."""
    if which is None:
        return factor
    which = checked_container(which)
    with suppress(Exception):
        return np.asarray(factor[which])
    raise IndexError(f"{name} must be indices, slices or masks of an axis of length {len(factor)}.")


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
        rows = check_transformed(X, n_features, type(self).__name__)
        return transformed(rows, Projection(self.components_).apply, size)

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
