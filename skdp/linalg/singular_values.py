"""Singular values of a matrix with independent Gaussian noise on every entry.

References
----------
.. [1] F. Benaych-Georges, R. R. Nadakuditi (2012). "The singular values and vectors of low rank
   perturbations of large rectangular random matrices". Journal of Multivariate Analysis 111.
   :doi:`10.1016/j.jmva.2012.04.019`
.. [2] M. Gavish, D. L. Donoho (2017). "Optimal shrinkage of singular values". IEEE Transactions on
   Information Theory 63(4). :doi:`10.1109/TIT.2017.2653801`
"""

import numpy as np


def debiased(values: np.ndarray, noise_std: float, shape: tuple[int, ...]) -> np.ndarray:
    r"""Subtract from singular values what noise adds to them.

    Noise moves a singular value x of a large matrix to y with
    :math:`y^2 = (x^2 + \sigma^2 m) (x^2 + \sigma^2 n) / x^2`; a y below the edge of the noise tells
    nothing about x, and becomes 0 [1]_.
    """
    largest, squares, noise_squares = _scaled(values, noise_std, shape)
    excess = squares - noise_squares.sum()
    root = np.sqrt(np.maximum(np.square(excess) - 4 * noise_squares.prod(), 0.0))
    is_above_edge = excess > 2 * np.sqrt(noise_squares.prod())
    return largest * np.sqrt(np.where(is_above_edge, (excess + root) / 2, 0.0))


def are_mostly_signal(values: np.ndarray, noise_std: float, shape: tuple[int, ...]) -> np.ndarray:
    r"""Tell whether at least half of the squared length of right singular vectors is signal.

    With noise of variance :math:`\sigma^2` on every entry of an m x n matrix, that part is
    :math:`1 - \sigma^2 n (x^2 + \sigma^2 m) / (x^2 (x^2 + \sigma^2 n))` for the singular value x
    [1]_. It is compared with 1/2 here without a division.
    """
    _, squares, (m, n) = _scaled(values, noise_std, shape)
    return 2 * n * (squares + m) <= squares * (squares + n)


def shrunk(values: np.ndarray, noise_std: float, shape: tuple[int, ...]) -> np.ndarray:
    r"""Shrink singular values so that they fit a matrix best along its *noisy* singular vectors.

    The squared cosine between the noisy vector of a singular value x and the true one is
    :math:`(x^4 - \sigma^4 m n) / (x^4 + \sigma^2 m x^2)` on the side of length m; on the other, n
    and m are exchanged [1]_. So x times both cosines has the least squared error [2]_.
    """
    largest, squares, (m, n) = _scaled(values, noise_std, shape)
    fitting = np.maximum(np.square(squares) - m * n, 0.0)
    spread = np.sqrt((squares + m) * (squares + n) * squares)
    return largest * np.divide(fitting, spread, out=np.zeros_like(fitting), where=fitting > 0)


def _scaled(
    values: np.ndarray, noise_std: float, shape: tuple[int, ...]
) -> tuple[float, np.ndarray, np.ndarray]:
    """Return a unit that keeps fourth powers finite, and the squares of values and noise in it."""
    largest = max(float(values.max(initial=0.0)), noise_std) or 1.0
    noise_squares = (noise_std / largest) ** 2 * np.array(shape, dtype=float)
    return largest, np.square(values / largest), noise_squares
