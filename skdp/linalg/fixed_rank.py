r"""Matrices of fixed rank: their factors, tangent vectors, and the retraction.

The tangent space at :math:`M = U \operatorname{diag}(s) V^T`, with U and V orthonormal, has the
projection :math:`P(Z) = U U^T Z + Z V V^T - U U^T Z V V^T`. Its *coordinates* are :math:`Z V` and
:math:`B = U^T Z - (U^T Z V) V^T`, so that :math:`P(Z) = (Z V) V^T + U B`. The two parts are
orthogonal, and so the map from coordinates to tangent vectors preserves Euclidean lengths.
Independent noise on all coordinates, without the part of B in the span of V, is therefore isotropic
in the tangent space [1]_.

References
----------
.. [1] B. Vandereycken (2013). "Low-rank matrix completion by Riemannian optimization". SIAM Journal
   on Optimization 23(2). :doi:`10.1137/110845768`
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class FixedRank:
    """The matrix ``left @ diag(values) @ right.T``; its factors need not be orthonormal."""

    left: np.ndarray  # (n_rows, rank)
    values: np.ndarray
    right: np.ndarray  # (n_columns, rank)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return len(self.left), len(self.right)

    @property
    def rank(self) -> int:
        """Number of outer products."""
        return len(self.values)

    @property
    def matrix(self) -> np.ndarray:
        """The matrix written out."""
        return np.asarray((self.left * self.values) @ self.right.T)

    def with_values(self, values: np.ndarray) -> "FixedRank":
        """Return the same factors with other values."""
        return FixedRank(self.left, values, self.right)

    def minus(self, other: "FixedRank") -> "FixedRank":
        """Return the difference, whose rank is the sum of both."""
        return FixedRank(
            np.hstack([self.left, other.left]),
            np.concatenate([self.values, -other.values]),
            np.hstack([self.right, other.right]),
        )

    def orthonormal(self) -> "FixedRank":
        """Return the same matrix by its singular value decomposition."""
        left, left_triangle = np.linalg.qr(self.left)
        right, right_triangle = np.linalg.qr(self.right)
        core = (left_triangle * self.values) @ right_triangle.T
        inner_left, values, inner_right = np.linalg.svd(core, full_matrices=False)
        return FixedRank(left @ inner_left, values, right @ inner_right.T)

    def leading(self, rank: int) -> "FixedRank":
        """Return the first `rank` outer products."""
        return FixedRank(self.left[:, :rank], self.values[:rank], self.right[:, :rank])


def inner_product(first: FixedRank, second: FixedRank) -> float:
    """Compute the Frobenius inner product of two matrices from their factors."""
    overlaps = (first.left.T @ second.left) * (first.right.T @ second.right)
    return float(first.values @ overlaps @ second.values)


def tangent_dimension(shape: tuple[int, int], rank: int) -> int:
    """Dimension of the tangent space at a matrix of that rank."""
    return rank * (sum(shape) - rank)


def project_coordinates(point: FixedRank, coordinates: np.ndarray) -> np.ndarray:
    """Project a vector to the coordinates of a tangent vector at an orthonormal point."""
    size = point.left.size
    beside = coordinates[size:].reshape(point.rank, -1)
    beside = beside - (beside @ point.right) @ point.right.T
    return np.concatenate([coordinates[:size], beside.ravel()])


def tangent_vector(point: FixedRank, coordinates: np.ndarray) -> FixedRank:
    """Return the tangent vector of these coordinates, of rank 2 * rank."""
    size = point.left.size
    return FixedRank(
        np.hstack([coordinates[:size].reshape(point.left.shape), point.left]),
        np.ones(2 * point.rank),
        np.hstack([point.right, coordinates[size:].reshape(point.rank, -1).T]),
    )


def retract(point: FixedRank, coordinates: np.ndarray, step: float) -> FixedRank:
    """Move by `step` times a tangent vector, and truncate to the rank: orthonormal, descending."""
    moved = tangent_vector(point, coordinates)
    # M + step P = [ZV, U] [[step, 0], [0, 1]] [V, diag(s) V + step B']: no factor is repeated.
    size = point.rank
    left = moved.left
    right = np.hstack(
        [step * moved.right[:, :size], step * moved.right[:, size:] + point.right * point.values]
    )
    return FixedRank(left, np.ones(2 * size), right).orthonormal().leading(size)


def truncate(matrix: np.ndarray, rank: int) -> FixedRank:
    """Find the nearest matrix of that rank; orthonormal, values descending."""
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    return FixedRank(left[:, :rank], values[:rank], right[:rank].T)


def within_norm(point: FixedRank, largest: float) -> FixedRank:
    """Scale an orthonormal matrix down to a Frobenius norm, if it is longer."""
    norm = float(np.linalg.norm(point.values))
    return point if norm <= largest else point.with_values(point.values * (largest / norm))
