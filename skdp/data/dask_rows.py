"""Rows in a collection of dask: each pass over the rows is one graph of tasks.

`sum_in_graph` makes the graph. Its tasks `_called_for_part`, one for each chunk, call
`reduce.part_sum`, and its tasks `_added` add the results.
"""

import asyncio
import io
import math
import pickle
import platform
import sys
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import cache, lru_cache, partial
from typing import Any, NamedTuple
from uuid import uuid4

import dask.array as da
import numpy as np
import scipy
from cloudpickle import CloudPickler
from dask.base import optimize, persist
from dask.core import flatten
from dask.delayed import Delayed
from dask.optimization import cull
from scipy import sparse
from threadpoolctl import threadpool_info

from skdp.data import containers, sources, workers
from skdp.data.parts import PartResults, RowParts, composed, read_block, refused_if_not_finite
from skdp.data.reduce import Kernel, part_sum, tree_sum

# ------------------------------
# A pass over chunks of dask: a task for each chunk, and a tree of additions.

Graph = dict[Any, Any]
# Number of sums that a task adds, a power of two. Above 2, as a task costs more than an addition.
_ADDED_AT_ONCE = 8  # not tuned
# The blocks of the task that runs in this thread, by the names of their collections.
_BLOCKS: ContextVar[dict[str, Any]] = ContextVar("blocks")


class Chunks:
    """The blocks of a collection: its graph, and the key of each block."""

    def __init__(self, collection: Any) -> None:
        (optimized,) = _by_dask(partial(optimize, collection))
        # `optimize` drops futures, whose results workers have: the graph gets these futures back.
        given = dict(collection.__dask_graph__())
        futures = {key: task for key, task in given.items() if hasattr(type(task), "cancel")}
        self.graph = {**futures, **dict(optimized.__dask_graph__())}
        self.keys = list(flatten(optimized.__dask_keys__()))
        # A pickle has this name instead of the chunks: see `_Pickler`.
        self.name = uuid4().hex


def _block_of(chunks: Chunks | str, number: int) -> Any:
    """Return a block of chunks: compute it or, in a task, look it up by the name of the chunks."""
    if isinstance(chunks, str):
        return _BLOCKS.get()[chunks]
    return computed(Delayed(chunks.keys[number], chunks.graph))


def sum_in_graph(source: Any, kernel: Kernel, size: int, numbers: Sequence[int]) -> Any:
    """Sum the results of a kernel over all parts of a source whose parts are dask chunks.

    The active scheduler of dask computes the sum. A task gets chunks, and the function that all
    tasks call. The task returns bytes: a sum or an error. A task raises no error, as schedulers log
    the tracebacks of errors. A task draws no noise, as it may run twice. `numbers` has the number
    of the chunk of each part. The other arguments, and the bits of the sum, are the same as in
    :func:`skdp.data.reduce.map_sum`.
    """
    graph, keys = _graph_of(partial(part_sum, source, kernel, size), numbers)
    top = in_tree(graph, keys, f"skdp-add-{uuid4().hex}")
    graph, _ = cull(graph, [top])
    _, total = pickle.loads(computed(Delayed(top, graph)))
    if isinstance(total, Exception):
        raise total
    return total


def _graph_of(
    function: Callable[[int], Any], numbers: Sequence[int], name: str = "sum"
) -> tuple[Graph, list[Any]]:
    """Make a task for each part; return the graph, and the keys of these tasks.

    A task calls `function` with the number of its part. Chunks to which `function` refers are not
    pickled with it: each task gets its own blocks of these chunks.
    """
    shared, found = pickled(function)
    token = uuid4().hex
    prefix, given = f"skdp-{name}-{token}", f"skdp-shared-{token}"
    call = partial(_called_for_part, tuple(found))
    # The pickled function is the result of a task, so that dask sends it to each worker once.
    # dask.delayed would make the same graph, but takes longer to do so than the tasks run.
    graph: Graph = {given: (bytes, shared)}
    for chunks in found.values():
        graph |= chunks.graph
    for part, number in enumerate(numbers):
        graph[prefix, part] = (call, given, part, *(one.keys[number] for one in found.values()))
    return graph, [(prefix, part) for part in range(len(numbers))]


def in_tree(graph: Graph, keys: list[Any], prefix: str) -> Any:
    """Add a tree of additions to a graph; return the key of its root.

    The number of sums that a task adds is a power of two, so that the order of additions is the
    same as in `skdp.data.reduce`.
    """
    while len(keys) > 1:
        groups = [keys[i : i + _ADDED_AT_ONCE] for i in range(0, len(keys), _ADDED_AT_ONCE)]
        level, keys = len(keys), []
        for number, group in enumerate(groups):
            if len(group) > 1:
                graph[prefix, level, number] = (_added, *group)
                keys.append((prefix, level, number))
            else:  # a single key in the last group goes to the next level
                keys += group
    return keys[0]


def _called_for_part(names: tuple[str, ...], shared: bytes, part: int, *blocks: Any) -> bytes:
    """Call the pickled function for a part, in a task that gets the blocks of the part."""
    token = _BLOCKS.set(dict(zip(names, blocks, strict=True)))
    try:
        return answer(lambda: partial(_unpickled(shared), part))
    finally:
        _BLOCKS.reset(token)


def _added(*results: bytes) -> bytes:
    """Add results of tasks; return an error if a result is an error, or if machines differ."""
    machines, values = zip(*map(pickle.loads, results), strict=True)
    failure = next((value for value in values if isinstance(value, Exception)), None)
    failure = failure or unlike(machines)
    return pickle.dumps((machines[0], failure or tree_sum(values)))


def computed(result: Any) -> Any:
    """Compute a result with the active scheduler; replace the texts of errors."""
    return _by_dask(partial(result.compute, optimize_graph=False))


def _stored(n_entries: int, *collections: Any) -> tuple[Any, ...]:
    """Let workers store the chunks of small collections, so that passes do not recompute them."""
    if 8 * n_entries > sources.CACHE_BYTES:
        return collections
    return tuple(_by_dask(partial(persist, *collections)))


def mapped_and_stored(X: RowParts) -> RowParts:
    """Let workers store the rows of parts, so that passes do not apply their function again."""
    numbers = X.numbers
    graph, keys = _graph_of(partial(sources.rows_of_part, sources.Source(X)), numbers, "rows")
    graph, _ = cull(graph, keys)
    # Each block of this array is the answer of a worker; the keys of blocks are the keys of tasks.
    answers = da.Array(graph, keys[0][0], ((1,) * len(keys),), dtype=object)
    chunks = Chunks(*_by_dask(partial(persist, answers, optimize_graph=False)))
    by_number = dict(zip(numbers, chunks.keys, strict=True))
    chunks.keys = [by_number.get(number) for number in range(numbers[-1] + 1)]
    return X.cached([partial(_answered, chunks, number) for number in numbers])


def _answered(chunks: Chunks | str, number: int) -> containers.RawBlock:
    """Return the rows in the answer of a worker; if it answered with an error, raise the error."""
    _, rows = pickle.loads(_block_of(chunks, number))
    if isinstance(rows, Exception):
        raise rows
    return rows


def _by_dask(function: Callable[[], Any]) -> Any:
    """Call a function of dask without warnings or texts of errors, which may show values."""
    try:
        with workers.without_warnings():
            return function()
    except (Exception, asyncio.CancelledError) as error:
        kind = type(error).__name__
    raise RuntimeError(
        f"Dask has raised {kind}. Either a chunk fails, as X.partitions[i].compute() shows, or a "
        "worker or the scheduler is gone, often for lack of memory: then smaller chunks help."
    )


# ------------------------------
# Messages to dask workers, and their answers.

_FACTS_OF_BLAS = ("internal_api", "version", "architecture", "threading_layer")  # in threadpoolctl


class _Pickler(CloudPickler):
    """Replaces `Chunks` by their names, and collects them in `found`; keeps strides of arrays."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.found: dict[str, Chunks] = {}

    def persistent_id(self, value: Any) -> str | None:
        """Return the name of chunks; None for other values."""
        if not isinstance(value, Chunks):
            return None
        self.found[value.name] = value
        return value.name

    def reducer_override(self, value: Any) -> Any:
        """Pickle arrays that are in neither C nor Fortran order with their strides."""
        if type(value) not in (np.ndarray, np.memmap) or value.dtype.hasobject or not value.size:
            return super().reducer_override(value)
        order: Any = "F" if value.flags.fnc else "C"
        if value.strides == np.empty(value.shape, value.dtype, order).strides:
            return NotImplemented
        return _with_strides, (value.tobytes(), value.dtype, value.shape, value.strides)


def _with_strides(
    values: bytes, dtype: np.dtype, shape: tuple[int, ...], strides: tuple[int, ...]
) -> np.ndarray:
    """Make an array with given strides: pickle drops strides, on which rounding may depend."""
    steps = [(n - 1) * stride for n, stride in zip(shape, strides, strict=True)]
    first = -sum(step for step in steps if step < 0)
    memory = np.zeros(first + sum(step for step in steps if step > 0) + dtype.itemsize, np.uint8)
    array = np.ndarray(shape, dtype, memory.data, first, strides)
    array[...] = np.frombuffer(values, dtype).reshape(shape)
    return array


class _Unpickler(pickle.Unpickler):
    """Leaves names in the place of `Chunks`: `_block_of` finds the block of a task by the name."""

    def persistent_load(self, name: str) -> str:
        return name


def pickled(value: Any) -> tuple[bytes, dict[str, Chunks]]:
    """Pickle a value; return the bytes, and its chunks by their names."""
    file = io.BytesIO()
    pickler = _Pickler(file)
    try:
        pickler.dump(value)
        return file.getvalue(), pickler.found
    except Exception as error:
        kind = type(error).__name__
    raise ValueError(
        f"The functions of a pass cannot be sent to other processes: pickling raises {kind}. Pass "
        "functions that can be pickled, or use threads of this process."
    )


@lru_cache(maxsize=4)  # not tuned: passes that may run at the same time
def _unpickled(shared: bytes) -> Any:
    """Unpickle the function that all tasks of a pass call, once in each worker."""
    return _Unpickler(io.BytesIO(shared)).load()


def answer(unpickle: Callable[[], Callable[[], Any]]) -> bytes:
    """Compute in a worker; return the facts of the machine, with the result or an error."""
    # Errors are returned, as dask would print errors that are raised.
    missing = ": it needs all modules of this process, in the same versions"
    with workers.without_warnings():
        try:
            call = unpickle()
            missing = ""
            result = workers.on_one_thread(call)
        except (Exception, SystemExit) as error:
            result = RuntimeError(f"A worker has raised {type(error).__name__}{missing}.")
            # Once unpickling is done, errors of these types have texts of skdp, without values.
            if type(error) in (ValueError, MemoryError) and not missing:
                result = type(error)(str(error))
        return pickle.dumps((_machine(), result))


@cache
def _machine() -> dict[str, Any]:
    """Return the facts of this machine and its libraries on which rounding depends."""
    core: Any = getattr(np, "_core", None) or np.core  # before numpy 2
    features = core._multiarray_umath.__cpu_features__
    of_blas = [one for one in threadpool_info() if one["user_api"] == "blas"]
    return {
        "skdp": sys.modules["skdp"].__version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "libc": platform.libc_ver(),
        "BLAS": {tuple(map(one.get, _FACTS_OF_BLAS)) for one in of_blas},
        "CPU features": {name for name, is_there in features.items() if is_there},
    }


def unlike(machines: Sequence[dict[str, Any]]) -> RuntimeError | None:
    """Return an error if machines differ, as their sums may then differ, too; else None."""
    first, *others = machines
    names = [name for name in first if any(one[name] != first[name] for one in others)]
    text = (
        f"The workers are not alike: they differ in {', '.join(names)}. Use equal machines, with "
        "the same versions, as sums may differ otherwise."
    )
    return RuntimeError(text) if names else None


# ------------------------------
# A collection as rows in parts, or mapped chunk by chunk.


class _Facts(NamedTuple):
    """Facts of a collection that are known without reading its rows."""

    n_features: int
    dtype: np.dtype
    is_sparse: bool = False
    names: list[str] | None = None
    #: Two public rows, if columns contain texts.
    like: Any = None

    @property
    def public(self) -> containers.RawBlock:
        """Two public rows of the same kind as the rows of the collection."""
        if self.like is not None:
            return self.like
        rows = np.ones((2, self.n_features), self.dtype)
        return sparse.csr_array(rows) if self.is_sparse else rows


def rows_in_parts(X: Any, y: Any = None) -> RowParts:
    """Return rows in parts, one for each chunk of X, with their targets, if any.

    For a data frame, a separate pass counts the rows of each partition.
    """
    facts = _facts_of(X)
    if _is_frame(X):
        return _parts_of_frame(X, y, facts)
    lengths = tuple(X.chunks[0])
    if any(map(math.isnan, lengths)):
        raise ValueError(
            "X has chunks of unknown lengths, and a fit makes lengths public: call "
            "X.compute_chunk_sizes(), which counts their rows."
        )
    if y is not None and not (isinstance(y, da.Array) and y.chunks == (lengths,)):
        raise ValueError(
            "y must be a 1-D array of dask with the chunks of X: pass y.rechunk((X.chunks[0],)), "
            "y[:, 0] of one column, y.to_dask_array(lengths=X.chunks[0]) of a data frame, or "
            "dask.array.from_array(y, chunks=X.chunks[0]) of an array in memory."
        )
    rows, *targets = map(_loaders, _stored(math.prod(X.shape), *((X,) if y is None else (X, y))))
    return _parts(rows, lengths, facts, *targets)


def public_like(X: Any) -> Any:
    """Return public rows like the rows of X; in parts, if the lengths of the chunks are known."""
    facts = _facts_of(X)
    if _is_frame(X) or any(map(math.isnan, X.chunks[0])):
        return facts.public
    return _parts([lambda: facts.public] * len(X.chunks[0]), X.chunks[0], facts)


def mapped_by_chunks(method: Callable[[Any], Any], X: Any, name: str) -> da.Array:
    """Apply a method, which maps each row by itself, to all chunks, lazily.

    The method maps a `RowBlocks` to a `RowBlocks` or `PartResults`. `name` is for the keys of
    tasks.
    """
    facts = _facts_of(X)
    # Results for public rows show the dtype and the shape of all results.
    made = method(_parts([lambda: facts.public], [facts.public.shape[0]], facts))
    none: Any = np.empty((0, *made.shape[1:]), made.dtype)
    function: Any
    if isinstance(made, PartResults):
        function = composed(made.rows.function, composed(refused_if_not_finite, made.function))
    else:
        function, none = made.function, sparse.csr_array(none) if made.is_sparse else none

    def _map_chunk(block: Any) -> Any:
        # A block without rows is mapped to `none`, a result without rows.
        read, _ = read_block(block, facts.like)
        return function(containers.in_c_order(read)) if block.shape[0] else none

    if _is_frame(X):
        values = partial(_values, names=list(X.columns), facts=facts)
        return X.map_partitions(composed(values, _map_chunk), meta=none, enforce_metadata=False)
    return X.map_blocks(
        _map_chunk,
        name=f"skdp-{name}-{uuid4().hex}",
        dtype=made.dtype,
        meta=none,
        chunks=(X.chunks[0], *((size,) for size in made.shape[1:])),
        drop_axis=None if made.shape[1:] else 1,
    )


def _is_frame(X: Any, ndim: int = 2) -> bool:
    """Return whether X is a data frame of dask or, with `ndim` of 1, a column."""
    # The type is checked, as an object of dask.delayed has every attribute.
    is_kind = hasattr(type(X), "map_partitions") and hasattr(type(X), "ndim")
    return is_kind and X.ndim == ndim


def _facts_of(X: Any) -> _Facts:
    """Return the facts of a collection, without reading it; refuse collections without numbers."""
    if _is_frame(X):
        return _facts_of_frame(X)
    if not isinstance(X, da.Array):
        raise ValueError(f"X is a {type(X).__name__}: pass an array or a data frame of dask.")
    if isinstance(X._meta, np.ma.MaskedArray):
        raise ValueError(containers.MASKED)
    kind, is_sparse = type(X._meta), sparse.issparse(X._meta)
    are_rows = X.ndim == 2 and len(X.chunks[1]) == 1 and (is_sparse or kind is np.ndarray)
    if not are_rows or not np.can_cast(X.dtype, np.float64):
        # The error names the type only: a dtype of texts would show how long the longest text is.
        raise ValueError(
            "X must be a 2-D array of real numbers, with chunks of numpy.ndarray or "
            "scipy.sparse.csr_array that have all columns. Got chunks of "
            f"{kind.__module__}.{kind.__qualname__} with {X.ndim} dimensions and dtype "
            f"{X.dtype.type.__name__}. Pass X.reshape((len(X), -1)) for 2 dimensions, "
            "X.rechunk({0: 'auto', 1: -1}) for all columns, X.astype(float) for numbers, or "
            "X.map_blocks(...) of a function that makes such chunks."
        )
    return _Facts(X.shape[1], containers.float_dtype(X), is_sparse)


def _facts_of_frame(X: Any) -> _Facts:
    """Return the facts of a data frame, from its dtypes."""
    texts = {name: _is_text(dtype) for name, dtype in X.dtypes.items()}
    numbers = [name for name, is_text in texts.items() if not is_text]
    if flaw := containers.flaw_of_columns(X[numbers]):
        raise ValueError(flaw)
    is_single = bool(numbers) and all(X.dtypes[name] == np.float32 for name in numbers)
    dtype = np.dtype(np.float32 if is_single else np.float64)
    names = containers.as_feature_names(list(X.columns))
    like = containers.made_up_frame(texts, dtype) if any(texts.values()) else None
    return _Facts(len(X.columns), dtype, False, names, like)


def _is_text(dtype: Any) -> bool:
    """Return whether a column of pandas may contain texts, or categories."""
    return getattr(dtype, "kind", "") == "O" and not hasattr(dtype, "subtype")


def _loaders(X: Any) -> list[Callable[[], Any]]:
    """Return a function for each block of a collection, which computes the block."""
    chunks = Chunks(X)
    return [partial(_block_of, chunks, number) for number in range(len(chunks.keys))]


def _parts(loaders: Any, lengths: Any, facts: _Facts, targets: Any = None) -> RowParts:
    return RowParts(
        loaders,
        lengths,
        facts.n_features,
        facts.dtype,
        targets,
        facts.names,
        pass_over=sum_in_graph,
        store=mapped_and_stored,
        is_sparse=facts.is_sparse,
        like=facts.like,
    )


def _parts_of_frame(X: Any, y: Any, facts: _Facts) -> RowParts:
    """Return the partitions of a data frame as parts, whose lengths dask counts in a pass."""
    both = X if y is None else _with_target(X, y)
    # `meta` is an array, so that the result has blocks and their keys. The blocks are data frames.
    like: dict[str, Any] = {"meta": np.empty((0, both.shape[1])), "enforce_metadata": False}
    # If dask sorts rows by an index, it reads the partitions already here.
    blocks = _by_dask(lambda: both.map_partitions(lambda frame: frame, **like))
    n_parts, names = blocks.numblocks[0], list(both.columns)
    counted = blocks.map_blocks(
        lambda frame: np.array([[len(frame) if names[-1] in frame.columns or y is None else -1]]),
        dtype=int,
        chunks=((1,) * n_parts, (1,)),
    )
    lengths = computed(counted).ravel().tolist()
    if -1 in lengths:
        raise ValueError(f"y has another index than X: {_OF_ONE_FRAME}.")
    (blocks,) = _stored(sum(lengths) * both.shape[1], blocks)
    loaders = _loaders(blocks)
    rows = [partial(_rows_of, load, names, facts) for load in loaders]
    targets = None if y is None else [partial(_target_of, load, names) for load in loaders]
    return _parts(rows, lengths, facts, targets)


_OF_ONE_FRAME = "pass both from one data frame, as frame[features] and frame['label']"


def _with_target(X: Any, y: Any) -> Any:
    """Append the targets as a column of the data frame."""
    if not _is_frame(y, 1):
        raise ValueError(f"y is a {type(y).__name__}, and X a data frame of dask: {_OF_ONE_FRAME}.")
    name = "y"
    while name in X.columns:
        name += "_"
    # Dask would join a column of another data frame by an index, which may be private.
    if not _by_dask(partial(_are_of_one_frame, X, y)):
        raise ValueError(f"y has other partitions than X: {_OF_ONE_FRAME}.")
    meta = X._meta.assign(**{name: y._meta})
    return X.map_partitions(_beside, y, name, meta=meta, enforce_metadata=False)


def _beside(frame: Any, target: Any, name: str) -> Any:
    """Append the target to a partition; if the target has another index, return the partition.

    With another index, pandas would join by the index, and one row could change other records.
    """
    return frame.assign(**{name: target}) if frame.index.equals(target.index) else frame


def _are_of_one_frame(X: Any, y: Any) -> bool:
    """Return whether dask needs neither a join nor a shuffle to pair the partitions of X and y."""
    try:
        from dask.dataframe.dask_expr._expr import are_co_aligned
    except ImportError:  # not public in dask
        return bool(X.npartitions == y.npartitions and X.known_divisions)
    return bool(are_co_aligned(X.expr, y.expr) and X.npartitions == y.npartitions)


def _values(frame: Any, names: list[Any], facts: _Facts) -> np.ndarray:
    """Convert a partition to an array or, if columns contain texts, to a data frame."""
    containers.refuse_other_columns(list(frame.columns), names)
    rows, to_numbers = frame.iloc[:, : facts.n_features], {"dtype": facts.dtype, "na_value": np.nan}
    if facts.like is None:
        return np.asarray(rows.to_numpy(**to_numbers))
    columns = {}
    for name, like in facts.like.dtypes.items():
        column, to_texts = rows[name], to_numbers | {"dtype": object}
        # Gaps in texts of pyarrow become NaN, as for rows in memory; objects keep their own gaps.
        if column.dtype == object:
            del to_texts["na_value"]
        columns[name] = column.to_numpy(**(to_texts if _is_text(like) else to_numbers))
    return type(rows)(columns)


def _rows_of(load: Callable[[], Any], names: list[Any], facts: _Facts) -> np.ndarray:
    return _values(load(), names, facts)


def _target_of(load: Callable[[], Any], names: list[Any]) -> np.ndarray:
    frame = load()
    containers.refuse_other_columns(list(frame.columns), names)
    return np.asarray(frame.iloc[:, -1])
