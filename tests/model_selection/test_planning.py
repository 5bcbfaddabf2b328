"""The planned error: against fits and a formula, in its limits, and refusals."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits

from skdp import DPPCA, DPTruncatedSVD, PrivacyWarning
from skdp.datasets import make_spiked
from skdp.metrics import subspace_distance
from skdp.model_selection import expected_subspace_error
from skdp.model_selection._planning import _noise_of
from skdp.units import Entry, SparseRow

# Repeatable fits need a key; this one stands in a public file, and hides nothing.
KEY = 0x3C9E51D70B8A46F2A1D4876FE02B95C7

BOUNDS = {"row_norm": 1.0, "mean_norm": 1.0}
SPECTRA = {
    "spiked": np.r_[0.25, 0.2, 0.15, np.full(37, 0.4 / 37)],
    "falling": 1 / np.arange(1, 41.0) ** 1.5 / 2.5,
    "two nearly equal at the border": np.r_[0.3, 0.2, 0.105, 0.1, np.full(36, 0.2 / 36)],
}
each_spectrum = pytest.mark.parametrize("spectrum", SPECTRA.values(), ids=SPECTRA)
each_class = pytest.mark.parametrize("make", [DPPCA, DPTruncatedSVD])


def spiked_rows(shape, seed):
    return make_spiked(*shape, k=5, random_state=seed)[0]


def measured_error(estimator, X, seed, n_fits=40):
    """Mean distance of private components to the exact ones of the same clipped rows."""
    exact = clone(estimator).set_params(epsilon=np.inf).fit(X).components_
    errors = []
    for i in range(n_fits):
        fitted = clone(estimator).set_params(random_state=KEY + n_fits * seed + i)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Only .* stand out from the noise", PrivacyWarning)
            errors.append(subspace_distance(fitted.fit(X).components_, exact))
    return np.mean(errors)


def planned_error(estimator, X):
    center = X.mean(axis=0) if isinstance(estimator, DPPCA) else 0.0
    eigenvalues = np.linalg.eigvalsh((X - center).T @ (X - center) / len(X))
    return expected_subspace_error(estimator, eigenvalues, len(X))


FITS = {
    "SVD, small error": (DPTruncatedSVD(5, epsilon=4.0, **BOUNDS), (5_000, 60), 0.1),
    "SVD, large error": (DPTruncatedSVD(5, epsilon=0.5, **BOUNDS), (3_000, 60), 0.1),
    "SVD, zero_out": (DPTruncatedSVD(5, adjacency="zero_out", **BOUNDS), (2_000, 60), 0.1),
    "PCA": (DPPCA(5, **BOUNDS), (3_000, 60), 0.1),
    "PCA, much noise in the mean": (DPPCA(5, row_norm=1.0, mean_norm=4.0), (3_000, 60), 0.1),
    "PCA, everything clipped": (DPPCA(5, row_norm=0.4, mean_norm=1.0), (3_000, 60), 0.2),
    "PCA, digits": (DPPCA(3, epsilon=2.0, row_norm=40.0, mean_norm=64.0), None, 0.2),
}


def planned_and_measured(name, seed):
    estimator, shape, _ = FITS[name]
    X = load_digits().data if shape is None else spiked_rows(shape, seed)
    return planned_error(estimator, X), measured_error(estimator, X, seed)


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize("name", FITS)
def test_agrees_with_fits(name):
    planned, measured = planned_and_measured(name, seed=0)
    assert planned == pytest.approx(measured, rel=FITS[name][-1])
    # A plan that saw no error at all, or nothing but error, would not be tested by the above.
    assert 0.02 < planned < 0.9


def test_agrees_with_the_formula_for_many_features():
    n_features, n_samples = 2_000, 1_000_000
    spectrum = np.r_[0.2, np.zeros(n_features - 1)]
    for epsilon in [0.25, 0.5, 1.0]:
        svd = DPTruncatedSVD(1, epsilon=epsilon, row_norm=1.0, solver="covariance")
        noise = _noise_of(svd, n_samples, len(spectrum))[0]
        formula = noise * np.sqrt(n_features) / (0.2 * n_samples)
        assert expected_subspace_error(svd, spectrum, n_samples) == pytest.approx(formula, rel=0.03)


@pytest.mark.parametrize("center", [False, np.zeros(10)], ids=["False", "public"])
def test_noise_is_that_of_a_fit_without_a_private_center(center):
    pca = DPPCA(2, center=center, row_norm=1.0)
    (moment,) = pca.fit(spiked_rows((2_000, 10), 0)).privacy_spent_.releases
    off_diagonal_std, mean_std = _noise_of(pca, 2_000, 10)
    assert off_diagonal_std == pytest.approx(moment.noise_std / np.sqrt(2), rel=1e-4)
    assert mean_std == 0


@pytest.mark.covered(at_most=1)
@each_class
@each_spectrum
def test_falls_with_epsilon_and_with_rows(make, spectrum):
    estimator = make(3, **BOUNDS)
    for errors in (
        [
            expected_subspace_error(clone(estimator).set_params(epsilon=epsilon), spectrum, 3_000)
            for epsilon in np.geomspace(0.05, 50, 9)
        ],
        [
            expected_subspace_error(estimator, spectrum, int(n_samples))
            for n_samples in np.geomspace(100, 1e7, 9)
        ],
    ):
        # A draw need not fall; the mean of them does, up to very little.
        assert np.all(np.diff(errors) < 1e-3)
        assert errors[0] > 0.9
        assert errors[-1] < 0.1


def test_rises_with_bounds_that_are_too_large():
    errors = [
        expected_subspace_error(DPPCA(3, **bounds), SPECTRA["spiked"], 3_000)
        for bounds in (BOUNDS, {**BOUNDS, "row_norm": 2.0}, {**BOUNDS, "mean_norm": 10.0})
    ]
    assert errors[1] > 2 * errors[0]
    # Where the mean is that noisy, rows are centered again.
    assert errors[0] < errors[2] < 2 * errors[0]


@each_class
def test_limits(make):
    spectrum = SPECTRA["spiked"]
    estimator = make(3, **BOUNDS)

    def error(spectrum=spectrum, n_samples=3_000, **parameters):
        return expected_subspace_error(
            clone(estimator).set_params(**parameters), spectrum, n_samples
        )

    assert error(epsilon=np.inf) == 0
    assert error(epsilon=np.inf, row_norm=None, mean_norm=None) == 0
    with pytest.raises(ValueError, match="40 entries for n_components=40"):
        error(n_components=40)
    assert error(epsilon=1e6) < 0.01
    assert 0.95 < error(epsilon=1e-3) <= 1
    assert 0.95 < error(np.zeros(40)) <= 1


def test_no_components_asked_for_are_all_of_them():
    pca = DPPCA(**BOUNDS)
    assert expected_subspace_error(pca, SPECTRA["spiked"], 3_000) == 0
    # Fewer rows than features: as many components as rows.
    assert 0 < expected_subspace_error(pca, SPECTRA["spiked"], 30) <= 1


def test_depends_on_neither_order_nor_unit_nor_call():
    spectrum = SPECTRA["falling"]
    pca = DPPCA(3, **BOUNDS)
    error = expected_subspace_error(pca, spectrum, 3_000)
    np.random.seed(5)  # noqa: NPY002
    assert expected_subspace_error(pca, list(spectrum[::-1]), 3_000) == error
    rounded = np.r_[spectrum, -1e-17]
    assert expected_subspace_error(pca, rounded, 3_000) == pytest.approx(error, abs=0.02)
    in_millimetres = DPPCA(3, row_norm=1e3, mean_norm=1e3)
    assert expected_subspace_error(in_millimetres, 1e6 * spectrum, 3_000) == pytest.approx(error)


def test_auto_is_taken_for_covariance():
    errors = {
        expected_subspace_error(
            DPTruncatedSVD(3, row_norm=1.0, solver=solver), SPECTRA["spiked"], 3_000
        )
        for solver in ("auto", "covariance")
    }
    assert len(errors) == 1


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (DPPCA(3, solver="power", **BOUNDS), "solver='power'.*solver='covariance'"),
        (DPPCA(3, solver="adaptive", **BOUNDS), "solver='adaptive'.*solver='covariance'"),
        (DPPCA(3, mean_norm=1.0), "row_norm=None.*pass a public bound"),
        (DPPCA(3, row_norm=1.0), "mean_norm=None.*pass a public bound"),
        (DPPCA(row_norm=1.0), "mean_norm=None.*pass a public bound"),
        (DPTruncatedSVD(3), "row_norm=None.*pass a public bound"),
        (DPPCA(0.9, **BOUNDS), "n_components=0.9.*pass an int"),
        (DPPCA("mle", **BOUNDS), "n_components='mle'.*pass an int"),
        (DPTruncatedSVD(6, row_norm=1.0), "n_components=6 must be at most"),
        (DPPCA(3, row_norm=np.inf, mean_norm=1.0), "row_norm=inf with epsilon"),
        (DPPCA(3, delta=0, **BOUNDS), "delta=0"),
        (DPPCA(3, epsilon=-1.0, **BOUNDS), "epsilon"),
        (DPPCA(3, center=np.zeros(4), row_norm=1.0), "center has shape"),
        (DPTruncatedSVD(1, privacy_unit=Entry((0, 1))), "can be predicted for privacy_unit='row'"),
        (
            DPTruncatedSVD(1, privacy_unit=SparseRow(2, (0, 1))),
            "can be predicted for privacy_unit='row'",
        ),
    ],
)
def test_refuses_estimators(estimator, message):
    with pytest.raises(ValueError, match=message):
        expected_subspace_error(estimator, np.ones(5), 100)


@pytest.mark.parametrize(
    ("eigenvalues", "message"),
    [
        ([1.0, -0.1, 0.2], "-0.1.*not negative"),
        (np.eye(3), "one number a feature"),
        ([1.0, np.nan, 0.2], "eigenvalues contains NaN"),
        ([1.0, np.inf, 0.2], "eigenvalues contains infinity"),
        ([], "minimum of 1 is required"),
        (["large", "small"], "could not convert"),
    ],
)
def test_refuses_eigenvalues(eigenvalues, message):
    with pytest.raises(ValueError, match=message):
        expected_subspace_error(DPTruncatedSVD(1, row_norm=1.0), eigenvalues, 100)


@pytest.mark.parametrize(("n_samples", "error"), [(0, ValueError), (10.5, TypeError)])
def test_refuses_numbers_of_rows(n_samples, error):
    with pytest.raises(error, match="n_samples"):
        expected_subspace_error(DPTruncatedSVD(1, row_norm=1.0), np.ones(5), n_samples)


def test_refuses_other_estimators():
    with pytest.raises(TypeError, match="DPPCA or a DPTruncatedSVD"):
        expected_subspace_error("DPPCA", np.ones(5), 100)
