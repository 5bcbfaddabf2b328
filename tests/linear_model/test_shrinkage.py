"""What is known of the noise in a mean of iterates, and what is kept of that mean."""

import numpy as np
import pytest

from skdp.linear_model._weighted_rows import noise_in_mean
from skdp.linear_model.logistic.plan import centered


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
