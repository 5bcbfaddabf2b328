"""Post-processing of a noisy spectrum: cleaned eigenvalues and the number of components.

References
----------
.. [1] J. Bun, J.-P. Bouchaud, M. Potters (2017). "Cleaning large correlation matrices: tools from
   random matrix theory". Physics Reports 666. :doi:`10.1016/j.physrep.2016.10.005`
.. [2] T. P. Minka (2000). "Automatic choice of dimensionality for PCA". NIPS.
"""

import numpy as np
from scipy.special import gammaln

from skdp.linalg.norms import UNIT_ROUNDOFF

# Cumulated ratios that differ by at most so many units in the last place count as equal.
_TIE = 16  # not tuned
# Eigenvalues below this fraction of the largest are rounding errors.
_NEGLIGIBLE = 1e-15  # not tuned


def denoise_eigenvalues(eigenvalues: np.ndarray, off_diagonal_std: float) -> np.ndarray:
    """Subtract the upward push of noise from descending eigenvalues; negative ones become 0."""
    cleaned = eigenvalues - eigenvalue_pushes(eigenvalues, off_diagonal_std)
    return np.maximum(np.minimum.accumulate(cleaned), 0.0)


def eigenvalue_pushes(eigenvalues: np.ndarray, off_diagonal_std: float) -> np.ndarray:
    r"""Estimate the upward push that symmetric Gaussian noise gives to eigenvalues.

    To second order noise of standard deviation :math:`\tau` off the diagonal (`off_diagonal_std`)
    moves an eigenvalue by :math:`\tau^2 \sum_j 1/(\lambda_i - \lambda_j)`; with the noisy
    eigenvalues in the sum this is exact for an outlier in the limit of a large matrix [1]_. The
    push is at most :math:`\tau \sqrt d`, its value at the edge of the noise.
    """
    if off_diagonal_std == 0:
        return np.zeros(len(eigenvalues))
    largest_push = off_diagonal_std * np.sqrt(len(eigenvalues))
    with np.errstate(divide="ignore"):
        gaps = eigenvalues[:, None] - eigenvalues
        # Only the smaller eigenvalues push: near the edge the larger ones would cancel them.
        # Computed as a product of ratios, since squares may overflow.
        pushes = off_diagonal_std * np.triu(off_diagonal_std / gaps, 1).sum(axis=1)
    return np.asarray(np.minimum(pushes, largest_push))


def noise_edge(off_diagonal_std: float, n_features: int) -> float:
    """Compute the largest eigenvalue of symmetric noise alone, in the limit of a large matrix."""
    return 2 * off_diagonal_std * float(np.sqrt(n_features))


def components_for_ratio(explained_variance_ratio: np.ndarray, ratio: float) -> int:
    """Count the components needed to explain more than `ratio` of the variance, at least 1.

    A `ratio` that is itself one of the cumulated ratios counts as equal to it, despite rounding.
    """
    cumulated = np.cumsum(explained_variance_ratio)
    # These are fractions of a total, which is itself a sum of as many numbers in double precision.
    tie = _TIE * np.finfo(cumulated.dtype).eps + 2 * len(cumulated) * UNIT_ROUNDOFF
    needed = int(np.searchsorted(cumulated, ratio * (1 + tie), side="right")) + 1
    return min(needed, len(cumulated))


def most_likely_rank(eigenvalues: np.ndarray, n_rows: int) -> int:
    """Choose a rank below d, but at least 1, by Minka's approximation of the evidence [2]_."""
    ranks = range(1, len(eigenvalues))
    evidence = [_log_evidence(eigenvalues, rank, n_rows) for rank in ranks]
    return int(np.argmax(evidence)) + 1 if evidence else 1


def _log_evidence(eigenvalues: np.ndarray, rank: int, n_rows: int) -> float:
    n_features = len(eigenvalues)
    kept, rest = eigenvalues[:rank], eigenvalues[rank:]
    smallest = _NEGLIGIBLE * eigenvalues[0]
    if kept[-1] <= smallest:
        return -np.inf
    noise_variance = max(rest.mean(), smallest)
    dimensions = n_features - np.arange(rank)
    log_prior = -rank * np.log(2) + np.sum(gammaln(dimensions / 2) - np.log(np.pi) * dimensions / 2)
    log_fit = -n_rows / 2 * (np.log(kept).sum() + len(rest) * np.log(noise_variance))
    n_angles = n_features * rank - rank * (rank + 1) / 2
    log_volume = np.log(2 * np.pi) * (n_angles + rank) / 2
    return float(
        log_prior
        + log_fit
        + log_volume
        - _log_curvature(eigenvalues, rank, noise_variance, n_rows) / 2
        - rank * np.log(n_rows) / 2
    )


def _log_curvature(eigenvalues: np.ndarray, rank: int, noise_variance: float, n_rows: int) -> float:
    """Log determinant of the Hessian of the evidence in the angles of the subspace."""
    flattened = np.concatenate(
        [eigenvalues[:rank], np.full(len(eigenvalues) - rank, noise_variance)]
    )
    first, second = np.triu_indices(len(eigenvalues), 1)
    among_kept = first < rank
    first, second = first[among_kept], second[among_kept]
    terms = (1 / flattened[second] - 1 / flattened[first]) * (
        eigenvalues[first] - eigenvalues[second]
    )
    return float(np.sum(np.log(np.maximum(terms, np.finfo(np.float64).tiny)) + np.log(n_rows)))
