"""Rows and targets in blocks or in parts, which are loaded again in every pass over the data."""

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from itertools import pairwise, starmap
from numbers import Integral
from operator import attrgetter
from typing import Any, NamedTuple, NoReturn, Self

import numpy as np
from scipy import sparse

from skdp.data.containers import (
    MISSING_IN_PARTS,
    RawBlock,
    SkdpContainer,
    as_canonical,
    as_feature_names,
    blocks_at,
    checked_container,
    checked_dtype,
    checked_shape,
    files_of_numpy,
    flaw_of_columns,
    hide_error_text,
    in_c_order,
    is_mapped,
    loaded,
    names_of,
    refuse_other_columns,
)
from skdp.data.workers import without_warnings

# ------------------------------
# Lists of parts, which are loaded one by one.

Loader = Callable[[], Any]


class Part(NamedTuple):
    """A part of rows or of targets: its number, and how to load it."""

    #: Errors name the part by this number.
    number: int
    #: Function that loads the part, or an array of targets.
    loader: Any
    #: How many rows the loader returns.
    length: int
    #: The rows that are used; None for all.
    selected: range | None = None

    @property
    def rows(self) -> range:
        """The rows of the part that are used."""
        return range(self.length) if self.selected is None else self.selected


class Parts:
    """A list of parts, each of which is loaded again in every pass; their lengths are public."""

    #: The parts that have rows.
    parts: list[Part]
    #: A function that sums a kernel over parts in other processes; None for this process.
    pass_over: Callable[..., Any] | None = None

    @property
    def numbers(self) -> list[int]:
        """The numbers of the parts, by which errors name them."""
        return [part.number for part in self.parts]

    @property
    def lengths(self) -> list[int]:
        """Number of rows of each part."""
        return [len(part.rows) for part in self.parts]


def composed(
    first: Callable[[Any], Any] | None, second: Callable[[Any], Any] | None
) -> Callable[[Any], Any] | None:
    """Return a function that calls `first`, then `second`; None means no change."""
    if first is None or second is None:
        return second if first is None else first
    return partial(_both, first, second)


def _both(first: Callable[[Any], Any], second: Callable[[Any], Any], X: Any) -> Any:
    return second(first(X))


# ------------------------------
# Targets of rows: numbers or labels, in memory or loaded part by part.


class Targets(Parts):
    """A target for each row; in a pass, a thread loads the targets of a part once.

    Targets may be the source of :func:`skdp.data.reduce.map_sum`, for a pass over targets only:
    then each part is a block with one column.

    Parameters
    ----------
    parts : list of Part
        The targets of each part: 1-D arrays, or functions without arguments that load them.
    function : callable or None, default=None
        Maps an array of targets to another one, target by target.
    pass_over : callable or None, default=None
        `pass_over` of the `RowParts` to which the targets belong.
    column : str, default=""
        Text that errors add to the number of a part, to name the column of the targets.
    """

    #: Whether every pass reads the same targets.
    is_repeatable = False
    is_sparse = False

    def __init__(
        self,
        parts: list[Part],
        function: Callable[[np.ndarray], np.ndarray] | None = None,
        pass_over: Callable[..., Any] | None = None,
        column: str = "",
    ) -> None:
        self.parts, self.pass_over, self.column = parts, pass_over, column
        self._function = function
        self.block_starts = np.cumsum([0, *map(attrgetter("length"), parts)])
        #: First block of each part, and the number of blocks.
        self.part_starts = range(len(self.block_starts))
        self.shape = int(self.block_starts[-1]), 1
        self._loaded = threading.local()

    @classmethod
    def of(cls, values: np.ndarray) -> "Targets":
        """Wrap the targets of all rows, a checked array in memory."""
        return cls([Part(0, values, len(values))])

    def __len__(self) -> int:
        return self.shape[0]

    @without_warnings()
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        values = np.concatenate(list(map(self._load, self.parts)))
        return values if dtype is None else values.astype(dtype)

    def __getitem__(self, rows: slice) -> np.ndarray:
        """Return the targets of consecutive rows, all in one part."""
        part = bisect_right(self.block_starts, rows.start) - 1
        if getattr(self._loaded, "part", None) != part:
            self._loaded.values, self._loaded.part = self._load(self.parts[part]), part
        first = self.block_starts[part]
        return np.asarray(self._loaded.values[rows.start - first : rows.stop - first])

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the targets that threads have loaded, which cannot be pickled."""
        return {name: value for name, value in vars(self).items() if name != "_loaded"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._loaded = threading.local()

    def mapped(self, function: Callable[[np.ndarray], np.ndarray]) -> "Targets":
        """Return targets to which a function of single targets is applied."""
        function_of_both = composed(self._function, function)
        targets = Targets(self.parts, function_of_both, self.pass_over, self.column)
        if len(self.parts) > 1 or callable(self.parts[0].loader):
            return targets
        # Targets in memory are mapped once for all passes.
        with without_warnings():
            return Targets.of(targets._load(self.parts[0]))

    @without_warnings()
    def cached(self) -> "Targets":
        """Load all targets once, for rows that are in memory."""
        # Copies, as a function may load its next part into the same array.
        parts = [part._replace(loader=self._load(part).copy()) for part in self.parts]
        return Targets(parts, column=self.column)

    def blocks(self, group: range) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield the targets of each part as a column, with its row numbers."""
        for rows in starmap(slice, pairwise(self.block_starts[group.start : group.stop + 1])):
            yield rows, self[rows][:, np.newaxis]

    def _load(self, part: Part) -> np.ndarray:
        """Load the targets of a part, check their shape, and map them."""
        number, raw, length, _ = part
        name, function = f"Targets of part {number}{self.column}", self._function
        values = raw
        if type(raw) is not np.ndarray:
            hint = f"y[{number}], or a call of it, shows the error."
            values = loaded(
                lambda: np.asarray(checked_container(raw() if callable(raw) else raw)), name, hint
            )
        if values.shape != (length,) or values.dtype.kind not in "fiubUO":
            raise ValueError(
                f"The targets of part {number} must be an array of {length} numbers or labels, got "
                f"{values.dtype.type.__name__} of shape {values.shape}."
            )
        hint = "A regression takes numbers; a classifier takes whole numbers or strings."
        return values if function is None else loaded(partial(function, values), name, hint)


# ------------------------------
# Results for rows in blocks or in parts.


class PartResults:
    """Results for rows in blocks or in parts, computed when they are read.

    Iterate over the results, or write them to a file; `numpy.asarray` reads all into memory.

    Parameters
    ----------
    X : RowBlocks
        The rows.
    function : callable
        Maps a 2-D array or CSR matrix of rows to an array of as many results.
    shape : tuple of int
        Shape of the array of all results.
    dtype : dtype
        Type of the results.
    """

    def __init__(
        self, X: "RowBlocks", function: Callable[[Any], Any], shape: tuple[int, ...], dtype: Any
    ) -> None:
        self.rows, self.function, self.shape, self.dtype = X, function, shape, np.dtype(dtype)

    def __len__(self) -> int:
        return self.shape[0]

    @without_warnings()
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.concatenate(list(self)).astype(self.dtype if dtype is None else dtype)

    def __iter__(self) -> Iterator[np.ndarray]:
        """Yield the results of one block or part at a time."""
        return map(self.function, self.rows)

    def __repr__(self) -> str:
        return f"PartResults(shape={self.shape}, dtype={self.dtype})"

    def to_npy(self, path: Any) -> None:
        """Write all results to a file of numpy.

        Parameters
        ----------
        path : path-like
            File to write; ``numpy.load(path, mmap_mode="r")`` reads it.
        """
        write_npy(path, self)


def write_npy(path: Any, rows: "PartResults | RowBlocks") -> None:
    """Write rows to a file of numpy, block by block."""
    file = np.lib.format.open_memmap(path, mode="w+", dtype=rows.dtype, shape=rows.shape)
    start = 0
    for block in rows:
        file[start : start + len(block)] = block
        start += len(block)
    file.flush()


# ------------------------------
# Rows that exist only as blocks.

_END = object()
#: Error text about rows in blocks: the text of scikit-learn, with advice.
NOT_FINITE = f"Input X contains NaN or infinity. {MISSING_IN_PARTS}"


class BlockForm(NamedTuple):
    """What all blocks must have in common with the first one."""

    is_sparse: bool
    is_mapped: bool = False
    #: Names of columns, in order; None if the block has no names.
    names: list[Any] | None = None
    #: Text for an error about columns that are no numbers; "" for no error.
    flaw: str = ""


class RowBlocks(SkdpContainer):
    """A matrix in blocks of rows, which a function makes again in every pass over the data.

    Estimators of skdp accept it instead of an array, for rows that do not fit into memory. Results
    of `transform` are computed when read: iterate over them, or write them to a file by `to_npy`.

    The constructor takes one stream of blocks, which one thread reads, without targets.
    `from_parquet`, `from_npy` and `from_partitions` take files or other parts, which several
    threads read, and targets for regressions, classifiers and pipelines.

    Parameters
    ----------
    make_blocks : callable
        Function without arguments, called for every pass over the data. It returns an iterable of
        2-D arrays, data frames or sparse matrices: the rows, from first to last. Every pass must
        get the same rows in the same order. The number of passes depends on the rows only through
        released values. All data frames must have the same columns in the same order; names of
        columns are public, and become names of the features.
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

    # A function that maps each row by itself and is applied to every block; None for no change.
    function: Callable[[Any], Any] | None = None
    # Column names of the results of `function`, if the results have names.
    names: list[str] | None = None
    # If columns contain texts, data frames of two public rows: `loaded_like` has the columns of
    # loaded blocks, and `like` the columns after `function`. Otherwise None. Only public steps of a
    # pipeline accept texts.
    loaded_like: Any = None
    like: Any = None

    def __init__(
        self,
        make_blocks: Callable[[], Iterable[Any]],
        shape: tuple[int, int] = (0, 0),
        dtype: Any = np.float64,
    ) -> None:
        if not callable(make_blocks):
            raise ValueError(
                "make_blocks must be a function that starts a new pass over the blocks, got "
                f"{type(make_blocks).__name__}; pass arrays in memory without RowBlocks."
            )
        self.make_blocks = make_blocks
        self._describe(shape, dtype)

    def _describe(self, shape: tuple[int, int], dtype: Any) -> None:
        self.shape = checked_shape(shape)
        # The number of columns of blocks before `function`, which may change it.
        self._n_loaded = self.shape[1]
        self.dtype = checked_dtype(dtype)
        # The form of the first block, once it has been read. All copies of this object share the
        # list.
        self._seen: list[BlockForm] = []

    @classmethod
    def from_partitions(
        cls,
        loaders: Sequence[Callable[[], Any]],
        lengths: Sequence[int] = (),
        n_features: int = 0,
        dtype: Any = np.float64,
        y: Sequence[Any] | None = None,
    ) -> "RowBlocks":
        """Make rows from parts that functions load; threads load several parts at a time.

        Every pass loads all parts again. Only if all rows together have at most 1 GiB, as dense
        rows in float64, regressions and classifiers load them once, and store them until the fit
        ends.

        The numbers of rows of parts are public. So do not divide rows into parts by private values:
        parts by country, or by a hash of users, would reveal how many rows have each value.

        Parameters
        ----------
        loaders : sequence of callable
            Functions without arguments, each of which loads the rows of one part, as a 2-D array,
            data frame or sparse matrix. Several threads call them at the same time, so each call
            must open its own connection to a database. For other processes, functions have to be
            picklable. All data frames must have the same columns in the same order; names of
            columns are public, and become names of the features.
        lengths : sequence of int
            Number of rows of each part, from 0. Public.
        n_features : int
            Number of features.
        dtype : dtype, default=numpy.float64
            Floating-point type of the results.
        y : sequence of callable or array-like, or None, default=None
            Responses or labels of each part: 1-D arrays, or functions without arguments that load
            1-D arrays. Regressions and classifiers then take ``fit(rows)``.

        Returns
        -------
        RowBlocks
            The rows of all parts, in this order.

        Raises
        ------
        ValueError
            If a loader is no function, a length no integer from 0, `n_features` not positive, there
            are no rows, or `y` has another number of parts.
        """
        return RowParts(loaders, lengths, n_features, dtype, y)

    @classmethod
    def from_npy(cls, paths: Any, y: Any = None) -> "RowBlocks":
        """Make rows from numpy files, which are mapped into memory; each file is a part.

        Parameters
        ----------
        paths : path-like or sequence of path-like
            Files written by `numpy.save`: 2-D arrays of real numbers. Numbers of rows of files are
            public: do not divide rows into files by private values, such as a country or a user.
        y : path-like, sequence of path-like or None, default=None
            Files with the responses or labels for each of `paths`: 1-D arrays of numbers or
            strings.

        Returns
        -------
        RowBlocks
            The rows of all files, in this order; of dtype float32 if all files are.

        Raises
        ------
        OSError
            If a file does not exist.
        ValueError
            If a file contains another kind of array, or files are inconsistent.
        """
        return RowParts(*files_of_numpy(paths, y))

    @classmethod
    def from_parquet(
        cls,
        paths: Any,
        columns: Sequence[str] | None = None,
        y: str | None = None,
        *,
        categories: Mapping[str, Sequence[str]] | None = None,
        sparse_output: bool = True,
    ) -> "RowBlocks":
        """Make rows from Parquet files, of which each row group is a part.

        Only metadata are read at first. Each pass decodes every row group again, in one thread,
        unless parts are cached in memory (see `from_partitions`). Needs pyarrow: ``pip install
        "skdp[parquet]"``.

        Parameters
        ----------
        paths : path-like or sequence of path-like
            Files with the same columns, folders of files that end in ``.parquet``, or patterns such
            as ``"visits/2025-*.parquet"``; files of a folder or a pattern are sorted by name.
            Numbers of rows of files and row groups are public: do not divide rows by private
            values, such as a country or a user.
        columns : sequence of str or None, default=None
            Names of the features: columns of numbers or booleans, where missing values become NaN,
            or the columns in `categories`. Without `categories`, columns of strings are accepted,
            too, for a `ColumnTransformer` in a `DPPipeline`. ``None`` takes all columns except `y`
            and an index that pandas has written.
        y : str or None, default=None
            Name of the column of responses or labels: numbers, booleans, strings, or categories
            that are strings.
        categories : mapping of str to sequence of str, or None, default=None
            For columns of strings, public lists of values. Each value becomes a column of 0 and 1,
            named as by `OneHotEncoder`; rows with a missing value, or a value not in the list, have
            0 in all these columns.
        sparse_output : bool, default=True
            Whether rows with `categories` are sparse. Dense rows are for short lists, and for
            ``DPStandardScaler(missing="mean")``.

        Returns
        -------
        RowBlocks
            The rows of all files, in this order; of dtype float32 if all features are. Estimators
            store the names of the features.

        Raises
        ------
        ImportError
            If pyarrow is not installed.
        OSError
            If a file does not exist.
        ValueError
            If a file is not Parquet, lacks these columns, or has them in other types than the first
            file; if a folder or a pattern has no file; or if `categories` are not lists of strings,
            or name no feature.
        """
        from skdp.data.parquet import row_groups

        *groups, like = row_groups(paths, columns, y, categories, sparse_output=sparse_output)
        rows = RowParts(*groups, is_sparse=bool(categories) and sparse_output, like=like)
        if rows.y is not None:
            rows.y.column = f", column {y!r}"
        return rows

    @property
    def is_sparse(self) -> bool:
        """Whether rows are sparse after `function`, which is applied to public rows to find out."""
        if self.function is None:
            return self.form.is_sparse
        public: Any = self.loaded_like
        if public is None:
            public = np.ones((2, self._n_loaded), self.dtype)
        made = self.function(sparse.csr_array(public) if self.form.is_sparse else public)
        return sparse.issparse(made)

    @property
    def feature_names(self) -> list[str] | None:
        """The column names; None if there are none."""
        return self.names if self.function is not None else as_feature_names(self.form.names)

    @property
    @without_warnings()
    def form(self) -> BlockForm:
        """The form of the first block, which is read if necessary."""
        if not self._seen:
            next(self._raw_blocks())
        return self._seen[0]

    @property
    def _is_stream(self) -> bool:
        """Whether threads cannot share a pass over the rows."""
        return True

    def __iter__(self) -> Iterator[RawBlock]:
        """Yield the rows of one block or part at a time; refuse rows that are not finite."""
        return map(refused_if_not_finite, self._checked_blocks())

    def __getitem__(self, rows: Any) -> Any:
        raise TypeError(
            "Rows in blocks are not in memory, and cannot be indexed or split, as cross-validation "
            "and searches do: split the files or loaders, or use a sample that is an array."
        )

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(
            "RowBlocks are not converted to an array, which may not fit into memory: iterate over "
            "the blocks, or write the rows to a file with to_npy."
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
            raise ValueError("to_npy takes dense rows; save sparse ones by scipy.sparse.save_npz.")
        write_npy(path, self)

    def __repr__(self) -> str:
        return f"RowBlocks(shape={self.shape}, dtype={self.dtype})"

    @without_warnings()
    def check(self, *, allow_nan: bool = False) -> None:
        """Read all blocks once, and refuse blocks that no estimator can use.

        Parameters
        ----------
        allow_nan : bool, default=False
            Whether NaN is accepted as a missing entry.

        Raises
        ------
        ValueError
            If blocks cannot be read, contain NaN or infinity, or do not have this `shape` together.
        """
        for block in self._checked_blocks():
            refused_if_not_finite(np.where(np.isnan(block), 0, block) if allow_nan else block)

    def _every(self, step: int) -> "RowBlocks":
        """Select every `step`-th row; a stream, which each pass reads whole, keeps all rows."""
        return self

    def _blocks_of(self, _: int, starts: Sequence[int]) -> Iterator[RawBlock]:
        """Yield the rows of a part, in blocks that begin at `starts`."""
        # A stream is one part, and its own blocks may have any length. `waiting` has rows of the
        # next block to yield, which needs `size` rows; the last block takes all rows that are left.
        waiting: list[RawBlock] = []
        n_waiting, sizes = 0, iter(np.diff(starts)[:-1])
        size: Any = next(sizes, np.inf)
        for block in self._raw_blocks():
            start = 0
            while n_waiting + block.shape[0] - start >= size:
                stop = start + size - n_waiting
                yield self._finished(stacked([*waiting, block[start:stop]]))
                waiting, n_waiting, start = [], 0, stop
                size = next(sizes, np.inf)
            if start < block.shape[0]:
                # A copy, as `make_blocks` may write its next block into the same array.
                waiting.append(block[start:].copy())
                n_waiting += block.shape[0] - start
        # The last block is yielded after the stream has ended: more rows would be an error.
        yield self._finished(stacked(waiting))

    def _finished(self, block: RawBlock) -> RawBlock:
        # `function` gets blocks whose lengths are public, as rounding may depend on the length.
        block = in_c_order(block)
        return block if self.function is None else in_c_order(self.function(block))

    def _checked_blocks(self) -> Iterator[RawBlock]:
        blocks = self._raw_blocks()
        return blocks if self.function is None else map(self.function, blocks)

    def _raw_blocks(self) -> Iterator[RawBlock]:
        """Yield the blocks of a pass; refuse more or fewer rows than `shape` says."""
        n_left, blocks = self.shape[0], hide_error_text(lambda: iter(self.make_blocks()))
        while (made := hide_error_text(next, blocks, _END)) is not _END:
            block = self._alike(*read_block(made), "A block of make_blocks")
            n_left -= block.shape[0]
            if n_left < 0:
                break
            yield block
        if n_left:
            raise ValueError(
                f"make_blocks returns more or fewer rows than shape={self.shape} promises. Every "
                "call must start a new pass over all rows."
            )

    def _alike(self, block: RawBlock, form: BlockForm, name: str, n_rows: Any = "any") -> RawBlock:
        """Refuse a block that is unlike the first one; the error shows nothing of its rows."""
        first = self._seen[0] if self._seen else form
        takes_texts = self.loaded_like is not None
        if first.flaw and (not takes_texts or self.function is None):
            advice = "Encode texts in the function that loads a part, or write them to Parquet. "
            raise ValueError(f"{name}: {advice * (not takes_texts)}{first.flaw}")
        if not takes_texts and not np.can_cast(block.dtype, float):
            raise ValueError(
                f"{name} must have real numbers of at most 64 bits, as frame.astype(float) has."
            )
        has_shape = block.shape[1:] == (self._n_loaded,) and n_rows in ("any", block.shape[0])
        if not has_shape or form.is_sparse != first.is_sparse:
            raise ValueError(
                f"{name} must have shape ({n_rows}, {self._n_loaded}), as lengths or shape says, "
                "and be dense or sparse as the first block is; parts count from 0."
            )
        refuse_other_columns(form.names, first.names, f"{name}: ")
        if not self._seen:
            self._seen.append(form)
        return block


def read_block(made: Any, like: Any = None) -> tuple[RawBlock, BlockForm]:
    """Return a block as an array or CSR, or with `like` as a data frame; and return its form."""
    if like is not None:
        return made, BlockForm(is_sparse=False, names=list(made.columns))
    made = checked_container(made)
    is_sparse = sparse.issparse(made)
    block = as_canonical(made) if is_sparse else hide_error_text(np.asarray, made)
    flaw = hide_error_text(flaw_of_columns, made) if block.dtype.kind not in "fiub" else ""
    return block, BlockForm(is_sparse, is_mapped(block), hide_error_text(names_of, made), flaw)


def refused_if_not_finite(block: RawBlock) -> RawBlock:
    """Refuse a block with an entry that is not finite."""
    if not np.isfinite(block.data if sparse.issparse(block) else block).all():
        raise ValueError(NOT_FINITE)
    return block


def stacked(parts: list[RawBlock]) -> RawBlock:
    """Stack blocks of rows."""
    if len(parts) == 1:
        return parts[0]
    if sparse.issparse(parts[0]):
        return sparse.csr_array(sparse.vstack(parts, format="csr"))
    return np.vstack(parts)


# ------------------------------
# Rows in parts that are loaded one by one, and their targets.


class RowParts(Parts, RowBlocks):
    """A `RowBlocks` whose parts can be loaded in any order."""

    def __init__(
        self,
        loaders: Sequence[Loader],
        lengths: Sequence[int],
        n_features: int,
        dtype: Any,
        y: Sequence[Any] | None = None,
        names: list[str] | None = None,
        *,
        pass_over: Callable[..., Any] | None = None,
        store: Any = None,
        is_sparse: bool | None = None,
        like: Any = None,
    ) -> None:
        are_lengths = all(isinstance(n, Integral) and n >= 0 for n in lengths)
        if not are_lengths or not all(map(callable, loaders)):
            raise ValueError(
                "loaders must be functions without arguments, and lengths integers from 0; arrays "
                "in memory need no RowBlocks."
            )
        for name, items in (("lengths", lengths), ("y", y)):
            if items is not None and len(items) != len(loaders):
                text = f"{name} must have {len(loaders)} items, as loaders has, got {len(items)}."
                raise ValueError(text)
        if isinstance(n_features, Integral) and n_features == 0:
            raise ValueError("n_features must be the number of columns, a positive integer, got 0.")
        self._describe((sum(map(int, lengths)), n_features), dtype)
        self.parts = _with_rows(loaders, lengths)
        #: Functions for other processes: one sums over parts, one stores parts after `function`.
        self.pass_over, self.store = pass_over, store
        if names is not None or is_sparse is not None:
            flaw = "" if like is None else flaw_of_columns(like)
            self._seen.append(BlockForm(bool(is_sparse), names=names, flaw=flaw))
        self.loaded_like = self.like = like
        #: Responses or labels; None for rows without targets.
        self.y = None if y is None else Targets(_with_rows(y, lengths), pass_over=pass_over)

    #: Whether all parts are in memory.
    is_cached = False

    @property
    def _is_stream(self) -> bool:
        # Threads can share a single part only if it is a memory map, which they read in blocks.
        return len(self.parts) == 1 and not self.form.is_mapped

    def load(self, part: int) -> RawBlock:
        """Load a part, by its number among the parts that have rows; return the rows that are used.

        Refuse a part that cannot be loaded, or has another shape or form, or other columns.
        """
        number, loader, length, selected = self.parts[part]
        name, hint = f"Part {number}", f"Call loaders[{number}]() alone to see the error."
        read = loaded(lambda: read_block(loader(), self.loaded_like), name, hint)
        rows = self._alike(*read, name, length)
        return rows if selected is None else rows[selected.start :: selected.step]

    def cached(self, loaders: Iterable[Loader]) -> Self:
        """Return a copy that loads its parts by `loaders`, which return rows after `function`."""
        rows = copy(self)
        rows._seen = [BlockForm(is_sparse=self.is_sparse, names=self.feature_names)]
        rows._n_loaded, rows.function, rows.loaded_like = self.shape[1], None, None
        rows.parts = [
            Part(part.number, load, len(part.rows))
            for part, load in zip(self.parts, loaders, strict=True)
        ]
        rows.is_cached = self.pass_over is None
        return rows

    def _raw_blocks(self) -> Iterator[RawBlock]:
        return map(self.load, range(len(self.parts)))

    def _every(self, step: int) -> "RowBlocks":
        rows, first = copy(self), 0  # the number of the first row of a part, over all parts
        rows.parts = []
        for part in self.parts:
            # Rows are selected whose number, over all parts, is a multiple of `step`.
            if selected := part.rows[-first % step :: step]:
                rows.parts.append(part._replace(selected=selected))
            first += len(part.rows)
        rows.shape, rows.y = (sum(rows.lengths), self.shape[1]), None
        return rows

    def _blocks_of(self, part: int, starts: Sequence[int]) -> Iterator[RawBlock]:
        return map(self._finished, blocks_at(self.load(part), starts))


def mapped_blocks(
    X: RowBlocks,
    function: Callable[[Any], Any],
    n_features: int | None = None,
    names: list[str] | None = None,
    like: Any = None,
) -> RowBlocks:
    """Return rows in blocks to which a function of single rows is applied."""
    made = copy(X)
    made.function, made.names, made.like = composed(X.function, function), names, like
    made.shape = X.shape[0], X.shape[1] if n_features is None else n_features
    return made


def _with_rows(loaders: Sequence[Any], lengths: Sequence[int]) -> list[Part]:
    """Return numbered parts, without parts that have no rows."""
    parts = map(Part, range(len(lengths)), loaders, map(int, lengths))
    return [part for part in parts if part.length]
