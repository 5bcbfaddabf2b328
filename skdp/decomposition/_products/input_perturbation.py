"""Noise on every entry of the matrix, whose singular value decomposition is then free.

References
----------
A. Blum, C. Dwork, F. McSherry, K. Nissim (2005). "Practical privacy: the SuLQ framework". PODS.
:doi:`10.1145/1065167.1065184`
"""

import numpy as np

from skdp.decomposition._factors import Factors
from skdp.decomposition._products.above_noise import gaussian_norm
from skdp.decomposition._products.noisy_matrix import NoisyMatrix
from skdp.linalg.singular_values import without_push

__all__ = ["solve_input"]


def solve_input(matrix: NoisyMatrix, *, n_components: int) -> Factors:
    """Decompose the noisy matrix.

    Time O(m n min(m, n)), memory O(m n): sparse rows become dense.
    """
    noisy, scale = matrix.perturbed("matrix")
    left, singular_values, right = np.linalg.svd(noisy, full_matrices=False)
    seen = singular_values[:n_components]
    cleaned = without_push(seen, scale, noisy.shape)
    is_found = seen > gaussian_norm(noisy.shape, scale)
    is_found &= _is_mostly_signal(cleaned, scale, noisy.shape)
    return matrix.factors(
        left[:, :n_components],
        cleaned,
        right[:n_components].T,
        noise_scale=scale,
        n_above_noise=int(np.sum(is_found)),
    )


def _is_mostly_signal(values: np.ndarray, scale: float, shape: tuple[int, ...]) -> np.ndarray:
    r"""Whether half of the squared length of a right singular vector is likely signal, or more.

    Beside noise on every entry of an m x n matrix, of variance :math:`\sigma^2`, a singular value x
    leaves :math:`1 - \sigma^2 n (x^2 + \sigma^2 m) / (x^2 (x^2 + \sigma^2 n))` of it
    (Benaych-Georges and Nadakuditi, 2012), compared here without a division.
    """
    largest = max(float(values.max()), scale) or 1.0
    m, n = (scale / largest) ** 2 * np.array(shape, dtype=float)
    squares = np.square(values / largest)
    return 2 * n * (squares + m) <= squares * (squares + n)
