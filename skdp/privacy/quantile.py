"""Private scales: a noisy binary search over a public grid."""

from collections.abc import Callable

import numpy as np

__all__ = ["SCALE_GRID", "search_quantile", "search_steps"]

#: Public grid for norms in unknown units: 1024 points from 1e-12 to 1e12, 5.5 per cent apart.
SCALE_GRID = np.geomspace(1e-12, 1e12, 1024)


def search_quantile(
    values: np.ndarray,
    q: float,
    grid: np.ndarray,
    noisy_count: Callable[[int, int, float], float],
) -> float:
    """Find the first grid point that at least ``q * n`` values do not exceed.

    Parameters
    ----------
    values : ndarray of shape (n,)
        One value a unit; NaN, for a null unit, is not counted, while n stays.
    q : float
        Probability level in (0, 1).
    grid : ndarray of shape (n_points,)
        Ascending public grid.
    noisy_count : callable
        Releases a count: ``noisy_count(step, n_steps, exact)``. The number of steps is that of a
        binary search over the grid, whatever the data.

    Returns
    -------
    float
        A grid point; the last one if no other will do.
    """
    # A NaN sorts behind every grid point and is thus never among the values up to a point.
    counts = np.bincount(np.searchsorted(grid, values), minlength=len(grid) + 1)
    counts_up_to = np.cumsum(counts)
    n_steps = search_steps(grid)
    # The number of steps is fixed: those left over stay where they are.
    low, high = 0, len(grid) - 1
    for step in range(1, n_steps + 1):
        middle = (low + high) // 2
        released = noisy_count(step, n_steps, float(counts_up_to[middle]))
        if released >= q * len(values):
            high = middle
        else:
            low = min(middle + 1, high)
    return float(grid[high])


def search_steps(grid: np.ndarray) -> int:
    """Count the noisy counts that a search over `grid` releases."""
    return int(np.ceil(np.log2(len(grid))))
