"""A pass over rows: a kernel maps each block, and a tree of additions sums the results.

A leaf of the tree is a run of consecutive blocks, whose results are added one after the other. A
node splits its leaves at the largest power of two below their number. Rows in parts have such a
tree for each part, and another tree for the sums of the parts. The tree depends on public sizes
only: so a sum has the same bits, whichever threads or processes compute its subtrees.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from contextvars import ContextVar
from functools import partial, reduce
from itertools import pairwise, starmap
from typing import Any

import numpy as np

from skdp.data.workers import run_in_threads, thread_count, without_warnings
from skdp.linalg.norms import LEAST_ROUNDING, UNIT_ROUNDOFF

# The sums of all leaves of a tree have at most this many floats (64 MB), but two leaves may have
# more.
_LEAF_NUMBERS = 1 << 23  # not studied
# Subtrees per thread: several, as some subtrees take longer than others.
_TASKS_A_THREAD = 4  # not studied
# Margin for additions in a chain that are neither within a block nor in the tree.
_MORE_ADDITIONS = 3  # not tuned

#: A kernel is a pure function of row numbers and their block. It returns an array, or values
#: `PerRow`, or a tuple of these: a pass adds arrays, and joins values `PerRow`. A kernel raises no
#: error, whatever the rows are. For other processes, cloudpickle must be able to pickle it.
Kernel = Callable[[slice, Any], Any]
#: Makes a context that reports a pass to callbacks.
Observer = Callable[[], AbstractContextManager[None]]
#: Observer of the fit in this thread; None without callbacks.
OBSERVER: ContextVar[Observer | None] = ContextVar("observer", default=None)


class PerRow:
    """Values for each row of a block; a pass over all blocks concatenates them, in row order."""

    def __init__(self, block: np.ndarray) -> None:
        self.blocks = [block]


def on_block(function: Callable[[Any], Any]) -> Kernel:
    """Make a kernel from a function of the block only, such as ``methodcaller("norms")``."""
    return lambda _, block: function(block)


class BlockView:
    """Base class of views of data in blocks, over which :func:`map_sum` passes."""

    n_jobs: int | None
    #: Length of the vectors whose outer products are the largest sum of a fit.
    width: Any

    def map_sum(self, kernel: Kernel, size: int) -> Any:
        """Sum the results of a kernel, each of `size` numbers, over all blocks.

        Sums of more numbers have longer leaves. `sum_depth` bounds the additions in a leaf for
        sizes up to `_largest_size`, which therefore replaces a larger `size`.
        """
        return map_sum(self, kernel, min(size, _largest_size(self.width)), self.n_jobs)

    def map_rows(self, kernel: Kernel) -> Any:
        """Concatenate the results of a kernel, which returns a value for each row of a block."""
        return map_sum(self, lambda rows, block: PerRow(kernel(rows, block)), 0, self.n_jobs)


def map_sum(source: Any, kernel: Kernel, size: int, n_jobs: int | None = None) -> Any:
    """Sum the results of a kernel for the blocks of a source, in one pass.

    Parameters
    ----------
    source : object
        Source of the rows. Its method `blocks` yields blocks with their row numbers. Its
        `block_starts`, which are public, have the first row of each block and then the number of
        rows. Optional are: `part_starts`, with the first block of each part and then the number of
        blocks; `is_stream`, true for a source that is read only from the start; `in_pieces`, true
        if a block is an iterable of pieces with their row numbers; and a function `pass_over`, such
        as `dask_rows.sum_in_graph`, which sums over parts in other processes.
    kernel : callable
        Computes the result of each block, or piece.
    size : int
        Number of entries of the sum, a public fact.
    n_jobs : int or None, default=None
        Threads that share the blocks, each with one BLAS thread. ``None`` takes the number that
        `joblib.parallel_config` sets, or else the number of threads of BLAS.

    Returns
    -------
    object
        The sum, with the values of all rows joined.
    """
    if getattr(source, "in_pieces", False):
        # The pieces of a block are summed first. So a chain of additions in a leaf is at most as
        # long as the number of its blocks plus the number of pieces of one block.
        of_piece = kernel
        kernel = on_block(lambda pieces: reduce(_add, starmap(of_piece, pieces), None))
    # A view has the parts of its source, which also knows how to read them.
    origin, reported = getattr(source, "source", source), OBSERVER.get() or nullcontext
    if pass_over := getattr(origin, "pass_over", None):
        with without_warnings(), reported():
            return _joined(pass_over(source, kernel, size, origin.numbers))
    # A leaf is a range of blocks, whose results are added one by one; sums of leaves are added in a
    # tree. Threads share lists of leaves: a list per part or, of a single part, a list per leaf.
    lists = [_leaves(part, size) for part in part_ranges(source)]
    if len(lists) == 1:
        lists = [[leaf] for leaf in lists[0]]
    is_sequence = len(lists) == 1 or getattr(origin, "is_stream", False)
    n_threads, length = 1 if is_sequence else thread_count(n_jobs), len(lists)
    if n_threads > 1:
        n_tasks = min(_TASKS_A_THREAD * n_threads, len(lists))
        # Each task sums a power of two of lists, so that its sum is a node of the same tree for any
        # number of threads.
        length = 1 << (len(lists) // n_tasks).bit_length() - 1
    groups = [lists[i : i + length] for i in range(0, len(lists), length)]
    calls = [partial(_subtree, group, source, kernel) for group in groups]
    sums = run_in_threads(calls, n_threads)
    is_in_memory = getattr(origin, "is_repeatable", True)
    with nullcontext() if is_in_memory else without_warnings(), reported(), closing(sums):
        return _joined(tree_sum(sums))


def _subtree(lists: list[list[range]], source: Any, kernel: Kernel) -> Any:
    """Sum the results of a kernel over consecutive lists of leaves; a leaf is a range of blocks."""
    blocks = source.blocks(range(lists[0][0].start, lists[-1][-1].stop))

    def _leaf_sum(leaf: range) -> Any:
        # `next` raises an error if blocks are missing; `islice` would not.
        return reduce(_add, (kernel(*next(blocks)) for _ in leaf), None)

    return tree_sum(tree_sum(map(_leaf_sum, leaves)) for leaves in lists)


def part_sum(source: Any, kernel: Kernel, size: int, part: int) -> Any:
    """Sum the results of a kernel over one part of a source in parts."""
    return _subtree([_leaves(part_ranges(source)[part], size)], source, kernel)


def part_ranges(source: Any) -> list[range]:
    """Return the block numbers of each part of a source, or of a view of it, as ranges."""
    origin = getattr(source, "source", source)
    starts = getattr(origin, "part_starts", (0, len(source.block_starts) - 1))
    return list(starmap(range, pairwise(starts)))


def sum_depth(starts: np.ndarray, width: int, parts: Sequence[range] | None = None) -> int:
    """Bound the longest chain of additions in a sum over blocks, for rows of length `width`.

    The bound holds for the largest sum of a fit, whose leaves have the most blocks.
    """
    within_block, within_part = int(np.diff(starts).max()), 0
    parts = parts or [range(len(starts) - 1)]
    for part in parts:
        leaf_length = _leaf_length(len(part), _largest_size(width))
        tree_height = ((len(part) - 1) // leaf_length).bit_length()
        within_part = max(within_part, leaf_length + tree_height)
    over_parts = (len(parts) - 1).bit_length()
    return within_block + within_part + over_parts + _MORE_ADDITIONS


def largest_sum_depth(longest: int, n_blocks: int, width: int) -> int:
    """Return the largest `sum_depth` of one part: `n_blocks` blocks of `longest` rows, or fewer."""
    # A leaf has as few blocks as the limit on the number of leaves permits. So a sum over fewer
    # blocks has neither longer leaves nor more than are counted here.
    length = _leaf_length(n_blocks, _largest_size(width))
    n_leaves = min(_most_leaves(_largest_size(width)), n_blocks)
    return longest + length + (n_leaves - 1).bit_length() + _MORE_ADDITIONS


def rounding_of_depth(depth: int, n_units: int, longest: float = 1.0) -> float:
    """Bound the rounding error of a sum over units, relative to the largest term of a unit.

    If a linear map is applied to the sum instead of the terms, the bound is relative to the largest
    mapped term, and `longest` is the condition number of the map.
    """
    return max(LEAST_ROUNDING, depth * UNIT_ROUNDOFF * n_units * longest)


def _largest_size(width: int) -> int:
    """Return the number of entries of the largest sum of a fit, at least 4096.

    The largest sum is a second moment of rows to which up to two columns are appended.
    """
    return int(max(width + 2, 64) ** 2)


def _leaves(part: range, size: int) -> list[range]:
    """Divide the blocks of a part into leaves: ranges whose results are added one by one."""
    length = _leaf_length(len(part), size)
    return [part[i : i + length] for i in range(0, len(part), length)]


def _leaf_length(n_blocks: int, size: int) -> int:
    """Return the number of blocks that are added one by one, before their sums are added in a tree.

    It is the smallest number for which the tree has at most `_most_leaves` leaves.
    """
    return -(-n_blocks // min(_most_leaves(size), n_blocks))


def _most_leaves(size: int) -> int:
    """Return the largest number of leaves of a tree of sums, which memory limits."""
    return max(_LEAF_NUMBERS // max(size, 1), 2)


def _add(first: Any, second: Any) -> Any:
    """Add `second` to `first`, in place if possible; None means no value."""
    if first is None or second is None:
        return second if first is None else first
    if isinstance(first, tuple):
        return tuple(map(_add, first, second))
    if isinstance(first, PerRow):
        first.blocks += second.blocks
        return first
    return np.add(first, second, out=first)


def tree_sum(values: Iterable[Any]) -> Any:
    """Sum values in a binary tree, which holds only one sum per level in memory."""
    return joined_trees(reduce(with_value, values, ()))


#: Sums of subtrees that wait to be added. Each is a pair: how many values it sums, which is a power
#: of two, and the sum. The larger subtrees come first.
Trees = tuple[tuple[int, Any], ...]


def with_value(trees: Trees, value: Any, add: Callable[[Any, Any], Any] = _add) -> Trees:
    """Add a value to the sums of subtrees that wait; then add up subtrees of equal size."""
    size = 1
    while trees and trees[-1][0] == size:
        value, size, trees = add(trees[-1][1], value), 2 * size, trees[:-1]
    return (*trees, (size, value))


def joined_trees(trees: Trees, add: Callable[[Any, Any], Any] = _add) -> Any:
    """Add up all waiting sums, from the smallest subtree to the largest."""
    return reduce(lambda total, tree: add(tree[1], total), reversed(trees[:-1]), trees[-1][1])


def _joined(value: Any) -> Any:
    """Return the final results of a pass: sums, and concatenated values of rows."""
    if isinstance(value, tuple):
        return tuple(map(_joined, value))
    return np.concatenate(value.blocks) if isinstance(value, PerRow) else value
