"""The directions that a gradient step can take: those of fixed rank, or all."""

from abc import ABC, abstractmethod

import numpy as np

from skdp.data.matrices import Coordinates, Matrices
from skdp.linalg.fixed_rank import (
    FixedRank,
    project_coordinates,
    retract,
    tangent_dimension,
    tangent_vector,
    truncate,
)

__all__ = ["AllDirections", "Space", "TangentSpace"]


class Space(ABC):
    """Directions from a point, as vectors of coordinates."""

    @abstractmethod
    def dimension(self, shape: tuple[int, int]) -> int:
        """Count independent directions, the one of the intercept left out."""

    @abstractmethod
    def coordinates(
        self, matrices: Matrices, point: FixedRank, intercept: float
    ) -> tuple[Coordinates, np.ndarray]:
        """Return the coordinates of matrices, and their inner products with the point."""

    @abstractmethod
    def project(self, point: FixedRank, coordinates: np.ndarray) -> np.ndarray:
        """Bring a vector into the space; it does not get longer."""

    @abstractmethod
    def direction(self, point: FixedRank, coordinates: np.ndarray) -> FixedRank:
        """Return the matrix of these coordinates."""

    @abstractmethod
    def move(self, point: FixedRank, coordinates: np.ndarray, step: float) -> FixedRank:
        """Take a step from the point; singular values descending."""


class TangentSpace(Space):
    """Directions in which the rank stays, up to second order."""

    def __init__(self, rank: int) -> None:
        self.rank = rank

    def dimension(self, shape: tuple[int, int]) -> int:
        """Count independent directions, the one of the intercept left out."""
        return tangent_dimension(shape, self.rank)

    def coordinates(
        self, matrices: Matrices, point: FixedRank, intercept: float
    ) -> tuple[Coordinates, np.ndarray]:
        """Return the coordinates of matrices, and their inner products with the point."""
        return matrices.tangent(point, intercept)

    def project(self, point: FixedRank, coordinates: np.ndarray) -> np.ndarray:
        """Bring a vector into the space; it does not get longer."""
        return project_coordinates(point, coordinates)

    def direction(self, point: FixedRank, coordinates: np.ndarray) -> FixedRank:
        """Return the matrix of these coordinates."""
        return tangent_vector(point, coordinates)

    def move(self, point: FixedRank, coordinates: np.ndarray, step: float) -> FixedRank:
        """Take a step from the point; singular values descending."""
        return retract(point, coordinates, step)


class AllDirections(Space):
    """All matrices; the nearest one of the rank follows every step."""

    def __init__(self, rank: int) -> None:
        self.rank = rank

    def dimension(self, shape: tuple[int, int]) -> int:
        """Count independent directions, the one of the intercept left out."""
        return shape[0] * shape[1]

    def coordinates(
        self, matrices: Matrices, point: FixedRank, intercept: float
    ) -> tuple[Coordinates, np.ndarray]:
        """Return the coordinates of matrices, and their inner products with the point."""
        return matrices.entries(intercept), matrices.inner(point)

    def project(self, point: FixedRank, coordinates: np.ndarray) -> np.ndarray:
        """Bring a vector into the space; it does not get longer."""
        return coordinates

    def direction(self, point: FixedRank, coordinates: np.ndarray) -> FixedRank:
        """Return the matrix of these coordinates."""
        n_rows, n_columns = point.shape
        return FixedRank(np.eye(n_rows), np.ones(n_rows), coordinates.reshape(n_rows, n_columns).T)

    def move(self, point: FixedRank, coordinates: np.ndarray, step: float) -> FixedRank:
        """Take a step from the point; singular values descending."""
        return truncate(point.matrix + step * coordinates.reshape(point.shape), self.rank)
