r"""Correlated noise for repeated releases: a square root of the matrix of prefix sums.

Let :math:`S = B C`, where S is the matrix that takes prefix sums over T epochs, and B and C are
lower triangular Toeplitz matrices. Then the released sequence :math:`S x + B z = S (x + C^{-1} z)`
is a function of :math:`C x + z`. A change of x in one epoch moves :math:`C x` by that change times
the norm of a column of C. The noise of the last sum has the norm of a row of B. For the square
root, :math:`B = C` with coefficients :math:`c_i = \binom{2i}{i} / 4^i`, both norms are near
:math:`\sqrt{\log T / \pi}` [1]_, [2]_. If a sum of decaying exponentials approximates the
coefficients, :math:`c_i = \sum_j \omega_j \theta_j^{i - 1}`, then :math:`C^{-1} z` takes one buffer
for each exponential [3]_.

Columns of C for later epochs are shorter. With D the diagonal matrix of their norms, the columns of
:math:`C D^{-1}` have norm 1, so that a change in one epoch moves :math:`C D^{-1} x` by its own
size. An epoch adds its entry of the noise :math:`D C^{-1} z`, which is smaller in later epochs.

References
----------
.. [1] H. Fichtenberger, M. Henzinger, J. Upadhyay (2023). "Constant matters: fine-grained error
   bound on differentially private continual observation". ICML. :arxiv:`2202.11205`
.. [2] S. Denisov, H. B. McMahan, J. K. Rush, A. Smith, A. G. Thakurta (2022). "Improved
   differential privacy for SGD via optimal private linear operators on adaptive streams". NeurIPS.
   :arxiv:`2202.08312`
.. [3] K. Dvijotham, H. B. McMahan, K. Pillutla, T. Steinke, A. G. Thakurta (2024). "Efficient and
   near-optimal noise generation for streaming differential privacy". FOCS. :arxiv:`2404.16706`
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls
from scipy.special import binom

_N_BUFFERS = 5  # not studied
# Slowest decay rate, times the horizon, and fastest decay rate; their logarithms are evenly spaced.
_SLOWEST, _FASTEST = 0.3, 3.0  # not studied
# Coefficients are fitted at this many lags.
_N_POINTS = 400  # not studied
# The recursion rounds by some 1e-13 of the noise, which may far exceed what one unit adds.
_RECURSION_MARGIN = 1 + 1e-6  # not tuned


@dataclass(frozen=True)
class PrefixNoise:
    """Coefficients of an approximate square root of prefix sums, for `horizon` epochs."""

    horizon: int
    decays: np.ndarray  # theta_j, (n_buffers,)
    weights: np.ndarray  # omega_j, (n_buffers,)

    @property
    def sensitivity(self) -> float:
        """How far a change of size 1 in one epoch moves the sums, with the rounding of `step`."""
        return _RECURSION_MARGIN if self.horizon > 1 else 1.0

    def column_norm(self, epoch: int) -> float:
        """Return the norm of the column of C that belongs to an epoch; epochs count from 0."""
        # Squares of coefficients sum to geometric series with ratios near 1. Logarithms keep the
        # digits of 1 minus a ratio.
        rates = 1 - self.decays
        logarithms = np.add.outer(np.log1p(-rates), np.log1p(-rates))
        sums = np.expm1((self.horizon - 1 - epoch) * logarithms) / np.expm1(logarithms)
        return float(np.sqrt(1 + self.weights @ sums @ self.weights))

    def step(self, fresh: np.ndarray, buffers: np.ndarray, epoch: int) -> np.ndarray:
        """Turn `fresh` noise into the noise to add in an epoch; overwrite it and the `buffers`."""
        for weight, buffer in zip(self.weights, buffers, strict=True):
            fresh -= weight * buffer
        for decay, buffer in zip(self.decays, buffers, strict=True):
            buffer *= decay
            buffer += fresh
        fresh *= self.column_norm(epoch)
        return fresh

    def next_covariance(self, covariance: np.ndarray, epoch: int) -> np.ndarray:
        """Return the covariance of the buffers and, last, the noise sum, after one more epoch."""
        norm, n_buffers = self.column_norm(epoch), len(self.decays)
        # `step` as a linear map of the buffers and the sum, with `added` times fresh noise.
        added = np.append(np.ones(n_buffers), norm)
        move = np.diag(np.append(self.decays, 1.0))
        move[:, :n_buffers] -= np.outer(added, self.weights)
        return np.asarray(move @ covariance @ move.T + np.outer(added, added))

    def window_std(self, first: int, last: int) -> float:
        """Return the noise std of a sum of epochs, from `first` to the one before `last`.

        The sum is the difference of two prefix sums. Fresh noise has std 1.
        """
        covariance = np.zeros((len(self.decays) + 1,) * 2)
        for epoch in range(last):
            if epoch == first:
                # The noise sum starts anew; the buffers still correlate it with earlier noise.
                covariance[-1], covariance[:, -1] = 0.0, 0.0
            covariance = self.next_covariance(covariance, epoch)
        return float(np.sqrt(covariance[-1, -1]))


def prefix_noise(horizon: int) -> PrefixNoise:
    """Fit decaying exponentials to the square root, by least squares of relative errors."""
    if horizon == 1:
        return PrefixNoise(1, np.zeros(0), np.zeros(0))
    decays = np.exp(-np.geomspace(_SLOWEST / horizon, _FASTEST, _N_BUFFERS))
    last = horizon - 1
    lags = np.unique(np.rint(np.geomspace(1, last, min(_N_POINTS, last))))
    # binom(2 i, i) / 4 ** i without overflow.
    coefficients = binom(lags - 0.5, lags)
    powers = decays ** (lags[:, np.newaxis] - 1)
    weights, _ = nnls(powers / coefficients[:, np.newaxis], np.ones(len(lags)))
    return PrefixNoise(horizon, decays, weights)
