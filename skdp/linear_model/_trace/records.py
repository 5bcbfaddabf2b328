"""The records of a regression, and sums of clipped vectors over them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from skdp.data.design import Design
from skdp.data.reduce import PerRow
from skdp.linalg.matrices import Coordinates, Matrices
from skdp.privacy.clipping import clip_weights

__all__ = ["NO_CLIPPING", "Records", "Vectors", "clipped_sum"]

#: Level that stands for no clipping: sums of squares of what is longer could overflow. Not studied.
NO_CLIPPING = 1e100


#: Gives coordinates for a block of matrices, and the factors that multiply them.
Vectors = Callable[[slice, Matrices], tuple[Coordinates, np.ndarray]]


@dataclass(frozen=True)
class Records:
    """Measurement matrices with their responses; a null record has the response NaN.

    `intercept` is the coordinate of a matrix that stands for the intercept; 0 if there is none.
    """

    design: Design
    responses: np.ndarray
    intercept: float


def clipped_sum(
    design: Design, vectors: Vectors, level: float, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Sum vectors clipped to a norm; return also their norms before.

    What is not finite contributes nothing, and has the norm inf or NaN.
    """
    return tuple(design.map_sum(partial(_clipped, vectors=vectors, level=level), size))


def _clipped(
    records: slice, matrices: Matrices, vectors: Vectors, level: float
) -> tuple[np.ndarray, PerRow]:
    coordinates, factors = vectors(records, matrices)
    # The weight goes to the very vector whose norm is taken: products of norms would not do, as
    # they underflow where the vector does not.
    coordinates.multiply(factors)
    norms = coordinates.norms()
    weights = clip_weights(norms, level, coordinates.size)
    return coordinates.weighted_sum(weights), PerRow(norms)
