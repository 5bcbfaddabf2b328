"""Published private PCA in numpy, for comparison and NOT for private rows.

The noise is numpy's and floating-point rounding is not accounted for. Rows have norm 1 at most, and
neighbors differ by one row that is exchanged for another. Each port takes the second moment of the
rows, as noise is all that varies between seeds, and returns components as rows.

References
----------
.. [1] C. Dwork, K. Talwar, A. Thakurta, L. Zhang (2014). "Analyze Gauss: optimal bounds for
   privacy-preserving principal component analysis". STOC. doi:10.1145/2591796.2591883
.. [2] C. Dwork, A. Roth (2014). "The algorithmic foundations of differential privacy". Foundations
   and Trends in Theoretical Computer Science 9(3-4). doi:10.1561/0400000042
.. [3] B. Balle, Y.-X. Wang (2018). "Improving the Gaussian mechanism for differential privacy:
   analytical calibration and optimal denoising". ICML. arXiv:1805.06530
.. [4] M. Hardt, E. Price (2014). "The noisy power method: a meta algorithm with applications".
   NIPS. arXiv:1311.2495
"""

import math
from collections.abc import Callable

import numpy as np
from scipy.linalg import eigh

from skdp.privacy.gaussian_dp import mu_from_epsilon_delta

__all__ = ["PORTS", "top"]

# Frobenius norm of the change of a second moment, and of its upper triangle, attained by exchanging
# a row for one orthogonal to it along another axis.
_SENSITIVITY = math.sqrt(2)
_STEPS = 3

Port = Callable[[np.ndarray, int, float, float, np.random.Generator], np.ndarray]


def top(moment: np.ndarray, k: int) -> np.ndarray:
    d = len(moment)
    return eigh(moment, subset_by_index=(d - k, d - 1))[1][:, ::-1].T


def _copied_triangle(moment: np.ndarray, scale: float, random: np.random.Generator) -> np.ndarray:
    G = np.triu(scale * random.normal(size=moment.shape))
    return moment + G + np.triu(G, 1).T


def analyze_gauss_classic(
    moment: np.ndarray, k: int, epsilon: float, delta: float, random: np.random.Generator
) -> np.ndarray:
    """Analyze Gauss [1]_ with the noise of textbooks [2]_, proved for epsilon below 1."""
    scale = _SENSITIVITY * math.sqrt(2 * math.log(1.25 / delta)) / epsilon
    return top(_copied_triangle(moment, scale, random), k)


def analyze_gauss_exact(
    moment: np.ndarray, k: int, epsilon: float, delta: float, random: np.random.Generator
) -> np.ndarray:
    """Analyze Gauss [1]_ with the smallest noise that is enough [3]_."""
    scale = _SENSITIVITY / mu_from_epsilon_delta(epsilon, delta)
    return top(_copied_triangle(moment, scale, random), k)


def power_published(
    moment: np.ndarray, k: int, epsilon: float, delta: float, random: np.random.Generator
) -> np.ndarray:
    """Run the noisy power method as published [4]_, with a basis of size k.

    Its sensitivity grows with the basis: sqrt(k) times the largest entry, here the 1 that an entry
    of an orthonormal basis can reach, as the factor read off the iterate is too small for rows.
    """
    scale = math.sqrt(4 * k * _STEPS * math.log(1 / delta)) / epsilon
    basis = np.linalg.qr(random.normal(size=(len(moment), k)))[0]
    for _ in range(_STEPS):
        basis = np.linalg.qr(moment @ basis + scale * random.normal(size=basis.shape))[0]
    return basis.T


PORTS: dict[str, Port] = {
    "Analyze Gauss, classic": analyze_gauss_classic,
    "Analyze Gauss, exact": analyze_gauss_exact,
    "power method, published": power_published,
}
