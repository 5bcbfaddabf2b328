"""Descents whose clip level follows a released count: the releases of their steps."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from skdp.privacy import Plan, PrivacyBudget, Release, sensitivity
from skdp.privacy.plan import PrivacyCost, growing_shares

_VOTE = "clip vote"
# benchmarks/trace_regression/errors.md, "The singular value", compares it with 0, which is constant
# clipping; other rates are not studied.
_LEVEL_RATE = 2.0
# Largest ratio of the shares of the last and the first step: not studied.
_LARGEST_GROWTH = 10.0


class DescentStep(NamedTuple):
    """The sum of gradients clipped to a level, and the vote: how many were not clipped."""

    gradient: Release
    vote: Release


def plan_descent(
    cost: PrivacyCost,
    gradient_shares: list[float],
    vote_share: float,
    change: Callable[..., float],
    *,
    follows: str,
    shape: tuple[int, ...],
) -> tuple[DescentStep, ...]:
    """Plan all steps; the release named `follows` sets the first level, votes set the others."""
    steps, share = list[DescentStep](), vote_share / len(gradient_shares)
    for step, gradient_share in enumerate(gradient_shares, start=1):
        gradient = cost.release(
            f"gradient {step}", "gaussian", gradient_share, change, follows=follows, shape=shape
        )
        follows = f"{_VOTE} {step}"
        vote = cost.release(follows, "gaussian", share, sensitivity.count, {})
        steps.append(DescentStep(gradient, vote))
    return tuple(steps)


def n_votes(plan: Plan) -> int:
    """Count the votes of a plan, each taken in the pass of its gradient."""
    return len({line.name for line in plan.releases if line.name.startswith(_VOTE)})


def shares_of_steps(total: float, n_steps: int, growth: float) -> list[float]:
    """Split a share over steps; the last ones get the most, as they decide the final error."""
    return growing_shares(total, n_steps, min(growth, _LARGEST_GROWTH ** (1 / n_steps)))


def n_within(sizes: np.ndarray, level: float) -> Any:
    """Count sizes up to a level, for a kernel; the NaN of a null unit is counted nowhere."""
    return np.asarray(np.count_nonzero(sizes <= level), dtype=np.float64)


def release_vote(
    vote: Release, n_kept: np.ndarray, n_units: int, budget: PrivacyBudget
) -> tuple[float, float]:
    """Release the fraction of unclipped gradients; return also the std of its noise."""
    noisy, noise_std = budget.release(vote, n_kept)
    return float(np.clip(noisy / n_units, 0.0, 1.0)), noise_std / n_units


def followed_level(
    level: float, kept: float, quantile: float, limits: tuple[float, float]
) -> float:
    """Raise the level if less than the fraction `quantile` was not clipped, else lower it."""
    return float(np.clip(level * math.exp(_LEVEL_RATE * (quantile - kept)), *limits))
