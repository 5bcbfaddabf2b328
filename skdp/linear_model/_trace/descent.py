r"""Private gradient descent with clip levels that follow the residuals.

Every step releases the sum of the clipped gradients of the records, takes a step, and releases how
many records were not clipped; the level of the next step follows that count. As the residuals
shrink, so do the level and the noise: the error does not grow with the matrix that is sought, as
it does with a level fixed for the whole descent. In the tangent space of the matrices of low rank
[1]_ the noise has only as many dimensions as these matrices do. The schedule of levels and shares
is ours.

References
----------
.. [1] M. Zha (2024). "Near-optimal differentially private low-rank trace regression with guaranteed
   private initialization". :arxiv:`2403.15999`
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from skdp.linalg.fixed_rank import (
    FixedRank,
    inner_product,
    project_coordinates,
    retract,
    tangent_dimension,
    tangent_vector,
    within_norm,
)
from skdp.linear_model._descent import Step, followed_level, release_kept
from skdp.linear_model._trace.clipping import Clipping
from skdp.linear_model._trace.estimate import Estimate
from skdp.linear_model._trace.records import NO_CLIPPING
from skdp.privacy import PrivacyBudget

__all__ = ["Descent", "descend"]

# benchmarks/trace_regression/defaults.md, "step": the length of a step, relative to the curvature
# of the loss; 1 would go to the minimum along it.
_STEP = 0.5
# Where most gradients are clipped the loss is taken to be no flatter than this; not studied.
_LEAST_CURVATURE = 0.1
# If nothing is ever clipped the level falls no further, relative to the first one; not studied.
_LEAST_LEVEL = 1e-9
# The votes at the end that tell whether the descent has come to rest, the fraction of what is
# wanted below which none of them should be, and by how many standard deviations of its noise; not
# studied.
_LAST_VOTES = 3
_LEAST_OF_WANTED = 0.5
_CERTAINTY = 3.0


@dataclass(frozen=True)
class Descent:
    """Public parameters of a descent.

    `quantile` is the fraction of the records that are not to be clipped, `spread` that of the
    responses, inf for no clipping, and `spread_to_level` the first level in spreads. Noise of
    earlier steps decays the most slowly along the `least_curvature`.
    """

    steps: Sequence[Step]
    quantile: float
    spread: float
    spread_to_level: float
    largest_coefficients: float
    least_curvature: float


def descend(
    clipping: Clipping, start: FixedRank, budget: PrivacyBudget, descent: Descent
) -> Estimate:
    """Run all steps, whatever the data."""
    dimension = tangent_dimension(start.shape, start.rank) + clipping.has_intercept
    largest = clipping.largest_level(descent.spread, dimension) * descent.spread_to_level
    largest = min(largest, NO_CLIPPING)
    clips = largest < NO_CLIPPING
    usual = _STEP / descent.quantile if clips else _STEP
    point, offset, level, variance = start, 0.0, largest, 0.0
    curvature = _Curvature(dimension)
    votes = []
    for step in descent.steps:
        gradient = _release_gradient(clipping, (point, offset, level), step, budget)
        votes.append((gradient.kept, gradient.vote_noise))
        curvature.update(tangent_vector(point, gradient.coordinates), point, offset, gradient)
        length = curvature.limit(usual)
        point = retract(point, gradient.coordinates, -length)
        point = within_norm(point, descent.largest_coefficients)
        offset -= length * gradient.slope
        decay = 1 - _STEP * descent.least_curvature / max(1.0, curvature.steepest)
        variance = decay**2 * variance + np.square(length * gradient.noise)
        if clips:
            limits = _LEAST_LEVEL * largest, largest
            level = followed_level(level, gradient.kept, descent.quantile, limits)
    estimate = _cut(point, offset, math.sqrt(variance))
    return replace(estimate, doubts=_doubts(votes, descent.quantile) if clips else ())


@dataclass(frozen=True)
class _Gradient:
    """A released gradient, the fraction of unclipped records, and the noise of a number of each."""

    coordinates: np.ndarray
    slope: float
    noise: np.float64
    kept: float
    vote_noise: float

    @property
    def flattening(self) -> float:
        """By how much clipping makes the loss flatter: about the fraction that is not clipped."""
        return max(self.kept, _LEAST_CURVATURE)


def _release_gradient(
    clipping: Clipping,
    where: tuple[FixedRank, float, float],
    step: Step,
    budget: PrivacyBudget,
) -> _Gradient:
    """Release the mean gradient at a point, and which fraction of the records was not clipped."""
    point, offset, level = where
    clipped = clipping.gradient(point, offset, level)
    divisor = clipping.records.n_records * clipped.gain
    released, scale = budget.release(step.gradient, clipped.total, clipped.sensitivity)
    noise = np.float64(scale) / divisor
    released = released / divisor
    # Without clipping, too: which releases there are does not depend on bounds.
    n_records = clipping.records.n_records
    kept, vote_noise = release_kept(step.vote, clipped.sizes, level, n_records, budget)
    slope = float(released[-1]) if clipping.has_intercept else 0.0
    coordinates = released[:-1] if clipping.has_intercept else released
    return _Gradient(project_coordinates(point, coordinates), slope, noise, kept, vote_noise)


def _doubts(votes: list[tuple[float, float]], quantile: float) -> tuple[str, ...]:
    """Doubt a descent near the end of which far more gradients are clipped than are to be."""
    kept, noise = min(votes[-_LAST_VOTES:])
    if kept + _CERTAINTY * noise >= _LEAST_OF_WANTED * quantile:
        return ()
    return (
        f"At the end of the descent only {kept:.0%} of the gradients of a step were not clipped, "
        f"where {quantile:.0%} are wanted: it has not come to rest, and the coefficients are "
        "probably useless. If a covariance was passed, entries of X may be much larger than that "
        "says, or far from 0, and covariance='private' would find their scale. Else pass a "
        "larger n_iter, or more records.",
    )


class _Curvature:
    """The largest curvature of the loss without clipping that released gradients show, or 0.

    It is 1 for independent features of variance 1, and more along some way where features are
    correlated. The difference of two gradients shows it along the way between them, up to twice the
    standard deviation of its noise, and costs nothing.
    """

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        self.steepest = 0.0
        self._length = 0.0
        self._last: tuple[FixedRank, FixedRank, float, _Gradient] | None = None

    def update(
        self, direction: FixedRank, point: FixedRank, offset: float, gradient: _Gradient
    ) -> None:
        """Compare a gradient with the one before."""
        if self._last is not None:
            direction_before, point_before, offset_before, before = self._last
            way, shift = point.minus(point_before), offset - offset_before
            squares = inner_product(way, way) + shift * shift
            change = inner_product(way, direction) - inner_product(way, direction_before)
            change += shift * (gradient.slope - before.slope)
            if squares > 0:
                self.steepest = max(self.steepest, self._least(change, squares, gradient, before))
        self._last = (direction, point, offset, gradient)

    def limit(self, length: float) -> float:
        """Shorten a step where the loss is steep, or hardly clipped, and remember its length."""
        if self._last is not None:
            length = min(length, 1 / self._last[-1].flattening) / max(1.0, self.steepest)
        self._length = length
        return length

    def _least(
        self, change: float, squares: float, gradient: _Gradient, before: _Gradient
    ) -> float:
        """Bound the curvature along the way from below."""
        # The step followed the noise of the gradient at its start, and the same noise is in the
        # difference of the two gradients.
        common = self._length * np.square(before.noise)
        error = np.hypot(gradient.noise, before.noise) * math.sqrt(squares)
        error += common * math.sqrt(2 * self.dimension)
        flattening = (gradient.flattening + before.flattening) / 2
        return float((change - common * self.dimension - 2 * error) / (squares * flattening))


def _cut(point: FixedRank, offset: float, noise: float) -> Estimate:
    """Set to 0 the singular values that a matrix of noise reaches, and shrink those just beyond."""
    if noise == 0:
        return Estimate(point, offset)
    edge = noise * sum(np.sqrt(point.shape))
    is_noise = point.values <= edge
    # Squares of signal and noise add up, so that a value just beyond the edge is mostly noise.
    added = np.square(edge / np.where(is_noise, np.inf, point.values))
    values = np.where(is_noise, 0.0, point.values * np.sqrt(1 - added))
    return Estimate(point.with_values(values), offset, int(is_noise.sum()))
