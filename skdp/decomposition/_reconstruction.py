"""Reconstruction and score from released factors of both sides of a matrix."""

from contextlib import suppress
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skdp._checks import check_rows, in_parts
from skdp.data.containers import checked_container
from skdp.data.parts import NOT_FINITE, RowBlocks
from skdp.data.rows import Rows
from skdp.data.sources import as_source


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
        checked = X if isinstance(X, RowBlocks) else check_rows(X, type(self).__name__)
        (squares, _), (inside, _) = (Rows(as_source(of)).squared_norm() for of in (checked, scores))
        if isinstance(X, RowBlocks) and not np.isfinite(inside):
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
