"""The records of a regression, and sums of clipped vectors over them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from skdp.data.matrices import Design
from skdp.data.parts import Targets
from skdp.linalg.matrices import Coordinates, Matrices
from skdp.linear_model._descent import n_within
from skdp.privacy.clipping import clip_weights

#: Level that stands for no clipping: the squares of longer vectors could overflow. Not studied.
NO_CLIPPING = 1e100

#: Returns coordinates of a block of matrices, and the factors to multiply them by.
Vectors = Callable[[slice, Matrices], tuple[Coordinates, np.ndarray]]


@dataclass(frozen=True)
class Records:
    """Measurement matrices with their responses; a null record has the response NaN.

    `intercept` is the coordinate that each matrix has for the intercept; 0 if there is none.
    """

    design: Design
    responses: Targets
    intercept: float


def clipped_sum(
    design: Design, vectors: Vectors, level: float, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Sum vectors clipped to a norm; return also how many were not clipped.

    Vectors that are not finite contribute nothing, and are not counted.
    """
    return tuple(design.map_sum(partial(_clipped, vectors=vectors, level=level), size + 1))


def _clipped(
    records: slice, matrices: Matrices, vectors: Vectors, level: float
) -> tuple[np.ndarray, Any]:
    coordinates, factors = vectors(records, matrices)
    # The vector is multiplied out before its norm is taken: a product of two norms may underflow
    # where the vector does not, and would then bound nothing.
    coordinates.multiply(factors)
    norms = coordinates.norms()
    weights = clip_weights(norms, level, coordinates.size)
    return coordinates.weighted_sum(weights), n_within(norms, level)
