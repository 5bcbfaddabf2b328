"""Private medians of columns in unknown units, by searches that close in on them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from skdp.linear_model._units_of_data import OTHER_UNITS_OF_Y
from skdp.privacy import PrivacyBudget
from skdp.privacy.quantile import search_steps

__all__ = [
    "ANY_SIZE",
    "UP_TO_ONE",
    "CenterSearch",
    "affordable_searches",
    "median_of_responses",
    "n_counts",
    "release_medians",
    "searches",
]

# Less than one per cent apart. As 1 is a point of it, so is the median of what is mostly 1.
_SIDE = 10.0 ** np.linspace(-9, 18, 8191)  # not studied
#: Grid for numbers in any unit.
ANY_SIZE = np.concatenate([-_SIDE[::-1], [0.0], _SIDE])  # not studied
_SIDE_UP_TO_ONE = np.geomspace(1e-9, 1.0, 1534)  # not studied
#: Grid for numbers in units of a bound, even, and by powers for a bound that is far too large.
UP_TO_ONE = np.unique(  # not studied
    np.concatenate([-_SIDE_UP_TO_ONE, np.linspace(-1.0, 1.0, 1025), _SIDE_UP_TO_ONE])
)
# Largest distance of neighbours in these grids, relative to their size.
_STEP = 0.015  # not tuned
# Around a point, in units of the distance to the next one: 0 leaves it exactly as it is.
_AROUND = np.linspace(-1.0, 1.0, 255)  # not studied
_STEP_AROUND = float(_AROUND[1] - _AROUND[0])  # not tuned
# They tell a centre from another that differs by one part in a hundred million.
_MOST_SEARCHES = 3  # not studied


@dataclass(frozen=True)
class CenterSearch:
    """How a median is sought: through a grid, and so many times closer."""

    grid: np.ndarray
    n_searches: int
    share: float


def n_counts(n_points: int, n_searches: int) -> int:
    """Count the noisy counts of a column that `release_medians` takes for a grid of that length."""
    return search_steps(n_points) + n_searches * search_steps(len(_AROUND))


def searches(name: str, n_points: int, n_searches: int) -> list[tuple[str, int]]:
    """Name the searches that `release_medians` makes, with how many points each goes through."""
    closer = [(f"{name}, closer {number}", len(_AROUND)) for number in range(1, 1 + n_searches)]
    return [(name, n_points), *closer]


def affordable_searches(n_points: int, n_columns: int, largest: float) -> int:
    """Compute how many further searches need at most so many counts of all columns together."""
    spare = largest / n_columns - search_steps(n_points)
    return int(min(max(spare / search_steps(len(_AROUND)), 0), _MOST_SEARCHES))


def release_medians(
    name: str,
    counts_up_to: Callable[[np.ndarray], np.ndarray],
    budget: PrivacyBudget,
    *,
    shape: tuple[int, int],
    grid: np.ndarray,
    n_searches: int,
    remedy: str,
) -> tuple[np.ndarray, np.ndarray]:
    """Release the medians of the columns of a table of that shape, and how far they may be off.

    Further searches go through ever smaller surroundings of what is found, which keeps a feature
    that differs little beside its size.
    """
    center, step = np.zeros(shape[1]), np.ones(shape[1])

    def _counts_here(points: np.ndarray) -> np.ndarray:
        return counts_up_to(center + step * points)

    for number, (search, _) in enumerate(searches(name, len(grid), n_searches)):
        points = grid if number == 0 else _AROUND
        found = budget.quantiles(
            search,
            _counts_here,
            q=0.5,
            n_rows=shape[0],
            grid=points,
            n_columns=shape[1],
            # The ends of the other grids are public bounds, and places around what is found.
            remedy=remedy if points is ANY_SIZE else None,
        )
        center = center + step * found
        step = _STEP * np.abs(center) if number == 0 else _STEP_AROUND * step
    return center, step


def median_of_responses(
    responses: np.ndarray, budget: PrivacyBudget, grid: np.ndarray, n_searches: int
) -> float:
    """Release the median of responses, or of what users have of them."""
    (center,), _ = release_medians(
        "response centre",
        lambda points: np.array([np.count_nonzero(responses <= points[0])], dtype=np.float64),
        budget,
        shape=(len(responses), 1),
        grid=grid,
        n_searches=n_searches,
        remedy=OTHER_UNITS_OF_Y,
    )
    return float(center)
