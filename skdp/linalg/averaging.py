"""One estimate of a low-rank product from several noisy ones with different bases."""

from dataclasses import dataclass

import numpy as np

__all__ = ["NoisyProduct", "ProductAverage", "count_above_noise"]

# The second look already knows which products the model does not explain.
_N_LOOKS = 3  # not studied
_SLACK = 1.05  # not studied
_TINY = np.finfo(np.float64).tiny
# In units of the noise: squares of more could overflow, and tell nothing more.
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

    A weight is an inverse variance: that of the noise, plus what the residuals show beside it in
    their strongest direction. For early products, which the model does not fit yet, that is much.
    The products stand side by side: their inner products give all residuals, and a single product
    gives L.
    """

    def __init__(self, n_kept: int) -> None:
        self._n_kept = n_kept
        self._n_added = 0
        self._noise_scales: list[float] = []
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
        """Take one more product, in the place of the oldest one if need be."""
        n_rows, size = product.value.shape
        if self.is_empty:
            self._bases = np.zeros((len(product.basis), self._n_kept * size), order="F")
            self._values = np.zeros((n_rows, self._n_kept * size), order="F")
            self._gram = np.zeros((self._n_kept * size,) * 2)
        slot = self._n_added % self._n_kept
        self._n_added += 1
        # Appends as long as there is room, and overwrites the oldest then.
        self._noise_scales[slot : slot + 1] = [product.noise_std]
        self.is_gaussian = product.is_gaussian
        place = slice(slot * size, (slot + 1) * size)
        self._bases[:, place] = product.basis
        self._values[:, place] = product.value
        filled = len(self._noise_scales) * size
        inner = self._values[:, :filled].T @ product.value
        self._gram[:filled, place], self._gram[place, :filled] = inner, inner.T

    def estimate(self, basis: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Estimate A V, and the covariance of the noise in a row; V is about the last basis."""
        size = basis.shape[1]
        noise_variances = np.square(self._noise_scales)
        if noise_variances.min() == 0:
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
        # In units of the smallest noise, so that nothing overflows.
        smallest = noise_variances.min()
        variances = noise_variances / smallest
        for _ in range(_N_LOOKS):
            weighted = overlaps / np.repeat(variances, size)[:, None]
            inverse = _regularized_inverse(weighted.T @ overlaps)
            coefficients = weighted @ inverse
            # Of the products less overlaps times the estimate, transposed.
            residual = np.eye(len(overlaps)) - coefficients @ overlaps.T
            strongest = _largest_of_blocks(residual.T @ gram @ residual, size) / n_rows
            # Noise alone reaches its variance times the edge, or a little more.
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
    """Count the singular values of a noisy matrix that noise of this covariance does not reach."""
    n_rows, size = estimate.shape
    if not covariance.any():
        return size
    scales, axes = np.linalg.eigh(covariance)
    whitened = (estimate @ axes) / np.sqrt(np.maximum(scales, _TINY))
    whitened = np.clip(whitened, -_LARGEST_RATIO, _LARGEST_RATIO)
    edge = np.sqrt(n_rows) + np.sqrt(size)
    return int(np.sum(np.linalg.eigvalsh(whitened.T @ whitened) > edge**2))


def _regularized_inverse(matrix: np.ndarray) -> np.ndarray:
    """Invert a positive matrix that may be singular up to rounding."""
    values, vectors = np.linalg.eigh(matrix)
    # Where nothing is known at all, as from bases that are 0, noise is huge but finite.
    values = np.maximum(values, max(1e-12 * values[-1], 1e-100))
    return (vectors / values) @ vectors.T
