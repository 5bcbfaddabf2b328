import dataclasses
import itertools
import math
import tracemalloc
from fractions import Fraction
from functools import partial
from operator import methodcaller

import numpy as np
import pytest
from scipy import sparse

from skdp import DPTraceRegressor, RowBlocks
from skdp._validation import check_rows
from skdp.data.reduce import on_block
from skdp.data.rows import RowCache, Rows, products_of
from skdp.data.sources import as_source, block_starts
from skdp.linalg.norms import row_norms
from skdp.privacy.clipping import clip_rows, clip_weights

N, D = 8200, 5  # several blocks of dense rows and of sparse ones
BOUND, LEVEL = 2.0, 0.5


def make_data():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(N, D)) * 10.0 ** generator.uniform(-2, 2, size=(N, 1))
    X[generator.random(X.shape) < 0.4] = 0.0
    X[[0, 4097, N - 1]] = 0.0
    return X.astype(np.float32).astype(np.float64)


X = make_data()
CENTER = np.random.default_rng(1).normal(size=D)
BASIS = np.linalg.qr(np.random.default_rng(2).normal(size=(D, 2)))[0]
RIGHT = np.random.default_rng(3).normal(size=(D, 3))
RIGHT9 = np.random.default_rng(3).normal(size=(9, 2))
LEFT = np.random.default_rng(4).normal(size=(N, 3))


def in_blocks(make, size):
    return RowBlocks(
        lambda: (make(X[start : start + size]) for start in range(0, N, size)), shape=X.shape
    )


def in_uneven_blocks(make):
    cuts = np.cumsum([0, 1, 1, 4095, 0, 3, 4000, 100])
    return RowBlocks(lambda: (make(X[a:b]) for a, b in itertools.pairwise(cuts)), shape=X.shape)


def long_indices():
    rows = sparse.csr_array(X)
    rows.indices, rows.indptr = rows.indices.astype(np.int64), rows.indptr.astype(np.int64)
    return rows


CONTAINERS = {
    "C order": lambda: X.copy(),
    "Fortran order": lambda: np.asfortranarray(X),
    "float32": lambda: X.astype(np.float32),
    "strided": lambda: np.repeat(X, 2, axis=0)[::2],
    "csr_array": lambda: sparse.csr_array(X),
    "csr_matrix": lambda: sparse.csr_matrix(X),
    "csc_array": lambda: sparse.csc_array(X),
    "sparse float32": lambda: sparse.csr_array(X.astype(np.float32)),
    "int64 indices": long_indices,
    "dense blocks": lambda: in_blocks(np.array, 999),
    "uneven blocks": lambda: in_uneven_blocks(np.array),
    "sparse blocks": lambda: in_blocks(sparse.csr_array, 777),
    "uneven sparse blocks": lambda: in_uneven_blocks(sparse.csc_matrix),
    "blocks of one row": lambda: in_blocks(np.array, 1),
}


def mostly_positive(rows):
    """Return which raw rows are mostly positive, as each block does."""
    return Rows(rows.source, rows.n_jobs).map_rows(on_block(methodcaller("are_mostly_positive")))


def projection_norms(rows, basis):
    """Compute the norms that a block counts."""

    def _kernel(_, block):
        norms = row_norms(products_of(block, basis))
        norms[block.is_null] = np.nan
        return norms

    return rows.map_rows(_kernel)


def basis_of(rows):
    return BASIS if rows.n_features == D else np.eye(rows.n_features)[:, :2]


# Each with its rounding.
SUMS = (
    Rows.total,
    Rows.gram,
    lambda rows: rows.normal_product(basis_of(rows), partial(clip_rows, bound=LEVEL)),
    lambda rows: rows.projected_moment(basis_of(rows)),
)


def clip(rows, norms, bound):
    weighting = partial(clip_weights, bound=bound, n_features=rows.n_features)
    return dataclasses.replace(rows, cache=RowCache(norms)).clipped(bound, weighting)


def weights_of(rows):
    return exact(rows.weighting(rows.norms()))[:, None]


def view(container, center=None, weighted=False, n_jobs=None):
    rows = Rows(as_source(container), n_jobs)
    if center is not None:
        rows = rows.centered(center)
    if weighted:
        norms = rows.norms()
        rows = clip(rows, norms, BOUND)
    return rows


def reference(center=None, weighted=False):
    """Rows written out, in the plainest way."""
    dense = X if center is None else X - center
    if weighted:
        norms = np.linalg.norm(dense, axis=1)
        dense = dense * np.minimum(1.0, BOUND / np.maximum(norms, 1e-300))[:, None]
    return dense


def assert_agree(rows, dense, rtol=1e-10, null=()):
    projections = dense @ BASIS
    clipped = projections * np.minimum(
        1.0, LEVEL / np.maximum(np.linalg.norm(projections, axis=1), 1e-300)
    ).reshape(-1, 1)
    size = np.abs(dense).max()
    close = partial(np.testing.assert_allclose, rtol=rtol)
    close(rows.total()[0], dense.sum(axis=0), atol=rtol * N * size)
    close(rows.gram()[0], dense.T @ dense, atol=rtol * N * size**2)
    close(rows.matmul(RIGHT), dense @ RIGHT, atol=rtol * size)
    close(rows.rmatmul(LEFT), dense.T @ LEFT, atol=rtol * N * size)
    norms = np.delete(projection_norms(rows, BASIS), null)
    close(norms, np.delete(np.linalg.norm(projections, axis=1), null), atol=rtol * size)
    product, *_ = rows.normal_product(BASIS, partial(clip_rows, bound=LEVEL))
    close(product, dense.T @ clipped, atol=rtol * N * size)
    moment, _ = rows.projected_moment(BASIS)
    size_inside = BASIS.shape[1]
    inside = moment[:size_inside, :size_inside]
    close(inside, projections.T @ projections, atol=rtol * N * size**2)
    close(np.trace(moment), np.sum(dense**2), rtol=1e-9)
    assert not moment[size_inside, :size_inside].any()


@pytest.mark.covered(at_most=7)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("center", [None, CENTER], ids=["raw", "centered"])
@pytest.mark.parametrize("container", CONTAINERS)
def test_every_operation_agrees_with_dense_rows(container, center, weighted):
    assert_agree(view(CONTAINERS[container](), center, weighted), reference(center, weighted))


@pytest.mark.covered(at_most=2)
@pytest.mark.parametrize("container", CONTAINERS)
def test_norms_are_those_of_dense_rows(container):
    rows = view(CONTAINERS[container]())
    np.testing.assert_allclose(rows.norms(), np.linalg.norm(X, axis=1), rtol=1e-14)
    centered, exact = rows.centered(CENTER).norms(), np.linalg.norm(X - CENTER, axis=1)
    np.testing.assert_allclose(centered, exact, rtol=1e-11)
    # The norms of the rows as they are: the weights come from the view that was asked before.
    weighted = view(CONTAINERS[container](), CENTER, weighted=True)
    np.testing.assert_array_equal(weighted.norms(), centered)


@pytest.mark.covered(at_most=5)
@pytest.mark.parametrize("container", CONTAINERS)
def test_rows_are_mostly_positive_as_they_are_whatever_the_center(container):
    expected = 2 * X.sum(axis=1) >= np.abs(X).sum(axis=1)
    expected &= X.any(axis=1)
    assert 0.1 < expected.mean() < 0.9
    for center, weighted in ((None, False), (None, True), (CENTER, True)):
        rows = view(CONTAINERS[container](), center, weighted)
        np.testing.assert_array_equal(mostly_positive(rows), expected)


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_verdicts_that_hang_on_rounding_do_not_depend_on_the_block(make, order):
    # A quarter of the size is negative, but for rounding: which side it takes is all the same, if
    # it is always the same one.
    generator = np.random.default_rng(6)
    sizes = np.repeat(generator.uniform(0.1, 1, size=(600, 250)), 4, axis=1)
    rows = generator.permuted(sizes * np.tile([1, 1, 1, -1], 250), axis=1)
    rows = np.asarray(rows, order=order)
    whole = mostly_positive(Rows(as_source(make(rows))))
    assert 0.1 < whole.mean() < 0.9
    for size in (1, 2, 7, 599):
        starts = range(0, len(rows), size)
        blocks = RowBlocks(
            lambda size=size, starts=starts: (make(rows[at : at + size]) for at in starts),
            shape=rows.shape,
        )
        np.testing.assert_array_equal(mostly_positive(Rows(as_source(blocks))), whole)
    changed = rows[::-1].copy(order)
    changed[5] = rows[5]
    assert mostly_positive(Rows(as_source(make(changed))))[5] == whole[5]


@pytest.mark.parametrize(("n_rows", "n_features"), [(1, 1), (1, 4), (2, 1), (3, 7)])
def test_few_rows_and_few_features_agree_too(n_rows, n_features):
    dense = np.random.default_rng(n_rows).normal(size=(n_rows, n_features))
    center = np.arange(1.0, n_features + 1)
    difference = dense - center
    for container in (dense, sparse.csr_array(dense), RowBlocks(lambda: [dense], dense.shape)):
        rows = Rows(as_source(container), n_jobs=2).centered(center)
        np.testing.assert_allclose(rows.total()[0], difference.sum(axis=0))
        np.testing.assert_allclose(rows.gram()[0], difference.T @ difference)
        np.testing.assert_allclose(rows.norms(), np.linalg.norm(difference, axis=1))


@pytest.mark.covered(at_most=2)
@pytest.mark.parametrize(
    ("whole", "parts"),
    [
        ("C order", "dense blocks"),
        ("C order", "uneven blocks"),
        ("C order", "blocks of one row"),
        ("csr_array", "sparse blocks"),
        ("csr_array", "uneven sparse blocks"),
    ],
)
def test_blocks_of_any_size_give_the_same_bits_of_a_row_as_the_whole(whole, parts):
    # A count must not depend on how the rows arrived. A sum may, by its rounding: where an array
    # begins in memory, a kernel may add its first number apart from the others.
    first, second = (view(CONTAINERS[name](), CENTER, weighted=True) for name in (whole, parts))
    for take in (
        lambda rows: rows.norms(),
        lambda rows: mostly_positive(rows),
        lambda rows: rows.matmul(RIGHT),
        lambda rows: projection_norms(rows, BASIS),
        lambda rows: projection_norms(rows, BASIS[:, :1]),
    ):
        np.testing.assert_array_equal(take(first), take(second))
    for take, unit in ((lambda rows: rows.total(), BOUND), (lambda rows: rows.gram(), BOUND**2)):
        (ours, rounding), (theirs, _) = take(first), take(second)
        assert np.linalg.norm(ours - theirs) <= rounding * unit
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12 * N * unit)


@pytest.mark.parametrize("make", [np.array, sparse.csr_array])
def test_what_a_row_gives_does_not_depend_on_what_the_other_rows_are(make):
    # Otherwise exchanging one row could move other rows across the edge of a bin.
    others = np.random.default_rng(5).normal(size=X.shape)
    others[::3] = 0.0
    others[::7] *= 1e12
    for index in (5, 4096, N - 1):
        replaced = others.copy()
        replaced[index] = X[index]
        rows, changed = (view(make(data), CENTER, weighted=True) for data in (X, replaced))
        assert projection_norms(rows, BASIS)[index] == projection_norms(changed, BASIS)[index]
        assert mostly_positive(rows)[index] == mostly_positive(changed)[index]
        np.testing.assert_array_equal(rows.matmul(RIGHT)[index], changed.matmul(RIGHT)[index])


@pytest.mark.parametrize("center", [None, CENTER], ids=["raw", "centered"])
@pytest.mark.parametrize("make", [np.array, sparse.csr_array])
@pytest.mark.filterwarnings("error")
def test_rows_of_absurd_length_give_nothing_and_say_nothing(make, center):
    rows = X[:50].copy()
    absurd = np.zeros(50, dtype=bool)
    absurd[[7, 20]] = True
    rows[7], rows[20] = 1.7e308, -1e300
    seen = view(make(rows), center, weighted=True)
    kept = view(make(rows[~absurd]), center, weighted=True)
    for take in SUMS:
        np.testing.assert_allclose(take(seen)[0], take(kept)[0], rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(mostly_positive(seen)[absurd], [1.0, 0.0])
    np.testing.assert_array_equal(seen.matmul(RIGHT)[absurd], 0.0)
    np.testing.assert_array_equal(projection_norms(seen, BASIS)[absurd], 0.0)


@pytest.mark.parametrize("make", [np.array, sparse.csr_array])
@pytest.mark.filterwarnings("error")
def test_rows_whose_difference_from_the_center_overflows_give_nothing(make):
    data = np.zeros((6, D))
    data[:, 0] = 1e307
    data[3, 0] = 1.7e308
    center = np.zeros(D)
    center[0] = -1e308
    rows = Rows(as_source(make(data))).centered(center)
    rows = clip(rows, rows.norms(), BOUND * 1e300)
    expected = np.zeros(D)
    expected[0] = 5 * BOUND
    np.testing.assert_allclose(rows.total()[0] / 1e300, expected, rtol=1e-6)
    np.testing.assert_array_equal(rows.matmul(BASIS)[3], 0.0)
    assert np.isfinite(projection_norms(rows, BASIS)).all()


@pytest.mark.parametrize("make", [np.array, sparse.csr_array])
def test_null_rows_keep_their_slot_and_enter_no_sum(make):
    whole = Rows(as_source(make(X))).centered(CENTER)
    norms = whole.norms()
    norms[3] = np.nan
    broken = X.copy()
    broken[3, 1] = np.nan
    later = Rows(as_source(make(broken))).centered(CENTER)
    dense = reference(CENTER, weighted=True)
    dense[3] = 0.0
    for rows in (clip(whole, norms, BOUND), clip(later, None, BOUND), clip(later, norms, BOUND)):
        assert np.isnan(projection_norms(rows, BASIS)[3])
        assert np.isfinite(np.delete(projection_norms(rows, BASIS), 3)).all()
        assert_agree(rows, dense, null=3)


def read_only(container):
    if sparse.issparse(container):
        for part in (container.data, container.indices, container.indptr):
            part.flags.writeable = False
    else:
        container.flags.writeable = False
    return container


@pytest.mark.parametrize(
    "container", ["C order", "Fortran order", "float32", "csr_array", "csr_matrix", "int64 indices"]
)
def test_data_are_neither_written_to_nor_copied(container):
    data = read_only(CONTAINERS[container]())
    source = as_source(data)
    kept, given = (x.data if sparse.issparse(x) else x for x in (source.X, data))
    assert np.shares_memory(kept, given)
    # Read-only arrays raise when they are written to.
    for center in (None, CENTER):
        for weighted in (False, True):
            assert_agree(view(data, center, weighted), reference(center, weighted))


def test_blocks_are_not_written_to():
    for make in (np.array, sparse.csr_array):
        parts = [read_only(make(X[start : start + 3000])) for start in range(0, N, 3000)]
        rows = view(RowBlocks(lambda parts=parts: parts, X.shape), CENTER, weighted=True)
        assert_agree(rows, reference(CENTER, weighted=True))


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize("make", [np.array, sparse.csr_array])
def test_no_operation_needs_memory_in_proportion_to_the_entries(make):
    data = make(np.random.default_rng(0).normal(size=(100_000, 40)))
    n_bytes = data.data.nbytes
    rows = view_of_width(data, np.ones(40))
    for take in (Rows.norms, *SUMS, lambda rows: projection_norms(rows, basis_of(rows))):
        tracemalloc.start()
        take(rows)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 0.4 * n_bytes


def view_of_width(data, center):
    rows = Rows(as_source(data)).centered(center)
    return clip(rows, rows.norms(), BOUND)


@pytest.mark.parametrize("container", ["csr_array", "csc_array", "sparse blocks"])
def test_sparse_rows_are_never_written_out(monkeypatch, container):
    data = CONTAINERS[container]()
    dense = reference(CENTER, weighted=True)
    for name in ("csr_array", "csr_matrix", "csc_array", "csc_matrix", "coo_array", "coo_matrix"):
        for method in ("toarray", "todense"):
            cls = getattr(sparse, name)
            monkeypatch.setattr(cls, method, guarded(getattr(cls, method)))
    with pytest.raises(AssertionError, match="written out"):
        sparse.csr_array(X).toarray()
    assert_agree(view(data, CENTER, weighted=True), dense)


def guarded(method):
    def write_out(self, *args, **kwargs):
        # The Gram matrix is as large as what is returned.
        assert self.shape == (D, D), "sparse rows were written out"
        return method(self, *args, **kwargs)

    return write_out


def lying(rows):
    rows.has_canonical_format = True
    return rows


def with_duplicates(lie=False):
    """Every entry in two halves, out of order."""
    halves = sparse.csr_array(X / 2)
    order = np.concatenate(
        [np.r_[start:stop, start:stop][::-1] for start, stop in itertools.pairwise(halves.indptr)]
    )
    rows = sparse.csr_array(
        (halves.data[order], halves.indices[order], 2 * halves.indptr), shape=X.shape
    )
    return lying(rows) if lie else rows


@pytest.mark.parametrize("lie", [False, True])
def test_duplicates_are_summed_before_norms_are_taken(lie):
    # Two halves of an entry have a norm of 1 / sqrt(2) of it: clipped by that, a row is too long.
    given = with_duplicates(lie)
    n_entries = given.nnz
    np.testing.assert_allclose(view(given).norms(), np.linalg.norm(X, axis=1), rtol=1e-12)
    assert_agree(view(given, None, weighted=True), reference(None, weighted=True))
    assert given.nnz == n_entries
    parts = [with_duplicates()[:4000], with_duplicates()[4000:]]
    if lie:
        parts = [lying(part) for part in parts]
    blocks = RowBlocks(lambda: parts, shape=X.shape)
    assert_agree(view(blocks, None, weighted=True), reference(None, weighted=True))


def as_coo(rows):
    indices = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr)), rows.indices
    return sparse.coo_array((rows.data, indices), shape=rows.shape)


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize(
    "form", [sparse.csr_array, as_coo, sparse.csc_array], ids=["csr", "coo", "csc"]
)
def test_duplicates_of_a_row_add_up_alike_whatever_other_rows_are(form):
    # Where their order matters: in another one the small numbers would be lost elsewhere.
    generator = np.random.default_rng(7)
    for _ in range(50):
        columns = np.sort(generator.integers(2, size=40))
        values = generator.choice([1e17, -1e17, 1.0, -1.0, 3.0, -3.0], size=40)
        seen = []
        for last in ([1, 2], [2, 1], [1, 1]):
            rows = sparse.csr_array(
                (np.append(values, [1.0, 1.0]), np.append(columns, last), [0, 40, 42]), shape=(2, 9)
            )
            given = form(rows)
            blocks = RowBlocks(lambda given=given: [given], shape=given.shape)
            for view in (Rows(as_source(blocks)), Rows(as_source(check_rows(given, "Any")))):
                seen.append((view.norms()[0], mostly_positive(view)[0], *view.matmul(RIGHT9)[0]))
        assert len(set(seen)) == 1


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("n_features", [1, 5, 700, 10**5, 10**8])
def test_blocks_depend_on_the_shape_and_leave_no_single_row(n_features, is_sparse):
    sizes = [
        *range(1, 600),
        *range(4090, 4110),
        *range(8185, 8200),
        *range(16_380, 16_390),
        65537,
        131073,
        10**6 + 1,
        10**9,
    ]
    for n_rows in sizes:
        bounds = block_starts(n_rows, n_features, is_sparse=is_sparse)
        assert (bounds[0], bounds[-1]) == (0, n_rows)
        assert np.diff(bounds).min() >= min(n_rows, 2)
        assert np.diff(bounds).max() <= 65536
        if not is_sparse:
            assert np.diff(bounds).max() * n_features * 8 <= max(1 << 24, 256 * n_features * 8)


@pytest.mark.parametrize("make", [np.array, sparse.csr_array])
def test_thinned_rows_are_evenly_spread(make):
    rows = view(make(X), CENTER, weighted=True)
    dense = reference(CENTER, weighted=True)
    subsample = rows.subsample(1000)
    assert subsample.n_rows == 912
    np.testing.assert_allclose(
        projection_norms(subsample, BASIS),
        np.linalg.norm(dense[::9] @ BASIS, axis=1),
        rtol=1e-10,
        atol=1e-13,
    )
    np.testing.assert_allclose(np.trace(subsample.gram()[0]), np.sum(dense[::9] ** 2))
    assert rows.subsample(N) is rows
    assert rows.n_rows == N


@pytest.mark.covered(at_most=8)
@pytest.mark.parametrize("container", CONTAINERS)
def test_weights_are_the_same_whenever_they_are_taken(container):
    known = view(CONTAINERS[container](), CENTER, weighted=True)
    anew = Rows(as_source(CONTAINERS[container]())).centered(CENTER)
    anew = anew.clipped(BOUND, partial(clip_weights, bound=BOUND, n_features=D))
    _, _, weighed = anew.normal_product(BASIS, partial(clip_rows, bound=LEVEL))
    for rows in (anew, weighed, weighed.subsample(100), anew.subsample(100)):
        same = known if rows.n_rows == N else known.subsample(100)
        np.testing.assert_array_equal(rows.gram()[0], same.gram()[0])


# Rounding. Errors are against exact sums of rationals.


@pytest.fixture
def bare_rounding(monkeypatch):
    # What is reported at least would hide a bound that is too small.
    monkeypatch.setattr("skdp.data.rows.LEAST_ROUNDING", 0.0)


def exact(values):
    return np.vectorize(Fraction, otypes=[object])(values)


def length(errors):
    return math.sqrt(math.fsum(float(error) ** 2 for error in np.ravel(errors)))


def cancelling_rows(n_rows, generator):
    rows = generator.normal(size=(n_rows, 2))
    rows[1::2] = -rows[::2]
    rows += 1e-17 * generator.normal(size=rows.shape)
    return generator.permutation(rows)


def stagnating_rows(n_rows, generator):
    # Each of the later rows is half a last place of the sum so far, and lost.
    rows = np.zeros((n_rows, 2))
    for start in range(0, n_rows, 2400):
        rows[start : start + 1100, 0] = 1.0
        rows[start + 1100 : start + 2400, 0] = 2.0**-43
    return rows


def growing_rows(n_rows, generator):
    return generator.normal(size=(n_rows, 2)) * np.geomspace(1e-8, 1e8, n_rows)[:, None]


LONG_CENTER = np.array([6e7, -8e7])


def rows_beside_a_long_center(n_rows, generator):
    return LONG_CENTER + generator.normal(size=(n_rows, 2)) * 1e-3


DATASETS = {
    "canceling": (cancelling_rows, None),
    "stagnating": (stagnating_rows, None),
    "growing": (growing_rows, None),
    "centered": (cancelling_rows, np.array([0.3, -0.7])),
    "beside a long center": (rows_beside_a_long_center, LONG_CENTER),
}


@pytest.mark.covered(at_most=1)
@pytest.mark.usefixtures("bare_rounding")
@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("make", [np.array, sparse.csr_array])
def test_rounding_bounds_the_error_of_sums(make, dataset):
    draw, center = DATASETS[dataset]
    data = draw(5000, np.random.default_rng(0))
    rows = view_of_width(make(data), np.zeros(2) if center is None else center)
    true_rows = exact(data) if center is None else exact(data) - exact(center)
    true_rows = true_rows * weights_of(rows)

    total, rounding = rows.total()
    assert length(exact(total) - true_rows.sum(axis=0)) <= rounding * BOUND
    gram, rounding = rows.gram()
    assert length(exact(gram) - true_rows.T @ true_rows) <= rounding * BOUND**2

    seen = []

    def clip(projections):
        seen.append(clip_rows(projections, LEVEL).copy())
        return projections

    basis = np.linalg.qr(np.array([[1.0], [2.0]]))[0]
    # One thread: others would clip the blocks in another order than that of the rows.
    product, rounding, _ = dataclasses.replace(rows, n_jobs=1).normal_product(basis, clip)
    true_product = true_rows.T @ exact(np.vstack(seen))
    assert length(exact(product) - true_product) <= rounding * BOUND * LEVEL

    moment, rounding = rows.projected_moment(basis)
    inside = true_rows @ exact(basis)
    true_outside = np.sum(true_rows**2) - np.sum(inside**2)
    errors = [*np.ravel(exact(moment[:1, :1]) - inside.T @ inside), Fraction(moment[1, 1])]
    errors[-1] -= true_outside
    assert length(errors) <= rounding * BOUND**2


@pytest.mark.usefixtures("bare_rounding")
def test_sparse_rows_beside_a_long_center_need_their_larger_rounding():
    data = rows_beside_a_long_center(5000, np.random.default_rng(0))
    rows = view_of_width(sparse.csr_array(data), LONG_CENTER)
    true_rows = (exact(data) - exact(LONG_CENTER)) * exact(rows.weighting(rows.cache.norms))[
        :, None
    ]
    total, rounding = rows.total()
    _, short_rounding = view_of_width(sparse.csr_array(data), np.zeros(2)).total()
    error = length(exact(total) - true_rows.sum(axis=0))
    assert short_rounding * BOUND < error <= rounding * BOUND


def test_reported_rounding_is_negligible_and_the_same_for_every_container():
    data = np.random.default_rng(0).normal(size=(3000, 200))
    views = [
        view_of_width(container, np.zeros(200))
        for container in (data, sparse.csr_array(data), RowBlocks(lambda: [data], data.shape))
    ]
    assert len({len(rows.source.block_starts) for rows in views}) > 1
    for take in SUMS:
        reported = {take(rows)[1] for rows in views}
        assert len(reported) == 1
        assert max(reported) < 1e-4


@pytest.mark.parametrize("make", [np.array, sparse.csr_array])
@pytest.mark.parametrize("center", [None, CENTER])
@pytest.mark.parametrize(
    "later", [1e9 * X, np.where(np.arange(N)[:, np.newaxis] == 7, [np.nan, 1, np.inf, 1, 1], X)]
)
def test_blocks_that_change_between_passes_are_clipped_as_they_come(make, center, later):
    passes = itertools.count()
    blocks = RowBlocks(lambda: [make(X if next(passes) <= 1 else later)], X.shape)
    rows = view(blocks, center)
    clipped = clip(rows, rows.norms(), BOUND)
    assert np.linalg.norm(clipped.total()[0]) <= N * BOUND
    assert np.trace(clipped.gram()[0]) <= N * BOUND**2 * (1 + 1e-9)
    assert np.isfinite(clipped.projected_moment(BASIS)[0]).all()


def misaligned(X):
    view = np.empty(X.nbytes + 1, np.uint8)[1:].view(X.dtype).reshape(X.shape)
    view[:] = X
    return view


LAYOUTS = {
    "C order": np.ascontiguousarray,
    "Fortran order": np.asfortranarray,
    "every other column": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "every other row of Fortran order": lambda X: np.asfortranarray(np.repeat(X, 2, axis=0))[::2],
    "reversed rows": lambda X: X[::-1].copy()[::-1],
    "reversed columns": lambda X: X[:, ::-1].copy()[:, ::-1],
    "misaligned": misaligned,
    "float32": lambda X: X.astype(np.float32),
}


@pytest.mark.covered
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("n_columns", [1, 2, 9])
def test_a_row_that_is_lost_changes_no_bit_of_the_others(layout, n_columns):
    X = np.tile(np.random.default_rng(n_columns).normal(size=37), (700, 1))
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=(37, n_columns)))[0]
    weighting = partial(clip_weights, bound=1.0, n_features=37)

    def values(X):
        rows = Rows(as_source(LAYOUTS[layout](X))).clipped(1.0, weighting)
        return [
            np.delete(one, 4, axis=0) for one in (rows.matmul(basis), projection_norms(rows, basis))
        ]

    expected = values(X)
    for value in (np.nan, np.inf, 1e30, 1e250):
        X[4] = value
        with np.errstate(over="ignore"):
            found = values(X)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)


def test_parts_are_checked_before_anything_is_loaded():
    for loaders, lengths, n_features, error in (
        ([len], [1, 2], 3, "lengths must have 1 items, as loaders has, got 2"),
        ([3], [1], 3, "loaders must be functions without arguments"),
        ([len], [-1], 3, "lengths integers from 0"),
        ([len], [0], 3, r"positive integers, got \(0, 3\)"),
        ([len], [1], 2.0, r"positive integers, got \(1, 2.0\)"),
    ):
        with pytest.raises(ValueError, match=error):
            RowBlocks.from_partitions(loaders, lengths, n_features)
    with pytest.raises(ValueError, match="y must have 1 items, as loaders has, got 5"):
        RowBlocks.from_partitions([len], [1], 3, y="label")


def test_functions_of_parts_may_share_an_array():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((120, 3)), rng.standard_normal(120)
    shared, shared_y = np.empty((60, 3)), np.empty(60)

    def load(part, array, values):
        array[...] = values[60 * part :][:60]
        return array

    loaders = [partial(load, part, shared, X) for part in range(2)]
    targets = [partial(load, part, shared_y, y) for part in range(2)]
    parts = RowBlocks.from_partitions(loaders, [60, 60], 3, y=targets)
    model = DPTraceRegressor(1, matrix_shape=(3, 1), epsilon=np.inf, n_jobs=1)
    found = model.fit(parts).coef_
    np.testing.assert_allclose(found, model.fit(X, y).coef_, rtol=1e-9)
