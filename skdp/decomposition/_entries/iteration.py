"""What the iterations share: what they find, and the next basis."""

from dataclasses import dataclass

import numpy as np

from skdp.linalg.averaging import ProductAverage
from skdp.linalg.shrinkage import shrink_rows
from skdp.linalg.subspace import orthonormal_basis

__all__ = ["N_KEPT", "Bases", "next_basis"]

# More products would need more memory, and older ones tell little.
N_KEPT = 6  # benchmarks/entries/captured.md, "plain"


@dataclass(frozen=True)
class Bases:
    """Released bases of both sides of a matrix, with orthonormal columns."""

    left: np.ndarray
    right: np.ndarray
    n_above_noise: int
    failed: bool  # one exceeded the coherence bound
    # (size, size), expected inner products of columns of the noise that `right` has
    noise_gram: np.ndarray


def next_basis(products: ProductAverage, basis: np.ndarray, *, shrink: bool) -> np.ndarray:
    """Compute a basis of the range of a matrix from its noisy products, the last with `basis`."""
    estimate, covariance = products.estimate(basis)
    # Laplace and spherical noise has large values now and then, which would be taken for signal.
    if shrink and products.is_gaussian:
        estimate = shrink_rows(estimate, covariance)
    return orthonormal_basis(estimate)
