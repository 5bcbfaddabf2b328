"""Counts of values between the points of a public grid."""

import numpy as np

__all__ = ["bin_counts", "quantile_from_counts"]


def bin_counts(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Count the values up to each edge and above the one before.

    Parameters
    ----------
    values : ndarray of shape (n,)
        One value a unit; NaN, for a null unit, is not counted.
    edges : ndarray of shape (n_bins,)
        Ascending upper edges; larger values are counted in the last bin.

    Returns
    -------
    ndarray of shape (n_bins,)
        Exact counts: to be released by a budget only.
    """
    bins = np.searchsorted(edges, values[~np.isnan(values)])
    return np.bincount(np.minimum(bins, len(edges) - 1), minlength=len(edges))


def quantile_from_counts(counts: np.ndarray, edges: np.ndarray, q: float) -> float:
    """Read a quantile off noisy counts, as an edge; negative counts are taken for 0.

    Parameters
    ----------
    counts : ndarray of shape (n_bins,)
        Released counts.
    edges : ndarray of shape (n_bins,)
        Their upper edges.
    q : float
        Probability in (0, 1).

    Returns
    -------
    float
        The first edge at which a share `q` of the counts is reached.
    """
    cumulated = np.cumsum(np.maximum(counts, 0.0))
    return float(edges[min(np.searchsorted(cumulated, q * cumulated[-1]), len(edges) - 1)])
