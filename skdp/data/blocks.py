"""One block of rows ``weight * (row - center)``, dense or sparse, with the products sums need."""

from typing import TypeAlias

import numpy as np
from scipy.sparse import csc_array, csr_array

from skdp.linalg.norms import centered_sparse_norms, row_norms, sparse_row_norms

__all__ = ["Block", "DenseBlock", "SparseBlock"]

# Numbers, half a megabyte of them.
_PART = 1 << 16  # not studied


class DenseBlock:
    """Rows in float64, centred into `scratch` at once, so that their norms are taken in cache.

    Weights are applied to the thinner factor of a product. Only `gram`, which has none, multiplies
    the rows, in `scratch`.
    """

    def __init__(self, raw: np.ndarray, center: np.ndarray | None, scratch: np.ndarray) -> None:
        self._weights: np.ndarray | None = None
        self.is_null = np.zeros(len(raw), bool)
        self._scratch = scratch[: len(raw)]
        self._rows = raw
        if center is not None:
            self._rows = np.subtract(raw, center, out=self._scratch)
        elif raw.dtype != np.float64:
            self._own_rows()

    def set_weights(self, weights: np.ndarray) -> None:
        """Weight the rows, once; those of no weight are lost, and null where it is NaN."""
        self.is_null = np.isnan(weights)
        self._weights = np.where(self.is_null, 0.0, weights)
        if not self._weights.all():
            # What is not finite would be NaN times a weight of 0.
            self._own_rows()
            self._rows[self._weights == 0] = 0.0

    def norms(self) -> np.ndarray:
        """Compute the norms of the centred rows before weighting."""
        return row_norms(self._rows)

    def are_mostly_positive(self) -> np.ndarray:
        """Tell of each row before weighting whether its sum is at least half of that of sizes."""
        # In one order of the entries, whatever block a row is in.
        rows = np.require(self._rows, requirements=["C", "A"])
        # In parts that stay in cache: fresh memory for all sizes would take longer than the sums.
        parts = np.array_split(rows, rows.size // _PART + 1)
        return np.concatenate(
            [_are_mostly_positive(part.sum(axis=1), np.abs(part).sum(axis=1)) for part in parts]
        )

    def total(self) -> np.ndarray:
        """Sum the rows."""
        return self._rows.sum(axis=0) if self._weights is None else self._weights @ self._rows

    def gram(self) -> np.ndarray:
        """Sum the outer products of the rows, which are weighted from then on."""
        if self._weights is not None:
            self._rows = np.multiply(self._rows, self._weights[:, None], out=self._scratch)
            self._weights = None
        return self._rows.T @ self._rows

    def dense(self) -> np.ndarray:
        """Copy the rows before weighting."""
        return self._rows.copy()

    def squared_deviations(self, point: np.ndarray) -> np.ndarray:
        """Sum the squared distances of the rows from `point`, less those of as many zero rows."""
        return np.asarray((self._rows * (self._rows - 2 * point)).sum())

    def squared_norm(self) -> np.ndarray:
        """Sum the squared norms of the rows."""
        # By norms, since squares of rows whose weight is small might overflow.
        return np.asarray(np.square(self._weighted(self.norms()[:, None])).sum())

    def matmul(self, right: np.ndarray) -> np.ndarray:
        """Multiply the rows by `right`."""
        # Transposed, a product with few columns takes two thirds of the time.
        return self._weighted(np.ascontiguousarray((right.T @ self._rows.T).T))

    def adjoint(self, left: np.ndarray) -> np.ndarray:
        """Multiply the transposed rows by `left`."""
        # This way round it takes half the time.
        return (self._weighted(left).T @ self._rows).T

    def _weighted(self, values: np.ndarray) -> np.ndarray:
        if self._weights is None:
            return values
        return self._weights[:, None] * values

    def _own_rows(self) -> None:
        if self._rows is not self._scratch:
            np.copyto(self._scratch, self._rows)
            self._rows = self._scratch


class SparseBlock:
    """Rows that stay sparse: centre and weights are applied to the products instead.

    Weights are 0 or not below ``2 ** -500``, so that nothing that matters overflows or underflows
    on the way.
    """

    def __init__(self, raw: csr_array, center: np.ndarray | None) -> None:
        self._raw, self._center = raw, center
        self._weights = np.ones(raw.shape[0])
        self.is_null = np.zeros(raw.shape[0], bool)
        self._is_weighted = False

    def set_weights(self, weights: np.ndarray) -> None:
        """Weight the rows, once; those of no weight are lost, and null where it is NaN."""
        self.is_null, self._is_weighted = np.isnan(weights), True
        self._weights = np.where(self.is_null, 0.0, weights)
        if not self._weights.all():
            # What is not finite would be NaN times a weight of 0.
            kept = np.repeat(self._weights != 0, np.diff(self._raw.indptr))
            self._raw = self._with(np.where(kept, self._raw.data, 0))

    def norms(self) -> np.ndarray:
        """Compute the norms of the centred rows before weighting, or upper bounds of them."""
        if self._center is None:
            return sparse_row_norms(self._raw)
        return centered_sparse_norms(self._raw, self._center)

    def are_mostly_positive(self) -> np.ndarray:
        """Tell of each row before centring whether its sum is at least half of that of sizes."""
        raw, ones = self._raw.astype(np.float64, copy=False), np.ones(self._raw.shape[1])
        return _are_mostly_positive(raw @ ones, abs(raw) @ ones)

    def total(self) -> np.ndarray:
        """Sum the rows."""
        return self.adjoint(np.ones((self._raw.shape[0], 1)))[:, 0]

    def gram(self) -> np.ndarray:
        """Sum the outer products of the rows."""
        rows = self._weighted()
        gram = (rows.T @ rows).toarray()
        if self._center is not None:
            # (A - w m')' (A - w m') with the shift m' taken out of both sides.
            cross = np.outer(rows.T @ self._weights, self._center)
            gram -= cross + cross.T
            gram += (self._weights @ self._weights) * np.outer(self._center, self._center)
        return gram

    def dense(self) -> np.ndarray:
        """Return the rows before centring and weighting, as an array."""
        return self._raw.toarray()

    def squared_deviations(self, point: np.ndarray) -> np.ndarray:
        """Sum the squared distances of the rows from `point`, less those of as many zero rows."""
        data = self._raw.data.astype(np.float64, copy=False)
        return np.asarray((data * (data - 2 * point[self._raw.indices])).sum())

    def squared_norm(self) -> np.ndarray:
        """Sum the squared norms of the rows."""
        rows = self._weighted()
        total = np.square(rows.data).sum()
        if self._center is not None:
            total -= 2 * (rows.T @ self._weights) @ self._center
            total += (self._weights @ self._weights) * (self._center @ self._center)
        return np.asarray(total)

    def matmul(self, right: np.ndarray) -> np.ndarray:
        """Multiply the rows by `right`."""
        product = self._raw @ right
        if self._center is not None:
            product -= self._center @ right
        if self._is_weighted:
            product *= self._weights[:, None]
        return product

    def adjoint(self, left: np.ndarray) -> np.ndarray:
        """Multiply the transposed rows by `left`."""
        if self._is_weighted:
            left = self._weights[:, None] * left
        product = _transposed(self._raw) @ left
        if self._center is not None:
            product -= np.outer(self._center, left.sum(axis=0))
        return product

    def _weighted(self) -> csr_array:
        return self._with(self._raw.data * np.repeat(self._weights, np.diff(self._raw.indptr)))

    def _with(self, data: np.ndarray) -> csr_array:
        return csr_array((data, self._raw.indices, self._raw.indptr), shape=self._raw.shape)


def _are_mostly_positive(sums: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    # A row of zeros tells nothing.
    return np.asarray((sums >= sizes / 2) & (sizes > 0), dtype=np.float64)


def _transposed(rows: csr_array) -> csc_array:
    """View of the transpose: the attribute copies what is less than half of a longer array."""
    view = csc_array(rows.shape[::-1], dtype=rows.dtype)
    view.data, view.indices, view.indptr = rows.data, rows.indices, rows.indptr
    return view


Block: TypeAlias = DenseBlock | SparseBlock
