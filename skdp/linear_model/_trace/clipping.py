"""Gradients of the squared loss with bounded sensitivity, for either unit of privacy."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from skdp.data.parts import Targets
from skdp.linalg.matrices import Coordinates, FixedRank, Matrices, project_coordinates
from skdp.linear_model._descent import n_within
from skdp.linear_model._trace.public_rows import downweight_long_rows, inlier_mask
from skdp.linear_model._trace.records import NO_CLIPPING, Records, Vectors, clipped_sum


class ClippedGradient(NamedTuple):
    """The sum of the clipped gradients of all records; the last coordinate is for an intercept.

    Its sensitivity follows from the public or released `facts`. `n_kept` gradients, or residuals,
    were not clipped. Public weights made the sum shorter by the factor `gain`.
    """

    total: np.ndarray
    facts: tuple[float, ...]
    n_kept: np.ndarray
    gain: float = 1.0


@dataclass
class Clipping(ABC):
    """How the gradients of single records are bounded."""

    records: Records

    @property
    def has_intercept(self) -> bool:
        """Whether the last coordinate is for an intercept."""
        return self.records.intercept > 0

    @abstractmethod
    def largest_level(self, spread: float, dimension: int) -> float:
        """Compute a level that is large for responses of that spread, from public facts."""

    @abstractmethod
    def _sum(self, point: FixedRank, vectors: Vectors, level: float, size: int) -> ClippedGradient:
        """Sum the clipped gradients, which `vectors` gives as coordinates and residuals."""

    def gradient(self, point: FixedRank, offset: float, level: float) -> ClippedGradient:
        """Sum the gradients at a released point and intercept."""
        responses, intercept = self.records.responses, self.records.intercept
        vectors = partial(
            _coordinates, point=point, offset=offset, responses=responses, intercept=intercept
        )
        size = point.left.size + point.right.size + self.has_intercept
        gradient = self._sum(point, vectors, level, size)
        return gradient._replace(total=self._projected(point, gradient.total))

    def _projected(self, point: FixedRank, total: np.ndarray) -> np.ndarray:
        """Project a sum back on the tangent space: rounding moves single vectors out of it."""
        if not self.has_intercept:
            return project_coordinates(point, total)
        return np.append(project_coordinates(point, total[:-1]), total[-1])


class RecordClipping(Clipping):
    """A record may change as a whole: its gradient is clipped in norm."""

    def largest_level(self, spread: float, dimension: int) -> float:
        """Compute the norm of the gradient at 0 of matrices whose entries have variance 1."""
        return spread * float(np.sqrt(dimension))

    def _sum(self, point: FixedRank, vectors: Vectors, level: float, size: int) -> ClippedGradient:
        total, n_kept = clipped_sum(self.records.design, vectors, level, size)
        return ClippedGradient(total, (level,), n_kept)


@dataclass
class ResponseClipping(Clipping):
    """Only a response may change, as the matrices are public: its residual is clipped.

    Weights shorten coordinates longer than the median to that length. Matrices much longer than all
    but a few take no part.
    """

    response_range: float

    def __post_init__(self) -> None:
        self._is_inlier = inlier_mask(self.records.design)

    def largest_level(self, spread: float, dimension: int) -> float:
        """Return the spread itself."""
        return spread

    def _sum(self, point: FixedRank, vectors: Vectors, level: float, size: int) -> ClippedGradient:
        design, intercept = self.records.design, self.records.intercept
        lengths = design.map_rows(partial(_lengths, point=point, intercept=intercept))
        downweights = level < NO_CLIPPING
        if downweights:
            lengths[~self._is_inlier] = 0.0
        weights = downweight_long_rows(lengths, downweights=downweights)
        # Vectors without weight contribute nothing to the sum, whatever their length.
        lengths[weights == 0] = 0.0
        kernel = partial(_clipped_residuals, vectors=vectors, weights=weights, level=level)
        total, n_kept = design.map_sum(kernel, size + 1)
        largest = max(float((weights * lengths).max()), 1 / NO_CLIPPING)
        facts, squares = (level, self.response_range, largest), lengths @ lengths
        # For uncorrelated coordinates, the curvature with the weights relative to that without.
        gain = float(weights @ lengths**2 / squares) if squares > 0 else 1.0
        return ClippedGradient(total, facts, n_kept, gain)


# Kernels.


def _coordinates(
    rows: slice,
    matrices: Matrices,
    *,
    point: FixedRank,
    offset: float,
    responses: Targets,
    intercept: float,
) -> tuple[Coordinates, np.ndarray]:
    """Return coordinates of a block and its residuals."""
    coordinates, inner = matrices.tangent(point, intercept)
    return coordinates, inner + intercept * offset - responses[rows]


def _lengths(_: slice, matrices: Matrices, point: FixedRank, intercept: float) -> np.ndarray:
    return matrices.tangent(point, intercept)[0].norms()


def _clipped_residuals(
    records: slice, matrices: Matrices, vectors: Vectors, weights: np.ndarray, level: float
) -> tuple[np.ndarray, Any]:
    coordinates, residuals = vectors(records, matrices)
    clipped = np.clip(residuals, -level, level)
    factors = np.where(np.isfinite(residuals), weights[records] * clipped, 0.0)
    coordinates.multiply(factors)
    total = coordinates.weighted_sum((factors != 0).astype(np.float64))
    return total, n_within(np.abs(residuals), level)
