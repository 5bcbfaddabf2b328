r"""Private gradient descent with clip levels that follow the residuals.

Every step releases the sum of the clipped gradients of the records, moves along it, and releases
how many gradients were not clipped; the clip level of the next step follows that count. As the
residuals shrink, so do the level and the noise. With one level for the whole descent the error
would grow with the size of the coefficients instead. Gradients are projected on the tangent space
of the matrices of low rank [1]_, so that the noise has only as many dimensions as these matrices
do. The schedule of levels and shares is ours.

References
----------
.. [1] M. Zha (2024). "Near-optimal differentially private low-rank trace regression with guaranteed
   private initialization". :arxiv:`2403.15999`
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from skdp.linalg.matrices import (
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
from skdp.linear_model._trace.records import NO_CLIPPING
from skdp.privacy import PrivacyBudget

# benchmarks/trace_regression/defaults.md, "step": the length of a step, relative to the curvature
# of the loss; 1 would go to the minimum along it.
_STEP = 0.5
# However many gradients are clipped, the loss is not taken to be flatter than this; not studied.
_LEAST_FLATTENING = 0.1
# The level does not fall below this fraction of the first one, even if no gradient is ever clipped;
# not studied.
_LEAST_LEVEL = 1e-9
# The descent has not converged if one of the last votes is below this fraction of the wanted
# quantile, by so many standard deviations of its noise; not studied.
_LAST_VOTES = 3
_LEAST_OF_WANTED = 0.5
_CERTAINTY = 3.0


@dataclass(frozen=True)
class Estimate:
    """Released coefficients, of a matrix and an intercept, and warnings about them.

    `n_cut` singular values were set to 0, as noise hides them. Features are clipped to `bounds`, of
    shape (2, n_entries), if there are any.
    """

    point: FixedRank
    offset: float
    n_cut: int = 0
    warnings: tuple[str, ...] = ()
    bounds: np.ndarray | None = None


class _Gradient(NamedTuple):
    """A released mean gradient: along `direction` at a point, and `slope` at an intercept.

    `kept` is the released fraction of the records that were not clipped. Clipping makes the loss
    flatter by about that fraction, `flattening`.
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
        return max(self.kept, _LEAST_FLATTENING)


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
    gradients that are not to be clipped. `least_curvature` bounds how fast the noise of earlier
    steps decays.
    """
    dimension = tangent_dimension(start.shape, start.rank) + clipping.has_intercept
    # At 0 the residuals are the responses. If these are normal, this level leaves the wanted
    # quantile of them unclipped.
    largest = clipping.largest_level(spread, dimension) * float(ndtri((1 + quantile) / 2))
    largest = min(largest, NO_CLIPPING)
    clips = largest < NO_CLIPPING
    # Clipping all but a quantile flattens the loss by that factor.
    full_length = _STEP / quantile if clips else _STEP
    point, offset, level, variance = start, 0.0, largest, 0.0
    before: _Gradient | None = None
    length, steepest, votes = 0.0, 0.0, []
    for step in plan:
        gradient = _release_gradient(step, clipping, (point, offset, level), budget)
        votes.append((gradient.kept, gradient.vote_std))
        if before is not None:
            steepest = max(steepest, _curvature_between(before, gradient, length, dimension))
        # Shorter where the loss is steep, or hardly clipped.
        length = min(full_length, 1 / gradient.flattening) / max(1.0, steepest)
        before = gradient
        point = retract(point, gradient.coordinates, -length)
        point = within_norm(point, largest_coefficients)
        offset -= length * gradient.slope
        decay = 1 - _STEP * least_curvature / max(1.0, steepest)
        variance = decay**2 * variance + np.square(length * gradient.noise_std)
        if clips:
            limits = _LEAST_LEVEL * largest, largest
            level = followed_level(level, gradient.kept, quantile, limits)
    estimate = _cut(point, offset, math.sqrt(variance))
    return replace(estimate, warnings=_warnings(votes, quantile) if clips else ())


def _release_gradient(
    plan: DescentStep,
    clipping: Clipping,
    where: tuple[FixedRank, float, float],
    budget: PrivacyBudget,
) -> _Gradient:
    """Release the mean gradient at a point, and which fraction of the records was not clipped."""
    point, offset, level = where
    total, facts, n_kept, gain = clipping.gradient(point, offset, level)
    design = clipping.records.design
    released, noise_std = budget.release(plan.gradient, total, *facts, rounding=design.rounding)
    divisor = design.n_records * gain
    released, noise_std = released / divisor, np.float64(noise_std) / divisor
    # Also without clipping: which releases there are must not depend on bounds.
    kept, vote_std = release_vote(plan.vote, n_kept, design.n_records, budget)
    slope = float(released[-1]) if clipping.has_intercept else 0.0
    coordinates = released[:-1] if clipping.has_intercept else released
    coordinates = project_coordinates(point, coordinates)
    direction = tangent_vector(point, coordinates)
    return _Gradient(point, offset, coordinates, direction, slope, noise_std, kept, vote_std)


def _warnings(votes: list[tuple[float, float]], quantile: float) -> tuple[str, ...]:
    """Warn of a descent that still clips far more gradients than wanted near its end."""
    kept, noise_std = min(votes[-_LAST_VOTES:])
    if kept + _CERTAINTY * noise_std >= _LEAST_OF_WANTED * quantile:
        return ()
    return (
        f"The descent has not converged, and the coefficients are probably useless: in one of its "
        f"last steps only {kept:.0%} of the gradients were not clipped, where {quantile:.0%} are "
        "wanted. If you passed a covariance, entries of X may be much larger than it says, or far "
        "from 0: pass covariance='private', which finds their scale. Otherwise pass a larger "
        "n_iter, or more records.",
    )


def _curvature_between(
    before: _Gradient, gradient: _Gradient, length: float, dimension: int
) -> float:
    """Compute a lower bound of the curvature along the last step, for the loss without clipping.

    It is 1 for independent features of variance 1, and more in some direction where features are
    correlated. The difference of two released gradients shows it, up to twice the standard
    deviation of its noise, and costs no budget.
    """
    step, shift = gradient.point.minus(before.point), gradient.offset - before.offset
    squares = inner_product(step, step) + shift * shift
    if not squares > 0:
        return 0.0
    change = inner_product(step, gradient.direction) - inner_product(step, before.direction)
    change += shift * (gradient.slope - before.slope)
    # The step of that length followed the noise of the gradient at its start, and the same noise is
    # in the difference of the two gradients.
    common = length * np.square(before.noise_std)
    error = np.hypot(gradient.noise_std, before.noise_std) * math.sqrt(squares)
    error += common * math.sqrt(2 * dimension)
    flattening = (gradient.flattening + before.flattening) / 2
    return float((change - common * dimension - 2 * error) / (squares * flattening))


def _cut(point: FixedRank, offset: float, noise_std: float) -> Estimate:
    """Set to 0 the singular values that noise alone may reach, and shrink those just above."""
    if noise_std == 0:
        return Estimate(point, offset)
    edge = noise_std * sum(np.sqrt(point.shape))
    is_noise = point.values <= edge
    # The squares of signal and noise add up, so a value just above the edge is mostly noise.
    added = np.square(edge / np.where(is_noise, np.inf, point.values))
    values = np.where(is_noise, 0.0, point.values * np.sqrt(1 - added))
    return Estimate(point.with_values(values), offset, int(is_noise.sum()))
