"""Where rows come from: arrays, sparse matrices, memory maps and functions that make blocks."""

import math
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import islice
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from skdp.data.containers import SkdpContainer, checked_container, hide_error_text
from skdp.linalg.compressed import rows_of, with_data

__all__ = [
    "ArraySource",
    "BlockSource",
    "MappedBlocks",
    "RowBlocks",
    "Source",
    "as_source",
    "block_starts",
    "canonical_csr",
    "checked_dtype",
    "checked_shape",
    "float_dtype",
    "holds_sparse",
    "plain_csr",
]

_CACHED_BYTES = 1 << 20  # not studied
_BLOCK_BYTES = 1 << 24  # not studied
_DENSE_ROWS = (256, 4096)  # not studied
_GRAM_ROWS = 2048  # not studied
_SPARSE_ROWS = (4096, 65536)  # not studied
_SPARSE_BLOCKS = 32  # not studied
_END = object()

RawBlock: TypeAlias = np.ndarray | sparse.csr_array


class RowBlocks(SkdpContainer):
    """A matrix that exists only as blocks of rows, which a function makes again for every pass.

    Estimators of skdp take it in place of an array, for rows that do not fit into memory.

    Parameters
    ----------
    make_blocks : callable
        Function without arguments, called for every pass over the data. It returns an iterable of
        2-D arrays or sparse matrices; stacked, they are the rows. Every pass must yield the same
        rows in the same order. The number of passes depends on the rows only through released
        values.
    shape : tuple of two ints
        Number of rows and of features, both public.
    dtype : dtype, default=numpy.float64
        Floating-point type of the results.

    Raises
    ------
    ValueError
        If `make_blocks` is not callable, `shape` not a pair of positive integers, or `dtype`
        neither float32 nor float64.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import DPTruncatedSVD, RowBlocks
    >>> def make_blocks():
    ...     for seed in range(4):  # in practice: one file after the other
    ...         yield np.random.default_rng(seed).normal(size=(500, 3)) + [9, 0, 0]
    >>> rows = RowBlocks(make_blocks, shape=(2000, 3))
    >>> rows
    RowBlocks(shape=(2000, 3), dtype=float64)
    >>> svd = DPTruncatedSVD(1, row_norm=10).fit(rows)
    >>> svd.transform(rows).shape
    (2000, 1)
    """

    def __init__(
        self,
        make_blocks: Callable[[], Iterable[Any]],
        shape: tuple[int, int],
        dtype: Any = np.float64,
    ) -> None:
        if not callable(make_blocks):
            raise ValueError(
                "make_blocks must be a function that starts a new pass over the blocks, got "
                f"{type(make_blocks).__name__}; an array or a memory map needs no RowBlocks."
            )
        self.make_blocks = make_blocks
        self.shape = checked_shape(shape)
        self.dtype = checked_dtype(dtype)

    @property
    def is_sparse(self) -> bool:
        """Whether the first block is sparse, and hence all of them."""
        return any(sparse.issparse(block) for block in islice(self._made(), 1))

    def __repr__(self) -> str:
        return f"RowBlocks(shape={self.shape}, dtype={self.dtype})"

    def check(self) -> None:
        """Read all blocks once, and refuse those that no estimator can use.

        Raises
        ------
        ValueError
            If the blocks do not add up to `shape`, contain NaN or infinity, or cannot be read.
        """
        n_rows, is_sparse = 0, self.is_sparse
        for block in self._checked_blocks():
            n_rows += block.shape[0]
            if sparse.issparse(block) != is_sparse:
                raise ValueError("make_blocks gave both dense and sparse blocks.")
            values = block.data if sparse.issparse(block) else block
            if not np.isfinite(values).all():
                raise ValueError("Input X contains NaN or infinity.")
        if n_rows != self.shape[0]:
            raise ValueError(
                f"make_blocks gave {n_rows} rows, but shape promises {self.shape}. Every call must "
                "start a new pass over all rows."
            )

    def _rebinned(self, starts: np.ndarray) -> Iterator[RawBlock]:
        """Yield the rows in blocks that begin at `starts`, whatever blocks they come in."""
        waiting: list[RawBlock] = []
        n_waiting, sizes = 0, iter(np.diff(starts))
        size = next(sizes)
        for block in self._checked_blocks():
            start = 0
            while n_waiting + block.shape[0] - start >= size:
                stop = start + size - n_waiting
                yield _stack([*waiting, block[start:stop]])
                waiting, n_waiting, start = [], 0, stop
                size = next(sizes, np.inf)
            if start < block.shape[0]:
                # A copy: the function may use the same array for its next block.
                waiting.append(block[start:].copy())
                n_waiting += block.shape[0] - start

    def _made(self) -> Iterator[Any]:
        """Make the blocks; texts of errors are hidden, since they may contain values."""
        blocks = hide_error_text(lambda: iter(self.make_blocks()))
        while (block := hide_error_text(next, blocks, _END)) is not _END:
            yield block

    def _checked_blocks(self) -> Iterator[RawBlock]:
        for block in map(checked_container, self._made()):
            is_sparse = sparse.issparse(block)
            block = _canonical(block) if is_sparse else hide_error_text(np.asarray, block)
            if not np.can_cast(block.dtype, np.float64):
                raise ValueError(
                    f"make_blocks gave a block of dtype {block.dtype}, but every block must hold "
                    "real numbers of at most 64 bits."
                )
            if block.ndim != 2 or block.shape[1] != self.shape[1]:
                raise ValueError(
                    f"make_blocks gave a block of shape {block.shape}, but every block must be 2-D "
                    f"with {self.shape[1]} columns."
                )
            yield block


class MappedBlocks(RowBlocks):
    """A `RowBlocks` whose blocks go through a function that takes each row by itself."""

    def __init__(self, X: RowBlocks, function: Callable[[Any], Any]) -> None:
        super().__init__(X.make_blocks, X.shape, X.dtype)
        self._of, self._function = X, function

    def _made(self) -> Iterator[Any]:
        return map(_without_infinities, map(self._function, self._of._checked_blocks()))


class ArraySource:
    """Rows of a validated array, memory map or sparse matrix, read by slices."""

    def __init__(self, X: Any, function: Callable[[Any], Any] | None = None) -> None:
        self.is_sparse = sparse.issparse(X)
        self._function = function
        self.X = _canonical(X) if self.is_sparse else X
        self.shape: tuple[int, int] = self.X.shape
        self.block_starts = block_starts(*self.shape, is_sparse=self.is_sparse)

    def every(self, step: int) -> "ArraySource":
        """Keep every `step`-th row."""
        return ArraySource(self.X[::step], self._function)

    def blocks(self, group: range) -> Iterator[tuple[slice, RawBlock]]:
        """Yield the blocks of a group with the rows they stand for."""
        for index in group:
            rows = slice(self.block_starts[index], self.block_starts[index + 1])
            block = rows_of(self.X, rows) if self.is_sparse else self.X[rows]
            yield rows, block if self._function is None else self._function(block)


class BlockSource:
    """Rows of a `RowBlocks`, read in sequence: a stream cannot be entered in the middle."""

    is_stream = True

    def __init__(self, X: RowBlocks) -> None:
        self.X = X
        self.shape = X.shape
        self.is_sparse = X.is_sparse
        self.block_starts = block_starts(*self.shape, is_sparse=self.is_sparse)

    def blocks(self, group: range) -> Iterator[tuple[slice, RawBlock]]:
        """Yield all blocks with the rows they stand for."""
        for index, block in zip(group, self.X._rebinned(self.block_starts), strict=True):
            yield slice(self.block_starts[index], self.block_starts[index + 1]), block


Source = ArraySource | BlockSource


def checked_shape(shape: Any) -> tuple[int, int]:
    """Return a shape in plain integers; refuse what is not two positive ones."""
    is_pair = hasattr(shape, "__len__") and len(shape) == 2
    if not is_pair or not all(isinstance(n, Integral) and int(n) > 0 for n in shape):
        got = f"{shape!r}" if isinstance(shape, tuple | list) else type(shape).__name__
        raise ValueError(f"shape must be two positive integers, got {got}.")
    return int(shape[0]), int(shape[1])


def checked_dtype(dtype: Any) -> np.dtype:
    """Refuse a type of numbers other than float32 and float64."""
    if np.dtype(dtype) not in (np.float32, np.float64):
        raise ValueError(f"dtype must be float32 or float64, got {dtype!r}.")
    return np.dtype(dtype)


def float_dtype(X: Any) -> np.dtype:
    """Return the type in which numbers computed from X are given: float32 if X has that."""
    return np.dtype(np.float32 if getattr(X, "dtype", None) == np.float32 else np.float64)


def holds_sparse(X: Any) -> bool:
    """Tell whether the rows of an array or of blocks are sparse."""
    if isinstance(X, RowBlocks):
        return X.is_sparse
    # Only data frames with sparse columns have this attribute.
    return bool(sparse.issparse(X) or hide_error_text(hasattr, X, "sparse"))


def as_source(X: Any, function: Callable[[Any], Any] | None = None) -> Source:
    """Choose the source for a validated array, CSR matrix or `RowBlocks`.

    A `function` that takes each row by itself is applied to the rows: at once if they are in
    memory; in every pass for a memory map or a `RowBlocks`, whose dense rows it may make sparse.
    """
    if isinstance(X, RowBlocks):
        return BlockSource(X if function is None else MappedBlocks(X, function))
    if function is None or _is_mapped(X):
        return ArraySource(X, function)
    return ArraySource(function(_canonical(X) if sparse.issparse(X) else X))


def _is_mapped(X: Any) -> bool:
    """Whether an array is a memory map, or a view of one."""
    while isinstance(X, np.ndarray):
        if isinstance(X, np.memmap):
            return True
        X = X.base
    return False


@lru_cache(maxsize=64)
def block_starts(n_rows: int, n_features: int, *, is_sparse: bool) -> np.ndarray:
    """First rows of the blocks, and the end.

    They depend only on the shape, since the contribution of a row must not depend on other rows. No
    block is a single row unless there is only one row: in a product of its own, a row may round
    differently than in a larger block.
    """
    if is_sparse:
        size, limits = n_rows // _SPARSE_BLOCKS, _SPARSE_ROWS
    else:
        # Small enough for the cache, if possible, but with so many rows that products take far more
        # time than the addition of their d x d results.
        size = max(_CACHED_BYTES // (8 * n_features), 4 * n_features, _GRAM_ROWS)
        size, limits = min(size, _BLOCK_BYTES // (8 * n_features)), _DENSE_ROWS
    n_blocks = math.ceil(n_rows / min(max(size, limits[0]), limits[1]))
    starts = np.linspace(0, n_rows, n_blocks + 1).astype(np.int64)
    starts.flags.writeable = False
    return starts


def canonical_csr(X: Any) -> sparse.csr_array:
    """Convert to CSR without duplicate entries, which would make the norm of a row wrong.

    Duplicates are added up in the order of their row, whatever other rows hold.
    """
    return _canonical(checked_container(X))


def _canonical(X: Any) -> sparse.csr_array:
    X = _as_csr(X)
    if X.ndim == 2 and not X.has_canonical_format:
        # To CSC and back: unlike `sort_indices`, this keeps the order of duplicates.
        X = sparse.csr_array(X.tocsc().tocsr())
        X.sum_duplicates()
    return X


def plain_csr(X: Any) -> sparse.csr_array:
    """Convert to CSR, and keep duplicate entries.

    Every sparse matrix passes through this function or `canonical_csr`: both refuse indices out of
    range.
    """
    return _as_csr(checked_container(X))


def _as_csr(X: Any) -> sparse.csr_array:
    if X.ndim == 2 and X.format not in ("csr", "csc"):
        X = X.tocoo(copy=False)
        X = sparse.coo_array((X.data, (X.row, X.col)), shape=X.shape)
        # This need not be true, but without it the conversion would add duplicates up.
        X.has_canonical_format = True
    X = X.tocsr()
    # A new object: the old one may be flagged as canonical although it is not.
    return with_data(X, X.data)


def _without_infinities(block: Any) -> Any:
    """Set to 0 what is not finite in this pass: the rows were checked in another one."""
    if sparse.issparse(block):
        return with_data(block, _without_infinities(block.data))
    is_finite = np.isfinite(block)
    return block if is_finite.all() else np.where(is_finite, block, 0)


def _stack(parts: list[RawBlock]) -> RawBlock:
    if len(parts) == 1:
        return parts[0]
    if sparse.issparse(parts[0]):
        return sparse.csr_array(sparse.vstack(parts, format="csr"))
    return np.vstack(parts)
