"""The one way of passing over rows: a kernel maps each block, and one tree sums the results.

A leaf of the tree is a run of consecutive blocks, which are added one after the other. A node
splits its leaves at the largest power of two below their number. Both depend on public sizes only,
so that the bits are the same whichever thread computes which aligned subtree.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial, reduce
from itertools import islice, starmap
from typing import Any

import numpy as np

from skdp.data.threads import run_in_threads, thread_count
from skdp.linalg.norms import LEAST_ROUNDING, UNIT_ROUNDOFF

__all__ = ["BlockView", "Kernel", "PerRow", "map_sum", "on_block", "sum_depth", "sum_rounding"]

# If there are more than two leaves, they hold at most so many numbers together, 64 MB.
_LEAF_NUMBERS = 1 << 23  # not studied
# Subtrees for each thread: several, as some take longer than others.
_TASKS_A_THREAD = 4  # not studied

#: Maps the rows that a block stands for, and the block, to an array, to values `PerRow`, or to a
#: tuple of these. Arrays are added up, and values of rows are joined. A kernel is a pure function.
#: It can be pickled, as other processes may run it. Whatever rows hold, it raises no error.
Kernel = Callable[[slice, Any], Any]


class PerRow:
    """Values of rows, block by block."""

    def __init__(self, block: np.ndarray) -> None:
        self.blocks = [block]


def on_block(function: Callable[[Any], Any]) -> Kernel:
    """Make a kernel of a function of the block alone, such as ``methodcaller("norms")``."""
    return partial(_on_block, function=function)


def _on_block(_: slice, block: Any, function: Callable[[Any], Any]) -> Any:
    return function(block)


def _per_row(rows: slice, block: Any, kernel: Kernel) -> PerRow:
    return PerRow(kernel(rows, block))


class BlockView:
    """A view of data in blocks, as :func:`map_sum` takes it."""

    source: Any
    n_jobs: int | None

    @property
    def width(self) -> int:
        """Length of the vectors whose outer products make up the largest sum."""
        return int(self.source.shape[1])

    @property
    def is_stream(self) -> bool:
        """Whether blocks must be read in one sequence."""
        return getattr(getattr(self, "source", None), "is_stream", False)

    def map_sum(self, kernel: Kernel, size: int) -> Any:
        """Add up what a kernel gives, `size` numbers.

        No leaf is longer than `sum_depth` charges for, even if `size` is larger than it assumes.
        """
        return map_sum(self, kernel, min(size, _most_numbers(self.width)), self.n_jobs)

    def map_rows(self, kernel: Kernel) -> Any:
        """Join the values that a kernel gives for the rows of each block."""
        return map_sum(self, partial(_per_row, kernel=kernel), 0, self.n_jobs)


def map_sum(source: Any, kernel: Kernel, size: int, n_jobs: int | None = None) -> Any:
    """Add up what a kernel gives for the blocks of a source, in one pass.

    Parameters
    ----------
    source : object
        Where the rows come from. Its `block_starts` are the first rows of the blocks, and the end,
        all public; its `blocks` yields a range of blocks, each with its rows. A source that
        `is_stream` cannot be entered in the middle. If a source is `in_pieces`, each of its blocks
        is an iterable of pieces with their rows.
    kernel : callable
        What is computed of each block, or piece.
    size : int
        How many numbers the sum has, a public fact.
    n_jobs : int or None, default=None
        Threads that share the blocks, each with one BLAS thread. ``None`` stands for as many as a
        matrix product would have.

    Returns
    -------
    object
        The sum, with the values of all rows joined.
    """
    n_blocks = len(source.block_starts) - 1
    length = _leaf_length(n_blocks, size)
    n_leaves = -(-n_blocks // length)
    is_sequence = n_leaves == 1 or getattr(source, "is_stream", False)
    n_threads = 1 if is_sequence else thread_count(n_jobs)
    n_tasks = 1 if n_threads == 1 else min(_TASKS_A_THREAD * n_threads, n_leaves)
    # Aligned subtrees have a power of two of leaves: whoever sums them, the tree is the same.
    span = length << (n_leaves // n_tasks).bit_length() - (n_tasks > 1)
    # First the pieces of each block are summed. So the chain of additions in a leaf is no longer
    # than the number of its blocks plus the number of pieces of one block.
    of_block = (
        partial(_sum_pieces, kernel=kernel) if getattr(source, "in_pieces", False) else kernel
    )

    def _subtree(first: int) -> Any:
        group = range(first, min(first + span, n_blocks))
        blocks = source.blocks(group)
        leaves = (_chain_sum(of_block, islice(blocks, length)) for _ in group[::length])
        return _tree_sum(leaves, len(group[::length]))

    nodes = run_in_threads(_subtree, range(0, n_blocks, span), n_threads)
    return _joined(_tree_sum(iter(nodes), len(nodes)))


def sum_depth(starts: np.ndarray, width: int) -> int:
    """Bound the longest chain of additions in any sum over blocks of rows of length `width`.

    The largest sum has the longest leaves, and so the longest chain.
    """
    n_blocks = len(starts) - 1
    length = _leaf_length(n_blocks, _most_numbers(width))
    return int(np.diff(starts).max()) + length + ((n_blocks - 1) // length).bit_length() + 3


def sum_rounding(starts: np.ndarray, width: int) -> float:
    """Bound the rounding error of a sum over blocks, in units of the largest contribution."""
    return max(LEAST_ROUNDING, sum_depth(starts, width) * UNIT_ROUNDOFF * int(starts[-1]))


def _most_numbers(width: int) -> int:
    """Size of the largest sum: all pairs of features and a few more, but at least 4096."""
    return int(max(width + 2, 64) ** 2)


def _leaf_length(n_blocks: int, size: int) -> int:
    """Count the blocks of a leaf: there are as many leaves as fit in memory, or else two."""
    n_leaves = max(_LEAF_NUMBERS // max(size, 1), 2)
    return -(-n_blocks // min(n_leaves, n_blocks))


def _tree_sum(values: Iterator[Any], n: int) -> Any:
    """Add up `n` values; hold no more of them at a time than the tree has levels."""
    if n == 1:
        return next(values)
    half = 1 << (n - 1).bit_length() - 1
    first = _tree_sum(values, half)
    return _add(first, _tree_sum(values, n - half))


def _chain_sum(kernel: Kernel, blocks: Iterable[tuple[slice, Any]]) -> Any:
    """Add up what a kernel gives, one block after the other; None if there is no block."""
    return reduce(_add, starmap(kernel, blocks), None)


def _sum_pieces(_: slice, pieces: Iterable[tuple[slice, Any]], kernel: Kernel) -> Any:
    return _chain_sum(kernel, pieces)


def _add(first: Any, second: Any) -> Any:
    """Add in place, into the first, which nobody else holds; None stands for nothing."""
    if first is None or second is None:
        return second if first is None else first
    if isinstance(first, tuple):
        return tuple(map(_add, first, second))
    if isinstance(first, PerRow):
        first.blocks += second.blocks
        return first
    return np.add(first, second, out=first)


def _joined(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_joined, value))
    return np.concatenate(value.blocks) if isinstance(value, PerRow) else value
