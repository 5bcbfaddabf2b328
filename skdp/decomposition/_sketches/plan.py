r"""What a stream of updates releases: two sketches of the matrix, with which noise.

:math:`Y = A \Phi` sees the matrix A from the right, :math:`Z = A^T \Psi` from the left. Both are
linear, so that a unit C moves them by :math:`C \Phi` and :math:`C^T \Psi`, whatever A is.
"""

import math
from dataclasses import dataclass

import numpy as np

from skdp.linalg.sketch import Sketch, dense_norm, dense_rounding, tail_factor
from skdp.privacy import Plan, PlannedRelease, sensitivity
from skdp.privacy.plan import make_plan
from skdp.units._changes import ResolvedFrobeniusChange
from skdp.units._entries import ResolvedEntry
from skdp.units._updates import ResolvedUpdate

__all__ = [
    "LONG_SIDE_SHARE",
    "Sketches",
    "StreamUnit",
    "plan_stream",
    "sketch_sizes",
    "stretch",
    "tail_of",
]

StreamUnit = ResolvedUpdate | ResolvedEntry | ResolvedFrobeniusChange

# Dimensions of the sketches: so many times the rank, and so many times that on the other side.
_SIZE_PER_COMPONENT, _CORE_PER_SIZE = 6, 4
# Where little of a matrix is of low rank, smaller sketches are further off than the noise.
_LEAST_SIZE = 60
#: Of the square of mu for the sketch of the longer side, whose noise has more entries.
LONG_SIDE_SHARE = 0.65
# Of delta for each of the two bounds of a random sketch.
_TAIL_SHARE = 0.25


@dataclass(frozen=True)
class Sketches:  # numpydoc ignore=PR02
    """Two public sketches, and how far they are trusted.

    Parameters
    ----------
    right, left : Sketch
        Sketches of the columns and of the rows of the matrix.
    is_secret : bool
        Whether nobody can have known them when the data were made, so that a bound that holds for
        each matrix with high probability is enough.
    """

    right: Sketch
    left: Sketch
    is_secret: bool

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the matrix."""
        return self.left.shape[0], self.right.shape[0]


def sketch_sizes(
    shape: tuple[int, int], n_components: int, n_sketch: int | None, n_core: int | None
) -> tuple[int, int]:
    """Choose how many dimensions the right and the left sketch leave.

    The longer side of the matrix gets the shorter rows of sums.
    """
    size = n_sketch or max(_SIZE_PER_COMPONENT * n_components, _LEAST_SIZE)
    core = n_core or _CORE_PER_SIZE * size
    n_rows, n_columns = shape
    right, left = (size, core) if n_rows >= n_columns else (core, size)
    return min(right, n_columns), min(left, n_rows)


def plan_stream(
    sketches: Sketches,
    unit: StreamUnit,
    *,
    epsilon: float,
    delta: float,
    column_norm: float = 1.0,
    n_epochs: int = 1,
) -> Plan:
    """Plan both sums, with the sensitivities of the sketches as they are.

    Released after each of several epochs they are one release, of a sensitivity that is larger by
    the factor `column_norm`.
    """
    n_rows, n_columns = sketches.shape
    share = LONG_SIDE_SHARE if n_rows >= n_columns else 1 - LONG_SIDE_SHARE
    tails = [
        tail_of(*sketch.shape, delta) if sketches.is_secret else 0.0
        for sketch in (sketches.right, sketches.left)
    ]
    sides = (
        ("right sketch", n_rows, sketches.right, share, tails[0]),
        ("left sketch", n_columns, sketches.left, 1 - share, tails[1]),
    )
    return make_plan(
        [
            PlannedRelease(
                name,
                "gaussian",
                own,
                _sensitivity(unit, sketch, tail) * column_norm,
                shape=(n_epochs, length, sketch.shape[1])[n_epochs == 1 :],
            )
            for name, length, sketch, own, tail in sides
        ],
        epsilon=epsilon,
        delta=delta,
        unit=unit.name,
        adjacency=unit.adjacency,
        enforced=isinstance(unit, ResolvedUpdate),
        delta_tail=math.fsum(tails),
    )


def tail_of(n: int, t: int, delta: float) -> float:
    """Return what is reserved of delta for a Haar sketch that nobody knows, where that pays."""
    tail = _TAIL_SHARE * delta
    pays = t < n and tail > 0 and tail_factor(t, tail) + dense_rounding(n, t) < dense_norm(n, t)
    return tail if pays else 0.0


def _sensitivity(unit: StreamUnit, sketch: Sketch, tail: float) -> float:
    """Bound how far one unit moves the sums; a promised change but for an event of `tail`."""
    if not isinstance(unit, ResolvedFrobeniusChange):
        return sensitivity.entry_product(unit.step, np.array([sketch.row_norm]))
    return sensitivity.frobenius_product(unit.change, stretch(*sketch.shape, tail, sketch))


def stretch(n: int, t: int, tail: float, sketch: Sketch | None = None) -> float:
    """Bound how much longer a Haar sketch, as drawn or any, makes a matrix but for that event."""
    if tail > 0:
        return tail_factor(t, tail) + dense_rounding(n, t)
    return dense_norm(n, t) if sketch is None else sketch.spectral_norm
