"""Rows that exist only as blocks, which functions make or load again for every pass."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, ClassVar, NoReturn

import numpy as np
from scipy import sparse

from skdp.data.containers import SkdpContainer, checked_container, hide_error_text, without_warnings
from skdp.data.conversion import RawBlock, as_canonical, checked_dtype, checked_shape, in_c_order
from skdp.data.part_results import write_npy

_END = object()
Loader = Callable[[], Any]
#: What is said of rows in blocks, in scikit-learn's words, and what helps.
NOT_FINITE = (
    "Input X contains NaN or infinity. Fill missing values by a constant, as "
    "SimpleImputer(strategy='constant', keep_empty_features=True) does in a DPPipeline."
)


class RowBlocks(SkdpContainer):
    """A matrix that exists only as blocks of rows, which a function makes again for every pass.

    Estimators of skdp take it in place of an array, for rows that do not fit into memory. What
    their `transform` makes of it is computed when it is read: iterate over it, or write it to a
    file by `to_npy`.

    The parameters are those of one stream, which one thread reads, and which has no targets. Rows
    in files or in other parts, which several threads read, with targets for regressions,
    classifiers and pipelines, are made by `from_parquet`, `from_npy` and `from_partitions`.

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

    #: Makes rows of parts; `skdp.data.row_parts`, which builds on this class, sets it.
    _of_parts: ClassVar[Callable[..., "RowBlocks"]]
    # What the rows go through, each by itself; None for nothing.
    function: Callable[[Any], Any] | None = None
    # None if the features have no names.
    feature_names: list[str] | None = None

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
        self._n_made = self.shape[1]
        self.dtype = checked_dtype(dtype)

    @classmethod
    def from_partitions(
        cls,
        loaders: Sequence[Callable[[], Any]],
        lengths: Sequence[int],
        n_features: int,
        dtype: Any = np.float64,
        y: Sequence[Any] | None = None,
    ) -> "RowBlocks":
        """Make rows of parts, each of which a function loads; threads load several at a time.

        If `joblib.parallel_config` names another backend, such as ``"loky"`` or ``"dask"``, its
        workers load the parts, and all have to be of one kind, with the same versions.

        How rows are divided into parts has to be as public as their number: files that are split
        by a column's value, such as a country or a hash of a user, tell something of it.

        Parameters
        ----------
        loaders : sequence of callable
            Functions without arguments, each of which loads the rows of one part, as a 2-D array or
            sparse matrix. Several threads call them at the same time; a connection to a database is
            opened within the function. To run in other processes they have to be picklable.
        lengths : sequence of int
            How many rows each part has, from 0. Public.
        n_features : int
            How many features each part has.
        dtype : dtype, default=numpy.float64
            Floating-point type of the results.
        y : sequence of callable or array-like, or None, default=None
            Responses or labels of each part: 1-D arrays, or functions without arguments that load
            them. Regressions and classifiers take them from here: ``fit(rows)``.

        Returns
        -------
        RowBlocks
            The rows of all parts, in this order.

        Raises
        ------
        ValueError
            If a loader is no function, a length no integer from 0, `n_features` not positive, there
            are no rows, or `y` has not as many parts.
        """
        return cls._of_parts(loaders, lengths, n_features, dtype, y)

    @classmethod
    def from_npy(cls, paths: Any, y: Any = None) -> "RowBlocks":
        """Make rows of files of numpy, each a part, which are mapped into memory and not copied.

        Parameters
        ----------
        paths : path-like or sequence of path-like
            Files that `numpy.save` has written: 2-D arrays of real numbers. How rows are divided
            into files has to be as public as their number, so not by country or user.
        y : path-like, sequence of path-like or None, default=None
            Files with the responses or labels of each of `paths`, in the same order: 1-D arrays of
            numbers or strings.

        Returns
        -------
        RowBlocks
            Their rows, in this order; of dtype float32 if all files are.

        Raises
        ------
        OSError
            If there is no such file.
        ValueError
            If a file holds no such array, or files do not fit together.
        """
        from skdp.data.npy import npy_files

        files, targets = npy_files(paths, 2), None if y is None else npy_files(y, 1)
        lengths, widths = [one.shape[0] for one in files], {one.shape[1] for one in files}
        if len(widths) > 1:
            raise ValueError(f"paths must be files of one number of columns, got {sorted(widths)}.")
        if targets is not None and [one.shape[0] for one in targets] != lengths:
            raise ValueError("y must have a file for each of paths, of as many entries as rows.")
        return cls._of_parts(
            [one.loader for one in files],
            lengths,
            widths.pop(),
            np.float32 if all(one.dtype == np.float32 for one in files) else np.float64,
            None if targets is None else [one.loader for one in targets],
        )

    @classmethod
    def from_parquet(
        cls, paths: Any, columns: Sequence[str] | None = None, y: str | None = None
    ) -> "RowBlocks":
        """Make rows of files of Parquet, of which each row group is a part.

        Only metadata are read at first. Each pass decodes every row group again, in one thread. It
        needs pyarrow: ``pip install "skdp[parquet]"``.

        Parameters
        ----------
        paths : path-like or sequence of path-like
            Files with the same columns. How rows are divided into files and row groups has to be as
            public as their number, so not by country or user.
        columns : sequence of str or None, default=None
            Names of the features: columns of numbers or booleans without missing values. ``None``
            stands for all columns but `y`, and but an index that pandas wrote.
        y : str or None, default=None
            Name of the column of responses or labels: numbers, booleans, strings, or categories
            that are strings.

        Returns
        -------
        RowBlocks
            Their rows, in this order; of dtype float32 if all features are. Estimators take over
            the names of the features.

        Raises
        ------
        ImportError
            If pyarrow is not installed.
        OSError
            If there is no such file.
        ValueError
            If a file is no Parquet file, or has not these columns, of such types, each the same in
            all files.
        """
        from skdp.data.parquet import row_groups

        return cls._of_parts(*row_groups(paths, columns, y))

    @property
    @without_warnings()
    def is_sparse(self) -> bool:
        """Whether the first block is sparse, and hence all of them."""
        return any(sparse.issparse(block) for block in islice(self._checked_blocks(), 1))

    def __iter__(self) -> Iterator[RawBlock]:
        """Yield the rows, a block or a part at a time; refuse those that are not finite."""
        return map(refused_if_not_finite, self._checked_blocks())

    def __getitem__(self, rows: Any) -> Any:
        raise TypeError(
            "Rows in blocks are not in memory, and cannot be indexed or split, as cross-validation "
            "and searches do: split the files or loaders, or use a sample that is an array."
        )

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(
            "RowBlocks are not converted to an array, which may not fit into memory: iterate over "
            "the blocks, or write them to a file with to_npy. Estimators of skdp take them as "
            "they are."
        )

    def to_npy(self, path: Any) -> None:
        """Write dense rows to a file of numpy, a block or a part at a time.

        Parameters
        ----------
        path : path-like
            File to write; ``numpy.load(path, mmap_mode="r")`` reads it.

        Raises
        ------
        ValueError
            If the rows are sparse.
        """
        if self.is_sparse:
            raise ValueError("to_npy writes dense rows, and these are sparse: iterate over them.")
        write_npy(path, iter(self), self.shape, self.dtype)

    def __repr__(self) -> str:
        return f"RowBlocks(shape={self.shape}, dtype={self.dtype})"

    @without_warnings()
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
            refused_if_not_finite(block)
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
        for block in self._raw_blocks():
            start = 0
            while n_waiting + block.shape[0] - start >= size:
                stop = start + size - n_waiting
                yield self._finished(_stack([*waiting, block[start:stop]]))
                waiting, n_waiting, start = [], 0, stop
                size = next(sizes, np.inf)
            if start < block.shape[0]:
                # A copy: the function may use the same array for its next block.
                waiting.append(block[start:].copy())
                n_waiting += block.shape[0] - start

    def _finished(self, block: RawBlock) -> RawBlock:
        # Only here: a row may round otherwise in a block of another length.
        block = in_c_order(block)
        return block if self.function is None else in_c_order(self.function(block))

    def _made(self) -> Iterator[Any]:
        """Make the blocks; texts of errors are hidden, since they may contain values."""
        blocks = hide_error_text(lambda: iter(self.make_blocks()))
        while (block := hide_error_text(next, blocks, _END)) is not _END:
            yield block

    def _checked_blocks(self) -> Iterator[RawBlock]:
        blocks = self._raw_blocks()
        return blocks if self.function is None else map(self.function, blocks)

    def _raw_blocks(self) -> Iterator[RawBlock]:
        return map(self._checked, self._made())

    def _checked(self, made: Any) -> RawBlock:
        made = checked_container(made)
        block = as_canonical(made) if sparse.issparse(made) else hide_error_text(np.asarray, made)
        if not np.can_cast(block.dtype, np.float64):
            raise ValueError(
                f"make_blocks gave a block of dtype {block.dtype}, but every block must hold real "
                "numbers of at most 64 bits."
            )
        if block.ndim != 2 or block.shape[1] != self._n_made:
            raise ValueError(
                f"make_blocks gave a block of shape {block.shape}, but every block must be 2-D "
                f"with {self._n_made} columns."
            )
        return block


def refused_if_not_finite(block: RawBlock) -> RawBlock:
    """Refuse a block with an entry that is not finite."""
    if not np.isfinite(block.data if sparse.issparse(block) else block).all():
        raise ValueError(NOT_FINITE)
    return block


def _stack(parts: list[RawBlock]) -> RawBlock:
    if len(parts) == 1:
        return parts[0]
    if sparse.issparse(parts[0]):
        return sparse.csr_array(sparse.vstack(parts, format="csr"))
    return np.vstack(parts)
