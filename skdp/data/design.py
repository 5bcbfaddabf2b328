"""The measurement matrices of a regression, transformed lazily and read block by block."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from operator import methodcaller
from typing import Any

import numpy as np
from scipy.sparse import issparse

from skdp.data.rank_one import RankOneMatrices
from skdp.data.reduce import BlockView, on_block, part_ranges, sum_rounding
from skdp.data.sources import Source
from skdp.linalg.matrices import DenseMatrices, FixedRank, Matrices, OuterMatrices

# Several products are computed from a piece, which should stay in cache between them.
_PIECE_ENTRIES = 1 << 18  # not studied
_PIECE_ROWS = (32, 4096)  # not studied


@dataclass(eq=False)
class Design(BlockView):  # numpydoc ignore=PR02
    r"""Matrices :math:`A\,((X_i - C) \circ S)\,B` for public A, B, C and S, computed when needed.

    Sums go block by block in float64. Block boundaries depend on the shape only.

    Parameters
    ----------
    source : Source or RankOneMatrices
        Where the matrices come from: each is a row.
    matrix_shape : tuple of two ints
        Their shape.
    n_jobs : int or None, default=None
        Threads that share the blocks, as in :func:`skdp.data.reduce.map_sum`.
    multiplier : float or ndarray, default=1.0
        S, a number or, for matrices that are written out, one for each entry.
    center : ndarray or None, default=None
        C, only for matrices that are written out.
    largest : ndarray or None, default=None
        Absolute values to which the entries of :math:`(X_i - C) \circ S` are clipped, only for
        matrices that are written out.
    row_map : ndarray or None, default=None
        A, only for matrices that are written out; `mapped` multiplies factors by A at once.
    column_map : ndarray or None, default=None
        B, with the same restriction as A.
    writes_factors_out : bool, default=False
        Whether outer products of factors are written out as matrices, piece by piece.
    """

    source: Source | RankOneMatrices
    matrix_shape: tuple[int, int]
    n_jobs: int | None = None
    multiplier: Any = 1.0
    center: np.ndarray | None = None
    largest: np.ndarray | None = None
    row_map: np.ndarray | None = None
    column_map: np.ndarray | None = None
    writes_factors_out: bool = False

    in_pieces = True

    @property
    def block_starts(self) -> np.ndarray:
        """First matrices of the blocks, and the end."""
        return self.source.block_starts

    def blocks(self, group: range) -> Iterator[tuple[slice, Iterator[tuple[slice, Matrices]]]]:
        """Yield blocks in pieces."""
        return ((rows, self._pieces(rows, block)) for rows, block in self.source.blocks(group))

    @property
    def is_written_out(self) -> bool:
        """Whether matrices are given by all their entries, rather than by factors."""
        return self.writes_factors_out or not isinstance(self.source, RankOneMatrices)

    @property
    def n_records(self) -> int:
        """Number of matrices."""
        return self.source.shape[0]

    @property
    def n_entries(self) -> int:
        """Number of entries of a matrix."""
        return int(np.prod(self.matrix_shape))

    def is_sparse(self, side: int) -> bool:
        """Tell whether the left factors (side 0) or the right ones (side 1) are sparse."""
        if not isinstance(self.source, RankOneMatrices):
            return False
        return bool(issparse((self.source.left, self.source.right)[side]))

    def mapped(self, row_map: np.ndarray | None, column_map: np.ndarray | None) -> "Design":
        """Return a view multiplied by symmetric matrices from both sides.

        A vector stands for a diagonal matrix, which keeps sparse factors sparse.
        """
        if not isinstance(self.source, RankOneMatrices):
            return replace(self, row_map=row_map, column_map=column_map)
        parts = _times(self.source.left, row_map), _times(self.source.right, column_map)
        return replace(self, source=RankOneMatrices(*parts))

    @property
    def rounding(self) -> float:
        """Bound on the rounding error of a sum, in units of the largest contribution."""
        return sum_rounding(self.block_starts, self.width, part_ranges(self))

    def norms(self) -> np.ndarray:
        """Compute the norm of each matrix, or an upper bound on it."""
        return self.map_rows(on_block(methodcaller("norms")))

    def inner(self, point: FixedRank) -> np.ndarray:
        """Compute the inner product of each matrix with a point."""
        return self.map_rows(partial(_inner, point=point))

    def clipped_inner(self, point: np.ndarray, bounds: np.ndarray) -> np.ndarray:
        """Compute the inner product of each matrix, clipped entry by entry, with a point."""
        written_out = replace(self, writes_factors_out=True)
        return written_out.map_rows(partial(_clipped_inner, point=point, bounds=bounds))

    def _pieces(self, rows: slice, block: Any) -> Iterator[tuple[slice, Matrices]]:
        """Cut a block of written-out matrices into pieces that stay in cache."""
        if not self.is_written_out:
            yield rows, OuterMatrices(block.left, block.right, self.multiplier)
            return
        # A piece has a single matrix only if its block has just one: the product of a single matrix
        # may round differently.
        size = int(np.clip(_PIECE_ENTRIES // self.n_entries, *_PIECE_ROWS))
        cuts = np.linspace(0, block.shape[0], -(-block.shape[0] // size) + 1).astype(np.int64)
        for start, stop in pairwise(cuts.tolist()):
            piece = slice(rows.start + start, rows.start + stop)
            yield piece, self._dense(block[start:stop])

    def _dense(self, block: Any) -> DenseMatrices:
        values = block if isinstance(block, np.ndarray) else block.toarray()
        values = values.astype(np.float64, copy=False).reshape(-1, *self.matrix_shape)
        if self.center is not None:
            values = values - self.center
        scale = self.multiplier
        if isinstance(scale, np.ndarray):
            values, scale = values * scale, 1.0
        if self.largest is not None:
            values = np.clip(values, -self.largest, self.largest)
        return DenseMatrices(values, scale, self.row_map, self.column_map)


def entries_of(matrices: Matrices) -> np.ndarray:
    """Return the entries of written-out matrices, a row for each matrix."""
    assert isinstance(matrices, DenseMatrices)
    return matrices.values.reshape(len(matrices), -1)


def _times(factors: Any, symmetric: np.ndarray | None) -> Any:
    """Multiply factors by a matrix; a row that overflows becomes null."""
    if symmetric is None:
        return factors
    if symmetric.ndim == 1 and issparse(factors):
        scaled = factors.multiply(symmetric).tocsr()
        scaled.data[~np.isfinite(scaled.data)] = 0.0
        return scaled
    products = np.asarray(factors * symmetric if symmetric.ndim == 1 else factors @ symmetric)
    products[~np.isfinite(products).all(axis=1)] = 0.0
    return products


def _inner(_: slice, matrices: Matrices, point: FixedRank) -> np.ndarray:
    return matrices.tangent(point, 0.0)[1]


def _clipped_inner(
    _: slice, matrices: Matrices, point: np.ndarray, bounds: np.ndarray
) -> np.ndarray:
    return np.clip(entries_of(matrices), *bounds) @ point
