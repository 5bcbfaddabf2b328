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
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri

from skdp.linalg.fixed_rank import (
    FixedRank,
    inner_product,
    project_coordinates,
    retract,
    tangent_dimension,
    tangent_vector,
    within_norm,
)
from skdp.linear_model._descent import DescentStep, followed_level, release_vote
from skdp.linear_model._trace.clipping import Clipping
from skdp.linear_model._trace.estimate import Estimate
from skdp.linear_model._trace.records import NO_CLIPPING
from skdp.privacy import PrivacyBudget

__all__ = ["descend"]

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


def descend(
    plan: tuple[DescentStep, ...],
    clipping: Clipping,
    start: FixedRank,
    budget: PrivacyBudget,
    *,
    spread: float,
    quantile: float,
    largest_coefficients: float,
    least_curvature: float,
) -> Estimate:
    """Run all steps, whatever the data.

    `spread` is that of the responses, inf for no clipping, and `quantile` the fraction of the
    records that are not to be clipped. Noise of earlier steps decays the most slowly along the
    `least_curvature`.
    """
    dimension = tangent_dimension(start.shape, start.rank) + clipping.has_intercept
    # At 0 the residuals are the responses: so many spreads leave the quantile of them as they are.
    largest = clipping.largest_level(spread, dimension) * float(ndtri((1 + quantile) / 2))
    largest = min(largest, NO_CLIPPING)
    clips = largest < NO_CLIPPING
    usual = _STEP / quantile if clips else _STEP
    point, offset, level, variance = start, 0.0, largest, 0.0
    curvature = _Curvature(dimension)
    votes = []
    for step in plan:
        gradient = _release_gradient(step, clipping, (point, offset, level), budget)
        votes.append((gradient.kept, gradient.vote_std))
        curvature.update(gradient)
        length = curvature.limit(usual)
        point = retract(point, gradient.coordinates, -length)
        point = within_norm(point, largest_coefficients)
        offset -= length * gradient.slope
        decay = 1 - _STEP * least_curvature / max(1.0, curvature.steepest)
        variance = decay**2 * variance + np.square(length * gradient.noise_std)
        if clips:
            limits = _LEAST_LEVEL * largest, largest
            level = followed_level(level, gradient.kept, quantile, limits)
    estimate = _cut(point, offset, math.sqrt(variance))
    return replace(estimate, warnings=_warnings(votes, quantile) if clips else ())


@dataclass(frozen=True)
class _Gradient:
    """A released gradient, the fraction of unclipped records, and the noise of a number of each.

    It goes along `direction` from a point, and along `slope` from an intercept.
    """

    point: FixedRank
    offset: float
    coordinates: np.ndarray
    direction: FixedRank
    slope: float
    noise_std: np.float64
    kept: float
    vote_std: float

    @property
    def flattening(self) -> float:
        """By how much clipping makes the loss flatter: about the fraction that is not clipped."""
        return max(self.kept, _LEAST_CURVATURE)


def _release_gradient(
    plan: DescentStep,
    clipping: Clipping,
    where: tuple[FixedRank, float, float],
    budget: PrivacyBudget,
) -> _Gradient:
    """Release the mean gradient at a point, and which fraction of the records was not clipped."""
    point, offset, level = where
    total, facts, sizes, gain = clipping.gradient(point, offset, level)
    design = clipping.records.design
    released, noise_std = budget.release(plan.gradient, total, *facts, rounding=design.rounding)
    divisor = design.n_records * gain
    released, noise_std = released / divisor, np.float64(noise_std) / divisor
    # Without clipping, too: which releases there are does not depend on bounds.
    kept, vote_std = release_vote(plan.vote, sizes, level, design.n_records, budget)
    slope = float(released[-1]) if clipping.has_intercept else 0.0
    coordinates = released[:-1] if clipping.has_intercept else released
    coordinates = project_coordinates(point, coordinates)
    direction = tangent_vector(point, coordinates)
    return _Gradient(point, offset, coordinates, direction, slope, noise_std, kept, vote_std)


def _warnings(votes: list[tuple[float, float]], quantile: float) -> tuple[str, ...]:
    """Doubt a descent near the end of which far more gradients are clipped than are to be."""
    kept, noise_std = min(votes[-_LAST_VOTES:])
    if kept + _CERTAINTY * noise_std >= _LEAST_OF_WANTED * quantile:
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
        self._last: _Gradient | None = None

    def update(self, gradient: _Gradient) -> None:
        """Compare a gradient with the one before."""
        before, self._last = self._last, gradient
        if before is None:
            return
        way, shift = gradient.point.minus(before.point), gradient.offset - before.offset
        squares = inner_product(way, way) + shift * shift
        change = inner_product(way, gradient.direction) - inner_product(way, before.direction)
        change += shift * (gradient.slope - before.slope)
        if squares > 0:
            self.steepest = max(self.steepest, self._least(change, squares, gradient, before))

    def limit(self, length: float) -> float:
        """Shorten a step where the loss is steep, or hardly clipped, and remember its length."""
        if self._last is not None:
            length = min(length, 1 / self._last.flattening) / max(1.0, self.steepest)
        self._length = length
        return length

    def _least(
        self, change: float, squares: float, gradient: _Gradient, before: _Gradient
    ) -> float:
        """Bound the curvature along the way from below."""
        # The step followed the noise of the gradient at its start, and the same noise is in the
        # difference of the two gradients.
        common = self._length * np.square(before.noise_std)
        error = np.hypot(gradient.noise_std, before.noise_std) * math.sqrt(squares)
        error += common * math.sqrt(2 * self.dimension)
        flattening = (gradient.flattening + before.flattening) / 2
        return float((change - common * self.dimension - 2 * error) / (squares * flattening))


def _cut(point: FixedRank, offset: float, noise_std: float) -> Estimate:
    """Set to 0 the singular values that a matrix of noise reaches, and shrink those just beyond."""
    if noise_std == 0:
        return Estimate(point, offset)
    edge = noise_std * sum(np.sqrt(point.shape))
    is_noise = point.values <= edge
    # Squares of signal and noise add up, so that a value just beyond the edge is mostly noise.
    added = np.square(edge / np.where(is_noise, np.inf, point.values))
    values = np.where(is_noise, 0.0, point.values * np.sqrt(1 - added))
    return Estimate(point.with_values(values), offset, int(is_noise.sum()))
