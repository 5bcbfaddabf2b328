"""The one way of passing over rows: kernels over blocks, and one tree that adds up what they give.

Blocks are added in sequence within a leaf, which is so many consecutive blocks, and leaves in a
tree, whose nodes split at the largest power of two below their size. Both depend on public sizes
only. The bits are the same whichever thread computes which aligned subtree.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial, reduce
from itertools import islice
from operator import methodcaller
from typing import Any

import numpy as np

from skdp.data.threads import run_in_threads, thread_count
from skdp.linalg.norms import LEAST_ROUNDING, UNIT_ROUNDOFF

__all__ = [
    "PerRow",
    "Reduced",
    "apply",
    "map_rows",
    "map_sum",
    "per_row",
    "sum_depth",
    "sum_rounding",
    "take",
]

# What leaves hold together, if there are more than two: 64 MB.
_LEAF_NUMBERS = 1 << 23  # not studied
# Subtrees a thread, as some take longer than others.
_TASKS_A_THREAD = 4  # not studied

#: What is made of the rows that a block stands for: an array to be added up, values `PerRow` to be
#: joined, or a tuple of these. A pure function, which raises nothing because of what rows hold.
Kernel = Callable[[slice, Any], Any]


class PerRow:
    """Values of rows, block by block."""

    def __init__(self, block: np.ndarray) -> None:
        self.blocks = [block]


class Reduced:
    """A view whose blocks kernels are applied to: what :func:`map_sum` takes as a source."""

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

    def add_up(self, kernel: Kernel, size: int) -> Any:
        """Add up what a kernel gives, so many numbers.

        No leaf is longer than `sum_depth` charges for, even if `size` is larger.
        """
        return map_sum(self, [kernel], min(size, _most_numbers(self.width)), self.n_jobs)[0]

    def map_rows(self, kernel: Kernel) -> np.ndarray:
        """Collect the values that a kernel gives for each row."""
        return map_rows(self, [kernel], self.n_jobs)[0]


def map_sum(
    source: Any, kernels: Sequence[Kernel], size: int, n_jobs: int | None = None
) -> tuple[Any, ...]:
    """Add up what kernels give for the blocks of a source, in one reading.

    Parameters
    ----------
    source : object
        Where the rows come from: has `block_starts`, the first rows of public blocks and the end,
        and yields a range of `blocks` with the rows they stand for. One that `is_stream` cannot be
        entered in the middle. Blocks of one that is `in_pieces` are pieces, each with its rows.
    kernels : sequence of callables
        What is taken of each block, or piece.
    size : int
        How many numbers their sums have together, a public fact.
    n_jobs : int or None, default=None
        Threads that share the blocks, for each a BLAS thread of its own. ``None`` stands for as
        many as a matrix product would have.

    Returns
    -------
    tuple
        The sums, with the values of all rows joined.
    """
    n_blocks = len(source.block_starts) - 1
    length = _leaf_length(n_blocks, size)
    n_leaves = -(-n_blocks // length)
    is_sequence = n_leaves == 1 or getattr(source, "is_stream", False)
    n_threads = 1 if is_sequence else thread_count(n_jobs)
    n_tasks = 1 if n_threads == 1 else min(_TASKS_A_THREAD * n_threads, n_leaves)
    # Aligned subtrees have a power of two of leaves.
    span = length << (n_leaves // n_tasks).bit_length() - (n_tasks > 1)

    def _subtree(first: int) -> Any:
        group = range(first, min(first + span, n_blocks))
        blocks = source.blocks(group)
        leaves = (_leaf(source, kernels, islice(blocks, length)) for _ in group[::length])
        return _tree_sum(leaves, len(group[::length]))

    nodes = run_in_threads(_subtree, range(0, n_blocks, span), n_threads)
    return tuple(map(_whole, _tree_sum(iter(nodes), len(nodes))))


def map_rows(
    source: Any, kernels: Sequence[Kernel], n_jobs: int | None = None
) -> tuple[np.ndarray, ...]:
    """Collect the values that kernels give for each row of the blocks, in one reading."""
    return map_sum(source, [*map(per_row, kernels)], 0, n_jobs)


def per_row(kernel: Kernel) -> Kernel:
    """Make a kernel that joins the values which another gives for rows."""
    return partial(_per_row, kernel=kernel)


def take(name: str, *arguments: Any) -> Kernel:
    """Make a kernel of a method of blocks."""
    return apply(methodcaller(name, *arguments))


def apply(function: Callable[[Any], Any]) -> Kernel:
    """Make a kernel that applies a function to blocks."""
    return partial(_applied, function=function)


def sum_depth(starts: np.ndarray, width: int) -> int:
    """Bound the longest chain of additions in any sum over blocks of rows of so many features.

    It is that of the largest sum, which has the longest leaves.
    """
    n_blocks = len(starts) - 1
    length = _leaf_length(n_blocks, _most_numbers(width))
    return int(np.diff(starts).max()) + length + ((n_blocks - 1) // length).bit_length() + 3


def sum_rounding(starts: np.ndarray, width: int) -> float:
    """Bound the rounding error of a sum over blocks, in units of the largest contribution."""
    return max(LEAST_ROUNDING, sum_depth(starts, width) * UNIT_ROUNDOFF * int(starts[-1]))


def _most_numbers(width: int) -> int:
    """Numbers of the largest sum: pairs of features and a few more, or 4096."""
    return int(max(width + 2, 64) ** 2)


def _leaf_length(n_blocks: int, size: int) -> int:
    """Blocks of a leaf: few enough for two leaves, if possible, and else for little memory."""
    n_leaves = max(_LEAF_NUMBERS // max(size, 1), 2)
    return -(-n_blocks // min(n_leaves, n_blocks))


def _tree_sum(values: Iterator[Any], n: int) -> Any:
    """Add up so many values; hold no more of them at a time than the tree has levels."""
    if n == 1:
        return next(values)
    half = 1 << (n - 1).bit_length() - 1
    first = _tree_sum(values, half)
    return _add(first, _tree_sum(values, n - half))


def _leaf(source: Any, kernels: Sequence[Kernel], blocks: Iterator[tuple[slice, Any]]) -> Any:
    if getattr(source, "in_pieces", False):
        # Block by block, so that a leaf is no longer a chain than its blocks are.
        return reduce(_add, (_chain(kernels, pieces) for _, pieces in blocks), None)
    return _chain(kernels, blocks)


def _chain(kernels: Sequence[Kernel], blocks: Iterable[tuple[slice, Any]]) -> Any:
    return reduce(_add, (tuple(kernel(*block) for kernel in kernels) for block in blocks), None)


def _add(one: Any, other: Any) -> Any:
    """Add, into the first, which nobody else holds; None stands for nothing."""
    if one is None or other is None:
        return other if one is None else one
    if isinstance(one, tuple):
        return tuple(map(_add, one, other))
    if isinstance(one, PerRow):
        one.blocks += other.blocks
        return one
    return np.add(one, other, out=one)


def _whole(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_whole, value))
    return np.concatenate(value.blocks) if isinstance(value, PerRow) else value


def _per_row(rows: slice, block: Any, kernel: Kernel) -> PerRow:
    return PerRow(kernel(rows, block))


def _applied(_: slice, block: Any, function: Callable[[Any], Any]) -> Any:
    return function(block)
