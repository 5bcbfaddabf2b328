"""Singular values of a matrix that is seen with independent Gaussian noise on every entry.

References
----------
M. Gavish, D. L. Donoho (2017). "Optimal shrinkage of singular values". IEEE Transactions on
Information Theory 63(4). :doi:`10.1109/TIT.2017.2653801`
"""

import numpy as np

__all__ = ["attenuated", "without_push"]


def without_push(values: np.ndarray, scale: float, shape: tuple[int, ...]) -> np.ndarray:
    r"""Take out what noise adds to singular values.

    A singular value x of a large matrix is seen at y with
    :math:`y^2 = (x^2 + \sigma^2 m) (x^2 + \sigma^2 n) / x^2`; below the edge of the noise nothing
    is left of it.
    """
    # Fourth powers could overflow.
    largest = max(float(values.max()), scale) or 1.0
    noise = (scale / largest) ** 2 * np.array(shape, dtype=float)
    excess = np.square(values / largest) - noise.sum()
    root = np.sqrt(np.maximum(np.square(excess) - 4 * noise.prod(), 0.0))
    is_seen = excess > 2 * np.sqrt(noise.prod())
    return largest * np.sqrt(np.where(is_seen, (excess + root) / 2, 0.0))


def attenuated(values: np.ndarray, scale: float, shape: tuple[int, ...]) -> np.ndarray:
    r"""Shrink singular values to what fits a matrix best along its *noisy* singular vectors.

    Those that belong to a singular value x have with the true ones cosines of squares
    :math:`(x^4 - \sigma^4 m n) / (x^4 + \sigma^2 m x^2)` on the side of length m, and with n and m
    exchanged on the other, so that x times both cosines has the least squared error.
    """
    largest = max(float(values.max(initial=0.0)), scale) or 1.0
    m, n = (scale / largest) ** 2 * np.array(shape, dtype=float)
    squares = np.square(values / largest)
    fitting = np.maximum(np.square(squares) - m * n, 0.0)
    spread = np.sqrt((squares + m) * (squares + n))
    return largest * np.divide(
        fitting, spread * np.sqrt(squares), out=np.zeros_like(fitting), where=fitting > 0
    )
