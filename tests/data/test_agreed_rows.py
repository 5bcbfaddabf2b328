"""Rows of which each owner has a part, and which all owners count alike."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from row_cells import Cell, setting
from row_cells import datasets as row_datasets
from scipy import sparse

from skdp import DPTruncatedSVD, RowBlocks
from skdp._estimator import plan_of
from skdp.data.people import Agreed, depth_of
from skdp.data.reduce import sum_depth
from skdp.data.rows import RowCache, Rows, open_rows
from skdp.data.sources import as_source, block_starts, largest_depth
from skdp.datasets import make_interactions
from skdp.decomposition._spec import RowsSpec
from skdp.decomposition.rows.fit import read_rows_once
from skdp.linalg.norms import GridCounts
from skdp.privacy.clipping import clip_weights
from skdp.privacy.noise import NoiseSource, algorithm_generator
from skdp.testing._recording import RecordingBudget, scripted_budget
from skdp.units import Interaction

SEED = 2**100 + 33
SHAPE = (900, 7)
X = np.random.default_rng(0).normal(size=SHAPE) + np.linspace(0, 2, SHAPE[1])
BASIS = np.linalg.qr(np.random.default_rng(1).normal(size=(SHAPE[1], 2)))[0]
GRID = np.geomspace(0.1, 10, 50)


def agreed(X, n_rows, function=None, **more):
    depth = largest_depth(n_rows, X.shape[1], is_sparse=sparse.issparse(X))
    source = as_source(X, function)
    source.is_repeatable = False
    return Rows(source, 1, agreed=Agreed(n_rows, depth), **more)


def weighting(norms):
    return clip_weights(norms, 2.0, SHAPE[1])


@pytest.mark.covered
@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("n_features", [1, 5, 64, 300, 1000, 5000, 40000])
def test_largest_depth_holds_for_all_fewer_rows_and_is_not_far_above(n_features, is_sparse):
    generator, edges = np.random.default_rng(0), 4096 * 32 * np.array([1, 2, 3, 15, 16, 17, 33])
    sizes = {
        *range(1, 150),
        *(10 ** generator.uniform(0, 8, size=300)).astype(int).tolist(),
        *np.add.outer(edges, [-1, 0, 1, 31, 32, 33]).ravel().tolist(),
        *(np.multiply.outer([256, 2048, 4096, 8192], range(1, 40)) + 1).ravel().tolist(),
    }
    longest, has_fallen = 0, False
    for n_rows in sorted(sizes):
        depth = sum_depth(block_starts(n_rows, n_features, is_sparse=is_sparse), n_features)
        has_fallen |= depth < longest
        longest = max(longest, depth)
        bound = largest_depth(n_rows, n_features, is_sparse=is_sparse)
        assert longest <= bound <= 2 * depth, n_rows
    # Else the depth of all rows would do.
    assert has_fallen


def test_sums_are_of_the_own_rows_and_rounding_of_the_agreed_ones():
    own, other = agreed(X[:400], 10**9), agreed(X[400:], 10**9)
    clipped = own.clipped(2.0, weighting)
    np.testing.assert_array_equal(own.gram()[0], Rows(as_source(X[:400])).gram()[0])
    assert own.norms().shape == (400,)
    assert clipped.matmul(BASIS).shape == (400, 2)
    for found in (own, clipped, own.centered(np.ones(SHAPE[1]))):
        theirs = replace(found, source=other.source)
        for make in (
            Rows.total,
            Rows.gram,
            Rows.squared_norm,
            lambda rows: rows.normal_product(BASIS, np.asarray),
            lambda rows: rows.projected_moment(BASIS),
        ):
            assert make(found)[1] == make(theirs)[1] > 1e-5
    assert own.squared_deviations(np.zeros(7))[1] > 1e9 / 2**53


def test_a_search_seeks_a_part_of_the_agreed_number():
    norms = Rows(as_source(X)).norms()
    parts = [agreed(part, SHAPE[0]) for part in np.split(X, [100, 250])]
    whole = GridCounts.in_all(GRID, norms, SHAPE[0])
    for make in (lambda rows: rows, lambda rows: replace(rows, cache=RowCache(rows.norms()))):
        counts = [make(part).counted_norms(GRID) for part in parts]
        assert {one.n_units for one in counts} == {SHAPE[0]}
        np.testing.assert_array_equal(sum(one.up_to_points for one in counts), whole.up_to_points)
    # Of rows that may be others in the next pass, it is counted in the first one.
    blocks = RowBlocks(lambda: iter([X[:100]]), shape=(100, SHAPE[1]))
    opened, _ = open_rows(
        agreed(blocks, SHAPE[0]), is_seeded=False, needs_signs=False, first=None, grid=GRID
    )
    assert opened.counted_norms(GRID).n_units == SHAPE[0]


@pytest.mark.parametrize("n_own", [3, 400, 900])
def test_all_views_keep_what_has_been_agreed(n_own):
    rows = agreed(X[:n_own], 5000)
    opened, _ = open_rows(rows, is_seeded=False, needs_signs=True, first=(2.0, weighting))
    views = (
        opened,
        opened.centered(np.ones(SHAPE[1])),
        opened.clipped(2.0, weighting),
        opened.clipped(2.0, weighting).normal_product(BASIS, np.asarray)[2],
        opened.subsample(1000),
        opened.subsample(1),
    )
    for view in views:
        assert (view.n_rows, view.depth) == (5000, rows.agreed.depth)
    # Every fifth row, since there are 5000 in all.
    np.testing.assert_array_equal(views[4].dense(), X[:n_own:5])
    np.testing.assert_array_equal(views[4].norms(), opened.norms()[::5])
    np.testing.assert_array_equal(views[5].dense(), X[:1])


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_longer_sums_than_agreed_are_refused(convert):
    source = as_source(convert(X))
    depth = depth_of(X, SHAPE, is_sparse=sparse.issparse(convert(X)))
    assert Rows(source, agreed=Agreed(SHAPE[0], depth)).depth == depth
    with pytest.raises(ValueError, match=f"a chain of {depth} additions"):
        Rows(source, agreed=Agreed(SHAPE[0], depth - 1))


# What follows runs the solvers of fits.

ROW_CELLS = [
    *(Cell("svd", solver) for solver in ("covariance", "power")),
    *(Cell("pca", solver, norms="private") for solver in ("covariance", "power")),
    Cell("pca, public center", "covariance", "zero_out"),
    *(Cell("svd", f"guided {solver}", norms="private") for solver in ("covariance", "power")),
]


def solve(estimator, rows, shape, make_budget=RecordingBudget):
    """Run a fit on rows of any view, for an agreed shape."""
    like = rows.source.X[:2]
    spec = estimator._spec_of(shape, like=like)
    parts = estimator._plan(spec)
    budget = make_budget.of(plan_of(spec, parts), NoiseSource(SEED))
    budget.public_generator = algorithm_generator(SEED)
    with np.errstate(all="ignore"):
        if isinstance(spec, RowsSpec):
            rows, _ = read_rows_once(spec, rows, is_seeded=False)
        factors = estimator._solve(spec, parts, rows, budget)
    return factors, budget


def assert_same_bits(first, second):
    (ours, our_budget), (theirs, their_budget) = first, second
    assert our_budget.spent() == their_budget.spent()
    for one, other in zip(our_budget.values, their_budget.values, strict=True):
        np.testing.assert_array_equal(one, other)
    for name, value in vars(ours).items():
        if not callable(value):
            np.testing.assert_array_equal(getattr(theirs, name), value)


@pytest.mark.covered
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("cell", ROW_CELLS, ids=str)
def test_one_owner_with_all_rows_gives_the_bits_of_rows(cell, convert):
    rows = convert(row_datasets()["spiked"])
    with setting(cell):
        assert_same_bits(
            solve(cell(), Rows(as_source(rows), 1), rows.shape),
            solve(cell(), agreed(rows, rows.shape[0]), rows.shape),
        )


def values_of_parts(estimator, views, shape, script):
    """Add up what the parts give, each answered with the same releases."""
    budgets = [solve(estimator, rows, shape, scripted_budget(script))[1] for rows in views]
    (spent,) = {repr(one.spent().releases): one.spent() for one in budgets}.values()
    return spent, [sum(values) for values in zip(*(one.values for one in budgets), strict=True)]


def assert_adds_up(estimator, whole, parts, shape):
    _, budget = solve(estimator, whole, shape)
    spent, sums = values_of_parts(estimator, parts, shape, budget.released)
    assert spent == budget.spent()
    for release, one, other in zip(spent.releases, sums, budget.values, strict=True):
        scale = max(np.abs(other).max(), 1.0)
        np.testing.assert_allclose(one, other, atol=1e-10 * scale, err_msg=release.name)


def cut(X, make):
    return [make(X[a:b]) for a, b in itertools.pairwise([0, 3, 20, X.shape[0]])]


@pytest.mark.covered(at_most=8)
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("cell", ROW_CELLS, ids=str)
def test_parts_add_up_to_the_sums_of_all_rows(cell, convert):
    rows = convert(row_datasets()["spiked"])
    with setting(cell):
        parts = cut(rows, lambda part: agreed(part, rows.shape[0]))
        assert_adds_up(cell(), Rows(as_source(rows), 1), parts, rows.shape)


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_parts_of_interactions_add_up_and_one_owner_has_the_bits_of_rows(convert):
    table = convert(make_interactions(300, 40, random_state=0).toarray())
    estimator = DPTruncatedSVD(3, epsilon=5.0, privacy_unit=Interaction(degree_floor=3))
    clipped = estimator._spec_of(table.shape, like=table).unit.clipped
    rows, *parts = (agreed(one, 300, clipped) for one in (table, *cut(table, lambda part: part)))
    whole = Rows(as_source(table, clipped), 1)
    assert_same_bits(*(solve(estimator, one, table.shape) for one in (whole, rows)))
    assert_adds_up(estimator, whole, parts, table.shape)
