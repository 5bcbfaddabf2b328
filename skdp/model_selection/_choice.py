"""The private choice among candidates that are judged on the same rows.

Only the differences between candidates matter, so that no bound of the losses is needed. The losses
of a row, less their median, are clipped to half of C on both sides. Whatever they are, the row then
moves the difference between two candidates by at most C, and its exchange by 2 C. C is a private
quantile of the ranges of the rows' losses. Losses that are 0 or 1 are summed as they are.
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from skdp.privacy import Plan, PrivacyBudget, Release, sensitivity
from skdp.privacy.cost import PrivacyCost
from skdp.privacy.quantile import SCALE_GRID
from skdp.privacy.release import Search

__all__ = [
    "OTHER_UNITS",
    "ChoiceReleases",
    "choose",
    "in_steps",
    "plan_choice",
    "quantile_for",
    "regrets",
    "release_level",
]

# Part of the choice's share for the range.
_RANGE_SHARE = 0.1  # not studied
# The quantile that is sought, and less of it with few rows: a count of all rows stays above it.
_MOST, _LEAST, _COUNT_MARGIN = 0.75, 0.5, 4.0  # not studied
# What regrets are rounded to, as a part of C. Their sums are then exact, and one row moves them by
# no more than its own.
_STEP = 2.0**-20  # not tuned
#: Where losses are small because they are all the same, nothing is wrong.
OTHER_UNITS = (
    "If that is for their units only, take others for y, or a callable scoring that has others."
)


class ChoiceReleases(NamedTuple):
    """What a choice releases, in this order."""

    loss_range: Search | None  # what losses are clipped to unless they are 0 or 1
    candidate: Release


def plan_choice(
    n_candidates: int,
    cost: PrivacyCost,
    *,
    unit: str,
    adjacency: str,
    is_bounded: bool,
) -> Plan:
    """Plan the choice."""
    share, search = 0.0, None
    if not is_bounded:
        share = _RANGE_SHARE
        search = cost.search("range of losses", share, SCALE_GRID, remedy=OTHER_UNITS)
    change, shape = partial(sensitivity.loss_range, 1.0, adjacency), (n_candidates,)
    choice = cost.release("candidate", "exponential", 1 - share, change, {}, shape=shape)
    return Plan(cost, ChoiceReleases(search, choice), unit=unit, adjacency=adjacency)


def choose(losses: np.ndarray, plan: ChoiceReleases, budget: PrivacyBudget) -> int:
    """Choose the number of a candidate, the likelier the smaller its sum of finite losses."""
    if plan.loss_range is None:
        losses = np.clip(losses, 0.0, 1.0)
    else:
        level = release_level(plan.loss_range, np.ptp(losses, axis=1), budget, most=_MOST)
        losses = regrets(losses, level)
    return budget.choose(plan.candidate, losses.sum(axis=0))


def regrets(losses: np.ndarray, level: float) -> np.ndarray:
    """Clip the losses of each row to half a `level` around their median, in units of it."""
    around = losses - np.median(losses, axis=1, keepdims=True)
    return in_steps(np.clip(around / level, -0.5, 0.5))


def release_level(
    search: Search, values: np.ndarray, budget: PrivacyBudget, *, most: float
) -> float:
    """Release a quantile of values: `most`, or a lower one with few rows, or the median."""
    q = max(_LEAST, quantile_for(search, len(values), most=most))
    return budget.quantile(search, values, q=q)


def quantile_for(search: Search, n_rows: int, *, most: float) -> float:
    """Return the largest quantile up to `most` that counts can tell; not positive if none."""
    return min(most, 1 - _COUNT_MARGIN * (search.noise_std or 0.0) / n_rows)


def in_steps(values: np.ndarray) -> np.ndarray:
    """Round values of at most 1 in size to multiples of a power of two, whose sums are exact.

    Those that are such a multiple apart get no further apart.
    """
    return np.asarray(np.rint(values / _STEP) * _STEP)
