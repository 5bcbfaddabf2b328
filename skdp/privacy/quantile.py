"""Private quantiles: a noisy binary search over a public grid."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["SCALE_GRID", "search_quantile", "search_steps", "warnings_for_ends"]

#: Public grid for norms in unknown units: 1024 points from 1e-12 to 1e12, 5.5 per cent apart.
SCALE_GRID = np.geomspace(1e-12, 1e12, 1024)  # not studied


def search_quantile(
    noisy_count: Callable[[int, float], Any], grid: np.ndarray, target: float
) -> float:
    """Find the first grid point whose noisy count is at least `target`, or else the last point.

    ``noisy_count(step, point)`` releases how many values do not exceed a point. Steps are counted
    from 0; their number does not depend on the data.
    """
    low, high = 0, len(grid) - 1
    # The number of steps is fixed: a search that has ended early stays where it is.
    for step in range(search_steps(len(grid))):
        middle = (low + high) // 2
        if noisy_count(step, grid[middle]) >= target:
            high = middle
        else:
            low = min(middle + 1, high)
    return float(grid[high])


def warnings_for_ends(name: str, found: np.ndarray, grid: np.ndarray, remedy: str) -> list[str]:
    """Return a warning if a released point is an end of its grid; the `remedy` is a sentence."""
    below = "smaller" + ", or 0" * bool(grid[0] > 0)
    ends = ((grid[0], "smallest", below), (grid[-1], "largest", "larger"))
    counts = [(int(np.count_nonzero(found == end)), *words) for end, *words in ends]
    of = f" for {{}} of {found.size} columns" if found.size > 1 else ""
    return [
        f"{name}: the search ended at {end:g}{of.format(count)}, the {extreme} number that it "
        f"covers; most values are probably {beyond}. {remedy}"
        for (count, extreme, beyond), (end, *_) in zip(counts, ends, strict=True)
        if count
    ]


def search_steps(n_points: int) -> int:
    """Return how many noisy counts a search over a grid of so many points releases."""
    return math.ceil(math.log2(n_points))
