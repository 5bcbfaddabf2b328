"""Shares by rule, from public facts."""

import math
from typing import Any

import numpy as np

from skdp.privacy.plan import paths_of

__all__ = ["growing_shares", "left_of", "share_for_counts", "share_of"]


def share_for_counts(
    count: int, n_units: int, mu: float, *, precision: float, limits: tuple[float, float]
) -> float:
    """Compute the share at which each of so many counts has a relative error of `precision`.

    It is kept between the limits, and depends on public facts only.
    """
    needed = count / (precision * n_units * mu) ** 2
    return float(np.clip(needed, *limits))


def growing_shares(total: float, n_steps: int, growth: float) -> list[float]:
    """Split a share over steps, each of which gets so many times the share of the one before."""
    weights = growth ** np.arange(n_steps)
    shares: list[float] = (total * weights / weights.sum()).tolist()
    return shares


def share_of(part: Any) -> float:
    """Add the shares of a part of a plan."""
    return math.fsum(line.share for line in paths_of(part)[0])


def left_of(*parts: Any, total: float = 1.0) -> float:
    """Compute what parts of a plan leave of a share, to the last bit."""
    return total - share_of(parts)
