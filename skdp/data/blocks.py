"""One block of rows ``weight * (row - center)``, dense or sparse, with the products of sums."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Self, TypeAlias

import numpy as np
from scipy.sparse import csr_array

from skdp.data.finite import not_finite_rows
from skdp.linalg.norms import (
    centered_sparse_norms,
    row_norms,
    sparse_row_norms,
    transposed,
    with_data,
)

# Numbers that are worked on at a time, to stay in cache: half a megabyte.
_PART = 1 << 16  # not studied


#: Maps an array of norms to the weights of the rows.
Weighting = Callable[[np.ndarray], np.ndarray]


class _BaseBlock(ABC):
    """The `raw` rows of a source, centered and weighted; rows that `is_null` marks add nothing."""

    def __init__(self, raw: Any) -> None:
        self.raw = raw
        self.is_null = np.zeros(raw.shape[0], dtype=bool)
        self._weights, self._is_weighted = np.ones(raw.shape[0]), False
        self._norms: np.ndarray | None = None

    def norms(self) -> np.ndarray:
        """Compute the norms of the centered rows before weighting, or upper bounds of these."""
        if self._norms is None:
            self._norms = self._computed_norms()
        return self._norms

    def count_not_finite(self) -> np.ndarray:
        """Count the raw rows with an entry that is not finite."""
        # The norm of finite entries may overflow, so the entries have to tell.
        doubted = ~np.isfinite(self.norms())
        return np.asarray(float(not_finite_rows(self.raw[doubted]).sum()))

    def weighted(self, weighting: Weighting, norms: np.ndarray | None = None) -> Self:
        """Weight the rows by their norms, or by given ones; rows with norm NaN are null."""
        block = copy.copy(self)
        block._norms = norms = self.norms() if norms is None else norms
        block.is_null, block._is_weighted = np.isnan(norms), True
        block._weights = np.where(block.is_null, 0.0, weighting(norms))
        if not block._weights.all():
            # Set to 0: a row that is not finite would become NaN, as 0 * inf is NaN.
            block._drop_rows(block._weights == 0)
        return block

    def without(self, is_dropped: np.ndarray) -> Self:
        """Make the rows null that a mask marks."""
        if not is_dropped.any():
            return self
        return self.weighted(lambda _: self._weights, np.where(is_dropped, np.nan, self.norms()))

    def _times_weights(self, values: np.ndarray) -> np.ndarray:
        return self._weights[:, np.newaxis] * values if self._is_weighted else values

    @abstractmethod
    def _computed_norms(self) -> np.ndarray: ...

    @abstractmethod
    def _drop_rows(self, is_dropped: np.ndarray) -> None: ...


class DenseBlock(_BaseBlock):
    """Rows in float64, centered into `scratch` at once, so that their norms are computed in cache.

    Weights are applied to the thin factor of a product. Only `gram` has no thin factor: it weights
    the rows themselves, in `scratch`.
    """

    def __init__(self, raw: np.ndarray, center: np.ndarray | None, scratch: np.ndarray) -> None:
        super().__init__(raw)
        self._scratch = scratch[: len(raw)]
        self._rows = raw
        if center is not None:
            self._rows = np.subtract(raw, center, out=self._scratch)
        elif raw.dtype != np.float64:
            np.copyto(self._scratch, raw)
            self._rows = self._scratch
        self._summed_rows = self._rows

    def are_mostly_positive(self) -> np.ndarray:
        """Tell of each row before weighting whether its sum is at least half of its L1 norm."""
        # In C order, so that the entries of a row are added in one order, whatever its block is.
        rows = np.require(self._rows, requirements=["C", "A"])
        # Part by part, in cache: allocating all absolute values would take longer than the sums.
        parts = np.array_split(rows, rows.size // _PART + 1)
        return np.concatenate(
            [_are_mostly_positive(part.sum(axis=1), np.abs(part).sum(axis=1)) for part in parts]
        )

    def total(self) -> np.ndarray:
        """Sum the rows."""
        rows = self._summed_rows
        return self._weights @ rows if self._is_weighted else rows.sum(axis=0)

    def gram(self) -> np.ndarray:
        """Sum the outer products of the rows, overwriting the rows: no other method may follow."""
        rows = self._summed_rows
        if self._is_weighted:
            rows = np.multiply(rows, self._weights[:, np.newaxis], out=self._scratch)
        return rows.T @ rows

    def dense(self) -> np.ndarray:
        """Return a copy of the rows before weighting."""
        return self._rows.copy()

    def squared_deviations(self, point: np.ndarray) -> np.ndarray:
        """Sum the squared distances of the rows from `point`, each minus that of a zero row."""
        return np.asarray((self._rows * (self._rows - 2 * point)).sum())

    def squared_norm(self) -> np.ndarray:
        """Sum the squared norms of the rows."""
        # Computed from norms: squares of a long row may overflow, even if those of the weighted row
        # do not.
        norms = np.where(self._weights == 0, 0.0, self.norms())
        return np.asarray(np.square(self._weights * norms).sum())

    def matmul(self, right: np.ndarray) -> np.ndarray:
        """Multiply the rows by `right`."""
        # A product with few columns takes two thirds of the time if it is transposed.
        products = self._times_weights(np.ascontiguousarray((right.T @ self._rows.T).T))
        # Set to 0 only afterwards: a changed copy of the rows may have another memory layout, and
        # then the products of all rows could round differently.
        products[self._weights == 0] = 0.0
        return products

    def rmatmul(self, left: np.ndarray) -> np.ndarray:
        """Multiply the transposed rows by `left`."""
        # Transposed, it takes half the time.
        return (self._times_weights(left).T @ self._summed_rows).T

    def _computed_norms(self) -> np.ndarray:
        return row_norms(self._rows)

    def _drop_rows(self, is_dropped: np.ndarray) -> None:
        self._summed_rows = np.where(is_dropped[:, np.newaxis], 0.0, self._rows)


class SparseBlock(_BaseBlock):
    """Rows that stay sparse: the center and the weights are applied to products instead.

    Weights are 0 or at least ``2 ** -500``, so that no significant product overflows or underflows.
    """

    def __init__(self, raw: csr_array, center: np.ndarray | None) -> None:
        super().__init__(raw)
        self._rows, self._center = raw, center

    def are_mostly_positive(self) -> np.ndarray:
        """Tell of each row before centering whether its sum is at least half of its L1 norm."""
        raw, ones = self._rows.astype(np.float64, copy=False), np.ones(self._rows.shape[1])
        return _are_mostly_positive(raw @ ones, abs(raw) @ ones)

    def total(self) -> np.ndarray:
        """Sum the rows."""
        return self.rmatmul(np.ones((self._rows.shape[0], 1)))[:, 0]

    def gram(self) -> np.ndarray:
        """Sum the outer products of the rows."""
        rows = self._weighted_csr()
        gram = (rows.T @ rows).toarray()
        if self._center is not None:
            # (A - w m')' (A - w m') is expanded, for weighted rows A, weights w and center m.
            cross = np.outer(rows.T @ self._weights, self._center)
            gram -= cross + cross.T
            gram += (self._weights @ self._weights) * np.outer(self._center, self._center)
        return gram

    def dense(self) -> np.ndarray:
        """Return the rows before centering and weighting, as an array."""
        return self._rows.toarray()

    def squared_deviations(self, point: np.ndarray) -> np.ndarray:
        """Sum the squared distances of the rows from `point`, each minus that of a zero row."""
        data = self._rows.data.astype(np.float64, copy=False)
        return np.asarray((data * (data - 2 * point[self._rows.indices])).sum())

    def squared_norm(self) -> np.ndarray:
        """Sum the squared norms of the rows."""
        rows = self._weighted_csr()
        total = np.square(rows.data).sum()
        if self._center is not None:
            total -= 2 * (rows.T @ self._weights) @ self._center
            total += (self._weights @ self._weights) * (self._center @ self._center)
        return np.asarray(total)

    def matmul(self, right: np.ndarray) -> np.ndarray:
        """Multiply the rows by `right`."""
        product = self._rows @ right
        if self._center is not None:
            product -= self._center @ right
        return self._times_weights(product)

    def rmatmul(self, left: np.ndarray) -> np.ndarray:
        """Multiply the transposed rows by `left`."""
        left = self._times_weights(left)
        product = transposed(self._rows) @ left
        if self._center is not None:
            product -= np.outer(self._center, left.sum(axis=0))
        return product

    def _computed_norms(self) -> np.ndarray:
        if self._center is None:
            return sparse_row_norms(self._rows)
        return centered_sparse_norms(self._rows, self._center)

    def _drop_rows(self, is_dropped: np.ndarray) -> None:
        self._rows = with_data(self._rows, np.where(self._repeated(is_dropped), 0, self._rows.data))

    def _weighted_csr(self) -> csr_array:
        return with_data(self._rows, self._rows.data * self._repeated(self._weights))

    def _repeated(self, values: np.ndarray) -> np.ndarray:
        return np.repeat(values, np.diff(self._rows.indptr))


def _are_mostly_positive(sums: np.ndarray, l1_norms: np.ndarray) -> np.ndarray:
    # A row of zeros is not mostly positive: it must not count as evidence for positive rows.
    return np.asarray((sums >= l1_norms / 2) & (l1_norms > 0), dtype=np.float64)


Block: TypeAlias = DenseBlock | SparseBlock
