"""What is known of the noise in a mean of iterates, and what is kept of that mean."""

from types import SimpleNamespace

import numpy as np
import pytest

from skdp.linear_model._weighted_rows import noise_in_mean
from skdp.linear_model.logistic.plan import (
    Pace,
    Whitening,
    centered,
    known_of,
    momentum_of,
    seen_spread,
    shrinkage_of_hidden,
)


def white_of(spread, class_noise=0.0):
    eye = np.eye(len(spread))
    zeros = np.zeros(len(spread))
    found = zeros, eye, eye, spread, 1.0, 1.0, True, spread
    return Whitening(*found, False, zeros > 0, class_noise)


def descended(decay, start, n_steps, step_noise, generator, momentum=0.0):
    """Iterates that noise moves and that decay to 0, each direction at its own pace."""
    before, weights, iterates = start, start, []
    for _ in range(n_steps):
        noise = step_noise * generator.normal(size=start.shape)
        ahead = weights + momentum * (weights - before)
        before, weights = weights, decay[:, np.newaxis] * ahead + centered(noise)
        iterates.append(weights)
    return iterates


@pytest.mark.covered
@pytest.mark.parametrize("n_steps", [8, 9, 40])
@pytest.mark.parametrize("decay", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])
def test_the_noise_that_is_left_is_what_a_descent_leaves(n_steps, decay, momentum):
    generator, decays = np.random.default_rng(1), np.full(20_000, decay)
    iterates = descended(decays, np.zeros((20_000, 2)), n_steps, 0.1, generator, momentum)
    left = np.mean(iterates[n_steps // 2 :], axis=0)
    expected = 0.1**2 / 2 * noise_in_mean(decays[:1], momentum, n_steps)[0]
    np.testing.assert_allclose(left.var(), expected, rtol=0.05)


def test_the_spread_of_hidden_directions_is_known_in_their_mean():
    """Noise alone has eigenvalues on both sides of 0, and one side would look like a spread."""
    d, noise_std = 400, 0.1
    noise = noise_std * np.random.default_rng(0).normal(size=(d, d))
    # In units of their edge.
    values = np.linalg.eigvalsh((noise + noise.T) / 2) / (np.sqrt(2 * d) * noise_std)
    values = np.minimum(values, 0.999)
    spread = np.append(values, 1.0)
    assert np.maximum(values, 0).sum() > 0.2 * d
    seen = seen_spread(white_of(spread), 2.0)
    assert seen[-1] == 1
    assert 1 < seen[:-1].sum() < 8


@pytest.mark.parametrize("spread", [1.0, 0.05], ids=["whitened", "hidden"])
@pytest.mark.parametrize("correlation", [0.0, 0.3])
def test_the_start_tells_what_rows_explain_of_the_classes(correlation, spread):
    """Rows explain that part of each class, in all directions alike."""
    d, n_classes, noise = 400, 5, 0.002
    generator = np.random.default_rng(0)
    cross = centered(generator.normal(size=(d, n_classes)))
    cross *= np.sqrt(spread * correlation * (1 - 1 / n_classes) / np.sum(cross**2))
    start = np.zeros((d + 1, n_classes))
    start[:-1] = n_classes * (cross + centered(noise * generator.normal(size=cross.shape)))
    told = known_of(start, white_of(np.full(d, spread), noise))
    if spread == 1:
        np.testing.assert_allclose([told.total, told.hidden], [correlation, 0], atol=0.02)
        assert told.clearest >= told.total
    else:
        # The classes' directions count as if they varied four times as much as they do here.
        found, seen = spread * correlation, 4 * (spread + 2 / d)
        assert told.total == told.hidden
        np.testing.assert_allclose(told.hidden, found / (seen + found), atol=0.01)
        np.testing.assert_allclose(told.started, seen + found, atol=0.01)


def momentum_at(step_noise, slope, offsets=0.0, strength=9):
    d, n_classes = 20, 10
    known = {"n_columns": n_classes, "n_units": 10**5, "n_features": d, "strength": strength}
    spec = SimpleNamespace(n_classes=n_classes, **known)
    start = slope * centered(np.random.default_rng(0).normal(size=(d + 1, n_classes)))
    start[-1] = offsets
    return momentum_of(spec, Pace(50, 4.0, 0.0, 0.025, step_noise), start, white_of(np.ones(d)))


@pytest.mark.parametrize(
    ("step_noise", "slope", "expected"),
    [(1e-4, 1.0, 0.9), (1.0, 1.0, 0.0), (1e-4, 0.01, 0.0)],
    ids=["little noise", "much noise", "classes overlap"],
)
def test_steps_go_on_where_that_gains_more_than_noise_takes(step_noise, slope, expected):
    assert momentum_at(step_noise, slope) == expected


@pytest.mark.parametrize(("strength", "least"), [(15, 0.5), (25, 0.8), (50, 0.9)])
def test_steps_lead_farther_the_stronger_the_signal(strength, least):
    """Steps of several classes ended far from the optimum at any budget."""
    assert momentum_at(1e-4, 0.01, strength=strength * 9) == least


def test_no_momentum_where_two_of_many_classes_would_make_steps_diverge():
    assert momentum_at(1e-4, 1.0, np.repeat([0.0, -20.0], [2, 8]), 450) == 0


def test_hidden_weights_that_may_be_noise_are_dropped():
    """Not those of a signal, nor where rows vary enough."""
    pace = Pace(40, 2.0, 0.8, 1 / 3, 0.01)
    for size, spread, expected in [(1.0, 0.0, 0), (1.2, 0.0, 1), (1.0, 0.5, 1)]:
        weights = size * np.sqrt(pace.weight_noise(np.full((100, 1), spread)))
        kept = shrinkage_of_hidden(weights, pace, white_of(np.full(100, spread)))
        assert kept == pytest.approx(expected, abs=0.01)
