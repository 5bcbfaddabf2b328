"""Average noisy products of one low-rank matrix with different bases."""

from dataclasses import dataclass

import numpy as np

# Rounds of reweighting: from the second on, products that the model does not fit weigh little.
_N_ROUNDS = 3  # not studied
_SLACK = 1.05  # not studied
_TINY = np.finfo(np.float64).tiny
# In units of the noise. Larger numbers would make no difference, and their squares overflow.
_LARGEST_VARIANCE, _LARGEST_RATIO = 1e80, 1e100  # not tuned


@dataclass(frozen=True)
class NoisyProduct:
    """A matrix times a basis, plus noise."""

    basis: np.ndarray  # (n_columns, size)
    value: np.ndarray  # (n_rows, size)
    noise_std: float  # standard deviation in an entry
    is_gaussian: bool = True


class ProductAverage:
    r"""Estimate A V for an orthonormal V from the last products :math:`R_t = A Z_t + N_t`.

    Weighted least squares for the model :math:`A = L V^T`, which gives

    .. math:: L = \Big(\sum_t w_t R_t C_t\Big) \Big(\sum_t w_t C_t^T C_t\Big)^{-1},
              \quad C_t = Z_t^T V.

    A weight is the inverse of a variance. That is the variance of the noise, plus the excess of the
    residuals over it in their strongest direction. That excess is large for early products, which
    the model does not fit yet. The products are stored side by side: their inner products give all
    residuals, and a single matrix product gives L.
    """

    def __init__(self, n_kept: int) -> None:
        self._n_kept = n_kept
        self._n_added = 0
        self._noise_stds: list[float] = []
        self.is_gaussian = True
        # Bases and values of all products side by side, and inner products of the values.
        self._bases = np.zeros((0, 0))
        self._values = np.zeros((0, 0))
        self._gram = np.zeros((0, 0))

    @property
    def is_empty(self) -> bool:
        """Whether there is no product yet."""
        return self._n_added == 0

    def add(self, product: NoisyProduct) -> None:
        """Add a product, in place of the oldest one if there is no room."""
        n_rows, size = product.value.shape
        if self.is_empty:
            self._bases = np.zeros((len(product.basis), self._n_kept * size), order="F")
            self._values = np.zeros((n_rows, self._n_kept * size), order="F")
            self._gram = np.zeros((self._n_kept * size,) * 2)
        slot = self._n_added % self._n_kept
        self._n_added += 1
        # Appends while there is room, and overwrites the oldest one afterwards.
        self._noise_stds[slot : slot + 1] = [product.noise_std]
        self.is_gaussian = product.is_gaussian
        place = slice(slot * size, (slot + 1) * size)
        self._bases[:, place] = product.basis
        self._values[:, place] = product.value
        filled = len(self._noise_stds) * size
        inner = self._values[:, :filled].T @ product.value
        self._gram[:filled, place], self._gram[place, :filled] = inner, inner.T

    def estimate(self, basis: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Estimate A V, and the covariance of the noise in a row; V is close to the last basis."""
        size = basis.shape[1]
        noise_variances = np.square(self._noise_stds)
        if noise_variances.min() == 0:
            # Nothing to average: the last product is exact.
            slot = (self._n_added - 1) % self._n_kept
            last = self._values[:, slot * size : (slot + 1) * size]
            return last, np.zeros((size, size))
        overlaps = self._bases[:, : len(noise_variances) * size].T @ basis
        coefficients, covariance = self._fit(overlaps, noise_variances, len(self._values))
        return self._values[:, : len(overlaps)] @ coefficients, covariance

    def _fit(
        self, overlaps: np.ndarray, noise_variances: np.ndarray, n_rows: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Compute how to combine the columns of all products, and the covariance of the result."""
        size = overlaps.shape[1]
        gram = self._gram[: len(overlaps), : len(overlaps)]
        # Variances are in units of the smallest one, so that nothing overflows.
        smallest = noise_variances.min()
        variances = noise_variances / smallest
        for _ in range(_N_ROUNDS):
            weighted = overlaps / np.repeat(variances, size)[:, None]
            inverse = _regularized_inverse(weighted.T @ overlaps)
            coefficients = weighted @ inverse
            # The residuals are the values of all products times this matrix.
            residual = np.eye(len(overlaps)) - coefficients @ overlaps.T
            strongest = _largest_of_blocks(residual.T @ gram @ residual, size) / n_rows
            # The largest eigenvalue of pure noise exceeds its variance by this factor.
            strongest /= (1 + np.sqrt(size / n_rows)) ** 2
            variances = (
                noise_variances + size * np.maximum(strongest - _SLACK * noise_variances, 0.0)
            ) / smallest
            variances = np.minimum(variances, _LARGEST_VARIANCE)
        return coefficients, smallest * inverse


def _largest_of_blocks(matrix: np.ndarray, size: int) -> np.ndarray:
    """Find the largest eigenvalue of each diagonal block."""
    n_blocks = len(matrix) // size
    blocks = matrix.reshape(n_blocks, size, n_blocks, size)
    diagonal = blocks[np.arange(n_blocks), :, np.arange(n_blocks)]
    return np.linalg.eigvalsh(diagonal)[:, -1]


def count_above_noise(estimate: np.ndarray, covariance: np.ndarray) -> int:
    """Count the singular values of a noisy matrix that exceed those of noise of this covariance."""
    n_rows, size = estimate.shape
    if not covariance.any():
        return size
    variances, axes = np.linalg.eigh(covariance)
    whitened = (estimate @ axes) / np.sqrt(np.maximum(variances, _TINY))
    whitened = np.clip(whitened, -_LARGEST_RATIO, _LARGEST_RATIO)
    edge = np.sqrt(n_rows) + np.sqrt(size)
    return int(np.sum(np.linalg.eigvalsh(whitened.T @ whitened) > edge**2))


def _regularized_inverse(matrix: np.ndarray) -> np.ndarray:
    """Invert a positive matrix that may be singular up to rounding."""
    values, vectors = np.linalg.eigh(matrix)
    # Directions without any information, as of bases that are 0, get a huge but finite variance.
    values = np.maximum(values, max(1e-12 * values[-1], 1e-100))
    return (vectors / values) @ vectors.T
