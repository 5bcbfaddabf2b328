"""With epsilon=inf and infinite bounds the estimators are scikit-learn's, or plain algorithms."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.decomposition import PCA, TruncatedSVD

from skdp import DPPCA, DPTruncatedSVD
from skdp.datasets import make_spiked
from skdp.privacy.noise import algorithm_generator

UNBOUNDED = {"epsilon": np.inf, "row_norm": np.inf, "mean_norm": np.inf}
CONTAINERS = [np.asarray, np.asfortranarray, sparse.csr_array, sparse.csc_matrix]
DATA = {
    "digits": load_digits().data,
    "breast cancer": load_breast_cancer().data,
    "wide": make_spiked(20, 30, k=3, random_state=0)[0],
}
VALUES = ["explained_variance_", "explained_variance_ratio_", "singular_values_"]


def assert_same_axes(ours, theirs):
    cosines = np.abs(np.sum(ours * theirs, axis=1))
    np.testing.assert_allclose(cosines, 1, rtol=1e-6)


@pytest.mark.covered(at_most=8)
@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("contain", CONTAINERS)
@pytest.mark.parametrize("bounds", [UNBOUNDED, {"epsilon": np.inf}], ids=["inf", "none"])
def test_pca_is_that_of_scikit_learn(data, contain, bounds):
    X = DATA[data]
    ours = DPPCA(n_components=5, **bounds).fit(contain(X))
    theirs = PCA(n_components=5, svd_solver="full").fit(X)
    assert_same_axes(ours.components_, theirs.components_)
    for name in [*VALUES, "mean_", "noise_variance_"]:
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-6)
    scores, reference = ours.transform(X), theirs.transform(X)
    np.testing.assert_allclose(np.abs(scores), np.abs(reference), rtol=1e-4, atol=1e-6)
    restored = theirs.inverse_transform(reference)
    np.testing.assert_allclose(ours.inverse_transform(scores), restored, atol=1e-6)


@pytest.mark.parametrize("n_rows", [10, pytest.param(2100, marks=pytest.mark.slow)])
def test_wide_rows_are_exact_in_every_fit(n_rows):
    X = np.random.default_rng(0).normal(size=(n_rows, 2048 if n_rows == 10 else 2001)) + 3
    ours, again = (DPPCA(3, epsilon=np.inf, random_state=seed).fit(X) for seed in range(2))
    theirs = PCA(n_components=3, svd_solver="full").fit(X)
    for fitted in (ours, again):
        assert_same_axes(fitted.components_, theirs.components_)
        np.testing.assert_allclose(fitted.explained_variance_, theirs.explained_variance_)
        np.testing.assert_allclose(fitted.noise_variance_, theirs.noise_variance_, rtol=1e-6)


def sparse_rows(n_rows, n_features):
    generator = np.random.default_rng(0)
    popular = 1 / np.arange(1, n_features + 1)
    scores = generator.random((n_rows, 8)) @ generator.random((8, n_features)) ** 8
    return sparse.csr_array(generator.poisson(scores * popular).astype(float))


TWINS = {
    "pca": (DPPCA, lambda k: PCA(k, svd_solver="full")),
    "svd": (DPTruncatedSVD, lambda k: TruncatedSVD(k, algorithm="arpack")),
}


@pytest.mark.covered
@pytest.mark.parametrize("shape", [(700, 450), (300, 900)], ids=str)
@pytest.mark.parametrize(("estimator", "twin"), TWINS.values(), ids=TWINS)
def test_components_of_wide_sparse_rows_are_exact_without_a_large_matrix(estimator, twin, shape):
    X = sparse_rows(*shape)
    plan = estimator(6, epsilon=np.inf).plan(*shape, like=X)
    assert all(np.prod(release.shape) <= 10 * shape[1] for release in plan.releases)
    ours = estimator(6, epsilon=np.inf, random_state=0).fit(X)
    theirs = twin(6).fit(X.toarray())
    assert_same_axes(ours.components_, theirs.components_)
    for name in [*VALUES, *(["mean_", "noise_variance_"] if estimator is DPPCA else [])]:
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-6)
    assert ours.fit(X).components_.tobytes() == clone(ours).fit(X).components_.tobytes()
    # Many components take the whole matrix.
    many = estimator(200, epsilon=np.inf).fit(X)
    assert_same_axes(many.components_[:6], theirs.components_)


DEGENERATE = {
    "zeros": np.zeros((420, 410)),
    "ones": np.ones((420, 410)),
    "low rank": np.repeat(np.eye(5, 4), 105, axis=1).repeat(90, axis=0),
    "identity": np.eye(410),
    "huge": 1e150 * np.eye(420, 410),
    "tiny": 1e-300 * np.eye(420, 410),
}


@pytest.mark.covered
@pytest.mark.parametrize("data", DEGENERATE)
@pytest.mark.parametrize("estimator", [DPPCA, DPTruncatedSVD])
def test_degenerate_sparse_rows_have_the_same_orthonormal_components_in_every_fit(estimator, data):
    X = sparse.csr_array(DEGENERATE[data])
    fits = [estimator(8, epsilon=np.inf, random_state=1).fit(X) for _ in range(3)]
    components = fits[0].components_
    np.testing.assert_allclose(components @ components.T, np.eye(8), atol=1e-10)
    assert len({fitted.components_.tobytes() for fitted in fits}) == 1
    if data == "low rank":
        assert fits[0].explained_variance_ratio_.sum() == pytest.approx(1)


@pytest.mark.parametrize("whiten", [False, True])
def test_likelihood_and_covariance_are_those_of_scikit_learn(whiten):
    X = DATA["breast cancer"] / DATA["breast cancer"].std(axis=0)
    # The model does not depend on the scale of the scores; scikit-learn's does.
    ours = DPPCA(n_components=5, whiten=whiten, **UNBOUNDED).fit(X)
    theirs = PCA(n_components=5, svd_solver="full").fit(X)
    np.testing.assert_allclose(ours.get_covariance(), theirs.get_covariance(), atol=1e-10)
    np.testing.assert_allclose(ours.get_precision(), theirs.get_precision(), atol=1e-8)
    np.testing.assert_allclose(ours.score_samples(X), theirs.score_samples(X))
    assert ours.score(X) == pytest.approx(theirs.score(X))


@pytest.mark.covered
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n_components", [1, 3, 4, 6, None])
@pytest.mark.parametrize("rank", [0, 1])
def test_scores_of_degenerate_models_are_finite_and_tell_rows_apart(rank, n_components, dtype):
    # Of rows that span less than the components, or nothing, the covariance is singular.
    generator = np.random.default_rng(0)
    X = generator.normal(size=(20, rank)) @ generator.normal(size=(rank, 6)) + 1
    pca = DPPCA(n_components, **UNBOUNDED).fit(X.astype(dtype))
    scores = pca.score_samples(X.astype(dtype))
    assert np.isfinite(scores).all()
    assert np.isfinite(pca.get_precision()).all()
    beside = X + generator.normal(size=X.shape)
    assert np.all(pca.score_samples(beside.astype(dtype)) < scores.min())


def test_the_precision_of_a_degenerate_model_inverts_its_covariance_along_the_components():
    X = np.hstack([np.random.default_rng(0).normal(size=(50, 2)), np.ones((50, 2))])
    pca = DPPCA(2, **UNBOUNDED).fit(X)
    precision, covariance = pca.get_precision(), pca.get_covariance()
    np.testing.assert_array_equal(precision, precision.T)
    np.testing.assert_allclose(precision[:2, :2], np.linalg.inv(covariance[:2, :2]), rtol=1e-12)
    np.testing.assert_allclose(precision[:2, 2:], 0, atol=1e-12)
    rows = X - pca.mean_
    log_volume = 4 * np.log(2 * np.pi) - np.linalg.slogdet(precision)[1]
    expected = -0.5 * (np.einsum("ij,jk,ik->i", rows, precision, rows) + log_volume)
    np.testing.assert_allclose(pca.score_samples(X), expected, rtol=1e-9)


@pytest.mark.parametrize("scale", [1e-170, 1e-161, 1e-155, 1e-100, 1e100])
def test_scores_of_models_of_any_scale_are_finite(scale):
    X = scale * np.random.default_rng(0).normal(size=(20, 6))
    pca = DPPCA(2, **UNBOUNDED).fit(X)
    assert np.isfinite(pca.score_samples(X)).all()
    assert np.isfinite(pca.get_precision()).all()


@pytest.mark.covered
@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("contain", CONTAINERS)
def test_truncated_svd_is_that_of_scikit_learn(data, contain):
    X = DATA[data]
    ours = DPTruncatedSVD(n_components=5, **UNBOUNDED).fit(contain(X))
    theirs = TruncatedSVD(n_components=5, algorithm="arpack").fit(X)
    assert_same_axes(ours.components_, theirs.components_)
    for name in VALUES:
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-6)


@pytest.mark.parametrize("make", [DPPCA, DPTruncatedSVD])
def test_power_solver_is_subspace_iteration(make):
    X = DATA["breast cancer"]
    ours = make(n_components=3, solver="power", n_iter=4, random_state=2**100, **UNBOUNDED).fit(X)
    centered = X - X.mean(axis=0) if make is DPPCA else X
    moment = centered.T @ centered
    basis = None
    for _ in range(4):
        basis = np.linalg.qr(start(X.shape[1], 6) if basis is None else basis)[0]
        basis = np.linalg.qr(moment @ basis)[0]
    values, turn = np.linalg.eigh(basis.T @ moment @ basis)
    expected = (basis @ turn[:, ::-1][:, :3]).T
    assert_same_axes(ours.components_, expected)
    np.testing.assert_allclose(ours.singular_values_**2, values[::-1][:3], rtol=1e-9)


def start(n_features, size):
    return algorithm_generator(2**100).normal(size=(n_features, size))


@pytest.mark.parametrize("make", [DPPCA, DPTruncatedSVD])
@pytest.mark.parametrize("solver", ["covariance", "power"])
def test_finite_bounds_still_clip_without_noise(make, solver):
    X = np.vstack([make_spiked(200, 8, k=2, random_state=0)[0], np.full(8, 1e9)])
    bounded = make(2, epsilon=np.inf, row_norm=1.0, mean_norm=1.0, solver=solver).fit(X)
    rest = make(2, epsilon=np.inf, row_norm=1.0, mean_norm=1.0, solver=solver).fit(X[:-1])
    np.testing.assert_allclose(bounded.singular_values_, rest.singular_values_, rtol=0.05)


@pytest.mark.parametrize("make", [DPPCA, DPTruncatedSVD])
@pytest.mark.parametrize("solver", ["covariance", "power"])
def test_a_huge_epsilon_is_close_to_none(make, solver):
    X = DATA["breast cancer"]
    bounds = {"row_norm": 1e4, "mean_norm": 1e4, "random_state": 2**100, "solver": solver}
    exact = make(2, epsilon=np.inf, **bounds).fit(X)
    # The power solver clips projections at any finite epsilon, which costs accuracy, not privacy.
    tolerance = 0.3 if solver == "power" else 1e-2
    close = make(2, epsilon=1e8, **bounds).fit(X)
    np.testing.assert_allclose(close.singular_values_, exact.singular_values_, rtol=tolerance)
