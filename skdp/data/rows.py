"""A view of the rows of a matrix, centered and weighted lazily, and the sums that fits need."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from operator import methodcaller
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.sparse import issparse

from skdp.data.blocks import Block, DenseBlock, SparseBlock, Weighting
from skdp.data.reduce import BlockView, PerRow, on_block, part_ranges, sum_depth
from skdp.data.sources import BlockSource, Source
from skdp.linalg.norms import LEAST_ROUNDING, UNIT_ROUNDOFF, GridCounts, bin_counts, row_norms

# Longest chain of additions in numpy's sum of a contiguous array, with the few that precede it.
_PAIRWISE_DEPTH = 256  # not tuned


class RowCache(NamedTuple):
    """Results of an earlier pass over the same rows, which no later pass computes again."""

    norms: np.ndarray | None = None
    norm_counts: GridCounts | None = None  # of rows that another pass may read otherwise
    n_mostly_positive: float | None = None
    n_not_finite: int | None = None  # rows with NaN or infinity
    total: np.ndarray | None = None  # of the rows clipped to `bound`
    bound: float | None = None


@dataclass(eq=False)
class Rows(BlockView):  # numpydoc ignore=PR02
    r"""Rows :math:`w_i (x_i - m)` of a matrix, never written out as a whole.

    Sums go block by block in float64, whatever the dtype of the data. Every sum comes with its
    `rounding`, a bound on its rounding error in units of the largest contribution of one row. Block
    boundaries depend only on the shape of the matrix.

    Parameters
    ----------
    source : Source
        Where the rows come from.
    n_jobs : int or None, default=None
        Threads that share the blocks, as in :func:`skdp.data.reduce.map_sum`. One thread alone
        reads a `RowBlocks`.
    center : ndarray or None, default=None
        Center m; see `centered`.
    bound : float, default=inf
        Norm that no row exceeds; see `clipped`.
    weighting : callable or None, default=None
        Maps an array of norms to weights; None for weights of 1.
    cache : RowCache
        Results of an earlier pass over the centered rows.
    """

    source: Source
    n_jobs: int | None = None
    center: np.ndarray | None = None
    bound: float = np.inf
    weighting: Weighting | None = None
    cache: RowCache = field(default_factory=RowCache)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the cache out: other processes are sent rows that come in parts, and read these."""
        return {**vars(self), "cache": RowCache()}

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.source.shape[0]

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.source.shape[1]

    @property
    def block_starts(self) -> np.ndarray:
        """First rows of the blocks, and the end."""
        return self.source.block_starts

    def blocks(self, group: range) -> Iterator[tuple[slice, Block]]:
        """Yield blocks of centered and weighted rows."""
        longest = 0 if self.source.is_sparse else int(np.diff(self.block_starts).max())
        # One array serves all blocks: if each had a new one, the system would have to clear each.
        scratch = np.empty((longest, self.n_features))
        # Another pass might read other rows. So each computes the norms again, and clips rows by
        # their own norms.
        known = self.cache.norms if self.source.is_repeatable else None
        for rows, raw in self.source.blocks(group):
            block: Block = (
                SparseBlock(raw, self.center)
                if issparse(raw)
                else DenseBlock(raw, self.center, scratch)
            )
            if self.weighting is not None:
                block = block.weighted(self.weighting, None if known is None else known[rows])
            yield rows, block

    def centered(self, center: np.ndarray) -> Self:
        """Return a view of the raw rows minus `center`."""
        cache = RowCache(n_mostly_positive=self.cache.n_mostly_positive)
        return replace(self, center=center, bound=np.inf, weighting=None, cache=cache)

    def clipped(self, bound: float, weighting: Weighting) -> Self:
        """Return a view whose rows are multiplied by weights that bring them within `bound`.

        `weighting` maps an array of norms to weights. Norms that are not in the cache are computed
        in each pass.
        """
        return replace(self, bound=bound, weighting=weighting)

    def norms(self) -> np.ndarray:
        """Compute the norms of the centered rows before weighting.

        Returns
        -------
        ndarray of shape (n_rows,)
            Norms, or upper bounds of them if the rows are sparse and centered; NaN for null rows.
        """
        if self.cache.norms is not None:
            return self.cache.norms
        return replace(self, weighting=None).map_rows(on_block(methodcaller("norms")))

    def counted_norms(self, grid: np.ndarray) -> GridCounts:
        """Count the norms before weighting on a grid; those of the cache if there are any."""
        if self.cache.norms is not None:
            return GridCounts.in_all(grid, self.cache.norms, self.n_rows)
        if self.cache.norm_counts is not None:
            return self.cache.norm_counts
        kernel = partial(norm_counts, grid=grid)
        counts = replace(self, weighting=None).map_sum(kernel, len(grid) + 1)
        return GridCounts.of(grid, counts, self.n_rows)

    def count_mostly_positive(self) -> float:
        """Count the raw rows whose sum is at least half of their L1 norm.

        Rows of zeros are not mostly positive, nor are rows whose sum is not a number.
        """
        if self.cache.n_mostly_positive is not None:
            return self.cache.n_mostly_positive
        return float(Rows(self.source, self.n_jobs).map_sum(n_mostly_positive, 1))

    def total(self) -> tuple[np.ndarray, float]:
        """Sum the rows; return the sum, of shape (n_features,), and its rounding."""
        total = self.cache.total
        if total is None or self.weighting is None or self.bound != self.cache.bound:
            total = self.map_sum(on_block(methodcaller("total")), self.n_features)
        return total, self._rounding(1)

    def gram(self) -> tuple[np.ndarray, float]:
        """Sum the outer products; return (n_features, n_features) numbers and their rounding."""
        return self.map_sum(on_block(methodcaller("gram")), self.n_features**2), self._rounding(2)

    def matmul(self, right: np.ndarray) -> np.ndarray:
        """Multiply the rows by `right`, to (n_rows, n_columns) numbers."""
        return self.map_rows(on_block(methodcaller("matmul", right)))

    def rmatmul(self, left: np.ndarray) -> np.ndarray:
        """Multiply the transposed rows by `left`, to (n_features, n_columns) numbers."""
        return self.map_sum(partial(_rmatmul, left=left), self.n_features * left.shape[1])

    def dense(self) -> np.ndarray:
        """Write the raw rows out as an array, of shape (n_rows, n_features)."""
        return self.map_rows(on_block(methodcaller("dense")))

    def squared_deviations(self, point: np.ndarray) -> tuple[float, float]:
        """Sum the squared distances of the raw rows from `point`, each minus that of a zero row.

        Parameters
        ----------
        point : ndarray of shape (n_features,)
            Any point.

        Returns
        -------
        total : float
            The sum, to which entries that are 0 add nothing.
        rounding : float
            Bound on its rounding error, in units of the largest contribution of one entry.
        """
        total = self.map_sum(on_block(methodcaller("squared_deviations", point)), 1)
        depth = _PAIRWISE_DEPTH + len(self.block_starts)
        return float(total), depth * UNIT_ROUNDOFF * self.n_rows * self.n_features

    def squared_norm(self) -> tuple[float, float]:
        """Sum the squared norms of the rows; return the sum and its rounding."""
        total = self.map_sum(on_block(methodcaller("squared_norm")), 1)
        return float(total), self._rounding(2)

    def projection_counts(self, basis: np.ndarray, edges: np.ndarray) -> np.ndarray:
        """Count the norms of the rows times `basis` in each bin; null rows are counted nowhere."""
        kernel = partial(_projection_counts, basis=basis, edges=edges)
        return self.map_sum(kernel, len(edges))

    def subsample(self, at_most: int) -> "Rows":
        """Return a view of every k-th row, with the smallest k that leaves no more than `at_most`.

        A stream stays whole, since each pass has to read all of it anyway.
        """
        step = math.ceil(self.n_rows / at_most)
        if step == 1 or isinstance(self.source, BlockSource):
            return self
        norms = None if self.cache.norms is None else self.cache.norms[::step]
        return replace(self, source=self.source.every(step), cache=RowCache(norms))

    def normal_product(
        self, basis: np.ndarray, clip: Callable[[np.ndarray], np.ndarray]
    ) -> tuple[np.ndarray, float, "Rows"]:
        """Sum the outer products of the rows with their clipped projections.

        Parameters
        ----------
        basis : ndarray of shape (n_features, n_columns)
            Basis to project on.
        clip : callable
            Clips the rows of an array of projections, which it may overwrite.

        Returns
        -------
        product : ndarray of shape (n_features, n_columns)
            The sum.
        rounding : float
            Bound on its rounding error.
        rows : Rows
            The same view, with the norms of its rows in its cache if all passes have the same.
        """
        keeps_norms = self.source.is_repeatable
        kernel = partial(_normal_product, basis=basis, clip=clip, keeps_norms=keeps_norms)
        product, norms = self.map_sum(kernel, basis.size)
        return product, self._rounding(1), replace(self, cache=self.cache._replace(norms=norms))

    def clipped_squares(
        self, basis: np.ndarray, weighting: Callable[[np.ndarray], np.ndarray]
    ) -> tuple[np.ndarray, float]:
        """Sum the squared coordinates of the projections, with several weights for each row.

        Parameters
        ----------
        basis : ndarray of shape (n_features, n_columns)
            Orthonormal basis to project on.
        weighting : callable
            Maps the norms of n projections to weights, of shape (n_weights, n).

        Returns
        -------
        squares : ndarray of shape (n_weights, n_columns)
            The sums.
        rounding : float
            Bound on their rounding error.
        """
        kernel = partial(_clipped_squares, basis=basis, weighting=weighting)
        return self.map_sum(kernel, basis.size), self._rounding(2, basis.shape[1])

    def projected_moment(self, basis: np.ndarray) -> tuple[np.ndarray, float]:
        """Sum the outer products of the projections on an orthonormal basis, and the remainder.

        Parameters
        ----------
        basis : ndarray of shape (n_features, n_columns)
            Basis to project on.

        Returns
        -------
        moment : ndarray of shape (n_columns + 1, n_columns + 1)
            The sum; the last diagonal entry is the squared norm of the rows outside the basis.
        rounding : float
            Bound on its rounding error.
        """
        size = basis.shape[1]
        moment = self.map_sum(partial(_projected_moment, basis=basis), (size + 1) ** 2)
        return moment, self._rounding(2, size)

    @property
    def depth(self) -> int:
        """Longest chain of additions in a sum over the rows."""
        return sum_depth(self.block_starts, self.width, part_ranges(self))

    def _rounding(self, degree: int, n_columns: int = 0) -> float:
        """Bound the `rounding` of a sum of products of `degree` factors, as the class defines it.

        Factors are rows, or projections of rows on `n_columns` columns if these are given. Sparse
        rows are centered within the products, whose terms are longer than the centered rows.
        """
        longest = 1.0
        if self.source.is_sparse and self.center is not None and np.isfinite(self.bound):
            longest += 2 * float(row_norms(self.center[None])[0]) / self.bound
        rounding = self.depth * UNIT_ROUNDOFF * self.n_rows * np.float64(longest) ** degree
        if n_columns:
            # Each projection is itself a sum over the features, which rounds, too.
            rounding = 2 * rounding + 4 * self.n_features * np.sqrt(n_columns) * UNIT_ROUNDOFF
        return max(LEAST_ROUNDING, float(rounding))


def _rmatmul(rows: slice, block: Block, left: np.ndarray) -> np.ndarray:
    return block.rmatmul(left[rows])


def norm_counts(_: slice, block: Block, grid: np.ndarray) -> np.ndarray:
    """Count the norms in the bins of a grid, and in one more those beyond; NaN is nowhere."""
    return bin_counts(block.norms(), np.append(grid, np.inf)).astype(np.float64)


def n_mostly_positive(_: slice, block: Block) -> np.ndarray:
    """Count the rows that are mostly positive."""
    return np.asarray(block.are_mostly_positive().sum())


def _normal_product(
    _: slice,
    block: Block,
    basis: np.ndarray,
    clip: Callable[[np.ndarray], np.ndarray],
    keeps_norms: bool,
) -> tuple[np.ndarray, PerRow | None]:
    product = block.rmatmul(clip(block.matmul(basis)))
    return product, PerRow(block.norms()) if keeps_norms else None


def _projection_norms(_: slice, block: Block, basis: np.ndarray) -> np.ndarray:
    norms = row_norms(block.matmul(basis))
    norms[block.is_null] = np.nan
    return norms


def _projection_counts(
    rows: slice, block: Block, basis: np.ndarray, edges: np.ndarray
) -> np.ndarray:
    return bin_counts(_projection_norms(rows, block, basis), edges).astype(np.float64)


def _clipped_squares(_: slice, block: Block, basis: np.ndarray, weighting: Weighting) -> np.ndarray:
    projections = block.matmul(basis)
    return np.asarray(weighting(row_norms(projections)) @ np.square(projections))


def _projected_moment(_: slice, block: Block, basis: np.ndarray) -> np.ndarray:
    projections, size = block.matmul(basis), basis.shape[1]
    moment = np.zeros((size + 1, size + 1))
    moment[:size, :size] = projections.T @ projections
    moment[size, size] = block.squared_norm() - np.trace(moment)
    return moment
