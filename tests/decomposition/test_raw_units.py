"""A PCA warns of columns in different units where noise hides what the others hold."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline
from told import lines_warned_by

from skdp import DPPCA, DPStandardScaler

SEED = 2**100


def told(estimator, X):
    lines = lines_warned_by(lambda: estimator.fit(X))
    return [line for line in lines if "DPStandardScaler" in line]


def rows(largest, n_rows=5000):
    scales = np.ones(12)
    scales[3] = largest
    return np.random.default_rng(0).normal(size=(n_rows, 12)) * scales


def test_a_column_that_decides_alone_is_told_once_where_it_hides_the_others():
    said = [told(DPPCA(4, epsilon=0.5), rows(20.0, 1000)) for _ in range(10)]
    assert all(len(one) <= 1 for one in said)
    assert sum("at most 2 of 12 columns" in str(one) for one in said) > 5


@pytest.mark.parametrize("largest", [300.0, 1e6])
@pytest.mark.parametrize("epsilon", [0.5, 8.0])
def test_nothing_is_told_of_columns_that_hold_next_to_nothing(largest, epsilon):
    X, pca = rows(largest, 100_000), DPPCA(4, epsilon=epsilon, random_state=SEED)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pca.fit(X)
    assert abs(pca.components_[0, 3]) > 0.999


@pytest.mark.parametrize("X", [rows(3.0), load_digits().data, rows(1e6)[:, :3]])
@pytest.mark.parametrize("epsilon", [0.5, 8.0, np.inf])
def test_nothing_is_told_of_columns_that_are_alike(X, epsilon):
    assert told(DPPCA(2, epsilon=epsilon, random_state=SEED), X) == []


def test_nothing_is_told_of_scaled_columns():
    X = rows(1e6)
    both = make_pipeline(DPStandardScaler(random_state=SEED), DPPCA(2, random_state=SEED))
    assert told(both, X) == []


def test_nothing_is_told_where_noise_hides_no_component():
    X = rows(1e6)
    X[:, 5] *= 3e5
    pca = DPPCA(2, epsilon=4.0, random_state=SEED)
    assert told(pca, X) == []
    assert np.abs(pca.components_[:, [3, 5]]).max(axis=0).min() > 0.999


@pytest.mark.parametrize("epsilon", [0.5, 8.0])
def test_whitening_tells_of_components_that_hold_next_to_nothing(epsilon):
    """Their coordinates had standard deviations of .01 instead of 1, in silence."""
    X = rows(1e6)
    pca = DPPCA(3, whiten=True, epsilon=epsilon, random_state=SEED)
    lines = " ".join(lines_warned_by(lambda: pca.fit(X)))
    assert "of 3 components stand out from the noise; whitened coordinates" in lines
