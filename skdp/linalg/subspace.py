"""Orthonormal bases: random and computed ones, their signs, and the angles between them."""

import numpy as np
from scipy.linalg import eigh, svdvals


def random_basis(n_features: int, size: int, generator: np.random.Generator) -> np.ndarray:
    """Draw an orthonormal basis, (n_features, size), of a uniformly random subspace."""
    return orthonormal_basis(generator.normal(size=(n_features, size)))


def orthonormal_basis(vectors: np.ndarray) -> np.ndarray:
    """Compute orthonormal columns whose span holds those of `vectors`, whatever their rank."""
    # Its signs need no choice of ours. LAPACK reflects a column to the side opposite to its own
    # first entry, so that the triangle takes the sign: flipping columns of `vectors` changes no bit
    # of the basis.
    return np.linalg.qr(vectors)[0]


def coherence(basis: np.ndarray) -> float:
    """Compute the largest squared row norm of an orthonormal basis, divided by the mean one."""
    n_rows, size = basis.shape
    return float(np.einsum("ij,ij->i", basis, basis).max() * n_rows / size)


def leading_eigenvectors(matrix: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Find the `size` largest eigenvalues of a symmetric matrix, descending, and their vectors.

    Their signs are fixed.
    """
    order = len(matrix)
    values, vectors = eigh(matrix, subset_by_index=(order - size, order - 1), check_finite=False)
    # Contiguous, like any copy of it: products with another memory layout may round otherwise.
    return values[::-1], np.ascontiguousarray(with_fixed_signs(vectors[:, ::-1]))


def with_fixed_signs(vectors: np.ndarray) -> np.ndarray:
    """Flip columns so that the largest entry of each is positive.

    Eigenvectors and singular vectors have no signs of their own, and each library has its way. A
    basis of a later release must not depend on that: parties that compute it from the same releases
    would add up parts that do not fit together.
    """
    return np.asarray(vectors * deterministic_signs(vectors.T))


def deterministic_signs(components: np.ndarray) -> np.ndarray:
    """Choose signs of the rows of `components` that make the largest entry of each positive.

    It is the largest in absolute value. A rule that looked at the scores of the rows of X would
    reveal a bit of them.
    """
    largest = np.argmax(np.abs(components), axis=1)
    signs = np.sign(components[np.arange(len(components)), largest])
    signs[signs == 0] = 1.0
    return signs


def principal_sines(basis: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Compute the sines of the principal angles between two orthonormal bases, descending.

    They are computed from the part of `other` outside the span of `basis`: cosines of small angles
    are inaccurate.
    """
    outside = other - basis @ (basis.T @ other)
    return np.clip(svdvals(outside), 0.0, 1.0)
