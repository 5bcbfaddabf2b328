"""Private medians of columns in unknown units, by searches that close in on them."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from skdp.privacy import PrivacyBudget
from skdp.privacy.cost import PrivacyCost
from skdp.privacy.quantile import search_steps
from skdp.privacy.release import Search

__all__ = [
    "ANY_SIZE",
    "RESPONSE_CENTER",
    "UP_TO_ONE",
    "affordable_refinements",
    "median_of_responses",
    "n_counts",
    "plan_medians",
    "release_medians",
]

#: Name of the release of the responses' center.
RESPONSE_CENTER = "response center"
# Less than one per cent apart. As 1 is a point of it, so is the median of what is mostly 1.
_SIDE = 10.0 ** np.linspace(-9, 18, 8191)  # not studied
#: Grid for numbers in any unit.
ANY_SIZE = np.concatenate([-_SIDE[::-1], [0.0], _SIDE])  # not studied
_SIDE_UP_TO_ONE = np.geomspace(1e-9, 1.0, 1534)  # not studied
#: Grid for numbers in units of a bound, even, and by powers for a bound that is far too large.
UP_TO_ONE = np.unique(  # not studied
    np.concatenate([-_SIDE_UP_TO_ONE, np.linspace(-1.0, 1.0, 1025), _SIDE_UP_TO_ONE])
)
# Largest distance of neighbors in these grids, relative to their size.
_STEP = 0.015  # not tuned
# Around a point, in units of the distance to the next one: 0 leaves it exactly as it is.
_AROUND = np.linspace(-1.0, 1.0, 255)  # not studied
_STEP_AROUND = float(_AROUND[1] - _AROUND[0])  # not tuned
# They tell a center from another that differs by one part in a hundred million.
_MOST_REFINEMENTS = 3  # not studied


def n_counts(n_points: int, n_refinements: int) -> int:
    """Count the noisy counts of a column that `release_medians` takes for a grid of that length."""
    return search_steps(n_points) + n_refinements * search_steps(len(_AROUND))


def plan_medians(
    cost: PrivacyCost,
    name: str,
    share_of_count: float,
    grid: np.ndarray,
    n_refinements: int,
    *,
    n_columns: int = 1,
    remedy: str,
) -> tuple[Search, ...]:
    """Plan a search, and closer ones, each count of which gets the same share."""
    plan = partial(cost.search, n_columns=n_columns)
    # The ends of the other grids are public bounds, and places around what is found.
    told = remedy if grid is ANY_SIZE else None
    share, share_around = (share_of_count * search_steps(len(one)) for one in (grid, _AROUND))
    closer = (f"{name}, refinement {number}" for number in range(1, 1 + n_refinements))
    first = plan(name, share, grid, remedy=told)
    return first, *(plan(one, share_around, _AROUND) for one in closer)


def affordable_refinements(n_points: int, n_columns: int, largest: float) -> int:
    """Compute how many further searches need at most so many counts of all columns together."""
    spare = largest / n_columns - search_steps(n_points)
    return int(min(max(spare / search_steps(len(_AROUND)), 0), _MOST_REFINEMENTS))


def release_medians(
    searches: Sequence[Search],
    counts_up_to: Callable[[np.ndarray], np.ndarray],
    budget: PrivacyBudget,
    n_rows: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Release the medians of columns of so many rows, and how far they may be off.

    Further searches go through ever smaller surroundings of what is found, which keeps a feature
    that differs little beside its size.
    """
    center, step = np.zeros(searches[0].shape), np.ones(searches[0].shape)
    for number, search in enumerate(searches):
        counts_around = partial(_counts_around, counts_up_to, center, step)
        found = budget.quantiles(search, counts_around, q=0.5, n_rows=n_rows)
        center = center + step * found
        step = _STEP * np.abs(center) if number == 0 else _STEP_AROUND * step
    return center, step


def median_of_responses(
    searches: Sequence[Search], responses: np.ndarray, budget: PrivacyBudget
) -> float:
    """Release the median of responses, or of what users have of them."""
    (center,), _ = release_medians(
        searches,
        lambda points: np.array([np.count_nonzero(responses <= points[0])], dtype=np.float64),
        budget,
        len(responses),
    )
    return float(center)


def _counts_around(
    counts_up_to: Callable[[np.ndarray], np.ndarray],
    center: np.ndarray,
    step: np.ndarray,
    points: np.ndarray,
) -> np.ndarray:
    return counts_up_to(center + step * points)
