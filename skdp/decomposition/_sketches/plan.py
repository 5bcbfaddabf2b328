r"""The plan of two sketches of a matrix: their sizes, sensitivities and shares.

:math:`Y = A \Phi` is the right sketch of a matrix A, :math:`Z = A^T \Psi` the left one. Both are
linear, so that a change C of A moves them by :math:`C \Phi` and :math:`C^T \Psi`, whatever A is.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

import numpy as np

from skdp.linalg.prefix_sums import PrefixNoise
from skdp.linalg.sketches import (
    CountSketch,
    HaarSketch,
    Sketch,
    haar_norm,
    haar_rounding,
    tail_factor,
)
from skdp.privacy import Release, sensitivity
from skdp.privacy.plan import PrivacyCost
from skdp.units import ResolvedEntry, ResolvedFrobeniusChange, ResolvedUpdate

StreamUnit = ResolvedUpdate | ResolvedEntry | ResolvedFrobeniusChange

_KINDS: dict[str, Callable[[int, int, np.random.Generator], Sketch]] = {
    "haar": HaarSketch,
    "countsketch": CountSketch,
}
# Dimensions of a sketch: a multiple of the rank and, for the longer side, a multiple of that.
_SIZE_PER_COMPONENT, _CORE_PER_SIZE = 6, 4  # not studied
# The error of smaller sketches exceeds the noise where a matrix is far from low rank.
# benchmarks/house/constants.md, and benchmarks/factorization/factorization.md, "n_sketch=120".
_LEAST_SIZE = 60
# Share of the longer side, whose sums have more entries with noise.
_LONG_SIDE_SHARE = 0.65  # not studied
# Part of delta for each of the two sketches whose norm is bounded with high probability only.
_TAIL_SHARE = 0.25  # not studied
#: Part of delta for both sketches, whatever the shape of the matrix.
RESERVED_PART = 2 * _TAIL_SHARE  # not tuned


@dataclass(frozen=True)
class PromisedEntry(ResolvedEntry):
    """The final value of a cell, promised to be within bounds that no stream can enforce."""

    is_enforced: ClassVar[bool] = False


@dataclass(frozen=True)
class Sketches:
    """Two sketches, and the probabilities that their norms exceed what the plan assumes."""

    right: Sketch  # of the columns
    left: Sketch  # of the rows
    # For each sketch, the probability that it lengthens a fixed matrix by more than is assumed. If
    # the data may depend on the sketch, this is 0, and the bound is that of the worst case.
    tails: tuple[float, float] = (0.0, 0.0)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the matrix."""
        return self.left.shape[0], self.right.shape[0]

    @property
    def is_secret(self) -> bool:
        """Whether the guarantee holds only if nobody knows them."""
        return any(self.tails)


class SketchReleases(NamedTuple):
    """Releases of both sketches, in this order."""

    right: Release
    left: Release


@dataclass(frozen=True)
class StreamProblem:
    """The public facts that decide on the plan of a stream, and its sketches."""

    unit: StreamUnit
    sketches: Sketches
    correlation: PrefixNoise
    cost: PrivacyCost

    @property
    def n_units(self) -> int:
        """Number of units."""
        shape = self.sketches.shape
        return shape[0] if self.unit.counted == "rows" else math.prod(shape)


def sketch_sizes(
    shape: tuple[int, int],
    n_components: int,
    n_sketch: int | None = None,
    n_core: int | None = None,
) -> tuple[int, int]:
    """Choose the dimensions of both sketches; the sums of the longer side get shorter rows."""
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


def tail_probabilities(
    shape: tuple[int, int], sizes: tuple[int, int], delta: float
) -> tuple[float, float]:
    """Return the parts of delta for bounds of secret Haar sketches, where these are tighter."""
    tail = _TAIL_SHARE * delta

    def _is_tighter(n: int, t: int) -> bool:
        return t < n and tail > 0 and probable_norm(n, t, tail) < haar_norm(n, t)

    return tail * _is_tighter(shape[1], sizes[0]), tail * _is_tighter(shape[0], sizes[1])


def probable_norm(n: int, t: int, tail: float) -> float:
    """Bound how much longer a Haar sketch makes a fixed matrix, with probability 1 - tail."""
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

    def _release(name: str, share: float, change: float, *shape: int) -> Release:
        sensitivity_of = partial(float, change)
        shape = (*epochs, *shape)
        return cost.release(f"{name} sketch", "gaussian", share, sensitivity_of, {}, shape=shape)

    return SketchReleases(*(_release(*side) for side in sides))


def plan_stream(problem: StreamProblem, count_unit: float = 0.0) -> SketchReleases:
    """Plan both sums, of values rounded to counts of `count_unit` or, if that is 0, not rounded.

    The sums of all epochs are one release. Its sensitivity is that of a single epoch times the norm
    of a column of the square root of the prefix sums.
    """
    unit, sketches, correlation = problem.unit, problem.sketches, problem.correlation
    change = unit.change if isinstance(unit, ResolvedFrobeniusChange) else unit.step
    change += count_unit / sketches.right.unit * _rounded_cells(unit, sketches.shape)
    sizes = sketches.right.shape[1], sketches.left.shape[1]
    right, left = (
        change * _gain(unit, sketch, tail, is_secret=sketches.is_secret) * correlation.column_norm
        for sketch, tail in zip((sketches.right, sketches.left), sketches.tails, strict=True)
    )
    return planned_sketches(problem.cost, sketches.shape, sizes, (right, left), correlation.horizon)


def _rounded_cells(unit: StreamUnit, shape: tuple[int, int]) -> float:
    """Return the root of the number of cells whose difference rounding may increase by a step."""
    if isinstance(unit, ResolvedUpdate):
        # Values are within their bound after rounding, too.
        return 0.0
    return math.sqrt(math.prod(shape)) if isinstance(unit, ResolvedFrobeniusChange) else 1.0


def _gain(unit: StreamUnit, sketch: Sketch, tail: float, *, is_secret: bool) -> float:
    """Bound how far a unit of size 1 moves a sketch; in the worst case, if `tail` is 0."""
    if not isinstance(unit, ResolvedFrobeniusChange):
        return sensitivity.entry_product(1.0, np.array([sketch.row_norm]))
    if tail > 0:
        norm = probable_norm(*sketch.shape, tail)
    else:
        # The plan is public, and the norm of a secret sketch would tell something of the sketch.
        norm = haar_norm(*sketch.shape) if is_secret else sketch.spectral_norm
    return sensitivity.frobenius_product(1.0, norm)
