"""Private clip levels of losses, rounding of clipped values, and what clipping cuts off."""

import math
from collections.abc import Mapping

import numpy as np

from skdp.privacy import PrivacyBudget
from skdp.privacy.plan import PrivacyCost
from skdp.privacy.releases import SCALE_GRID, Search

#: Advice if a clip level is at an end of the public grid. It says "if", as losses that are nearly
#: equal have a small level although nothing is wrong.
OTHER_UNITS = "If only their units are to blame, rescale y, or X where a score takes no y."


def plan_level(cost: PrivacyCost, name: str, share: float) -> tuple[Search, float]:
    """Plan the search for a clip level of losses; return it and the share left."""
    return cost.search(name, share, SCALE_GRID, remedy=OTHER_UNITS), 1 - share


# Values are rounded to multiples of this fraction of the clip level. Sums of multiples are exact:
# a row changes a sum by its own value, and not by the rounding of other values.
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


# The tail of losses is assumed to be exponential. Its rate follows from two counts: of losses above
# the clip level, and above a lower point. The lower point is the highest one above which there are
# at least this many times as many losses.
_LEAST_RATIO = 2.0  # benchmarks/search/clipped.md


def mean_beyond(level: float, counted: Mapping[float, float], n_values: int) -> float:
    """Estimate the mean excess of values above a level.

    `counted` has noisy numbers of values up to some points, by point.
    """
    points, n_up_to = np.array(sorted(counted.items())).T
    n_above = n_values - n_up_to
    n_above_level = float(np.interp(level, points, n_above))
    below = np.flatnonzero((points < level) & (n_above >= _LEAST_RATIO * n_above_level))
    if n_above_level <= 0 or not len(below):
        return 0.0
    last = below[-1]
    rate_times_distance = math.log(float(n_above[last]) / n_above_level)
    return n_above_level * (level - float(points[last])) / rate_times_distance / n_values
