"""Shrink the mean of the iterates by the noise that is known to be in it."""

import numpy as np
from scipy.special import softmax

from skdp.linear_model._logistic.whitening import Whitening

# Curvature of the clipped loss, as a fraction of that of the logistic loss where all probabilities
# are the fractions of the classes. There it is largest.
_CURVATURE = 0.5  # benchmarks/classification/constants.md


def shrunk_mean(
    iterates: list[np.ndarray], step_noise: float, step: float, start: np.ndarray, white: Whitening
) -> np.ndarray:
    """Average the last half of the iterates, and draw them to the fractions of the classes.

    What is kept is one less the fraction of the variance of the scores that is noise, as James and
    Stein have it. Noise of a gradient stays in an iterate until later steps take it out, which they
    hardly do in directions in which whitened rows vary little. `step_noise` is what a gradient
    adds to an entry of the weights.
    """
    n_steps, n_classes = len(iterates), start.shape[1]
    mean = np.mean(iterates[n_steps // 2 :], axis=0)
    fractions = softmax(start[-1])
    curvature = (1 - np.sum(fractions**2)) / (n_classes - 1)
    decay = 1 - _CURVATURE * step * curvature * white.spread
    noise = (n_classes - 1) * step_noise**2 * white.spread @ _noise_in_mean(decay, n_steps)
    size = white.spread @ np.sum((white.vectors.T @ mean[:-1]) ** 2, axis=1)
    kept = max(0.0, 1 - noise / size) if size > 0 else 0.0
    shrunk = kept * mean
    shrunk[-1] += (1 - kept) * start[-1]
    return np.asarray(shrunk)


def _noise_in_mean(decay: np.ndarray, n_steps: int) -> np.ndarray:
    """Add up what each step's noise of variance 1 leaves in the mean of the last half."""
    left = np.cumsum(decay[:, np.newaxis] ** np.arange(n_steps), axis=1)
    n_kept = n_steps - n_steps // 2
    # Noise of the first half has decayed before the mean begins.
    before = np.zeros_like(left)
    before[:, n_kept:] = left[:, : n_steps - n_kept]
    return np.asarray(np.sum((left - before) ** 2, axis=1) / n_kept**2)
