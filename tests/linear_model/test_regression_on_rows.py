"""Linear regression on rows: the shell, and what public bounds of features spare."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.linear_model import LinearRegression

from skdp import DPLinearRegression, RankOneMatrices

UNITS = np.array([1.0, 100.0, 1e-3, 20.0])
COEFFICIENTS = np.array([1.0, 0.01, -1000.0, 0.05])


def rows(n=4000, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 4)) * UNITS + [0, 300, 0, 2000]
    return X, X @ COEFFICIENTS + 0.5 * random.normal(size=n)


def test_without_noise_it_is_that_of_sklearn():
    X, y = rows()
    exact = LinearRegression().fit(X, y)
    fitted = DPLinearRegression(epsilon=np.inf, n_iter=100).fit(X, y)
    assert fitted.coef_.shape == exact.coef_.shape
    assert_allclose(fitted.coef_, exact.coef_, rtol=1e-6)
    assert_allclose(fitted.predict(X), exact.predict(X), rtol=1e-6)


# The least of 25 others is .87.
@pytest.mark.parametrize("is_bounded", [True, False])
def test_features_in_any_units(is_bounded):
    X, y = rows()
    middle = np.array([0, 300, 0, 2000])
    bounds = (middle - 5 * UNITS, middle + 5 * UNITS) if is_bounded else None
    model = DPLinearRegression(bounds=bounds, random_state=2**100).fit(X, y)
    assert model.score(X, y) > 0.7
    names = [release.name for release in model.privacy_spent_.releases]
    assert ("signed sizes" in names) != is_bounded


def test_matrices_and_bounds_of_long_sparse_rows_are_refused():
    X, y = rows(20)
    for matrices in (X.reshape(20, 2, 2), RankOneMatrices(X, np.ones((20, 1)))):
        with pytest.raises(ValueError, match="use DPTraceRegressor"):
            DPLinearRegression().fit(matrices, y)
    with pytest.raises(ValueError, match="are for dense rows"):
        DPLinearRegression(bounds=(0, 1)).fit(sparse.csr_array((20, 65)), y)


@pytest.mark.parametrize(("n_features", "name"), [(2, "row covariance"), (70, "row variances")])
def test_known_noise_is_planned_with_its_rounding(n_features, name):
    generator = np.random.default_rng(0)
    X = sparse.csr_array(generator.normal(size=(500, n_features)))
    model = DPLinearRegression(epsilon=100.0)
    plan = model.plan(*X.shape, like=X)
    record = model.fit(X, generator.normal(size=500)).privacy_spent_
    planned, drawn = (
        {line.name: line.noise_std for line in one.releases} for one in (plan, record)
    )
    assert planned[name] == drawn[name]


@pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")  # of the seed
@pytest.mark.parametrize("value", [1.0, -3.0, 2000.0, 1e-3])
def test_a_constant_column_in_single_precision_is_not_lost_in_rounding(value):
    # 50 of 50 seeds: R2 of .789 at least, .8 is true.
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=4000), np.full(4000, value)]).astype(np.float32)
    y = 2 * X[:, 0] + rng.normal(size=4000)
    assert DPLinearRegression(epsilon=5.0, random_state=0).fit(X, y).score(X, y) > 0.75
