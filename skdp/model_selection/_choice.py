"""The private choice among candidates that are judged on the same rows.

Only the differences between candidates matter, so the losses need no public bound. The median of a
row's losses is subtracted from them, and the result is clipped to [-C / 2, C / 2]. So a row moves
the difference between two candidates by at most C whatever its losses are, and exchanging the row
moves it by at most 2 C. C is a private quantile of the ranges of the rows' losses. Losses that are
0 or 1 are summed as they are.
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from skdp.privacy import Plan, PrivacyBudget, Release, sensitivity
from skdp.privacy.plan import PrivacyCost
from skdp.privacy.releases import SCALE_GRID, Search

# Part of the budget of the choice that the search for C takes.
_RANGE_SHARE = 0.1  # not studied
# C is the quantile _MOST of the ranges, or with few rows a lower one, down to _LEAST.
_MOST, _LEAST = 0.75, 0.5  # not studied
# What regrets are rounded to, as a part of C. Their sums are then exact in floating point, so that
# one row moves a sum by its own regret and not by the rounding of others.
_STEP = 2.0**-20  # not tuned
#: What to do if a level is at an end of the public grid. Nothing is wrong if all losses are alike,
#: and the level is therefore small.
OTHER_UNITS = "If only their units are to blame, rescale y, or pass a callable scoring in others."


class ChoiceReleases(NamedTuple):
    """What a choice releases, in this order."""

    loss_range: Search | None  # what losses are clipped to unless they are 0 or 1
    candidate: Release


def plan_choice(
    n_candidates: int, cost: PrivacyCost, unit: str, adjacency: str, *, is_bounded: bool
) -> Plan:
    """Plan the choice; losses that are 0 or 1 (`is_bounded`) need no search for a level."""
    share, search = 0.0, None
    if not is_bounded:
        share = _RANGE_SHARE
        search = cost.search("range of losses", share, SCALE_GRID, remedy=OTHER_UNITS)
    # Of losses in units of C, or of losses in [0, 1].
    change, shape = partial(sensitivity.loss_range, 1.0, adjacency), (n_candidates,)
    choice = cost.release("candidate", "exponential", 1 - share, change, {}, shape=shape)
    return Plan(cost, ChoiceReleases(search, choice), unit=unit, adjacency=adjacency)


def choose(losses: np.ndarray, plan: ChoiceReleases, budget: PrivacyBudget) -> int:
    """Choose the number of a candidate, with high probability one of small total loss."""
    if plan.loss_range is None:
        losses = np.clip(losses, 0.0, 1.0)
    else:
        level = release_level(plan.loss_range, np.ptp(losses, axis=1), budget, most=_MOST)
        losses = regrets(losses, level)
    return budget.choose(plan.candidate, losses.sum(axis=0))


def regrets(losses: np.ndarray, level: float) -> np.ndarray:
    """Clip the losses of each row to half a `level` around their median, in units of `level`."""
    around = losses - np.median(losses, axis=1, keepdims=True)
    return in_steps(np.clip(around / level, -0.5, 0.5))


def release_level(
    search: Search, values: np.ndarray, budget: PrivacyBudget, *, most: float
) -> float:
    """Release the `most` quantile of values; with few rows a lower one, at least the median."""
    q = max(_LEAST, search.highest_quantile(len(values), most=most))
    return budget.quantile(search, values, q=q)


def in_steps(values: np.ndarray) -> np.ndarray:
    """Round values of size at most 1 to multiples of a power of two, whose sums are exact.

    Two values whose distance is such a multiple, such as the clipping limits, get no further apart:
    rounding leaves the sensitivity as it is.
    """
    return np.asarray(np.rint(values / _STEP) * _STEP)
