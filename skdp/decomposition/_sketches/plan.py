r"""What two sketches of a matrix release, with which noise.

:math:`Y = A \Phi` sees the matrix A from the right, :math:`Z = A^T \Psi` from the left. Both are
linear, so that a unit C moves them by :math:`C \Phi` and :math:`C^T \Psi`, whatever A is.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

import numpy as np

from skdp.linalg.count_sketch import CountSketch
from skdp.linalg.haar_sketch import HaarSketch, haar_norm, haar_rounding
from skdp.linalg.prefix_sums import PrefixNoise
from skdp.linalg.sketch import Sketch, tail_factor
from skdp.privacy import Release, sensitivity
from skdp.privacy.cost import PrivacyCost
from skdp.units._changes import ResolvedFrobeniusChange
from skdp.units._entries import ResolvedEntry
from skdp.units._updates import ResolvedUpdate

__all__ = [
    "RESERVED_PART",
    "PromisedEntry",
    "SketchReleases",
    "Sketches",
    "StreamProblem",
    "StreamUnit",
    "draw_sketches",
    "likely_norm",
    "plan_stream",
    "planned_sketches",
    "sketch_sizes",
    "tails_of",
]
StreamUnit = ResolvedUpdate | ResolvedEntry | ResolvedFrobeniusChange

_KINDS: dict[str, Callable[[int, int, np.random.Generator], Sketch]] = {
    "haar": HaarSketch,
    "countsketch": CountSketch,
}
# Dimensions of the sketches: so many times the rank, and so many times that on the other side.
_SIZE_PER_COMPONENT, _CORE_PER_SIZE = 6, 4  # not studied
# Where little of a matrix is of low rank, smaller sketches are further off than the noise.
# benchmarks/house/constants.md, and benchmarks/factorization/factorization.md, "n_sketch=120".
_LEAST_SIZE = 60
# Of the square of mu for the sketch of the longer side, whose noise has more entries.
_LONG_SIDE_SHARE = 0.65  # not studied
# Of delta for each of the two bounds of a random sketch.
_TAIL_SHARE = 0.25  # not studied
#: Of delta for both, of a matrix of any shape.
RESERVED_PART = 2 * _TAIL_SHARE  # not tuned


@dataclass(frozen=True)
class PromisedEntry(ResolvedEntry):
    """What a cell finally holds: within bounds that no stream can enforce."""

    is_enforced: ClassVar[bool] = False


@dataclass(frozen=True)
class Sketches:
    """Two public sketches, and how far they are trusted."""

    right: Sketch  # of the columns
    left: Sketch  # of the rows
    # Probability of each to lengthen a matrix further than it is trusted to; 0 where somebody may
    # have known it when the data were made.
    tails: tuple[float, float] = (0.0, 0.0)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the matrix."""
        return self.left.shape[0], self.right.shape[0]

    @property
    def is_secret(self) -> bool:
        """Whether the guarantee needs that nobody knows them."""
        return any(self.tails)


class SketchReleases(NamedTuple):
    """What two sketches release, in this order."""

    right: Release
    left: Release


@dataclass(frozen=True)
class StreamProblem:
    """What is asked of a stream: public facts, and the sketches through which it is seen."""

    unit: StreamUnit
    sketches: Sketches
    correlation: PrefixNoise
    cost: PrivacyCost

    @property
    def n_units(self) -> int:
        """How many units there may be."""
        shape = self.sketches.shape
        return shape[0] if self.unit.counted == "rows" else math.prod(shape)


def sketch_sizes(
    shape: tuple[int, int],
    n_components: int,
    n_sketch: int | None = None,
    n_core: int | None = None,
) -> tuple[int, int]:
    """Choose how many dimensions the sketches leave; the longer side gets shorter rows of sums."""
    size = n_sketch or max(_SIZE_PER_COMPONENT * n_components, _LEAST_SIZE)
    core = n_core or _CORE_PER_SIZE * size
    n_rows, n_columns = shape
    right, left = (size, core) if n_rows >= n_columns else (core, size)
    return min(right, n_columns), min(left, n_rows)


def draw_sketches(
    kind: str, shape: tuple[int, int], sizes: tuple[int, int], generator: np.random.Generator
) -> tuple[Sketch, Sketch]:
    """Draw the right and the left sketch of a kind."""
    draw = _KINDS[kind]
    right = draw(shape[1], sizes[0], generator)
    return right, draw(shape[0], sizes[1], generator)


def tails_of(shape: tuple[int, int], sizes: tuple[int, int], delta: float) -> tuple[float, float]:
    """Return the parts of delta for tighter bounds of secret Haar sketches, where they pay."""
    tail = _TAIL_SHARE * delta

    def _pays(n: int, t: int) -> bool:
        return t < n and tail > 0 and likely_norm(n, t, tail) < haar_norm(n, t)

    return tail * _pays(shape[1], sizes[0]), tail * _pays(shape[0], sizes[1])


def likely_norm(n: int, t: int, tail: float) -> float:
    """Bound how much longer a Haar sketch makes a fixed matrix, but for that probability."""
    return tail_factor(t, tail) + haar_rounding(n, t)


def planned_sketches(
    cost: PrivacyCost,
    shape: tuple[int, int],
    sizes: tuple[int, int],
    sensitivities: tuple[float, float],
    n_epochs: int = 1,
) -> SketchReleases:
    """Plan the sums of both sketches."""
    share = _LONG_SIDE_SHARE if shape[0] >= shape[1] else 1 - _LONG_SIDE_SHARE
    sides = zip(("right", "left"), (share, 1 - share), sensitivities, shape, sizes, strict=True)
    epochs = () if n_epochs == 1 else (n_epochs,)

    def _planned(name: str, own: float, change: float, *size: int) -> Release:
        moved, shape = partial(float, change), (*epochs, *size)
        return cost.release(f"{name} sketch", "gaussian", own, moved, {}, shape=shape)

    return SketchReleases(*(_planned(*side) for side in sides))


def plan_stream(problem: StreamProblem, count_unit: float = 0.0) -> SketchReleases:
    """Plan both sums, counted in a unit or exact, with the sensitivities of the sketches.

    Those of all epochs are one release, whose sensitivity is larger by the norm of a column of the
    square root of the prefix sums.
    """
    unit, sketches, correlation = problem.unit, problem.sketches, problem.correlation
    change = unit.change if isinstance(unit, ResolvedFrobeniusChange) else unit.step
    change += count_unit / sketches.right.unit * _rounded_cells(unit, sketches.shape)
    sizes = sketches.right.shape[1], sketches.left.shape[1]
    right, left = (change * norm * correlation.column_norm for norm in _norms(unit, sketches))
    return planned_sketches(problem.cost, sketches.shape, sizes, (right, left), correlation.horizon)


def _rounded_cells(unit: StreamUnit, shape: tuple[int, int]) -> float:
    """Root of how many cells may differ more after rounding, by one unit of the values each."""
    if isinstance(unit, ResolvedUpdate):
        # Bounds hold after rounding.
        return 0.0
    return math.sqrt(math.prod(shape)) if isinstance(unit, ResolvedFrobeniusChange) else 1.0


def _norms(unit: StreamUnit, sketches: Sketches) -> tuple[float, float]:
    """Bound how far a unit of size 1 moves each of the sums."""
    pair = sketches.right, sketches.left
    if not isinstance(unit, ResolvedFrobeniusChange):
        right, left = (
            sensitivity.entry_product(1.0, np.array([sketch.row_norm])) for sketch in pair
        )
        return right, left
    right, left = (
        sensitivity.frobenius_product(1.0, _norm(sketch, tail, is_secret=sketches.is_secret))
        for sketch, tail in zip(pair, sketches.tails, strict=True)
    )
    return right, left


def _norm(sketch: Sketch, tail: float, *, is_secret: bool) -> float:
    """Bound the spectral norm of a sketch or, if `tail` is not 0, how it lengthens one matrix."""
    if tail > 0:
        return likely_norm(*sketch.shape, tail)
    # Nothing may be told of a secret sketch.
    return haar_norm(*sketch.shape) if is_secret else sketch.spectral_norm
