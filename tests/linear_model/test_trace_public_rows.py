import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from skdp.data.matrices import Design, RankOneMatrices
from skdp.data.sources import as_source
from skdp.linear_model.low_rank.records import downweight_long_rows, inlier_mask, outlier_threshold

N = 400


def design_of(X, shape=None, n_jobs=None):
    return Design(as_source(X), shape or (X.shape[1], 1), n_jobs)


def sparse_design(X):
    return Design(RankOneMatrices(sparse.csr_array(X), np.ones((len(X), 1))), (X.shape[1], 1))


def make_rows(seed=0):
    return np.random.default_rng(seed).normal(size=(N, 6))


def test_what_is_usual_is_told_from_all_but_a_few_that_are_not_zero():
    sizes = np.zeros(1000)
    assert outlier_threshold(sizes) == outlier_threshold(np.array([np.nan, np.inf])) == 1e100
    sizes[:100] = 1.0
    for n_wild in (0, 5):
        sizes[100 - n_wild : 100] = 1e6
        assert outlier_threshold(sizes) == 5
    # More are no exception.
    sizes[90:100] = 1e6
    assert outlier_threshold(sizes) == 5e6


@pytest.mark.parametrize("make", [design_of, sparse_design])
def test_at_most_a_few_rows_are_not_usual(make):
    X = make_rows()
    assert inlier_mask(make(X)).all()
    is_long = np.arange(N) % 20 == 3
    X[is_long] *= 100
    assert_array_equal(inlier_mask(make(X)), ~is_long)
    X[np.arange(N) % 20 == 4] *= 100
    assert inlier_mask(make(X)).all()


def test_sparse_rows_with_a_rare_feature_of_large_units_are_usual():
    X = make_rows() * (np.random.default_rng(1).random((N, 6)) < 0.4)
    X[:, 0] *= 1000 * (np.arange(N) % 40 == 0)
    assert inlier_mask(sparse_design(X)).all()
    X[7] *= 1000
    assert_array_equal(np.flatnonzero(~inlier_mask(sparse_design(X))), [7])


def test_cells_and_empty_rows_are_usual():
    rows, columns = np.arange(N) % 7, np.arange(N) % 3
    assert inlier_mask(Design(RankOneMatrices.from_indices(rows, columns, (9, 4)), (9, 4))).all()
    for value in (0.0, 5e-324, 1e90):
        assert inlier_mask(sparse_design(np.full((N, 2), value))).all()


def test_weights_make_vectors_alike_in_length():
    lengths = np.array([0.0, 1.0, 2.0, 2.0, 4.0, 1e7, 1e200, np.nan, np.inf])
    assert_array_equal(
        downweight_long_rows(lengths, downweights=True), [0, 1, 1, 1, 0.5, 0, 0, 0, 0]
    )
    assert_array_equal(
        downweight_long_rows(lengths, downweights=False), [0, 1, 1, 1, 1, 1, 0, 0, 0]
    )
