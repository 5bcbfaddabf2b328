r"""Estimates of nonnegative means from noisy ones.

Each number is :math:`\theta_j + \sigma z_j` with :math:`\theta_j \ge 0`. The prior of the
:math:`\theta_j` is any distribution on a grid, chosen by maximum likelihood; the posterior means
under it are nearly as good as under the true prior [1]_. If there are few large numbers among many
small ones, as in popularities of items, the large ones keep their size and the small ones lose
their noise.

References
----------
.. [1] W. Jiang, C.-H. Zhang (2009). "General maximum likelihood empirical Bayes estimation of
   normal means". Annals of Statistics 37(4). :doi:`10.1214/08-AOS638`
"""

import numpy as np

# In units of the noise: larger numbers need no shrinking, and the grid ends a unit further.
_REACH = 8  # not studied
# Points of the grid in a unit of the noise. The noisy numbers are rounded to these points, too.
_PER_UNIT = 8  # not studied
_N_STEPS = 100  # not studied
# If no mean exceeds this, in units of the noise, nothing stands out.
_LEAST = 1e-9  # not tuned


def positive_means(noisy: np.ndarray, noise_std: float) -> np.ndarray:
    """Estimate nonnegative means, not all 0, from numbers with Gaussian noise."""
    if noise_std == 0:
        return np.maximum(noisy, 0.0) if (noisy > 0).any() else np.ones(len(noisy))
    means = np.clip(noisy / noise_std, -_REACH, None)
    near = means <= _REACH
    if near.any():
        means[near] = _posterior_means(means[near])
    return noise_std * means if means.max() > _LEAST else np.full(len(means), noise_std)


def _posterior_means(values: np.ndarray) -> np.ndarray:
    """Compute posterior means for noise of variance 1, by expectation maximization on a grid."""
    rounded, places, counts = np.unique(
        np.round(_PER_UNIT * values), return_inverse=True, return_counts=True
    )
    grid = np.linspace(0, _REACH + 1, _PER_UNIT * (_REACH + 1) + 1)
    # Densities up to a factor for each number, which cancels.
    likelihood = np.exp(grid * (rounded[:, np.newaxis] / _PER_UNIT - grid / 2))
    prior = np.full(len(grid), 1 / len(grid))
    for _ in range(_N_STEPS):
        prior *= likelihood.T @ (counts / (likelihood @ prior)) / counts.sum()
    return np.asarray(((likelihood @ (prior * grid)) / (likelihood @ prior))[places])
