"""A pass over chunks of dask: one task for each, and a tree of additions."""

import asyncio
import io
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from functools import lru_cache, partial
from itertools import chain
from operator import methodcaller
from typing import Any
from uuid import uuid4

from dask.base import optimize
from dask.core import flatten
from dask.delayed import Delayed
from dask.highlevelgraph import HighLevelGraph
from dask.optimization import cull

from skdp.data.engine import (
    Failure,
    Pickler,
    answer,
    cannot_be_sent,
    refused_if_failed,
    this_process,
    unlike,
)
from skdp.data.reduce import Kernel, part_sum, tree_sum

try:
    from dask import _task_spec
except ImportError:  # it is not public: without it, what makes a chunk stays a task of its own
    _task_spec = None  # type: ignore[assignment]

Graph = dict[Any, Any]
# A power of two: each task takes as long as several additions of small sums.
_ADDED_AT_ONCE = 8  # not tuned
# Those of the task that runs in this thread, by the names of their collections.
_BLOCKS: ContextVar[dict[str, Any]] = ContextVar("blocks")


class Chunks:
    """The blocks of a collection: its graph, and the key of each block."""

    def __init__(self, collection: Any) -> None:
        (optimized,) = optimize(collection)
        # Optimizing drops what has been computed already, and waits at workers.
        futures = {
            key: value
            for key, value in dict(collection.__dask_graph__()).items()
            if hasattr(type(value), "cancel")
        }
        self.graph: Graph = {**futures, **dict(optimized.__dask_graph__())}
        self.keys = list(flatten(optimized.__dask_keys__()))
        # Of no other collection, ever: workers remember what they have unpickled.
        self.name = uuid4().hex

    def load(self, number: int) -> Any:
        """Compute one block in this process, as nothing in skdp does: tasks are given theirs."""
        return computed(Delayed(self.keys[number], self.graph))


class Chunk:
    """Loads one block."""

    def __init__(self, chunks: Any, number: int) -> None:
        self.chunks, self.number = chunks, number

    def __call__(self) -> Any:
        """Return the block."""
        return self.chunks.load(self.number)


class _Given:
    """Takes the place of `Chunks` in a worker: the one block that the task was given."""

    def __init__(self, name: str) -> None:
        self.name = name

    def load(self, _: int) -> Any:
        return _BLOCKS.get()[self.name]


class _Pickler(Pickler):
    """Keeps `Chunks` out of the bytes, and lists them in `found`."""

    found: dict[str, Chunks]

    def persistent_id(self, value: Any) -> Any:
        """Return by what name a worker finds the blocks of a collection."""
        if not isinstance(value, Chunks):
            return None
        self.found[value.name] = value
        return value.name


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, name: str) -> _Given:
        return _Given(name)


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
    graph, top = pass_graph(*_shared((source, kernel, size)), numbers, name_of(kernel))
    _, total = pickle.loads(computed(Delayed(top, HighLevelGraph.from_collections(top, graph))))
    return refused_if_failed(total)


def _shared(value: Any) -> tuple[bytes, dict[str, Chunks]]:
    """Pickle what all tasks share, and list the chunks that it reads."""
    file = io.BytesIO()
    pickler = _Pickler(file)
    pickler.found = {}
    try:
        pickler.dump(value)
        return file.getvalue(), pickler.found
    except Exception as error:
        kind = type(error).__name__
    raise cannot_be_sent(kind)


def pass_graph(
    shared: bytes, found: Mapping[str, Chunks], numbers: Sequence[int], name: str
) -> tuple[Graph, Any]:
    """Make the graph of a pass, and tell the key of its result.

    What all tasks share, released values too, is the result of a task: dask sends it to each worker
    once, and makes it again if a worker dies.
    """
    token = uuid4().hex
    prefix, shared_key = f"skdp-{name}-{token}", f"skdp-shared-{token}"
    call = partial(_sum_of_part, tuple(found), this_process())
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
        # One that is left over waits for the next level.
        keys = [*sums] if len(groups[-1]) > 1 else [*sums][:-1] + groups[-1]
        graph |= {key: sums[key] for key in keys if key in sums}
        level += 1
    return keys[0]


def _fused(graph: Graph, leaves: Iterable[Any]) -> Graph:
    """Make each leaf one task with what it alone needs, so that chunks stay where they are made."""
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
        return answer(partial(_call, shared, part), client)
    finally:
        _BLOCKS.reset(token)


def _call(shared: bytes, part: int) -> Callable[[], Any]:
    return partial(part_sum, *_unpickled(shared), part=part)


@lru_cache(maxsize=4)  # not tuned: passes that may run at the same time
def _unpickled(shared: bytes) -> tuple[Any, Kernel, int]:
    """Unpickle what all tasks of a pass share, once: it tells of each part."""
    source, kernel, size = _Unpickler(io.BytesIO(shared)).load()
    return source, kernel, size


def _added(*results: bytes) -> bytes:
    """Add up results, unless one has failed or they come from machines that are not alike."""
    machines, values = zip(*map(pickle.loads, results), strict=True)
    failures = (value for value in values if isinstance(value, Failure))
    others = (unlike(machines[0], machine) for machine in machines)
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
