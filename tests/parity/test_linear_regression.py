"""With epsilon=inf the trace regression is linear regression, or plain descent on low rank."""

from functools import cache

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression

from skdp import DPTraceRegressor, RankOneMatrices
from skdp.datasets import make_trace_regression

SECRET = 2**100 + 1


def correlated(mean, condition=100, n=400, d=8):
    """Features around a mean, the longest axis of which is `condition` times the shortest."""
    generator = np.random.default_rng(0)
    left, _, right = np.linalg.svd(generator.normal(size=(n, d)), full_matrices=False)
    X = left * np.geomspace(1, 1 / condition, d) @ right * np.sqrt(n * d)
    return X + mean, X @ generator.normal(size=d) + 2 + 0.3 * generator.normal(size=n)


def independent(n=300, d=6):
    generator = np.random.default_rng(1)
    return generator.normal(size=(n, d)), generator.normal(size=n)


DATA = {
    "diabetes": load_diabetes(return_X_y=True),
    "independent": independent(),
    "correlated": correlated(0),
    "correlated, not centered": correlated(5),
    "other units": (correlated(5, 10)[0] * np.geomspace(0.1, 10, 8), correlated(5, 10)[1] * 1e3),
}
every_unit = pytest.mark.parametrize("privacy_unit", ["record", "response"])
every_intercept = pytest.mark.parametrize("fit_intercept", [True, False])


def assert_same_regression(ours, theirs, X, tolerance):
    error = np.linalg.norm(ours.coef_ - theirs.coef_)
    assert error <= tolerance * np.linalg.norm(theirs.coef_)
    expected = theirs.predict(X)
    np.testing.assert_allclose(ours.predict(X), expected, atol=tolerance * np.abs(expected).max())
    largest = np.abs(expected).max() + abs(theirs.intercept_)
    assert ours.intercept_ == pytest.approx(theirs.intercept_, abs=tolerance * largest)


@pytest.mark.covered(at_most=1)
@every_intercept
@pytest.mark.parametrize("by_rows", [False, True])
@pytest.mark.parametrize("data", DATA)
def test_descent_converges_to_linear_regression(data, by_rows, fit_intercept):
    X, y = DATA[data]
    theirs = LinearRegression(fit_intercept=fit_intercept).fit(X, y)
    ours = DPTraceRegressor(
        epsilon=np.inf,
        matrix_shape=(1, X.shape[1]) if by_rows else None,
        fit_intercept=fit_intercept,
        n_iter=200,
        random_state=SECRET,
    ).fit(X, y)
    assert_same_regression(ours, theirs, X, 1e-6)


@pytest.mark.covered(at_most=3)
@every_unit
@every_intercept
@pytest.mark.parametrize("contain", [np.asarray, sparse.csr_array])
def test_descent_without_scaling_converges_on_features_of_variance_one(
    contain, fit_intercept, privacy_unit
):
    X, y = DATA["independent"]
    theirs = LinearRegression(fit_intercept=fit_intercept).fit(X, y)
    ours = DPTraceRegressor(
        epsilon=np.inf,
        privacy_unit=privacy_unit,
        fit_intercept=fit_intercept,
        covariance="identity",
        n_iter=100,
        random_state=SECRET,
    ).fit(contain(X), y)
    assert_same_regression(ours, theirs, X, 1e-6)


def test_steps_are_shortened_where_the_loss_is_steep():
    # Along the common part of the features it is 6 times as steep as for independent ones.
    generator = np.random.default_rng(0)
    X = 0.5 * generator.normal(size=(500, 8)) + 0.87 * generator.normal(size=(500, 1))
    y = X @ generator.normal(size=8) + 0.1 * generator.normal(size=500)
    ours = DPTraceRegressor(
        epsilon=np.inf, covariance="identity", n_iter=400, random_state=SECRET
    ).fit(X, y)
    assert_same_regression(ours, LinearRegression().fit(X, y), X, 1e-2)


# Matrices


def plain_descent(X, y, rank, *, fit_intercept, n_steps=400, step=0.3):
    """Riemannian gradient descent, dense and without privacy."""

    def _nearest(matrix):
        left, values, right = np.linalg.svd(matrix, full_matrices=False)
        return left[:, :rank] * values[:rank] @ right[:rank], left[:, :rank], right[:rank]

    matrix, left, right = _nearest(np.einsum("n,nij->ij", y, X) / len(X))
    for _ in range(n_steps):
        residuals = np.einsum("nij,ij->n", X, matrix) - y
        if fit_intercept:
            residuals -= residuals.mean()
        gradient = np.einsum("n,nij->ij", residuals, X) / len(X)
        on_left, on_right = left @ left.T, right.T @ right
        tangent = on_left @ gradient + gradient @ on_right - on_left @ gradient @ on_right
        matrix, left, right = _nearest(matrix - step * tangent)
    return matrix


def matrices_of(design, noise):
    correlation = 0.6 if design == "correlated" else 0.0
    name = "gaussian" if design == "correlated" else design
    X, y, M = make_trace_regression(
        400,
        (6, 5),
        rank=2,
        noise=noise,
        design=name,
        column_correlation=correlation,
        random_state=0,
    )
    return X, y, M, X.toarray().reshape(-1, 6, 5) if isinstance(X, RankOneMatrices) else X


PARAMETERS = {
    "default": {},
    "isotropic": {"covariance": "identity"},
    "spectral": {"init": "spectral"},
    "response": {"privacy_unit": "response"},
}


def fitted(X, y, parameters, fit_intercept, **more):
    return DPTraceRegressor(
        2,
        epsilon=np.inf,
        fit_intercept=fit_intercept,
        n_iter=200,
        random_state=SECRET,
        **PARAMETERS[parameters],
        **more,
    ).fit(X, y)


CASES = [
    *((design, "default") for design in ("gaussian", "correlated", "tasks")),
    *(("correlated", parameters) for parameters in PARAMETERS if parameters != "default"),
    ("tasks", "response"),
]
every_case = pytest.mark.parametrize(("design", "parameters"), CASES)


@pytest.mark.covered(at_most=1)
@every_case
def test_noiseless_measurements_give_the_matrix_back(design, parameters):
    X, y, M, _ = matrices_of(design, 0.0)
    model = fitted(X, y + 3, parameters, True)
    assert np.linalg.norm(model.coef_matrix_ - M) < 1e-5 * np.linalg.norm(M)
    assert model.intercept_ == pytest.approx(3, abs=1e-5)
    np.testing.assert_allclose(model.predict(X), y + 3, atol=1e-4)


@cache
def plain_matrix(design, fit_intercept):
    _, y, _, dense = matrices_of(design, 0.5)
    return plain_descent(dense, y, 2, fit_intercept=fit_intercept)


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize(
    ("design", "parameters", "fit_intercept"),
    [*((*case, False) for case in CASES), *((*case, True) for case in CASES[:3])],
)
def test_descent_converges_to_plain_descent(design, parameters, fit_intercept):
    X, y, M, dense = matrices_of(design, 0.5)
    expected = plain_matrix(design, fit_intercept)
    model = fitted(X, y, parameters, fit_intercept)
    assert np.linalg.norm(model.coef_matrix_ - expected) < 1e-5 * np.linalg.norm(expected)
    # Another one than the matrix that was measured.
    assert np.linalg.norm(expected - M) > 1e-2
    if fit_intercept:
        residuals = y - np.einsum("nij,ij->n", dense, expected)
        assert model.intercept_ == pytest.approx(residuals.mean(), abs=1e-5)


@pytest.mark.slow
def test_known_covariances_change_the_way_and_not_the_end():
    X, y, _, _ = matrices_of("correlated", 0.5)
    distances = np.abs(np.subtract.outer(np.arange(5), np.arange(5)))
    known = {"covariance": (np.eye(6), 0.6**distances)}
    models = [fitted(X, y, "default", True, **more) for more in ({}, known)]
    np.testing.assert_allclose(models[0].coef_, models[1].coef_, atol=1e-5)


@pytest.mark.slow
@every_unit
def test_a_huge_epsilon_is_close_to_none(privacy_unit):
    # Clipping is on at any finite epsilon, which costs accuracy, not privacy.
    X, y, M = make_trace_regression(2000, (6, 5), rank=2, random_state=0)
    exact, close = (
        DPTraceRegressor(2, epsilon=epsilon, privacy_unit=privacy_unit, random_state=SECRET)
        .fit(X, y)
        .coef_
        for epsilon in (np.inf, 1e8)
    )
    assert np.linalg.norm(close - exact) < 0.2 * np.linalg.norm(M)
