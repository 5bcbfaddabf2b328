"""Noise of prefix sums: the square root, its exponentials, and how much noise is left."""

from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy.linalg import toeplitz

from skdp.linalg.prefix_sums import prefix_noise


def coefficients(horizon):
    """First column of the approximate square root."""
    noise = prefix_noise(horizon)
    powers = noise.decays ** np.arange(horizon - 1)[:, np.newaxis]
    return np.concatenate([[1.0], powers @ noise.weights])


def noise_map(horizon):
    """What fresh noise becomes: the noise that the epochs add, a column for each draw."""
    noise = prefix_noise(horizon)
    buffers = np.zeros((len(noise.decays), horizon))
    return np.array([noise.step(row, buffers, t) for t, row in enumerate(np.eye(horizon))])


@pytest.mark.parametrize("horizon", [1, 2, 3, 7, 64, 500])
def test_the_recursion_inverts_the_square_root_with_columns_of_norm_1(horizon):
    noise = prefix_noise(horizon)
    root = toeplitz(coefficients(horizon), np.zeros(horizon))
    norms = np.array([noise.column_norm(t) for t in range(horizon)])
    np.testing.assert_allclose(norms, np.linalg.norm(root, axis=0), rtol=1e-11)
    np.testing.assert_allclose(root / norms @ noise_map(horizon), np.eye(horizon), atol=1e-11)
    # What the rounding of the recursion is charged.
    assert noise.sensitivity == (1 if horizon == 1 else 1 + 1e-6)


# The factor beside that of the square root whose columns are not normalized.
@pytest.mark.parametrize(
    ("horizon", "factor", "before"),
    [(1, 1.0, 1.0), (16, 1.67, 1.94), (64, 1.994, 2.389), (127, 2.151, 2.608), (1024, 2.63, 3.27)],
)
def test_the_noise_of_the_last_sum_and_of_every_other(horizon, factor, before):
    sums = np.cumsum(noise_map(horizon), axis=0)
    stds = np.linalg.norm(sums, axis=1)
    assert stds[-1] == pytest.approx(factor, abs=0.005)
    noise = prefix_noise(horizon)
    plain = noise.column_norm(0) * np.linalg.norm(
        np.cumsum(noise_map(horizon) / [[noise.column_norm(t)] for t in range(horizon)], axis=0),
        axis=1,
    )
    assert plain[-1] == pytest.approx(before, abs=0.005)
    # No sum has more noise than with the plain columns.
    assert (stds <= plain * (1 + 1e-12)).all()


@pytest.mark.parametrize("horizon", [1, 5, 64])
def test_the_covariance_is_that_of_the_sums(horizon):
    noise, covariance = prefix_noise(horizon), 0.0
    sums = np.cumsum(noise_map(horizon), axis=0)
    covariance = np.zeros((len(noise.decays) + 1,) * 2)
    for t, row in enumerate(sums):
        covariance = noise.next_covariance(covariance, t)
        assert covariance[-1, -1] == pytest.approx(row @ row, rel=1e-11)


def test_a_column_norm_holds_at_the_largest_horizon():
    # Fractions of the coefficients: the slowest decay differs from 1 by some 1e-13.
    noise = prefix_noise(2**40)
    decays = [Fraction(float(one)) for one in noise.decays]
    weights = [Fraction(float(one)) for one in noise.weights]
    # Five terms of a geometric series are exact in fractions; near the end few are left.
    for n_left in (1, 5):
        exact = 1 + sum(
            sum(w * one**lag for w, one in zip(weights, decays, strict=True)) ** 2
            for lag in range(n_left)
        )
        assert noise.column_norm(2**40 - 1 - n_left) == pytest.approx(
            float(exact) ** 0.5, rel=1e-12
        )
    # The whole series, of which all powers but of 1 - 1e-13 have vanished.
    mp.dps = 60
    ratios = [[mpf(float(a)) * mpf(float(b)) for b in noise.decays] for a in noise.decays]
    whole = 1 + sum(
        mpf(float(w)) * mpf(float(v)) * (1 - ratio ** (2**40 - 1)) / (1 - ratio)
        for w, row in zip(noise.weights, ratios, strict=True)
        for v, ratio in zip(noise.weights, row, strict=True)
    )
    assert noise.column_norm(0) == pytest.approx(float(mp.sqrt(whole)), rel=1e-10)


def test_every_entry_has_noise_of_its_own():
    noise, buffers = prefix_noise(4), np.zeros((5, 2, 3))
    fresh = np.random.default_rng(0).normal(size=(4, 2, 3))
    added = np.array([noise.step(each.copy(), buffers, t) for t, each in enumerate(fresh)])
    np.testing.assert_allclose(np.tensordot(noise_map(4), fresh, axes=1), added, atol=1e-12)
