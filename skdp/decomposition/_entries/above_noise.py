r"""Tells which components stand out from noise, from released values and public scales alone.

A component counts if it passes two tests. The first asks whether the component exists: its singular
value, from the release of the core or of the noisy matrix, must exceed what noise alone gives there
in 999 of 1000 fits. The second asks whether its right vector v is useful: at least half of its
squared length must be signal.

An iteration finds v as the direction of :math:`A^T u` plus noise. The length of :math:`A^T u` is at
least the released singular value :math:`s = u^T A v`, and the noise in n rows has the expected
squared length :math:`n\, q^T \Gamma q`, where u = U q and :math:`\Gamma` is the covariance of the
noise in a row of the average of all products with the basis U. So the second test is

.. math:: s^2 \ge n\, q^T \Gamma q + 4 \tau^2

where :math:`\tau` is the standard deviation of the noise in the core: the last term rejects an s
that is mostly noise itself. The test ignores that the rows are shrunk afterwards. Shrinking helps
coherent vectors, so the test is too strict for them by a factor. For noise on every entry,
:mod:`skdp.linalg.singular_values` estimates the signal in v.

References
----------
.. [1] I. M. Johnstone (2001). "On the distribution of the largest eigenvalue in principal
   components analysis". Annals of Statistics 29(2). :doi:`10.1214/aos/1009210544`
.. [2] Z. Ma (2012). "Accuracy of the Tracy-Widom limits for the extreme eigenvalues in white
   Wishart matrices". Bernoulli 18(1). :doi:`10.3150/10-BEJ334`
"""

import math

import numpy as np
from scipy.special import chdtri, gammainccinv

_RISK = 1e-3  # benchmarks/entries/warned.md, "edge alone"
# At that risk, the quantile of the Tracy-Widom law of real matrices is 3.27, but small matrices
# exceed it twice as often. In simulations from order 2 up, they exceed this value no more often.
_TRACY_WIDOM = 3.84  # not studied
# A singular value must exceed this many standard deviations of its own noise in the second test.
_CORE_DEVIATIONS = 2.0  # benchmarks/entries/warned.md, "edge alone"


def gaussian_norm(shape: tuple[int, ...], noise_std: float) -> float:
    """Compute a bound that the spectral norm of Gaussian noise exceeds once in 1000 times."""
    # With the centering and scaling of Ma (2012) small matrices are closer to the limit law.
    m, n = np.array(shape) - 0.5
    edge = math.sqrt(m) + math.sqrt(n)
    fluctuation = edge * (1 / math.sqrt(m) + 1 / math.sqrt(n)) ** (1 / 3)
    # The limit law is not for a single row or column, whose squared norm has a chi-squared law.
    column = float(chdtri(max(shape), _RISK))
    return noise_std * math.sqrt(max(edge**2 + _TRACY_WIDOM * fluctuation, column))


def spherical_norm(shape: tuple[int, ...], noise_std: float) -> float:
    """Compute a bound that the Frobenius norm of spherical noise exceeds once in 1000 times."""
    size = math.prod(shape)
    return noise_std * float(gammainccinv(size, _RISK)) / math.sqrt(size + 1)


def count_above(
    singular_values: np.ndarray, *, floor: float, noise_squares: np.ndarray, core_std: float
) -> int:
    """Count the components that pass both tests.

    `noise_squares` are the expected squared lengths of the noise in the right vectors.
    """
    least = np.sqrt(noise_squares + (_CORE_DEVIATIONS * core_std) ** 2)
    return int(np.sum((singular_values > floor) & (singular_values >= least)))
