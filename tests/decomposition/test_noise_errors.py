"""Errors of variances and components that follow from released values."""

import numpy as np
import pytest

from skdp import DPPCA, DPTruncatedSVD
from skdp.datasets import make_spiked
from skdp.decomposition.rows.moments import decompose
from skdp.linalg.spectrum import noise_edge, noise_errors
from skdp.units import Entry

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

NAMES = ("components_noise_angle_", "explained_variance_std_error_")
X = make_spiked(2000, 12, k=3, random_state=0)[0]


def pca(**more):
    return DPPCA(3, **{"solver": "covariance", "epsilon": 5.0, "row_norm": 8.0, **more})


def test_only_a_released_second_moment_has_errors_and_a_refit_drops_them():
    model = pca().fit(X)
    for name in NAMES:
        assert getattr(model, name).shape == (3,)
    model.set_params(solver="power").fit(X)
    others = [model, DPTruncatedSVD(3, solver="covariance").fit(X)]
    others += [DPPCA(3, privacy_unit=Entry((-9.0, 9.0))).fit(X[:50])]
    for name in NAMES:
        assert not any(hasattr(other, name) for other in others)


def test_without_noise_there_are_no_errors():
    model = DPPCA(3, epsilon=np.inf, row_norm=np.inf, mean_norm=np.inf, solver="covariance").fit(X)
    for name in NAMES:
        np.testing.assert_array_equal(getattr(model, name), 0)


def test_numbers_keep_the_type_of_the_rows():
    model = pca().fit(X.astype(np.float32))
    assert {getattr(model, name).dtype for name in NAMES} == {np.dtype(np.float32)}


@pytest.mark.covered
@pytest.mark.parametrize("values", [[5.0], [1e300, 0.0], [3.0, 3.0, 3.0], [0.0, 0.0], [1e9, -1e9]])
@pytest.mark.parametrize("noise", [1e-300, 1e-5, 1.0, 1e5])
def test_any_spectrum_has_errors(values, noise):
    with np.errstate(all="raise", under="ignore"):
        errors, angles = noise_errors(np.array(values), noise, noise_edge(noise, len(values)))
    assert np.isfinite(errors).all()
    assert (errors >= np.sqrt(2) * noise * (1 - 1e-12)).all()
    assert ((angles >= 0) & (angles <= np.pi / 2)).all()


# Gaps from a few units of the noise up, near its edge and far above it.
@pytest.mark.covered
@pytest.mark.parametrize("signal", [(3.0, 5.0, 8.0), (10.0, 14.0, 40.0)])
@pytest.mark.parametrize("n_features", [8, 60])
def test_nominal_95_percent_is_about_95(signal, n_features):
    """In 200 fits, of three eigenvalues each, beyond the edge of the noise, which is at 2."""
    generator, tau = np.random.default_rng(1), 1 / np.sqrt(n_features)
    exact = np.linspace(1, 0, n_features)
    exact[:3] = np.sort(signal)[::-1] + 1
    within, turned = [], []
    for _ in range(200):
        noise = generator.normal(size=(n_features, n_features)) * tau / np.sqrt(2)
        found = decompose(np.diag(exact) + noise + noise.T, np.sqrt(2) * tau)
        n = min(found.n_above_noise, 3)
        within += [*(np.abs(found.eigenvalues - exact)[:n] <= 1.96 * found.noise_errors[0][:n])]
        cosines = np.abs(np.diag(found.components)[:n])
        turned += [*(np.arccos(np.minimum(cosines, 1)) <= found.noise_errors[1][:n])]
    assert len(within) > 590
    for holds in (within, turned):
        assert 0.89 <= np.mean(holds) <= 0.995
