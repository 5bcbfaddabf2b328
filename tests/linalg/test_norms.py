import mpmath
import numpy as np
import pytest
from scipy import sparse

from skdp.data.rows import DenseBlock
from skdp.linalg.norms import centered_sparse_norms, row_norms, row_squares, sparse_row_norms

# Callers silence what overflows: a warning would tell of single rows.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

SMALLEST = 5e-324


def exact_norm(row, center=None):
    with mpmath.workdps(50):
        center = np.zeros(len(row)) if center is None else center
        return mpmath.sqrt(
            mpmath.fsum(
                (mpmath.mpf(float(x)) - mpmath.mpf(float(m))) ** 2
                for x, m in zip(row, center, strict=True)
            )
        )


def make_rows(seed, n_rows=40, n_features=9):
    generator = np.random.default_rng(seed)
    directions = generator.normal(size=(n_rows, n_features))
    directions[generator.random(directions.shape) < 0.3] = 0.0
    one_scale = directions * 10.0 ** generator.uniform(-320, 307, size=(n_rows, 1))
    mixed = np.sign(directions) * 10.0 ** generator.uniform(-320, 307, size=directions.shape)
    every_scale = np.outer(10.0 ** np.arange(-320.0, 308.0, 8), directions[0])
    return np.vstack([one_scale, mixed, every_scale])


def dense_norms(rows):
    return row_norms(rows)


def csr_norms(rows):
    return sparse_row_norms(sparse.csr_array(rows))


@pytest.mark.parametrize("norms", [dense_norms, csr_norms])
@pytest.mark.parametrize("seed", range(3))
def test_norms_are_exact_to_rounding_at_every_scale(norms, seed):
    rows = make_rows(seed)
    for row, computed in zip(rows, norms(rows), strict=True):
        exact = exact_norm(row)
        # A denormal result has no more than its last place.
        assert abs(computed - exact) <= 2e-15 * exact + SMALLEST


@pytest.mark.parametrize("norms", [dense_norms, csr_norms])
def test_norms_of_single_entries_and_of_nothing_are_exact(norms):
    rows = np.zeros((6, 3))
    rows[1, 2], rows[2, 0], rows[3, 1], rows[4, 1] = 1e308, -1e-320, -SMALLEST, -3.0
    np.testing.assert_array_equal(norms(rows), np.abs(rows).max(axis=1))
    assert norms(np.full((1, 4), 1.7e308))[0] == np.inf
    rows = np.ones((4, 3))
    rows[0, 1], rows[1, 2], rows[2, 0] = np.inf, np.nan, -np.inf
    np.testing.assert_array_equal(np.isfinite(norms(rows)), [False] * 3 + [True])


@pytest.mark.covered(at_most=2)
@pytest.mark.parametrize("n_features", [1, 3, 20_000])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_norms_of_a_row_do_not_depend_on_what_the_other_rows_are(n_features, is_sparse):
    # Otherwise exchanging one row could move other rows across the edge of a bin.
    generator = np.random.default_rng(0)
    n_rows = 200_000 // n_features
    center = generator.normal(size=n_features)
    rows, others = generator.normal(size=(2, n_rows, n_features))
    others *= 10.0 ** generator.uniform(-300, 300, size=(n_rows, 1))
    others[::3] = 0.0
    for index in (0, 1, n_rows // 2, n_rows - 1):
        replaced = others.copy()
        replaced[index] = rows[index]
        for norms in (
            [csr_norms, lambda x: centered_sparse_norms(sparse.csr_array(x), center)]
            if is_sparse
            else [row_norms]
        ):
            assert norms(replaced)[index] == norms(rows)[index]


def test_norms_of_dense_centered_rows_come_from_the_difference():
    # A row 1e-8 away from a center of norm 1e8: nothing of it is left in the expanded square.
    center = np.array([1e8, 1.0, 0.0])
    rows = center + np.array([[0.0, 1e-8, 1e-8], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    computed = DenseBlock(rows, center, np.empty(rows.shape)).norms()
    for row, norm in zip(rows, computed, strict=True):
        assert norm == pytest.approx(float(exact_norm(row, center)), rel=1e-15)


def test_norms_of_float32_rows_do_not_overflow():
    rows = np.full((2, 4), [[3e38], [1e-44]], dtype=np.float32)
    exact = np.linalg.norm(rows.astype(np.float64), axis=1)
    np.testing.assert_allclose(row_norms(rows), exact, rtol=1e-6)
    np.testing.assert_allclose(sparse_row_norms(sparse.csr_array(rows)), exact, rtol=1e-6)


def test_empty_rows_have_norm_zero():
    np.testing.assert_array_equal(sparse_row_norms(sparse.csr_array((3, 4))), np.zeros(3))
    for center, norm in (([3.0, 4.0], 5.0), ([0.0, 0.0], 0.0)):
        found = centered_sparse_norms(sparse.csr_array((3, 2)), np.array(center))
        np.testing.assert_allclose(found, norm, rtol=1e-12)
    rows = sparse.csr_array(np.array([[0.0, 0], [3, 4], [0, 0], [5, 12], [0, 0]]))
    np.testing.assert_array_equal(sparse_row_norms(rows), [0, 5, 0, 13, 0])


@pytest.mark.parametrize("distance", [1e-8, 1e-4, 1.0, 1e4, 1e8])
def test_centered_norms_are_upper_bounds_beside_a_long_center(distance):
    generator = np.random.default_rng(0)
    for n_features in (1, 2, 30):
        center = generator.normal(size=n_features)
        center *= 1e8 / np.linalg.norm(center)
        rows = center + generator.normal(size=(60, n_features)) * distance
        computed = centered_sparse_norms(sparse.csr_array(rows), center)
        exact = np.array([exact_norm(row, center) for row in rows])
        assert np.all(computed >= exact)
        # What the expanded square can not resolve is 1e8 * sqrt(8 d u), not more.
        slack = 1e8 * np.sqrt(64 * (n_features + 4) * 2.0**-53)
        assert np.all(computed <= exact + 1.1 * slack)


@pytest.mark.parametrize("seed", range(3))
def test_centered_norms_are_close_upper_bounds_when_nothing_cancels(seed):
    generator = np.random.default_rng(seed)
    rows = make_rows(seed)
    norms = row_norms(rows)
    rows = rows[(norms > 1e-280) & (norms < 1e300)]
    for scale in (0.0, 1e-300, 1.0, 1e300):
        center = generator.normal(size=rows.shape[1]) * scale
        computed = centered_sparse_norms(sparse.csr_array(rows), center)
        exact = np.array([exact_norm(row, center) for row in rows])
        assert np.all(computed >= exact)
        assert np.all(computed <= exact * (1 + 1e-12))


@pytest.mark.parametrize("size", [3, 16, 300, 9000])
def test_a_row_alone_rounds_as_among_others(size):
    """Owners of other rows of a part may leave; counts of norms must not change by it."""
    rows = np.random.default_rng(size).normal(size=(9, size))
    squares = row_squares(rows)
    np.testing.assert_array_equal(row_squares(np.asfortranarray(rows)), squares)
    for first in range(9):
        for n_rows in (1, 2, 5):
            part = np.asfortranarray(rows[first : first + n_rows])
            np.testing.assert_array_equal(row_squares(part), squares[first : first + n_rows])


@pytest.mark.parametrize("n_columns", [1, 2, 3])
@pytest.mark.parametrize("size", [3, 300, 8193, 20001])
def test_products_anywhere_do_not_depend_on_other_rows(size, n_columns):
    """Of more than 8,192 numbers, a single row once rounded otherwise."""
    generator = np.random.default_rng(size)
    rows, right = generator.normal(size=(6, size)), generator.normal(size=(size, n_columns))
    products = DenseBlock(rows, None, np.empty_like(rows)).matmul_anywhere(right)
    np.testing.assert_allclose(products, rows @ right, atol=1e-9)
    for first in range(6):
        for n_rows in (1, 2, 4):
            part = rows[first : first + n_rows].copy()
            alone = DenseBlock(part, None, np.empty_like(part)).matmul_anywhere(right)
            np.testing.assert_array_equal(alone, products[first : first + n_rows])
