import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn import model_selection
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_array

from skdp.data.matrices import RankOneMatrices

N, D1, D2 = 60, 4, 3


def make_factors(n=N, d1=D1, d2=D2):
    generator = np.random.default_rng(0)
    left, right = generator.normal(size=(n, d1)), generator.normal(size=(n, d2))
    left[generator.random(left.shape) < 0.4] = 0.0
    right[generator.random(right.shape) < 0.4] = 0.0
    return left, right


LEFT, RIGHT = make_factors()
DENSE = np.einsum("ni,nj->nij", LEFT, RIGHT).reshape(N, -1)


def with_duplicates(part):
    n, width = part.shape
    data, indices = np.repeat(part.ravel() / 2, 2), np.tile(np.arange(width).repeat(2), n)
    return sparse.csr_array((data, indices, 2 * width * np.arange(n + 1)), shape=part.shape)


CONTAINERS = {
    "array": lambda part: part,
    "Fortran order": np.asfortranarray,
    "list": lambda part: part.tolist(),
    "csr_array": sparse.csr_array,
    "csr_matrix": sparse.csr_matrix,
    "csc_array": sparse.csc_array,
    "duplicates": with_duplicates,
}
# Dense and sparse factors, and one of each.
KINDS = {
    "dense": lambda left, right: RankOneMatrices(left, right),
    "sparse": lambda left, right: RankOneMatrices(*map(sparse.csr_array, (left, right))),
    "mixed": lambda left, right: RankOneMatrices(left, sparse.csr_array(right)),
}


@pytest.fixture(params=KINDS)
def make(request):
    return KINDS[request.param]


def parts_of(X):
    return [part.data if sparse.issparse(part) else part for part in (X.left, X.right)]


@pytest.mark.covered
@pytest.mark.parametrize("right", CONTAINERS)
@pytest.mark.parametrize("left", CONTAINERS)
def test_factors_come_in_any_container(left, right):
    X = RankOneMatrices(CONTAINERS[left](LEFT), CONTAINERS[right](RIGHT))
    assert_array_equal(X.toarray(), DENSE)
    assert (len(X), X.ndim, X.shape, X.matrix_shape) == (N, 2, (N, D1 * D2), (D1, D2))
    for part in (X.left, X.right):
        assert isinstance(part, np.ndarray) or part.has_canonical_format
        assert part.dtype == np.float64
    assert repr(X) == "RankOneMatrices(shape=(60, 12), matrix_shape=(4, 3), dtype=float64)"


@pytest.mark.parametrize(
    ("make_part", "dtype"),
    [
        *itertools.product([np.array, sparse.csr_array], [bool, np.int8, np.uint64]),
        (np.array, np.float16),
        (np.array, ">f8"),
    ],
)
def test_other_numbers_become_float64(make_part, dtype):
    part = make_part(np.eye(3).astype(dtype))
    X = RankOneMatrices(part, part)
    assert X.left.dtype == X.right.dtype == np.dtype(np.float64)
    assert_array_equal(X.toarray(), RankOneMatrices(np.eye(3), np.eye(3)).toarray())


def test_float32_stays_where_both_factors_have_it(make):
    left, right = LEFT.astype(np.float32), RIGHT.astype(np.float32)
    for chosen, dtype in [((left, right), np.float32), ((left, RIGHT), np.float64)]:
        X = make(*chosen)
        assert X.dtype == X.toarray().dtype == dtype
        assert X.left.dtype == np.float32


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_floating_point_numbers_are_not_copied(make, dtype):
    X = make(LEFT.astype(dtype), RIGHT.astype(dtype))
    again = RankOneMatrices(X.left, X.right)
    for old, new in zip(parts_of(X), parts_of(again), strict=True):
        assert np.shares_memory(old, new)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_indices_are_cells(dtype):
    rows, columns = [0, 3, 3, 1], np.array([2, 0, 0, 1], dtype=np.uint8)
    X = RankOneMatrices.from_indices(rows, columns, shape=(D1, D2), dtype=dtype)
    expected = np.zeros((4, D1, D2))
    expected[np.arange(4), rows, columns] = 1
    assert X.dtype == dtype
    assert_array_equal(X.toarray(), expected.reshape(4, -1))


def test_cells_of_a_huge_matrix_take_little_memory():
    n, size = 1000, 10**9
    cells = np.random.default_rng(0).integers(size, size=(2, n))
    X = RankOneMatrices.from_indices(*cells, shape=(size, size))
    assert X.shape == (n, size**2)
    total = sum(
        array.nbytes
        for part in (X.left, X.right)
        for array in (part.data, part.indices, part.indptr)
    )
    assert total <= 32 * n + 8
    assert_array_equal([X.left.indices, X.right.indices], cells)


@pytest.mark.parametrize("make_part", [np.array, sparse.csr_array])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tasks_are_columns(make_part, dtype):
    tasks = np.arange(N) % 5
    X = RankOneMatrices.from_tasks(make_part(LEFT.astype(dtype)), tasks, 5)
    expected = np.zeros((N, D1, 5), dtype=dtype)
    expected[np.arange(N), :, tasks] = LEFT
    assert X.dtype == dtype
    assert_array_equal(X.toarray(), expected.reshape(N, -1))


MASK = np.arange(N) % 3 == 0


KEYS = [
    *(slice(None), slice(7, 20), slice(-5, None), slice(20, 7), slice(50, 1000), slice(3, 40, 4)),
    *(slice(None, None, -1), slice(5, 5, -2), MASK, MASK.tolist(), np.zeros(N, dtype=bool)),
    *([3, 1, 3, -1], np.array([59, 0], dtype=np.uint8), range(10, 13), []),
]
BAD_KEYS = [
    *(60, -61, [0, 60], [-61], MASK[:-1], MASK.astype(float), "a", None, [[0, 1]], (0, 1)),
    *((slice(None), 0), (0, ..., 0)),
]


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_rows_are_chosen_as_those_of_an_array(make, key):
    X = make(LEFT, RIGHT)
    expected = DENSE[key] if not isinstance(key, range) else DENSE[list(key)]
    for chosen in (X[key], X[key, ...]):
        assert isinstance(chosen, RankOneMatrices)
        assert chosen.shape == expected.shape
        assert chosen.matrix_shape == X.matrix_shape
        assert_array_equal(chosen.toarray(), expected)
        for old, new in zip((X.left, X.right), (chosen.left, chosen.right), strict=True):
            assert sparse.issparse(old) == sparse.issparse(new)
    for row in (0, 59, -1, -60, np.int64(7)):
        for chosen in (X[row], X[row, ...]):
            assert_array_equal(chosen.toarray(), DENSE[[row]])
    assert_array_equal(np.vstack([row.toarray() for row in X]), DENSE)


@pytest.mark.parametrize("key", BAD_KEYS, ids=str)
def test_bad_keys_are_refused(make, key):
    with pytest.raises(IndexError):
        make(LEFT, RIGHT)[key]


def test_consecutive_rows_share_memory(make):
    X = make(LEFT, RIGHT)
    for whole, part in zip(parts_of(X), parts_of(X[5:50]), strict=True):
        assert np.shares_memory(whole, part)
    copied = X[list(range(5, 50))]
    for whole, part in zip(parts_of(X), parts_of(copied), strict=True):
        assert not np.shares_memory(whole, part)


def test_numpy_does_not_write_out_by_itself(make):
    X = make(LEFT, RIGHT)
    for convert in (np.asarray, np.array, np.sum, check_array):
        with pytest.raises(TypeError, match=r"call toarray\(\) for an array"):
            convert(X)


@pytest.mark.parametrize(
    ("left", "right", "message"),
    [
        (LEFT[:5], RIGHT[:4], "left and right must have one length, got 5 and 4"),
        (LEFT[0], RIGHT, r"left must be 2-D with at least one column, got shape \(4,\)"),
        (LEFT, DENSE.reshape(N, D1, D2), r"right must be 2-D .* got shape \(60, 4, 3\)"),
        (LEFT, RIGHT[:, :0], r"right must be 2-D with at least one column, got shape \(60, 0\)"),
        (LEFT * 1j, RIGHT, "left must have real numbers of at most 64 bits, got dtype complex128"),
        (LEFT, RIGHT.astype(object), "right must have real numbers .* got dtype object"),
        (LEFT, RIGHT.astype(str), "right must have real numbers .* got dtype str_"),
        (sparse.csr_array(LEFT * 1j), RIGHT, "left must have real numbers .* got dtype complex128"),
        # Before scipy 1.13 it is a matrix of one row.
        (LEFT, sparse.coo_array(RIGHT[:, 0]), r"must be 2-D .* shape \(60,\)|got 60 and 1"),
    ],
)
def test_bad_factors_are_refused(left, right, message):
    with pytest.raises(ValueError, match=message):
        RankOneMatrices(left, right)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rows": [0, 4711]}, "rows must be integers from 0 to 3, but some are negative or"),
        (
            {"columns": [-4711, 0]},
            "columns must be integers from 0 to 2, but some are negative or",
        ),
        ({"rows": [4, 0]}, "rows must be integers from 0 to 3, but some are negative or"),
        ({"columns": [0]}, "rows and columns must have one length, got 2 and 1"),
        ({"rows": [0.0, 4711.0]}, r"rows must be 1-D integers, got dtype float64 and shape \(2,\)"),
        ({"rows": [True, False]}, "rows must be 1-D integers, got dtype bool"),
        ({"rows": [[0, 1]]}, r"rows must be 1-D integers, got dtype int64 and shape \(1, 2\)"),
        ({"shape": (4, 0)}, r"positive integers, got \(4, 0\)"),
        ({"shape": (4.0, 3)}, r"positive integers, got \(4.0, 3\)"),
        ({"shape": (4, 3, 2)}, r"positive integers, got \(4, 3, 2\)"),
        ({"dtype": int}, "dtype must be float32 or float64, got <class 'int'>"),
        ({"X": LEFT[0]}, r"X must be 2-D with at least one column, got shape \(4,\)"),
        (
            {"tasks": [0, 4711]},
            "tasks must be integers from 0 to 2, but some are negative or",
        ),
        ({"tasks": [0]}, "X and tasks must have one length, got 2 and 1"),
        ({"tasks": ["a", "b"]}, "tasks must be 1-D integers, got dtype str_"),
        ({"n_tasks": 0}, r"positive integers, got \(4, 0\)"),
        ({"n_tasks": 2.0}, r"positive integers, got \(4, 2.0\)"),
    ],
)
def test_bad_indices_and_tasks_are_refused(changed, message):
    make, arguments = RankOneMatrices.from_indices, {"rows": [0, 3], "columns": [2, 0]}
    arguments["shape"] = (4, 3)
    if changed.keys() & {"X", "tasks", "n_tasks"}:
        make, arguments = RankOneMatrices.from_tasks, {"X": LEFT[:2], "tasks": [0, 2], "n_tasks": 3}
    with pytest.raises(ValueError, match=message) as caught:
        make(**arguments | changed)
    assert "4711" not in str(caught.value)


@pytest.mark.covered
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("row", [0, 4000, 8999])
def test_check_refuses_what_is_not_finite(make, value, side, row):
    factors = make_factors(9000)
    make(*factors).check()
    factors[side][row, 2] = value
    X = make(*factors)
    with pytest.raises(ValueError, match=r"^Input X contains NaN or infinity\.$"):
        X.check()


def test_blocks_are_the_rows(make):
    factors = make_factors(9000)
    X = make(*factors)
    n_blocks = len(X.block_starts) - 1
    assert n_blocks > 1
    assert X.block_starts[0] == 0
    seen = 0
    for rows, block in X.blocks(range(n_blocks)):
        assert rows.start == seen
        seen = rows.stop
        assert isinstance(block, RankOneMatrices)
        assert len(block) == rows.stop - rows.start > 1
        for whole, part in zip((X.left, X.right), (block.left, block.right), strict=True):
            assert type(whole) is type(part)
        for whole, part in zip(parts_of(X), parts_of(block), strict=True):
            assert np.shares_memory(whole, part)
        assert_array_equal(block.toarray(), X[rows].toarray())
        expected = np.einsum("ni,nj->nij", factors[0][rows], factors[1][rows])
        assert_array_equal(block.toarray(), expected.reshape(len(block), -1))
    assert seen == 9000
    assert_array_equal(X.block_starts, make(0 * factors[0], factors[1] ** 2).block_starts)


class LeastSquares(RegressorMixin, BaseEstimator):
    """Takes matrices of rank one only."""

    def fit(self, X, y):
        assert isinstance(X, RankOneMatrices)
        self.coef_ = np.linalg.lstsq(X.toarray(), y, rcond=None)[0].reshape(X.matrix_shape)
        return self

    def predict(self, X):
        return np.einsum("ij,ij->i", X.left @ self.coef_, X.right @ np.eye(D2))


# Without noise the fit is perfect if and only if rows and responses stay together.
TARGET = np.random.default_rng(1).normal(size=(D1, D2))
Y = DENSE @ TARGET.ravel()


@pytest.mark.parametrize("shuffled", [False, True])
def test_cross_validation_takes_rank_one_matrices(make, shuffled):
    X = make(LEFT, RIGHT)
    folds = model_selection.KFold(4, shuffle=shuffled, random_state=0 if shuffled else None)
    result = model_selection.cross_validate(LeastSquares(), X, Y, cv=folds, return_train_score=True)
    assert_allclose(result["test_score"], 1)
    assert_allclose(result["train_score"], 1)
    assert_allclose(model_selection.cross_val_predict(LeastSquares(), X, Y, cv=folds), Y, atol=1e-9)
