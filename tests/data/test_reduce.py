"""One tree of sums: its bits, whoever computes which part of it, and its rounding."""

import functools
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from skdp.data import reduce
from skdp.data.parts import RowBlocks
from skdp.data.reduce import PerRow, map_sum, rounding_of_depth, sum_depth
from skdp.data.sources import as_source

SIZES = [*range(1, 20), 31, 32, 33, 100]


class Source(reduce.BlockView):
    """Rows whose blocks are so long."""

    n_jobs = 3

    def __init__(self, rows, length=1):
        self.rows = rows
        self.block_starts = np.append(np.arange(0, len(rows), length), len(rows))

    def blocks(self, group):
        for index in group:
            rows = slice(*self.block_starts[index : index + 2])
            yield rows, self.rows[rows]


def total(rows, block):
    return np.asarray(block.sum(axis=0))


def twice(rows, block):
    return PerRow(2 * block)


def both(rows, block):
    assert rows.stop - rows.start == len(block)
    return total(rows, block), twice(rows, block)


def split_in_two(values):
    """Add up by the definition of the tree."""
    if len(values) == 1:
        return values[0]
    half = 1 << (len(values) - 1).bit_length() - 1
    return split_in_two(values[:half]) + split_in_two(values[half:])


def uneven(n, seed=0):
    generator = np.random.default_rng(seed)
    return generator.normal(size=n) * 10.0 ** generator.integers(-8, 8, size=n)


@pytest.mark.parametrize("n", SIZES)
def test_a_node_splits_at_the_largest_power_of_two_below_its_size(n):
    ours = map_sum(Source(uneven(n)), total, 1, n_jobs=1)
    assert ours == split_in_two(list(uneven(n)))


@pytest.mark.covered
@pytest.mark.parametrize("n_jobs", [1, 2, 3, None, -1])
@pytest.mark.parametrize("leaf_numbers", [1, 7, 1 << 23])
def test_threads_change_no_bit(n_jobs, leaf_numbers, monkeypatch):
    monkeypatch.setattr(reduce, "_LEAF_NUMBERS", leaf_numbers)
    rows = np.column_stack([uneven(997, 1), uneven(997, 2)])
    expected, _ = map_sum(Source(rows, 3), both, 2, n_jobs=1)
    for _ in range(3):
        sums, values = map_sum(Source(rows, 3), both, 2, n_jobs=n_jobs)
        np.testing.assert_array_equal(sums, expected)
        np.testing.assert_array_equal(values, 2 * rows)


@pytest.mark.parametrize("n", SIZES)
def test_aligned_subtrees_of_any_size_have_the_same_sum(n):
    values = [np.asarray(value) for value in uneven(n)]

    def summed(parts):
        return reduce.tree_sum(part.copy() for part in parts)

    for level in range(n.bit_length() + 1):
        parts = [values[first : first + (1 << level)] for first in range(0, n, 1 << level)]
        assert summed(list(map(summed, parts))) == split_in_two(values)


@pytest.mark.covered
@pytest.mark.parametrize("n_jobs", [1, 2, 3])
@pytest.mark.parametrize("n", [1, 2, 11, 12, 100, 997])
def test_tasks_are_aligned_subtrees(n, n_jobs):
    groups = []

    class Watched(Source):
        def blocks(self, group):
            groups.append(group)
            return super().blocks(group)

    map_sum(Watched(uneven(n)), total, 1, n_jobs=n_jobs)
    groups.sort(key=lambda group: group.start)
    assert [index for group in groups for index in group] == list(range(n))
    if len(groups) > 1:
        length = len(groups[0])
        assert length.bit_count() == 1
        assert {len(group) for group in groups[:-1]} == {length}
        assert min(n, 4 * n_jobs) <= len(groups) <= 8 * n_jobs + 1


def test_a_stream_is_read_once_and_in_order():
    X, passes = np.arange(20_000.0).reshape(-1, 2), itertools.count()

    def make_blocks():
        next(passes)
        yield from np.split(X, 10)

    source = as_source(RowBlocks(make_blocks, X.shape))
    before = next(passes)
    sums, values = map_sum(source, both, 2, n_jobs=3)
    assert next(passes) == before + 2
    np.testing.assert_array_equal(values, 2 * X)
    np.testing.assert_array_equal(sums, X.sum(axis=0))


def test_kernels_take_the_pieces_of_blocks():
    class InPieces(Source):
        in_pieces = True

        def blocks(self, group):
            for rows, block in super().blocks(group):
                # Some blocks have none.
                yield rows, [(rows, block), (rows, -block)][: 2 * (rows.start % 2)]

    source = InPieces(uneven(999))
    none, doubled = map_sum(source, both, 1, n_jobs=2)
    assert none == 0
    np.testing.assert_array_equal(doubled[::2], 2 * source.rows[1::2])


# Rounding


ADVERSARIAL = {
    "thirds": lambda n: np.full(n, 1 / 3),
    "a long chain": lambda n: np.where(np.arange(n) == 0, 1.0, 2.0**-53),
    "stagnating": lambda n: np.where(np.arange(n) <= n // 2, 1.0, -(2.0**-34)),
    "alternating": lambda n: (-1.0) ** np.arange(n) * np.linspace(0.1, 1, n),
    "growth, then cancellation": lambda n: np.where(np.arange(n) < n // 2, 1.0, -1.0) / 3,
}


@pytest.mark.covered(at_most=3)
@pytest.mark.parametrize("leaf_numbers", [1, 1 << 23])
@pytest.mark.parametrize("case", ADVERSARIAL)
def test_rounding_of_a_million_rows_is_within_its_bound(case, leaf_numbers, monkeypatch):
    monkeypatch.setattr(reduce, "LEAST_ROUNDING", 0.0)
    monkeypatch.setattr(reduce, "_LEAF_NUMBERS", leaf_numbers)
    column = ADVERSARIAL[case](1_000_000)
    source = as_source(column[:, np.newaxis])
    exact = sum(map(Fraction, [math.fsum(part) for part in np.split(column, 100)]))
    size = 1 if leaf_numbers > 1 else 64**2
    # In sequence within a block, as a sum over an axis is.
    found = map_sum(source, functools.partial(np_sum, np.cumsum), size)
    assert abs(Fraction(float(found)) - exact) <= rounding_of_depth(
        sum_depth(source.block_starts, 1), source.block_starts[-1]
    )


def np_sum(function, rows, block):
    return np.asarray(function(block.reshape(len(block)))[-1])


def test_rounding_that_is_charged_is_needed():
    # In every block the second half is lost, each number of it less than half a last place.
    column = np.concatenate([np.repeat([1.0, 0.99 * 2.0**-42], [2048, 2034]) for _ in range(245)])
    found = map_sum(Source(column, 4082), functools.partial(np_sum, np.cumsum), 1)
    starts = Source(column, 4082).block_starts
    charged = sum_depth(starts, 1) * 2.0**-53 * len(column)
    assert charged > abs(float(found) - math.fsum(column)) > 0.2 * charged


class Chain(int):
    """The longest chain of additions that a number has come through."""

    def __add__(self, other):
        return Chain(max(int(self), int(other)) + 1)


class Chained(reduce.BlockView):
    """Blocks of one row of so many features."""

    n_jobs = 1

    def __init__(self, n_rows, width):
        self.width = width
        self.block_starts = np.arange(n_rows + 1)

    def blocks(self, group):
        return ((slice(index, index + 1), None) for index in group)


def chain(rows, block):
    return np.array([Chain(1)], dtype=object)


@pytest.mark.covered(at_most=24)
@pytest.mark.parametrize("n_rows", [1, 2, 3, 100, 1001, 4097])
@pytest.mark.parametrize("width", [1, 40, 500])
@pytest.mark.parametrize("size", [0, 10, 10**5, 10**12])
def test_no_chain_of_additions_is_longer_than_charged_whatever_size_is_told(n_rows, width, size):
    source = Chained(n_rows, width)
    charged = sum_depth(source.block_starts, width)
    (found,) = source.map_sum(chain, size)
    assert 1 <= found <= charged
    if size == 10**12 and n_rows > 1000 and width < 500:
        # Of a leaf that is half of all blocks it would be.
        assert map_sum(source, chain, size)[0] > charged


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize("length", [2, 32, 1024])
@pytest.mark.parametrize("n_blocks", [1, 7, 150])
def test_pieces_of_blocks_make_no_chain_longer_than_charged(n_blocks, length):
    class InPieces(Chained):
        in_pieces = True

        def blocks(self, group):
            # As many pieces as rows: the longest chain that a block can have.
            return ((rows, [(rows, None)] * length) for rows, _ in super().blocks(group))

    source = InPieces(n_blocks, 1000)
    source.block_starts = source.block_starts * length
    (found,) = source.map_sum(chain, 10**12)
    assert length <= found <= sum_depth(source.block_starts, 1000)


class Parts(Source):
    """The same, of which so many blocks are a part."""

    def __init__(self, rows, length, sizes):
        super().__init__(rows, length)
        self.part_starts = np.append(0, np.cumsum(sizes))


@pytest.mark.covered
@pytest.mark.parametrize("n_jobs", [1, 2, 3])
@pytest.mark.parametrize("sizes", [[1] * 7, [5, 1, 1], [3, 3, 1, 9, 4], [2, 40]])
def test_parts_are_trees_in_one_tree(sizes, n_jobs):
    values = uneven(sum(sizes))
    ends = np.cumsum(sizes)
    expected = split_in_two(
        [
            split_in_two(list(values[end - size : end]))
            for end, size in zip(ends, sizes, strict=True)
        ]
    )
    assert map_sum(Parts(values, 1, sizes), total, 1, n_jobs) == expected


def test_no_part_is_entered_in_the_middle():
    entered = []

    class Watched(Parts):
        def blocks(self, group):
            entered.append((group.start, group.stop))
            return super().blocks(group)

    sizes = [3, 3, 1, 9, 4, 2, 2, 7, 1]
    map_sum(Watched(uneven(sum(sizes)), 1, sizes), total, 1, n_jobs=3)
    assert {end for one in entered for end in one} <= {0, *np.cumsum(sizes)}
    assert len(entered) > 1


@pytest.mark.parametrize("sizes", [[1], [4], [1, 1, 1], [5, 1, 1], [1, 40], [3] * 100])
def test_the_depth_of_parts_covers_the_longest_chain(sizes):
    source = Parts(uneven(sum(sizes)), 1, sizes)

    def of_sum(values):
        half = 1 << (len(values) - 1).bit_length() - 1 if len(values) > 1 else 0
        return max(of_sum(values[:half]), of_sum(values[half:])) + 1 if half else values[0]

    longest = of_sum([of_sum([1] * size) for size in sizes])
    assert sum_depth(source.block_starts, 1, reduce.part_ranges(source)) >= longest
