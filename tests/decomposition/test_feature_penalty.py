"""The released diagonal as a prior of the entries of components."""

import math
from unittest.mock import patch

import numpy as np
import pytest

from skdp import DPPCA, DPTruncatedSVD
from skdp.datasets import make_spiked
from skdp.decomposition.rows import moments as rows_moments
from skdp.decomposition.rows.moments import (
    decompose,
    decompose_guided,
    decompose_with_axis,
    feature_penalty,
)

pytestmark = pytest.mark.filterwarnings("ignore:Only .* stand:skdp.PrivacyWarning")
# Good for repeatable tests, and for nothing else.
KEY = 0x2D8F61A0C97B4E53B80A4C6E19D37F25


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


def test_a_flat_diagonal_changes_no_component():
    noisy = noise_like(30, 1.0) + 20 * np.outer(np.ones(30), np.ones(30)) / 30
    np.fill_diagonal(noisy, 25.0)
    ours, plain = decompose(noisy, 1.0, n_components=3), decompose(noisy, 1.0)
    assert np.ptp(feature_penalty(np.diag(noisy), 1.0, 3)) == 0
    assert feature_penalty(np.diag(noisy), 1.0, 3)[0] > 0
    overlaps = np.abs(np.sum(ours.components * plain.components, axis=1))
    np.testing.assert_allclose(overlaps, 1.0, atol=1e-9)
    np.testing.assert_allclose(ours.eigenvalues, plain.eigenvalues, atol=1e-9)
    assert ours.n_above_noise == plain.n_above_noise


@pytest.mark.parametrize("unit", [2.0**-300, 0.25, 2.0**300])
def test_components_know_no_unit(unit):
    noisy, _ = strong_and_empty()
    once, other = decompose(noisy, 1.0, 1.0, 2), decompose(unit * noisy, unit, 1.0, 2)
    np.testing.assert_allclose(once.components, other.components, atol=1e-9)
    np.testing.assert_allclose(unit * once.eigenvalues, other.eigenvalues, rtol=1e-9)


def test_features_that_hold_nothing_get_smaller_entries():
    for seed in range(5):
        noisy, direction = strong_and_empty(seed=seed)
        ours, plain = (decompose(noisy, 1.0, n_components=k).components[0] for k in (1, None))
        assert np.linalg.norm(ours[5:]) < 0.9 * np.linalg.norm(plain[5:])
        assert abs(ours @ direction) > abs(plain @ direction)


@pytest.mark.parametrize("k", [2, 10, 50])
def test_components_go_by_their_second_moment_however_many_there_are(k):
    moment, push = np.zeros((50, 50)), math.sqrt(0.5 * 50)
    moment[0, 0] = 200 * push
    moment[10:, 10:] = 3 * push / 40
    noisy = moment + noise_like(50, 1.0)
    ours, plain = decompose(noisy, 1.0, n_components=k), decompose(noisy, 1.0)
    held = [np.sum((one.components[:2] @ moment) * one.components[:2]) for one in (ours, plain)]
    assert held[0] > 0.99 * held[1]
    np.testing.assert_allclose(ours.eigenvalues[:2], plain.eigenvalues[:2], rtol=0.15)
    if k == 50:
        np.testing.assert_allclose(ours.eigenvalues, plain.eigenvalues, atol=1e-9)


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


def test_the_penalty_is_the_formula_and_fades_far_above_the_noise():
    # Numbers far above their noise stay what they are.
    held, noise_std, k = np.array([10.0, 20.0, 40.0, 80.0]), 0.5, 2
    push = noise_std * math.sqrt(0.5 * 4)
    for unit in (1.0, 100.0):
        average = unit * held.sum() / k
        fade = min(1.0, 5 * push / average) ** 2
        expected = push / 3 * fade * held.mean() / held
        np.testing.assert_allclose(feature_penalty(unit * held, noise_std, k), expected, rtol=1e-9)
    assert fade < 1e-3


def test_without_noise_or_a_number_of_components_nothing_changes():
    noisy, _ = strong_and_empty()
    assert not feature_penalty(np.diag(noisy), 0.0, 2).any()
    assert not feature_penalty(np.diag(noisy), 1.0, None).any()


@pytest.mark.parametrize("n_components", [None, 0.9])
def test_a_fit_whose_rank_the_spectrum_decides_has_no_penalty(n_components):
    X, _ = make_spiked(500, 20, k=3, random_state=0)
    pca = DPPCA(n_components, row_norm=1.0, mean_norm=1.0, random_state=KEY)
    with patch.object(rows_moments, "positive_means", side_effect=AssertionError):
        pca.fit(X)


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


@pytest.mark.parametrize(
    ("make", "shape", "settings"),
    [
        (DPTruncatedSVD, (2000, 30), {"solver": "covariance"}),
        (DPTruncatedSVD, (2000, 30), {"solver": "adaptive", "epsilon": 0.1}),
        (DPPCA, (2000, 30), {"mean_norm": 1.0}),
    ],
)
def test_every_fit_that_has_a_matrix_subtracts_it(make, shape, settings):
    X, _ = make_spiked(*shape, k=3, random_state=0)
    estimator = make(3, row_norm=1.0, random_state=KEY, **settings)
    with patch.object(rows_moments, "feature_penalty", wraps=feature_penalty) as asked:
        estimator.fit(X)
        estimator.fit(np.abs(X))
    assert [call.args[2] for call in asked.call_args_list] == [3, 3]
