"""Counts of values between the points of a public grid."""

import numpy as np

__all__ = ["bin_counts", "quantile_from_counts"]


def bin_counts(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Count the values up to each edge and above the one before; NaN, for a null unit, nowhere.

    The last bin takes larger values, too. The counts are exact: only a budget may release them.
    """
    bins = np.searchsorted(edges, values[~np.isnan(values)])
    return np.bincount(np.minimum(bins, len(edges) - 1), minlength=len(edges))


def quantile_from_counts(counts: np.ndarray, edges: np.ndarray, q: float) -> float:
    """Return the first edge that a share `q` of noisy counts reaches; negative ones count as 0."""
    cumulated = np.cumsum(np.maximum(counts, 0.0))
    return float(edges[min(np.searchsorted(cumulated, q * cumulated[-1]), len(edges) - 1)])
