"""A view of the rows of a matrix, centered, weighted and clipped block by block, and its sums.

This package knows no clipping rules: a view gets a function from norms to weights, which
`skdp.privacy.clipping.clip_weights` makes.
"""

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from operator import methodcaller
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
from scipy.sparse import csr_array, issparse

from skdp.data.containers import CURES, MISSING, MISSING_IN_PARTS, not_finite_rows, text_of_kinds
from skdp.data.parts import Parts, RowBlocks, Targets
from skdp.data.people import Agreed, People, UnitView, sample_weight_of
from skdp.data.reduce import Kernel, PerRow, map_sum, on_block
from skdp.data.sources import Source, digest, digest_kernel, joined_digest
from skdp.linalg.matrices import SampleWeighted
from skdp.linalg.norms import (
    LEAST_ROUNDING,
    UNIT_ROUNDOFF,
    GridCounts,
    as_dense,
    bin_counts,
    centered_sparse_norms,
    never_single,
    row_norms,
    sparse_row_norms,
    transposed,
    with_data,
)

# ------------------------------
# One block of rows ``weight * (row - center)``, dense or sparse.

#: Maps an array of norms to the weights of the rows.
Weighting = Callable[[np.ndarray], np.ndarray]


class _BaseBlock(SampleWeighted, ABC):
    """Raw rows of a source, with their center and weights."""

    def __init__(self, raw: Any) -> None:
        self.raw = raw
        self._is_weighted = False
        self._norms: np.ndarray | None = None

    @cached_property
    def is_null(self) -> np.ndarray:
        """Mask of the rows that add nothing to any sum."""
        return np.zeros(self.raw.shape[0], dtype=bool)

    @cached_property
    def weights(self) -> np.ndarray:
        """The weight of each row; 0 for null rows."""
        return np.ones(self.raw.shape[0])

    def with_sample_weight(self, sample_weight: np.ndarray | None) -> Self:
        """Return a block whose sums multiply the term of each row by `sample_weight`."""
        block = copy.copy(self)
        block.sample_weight = sample_weight
        return block

    def norms(self) -> np.ndarray:
        """Return the norms of the centered rows before weighting, or upper bounds on the norms."""
        if self._norms is None:
            self._norms = self._computed_norms()
        return self._norms

    def weighted(self, weighting: Weighting, norms: np.ndarray | None = None) -> Self:
        """Multiply rows by weights, which depend on their norms; a row of norm NaN becomes null."""
        block = copy.copy(self)
        block._norms = norms = self.norms() if norms is None else norms
        block.is_null, block._is_weighted = np.isnan(norms), True
        block.weights = weighting(norms)
        if np.count_nonzero(block.is_null):
            block.weights = np.where(block.is_null, 0.0, block.weights)
        if np.count_nonzero(block.weights) < len(norms):
            # Entries of null rows become 0, as 0 times NaN or infinity would be NaN.
            block._drop_rows(block.weights == 0)
        return block

    def without(self, is_dropped: np.ndarray) -> Self:
        """Return a block in which the rows with `is_dropped` are null."""
        if not np.count_nonzero(is_dropped):
            return self
        return self.weighted(lambda _: self.weights, np.where(is_dropped, np.nan, self.norms()))

    def _times_weights(self, values: np.ndarray) -> np.ndarray:
        return self.weights[:, np.newaxis] * values if self._is_weighted else values

    @abstractmethod
    def _computed_norms(self) -> np.ndarray: ...

    @abstractmethod
    def _drop_rows(self, is_dropped: np.ndarray) -> None:
        """Replace rows by 0 in sums, where 0 times NaN or infinity would be NaN."""


class DenseBlock(_BaseBlock):
    """Rows in float64; centered rows are written into the array `scratch`.

    Weights multiply the other factor of a product, or the product itself: both have fewer columns
    than the rows. Only `gram` has no other factor: it writes the weighted rows into `scratch`.
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
        self._summed_rows = self._rows  # `_drop_rows` replaces these, with zeros for null rows

    def are_mostly_positive(self) -> np.ndarray:
        """Return 1.0 for rows whose sum is at least half of their L1 norm, and 0.0 for others."""
        # In C order, entries of a row are added in the same order in every block.
        rows = np.require(self._rows, requirements=["C", "A"])
        return _are_mostly_positive(rows.sum(axis=1), np.abs(rows).sum(axis=1))

    def total(self) -> np.ndarray:
        """Sum the rows."""
        rows = self._summed_rows
        if self._is_weighted or self.sample_weight is not None:
            return self.times_sample_weight(self.weights) @ rows
        return np.asarray(rows.sum(axis=0))

    def gram(self) -> np.ndarray:
        """Sum the outer products of the rows; overwrite centered rows, so `gram` must come last."""
        rows = self._summed_rows
        if self._is_weighted or self.sample_weight is not None:
            weights = self.times_sample_weight(self.weights, twice=True)
            rows = np.multiply(rows, weights[:, np.newaxis], out=self._scratch)
        return rows.T @ rows

    def squared_deviations(self, point: np.ndarray) -> np.ndarray:
        """Sum ``|x - p|^2 - |p|^2`` over rows x, for `point` p: entries of 0 add nothing."""
        return np.asarray((self._rows * (self._rows - 2 * point)).sum())

    def squared_norm(self) -> np.ndarray:
        """Sum the squared norms of the rows."""
        # The square of a norm could overflow, so weights multiply norms before they are squared.
        norms = np.where(self.weights == 0, 0.0, self.norms())
        return np.asarray(self.times_sample_weight(np.square(self.weights * norms)).sum())

    def matmul(self, right: np.ndarray) -> np.ndarray:
        """Multiply the rows by `right`."""
        return np.ascontiguousarray(self.matmul_by_column(right).T)

    def matmul_by_column(self, right: np.ndarray) -> np.ndarray:
        """Multiply the rows by `right`; the product is stored column by column."""
        # If `right` has few columns, the transposed product saves a third of the time.
        return self._weighted_products((right.T @ self._rows.T).T).T

    def matmul_anywhere(self, right: np.ndarray) -> np.ndarray:
        """Multiply the rows by `right`; no product depends on the place of its row in the block.

        This is slower than `matmul`, for which BLAS may round a row differently in another place.
        """
        rows = np.require(self._rows, requirements=["C", "A"])
        products = np.einsum("ij,jk->ik", never_single(rows), np.ascontiguousarray(right))
        return self._weighted_products(products[: len(rows)])

    def rmatmul(self, left: np.ndarray) -> np.ndarray:
        """Compute X' times `left`, where X is the matrix of the rows."""
        # The transposed product takes half the time.
        return (self.times_sample_weight(self._times_weights(left)).T @ self._summed_rows).T

    def _weighted_products(self, products: np.ndarray) -> np.ndarray:
        """Multiply products of rows by the weights; null rows become 0."""
        if self._is_weighted:
            products *= self.weights[:, np.newaxis]
        # Null rows become 0 after the product: before it, zeros would need a copy of the rows, and
        # the memory layout of a copy could change the rounding of other rows.
        if self._summed_rows is not self._rows:
            products[self.weights == 0] = 0.0
        return products

    def _computed_norms(self) -> np.ndarray:
        return row_norms(self._rows)

    def _drop_rows(self, is_dropped: np.ndarray) -> None:
        self._summed_rows = np.where(is_dropped[:, np.newaxis], 0.0, self._rows)


class SparseBlock(_BaseBlock):
    """Sparse rows; products of the rows are centered and weighted, so that rows stay sparse.

    Weights are 0 or at least ``2 ** -500``, so that no significant product overflows or underflows.
    """

    def __init__(self, raw: csr_array, center: np.ndarray | None) -> None:
        super().__init__(raw)
        self._rows, self._center = raw, center

    def are_mostly_positive(self) -> np.ndarray:
        """Return 1.0 for rows whose sum is at least half of their L1 norm, and 0.0 for others."""
        raw, ones = self._rows.astype(np.float64, copy=False), np.ones(self._rows.shape[1])
        return _are_mostly_positive(raw @ ones, abs(raw) @ ones)

    def total(self) -> np.ndarray:
        """Sum the rows."""
        return self.rmatmul(np.ones((self._rows.shape[0], 1)))[:, 0]

    def gram(self) -> np.ndarray:
        """Sum the outer products of the rows."""
        rows, weights = self._weighted_csr()
        gram = (rows.T @ rows).toarray()
        if self._center is not None:
            # (A - w m')' (A - w m') is expanded, for weighted rows A, weights w and center m.
            cross = np.outer(rows.T @ weights, self._center)
            gram -= cross + cross.T
            gram += (weights @ weights) * np.outer(self._center, self._center)
        return gram

    def squared_deviations(self, point: np.ndarray) -> np.ndarray:
        """Sum ``|x - p|^2 - |p|^2`` over rows x, for `point` p: entries of 0 add nothing."""
        data = self._rows.data.astype(np.float64, copy=False)
        return np.asarray((data * (data - 2 * point[self._rows.indices])).sum())

    def squared_norm(self) -> np.ndarray:
        """Sum the squared norms of the rows."""
        rows, weights = self._weighted_csr()
        total = np.square(rows.data).sum()
        if self._center is not None:
            total -= 2 * (rows.T @ weights) @ self._center
            total += (weights @ weights) * (self._center @ self._center)
        return np.asarray(total)

    def matmul(self, right: np.ndarray) -> np.ndarray:
        """Multiply the rows by `right`."""
        product = self._rows @ right
        if self._center is not None:
            product -= self._center @ right
        return self._times_weights(product)

    def matmul_by_column(self, right: np.ndarray) -> np.ndarray:
        """Multiply the rows by `right`; the product is stored column by column."""
        return self.matmul(right).T

    def matmul_anywhere(self, right: np.ndarray) -> np.ndarray:
        """Multiply the rows by `right`; no product depends on the place of its row in the block."""
        return self.matmul(right)

    def rmatmul(self, left: np.ndarray) -> np.ndarray:
        """Compute X' times `left`, where X is the matrix of the rows."""
        left = self.times_sample_weight(self._times_weights(left))
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

    def _weighted_csr(self) -> tuple[csr_array, np.ndarray]:
        """Return rows times factors, and the factors: weights times roots of `sample_weight`."""
        weights = self.times_sample_weight(self.weights, twice=True)
        return with_data(self._rows, self._rows.data * self._repeated(weights)), weights

    def _repeated(self, values: np.ndarray) -> np.ndarray:
        return np.repeat(values, np.diff(self._rows.indptr))


def _are_mostly_positive(sums: np.ndarray, l1_norms: np.ndarray) -> np.ndarray:
    """Return 1.0 for rows whose sum is at least half of the L1 norm, and 0.0 for other rows."""
    # A row of zeros is no evidence for positive rows.
    return np.asarray((sums >= l1_norms / 2) & (l1_norms > 0), dtype=np.float64)


Block: TypeAlias = DenseBlock | SparseBlock


# ------------------------------
# A view of all rows, and the sums that fits need.

# Bound on the number of roundings of an entry in a sum over all entries: of the entry itself, and
# in numpy's pairwise sum.
_PAIRWISE_DEPTH = 256  # not tuned


class RowCache(NamedTuple):
    """Results of an earlier pass over the same rows, for later passes."""

    norms: np.ndarray | None = None
    norm_counts: GridCounts | None = None  # replaces `norms` if later passes may read other rows
    n_mostly_positive: float | None = None
    n_not_finite: int | None = None  # number of rows with NaN or infinity
    total: np.ndarray | None = None  # sum of the rows clipped to `bound`
    bound: float | None = None


@dataclass(eq=False)
class Rows(UnitView):  # numpydoc ignore=PR02
    r"""Rows :math:`w_i (x_i - m)` of a matrix, which are computed block by block in each pass.

    Sums are computed in float64, whatever the dtype of the data. Sums that a fit releases are
    returned with a bound on their rounding error, in units of the largest contribution of one row.
    Blocks depend only on the shape of the matrix and the lengths of its parts, which are public.

    Parameters
    ----------
    source : Source
        Source of the rows.
    n_jobs : int or None, default=None
        Threads that share the blocks, as in :func:`skdp.data.reduce.map_sum`. One thread alone
        reads a stream.
    center : ndarray or None, default=None
        Center m; see `centered`.
    bound : float, default=inf
        Norm that no row exceeds; see `clipped`.
    weighting : callable or None, default=None
        Maps an array of norms to weights; None for weights of 1.
    cache : RowCache
        Results of an earlier pass over the centered rows.
    people : People or None, default=None
        Persons to whom the rows belong, if users are protected. Then each person counts once in
        every sum.
    agreed : Agreed or None, default=None
        Facts that all owners of a federated fit agree on, if these are the rows of one owner.

    Raises
    ------
    ValueError
        If the sums of an owner have a longer chain of additions than was agreed.
    """

    source: Source
    n_jobs: int | None = None
    center: np.ndarray | None = None
    bound: float = np.inf
    weighting: Weighting | None = None
    cache: RowCache = field(default_factory=RowCache)
    people: People | None = None
    agreed: Agreed | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the cache: other processes get only rows in parts, and load them again."""
        return {**vars(self), "cache": RowCache()}

    n_rows = UnitView.n_units

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.source.shape[1]

    def blocks(self, group: range) -> Iterator[tuple[slice, Block]]:
        """Yield blocks of rows, centered and weighted."""
        longest = 0 if self.keeps_sparse else int(np.diff(self.source.block_starts).max())
        # One array serves all blocks, as the operating system takes time to clear a new array.
        scratch = np.empty((longest, self.n_features))
        # If passes may read different rows, each pass clips by norms that it computes itself.
        known = self.cache.norms if self.source.is_repeatable else None
        for rows, raw in self.source.blocks(group):
            block = self._block_of(raw, scratch)
            if self.weighting is not None:
                block = block.weighted(self.weighting, None if known is None else known[rows])
            block.sample_weight = sample_weight_of(self.people, rows)
            yield rows, block

    @property
    def keeps_sparse(self) -> bool:
        """Whether blocks are sparse."""
        return self.source.is_sparse

    def _block_of(self, raw: Any, scratch: np.ndarray) -> Block:
        if issparse(raw):
            return SparseBlock(raw, self.center)
        return DenseBlock(raw, self.center, scratch)

    def centered(self, center: np.ndarray) -> Self:
        """Return a view of the raw rows minus `center`."""
        cache = RowCache(n_mostly_positive=self.cache.n_mostly_positive)
        return replace(self, center=center, bound=np.inf, weighting=None, cache=cache)

    def clipped(self, bound: float, weighting: Weighting) -> Self:
        """Return a view of the rows times weights, which make norms at most `bound`.

        `weighting` maps an array of norms to weights. If norms are not cached, each pass computes
        them.
        """
        return replace(self, bound=bound, weighting=weighting)

    def norms(self) -> np.ndarray:
        """Return the norms of centered rows, or upper bounds on them; NaN for null rows."""
        if self.cache.norms is not None:
            return self.cache.norms
        return replace(self, weighting=None).map_rows(on_block(methodcaller("norms")))

    def measured(self) -> Self:
        """Return a view with norms in its cache, unless passes over it may read other rows."""
        if not self.source.is_repeatable:
            return self
        return replace(self, cache=RowCache(self.norms()))

    def counted_norms(self, grid: np.ndarray) -> GridCounts:
        """Return counts of the norms of unweighted rows in the bins of a grid, cached or new."""
        if self.cache.norms is not None:
            weights = None if self.people is None else self.people.weights
            return GridCounts.in_all(grid, self.cache.norms, self.n_rows, weights)
        if self.cache.norm_counts is not None:
            return self.cache.norm_counts
        kernel = partial(count_norms, grid=grid)
        counts = replace(self, weighting=None).map_sum(kernel, len(grid) + 1)
        return GridCounts.of(grid, counts, self.n_rows)

    def count_mostly_positive(self) -> float:
        """Count the mostly positive rows: the sum is at least half of the L1 norm.

        Rows of zeros do not count, nor do rows whose sum is NaN.
        """
        if self.cache.n_mostly_positive is not None:
            return self.cache.n_mostly_positive
        raw = Rows(self.source, self.n_jobs, people=self.people)
        return float(raw.map_sum(count_positive, 1))

    def total(self) -> tuple[np.ndarray, float]:
        """Sum the rows; bound the rounding error of the sum."""
        total = self.cache.total
        if total is None or self.weighting is None or self.bound != self.cache.bound:
            total = self.map_sum(on_block(methodcaller("total")), self.n_features)
        return total, self._rounding(1)

    def gram(self) -> tuple[np.ndarray, float]:
        """Sum the outer products of the rows; bound the rounding error of the sum."""
        return self.map_sum(on_block(methodcaller("gram")), self.n_features**2), self._rounding(2)

    def matmul(self, right: np.ndarray) -> np.ndarray:
        """Multiply the rows by `right`; return an array with a product for each row."""
        return self.map_rows(on_block(methodcaller("matmul", right)))

    def rmatmul(self, left: np.ndarray) -> np.ndarray:
        """Compute X' times `left`, where X is the matrix of the rows."""
        size = self.n_features * left.shape[1]
        return self.map_sum(lambda rows, block: block.rmatmul(left[rows]), size)

    def dense(self) -> np.ndarray:
        """Return the raw rows as an array."""
        return self.map_rows(on_block(lambda block: as_dense(block.raw))).astype(float, copy=False)

    def squared_deviations(self, point: np.ndarray) -> tuple[float, float]:
        """Sum ``|x - p|^2 - |p|^2`` over raw rows x, for `point` p: entries of 0 add nothing.

        The bound on the rounding error is in units of the largest contribution of one entry.
        """
        total = self.map_sum(on_block(methodcaller("squared_deviations", point)), 1)
        depth = _PAIRWISE_DEPTH + len(self.block_starts)
        return float(total), depth * UNIT_ROUNDOFF * self.n_rows * self.n_features

    def squared_norm(self) -> tuple[float, float]:
        """Sum the squared norms of the rows; bound the rounding error of the sum."""
        total = self.map_sum(on_block(methodcaller("squared_norm")), 1)
        return float(total), self._rounding(2)

    def projection_counts(self, basis: np.ndarray, edges: np.ndarray) -> np.ndarray:
        """Count the norms of projections on `basis` by the bins of `edges`; leave out null rows."""

        def _kernel(_: slice, block: Block) -> np.ndarray:
            norms = row_norms(products_of(block, basis))
            norms[block.is_null] = np.nan
            return bin_counts(norms, edges, block.sample_weight).astype(np.float64)

        return self.map_sum(_kernel, len(edges))

    def subsample(self, at_most: int) -> "Rows":
        """Return a view of every k-th row, with the smallest k that gives at most `at_most` rows.

        If users are protected, the view has one row of every k-th user; it has all rows if passes
        may read other rows. The view of a stream also has all rows, since each pass reads the whole
        stream anyway.
        """
        chosen: Any
        source, people = self.source, self.people
        if people is None:
            step = math.ceil(self.n_rows / at_most)
            chosen, source = slice(None, None, step), source if step == 1 else source.every(step)
        elif source.is_repeatable:
            chosen, people = people.sample(at_most)
            source = source.at(chosen)
        if source is self.source:
            return self
        norms = None if self.cache.norms is None else self.cache.norms[chosen]
        return replace(self, source=source, cache=RowCache(norms), people=people)

    def normal_product(
        self, basis: np.ndarray, clip: Callable[[np.ndarray], np.ndarray]
    ) -> tuple[np.ndarray, float, "Rows"]:
        """Sum the outer products of the rows with their projections on `basis`, clipped by `clip`.

        Return the sum, the bound on its rounding error, and this view, with the norms of the rows
        in its cache if all passes read the same rows.
        """
        keeps_norms = self.source.is_repeatable

        def _kernel(_: slice, block: Block) -> tuple[np.ndarray, PerRow | None]:
            product = block.rmatmul(clip(block.matmul(basis)))
            return product, PerRow(block.norms()) if keeps_norms else None

        product, norms = self.map_sum(_kernel, basis.size)
        return product, self._rounding(1), replace(self, cache=self.cache._replace(norms=norms))

    def projected_moment(self, basis: np.ndarray) -> tuple[np.ndarray, float]:
        """Sum outer products of projections on an orthonormal basis, and squares of residuals.

        A residual is a row minus its projection. The sum has shape (n_columns + 1, n_columns + 1),
        and its last diagonal entry is the sum of the squared norms of the residuals.
        """
        size = basis.shape[1]

        def _kernel(_: slice, block: Block) -> np.ndarray:
            """Sum outer products of projections, and squared norms of residuals, of a block."""
            projections, moment = block.matmul(basis), np.zeros((size + 1, size + 1))
            projections = block.times_sample_weight(projections, twice=True)
            moment[:size, :size] = projections.T @ projections
            moment[size, size] = block.squared_norm() - np.trace(moment)
            return moment

        return self.map_sum(_kernel, (size + 1) ** 2), self._rounding(2, size)

    def _rounding(self, degree: int, n_columns: int = 0) -> float:
        """Bound the rounding error of a sum over rows of products of `degree` factors.

        A factor is a row or, if `n_columns` is not 0, its projection on `n_columns` columns. The
        bound is relative to the largest product.
        """
        longest = 1.0  # norm of a factor, relative to the bound
        if self.source.is_sparse and self.center is not None and np.isfinite(self.bound):
            # Products of sparse rows are centered only afterwards: raw rows may exceed the bound.
            longest += 2 * float(row_norms(self.center[None])[0]) / self.bound
        rounding = self.depth * UNIT_ROUNDOFF * self.n_rows * np.float64(longest) ** degree
        if n_columns:
            # A projection may round differently at another position in a block. If one row is
            # exchanged, no other row moves; if one person is exchanged, all rows may move.
            n_changed = 1 if self.people is None else self.n_rows
            of_projection = 4 * self.n_features * np.sqrt(n_columns) * UNIT_ROUNDOFF
            # The moment of projections has one such error, and the squared norm of residuals, as a
            # difference of two sums, has two: together at most sqrt(1 + 2 ** 2) < 3 such errors.
            rounding = 3 * rounding + n_changed * of_projection
        return max(LEAST_ROUNDING, float(rounding))

    def moved_rounding(self, n_columns: int, level: float) -> float:
        r"""Bound how much products clipped to `level` change if rows move to other positions.

        If a person has one row more, rows of other people move within blocks, where BLAS may round
        their products differently. The product of a row with k columns changes by at most
        :math:`(d + 2) u \sqrt k` times the norm of the row, for d features and unit roundoff u.
        """
        if self.people is None or not math.isfinite(level):
            return 0.0
        one = (self.n_features + 2) * math.sqrt(n_columns) * UNIT_ROUNDOFF
        return self.n_rows * one * max(1.0, self.bound / level)


def count_norms(_: slice, block: Block, grid: np.ndarray) -> np.ndarray:
    """Count norms in the bins of a grid, and norms beyond the grid in a last bin; leave out NaN."""
    edges = np.append(grid, np.inf)
    return bin_counts(block.norms(), edges, block.sample_weight).astype(np.float64)


def count_positive(_: slice, block: Block) -> np.ndarray:
    """Count the mostly positive rows of a block."""
    return np.asarray(block.times_sample_weight(block.are_mostly_positive()).sum())


def products_of(block: Block, right: np.ndarray) -> np.ndarray:
    """Multiply the rows of a block by `right`, for counts of the products.

    If people are the units, exchanging one person moves rows of other people. So the product of a
    row must not depend on its position.
    """
    are_people = block.sample_weight is not None
    return block.matmul_anywhere(right) if are_people else block.matmul(right)


# ------------------------------
# The first pass over rows, which computes all that a fit needs before its first release.


def open_rows(
    rows: Rows,
    *,
    is_seeded: bool,
    needs_signs: bool,
    first: tuple[float, Weighting] | None,
    grid: np.ndarray | None = None,
) -> tuple[Rows, bytes | None]:
    """Read raw or centered rows once, and store the results in a cache; release nothing.

    Parameters
    ----------
    rows : Rows
        Rows that are not clipped.
    is_seeded : bool
        Whether to compute a digest of the rows, as a key of seeded noise.
    needs_signs : bool
        Whether to count the rows that are mostly positive.
    first : tuple of float and callable, or None
        Bound and weighting of the clipped rows whose sum is the first release of the fit; None if
        the first release is something else.
    grid : ndarray or None, default=None
        Grid on which norms are counted, if the next pass may read other rows; None for no counts.

    Returns
    -------
    rows : Rows
        The same view, with norms or their counts, and the other results, in its `cache`.
    digest : bytes or None
        The digest; None if noise is not seeded.
    """
    bound, weighting = first or (None, None)
    keeps_norms = rows.source.is_repeatable
    kernels = (
        (lambda _, block: PerRow(block.norms())) if keeps_norms else None,
        None if keeps_norms or grid is None else partial(count_norms, grid=grid),
        _n_not_finite,
        count_positive if needs_signs else None,
        None if weighting is None else (lambda _, block: block.weighted(weighting).total()),
        digest_kernel(rows.source) if is_seeded else None,
    )
    size = max(rows.n_features, 0 if grid is None else len(grid))
    found = map_sum(rows, partial(_all_of, kernels=kernels), size, rows.n_jobs)
    norms, counts, n_not_finite, n_positive, total, digests = found
    if grid is not None and counts is not None:
        counts = GridCounts.of(grid, counts, rows.n_rows)
    cache = RowCache(
        norms=norms,
        norm_counts=counts,
        n_mostly_positive=None if n_positive is None else float(n_positive),
        n_not_finite=int(n_not_finite),
        total=total,
        bound=bound,
    )
    digest = None if digests is None else joined_digest(rows.source, digests)
    return replace(rows, cache=cache), digest


def _all_of(rows: slice, block: Any, kernels: tuple[Kernel | None, ...]) -> tuple[Any, ...]:
    """Return the result of each kernel for a block; None for a kernel of None."""
    return tuple(None if kernel is None else kernel(rows, block) for kernel in kernels)


def _n_not_finite(_: slice, block: Any, *, allow_nan: bool = False) -> np.ndarray:
    """Count the rows of a block with NaN or infinity; with `allow_nan`, those with infinity."""
    if isinstance(block, _BaseBlock):
        # A norm may be infinite although all entries of its row are finite. So the entries are
        # checked, but only in rows whose norm is not finite.
        block = block.raw[~np.isfinite(block.norms())]
    return np.asarray(float(not_finite_rows(block, allow_nan=allow_nan).sum()))


def checked_digest(
    source: Source | Targets,
    n_jobs: int | None,
    *,
    is_seeded: bool,
    name: str = "X",
    allow_nan: bool = False,
) -> Callable[[], bytes | None]:
    """Refuse rows in parts with NaN or infinity; return a function that returns their digest.

    For rows in parts, one pass checks and hashes, and the digest is None if noise is not seeded.
    Rows in memory have been checked before, and are hashed when the returned function is called.
    """
    if not isinstance(getattr(source, "X", source), Parts):
        return partial(digest, source)
    n_refused = partial(_n_not_finite, allow_nan=allow_nan)
    kernels = n_refused, digest_kernel(source) if is_seeded else None
    n_not_finite, digests = map_sum(source, partial(_all_of, kernels=kernels), 1, n_jobs)
    if n_not_finite:
        raise not_finite_error(source, n_jobs, name, allow_nan=allow_nan)
    return lambda: None if digests is None else joined_digest(source, digests)


def not_finite_error(
    source: Source | Targets, n_jobs: int | None, name: str = "X", *, allow_nan: bool = False
) -> ValueError:
    """Return the error for rows with NaN or infinity; a pass over the rows finds the columns."""
    if allow_nan:
        text, cures = f"Input {name} contains infinity. {CURES['infinity']}", CURES
    else:
        is_in_parts = isinstance(getattr(source, "X", None), RowBlocks)
        mend = MISSING_IN_PARTS if is_in_parts else MISSING[name]
        text, cures = f"Input {name} contains NaN or infinity. {mend}", {**CURES, "NaN": mend}
    if names := getattr(getattr(source, "X", None), "feature_names", None):
        n_missing, n_infinite = map_sum(source, _not_finite_by_column, len(names), n_jobs)
        kinds: dict[str, str] = {}
        for kind, counts in (("NaN", n_missing), ("infinity", n_infinite)):
            if kind == "infinity" or not allow_nan:
                kinds |= {column: kind for column, n in zip(names, counts, strict=True) if n > 0}
        text = f"{text} {text_of_kinds(kinds, text, cures)}".rstrip()
    return ValueError(text)


def _not_finite_by_column(_: slice, block: Any) -> tuple[np.ndarray, ...]:
    """Count missing and infinite entries by column."""
    values, columns = block, np.broadcast_to(np.arange(block.shape[1]), block.shape)
    if issparse(block):
        values, columns = block.data, block.indices
    found = (columns[is_found(values)] for is_found in (np.isnan, np.isinf))
    return tuple(np.bincount(one, minlength=block.shape[1]).astype(float) for one in found)
