"""Dense sketches: an orthonormal basis of a uniformly random subspace."""

import math
from typing import Any

import numpy as np
from scipy.sparse import coo_array, issparse

from skdp.linalg.norms import row_norms
from skdp.linalg.sketch import NORM_MARGIN, Sketch
from skdp.linalg.subspace import random_basis

# Entries are multiples of 2 to the power of minus this number.
_BITS = 20  # not tuned
# Floats represent all integers up to this one, so that products in floating point are exact.
_EXACT = 2.0**53  # not tuned
# A block is multiplied as a dense matrix if it has at most so many cells for each update.
_LEAST_FILLING = 16  # not studied

Index = slice | np.ndarray


class HaarSketch(Sketch):
    """Orthonormal columns of a random subspace, scaled, rounded to multiples of 2^-20."""

    def __init__(self, n: int, t: int, generator: np.random.Generator) -> None:
        self.shape, self.unit = (n, t), 2.0**-_BITS
        # With all dimensions kept, the sketch is the identity, and exact.
        basis = np.eye(n) if t == n else random_basis(n, t, generator) * math.sqrt(n / t)
        self.integers = np.rint(basis / self.unit)
        self._largest = float(np.abs(self.integers).max())
        values = self.integers * self.unit
        self.column_norms = np.sqrt(np.einsum("ij,ij->j", values, values))
        self.row_norm = float(row_norms(values).max()) * NORM_MARGIN
        self.spectral_norm = float(np.linalg.norm(values, 2)) * NORM_MARGIN

    def add_both(
        self,
        left: "HaarSketch",
        sums: tuple[np.ndarray, np.ndarray],
        rows: np.ndarray,
        columns: np.ndarray,
        counts: np.ndarray,
    ) -> None:
        """Add updates of a matrix to both of its sums, by two matrix products."""
        if not len(counts):
            return
        some_rows, rows, n_rows = _touched(rows, left.shape[0])
        some_columns, columns, n_columns = _touched(columns, self.shape[0])
        block = _gathered(rows, columns, counts, (n_rows, n_columns))
        sums[0][some_rows] += self._exact_product(block, some_columns)
        sums[1][some_columns] += left._exact_product(block.T, some_rows)

    def add_one(self, sums: np.ndarray, place: int, cell: int, count: int) -> None:
        """Add a row of the sketch to a row of sums."""
        sums[place] += np.int64(count) * self.integers[cell].astype(np.int64)

    def _exact_product(self, block: Any, cells: Index) -> np.ndarray:
        """Multiply in floating point, which is faster by far, where that is exact."""
        integers = self.integers[cells]
        entries = block.data if issparse(block) else block
        largest = float(np.abs(entries, dtype=np.float64).max()) * self._largest
        if largest * len(integers) < _EXACT:
            return np.asarray(block.astype(np.float64, copy=False) @ integers).astype(np.int64)
        return np.asarray(block.astype(np.int64, copy=False) @ integers.astype(np.int64))


def haar_rounding(n: int, t: int) -> float:
    """Bound the spectral norm of the rounding errors of the entries of a sketch."""
    return 2.0 ** -(_BITS + 1) * math.sqrt(n * t)


def haar_norm(n: int, t: int) -> float:
    """Bound the largest singular value of every sketch that may be drawn."""
    return (math.sqrt(n / t) + haar_rounding(n, t)) * NORM_MARGIN


def _touched(places: np.ndarray, side: int) -> tuple[Index, np.ndarray, int]:
    """Find the places of a side that have updates, and renumber the updates by these."""
    if len(places) >= side:
        return slice(None), places, side
    touched, places = np.unique(places, return_inverse=True)
    return touched, places, len(touched)


def _gathered(
    rows: np.ndarray, columns: np.ndarray, counts: np.ndarray, shape: tuple[int, int]
) -> Any:
    """Add up the updates of each cell: dense and in floating point where that is exact."""
    largest = float(np.abs(counts, dtype=np.float64).max())
    if math.prod(shape) <= _LEAST_FILLING * len(counts) and largest * len(counts) < _EXACT:
        cells = rows * shape[1] + columns
        return np.bincount(cells, weights=counts, minlength=math.prod(shape)).reshape(shape)
    return coo_array((counts, (rows, columns)), shape=shape).tocsr()
