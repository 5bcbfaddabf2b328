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
from dataclasses import dataclass

import numpy as np

from skdp.linalg.fixed_rank import FixedRank, inner_product
from skdp.linear_model._solvers.clipping import Clipping
from skdp.linear_model._solvers.records import UNBOUNDED
from skdp.privacy import PrivacyBudget, sensitivity

__all__ = ["Descent", "Estimate", "descend", "gradient_shares"]

# From step to step, and from the first to the last.
_GROWTH = 1.2
_LARGEST_GROWTH = 10.0
_LEVEL_RATE = 2.0
# Of a loss most of whose gradients are clipped.
_LEAST_CURVATURE = 0.1
# The level stays a normal number however often nothing is clipped.
_LEAST_LEVEL = 1e-9


@dataclass(frozen=True)
class Descent:
    """Public parameters of a descent.

    Attributes
    ----------
    step_size : float
        Length of a step, relative to the curvature of the loss.
    quantile : float
        Share of the records that are not to be clipped.
    gradient_shares : tuple of float
        Share of the budget of each gradient.
    vote_share : float
        Share of each count of the records that were not clipped.
    spread : float
        Released or public spread of the responses; inf for no clipping at all.
    spread_to_level : float
        Level of a first gradient at which the wanted share is not clipped, in spreads.
    largest_coefficients : float
        Bound of the Frobenius norm of the matrix.
    least_curvature : float
        Smallest curvature of the loss: noise of earlier steps decays along it the most slowly.
    noise_cut : bool
        Whether singular values that noise can reach are set to 0 at the end.
    """

    step_size: float
    quantile: float
    gradient_shares: tuple[float, ...]
    vote_share: float
    spread: float
    spread_to_level: float
    largest_coefficients: float
    least_curvature: float
    noise_cut: bool


@dataclass(frozen=True)
class Estimate:
    """A released matrix and intercept, and how many singular values noise has taken."""

    point: FixedRank
    offset: float
    n_cut: int = 0


def gradient_shares(total: float, n_steps: int) -> tuple[float, ...]:
    """Split a share over the steps, the later ones getting more."""
    growth = min(_GROWTH, _LARGEST_GROWTH ** (1 / n_steps))
    weights = growth ** np.arange(n_steps)
    return tuple((total * weights / weights.sum()).tolist())


def descend(
    clipping: Clipping, start: FixedRank, budget: PrivacyBudget, descent: Descent
) -> Estimate:
    """Run all steps, whatever the data."""
    space, n_records = clipping.space, clipping.records.n_records
    has_intercept = clipping.records.intercept > 0
    largest = clipping.largest_level(descent.spread) * descent.spread_to_level
    largest = min(largest, UNBOUNDED)
    clips = largest < UNBOUNDED
    point, offset, level = start, 0.0, largest
    dimension = space.dimension(point.shape) + has_intercept
    curvature, variance = _Curvature(dimension), 0.0
    for step, share in enumerate(descent.gradient_shares, start=1):
        clipped = clipping.gradient(point, offset, level)
        released = budget.gaussian(
            f"gradient {step}", clipped.total, sensitivity=clipped.sensitivity, share=share
        ) / (n_records * clipped.gain)
        noise = budget.last_scale / (n_records * clipped.gain)
        slope = float(released[-1]) if has_intercept else 0.0
        if has_intercept:
            released = released[:-1]
        released = space.project(point, released)
        # Released without clipping, too, as what is released does not depend on bounds.
        kept = _release_vote(clipped.sizes, level, step, budget, descent.vote_share)
        flattening = max(kept, _LEAST_CURVATURE)
        gradient = _Gradient(space.direction(point, released), slope, noise, flattening)
        curvature.update(point, offset, gradient)
        # Where hardly anything is clipped the loss is steeper, and a longer step would overshoot.
        usual = descent.step_size / descent.quantile if clips else descent.step_size
        length = min(usual, 1 / flattening) / max(1.0, curvature.steepest)
        curvature.last_length = length
        point = _bounded(space.move(point, released, -length), descent.largest_coefficients)
        offset -= length * slope
        decay = 1 - descent.step_size * descent.least_curvature / max(1.0, curvature.steepest)
        variance = decay**2 * variance + (length * noise) ** 2
        if clips:
            level *= math.exp(_LEVEL_RATE * (descent.quantile - kept))
            level = float(np.clip(level, _LEAST_LEVEL * largest, largest))
    if descent.noise_cut:
        return _cut(point, offset, math.sqrt(variance))
    return Estimate(point, offset)


@dataclass(frozen=True)
class _Gradient:
    """A released gradient, its part for the intercept, and the noise in a coordinate.

    Clipping makes the loss flatter, by about the share of the records that are not clipped.
    """

    direction: FixedRank
    slope: float
    noise: float
    flattening: float


class _Curvature:
    """The largest curvature of the loss without clipping that released gradients show, or 0.

    It is 1 for independent features of variance 1, and more along some way where features are
    correlated. The difference of two gradients shows it along the way between them, up to twice the
    standard deviation of its noise, and costs nothing.
    """

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        self.steepest = 0.0
        self.last_length = 0.0
        self._last: tuple[FixedRank, float, _Gradient] | None = None

    def update(self, point: FixedRank, offset: float, gradient: _Gradient) -> None:
        """Compare a gradient with the one before."""
        if self._last is not None:
            point_before, offset_before, before = self._last
            way, shift = point.minus(point_before), offset - offset_before
            squares = inner_product(way, way) + shift * shift
            change = inner_product(way, gradient.direction) - inner_product(way, before.direction)
            change += shift * (gradient.slope - before.slope)
            if squares > 0:
                self.steepest = max(self.steepest, self._least(change, squares, gradient, before))
        self._last = (point, offset, gradient)

    def _least(
        self, change: float, squares: float, gradient: _Gradient, before: _Gradient
    ) -> float:
        """Bound the curvature along the way from below."""
        # The way follows the noise of the gradient that it started from, whose difference with the
        # next one has it again.
        common = self.last_length * before.noise**2
        error = math.hypot(gradient.noise, before.noise) * math.sqrt(squares)
        error += common * math.sqrt(2 * self.dimension)
        flattening = (gradient.flattening + before.flattening) / 2
        return (change - common * self.dimension - 2 * error) / (squares * flattening)


def _release_vote(
    sizes: np.ndarray, level: float, step: int, budget: PrivacyBudget, share: float
) -> float:
    """Release which share of the records was not clipped."""
    n_kept = float(np.count_nonzero(sizes <= level))
    released = budget.gaussian(
        f"clip vote {step}", n_kept, sensitivity=sensitivity.count(), share=share
    )
    return float(np.clip(released / len(sizes), 0.0, 1.0))


def _bounded(point: FixedRank, largest: float) -> FixedRank:
    norm = float(np.linalg.norm(point.values))
    return point if norm <= largest else point.with_values(point.values * (largest / norm))


def _cut(point: FixedRank, offset: float, noise: float) -> Estimate:
    """Set to 0 the singular values that a matrix of noise reaches."""
    edge = noise * sum(np.sqrt(point.shape))
    is_noise = point.values <= edge if noise > 0 else np.zeros(point.rank, dtype=bool)
    values = np.where(is_noise, 0.0, point.values)
    return Estimate(point.with_values(values), offset, int(is_noise.sum()))
