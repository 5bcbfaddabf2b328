"""Noise of prefix sums: the square root, its exponentials, and how much noise is left."""

import numpy as np
import pytest
from scipy.special import comb

from skdp.linalg.prefix_sums import prefix_noise


def coefficients(horizon):
    """First column of the approximate square root."""
    noise = prefix_noise(horizon)
    powers = noise.decays ** np.arange(horizon - 1)[:, np.newaxis]
    return np.concatenate([[1.0], powers @ noise.weights])


def response(horizon):
    """What noise 1 in the first epoch becomes: first column of the inverse."""
    noise = prefix_noise(horizon)
    buffers = np.zeros((len(noise.decays), 1))
    return np.array(
        [noise.step(np.full(1, float(epoch == 0)), buffers)[0] for epoch in range(horizon)]
    )


@pytest.mark.parametrize("horizon", [1, 2, 3, 7, 64, 500])
def test_the_recursion_inverts_the_square_root(horizon):
    product = np.convolve(coefficients(horizon), response(horizon))[:horizon]
    np.testing.assert_allclose(product, np.eye(1, horizon)[0], atol=1e-12)
    # With what the rounding of the recursion is charged.
    ratio = prefix_noise(horizon).column_norm / np.linalg.norm(coefficients(horizon))
    assert ratio == pytest.approx(1 + 1e-6 * (horizon > 1), rel=1e-11)


@pytest.mark.parametrize(
    ("horizon", "factor"), [(1, 1.0), (64, 2.389), (127, 2.608), (1024, 3.274), (2**14, 4.170)]
)
def test_the_noise_of_the_last_sum_is_nearly_that_of_the_exact_root(horizon, factor):
    row = np.linalg.norm(np.cumsum(response(horizon)))
    assert prefix_noise(horizon).column_norm * row == pytest.approx(factor, rel=1e-3)
    steps = np.arange(min(horizon, 500))
    exact = np.sum((comb(2 * steps, steps) / 4.0**steps) ** 2)
    if horizon <= 500:
        assert factor == pytest.approx(exact, rel=5e-3)


def test_every_entry_has_noise_of_its_own():
    noise, buffers = prefix_noise(4), np.zeros((5, 2, 3))
    fresh = np.random.default_rng(0).normal(size=(4, 2, 3))
    added = np.array([noise.step(each.copy(), buffers) for each in fresh])
    root = sum(c * np.eye(4, k=-lag) for lag, c in enumerate(coefficients(4)))
    np.testing.assert_allclose(np.tensordot(root, added, axes=1), fresh, atol=1e-12)
