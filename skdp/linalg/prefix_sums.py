r"""Correlated noise for repeated releases: a square root of the matrix of prefix sums.

Let x have one entry for each of T epochs, z be independent noise, and S the matrix of prefix sums,
with :math:`S = B C` for lower triangular Toeplitz matrices B and C. Then the released sequence
:math:`S x + B z = S (x + C^{-1} z)` is a function of :math:`C x + z`. If x changes in one epoch,
:math:`C x` moves by the change times the norm of a column of C. The noise of the last sum is the
norm of a row of B. For the square root, :math:`B = C` with coefficients
:math:`c_i = \binom{2i}{i} / 4^i`, both norms are near :math:`\sqrt{\log T / \pi}` [1]_, [2]_. If a
sum of decaying exponentials approximates the coefficients, :math:`c_i = \sum_j \omega_j
\theta_j^{i - 1}`, then computing :math:`C^{-1} z` takes one buffer for each exponential [3]_.

Columns of C for later epochs are shorter. With D the diagonal matrix of their norms, the columns of
:math:`C D^{-1}` have norm 1, so that a change in one epoch moves :math:`C D^{-1} x` by its own
size. The noise added in an epoch is an entry of :math:`D C^{-1} z`, smaller in later epochs.

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

# Number of decaying exponentials whose sum approximates the coefficients of a root of prefix sums.
_N_BUFFERS = 5  # not studied
# Decay rates go from `_SLOWEST`, divided by the horizon, to `_FASTEST`, with evenly spaced
# logarithms.
_SLOWEST, _FASTEST = 0.3, 3.0  # not studied
# The exponentials are fitted to the coefficients at this many lags.
_N_POINTS = 400  # not studied
# Factor of the sensitivity that covers rounding errors of the noise. In `PrefixNoise.step` these
# errors are about 1e-13 of the noise, which may be far larger than the sensitivity.
_RECURSION_MARGIN = 1 + 1e-6  # not tuned


@dataclass(frozen=True)
class PrefixNoise:
    """Coefficients of an approximate square root of prefix sums, for `horizon` epochs."""

    horizon: int
    decays: np.ndarray  # theta_j, (n_buffers,)
    weights: np.ndarray  # omega_j, (n_buffers,)

    @property
    def sensitivity(self) -> float:
        """Bound on how far a change of size 1 in one epoch moves C D^-1 x, with rounding errors."""
        return _RECURSION_MARGIN if self.horizon > 1 else 1.0

    def column_norm(self, epoch: int) -> float:
        """Return the norm of the column of C that belongs to an epoch; epochs count from 0."""
        # The sum of the squared coefficients is a sum of geometric series. Their ratios are near 1:
        # logarithms keep the digits of 1 minus a ratio.
        rates = 1 - self.decays
        logarithms = np.add.outer(np.log1p(-rates), np.log1p(-rates))
        sums = np.expm1((self.horizon - 1 - epoch) * logarithms) / np.expm1(logarithms)
        return float(np.sqrt(1 + self.weights @ sums @ self.weights))

    def step(self, fresh: np.ndarray, buffers: np.ndarray, epoch: int) -> np.ndarray:
        """Turn `fresh` noise into the noise to add in an epoch; overwrite `fresh` and `buffers`."""
        for weight, buffer in zip(self.weights, buffers, strict=True):
            fresh -= weight * buffer
        for decay, buffer in zip(self.decays, buffers, strict=True):
            buffer *= decay
            buffer += fresh
        fresh *= self.column_norm(epoch)
        return fresh

    def next_covariance(self, covariance: np.ndarray, epoch: int) -> np.ndarray:
        """Update the joint covariance of the buffers and, in last place, the sum of all noise."""
        norm, n_buffers = self.column_norm(epoch), len(self.decays)
        # `step` multiplies the buffers and the sum by `move`, and adds `added` times fresh noise.
        added = np.append(np.ones(n_buffers), norm)
        move = np.diag(np.append(self.decays, 1.0))
        move[:, :n_buffers] -= np.outer(added, self.weights)
        return np.asarray(move @ covariance @ move.T + np.outer(added, added))

    def window_std(self, first: int, last: int) -> float:
        """Return the noise std of the sum of epochs `first` to `last` - 1.

        This sum is the difference of two released prefix sums. Fresh noise has std 1.
        """
        covariance = np.zeros((len(self.decays) + 1,) * 2)
        for epoch in range(last):
            if epoch == first:
                # The sum of noise starts at 0 again, and the buffers still contain earlier noise.
                covariance[-1], covariance[:, -1] = 0.0, 0.0
            covariance = self.next_covariance(covariance, epoch)
        return float(np.sqrt(covariance[-1, -1]))


def prefix_noise(horizon: int) -> PrefixNoise:
    """Fit decaying exponentials to the coefficients c_i, by least squares of relative errors."""
    if horizon == 1:
        return PrefixNoise(1, np.zeros(0), np.zeros(0))
    decays = np.exp(-np.geomspace(_SLOWEST / horizon, _FASTEST, _N_BUFFERS))
    last = horizon - 1
    lags = np.unique(np.rint(np.geomspace(1, last, min(_N_POINTS, last))))
    # This binomial equals binom(2 i, i) / 4 ** i, which could overflow.
    coefficients = binom(lags - 0.5, lags)
    powers = decays ** (lags[:, np.newaxis] - 1)
    weights, _ = nnls(powers / coefficients[:, np.newaxis], np.ones(len(lags)))
    return PrefixNoise(horizon, decays, weights)
