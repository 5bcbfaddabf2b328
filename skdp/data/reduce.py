"""The one way of passing over rows: kernels over blocks, and one tree that adds up what they give.

Blocks are added in sequence within a leaf, which is so many consecutive blocks, and leaves in a
tree: siblings are added, and what has none goes up as it is, so that a node splits at the largest
power of two below its size. Both depend on public sizes only. Whoever computes which node, in
whatever order, the bits are the same.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial, reduce
from itertools import islice
from typing import Any

import numpy as np

from skdp.data.threads import run_in_threads, thread_count
from skdp.linalg.norms import LEAST_ROUNDING, UNIT_ROUNDOFF

__all__ = [
    "BlocksOf",
    "Kernel",
    "PerRow",
    "Reduced",
    "map_rows",
    "map_sum",
    "sum_depth",
    "sum_rounding",
]

# Of two siblings one waits for the other at most: half of that many numbers wait, 64 MB of them.
_LEAF_NUMBERS = 1 << 24  # not studied
# Nodes a thread, as some take longer than others.
_TASKS_A_THREAD = 4  # not studied

#: What is made of the rows that a block stands for: an array to be added up, values `PerRow` to be
#: joined, or a tuple of these. A pure function, which raises nothing because of what rows hold.
Kernel = Callable[[slice, Any], Any]
#: Makes blocks, or pieces of them, of what a source yields. Each thread opens one of its own.
BlocksOf = Callable[[slice, Any], Iterable[tuple[slice, Any]]]


class PerRow:
    """Values of rows, block by block."""

    def __init__(self, *blocks: np.ndarray) -> None:
        self.blocks = blocks


class Reduced:
    """Rows of a source, seen through what is made of its blocks."""

    source: Any
    n_jobs: int | None

    @property
    def width(self) -> int:
        """Number of features: no sum has many more numbers than its square."""
        return int(self.source.shape[1])

    def add_up(self, kernel: Kernel, size: int) -> Any:
        """Add up what a kernel gives, of about so many numbers."""
        return map_sum(
            self.source,
            [kernel],
            min(size, _largest_sum(self.width)),
            n_jobs=self.n_jobs,
            open_blocks=self._open_blocks,
        )[0]

    def map_rows(self, kernel: Kernel) -> np.ndarray:
        """Collect the values that a kernel gives for each row."""
        return map_rows(self.source, [kernel], n_jobs=self.n_jobs, open_blocks=self._open_blocks)[0]

    def _open_blocks(self) -> BlocksOf:
        raise NotImplementedError


def map_sum(
    source: Any,
    kernels: Sequence[Kernel],
    size: int,
    *,
    n_jobs: int | None = None,
    open_blocks: Callable[[], BlocksOf] | None = None,
) -> tuple[Any, ...]:
    """Add up what kernels give for the blocks of a source, in one reading.

    Parameters
    ----------
    source : object
        Where the rows come from: has `block_starts`, the first rows of public blocks and the end,
        and yields a range of `blocks` with the rows they stand for. One that `is_stream` cannot be
        entered in the middle.
    kernels : sequence of callables
        What is taken of each block.
    size : int
        How many numbers their sums have together, a public fact.
    n_jobs : int or None, default=None
        Threads that share the blocks, for each a BLAS thread of its own. ``None`` stands for as
        many as a matrix product would have.
    open_blocks : callable or None, default=None
        Called once a thread, for what makes of blocks what the kernels take.

    Returns
    -------
    tuple
        The sums, with the values of all rows joined.
    """
    n_blocks = len(source.block_starts) - 1
    length = _leaf_length(n_blocks, size)
    tree = _Tree(-(-n_blocks // length))
    is_sequence = tree.n_leaves == 1 or getattr(source, "is_stream", False)
    n_threads = 1 if is_sequence else thread_count(n_jobs)
    level = tree.level_of(_TASKS_A_THREAD * n_threads) if n_threads > 1 else tree.n_levels
    tasks, lock = iter(range(tree.width(level))), threading.Lock()

    def _work() -> None:
        blocks_of = _as_they_are if open_blocks is None else open_blocks()
        while True:
            with lock:
                index = next(tasks, None)
            if index is None:
                return
            first = index << level
            node = _Tree(min(tree.n_leaves - first, 1 << level))
            group = range(first * length, min((first + node.n_leaves) * length, n_blocks))
            blocks = source.blocks(group)
            for leaf in range(node.n_leaves):
                node.put(0, leaf, _leaf(kernels, blocks_of, islice(blocks, length)))
            with lock:
                tree.put(level, index, node.total)

    run_in_threads(_work, min(n_threads, tree.width(level)))
    return tuple(map(_whole, tree.total))


def map_rows(
    source: Any,
    kernels: Sequence[Kernel],
    *,
    n_jobs: int | None = None,
    open_blocks: Callable[[], BlocksOf] | None = None,
) -> tuple[np.ndarray, ...]:
    """Collect the values that kernels give for each row of the blocks, in one reading.

    Parameters are those of `map_sum`.
    """
    per_row = [partial(_per_row, kernel=kernel) for kernel in kernels]
    return map_sum(source, per_row, 0, n_jobs=n_jobs, open_blocks=open_blocks)


def sum_depth(starts: np.ndarray, width: int) -> int:
    """Bound the longest chain of additions in any sum over blocks of rows of so many features.

    The largest sum has the longest leaves.
    """
    n_blocks = len(starts) - 1
    length = _leaf_length(n_blocks, _largest_sum(width))
    return int(np.diff(starts).max()) + length + _Tree(-(-n_blocks // length)).n_levels + 3


def sum_rounding(starts: np.ndarray, width: int) -> float:
    """Bound the rounding error of a sum over blocks, in units of the largest contribution."""
    return max(LEAST_ROUNDING, sum_depth(starts, width) * UNIT_ROUNDOFF * int(starts[-1]))


def _largest_sum(width: int) -> int:
    return (width + 2) ** 2


def _leaf_length(n_blocks: int, size: int) -> int:
    """Blocks of a leaf: few enough for two leaves, if possible, and else for little memory."""
    n_leaves = max(_LEAF_NUMBERS // max(size, 1), 2)
    return -(-n_blocks // min(n_leaves, n_blocks))


class _Tree:
    """The sums of some of the leaves, added up as soon as siblings are there."""

    def __init__(self, n_leaves: int) -> None:
        self.n_leaves = n_leaves
        self.n_levels = (n_leaves - 1).bit_length()
        self.total: Any = None
        self._waiting: dict[tuple[int, int], Any] = {}

    def width(self, level: int) -> int:
        """Count the nodes of a level; leaves are those of level 0."""
        return -(-self.n_leaves >> level)

    def level_of(self, n_nodes: int) -> int:
        """Find the highest level with that many nodes, or else that of the leaves."""
        levels = (level for level in range(self.n_levels, 0, -1) if self.width(level) >= n_nodes)
        return next(levels, 0)

    def put(self, level: int, index: int, value: Any) -> None:
        """Put in the sum of a node."""
        for here in range(level, self.n_levels):
            sibling = index ^ 1
            if sibling < self.width(here):
                if (here, sibling) not in self._waiting:
                    self._waiting[here, index] = value
                    return
                other = self._waiting.pop((here, sibling))
                value = _add(value, other) if index < sibling else _add(other, value)
            index >>= 1
        self.total = value


def _leaf(
    kernels: Sequence[Kernel], blocks_of: BlocksOf, raw_blocks: Iterable[tuple[slice, Any]]
) -> Any:
    pieces = (piece for raw_block in raw_blocks for piece in blocks_of(*raw_block))
    return reduce(_add, (tuple(kernel(*piece) for kernel in kernels) for piece in pieces), None)


def _add(one: Any, other: Any) -> Any:
    """Add, into the first, which nobody else holds; None stands for nothing."""
    if one is None or other is None:
        return other if one is None else one
    if isinstance(one, tuple):
        return tuple(map(_add, one, other))
    if isinstance(one, PerRow):
        return PerRow(*one.blocks, *other.blocks)
    return np.add(one, other, out=one)


def _whole(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_whole, value))
    return np.concatenate(value.blocks) if isinstance(value, PerRow) else value


def _as_they_are(rows: slice, block: Any) -> Iterator[tuple[slice, Any]]:
    yield rows, block


def _per_row(rows: slice, block: Any, kernel: Kernel) -> PerRow:
    return PerRow(kernel(rows, block))
