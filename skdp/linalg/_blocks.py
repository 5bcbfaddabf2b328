"""One block of centred and weighted rows, dense or sparse, with the products that sums need."""

from typing import Protocol

import numpy as np
from scipy.sparse import csr_array

__all__ = ["Block", "DenseBlock", "SparseBlock"]


class Block(Protocol):
    """Rows ``weight * (row - center)`` of a block, in float64."""

    def total(self) -> np.ndarray:
        """Sum the rows."""

    def gram(self) -> np.ndarray:
        """Sum the outer products of the rows."""

    def matmul(self, right: np.ndarray) -> np.ndarray:
        """Multiply the rows by `right`."""

    def adjoint(self, left: np.ndarray) -> np.ndarray:
        """Multiply the transposed rows by `left`."""


class DenseBlock:
    """Rows written out."""

    def __init__(
        self,
        values: np.ndarray,
        center: np.ndarray | None,
        weights: np.ndarray | None,
    ) -> None:
        values = values.astype(np.float64, copy=center is not None or weights is not None)
        if center is not None:
            values -= center
        if weights is not None:
            values *= weights[:, None]
            # An infinite entry times a weight of 0 would be NaN.
            values[weights == 0] = 0.0
        self._values = values

    def total(self) -> np.ndarray:
        """Sum the rows."""
        return self._values.sum(axis=0)

    def gram(self) -> np.ndarray:
        """Sum the outer products of the rows."""
        return self._values.T @ self._values

    def matmul(self, right: np.ndarray) -> np.ndarray:
        """Multiply the rows by `right`."""
        return self._values @ right

    def adjoint(self, left: np.ndarray) -> np.ndarray:
        """Multiply the transposed rows by `left`."""
        return self._values.T @ left


class SparseBlock:
    """Rows that stay sparse; the centre is subtracted from the products instead."""

    def __init__(
        self,
        rows: csr_array,
        center: np.ndarray | None,
        weights: np.ndarray | None,
    ) -> None:
        data = rows.data.astype(np.float64, copy=False)
        if weights is not None:
            per_entry = np.repeat(weights, np.diff(rows.indptr))
            data = data * per_entry
        self._rows = csr_array((data, rows.indices, rows.indptr), shape=rows.shape)
        self._center = center
        self._weights = np.ones(rows.shape[0]) if weights is None else weights

    def total(self) -> np.ndarray:
        """Sum the rows."""
        total = self._rows.T @ np.ones(self._rows.shape[0])
        return total if self._center is None else total - self._weights.sum() * self._center

    def gram(self) -> np.ndarray:
        """Sum the outer products of the rows."""
        gram = (self._rows.T @ self._rows).toarray()
        if self._center is not None:
            # (A - w m')' (A - w m') with the shift m' taken out of both sides.
            cross = np.outer(self._rows.T @ self._weights, self._center)
            gram -= cross + cross.T
            gram += (self._weights @ self._weights) * np.outer(self._center, self._center)
        return gram

    def matmul(self, right: np.ndarray) -> np.ndarray:
        """Multiply the rows by `right`."""
        product = self._rows @ right
        if self._center is not None:
            product -= self._weights[:, None] * (self._center @ right)
        return product

    def adjoint(self, left: np.ndarray) -> np.ndarray:
        """Multiply the transposed rows by `left`."""
        product = self._rows.T @ left
        if self._center is not None:
            product -= np.outer(self._center, self._weights @ left)
        return product
