r"""Correlated noise for repeated releases: a square root of the matrix of prefix sums.

Let :math:`1 = B C`, where 1 is the matrix that takes prefix sums, and B and C are lower triangular
Toeplitz matrices. Then the sequence :math:`1 x + B z = 1 (x + C^{-1} z)` is a function of
:math:`C x + z`. A change in any one epoch moves :math:`C x` by the norm of a column of C. The noise
of the last sum grows with the norm of a row of B. The square root, with the coefficients
:math:`c_i = \binom{2i}{i} / 4^i`, keeps both norms near :math:`\sqrt{\log T / \pi}` [1]_, [2]_. If
decaying exponentials approximate it, :math:`c_i = \sum_j \omega_j \theta_j^{i - 1}`, then C is
inverted with one buffer for each of them [3]_.

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
# Smallest rate of decay, times the horizon, and largest rate. The logarithms of all rates are
# evenly spaced.
_SLOWEST, _FASTEST = 0.3, 3.0  # not studied
# Number of lags at which the coefficients are fitted.
_N_POINTS = 400  # not studied
# The recursion rounds by some 1e-13 of the noise, and the change by one unit may be small beside
# the noise.
_RECURSION_MARGIN = 1 + 1e-6  # not tuned


@dataclass(frozen=True)
class PrefixNoise:
    """Coefficients of the approximate square root, for `horizon` epochs."""

    horizon: int
    decays: np.ndarray  # theta_j, (n_buffers,)
    weights: np.ndarray  # omega_j, (n_buffers,)
    column_norm: float  # bounds the norm of any column of C, rounding of the recursion included

    def step(self, fresh: np.ndarray, buffers: np.ndarray) -> np.ndarray:
        """Turn `fresh` noise into the noise that an epoch adds; overwrites it and the `buffers`."""
        for weight, buffer in zip(self.weights, buffers, strict=True):
            fresh -= weight * buffer
        for decay, buffer in zip(self.decays, buffers, strict=True):
            buffer *= decay
            buffer += fresh
        return fresh


def prefix_noise(horizon: int) -> PrefixNoise:
    """Fit the exponentials for `horizon` epochs, by relative errors of the coefficients."""
    if horizon == 1:
        return PrefixNoise(1, np.zeros(0), np.zeros(0), 1.0)
    decays = np.exp(-np.geomspace(_SLOWEST / horizon, _FASTEST, _N_BUFFERS))
    last = horizon - 1
    lags = np.unique(np.rint(np.geomspace(1, last, min(_N_POINTS, last))))
    # Equals the binomial coefficient of 2 i over i, divided by 4 ** i, and does not overflow.
    coefficients = binom(lags - 0.5, lags)
    powers = decays ** (lags[:, np.newaxis] - 1)
    weights, _ = nnls(powers / coefficients[:, np.newaxis], np.ones(len(lags)))
    column_norm = _column_norm(decays, weights, horizon) * _RECURSION_MARGIN
    return PrefixNoise(horizon, decays, weights, column_norm)


def _column_norm(decays: np.ndarray, weights: np.ndarray, horizon: int) -> float:
    """Sum the squared coefficients, which are geometric series."""
    ratios = np.outer(decays, decays)
    sums = -np.expm1((horizon - 1) * np.log(ratios)) / (1 - ratios)
    return float(np.sqrt(1 + weights @ sums @ weights))
