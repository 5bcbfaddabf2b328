"""What is known of the noise in a mean of iterates, and what is kept of that mean."""

import numpy as np
import pytest

from skdp.linear_model._logistic_fit import Whitening, _noise_in_mean, centered, shrunk_mean


def descended(decay, start, n_steps, step_noise, generator, n_classes=3):
    """Iterates that noise moves and that decay to 0, each direction at its own pace."""
    weights, iterates = start, []
    for _ in range(n_steps):
        noise = step_noise * generator.normal(size=start.shape)
        weights = decay[:, np.newaxis] * weights + centered(noise)
        iterates.append(weights)
    return iterates


@pytest.mark.parametrize("n_steps", [8, 9, 40])
@pytest.mark.parametrize("decay", [0.0, 0.6, 1.0])
def test_the_noise_that_is_left_is_what_a_descent_leaves(n_steps, decay):
    generator, decays = np.random.default_rng(1), np.full(20_000, decay)
    iterates = descended(decays, np.zeros((20_000, 2)), n_steps, 0.1, generator)
    left = np.mean(iterates[n_steps // 2 :], axis=0)
    expected = 0.1**2 / 2 * _noise_in_mean(decays[:1], n_steps)[0]
    np.testing.assert_allclose(left.var(), expected, rtol=0.05)


@pytest.mark.parametrize(("fraction", "margin"), [(0.5, 0.0), (0.25, 2.0)])
@pytest.mark.parametrize(("size", "least", "most"), [(0.0, 0.0, 0.3), (3.0, 0.9, 1.0)])
def test_noise_is_drawn_to_the_fractions_of_the_classes(size, least, most, fraction, margin):
    d, n_steps, step = 400, 20, 2.0
    generator = np.random.default_rng(2)
    white = Whitening(np.zeros(d), np.eye(d), np.eye(d), np.ones(d), 1.0, 1.0, True, False)
    start = np.zeros((d + 1, 3))
    # Half of the largest curvature, 1/3 for three classes of the same size.
    decay = np.full(d + 1, 1 - step / 6)
    iterates = descended(decay, start, n_steps, 0.01, generator)
    signal = size * centered(generator.normal(size=(d + 1, 3)))
    moved = [signal + weights for weights in iterates]
    shrunk = shrunk_mean(moved, 0.01, step, start, white, fraction=fraction, margin=margin)
    mean = signal + np.mean(iterates[n_steps // 2 :], axis=0)
    kept = np.vdot(shrunk, mean) / np.vdot(mean, mean)
    np.testing.assert_allclose(shrunk, kept * mean, atol=1e-12)
    assert least <= kept <= most
