"""What descents with clip levels share: gradients, votes on a level, and the level that follows."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from skdp.privacy import PrivacyBudget, Release, sensitivity
from skdp.privacy.cost import PrivacyCost
from skdp.privacy.shares import growing_shares

__all__ = ["Step", "followed_level", "growing", "plan_steps", "release_kept"]

# benchmarks/trace_regression/errors.md, "The singular value", compares it with 0, which is constant
# clipping; other rates are not studied.
_LEVEL_RATE = 2.0
# The last step gets at most so many times the share of the first: benchmarks/house/constants.md.
_LARGEST_GROWTH = 10.0


class Step(NamedTuple):
    """A sum of clipped gradients, and a count of those that were not clipped."""

    gradient: Release
    vote: Release


def growing(total: float, n_steps: int, growth: float) -> list[float]:
    """Split a share over the steps, each of which gets up to so many times that of the last one."""
    return growing_shares(total, n_steps, min(growth, _LARGEST_GROWTH ** (1 / n_steps)))


def plan_steps(
    cost: PrivacyCost,
    shares: Sequence[float],
    votes: float,
    change: Callable[..., float],
    shape: tuple[int, ...],
    follows: str,
) -> tuple[Step, ...]:
    """Plan a gradient for each share, and votes with one share for all."""
    steps = []
    for number, own in enumerate(shares, start=1):
        name, vote = f"gradient {number}", f"clip vote {number}"
        gradient = cost.release(name, "gaussian", own, change, follows=follows, shape=shape)
        count = cost.release(vote, "gaussian", votes / len(shares), sensitivity.count, {})
        steps.append(Step(gradient, count))
        follows = vote
    return tuple(steps)


def release_kept(
    vote: Release, norms: np.ndarray, level: float, n_units: int, budget: PrivacyBudget
) -> tuple[float, float]:
    """Release which fraction of the units was not clipped; return its noise, too."""
    n_kept, scale = budget.release(vote, np.count_nonzero(norms <= level))
    return float(np.clip(n_kept / n_units, 0.0, 1.0)), scale / n_units


def followed_level(
    level: float, kept: float, quantile: float, limits: tuple[float, float]
) -> float:
    """Raise or lower a clip level towards a quantile, within limits."""
    return float(np.clip(level * math.exp(_LEVEL_RATE * (quantile - kept)), *limits))
