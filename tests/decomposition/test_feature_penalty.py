"""The released diagonal as a prior of the entries of components."""

import math

import numpy as np
import pytest

from skdp.decomposition.rows.moments import decompose, decompose_guided, decompose_with_axis

pytestmark = pytest.mark.filterwarnings("ignore:Only .* stand:skdp.PrivacyWarning")


def noise_like(n_features, noise_std, seed=0):
    noise = noise_std * np.random.default_rng(seed).normal(size=(n_features, n_features))
    upper = np.triu(noise, 1) * math.sqrt(0.5)
    return np.diag(np.diag(noise)) + upper + upper.T


def strong_and_empty(n_strong=5, n_empty=60, noise_std=1.0, seed=0):
    """Noisy second moment with one direction, within the first features."""
    direction = np.zeros(n_strong + n_empty)
    direction[:n_strong] = 1 / math.sqrt(n_strong)
    moment = 15 * noise_std * np.outer(direction, direction)
    return moment + noise_like(len(direction), noise_std, seed), direction


@pytest.mark.parametrize("unit", [2.0**-300, 0.25, 2.0**300])
def test_components_know_no_unit(unit):
    noisy, _ = strong_and_empty()
    once, other = decompose(noisy, 1.0, 2), decompose(unit * noisy, unit, 2)
    np.testing.assert_allclose(once.components, other.components, atol=1e-9)
    np.testing.assert_allclose(unit * once.eigenvalues, other.eigenvalues, rtol=1e-9)


def test_beside_the_mean_features_that_hold_nothing_get_smaller_entries():
    noisy, direction = strong_and_empty()
    axis = np.zeros(len(direction))
    axis[-1] = 1.0
    noisy += 400 * np.outer(axis, axis)
    ours, plain = (
        decompose_with_axis(noisy, 1.0, axis, n_components=k).components[1] for k in (2, None)
    )
    assert np.linalg.norm(ours[5:]) < 0.9 * np.linalg.norm(plain[5:])
    assert abs(ours @ direction) > abs(plain @ direction)


@pytest.mark.covered(at_most=20)
@pytest.mark.parametrize(
    "noisy",
    [
        np.array([[3.0]]),
        np.array([[-3.0]]),
        np.zeros((1, 1)),
        np.zeros((4, 4)),
        np.full((4, 4), -1.0),
        np.diag([-1.0, -2.0, 0.0, 5.0]),
        np.diag([1.0, 1e-300, -1e-300, 1e6]),
    ],
    ids=str,
)
@pytest.mark.parametrize("unit", [1e-150, 1.0, 1e150, 1e290])
@pytest.mark.parametrize("noise_std", [1e-13, 1.0, 1e9])
@pytest.mark.filterwarnings("error")
def test_no_moment_is_too_odd_for_it(noisy, unit, noise_std):
    """Released values never raise, or warn."""
    for k in (1, len(noisy)):
        factors = decompose(unit * noisy, unit * noise_std, n_components=k)
        np.testing.assert_allclose(
            factors.components @ factors.components.T, np.eye(len(noisy)), atol=1e-9
        )
        assert np.isfinite(factors.eigenvalues).all()
        assert (factors.eigenvalues >= 0).all()
        assert (np.diff(factors.eigenvalues) <= 0).all()
        if len(noisy) > 1:
            axis = np.full(len(noisy), 1 / math.sqrt(len(noisy)))
            components = decompose_guided(
                unit * noisy, unit * noise_std, axis, n_components=k
            ).components
            np.testing.assert_allclose(components @ components.T, np.eye(len(noisy)), atol=1e-6)
