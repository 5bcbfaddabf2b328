"""Rows in a collection of dask: a pass is one graph of tasks and additions.

A sum goes from `sum_in_graph` through `_sum_of_part`, a task for each chunk, to `reduce.part_sum`;
`_added` adds up what these give.
"""

import asyncio
import math
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from functools import lru_cache, partial
from itertools import chain
from operator import methodcaller
from typing import Any, NamedTuple, NoReturn
from uuid import uuid4

import dask.array as da
import numpy as np
from dask.base import optimize
from dask.core import flatten
from dask.delayed import Delayed
from dask.highlevelgraph import HighLevelGraph
from dask.optimization import cull
from scipy import sparse

from skdp.data import containers, workers
from skdp.data.parts import PartResults, RowParts, composed, read_block, refused_if_not_finite
from skdp.data.reduce import Kernel, part_sum, tree_sum

# ------------------------------
# A pass over chunks of dask: one task for each, and a tree of additions.

try:
    from dask import _task_spec
except ImportError:  # it is not public: without it, what makes a chunk stays a task of its own
    _task_spec = None  # type: ignore[assignment]

Graph = dict[Any, Any]
# A power of two. The overhead of a task is as long as several additions of small sums.
_ADDED_AT_ONCE = 8  # not tuned
# Blocks of the task in this thread, by the names of their collections.
_BLOCKS: ContextVar[dict[str, Any]] = ContextVar("blocks")


class Chunks:
    """The blocks of a collection: its graph, and the key of each block."""

    def __init__(self, collection: Any) -> None:
        (optimized,) = optimize(collection)
        # Optimizing drops futures, whose results wait at workers.
        futures = {
            key: value
            for key, value in dict(collection.__dask_graph__()).items()
            if hasattr(type(value), "cancel")
        }
        self.graph: Graph = {**futures, **dict(optimized.__dask_graph__())}
        self.keys = list(flatten(optimized.__dask_keys__()))
        # Unique for ever: workers remember what they have unpickled.
        self.name = uuid4().hex

    def load(self, number: int) -> Any:
        """Compute one block in this process; passes do not: tasks are given their blocks."""
        return computed(Delayed(self.keys[number], self.graph))


def _block_of(chunks: Any, number: int) -> Any:
    return chunks.load(number)


class _Given:
    """Takes the place of `Chunks` in a worker: the one block that the task was given."""

    def __init__(self, name: str) -> None:
        self.name = name

    def load(self, _: int) -> Any:
        return _BLOCKS.get()[self.name]


def _name_of_chunks(value: Any) -> str | None:
    return value.name if isinstance(value, Chunks) else None


def sum_in_graph(source: Any, kernel: Kernel, size: int, numbers: Sequence[int]) -> Any:
    """Add up what a kernel gives for all parts of a source that are chunks of dask.

    The scheduler that is active computes it. A task is given chunks and what all tasks share, and
    returns bytes: a sum, or what has failed. It raises no error, as schedulers tell where one was
    raised, and draws no noise: it may run twice.

    Parameters
    ----------
    source : object
        As in :func:`skdp.data.reduce.map_sum`, in parts.
    kernel : callable
        What is computed of each block of a part.
    size : int
        How many numbers the sum has.
    numbers : sequence of int
        For each part, which chunk it is.

    Returns
    -------
    object
        The sum, in the one tree.
    """
    shared, found = workers.pickled((source, kernel, size), _name_of_chunks)
    graph, top = pass_graph(shared, found, numbers, name_of(kernel))
    _, total = pickle.loads(computed(Delayed(top, HighLevelGraph.from_collections(top, graph))))
    return workers.refused_if_failed(total)


def pass_graph(
    shared: bytes, found: Mapping[str, Chunks], numbers: Sequence[int], name: str
) -> tuple[Graph, Any]:
    """Make the graph of a pass, and tell the key of its result.

    What all tasks share, released values too, is the result of a task: dask sends it to each worker
    once, and makes it again if a worker dies.
    """
    token = uuid4().hex
    prefix, shared_key = f"skdp-{name}-{token}", f"skdp-shared-{token}"
    call = partial(_sum_of_part, tuple(found), workers.this_process())
    graph: Graph = {}
    for chunks in found.values():
        graph |= chunks.graph
    leaves = {
        (prefix, number): (call, shared_key, part, *(one.keys[number] for one in found.values()))
        for part, number in enumerate(numbers)
    }
    graph[shared_key] = (bytes, shared)
    graph |= leaves
    top = _tree(graph, list(leaves), f"skdp-add-{token}")
    graph, _ = cull(graph, [top])
    return graph if _task_spec is None else _fused(graph, leaves), top


def name_of(kernel: Any) -> str:
    """Name a kernel, for the keys of its tasks."""
    while isinstance(kernel, partial):
        inner = kernel.keywords.get("kernel", kernel.keywords.get("function"))
        kernel = kernel.func if inner is None else inner
    if isinstance(kernel, methodcaller):
        return str(kernel.__reduce__()[1][0])
    return str(getattr(kernel, "__name__", "sum")).strip("_<>").replace("_", "-")


def _tree(graph: Graph, keys: list[Any], prefix: str) -> Any:
    """Add a tree of additions to a graph, and return its top.

    Whole powers of two are added at a time, as a binary tree: so all together are the one of
    :mod:`skdp.data.reduce`.
    """
    level = 0
    while len(keys) > 1:
        groups = [keys[i : i + _ADDED_AT_ONCE] for i in range(0, len(keys), _ADDED_AT_ONCE)]
        sums = {(prefix, level, i): (_added, *group) for i, group in enumerate(groups)}
        # A single key that is left over waits for the next level.
        keys = [*sums] if len(groups[-1]) > 1 else [*sums][:-1] + groups[-1]
        graph |= {key: sums[key] for key in keys if key in sums}
        level += 1
    return keys[0]


def _fused(graph: Graph, leaves: Iterable[Any]) -> Graph:
    """Fuse each leaf with the tasks that only this leaf needs: chunks are summed where they are."""
    graph = _task_spec.convert_legacy_graph(graph)
    kinds = _task_spec.Task, _task_spec.Alias
    needed_by: dict[Any, set[Any]] = {}
    for key, node in graph.items():
        for one in node.dependencies:
            needed_by.setdefault(one, set()).add(key)
    fused = dict(graph)
    for leaf in leaves:
        inside = [leaf]
        for key in inside:  # it grows on the way
            for one in graph[key].dependencies:
                is_own = isinstance(graph.get(one), kinds) and needed_by[one] <= {*inside}
                if is_own and one not in inside and not graph[one].block_fusion:
                    inside.append(one)
        nodes = [fused.pop(key) for key in inside]
        fused[leaf] = _task_spec.Task.fuse(*nodes, key=leaf) if len(nodes) > 1 else nodes[0]
    return fused


def _sum_of_part(
    names: tuple[str, ...], client: tuple[str, int], shared: bytes, part: int, *blocks: Any
) -> bytes:
    token = _BLOCKS.set(dict(zip(names, blocks, strict=True)))
    try:
        return workers.answer(lambda: partial(part_sum, *_unpickled(shared), part=part), client)
    finally:
        _BLOCKS.reset(token)


@lru_cache(maxsize=4)  # not tuned: passes that may run at the same time
def _unpickled(shared: bytes) -> tuple[Any, Kernel, int]:
    """Unpickle the arguments that all tasks of a pass share, once in a worker."""
    source, kernel, size = workers.unpickled(shared, _Given)
    return source, kernel, size


def _added(*results: bytes) -> bytes:
    """Add up results, unless one has failed or they come from machines that are not alike."""
    machines, values = zip(*map(pickle.loads, results), strict=True)
    failures = (value for value in values if isinstance(value, workers.Failure))
    others = (workers.unlike(machines[0], machine) for machine in machines)
    failure = next(filter(None, chain(failures, others)), None)
    return pickle.dumps((machines[0], failure or tree_sum(values)))


def computed(result: Any) -> Any:
    """Compute a result with the scheduler that is active; errors lose their text."""
    try:
        return result.compute(optimize_graph=False)
    except (Exception, asyncio.CancelledError) as error:
        kind = type(error).__name__
    raise RuntimeError(
        f"Dask has raised {kind}, and the pass over the rows has ended. The text is left out, "
        "because it may contain values. Either a chunk cannot be computed, which "
        "X.partitions[i].compute() shows, or a worker or the scheduler is gone: often memory was "
        "short, and smaller chunks help."
    )


# ------------------------------
# A collection as rows in parts, or mapped chunk by chunk.


class _Facts(NamedTuple):
    """Facts of rows that are known without reading them."""

    n_features: int
    dtype: np.dtype
    is_sparse: bool = False
    names: list[str] | None = None

    @property
    def public(self) -> containers.RawBlock:
        """Two public rows of this kind."""
        rows = np.ones((2, self.n_features), self.dtype)
        return sparse.csr_array(rows) if self.is_sparse else rows


def rows_in_parts(X: Any, y: Any = None) -> RowParts:
    """Return rows, and their targets if there are any; each chunk is a part, which dask sums up.

    Parameters
    ----------
    X : dask array or data frame
        Rows. The lengths of the partitions of a data frame are counted, in one reading.
    y : dask array or series, or None, default=None
        Targets, in the same chunks.

    Returns
    -------
    RowParts
        The rows.

    Raises
    ------
    ValueError
        If these are no rows of numbers in chunks of known lengths, or y has other chunks.
    """
    facts = _facts_of(X)
    if _is_frame(X):
        return _parts_of_frame(X, y, facts)
    lengths = tuple(X.chunks[0])
    if any(map(math.isnan, lengths)):
        _refuse(
            "X has chunks of unknown lengths, which a fit makes public",
            "call X.compute_chunk_sizes(), which counts their rows",
        )
    targets = None if y is None else _loaders(_checked_targets(y, lengths))
    return _parts(_loaders(X), lengths, facts, targets)


def public_like(X: Any) -> Any:
    """Return public rows in place of those of a collection; of known lengths, in as many parts."""
    facts = _facts_of(X)
    if _is_frame(X) or any(map(math.isnan, X.chunks[0])):
        return facts.public
    return _parts([_never_loaded] * len(X.chunks[0]), X.chunks[0], facts)


def mapped_by_chunks(method: Callable[[Any], Any], X: Any, name: str) -> da.Array:
    """Apply a method that takes each row by itself to all chunks, lazily.

    Parameters
    ----------
    method : callable
        Takes rows in blocks, and returns rows in blocks or `PartResults`.
    X : dask array or data frame
        Rows, in chunks of any lengths.
    name : str
        For the keys of tasks.

    Returns
    -------
    dask array
        What the method makes of the rows.
    """
    facts = _facts_of(X)
    made = method(_parts([lambda: facts.public], [facts.public.shape[0]], facts))
    none: Any = np.empty((0, *made.shape[1:]), made.dtype)
    function: Any
    if isinstance(made, PartResults):
        function = composed(made.rows.function, composed(refused_if_not_finite, made.function))
    else:
        function, none = made.function, sparse.csr_array(none) if made.is_sparse else none
    blocks = _as_array(X)
    return blocks.map_blocks(
        partial(_of_chunk, function=function, none=none),
        name=f"skdp-{name}-{uuid4().hex}",
        dtype=made.dtype,
        meta=none,
        chunks=(blocks.chunks[0], *((size,) for size in made.shape[1:])),
        drop_axis=None if made.shape[1:] else 1,
    )


def _of_chunk(block: Any, function: Callable[[Any], Any], none: Any) -> Any:
    """Map the rows of a block; `none` stands for the result of no rows."""
    return function(containers.in_c_order(read_block(block)[0])) if block.shape[0] else none


def _is_frame(X: Any, ndim: int = 2) -> bool:
    # Types are asked, as an object of dask.delayed has every attribute.
    is_kind = hasattr(type(X), "map_partitions") and hasattr(type(X), "ndim")
    return is_kind and X.ndim == ndim


def _facts_of(X: Any) -> _Facts:
    """Refuse collections that are no rows of numbers, without reading them."""
    if _is_frame(X):
        return _facts_of_frame(X)
    if not isinstance(X, da.Array):
        _refuse(f"X is of type {type(X).__name__}", "pass an array or a data frame of dask")
    if X.ndim != 2:
        shape = f"X has {X.ndim} dimensions"
        _refuse(shape, "pass rows, such as X.reshape((len(X), -1)) or X[:, None]")
    if len(X.chunks[1]) > 1 or math.isnan(X.shape[1]):
        hint = "pass X.rechunk({0: 'auto', 1: -1})"
        _refuse("X has chunks of columns, and no row is in one chunk", hint)
    if not np.can_cast(X.dtype, np.float64):
        _refuse(f"X has dtype {X.dtype}, which are no real numbers", "pass X.astype(float)")
    if isinstance(X._meta, np.ma.MaskedArray):
        raise ValueError(containers.MASKED)
    is_sparse = sparse.issparse(X._meta)
    if not is_sparse and type(X._meta) is not np.ndarray:
        kind = type(X._meta)
        _refuse(
            f"X has chunks of type {kind.__module__}.{kind.__qualname__}",
            "pass X.map_blocks(...) of a function that makes arrays of numpy, or "
            "scipy.sparse.csr_array",
        )
    return _Facts(X.shape[1], containers.float_dtype(X), is_sparse)


def _facts_of_frame(X: Any) -> _Facts:
    if flaw := containers.flaw_of_columns(X):
        raise ValueError(flaw)
    is_single = all(dtype == np.float32 for dtype in X.dtypes)
    dtype = np.dtype(np.float32 if is_single else np.float64)
    return _Facts(len(X.columns), dtype, False, containers.as_feature_names(list(X.columns)))


def _refuse(what: str, remedy: str) -> NoReturn:
    raise ValueError(f"{what}: {remedy}.")


def _checked_targets(y: Any, lengths: tuple[int, ...]) -> Any:
    """Refuse targets in other chunks than the rows."""
    if not isinstance(y, da.Array):
        remedy = "dask.array.from_array(y, chunks=X.chunks[0])"
        if hasattr(y, "to_dask_array"):
            remedy = "y.to_dask_array(lengths=X.chunks[0])"
        _refuse(f"X is an array of dask, and y of type {type(y).__name__}", f"pass {remedy}")
    if y.ndim != 1:
        _refuse(f"y has {y.ndim} dimensions, where one is expected", "pass one column, as y[:, 0]")
    if y.chunks[0] != lengths:
        _refuse("y has other chunks than X", "pass y.rechunk((X.chunks[0],))")
    return y


def _loaders(X: Any) -> list[Callable[[], Any]]:
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
        is_sparse=facts.is_sparse,
    )


def _parts_of_frame(X: Any, y: Any, facts: _Facts) -> RowParts:
    both = X if y is None else _with_target(X, y)
    # Frames, and no arrays, in spite of `meta`: rows and targets are read together.
    blocks = both.map_partitions(_itself, meta=np.empty((0, both.shape[1])), enforce_metadata=False)
    n_parts = blocks.numblocks[0]
    counted = blocks.map_blocks(_length, dtype=int, chunks=((1,) * n_parts, (1,)))
    loaders = _loaders(blocks)
    names = list(both.columns)
    rows = [partial(_rows_of, load, names, facts) for load in loaders]
    targets = None if y is None else [partial(_target_of, load, names) for load in loaders]
    return _parts(rows, computed(counted).ravel().tolist(), facts, targets)


def _with_target(X: Any, y: Any) -> Any:
    """Put the targets behind the columns of a data frame."""
    if not _is_frame(y, 1):
        _refuse(
            f"X is a data frame of dask, and y of type {type(y).__name__}",
            "pass a column of the same data frame, as frame['label'] beside frame[features]",
        )
    name = "y"
    while name in X.columns:
        name += "_"
    # Of different frames dask would join the rows, by an index that may be private.
    if not _are_of_one_frame(X, y):
        _refuse(
            "y has other partitions than X",
            "take both from one data frame, as frame[features] and frame['label']",
        )
    return X.assign(**{name: y})


def _are_of_one_frame(X: Any, y: Any) -> bool:
    try:
        from dask.dataframe.dask_expr._expr import are_co_aligned
    except ImportError:  # it is not public
        return bool(X.npartitions == y.npartitions and X.known_divisions)
    return bool(are_co_aligned(X.expr, y.expr) and X.npartitions == y.npartitions)


def _as_array(X: Any) -> Any:
    """Return the rows of a collection as an array of dask, in chunks of any length."""
    if not _is_frame(X):
        return X
    facts = _facts_of_frame(X)
    meta = np.empty((0, facts.n_features), facts.dtype)
    values = partial(_values, names=list(X.columns), facts=facts)
    return X.map_partitions(values, meta=meta, enforce_metadata=False)


def _values(frame: Any, names: list[Any], facts: _Facts) -> np.ndarray:
    containers.refuse_other_columns(list(frame.columns), names)
    return np.asarray(frame.iloc[:, : facts.n_features].to_numpy(facts.dtype, na_value=np.nan))


def _rows_of(load: Callable[[], Any], names: list[Any], facts: _Facts) -> np.ndarray:
    return _values(load(), names, facts)


def _target_of(load: Callable[[], Any], names: list[Any]) -> np.ndarray:
    frame = load()
    containers.refuse_other_columns(list(frame.columns), names)
    return np.asarray(frame.iloc[:, -1])


def _itself(frame: Any) -> Any:
    return frame


def _length(frame: Any) -> np.ndarray:
    return np.array([[len(frame)]])


def _never_loaded() -> NoReturn:
    raise AssertionError("what a plan is made for is not read")
