"""What the iterations share: the bases that they find, and how a basis follows from products."""

from dataclasses import dataclass

import numpy as np

from skdp.linalg.denoising import ProductAverage, shrink_rows
from skdp.linalg.spectrum import orthonormal_basis

# Products that are averaged. More would need more memory, and older ones add little.
N_KEPT = 6  # benchmarks/entries/captured.md, "plain"


@dataclass(frozen=True)
class Bases:
    """Released bases of both sides of a matrix, with orthonormal columns."""

    left: np.ndarray
    right: np.ndarray
    n_above_noise: int
    failed: bool  # a basis exceeded the coherence bound
    # (size, size), expected inner products between the columns of the noise in `right`
    noise_gram: np.ndarray


def next_basis(products: ProductAverage, basis: np.ndarray, *, shrink: bool) -> np.ndarray:
    """Compute a basis of the range of a matrix from noisy products, the last of them with `basis`.

    `shrink` also shrinks the rows of their average toward their likely signal.
    """
    estimate, covariance = products.estimate(basis)
    # Laplace and spherical noise has large values, which the shrinkage would mistake for signal.
    if shrink and products.is_gaussian:
        estimate = shrink_rows(estimate, covariance)
    return orthonormal_basis(estimate)
