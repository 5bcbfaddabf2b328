"""One estimate of a low-rank product from several noisy ones with different bases."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

__all__ = ["NoisyProduct", "average_products", "count_above_noise"]

# The second look already knows which products the model does not explain.
_N_LOOKS = 3


@dataclass(frozen=True)
class NoisyProduct:  # numpydoc ignore=PR02
    """A matrix times a basis, plus noise.

    Parameters
    ----------
    basis : ndarray of shape (n_columns, size)
        What the matrix was multiplied by.
    value : ndarray of shape (n_rows, size)
        The noisy product.
    noise_scale : float
        Standard deviation of the noise in an entry.
    is_gaussian : bool, default=True
        Whether the noise is Gaussian.
    """

    basis: np.ndarray
    value: np.ndarray
    noise_scale: float
    is_gaussian: bool = True


def average_products(
    products: Sequence[NoisyProduct], basis: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    r"""Estimate A V for an orthonormal V from all products :math:`A Z_t + N_t`.

    Weighted least squares for the model :math:`A = L V^T`, which gives

    .. math:: L = \Big(\sum_t w_t R_t C_t\Big) \Big(\sum_t w_t C_t^T C_t\Big)^{-1},
              \quad C_t = Z_t^T V.

    The weights are the inverse variances of the noise, or of the residuals where these are larger,
    as they are for the early products, which the model does not fit yet.

    Parameters
    ----------
    products : sequence of NoisyProduct
        Products of one matrix, the last of them with `basis` or almost so.
    basis : ndarray of shape (n_columns, size)
        Orthonormal basis V.

    Returns
    -------
    estimate : ndarray of shape (n_rows, size)
        Estimate of A V.
    covariance : ndarray of shape (size, size)
        Covariance of the noise in each of its rows; 0 if there is none.
    """
    last = products[-1]
    if last.noise_scale == 0:
        return last.value, np.zeros((basis.shape[1],) * 2)
    overlaps = [product.basis.T @ basis for product in products]
    turned = [product.value @ overlap for product, overlap in zip(products, overlaps, strict=True)]
    squares = np.array([np.vdot(product.value, product.value) for product in products])
    noise = np.array([product.noise_scale**2 for product in products])
    # In units of the noise of the last one, so that nothing overflows.
    unit = noise[-1]
    variances = noise / unit
    for _ in range(_N_LOOKS):
        information = _weighted_sum((c.T @ c for c in overlaps), variances)
        inverse = _regularized_inverse(information)
        estimate = _weighted_sum(turned, variances) @ inverse
        gram = estimate.T @ estimate
        residuals = [
            square - 2 * np.vdot(estimate, turn) + np.vdot(overlap.T @ overlap, gram)
            for square, turn, overlap in zip(squares, turned, overlaps, strict=True)
        ]
        variances = np.maximum(noise, np.array(residuals) / last.value.size) / unit
    return estimate, unit * inverse


def count_above_noise(estimate: np.ndarray, covariance: np.ndarray) -> int:
    """Count the singular values of a noisy matrix that noise of that covariance does not reach."""
    n_rows, size = estimate.shape
    if not covariance.any():
        return size
    scales, axes = np.linalg.eigh(covariance)
    whitened = (estimate @ axes) / np.sqrt(np.maximum(scales, np.finfo(float).tiny))
    edge = np.sqrt(n_rows) + np.sqrt(size)
    return int(np.sum(np.linalg.svd(whitened, compute_uv=False) > edge))


def _weighted_sum(terms: Iterable[np.ndarray], variances: np.ndarray) -> np.ndarray:
    return reduce(np.add, (t / variance for t, variance in zip(terms, variances, strict=True)))


def _regularized_inverse(matrix: np.ndarray) -> np.ndarray:
    """Invert a positive matrix that may be singular up to rounding."""
    values, vectors = np.linalg.eigh(matrix)
    values = np.maximum(values, 1e-12 * max(values[-1], np.finfo(float).tiny))
    return (vectors / values) @ vectors.T
