"""One view of the rows of a matrix, centred and weighted lazily, and the sums that fits need."""

import copy
import math
from collections.abc import Callable, Iterable, Iterator
from functools import reduce

import numpy as np
from scipy.sparse import issparse

from skdp.data.blocks import Block, DenseBlock, SparseBlock
from skdp.data.sources import ArraySource, BlockSource, Source
from skdp.data.threads import run_groups
from skdp.linalg.norms import LEAST_ROUNDING, UNIT_ROUNDOFF, row_norms

__all__ = ["Rows"]

# Longest chain of additions in numpy's sum of a contiguous array, and of those before it.
_PAIRWISE_DEPTH = 256  # not tuned


class Rows:
    r"""Rows :math:`w_i (x_i - m)` of a matrix, never written out as a whole.

    Sums go block by block in float64, whatever the dtype of the data. With every sum comes
    `rounding`: a bound of its rounding error, in units of the largest contribution of one row.
    Block boundaries depend on the shape of the matrix only.

    Parameters
    ----------
    source : Source
        Where the rows come from.
    n_jobs : int or None, default=None
        Threads that share the blocks; each then uses one BLAS thread. ``None`` is one thread, with
        as many BLAS threads as there are. A `RowBlocks` is always read by one.
    """

    def __init__(self, source: Source, n_jobs: int | None = None) -> None:
        self.source = source
        self.n_jobs = n_jobs
        self.center: np.ndarray | None = None
        self.bound = np.inf
        self._weighting: Callable[[np.ndarray], np.ndarray] | None = None
        self._weights: np.ndarray | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.source.shape[0]

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.source.shape[1]

    def centered(self, center: np.ndarray) -> "Rows":
        """Return a view of the raw rows minus `center`."""
        rows = copy.copy(self)
        rows.center, rows.bound, rows._weighting, rows._weights = center, np.inf, None, None
        return rows

    def clipped(
        self,
        bound: float,
        weighting: Callable[[np.ndarray], np.ndarray],
        norms: np.ndarray | None = None,
    ) -> "Rows":
        """Return a view whose rows are multiplied by weights that bring them within `bound`.

        `weighting` gives the weights for an array of norms. Those of all rows are `norms`; without
        them they are taken in the first pass. For a `RowBlocks`, which might yield other rows in
        another pass, they are taken anew in each.
        """
        rows = copy.copy(self)
        rows.bound, rows._weighting, rows._weights = bound, weighting, None
        if isinstance(self.source, ArraySource):
            rows._weights = np.full(self.n_rows, np.nan) if norms is None else weighting(norms)
        return rows

    def norms(self) -> np.ndarray:
        """Compute the norms of the centred rows before weighting.

        Returns
        -------
        ndarray of shape (n_rows,)
            Norms, or upper bounds of them if the rows are sparse and centred.
        """
        rows = copy.copy(self)
        rows._weighting = None
        return rows._fill((self.n_rows,), lambda block: block.norms())

    def mostly_positive(self) -> np.ndarray:
        """Tell of each raw row, by itself, whether its sum is at least half of that of its sizes.

        Rows of zeros are not; neither are those whose sum is not a number.

        Returns
        -------
        ndarray of shape (n_rows,)
            1 or 0.
        """
        rows = copy.copy(self)
        rows.center = rows._weighting = None
        return rows._fill((self.n_rows,), lambda block: block.are_mostly_positive())

    def total(self) -> tuple[np.ndarray, float]:
        """Sum the rows; return the sum, of shape (n_features,), and its rounding."""
        return self._sum(lambda block: block.total()), self._rounding(1)

    def gram(self) -> tuple[np.ndarray, float]:
        """Sum the outer products; return (n_features, n_features) numbers and their rounding."""
        return self._sum(lambda block: block.gram()), self._rounding(2)

    def matmul(self, right: np.ndarray) -> np.ndarray:
        """Multiply the rows by `right`, to (n_rows, n_columns) numbers."""
        return self._fill((self.n_rows, right.shape[1]), lambda block: block.matmul(right))

    def adjoint(self, left: np.ndarray) -> np.ndarray:
        """Multiply the transposed rows by `left`, to (n_features, n_columns) numbers."""

        def _work(group: range) -> np.ndarray:
            return _add_up(b.adjoint(left[rows]) for rows, b in self._blocks(group))

        return reduce(np.add, run_groups(self.source, self.n_jobs, _work))

    def dense(self) -> np.ndarray:
        """Write the raw rows out as an array, of shape (n_rows, n_features)."""
        return self._fill(self.source.shape, lambda block: block.dense())

    def squared_deviations(self, point: np.ndarray) -> tuple[float, float]:
        """Sum the squared distances of the raw rows from `point`, less those of zero rows.

        Parameters
        ----------
        point : ndarray of shape (n_features,)
            Any point.

        Returns
        -------
        total : float
            The sum, to which entries that are 0 add nothing.
        rounding : float
            Bound of its rounding error, in units of the largest contribution of one entry.
        """
        total = self._sum(lambda block: np.array(block.squared_deviations(point)))
        depth = _PAIRWISE_DEPTH + len(self.source.block_starts)
        return float(total), depth * UNIT_ROUNDOFF * math.prod(self.source.shape)

    def squared_norm(self) -> tuple[float, float]:
        """Sum the squared norms of the rows; return the sum and its rounding."""
        total = self._sum(lambda block: np.array(block.squared_norm()))
        return float(total), self._rounding(2)

    def projection_norms(self, basis: np.ndarray) -> np.ndarray:
        """Compute the norms of the rows times `basis`, of shape (n_rows,)."""
        return self._fill((self.n_rows,), lambda block: row_norms(block.matmul(basis)))

    def thinned(self, at_most: int) -> "Rows":
        """Return a view of evenly spread rows, `at_most` so many.

        A `RowBlocks` has to be read as a whole anyway, and stays whole.
        """
        step = math.ceil(self.n_rows / at_most)
        if step == 1 or isinstance(self.source, BlockSource):
            return self
        rows = copy.copy(self)
        rows.source = self.source.every(step)
        # A copy: filled through a view, some weights of a block would be known before the others.
        rows._weights = None if self._weights is None else self._weights[::step].copy()
        return rows

    def normal_product(
        self, basis: np.ndarray, clip: Callable[[np.ndarray], np.ndarray]
    ) -> tuple[np.ndarray, float]:
        """Sum the outer products of the rows with their clipped projections.

        Parameters
        ----------
        basis : ndarray of shape (n_features, n_columns)
            Basis to project on.
        clip : callable
            Clips the rows of a block of projections, which it may overwrite.

        Returns
        -------
        product : ndarray of shape (n_features, n_columns)
            The sum.
        rounding : float
            Bound of its rounding error.
        """
        product = self._sum(lambda block: block.adjoint(clip(block.matmul(basis))))
        return product, self._rounding(1)

    def clipped_squares(
        self, basis: np.ndarray, weighting: Callable[[np.ndarray], np.ndarray]
    ) -> tuple[np.ndarray, float]:
        """Sum the squared coordinates of the projections, with several weights for each row.

        Parameters
        ----------
        basis : ndarray of shape (n_features, n_columns)
            Orthonormal basis to project on.
        weighting : callable
            Gives the weights, of shape (n_weights, n), for the norms of n projections.

        Returns
        -------
        squares : ndarray of shape (n_weights, n_columns)
            The sums.
        rounding : float
            Bound of their rounding error.
        """

        def _squares(block: Block) -> np.ndarray:
            projections = block.matmul(basis)
            return weighting(row_norms(projections)) @ np.square(projections)

        return self._sum(_squares), self._projected_rounding(basis.shape[1])

    def projected_moment(self, basis: np.ndarray) -> tuple[np.ndarray, float]:
        """Sum the outer products of the projections on an orthonormal basis, and what is outside.

        Parameters
        ----------
        basis : ndarray of shape (n_features, n_columns)
            Basis to project on.

        Returns
        -------
        moment : ndarray of shape (n_columns + 1, n_columns + 1)
            The sum; the last diagonal entry is the squared norm of the rows outside the basis.
        rounding : float
            Bound of its rounding error.
        """
        size = basis.shape[1]

        def _moment(block: Block) -> np.ndarray:
            projections = block.matmul(basis)
            moment = np.zeros((size + 1, size + 1))
            moment[:size, :size] = projections.T @ projections
            moment[size, size] = block.squared_norm() - np.trace(moment)
            return moment

        return self._sum(_moment), self._projected_rounding(size)

    def _projected_rounding(self, size: int) -> float:
        """Error of a sum of products of projections on `size` columns."""
        # Each projection is itself a sum over the features, of a row and a matrix of that rank.
        inner = 2 * self.n_features * np.sqrt(size) * UNIT_ROUNDOFF
        return self._rounding(2, factor=2.0, extra=2 * inner)

    @property
    def depth(self) -> int:
        """Longest chain of additions in a sum over the rows."""
        return self._block_size + len(self.source.block_starts) + 2

    @property
    def _block_size(self) -> int:
        return int(np.diff(self.source.block_starts).max())

    def _rounding(self, degree: int, *, factor: float = 1.0, extra: float = 0.0) -> float:
        """Error of a sum of products of which `degree` factors are rows, relative to one row.

        A chain of at most as many additions as a block has rows, then one for every block. Sparse
        rows are centred in the products, whose terms are longer than the centred rows.
        """
        longest = 1.0
        if self.source.is_sparse and self.center is not None and np.isfinite(self.bound):
            longest += 2 * float(row_norms(self.center[None])[0]) / self.bound
        rounding = self.depth * UNIT_ROUNDOFF * self.n_rows * np.float64(longest) ** degree
        return max(LEAST_ROUNDING, float(factor * rounding + extra))

    def _sum(self, kernel: Callable[[Block], np.ndarray]) -> np.ndarray:
        def _work(group: range) -> np.ndarray:
            return _add_up(kernel(block) for _, block in self._blocks(group))

        return reduce(np.add, run_groups(self.source, self.n_jobs, _work))

    def _fill(self, shape: tuple[int, ...], kernel: Callable[[Block], np.ndarray]) -> np.ndarray:
        out = np.empty(shape)

        def _work(group: range) -> None:
            for rows, block in self._blocks(group):
                out[rows] = kernel(block)

        run_groups(self.source, self.n_jobs, _work)
        return out

    def _blocks(self, group: range) -> Iterator[tuple[slice, Block]]:
        # Written over by every block: the system would clear a new array of that size first.
        scratch = np.empty((0 if self.source.is_sparse else self._block_size, self.n_features))
        for rows, raw in self.source.blocks(group):
            block: Block = (
                SparseBlock(raw, self.center)
                if issparse(raw)
                else DenseBlock(raw, self.center, scratch)
            )
            weights = self._weights_of(rows, block)
            if weights is not None:
                block.set_weights(weights)
            yield rows, block

    def _weights_of(self, rows: slice, block: Block) -> np.ndarray | None:
        if self._weighting is None:
            return None
        if self._weights is None:
            return self._weighting(block.norms())
        weights = self._weights[rows]
        # NaN where no pass has come by yet.
        if np.isnan(weights[0]):
            weights[:] = self._weighting(block.norms())
        return weights


def _add_up(parts: Iterable[np.ndarray]) -> np.ndarray:
    """Add arrays up, into the first of them."""
    return reduce(lambda total, part: np.add(total, part, out=total), parts)
