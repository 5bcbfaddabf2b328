"""Sketches with one nonzero entry in each row: buckets and signs.

References
----------
.. [1] M. Charikar, K. Chen, M. Farach-Colton (2004). "Finding frequent items in data streams".
   Theoretical Computer Science 312(1). :doi:`10.1016/S0304-3975(03)00400-6`
.. [2] K. L. Clarkson, D. P. Woodruff (2017). "Low-rank approximation and regression in input
   sparsity time". Journal of the ACM 63(6). :doi:`10.1145/3019134`
"""

from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from skdp.linalg.sketch import NORM_MARGIN, Sketch


class CountSketch(Sketch):
    """Every dimension is added, with a random sign, to one of equally full buckets."""

    def __init__(self, n: int, t: int, generator: np.random.Generator) -> None:
        self.shape, self.unit, self.row_norm = (n, t), 1.0, 1.0
        self._buckets = generator.permutation(n) % t
        self._signs = generator.choice(np.array([-1, 1]), size=n)
        self.column_norms = np.sqrt(np.bincount(self._buckets, minlength=t))
        self.spectral_norm = float(self.column_norms.max()) * NORM_MARGIN

    @cached_property
    def integers(self) -> csr_array:
        """The sketch, in CSR format."""
        starts = np.arange(self.shape[0] + 1)
        return csr_array((self._signs.astype(np.float64), self._buckets, starts), shape=self.shape)

    def add_both(
        self,
        left: "CountSketch",
        sums: tuple[np.ndarray, np.ndarray],
        rows: np.ndarray,
        columns: np.ndarray,
        counts: np.ndarray,
    ) -> None:
        """Add updates of a matrix to both of its sums, each update to two numbers."""
        self._add(sums[0], rows, columns, counts)
        left._add(sums[1], columns, rows, counts)

    def add_one(self, sums: np.ndarray, place: int, cell: int, count: int) -> None:
        """Add a row of the sketch to a row of sums."""
        bucket = self._buckets[cell]
        # Python integers: numpy warns if a single int64 overflows.
        total = int(sums[place, bucket]) + count * int(self._signs[cell])
        sums[place, bucket] = (total + 2**63) % 2**64 - 2**63

    def _add(
        self, sums: np.ndarray, places: np.ndarray, cells: np.ndarray, counts: np.ndarray
    ) -> None:
        entries = places * self.shape[1]
        entries += self._buckets[cells]
        np.add.at(sums.reshape(-1), entries, counts * self._signs[cells])
