"""Private scales: a noisy binary search over a public grid."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["SCALE_GRID", "search_quantile", "search_quantiles", "search_steps", "warnings_for_ends"]

#: Public grid for norms in unknown units: 1024 points from 1e-12 to 1e12, 5.5 per cent apart.
SCALE_GRID = np.geomspace(1e-12, 1e12, 1024)  # not studied


def search_quantile(
    values: np.ndarray,
    q: float,
    grid: np.ndarray,
    noisy_count: Callable[[int, int, float], Any],
) -> float:
    """Find the first grid point that at least ``q * n`` values do not exceed, else the last one.

    NaN, for a null unit, counts in n alone. ``noisy_count(step, n_steps, exact)`` releases a count;
    the steps are those of a binary search over the grid, whatever the data.
    """

    def _count_up_to(points: np.ndarray) -> np.ndarray:
        return np.array([np.count_nonzero(values <= points)], dtype=np.float64)

    def _noisy_counts(step: int, n_steps: int, exact: np.ndarray) -> np.ndarray:
        return np.array([noisy_count(step, n_steps, float(exact[0]))])

    (found,) = search_quantiles(
        _count_up_to, _noisy_counts, q=q, n_rows=len(values), grid=grid, n_columns=1
    )
    return float(found)


def search_quantiles(
    counts_up_to: Callable[[np.ndarray], np.ndarray],
    noisy_counts: Callable[[int, int, np.ndarray], np.ndarray],
    *,
    q: float,
    n_rows: int,
    grid: np.ndarray,
    n_columns: int,
) -> np.ndarray:
    """Find for every column the first grid point that at least ``q * n_rows`` values do not exceed.

    It is the last point where no other will do. `n_rows` includes null units. `counts_up_to` takes
    a point for each column and counts the values up to it, null units left out. For `noisy_counts`
    see `search_quantile`.
    """
    n_steps = search_steps(len(grid))
    low = np.zeros(n_columns, dtype=np.intp)
    high = np.full(n_columns, len(grid) - 1)
    # The number of steps is fixed: those left over stay where they are.
    for step in range(1, n_steps + 1):
        middle = (low + high) // 2
        is_enough = noisy_counts(step, n_steps, counts_up_to(grid[middle])) >= q * n_rows
        low = np.where(is_enough, low, np.minimum(middle + 1, high))
        high = np.where(is_enough, middle, high)
    return np.asarray(grid[high], dtype=np.float64)


def warnings_for_ends(name: str, found: np.ndarray, grid: np.ndarray, remedy: str) -> list[str]:
    """Doubt released points of a grid that are its first or its last; a `remedy` is a sentence."""
    least = "smaller still" + ", or 0" * bool(grid[0] > 0)
    ends = ((grid[0], "least", least), (grid[-1], "largest", "larger still"))
    counts = [(int(np.count_nonzero(found == end)), *words) for end, *words in ends]
    of = f" for {{}} of {len(found)} columns" if len(found) > 1 else ""
    return [
        f"{name}: {end:g}{of.format(count)} is the {extreme} number that is looked for; as far as "
        f"noise tells, most are {beyond}. {remedy}"
        for (count, extreme, beyond), (end, *_) in zip(counts, ends, strict=True)
        if count
    ]


def search_steps(n_points: int) -> int:
    """Count the noisy counts that a search over a grid of so many points releases."""
    return math.ceil(math.log2(n_points))
