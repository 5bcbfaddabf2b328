"""Sources of rows: arrays, memory maps, blocks and parts; results for all rows, and digests."""

import hashlib
import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from copy import copy
from functools import partial
from itertools import chain, pairwise, starmap
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from skdp.data import containers, reduce
from skdp.data.parts import (
    PartResults,
    RowBlocks,
    RowParts,
    Targets,
    composed,
    mapped_blocks,
    refused_if_not_finite,
    stacked,
)
from skdp.data.workers import run_in_threads, thread_count, without_warnings
from skdp.linalg.norms import with_data

_SMALL_BYTES = 1 << 20  # size of a dense block that fits into the cache of a core; not studied
_BLOCK_BYTES = 1 << 24  # size of the largest dense block; not studied
#: Largest number of bytes of data that are cached for later passes.
CACHE_BYTES = 1 << 30  # not studied
_DENSE_ROWS = (256, 8192)  # fewest and most rows of a dense block; not studied
_GRAM_ROWS = 2048  # fewest rows of a dense block, unless they exceed `_BLOCK_BYTES`; not studied
_SPARSE_ROWS = (4096, 65536)  # fewest and most rows of a sparse block; not studied
_SPARSE_BLOCKS = 32  # number of sparse blocks, as far as `_SPARSE_ROWS` permits; not studied


class Source:
    """Rows of an array, a sparse matrix or a `RowBlocks`, which are read block by block.

    Parameters
    ----------
    X : ndarray, sparse matrix or RowBlocks
        Rows. Anything but a `RowBlocks` is one part, and is read by slices.
    function : callable or None, default=None
        Maps each row of an array by itself; every pass applies it to blocks.
    like : Source or None, default=None
        A source with the same rows in another container. This source uses the block boundaries of
        `like`, so that sums over both round in the same way.
    """

    def __init__(
        self, X: Any, function: Callable[[Any], Any] | None = None, like: "Source | None" = None
    ) -> None:
        #: Whether every pass reads the same rows.
        self.is_repeatable = not isinstance(X, RowBlocks) or getattr(X, "is_cached", False)
        if isinstance(X, RowParts):
            if X.like is not None:
                raise ValueError(containers.flaw_of_columns(X.like))
            # The source needs no targets: kernels that use targets refer to them themselves.
            X = copy(X)
            X.y = None
        self.X, self._function = containers.as_canonical(X) if issparse(X) else X, function
        self.shape: tuple[int, int] = self.X.shape
        self.is_sparse = holds_sparse(X)
        self.is_stream = isinstance(X, RowBlocks) and X._is_stream
        self.pass_over, self.numbers = getattr(X, "pass_over", None), getattr(X, "numbers", None)
        lengths = getattr(X, "lengths", self.shape[:1])
        starts, n_rows = list[np.ndarray](), 0
        for n in lengths:
            inner = block_starts(n, self.shape[1], is_sparse=self.is_sparse)
            starts.append(n_rows + inner[:-1])
            n_rows += n
        self.block_starts: np.ndarray = np.concatenate([*starts, [n_rows]])
        #: First block of each part, and the number of blocks.
        self.part_starts: list[int] = np.cumsum([0, *map(len, starts)]).tolist()
        if like is not None:
            self.block_starts, self.part_starts = like.block_starts, like.part_starts

    def every(self, step: int) -> "Source":
        """Select every `step`-th row; of a stream, which each pass reads whole, select all rows."""
        rows = self.X._every(step) if isinstance(self.X, RowBlocks) else self.X[::step]
        return self if rows is self.X else Source(rows, self._function)

    def at(self, places: np.ndarray) -> "Source":
        """Select the rows of an array with the numbers `places`."""
        return Source(self.X[places], self._function)

    def blocks(self, group: range) -> Iterator[tuple[slice, containers.RawBlock]]:
        """Yield the blocks with the numbers in `group`, and their row numbers; load a part once."""
        first = bisect_right(self.part_starts, group.start) - 1
        for part in range(first, bisect_left(self.part_starts, group.stop)):
            before, after = self.part_starts[part : part + 2]
            starts = self.block_starts[max(before, group.start) : min(after, group.stop) + 1]
            inside = (starts - self.block_starts[before]).tolist()
            if isinstance(self.X, RowBlocks):
                blocks = self.X._blocks_of(part, inside)
            else:
                blocks = containers.blocks_at(self.X, inside)
            if self._function is not None:
                blocks = map(self._function, blocks)
            yield from zip(starmap(slice, pairwise(starts.tolist())), blocks, strict=True)


def holds_sparse(X: Any) -> bool:
    """Return whether rows are sparse."""
    if isinstance(X, RowBlocks):
        return X.is_sparse
    # Only data frames with sparse columns have this attribute.
    return issparse(X) or (
        not isinstance(X, np.ndarray) and containers.hide_error_text(hasattr, X, "sparse")
    )


def as_source(X: Any, function: Callable[[Any], Any] | None = None) -> Source:
    """Return the source of a checked array, CSR matrix or `RowBlocks`.

    `function` maps each row by itself. It is applied to rows in memory now, and to a memory map or
    a `RowBlocks` in every pass. It may make dense rows sparse, except for those of a memory map,
    for which the source would still say that its rows are dense.
    """
    if function is not None and isinstance(X, RowBlocks):
        return Source(mapped_blocks(mapped_blocks(X, function), _without_infinities))
    if function is None or containers.is_mapped(X):
        return Source(X, function)
    return Source(function(containers.as_canonical(X) if issparse(X) else X))


@without_warnings()
def cached(X: Any) -> Any:
    """Load small parts into memory once, for fits with many passes, and apply their function.

    Other rows are returned as they are, also memory maps, which are read like arrays in memory.
    """
    if not isinstance(X, RowParts) or X.form.is_mapped:
        return X
    # The size of dense rows decides, as the number of nonzero entries is private.
    if X.shape[0] * X.shape[1] * 8 > CACHE_BYTES:
        return X
    if X.pass_over:
        # Workers of dask have stored the parts already, but not the results of their function.
        return X if X.function is None else X.store(X)
    source = Source(X)
    calls = [partial(rows_of_part, source, part) for part in range(len(X.parts))]
    blocks = run_in_threads(calls, thread_count(None))
    loaders: list[Any] = [lambda block=block: block for block in blocks]
    return X.cached(loaders)


def rows_of_part(source: Source, part: int) -> containers.RawBlock:
    """Read the blocks of a part as a pass does, and join them."""
    numbers = range(*source.part_starts[part : part + 2])
    blocks = [block for _, block in source.blocks(numbers)]
    # A copy, as a function may load its next part into the same array.
    return stacked(blocks) if len(blocks) > 1 else blocks[0].copy()


def largest_depth(
    n_rows: int, n_features: int, *, is_sparse: bool, width: int | None = None
) -> int:
    """Bound the longest chain of additions in sums over at most `n_rows` rows, in one part.

    `width` is the number of columns that decides on the length of blocks, by default `n_features`.
    """
    # Let N be `n_rows`, and l(n) be `_block_length` of n rows, which does not decrease with n. If
    # there are n <= N rows, no block is longer than l(n) <= l(N), or n, except that rounding of its
    # ends may add one row. The number of blocks is the ceiling of n / l(n). For dense rows l(n) is
    # the same for all n, so that the number is at most the ceiling of N / l(N). For sparse rows:
    # - if l(n) is the upper limit, l(N) is, too, and n / l(n) <= N / l(N);
    # - if l(n) is the lower limit l(1), n / l(n) <= N / l(1), and n / l(n) < 32;
    # - else l(n) = n // 32 >= l(1), so that n / l(n) <= N / l(1); and n / l(n) < 33, as the
    #   remainder of n by 32 is less than l(n).
    # The depth is largest for the most and the longest blocks: see `largest_sum_depth`.
    width = n_features if width is None else width
    least, length = (_block_length(size, width, is_sparse=is_sparse) for size in (1, n_rows))
    n_blocks = max(-(-n_rows // length), min(-(-n_rows // least), _SPARSE_BLOCKS + 1))
    return reduce.largest_sum_depth(min(length, n_rows) + 1, n_blocks, n_features)


def _without_infinities(block: Any) -> Any:
    """Set infinite and NaN entries to 0: rows in blocks may change after they were checked."""
    if issparse(block):
        return with_data(block, _without_infinities(block.data))
    is_finite = np.isfinite(block)
    return block if is_finite.all() else np.where(is_finite, block, 0)


def block_starts(n_rows: int, n_features: int, *, is_sparse: bool) -> np.ndarray:
    """Return the first row of each block, and the number of rows.

    Blocks depend only on the shape, since the contribution of a row must not depend on other rows.
    No block has a single row, unless X has: in a product, a single row may round differently.
    """
    n_blocks = math.ceil(n_rows / _block_length(n_rows, n_features, is_sparse=is_sparse))
    starts = np.linspace(0, n_rows, n_blocks + 1).astype(np.int64)
    starts.flags.writeable = False
    return starts


def _block_length(n_rows: int, n_features: int, *, is_sparse: bool) -> int:
    """Return the number of rows that a block should have; it does not decrease with `n_rows`."""
    if is_sparse:
        size, limits = n_rows // _SPARSE_BLOCKS, _SPARSE_ROWS
    else:
        # A block should fit into the cache of a core. But with d features, a block adds a product
        # of d by d entries: with many rows, computing this product takes far longer than adding it.
        size = max(_SMALL_BYTES // (8 * n_features), 4 * n_features, _GRAM_ROWS)
        size, limits = min(size, _BLOCK_BYTES // (8 * n_features)), _DENSE_ROWS
    return min(max(size, limits[0]), limits[1])


# ------------------------------
# Results for rows in blocks or parts.


def computed(results: PartResults | np.ndarray, n_jobs: int | None) -> np.ndarray:
    """Compute the results of all rows, in one pass; refuse rows that are not finite.

    If other processes read the rows, such as workers of dask, they compute the results, too.
    """
    if isinstance(results, np.ndarray):
        return results
    made: Any = composed(refused_if_not_finite, results.function)
    values = reduce.map_sum(
        as_source(results.rows), lambda _, block: reduce.PerRow(made(block)), 0, n_jobs
    )
    return np.asarray(values)


# ------------------------------
# Digests of the values of rows, which are the same in every container.


def digest(source: Source | Targets) -> bytes:
    """Hash the values of all rows in one pass, to 32 bytes.

    The hash depends on every value, but not on the container (dense or sparse), the memory order,
    the floating-point type, the blocks, explicit zeros or the sign of zeros. It depends on the
    parts that rows come in: a part is hashed where it is loaded.
    """
    return joined_digest(source, reduce.map_sum(source, digest_kernel(source), 0))


def digests(*parts: Source | Targets | np.ndarray) -> tuple[bytes, ...]:
    """Hash several sources and arrays; a vector counts as a column."""
    return tuple(
        digest(as_source(one.reshape(len(one), -1)) if isinstance(one, np.ndarray) else one)
        for one in parts
    )


def digest_kernel(source: Source | Targets) -> reduce.Kernel:
    """Return a kernel that hashes blocks, in pieces that are the same for dense and sparse rows."""
    starts = [block_starts(*source.shape, is_sparse=is_sparse) for is_sparse in (True, False)]
    ends = np.unique(np.concatenate(starts))

    def _digests(rows: slice, block: Any) -> reduce.PerRow:
        """Hash a block, cut at the starts of dense and of sparse blocks."""
        raw = getattr(block, "raw", block)
        inner = ends[(ends > rows.start) & (ends < rows.stop)]
        cuts = pairwise([rows.start, *inner, rows.stop])
        parts = [_canonical_parts(raw[a - rows.start : b - rows.start]) for a, b in cuts]
        hashes = b"".join(map(_hashed, chain.from_iterable(parts)))
        return reduce.PerRow(np.frombuffer(hashes, np.uint8))

    return _digests


def joined_digest(source: Source | Targets, digests: np.ndarray) -> bytes:
    """Hash the shape, and the results of `digest_kernel` for all blocks."""
    return _hashed(b"%d %d" % source.shape + digests.tobytes())


def _hashed(values: Any) -> bytes:
    return hashlib.blake2b(values, digest_size=32).digest()


def _canonical_parts(block: containers.RawBlock) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return counts of nonzeros by row, their columns in rows that have zeros, and their values."""
    rows = csr_array(block.astype(np.float64, copy=False))
    if issparse(block) and not rows.data.all():
        rows = rows.copy()
        rows.eliminate_zeros()
    counts = np.diff(rows.indptr).astype(np.int64)
    has_zeros = np.repeat(counts < rows.shape[1], counts)
    return counts, rows.indices[has_zeros].astype(np.int64), rows.data
