"""Histograms over public bins, and quantiles from their noisy counts."""

import numpy as np

__all__ = ["bin_counts", "quantile_from_counts"]


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
