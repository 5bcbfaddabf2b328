"""Private clip levels of losses, rounding of clipped values, and what clipping takes."""

import math
from collections.abc import Mapping

import numpy as np

from skdp.privacy import PrivacyBudget
from skdp.privacy.plan import PrivacyCost
from skdp.privacy.releases import SCALE_GRID, Search

#: Advice if a clip level is at an end of the public grid. Losses that are nearly equal have a small
#: level without any mistake, hence "if".
OTHER_UNITS = "If only their units are to blame, rescale y, or X where a score takes no y."


def plan_level(
    cost: PrivacyCost, name: str, share: float, *, is_bounded: bool
) -> tuple[Search | None, float]:
    """Plan the search for a clip level, unless losses are bounded; also return the share left."""
    if is_bounded:
        return None, 1.0
    return cost.search(name, share, SCALE_GRID, remedy=OTHER_UNITS), 1 - share


# Values are rounded to multiples of this part of the clip level, whose sums are exact: a row moves
# a sum by its own value, and does not change the rounding of other values.
_STEP = 2.0**-20  # not tuned
# With few values, the clip level is a lower quantile, down to this one.
LEAST_QUANTILE = 0.5  # not studied


def release_level(
    search: Search, values: np.ndarray, budget: PrivacyBudget, *, most: float
) -> float:
    """Release the `most` quantile of values as a clip level; with few values, a lower quantile."""
    q = max(LEAST_QUANTILE, search.highest_quantile(len(values), most=most))
    return budget.quantile(search, values, q=q)


def in_steps(values: np.ndarray) -> np.ndarray:
    """Round values in [-1, 1] to multiples of a power of two, which have exact sums.

    The limits of clipping are such multiples, so rounding does not increase the sensitivity.
    """
    return np.asarray(np.rint(values / _STEP) * _STEP)


# The tail of losses is that of an exponential law through the level and the last counted point
# below it that this many times as many losses exceed.
_TIMES = 2.0  # benchmarks/search/clipped.md


def mean_beyond(level: float, counted: Mapping[float, float], n_values: int) -> float:
    """Estimate by how much values exceed a level in the mean, from noisy counts up to points."""
    points, up_to = np.array(sorted(counted.items())).T
    exceeding = n_values - up_to
    at_level = float(np.interp(level, points, exceeding))
    below = np.flatnonzero((points < level) & (exceeding >= _TIMES * at_level))
    if at_level <= 0 or not len(below):
        return 0.0
    ratio = float(exceeding[below[-1]]) / at_level
    return at_level * (level - float(points[below[-1]])) / math.log(ratio) / n_values
