"""Sums in which each person counts once: laws that hold for any number of rows of a person."""

import math
import pickle
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import pairwise, starmap
from operator import mul
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import csr_array

from skdp import RowBlocks
from skdp.data.matrices import Design, RankOneMatrices
from skdp.data.parts import Targets
from skdp.data.people import MOST_PEOPLE, People, depth_of_people
from skdp.data.reduce import sum_depth
from skdp.data.rows import DenseBlock, Rows
from skdp.data.sources import as_source, block_starts
from skdp.linalg.matrices import FixedRank, laid_out
from skdp.linalg.norms import GridSearch
from skdp.linear_model._weighted_rows import whitened_norms
from skdp.linear_model.logistic.fit import _rounding, gradient_level, whitened
from skdp.linear_model.logistic.plan import LabeledRows, Whitening
from skdp.preprocessing.intervals import N_BINS, Intervals, bins_by_size, bins_within, counting
from skdp.privacy.clipping import clip_rows, clip_weights, clipped

N_PEOPLE, N_FEATURES, BOUND = 60, 5, 2.0
BASIS = np.linalg.qr(np.random.default_rng(9).normal(size=(N_FEATURES, 2)))[0]
EDGES = np.array([0.5, 1.0, 1.5, 2.0])
INTERVALS = Intervals.of(np.full(N_FEATURES, -1.0), np.full(N_FEATURES, 1.1))
PLACE = partial(bins_within, intervals=INTERVALS, wide=INTERVALS, n_bins=8)
LAYOUTS = ["dense", "csr", "dense, center", "csr, center"]


def view_of(X, codes, layout="dense", bound=BOUND):
    people = None if codes is None else People.of(codes, N_PEOPLE)
    rows = Rows(as_source(csr_array(X) if "csr" in layout else X), people=people)
    if "center" in layout:
        rows = rows.centered(np.full(N_FEATURES, 0.3))
    return rows.clipped(bound, partial(clip_weights, bound=bound, n_features=N_FEATURES))


def sums_of(rows):
    """Give each sum of a view that a fit may release."""
    clip = partial(clip_rows, bound=0.5)

    return {
        "total": rows.total()[0],
        "gram": rows.gram()[0],
        "squared norm": rows.squared_norm()[0],
        "product": rows.normal_product(BASIS, clip)[0],
        "projected moment": rows.projected_moment(BASIS)[0],
        "counts of norms": rows.counted_norms(EDGES).up_to_points,
        "counts of projections": rows.projection_counts(BASIS, EDGES),
        "positive": rows.count_mostly_positive(),
        "sizes": rows.map_sum(counting(bins_by_size, N_BINS), N_FEATURES * N_BINS),
        "places": rows.map_sum(counting(PLACE, 8), N_FEATURES * 8),
    }


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def people_with_rows(rng, most=9):
    """Give rows of all people, in any order, and whose they are."""
    codes = rng.permutation(np.repeat(np.arange(N_PEOPLE), rng.integers(1, most, N_PEOPLE)))
    return rng.normal(size=(len(codes), N_FEATURES)), codes


def test_the_weights_of_a_person_sum_to_one_exactly_in_any_order(rng):
    _, codes = people_with_rows(rng, most=2000)
    for _ in range(3):
        order = rng.permutation(len(codes))
        weights = People.of(codes, N_PEOPLE).weights[order]
        np.testing.assert_array_equal(np.bincount(codes[order], weights), np.ones(N_PEOPLE))
        assert weights.sum() == N_PEOPLE


@pytest.mark.slow
def test_more_rows_than_parts_leave_some_without_weight():
    codes = np.zeros((1 << 24) + 3, np.int64)
    weights = People.of(codes, 1).weights
    assert weights.sum() == 1
    assert np.count_nonzero(weights == 0) == 3


@pytest.mark.parametrize("layout", LAYOUTS)
def test_people_with_one_row_are_rows_bit_for_bit(rng, layout):
    X = rng.normal(size=(N_PEOPLE, N_FEATURES))
    expected = sums_of(view_of(X, None, layout))
    for name, found in sums_of(view_of(X, np.arange(N_PEOPLE), layout)).items():
        np.testing.assert_array_equal(found, expected[name], err_msg=name)


def test_the_norm_of_a_row_is_the_same_alone_in_its_part_and_beside_others(rng):
    X = np.asfortranarray(rng.normal(size=(300, 33)))
    together = RowBlocks.from_partitions([partial(np.copy, X, order="F")], [300], 33)
    alone = [partial(np.copy, X[[i]], order="F") for i in range(300)]
    norms = [
        Rows(as_source(rows), people=People.of(np.arange(300), 300)).norms()
        for rows in (together, RowBlocks.from_partitions(alone, [1] * 300, 33))
    ]
    np.testing.assert_array_equal(*norms)


def test_the_norm_of_a_whitened_row_is_the_same_beside_any_number_of_others(rng):
    X, root = rng.normal(size=(3490, 4)), rng.normal(size=(4, 601))
    few, many = (
        whitened_norms(block.with_sample_weight(np.ones(n)), root, None, largest=50.0, bound=20.0)
        # Of one row more, not all are whitened at once.
        for n in (3489, 3490)
        for block in [DenseBlock(X[:n], None, np.empty((n, 4)))]
    )
    np.testing.assert_array_equal(few, many[:-1])


@pytest.mark.covered(at_most=4)
@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_counts_are_the_same_whoever_comes_first(rng, layout, order):
    X, codes = people_with_rows(rng, most=400)
    # Places at which only the last bit decides.
    X = np.sign(X) * np.array([3, 4, 0, 0, 0]) * rng.choice([0.1, 0.2, 0.3], (len(X), 1))
    expected = sums_of(view_of(np.asarray(X, order=order), codes, layout))
    for _ in range(3):
        # The rows of a person keep their order, as the first of them may have one part more.
        places = np.argsort(rng.permutation(N_PEOPLE)[codes], kind="stable")
        shuffled = np.asarray(X[places], order=order)
        found = sums_of(view_of(shuffled, codes[places], layout))
        for name in ("counts of norms", "counts of projections", "positive", "sizes", "places"):
            np.testing.assert_array_equal(found[name], expected[name])


def test_a_sample_has_one_row_each_of_the_same_people_whatever_rows_others_have(rng):
    X, codes = people_with_rows(rng)
    before = view_of(X, codes).subsample(20)
    assert before.source.shape == (20, N_FEATURES)
    assert before.n_rows == N_PEOPLE
    more = np.vstack([rng.normal(size=(500, N_FEATURES)), X])
    after = view_of(more, np.concatenate([np.full(500, 7), codes])).subsample(20)
    moved = np.abs(before.matmul(np.eye(N_FEATURES)) - after.matmul(np.eye(N_FEATURES))).max(axis=1)
    assert sorted(before.people.codes) == sorted(after.people.codes)
    assert np.count_nonzero(moved) == 0


# What rounding may add, for more rows than a test can have.


@pytest.mark.covered(at_most=16)
@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("n_features", [1, 20, 64, 300, 4000])
@pytest.mark.parametrize("width", [None, 0, 7, 130])
def test_the_chain_that_is_charged_is_the_longest_of_any_rows_in_any_parts(
    n_features, is_sparse, width
):
    is_sparse = is_sparse or width == 0
    charged = depth_of_people(n_features, is_sparse=is_sparse, width=width)
    width = n_features if width is None else width
    for lengths in ([7], [10**5], [3 * 10**7], [1, 2, 10**6] * 9, [9] * 1000):
        starts = [block_starts(n, width, is_sparse=is_sparse) for n in lengths]
        ends, blocks = np.cumsum([0, *lengths]), np.cumsum([0, *(len(one) - 1 for one in starts)])
        firsts = [one[:-1] + end for one, end in zip(starts, ends, strict=False)]
        whole, parts = np.append(np.concatenate(firsts), ends[-1]), starmap(range, pairwise(blocks))
        # Two roundings of the weight, and two of its product.
        assert sum_depth(whole, n_features, list(parts)) + 4 <= charged


def test_no_product_is_further_off_than_is_charged_wherever_its_row_lies(rng):
    d, k = 300, 3
    X, basis = rng.normal(size=(999, d)), np.linalg.qr(rng.normal(size=(d, k)))[0]
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    exact = X.astype(np.longdouble) @ basis.astype(np.longdouble)
    cuts = [slice(first, None) for first in range(9)] + [slice(i, i + 2) for i in range(0, 900, 99)]
    products = [(Rows(as_source(X[cut])).matmul(basis), exact[cut]) for cut in cuts]
    off = max(np.linalg.norm((one - other).astype(float), axis=1).max() for one, other in products)
    people = People(np.zeros(2, int), np.full(2, 0.5), 10**6)
    rows = Rows(as_source(X[:2]), people=people, bound=1.0)
    assert 0 < 10**6 * off <= rows.moved_rounding(k, 1.0)
    # Clipped to a hundredth, it is a hundred times larger beside what a row adds.
    assert rows.moved_rounding(k, 0.01) == pytest.approx(100 * rows.moved_rounding(k, 1.0))
    assert Rows(as_source(X), bound=1.0).moved_rounding(k, 1.0) == 0.0


def test_other_processes_get_weights_alone(rng):
    people = People.of(rng.integers(0, 5, 1000), 5)
    assert len(people.first_rows) == 5
    sent = pickle.dumps(people)
    assert len(sent) < 9 * 1000
    np.testing.assert_array_equal(pickle.loads(sent).weights, people.weights)


def test_more_people_than_are_counted_exactly_are_refused(monkeypatch):
    # A search releases halves of counts, which are multiples of 2 ** -24.
    search = GridSearch(2**10, MOST_PEOPLE, 0.5, is_exact=False)
    for up_to in np.sort(np.random.default_rng(0).integers(0, MOST_PEOPLE << 24, (99, 7))) / 2**24:
        sums = [sum(map(mul, one, map(Fraction, up_to))) for one in search._tree[:, :-1].tolist()]
        assert search.differences(up_to).tolist() == sums
    monkeypatch.setattr("skdp.data.people.MOST_PEOPLE", 2)
    with pytest.raises(ValueError, match="users has 3 different ids; pass at most 2"):
        People.of(np.arange(3), 3)
    monkeypatch.setattr("skdp.data.people.MOST_USER_ROWS", 2)
    with pytest.raises(ValueError, match="X has 3 rows; pass at most 2 with users"):
        People.of(np.zeros(3, int), 1)


@pytest.mark.parametrize("n_features", [20, 300])
def test_no_gradient_is_further_off_than_is_charged_wherever_records_lie(rng, n_features):
    X, codes, n_people = rng.normal(size=(999, n_features)), np.arange(999) // 3, 333
    y, weights = rng.integers(0, 2, 999), rng.normal(size=(n_features + 1, 2))
    root = np.diag(rng.uniform(0.5, 3, n_features))
    zeros, reach, bound = np.zeros(n_features), math.sqrt(n_features), 2 * math.sqrt(n_features)
    white = Whitening(zeros, root, root, zeros, 3.0, reach, zeros, False, zeros > 0)
    level = gradient_level(reach, 2, 1.0)

    def gradient(order, people):
        targets = Targets.of(y[order])
        view = LabeledRows(as_source(X[order]), codes=targets, people=people)
        records = whitened(clipped(view, bound), white, level)
        return records, records.gradient(weights)

    first, expected = gradient(np.arange(999), People.of(codes, n_people))
    # The rows of a person keep their order, as the first of them has one part more.
    orders = [np.argsort(rng.permutation(n_people)[codes], kind="stable") for _ in range(9)]
    totals = [gradient(order, People.of(codes[order], n_people))[1] for order in orders]
    off = max(np.linalg.norm(total - expected) for total in totals)
    spec = SimpleNamespace(n_features=n_features, n_classes=2, depth=0, n_units=10**8)
    charged = _rounding(spec, first, weights)
    assert 0 < off <= 2 * charged * level * n_people / 10**8
    of_rows = replace(first, view=replace(first.view, people=None))
    assert charged > 2 * _rounding(spec, of_rows, weights)


# ------------------------------
# Matrices: what is made of one, and counted, is the same wherever it lies.

SIDES = {
    "matrices": (5, 7),
    "vectors": (9, 1),
    "one row": (1, 9),
    "factors": (5, 7),
    "wide factors": (19, 21),
    "a narrow and a wide factor": (7, 31),
    "factors as given": (5, 7),
    "tasks": (5, 7),
}
IN_PARTS = ("matrices", "vectors", "one row")


def design_of(values, codes, layout, n_people=N_PEOPLE):
    """View matrices of people, in maps and out of center as far as a layout has these."""
    people, (d1, d2) = People.of(codes, n_people), SIDES[layout]
    maps = [np.diag(np.arange(1.0, d + 1)) + 0.1 if d > 1 else None for d in (d1, d2)]
    if layout.endswith(("factors", "factor")):
        source = RankOneMatrices(np.asfortranarray(values[:, :d1]), values[:, d1 : d1 + d2])
        return Design(source, (d1, d2), people=people).mapped(*maps)
    if layout == "tasks":
        tasks = np.abs(values[:, 0] * 1e3).astype(int) % d2
        source = RankOneMatrices.from_tasks(values[:, :d1], tasks, d2)
        return Design(source, (d1, d2), people=people).mapped(maps[0], np.arange(1.0, d2 + 1))
    if layout == "factors as given":
        left = np.asfortranarray(values[:, :d1].astype(np.float32))
        return Design(RankOneMatrices(left, values[:, d1 : d1 + d2]), (d1, d2), people=people)
    center = np.full((d1, d2), 0.3)
    source = as_source(np.asfortranarray(values[:, : d1 * d2]))
    return Design(source, (d1, d2), center=center, people=people).mapped(*maps)


def made_of_each(_, matrices, point):
    """Give each number that is made of a matrix before it is clipped, counted or added up."""
    coordinates, inner = matrices.tangent(point, 0.5)
    parts = [matrices.norms(), coordinates.norms(), inner]
    parts += [matrices.entries().norms()]
    return np.column_stack(parts)


@pytest.mark.covered(at_most=6)
@pytest.mark.parametrize("rank", [1, 3])
@pytest.mark.parametrize("layout", SIDES)
def test_what_is_made_of_a_matrix_is_the_same_in_any_place(rng, layout, rank):
    shape = SIDES[layout]
    rank = min(rank, *shape)
    bases = [np.linalg.qr(rng.normal(size=(d, rank)))[0] for d in shape]
    kernel = partial(made_of_each, point=FixedRank(bases[0], np.ones(rank), bases[1]))
    codes = rng.permutation(np.repeat(np.arange(N_PEOPLE), rng.integers(1, 90, N_PEOPLE)))
    values = rng.normal(size=(len(codes), 40))
    expected = design_of(values, codes, layout).map_rows(kernel)
    for n_before in (1, 2, 3, 1000):
        places = np.append(rng.integers(0, len(codes), n_before), rng.permutation(len(codes)))
        found = design_of(values[places], codes[places], layout).map_rows(kernel)
        np.testing.assert_array_equal(found, expected[places])
    # Factors do not come in parts: a single one has no other beside it, whose place could change.
    fewest = 1 if layout in IN_PARTS else 2
    for place in range(9):
        few = np.arange(place, place + fewest)
        found = design_of(values[few], codes[few], layout).map_rows(kernel)
        np.testing.assert_array_equal(found, expected[few])


@pytest.mark.parametrize("layout", ["factors", "wide factors", "a narrow and a wide factor"])
def test_factors_are_mapped_alike_alone_and_beside_others(rng, layout):
    values = rng.normal(size=(1025, 40))
    together = design_of(values, np.arange(1025), layout, 1025).source
    for place in (0, 7, 1023, 1024):
        alone = design_of(values[[place]], np.zeros(1, int), layout, 1).source
        np.testing.assert_array_equal(alone.left, together.left[[place]])
        np.testing.assert_array_equal(alone.right, together.right[[place]])
    # No pass lays them out again.
    for factors in (together.left, together.right):
        assert np.shares_memory(laid_out(factors[2:9]), factors)
