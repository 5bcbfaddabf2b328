r"""Which released components stand out from noise, by released values and public scales alone.

A component counts if it passes two tests. The first asks whether there is anything: its singular
value comes from a release of its own, the core or the noisy matrix, and has to exceed what noise
alone gives there in 999 of 1000 fits. The second asks whether its right vector v is of use: half of
its squared length, or more, has to be signal.

An iteration finds v as the direction of :math:`A^T u` plus noise. The former is at least as long as
the released singular value :math:`s = u^T A v`, and the noise in n rows has the expected squared
length :math:`n\, q^T \Gamma q`, where u = U q and :math:`\Gamma` is the covariance of the noise in
a row of the average of all products with the basis U. So

.. math:: s^2 \ge n\, q^T \Gamma q + 4 \tau^2

is asked for; the last term, with :math:`\tau` the scale of the core, keeps out an s that is mostly
noise itself. The test ignores that the rows are shrunk afterwards, which helps coherent vectors:
for these it is too strict by a factor. For noise on every entry :mod:`skdp.linalg.singular_values`
tells the part of v that is left, which is compared with a half.

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

__all__ = ["count_above", "gaussian_norm", "spherical_norm"]

_RISK = 1e-3  # benchmarks/entries/warned.md, "edge alone"
# The quantile of the Tracy-Widom law of real matrices at that risk is 3.27, but small matrices
# exceed it twice as often. In simulations from order 2 up, this value is not exceeded more often.
_TRACY_WIDOM = 3.84  # not studied
# A singular value has to exceed its own noise by so many standard deviations to count as a length.
_CORE_DEVIATIONS = 2.0  # benchmarks/entries/warned.md, "edge alone"


def gaussian_norm(shape: tuple[int, ...], noise_std: float) -> float:
    """Compute what the spectral norm of independent Gaussian noise exceeds once in 1000 times."""
    # Centering and scaling are those of Ma (2012), which converge faster.
    m, n = np.array(shape) - 0.5
    edge = math.sqrt(m) + math.sqrt(n)
    fluctuation = edge * (1 / math.sqrt(m) + 1 / math.sqrt(n)) ** (1 / 3)
    # The limit is not meant for a single row or column, whose norm has a chi-squared law.
    column = float(chdtri(max(shape), _RISK))
    return noise_std * math.sqrt(max(edge**2 + _TRACY_WIDOM * fluctuation, column))


def spherical_norm(shape: tuple[int, ...], noise_std: float) -> float:
    """Compute what the Frobenius norm of spherical noise exceeds once in 1000 times."""
    size = math.prod(shape)
    return noise_std * float(gammainccinv(size, _RISK)) / math.sqrt(size + 1)


def count_above(
    singular_values: np.ndarray, *, floor: float, noise_squares: np.ndarray, core_std: float
) -> int:
    """Count the components that pass both tests; noise has these expected squared lengths."""
    least = np.sqrt(noise_squares + (_CORE_DEVIATIONS * core_std) ** 2)
    return int(np.sum((singular_values > floor) & (singular_values >= least)))
