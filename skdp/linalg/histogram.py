"""Histograms over public bins, and quantiles from their noisy counts."""

from typing import NamedTuple

import numpy as np


class GridCounts(NamedTuple):
    """How many of the values of `n_units` units do not exceed each point of a public grid.

    The counts are exact: only a budget may release them.
    """

    grid: np.ndarray
    up_to_points: np.ndarray
    n_units: int

    @classmethod
    def of(cls, grid: np.ndarray, in_bins: np.ndarray, n_units: int) -> "GridCounts":
        """Add up the counts of `bin_counts` with one bin more, for all that is beyond the grid."""
        return cls(grid, np.cumsum(in_bins[:-1]), n_units)

    @classmethod
    def in_all(cls, grid: np.ndarray, values: np.ndarray, n_units: int) -> "GridCounts":
        """Count the values of units; the NaN of a null unit is counted nowhere.

        There are `n_units` of them in all, of which `values` may hold a part.
        """
        return cls.of(grid, bin_counts(values, np.append(grid, np.inf)), n_units)

    def up_to(self, point: float) -> int:
        """Return how many values do not exceed a point of the grid."""
        return int(self.up_to_points[np.searchsorted(self.grid, point)])


def bin_counts(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Count the values in each bin: those above the previous edge and at most its own edge.

    The last bin also takes larger values. The NaN of a null unit is counted nowhere. The counts are
    exact: only a budget may release them.
    """
    bins = np.searchsorted(edges, values[~np.isnan(values)])
    return np.bincount(np.minimum(bins, len(edges) - 1), minlength=len(edges))


def quantile_from_counts(counts: np.ndarray, edges: np.ndarray, q: float) -> float:
    """Return the first edge with a fraction `q` of noisy counts below; negative ones count as 0."""
    cumulative = np.cumsum(np.maximum(counts, 0.0))
    return float(edges[min(np.searchsorted(cumulative, q * cumulative[-1]), len(edges) - 1)])
