"""Orthonormal bases, a check of symmetry, and eigenvalues of noisy matrices."""

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from scipy.sparse import issparse
from scipy.sparse.linalg import LinearOperator, eigsh
from scipy.special import chdtri, gammainccinv, gammaln

from skdp.linalg.norms import UNIT_ROUNDOFF, row_norms

#: Multiplies the columns of an array by a matrix.
Product: TypeAlias = Callable[[np.ndarray], np.ndarray]

# ------------------------------
# Orthonormal bases: random or computed ones, and their signs.


def random_basis(n_features: int, size: int, generator: np.random.Generator) -> np.ndarray:
    """Draw an orthonormal basis of a uniformly random subspace, of shape (n_features, size)."""
    return orthonormal_basis(generator.normal(size=(n_features, size)))


def orthonormal_basis(vectors: np.ndarray) -> np.ndarray:
    """Compute orthonormal columns whose span contains all `vectors`, whatever their rank."""
    # In LAPACK, the signs of the columns affect R, and not Q: flipping a column changes no bit of
    # the basis.
    return np.linalg.qr(vectors)[0]


def coherence(basis: np.ndarray) -> float:
    """Return the largest squared row norm of an orthonormal basis over the mean squared one."""
    n_rows, size = basis.shape
    return float(np.einsum("ij,ij->i", basis, basis).max() * n_rows / size)


# Singular values have the relative tolerance `_VALUE_TOLERANCE`. Numbers up to the square of
# `_DIAGONAL` are added to the diagonal of a scaled Gram matrix. The squares of both constants are
# far above rounding errors.
_VALUE_TOLERANCE, _DIAGONAL = 1e-6, 1e-6  # not tuned


def leading_right_vectors(
    product: Product,
    adjoint: Product | None,
    shape: tuple[int, int],
    size: int,
    generator: np.random.Generator,
) -> np.ndarray:
    """Compute the leading right singular vectors of X by ARPACK, from products by X and X^T.

    Without `adjoint`, X is symmetric, and the vectors are its eigenvectors.
    """
    length, is_tall = min(shape), shape[0] >= shape[1]
    first = product if is_tall or adjoint is None else adjoint
    # If few singular values are distinct, ARPACK draws more start vectors from a generator of its
    # own, which no seed repeats. So unequal small numbers are added to the diagonal, which make all
    # values distinct.
    start = generator.normal(size=(length, 1))
    diagonal = np.square(_DIAGONAL * generator.uniform(size=length))
    # X is divided by about the root mean square of its singular values, so that no square
    # overflows.
    scale = float(row_norms(first(start).T)[0]) / math.sqrt(length) or 1.0

    def _step(vector: np.ndarray) -> np.ndarray:
        """Multiply a vector by the scaled symmetric matrix whose eigenvectors ARPACK finds."""
        found = first(vector[:, np.newaxis]) / scale
        if adjoint is not None:
            found = (adjoint if is_tall else product)(found) / scale
        return np.asarray(found[:, 0] + diagonal * vector)

    vectors = np.eye(length)
    if size < length:
        moment = LinearOperator((length, length), matvec=_step, dtype=np.float64)
        vectors = eigsh(moment, size, v0=start, tol=_VALUE_TOLERANCE**2)[1][:, ::-1]
    if is_tall:
        return np.asarray(vectors)
    return np.asarray(np.linalg.svd(first(vectors) / scale, full_matrices=False)[0])


def deterministic_signs(components: np.ndarray) -> np.ndarray:
    """Return a sign for each row of `components` that makes its largest entry positive.

    The largest entry is the one with the largest absolute value. In scikit-learn, signs follow from
    the scores of the rows, which are private here.
    """
    largest = np.argmax(np.abs(components), axis=1)
    signs = np.sign(components[np.arange(len(components)), largest])
    signs[signs == 0] = 1.0
    return signs


# ------------------------------
# Symmetry up to rounding.

_SYMMETRY_TOLERANCE = 1e-10  # not tuned


def is_symmetric(X: Any) -> bool:
    """Return whether all entries (i, j) and (j, i) are equal, up to a relative rounding error."""
    with np.errstate(all="ignore"):
        difference, size = abs(X - X.T), abs(X)
        size = size.maximum(size.T) if issparse(X) else np.maximum(size, size.T)
        too_large = difference > _SYMMETRY_TOLERANCE * size
        return bool(too_large.nnz == 0 if issparse(X) else not too_large.any())


# ------------------------------
# Eigenvalues of noisy matrices: their errors, and the number of components.

# A cumulated ratio of variances counts as equal to a wanted ratio if both differ by at most this
# many units in the last place, plus the rounding errors of the sums.
_TIE = 16  # not tuned
# Eigenvalues below this fraction of the largest are rounding errors.
_NEGLIGIBLE = 1e-15  # not tuned


def descending(cleaned: np.ndarray) -> np.ndarray:
    """Replace each number by the least of the numbers up to its place; raise negative ones to 0."""
    return np.maximum(np.minimum.accumulate(cleaned), 0.0)


def eigenvalue_pushes(eigenvalues: np.ndarray, off_diagonal_std: float) -> np.ndarray:
    r"""Estimate by how much symmetric Gaussian noise has raised eigenvalues.

    Noise of standard deviation :math:`\tau` off the diagonal (`off_diagonal_std`) moves the
    eigenvalue :math:`\lambda_i` by :math:`\tau^2 \sum_j 1/(\lambda_i - \lambda_j)`, to second
    order. With noisy eigenvalues in the sum, the formula is exact, in the limit of a large matrix,
    for an eigenvalue far above all others (J. Bun, J.-P. Bouchaud, M. Potters, 2017,
    :doi:`10.1016/j.physrep.2016.10.005`). The result is clipped to :math:`\tau \sqrt d`, its value
    at the largest eigenvalue of noise alone.
    """
    if off_diagonal_std == 0:
        return np.zeros(len(eigenvalues))
    largest_push = off_diagonal_std * np.sqrt(len(eigenvalues))
    with np.errstate(divide="ignore", over="ignore"):
        gaps = eigenvalues[:, None] - eigenvalues
        # The sum has terms of smaller eigenvalues only: near the edge of the noise, terms of larger
        # eigenvalues would cancel these. Ratios are multiplied, as squares could overflow.
        pushes = off_diagonal_std * np.triu(off_diagonal_std / gaps, 1).sum(axis=1)
    return np.asarray(np.minimum(pushes, largest_push))


def noise_edge(off_diagonal_std: float, n_features: int) -> float:
    """Return the largest eigenvalue of a large symmetric matrix of noise alone."""
    return 2 * off_diagonal_std * float(np.sqrt(n_features))


# Probability that noise exceeds a bound on its norm.
_RISK = 1e-3  # benchmarks/entries/warned.md, "edge alone"
# Scaled norms of noise matrices follow the Tracy-Widom law, which exceeds 3.27 with the probability
# `_RISK`. Norms of small matrices exceed 3.27 twice as often. In simulations, which were not
# recorded, scaled norms of matrices of order 2 or more exceeded 3.84 with at most this probability.
TRACY_WIDOM = 3.84  # not studied


def gaussian_norm(shape: tuple[int, ...], noise_std: float) -> float:
    """Compute a bound that the spectral norm of Gaussian noise exceeds once in 1000 times.

    The limit law is Tracy-Widom (I. M. Johnstone, 2001, :doi:`10.1214/aos/1009210544`). The
    centering and scaling of Z. Ma (2012, :doi:`10.3150/10-BEJ334`) fit small matrices better.
    """
    m, n = np.array(shape) - 0.5
    edge = math.sqrt(m) + math.sqrt(n)
    fluctuation = edge * (1 / math.sqrt(m) + 1 / math.sqrt(n)) ** (1 / 3)
    # The squared norm of a single row or column has a chi-squared law instead.
    of_vector = float(chdtri(max(shape), _RISK))
    return noise_std * math.sqrt(max(edge**2 + TRACY_WIDOM * fluctuation, of_vector))


def spherical_norm(shape: tuple[int, ...], noise_std: float) -> float:
    """Compute a bound that the norm of spherical noise exceeds once in 1000 times."""
    size = math.prod(shape)
    return noise_std * float(gammainccinv(size, _RISK)) / math.sqrt(size + 1)


# Probability that noise turns an eigenvector by less than the estimated angle.
_CONFIDENCE = 0.95  # not tuned
# Squared gaps between eigenvalues, in units of the noise variance, are raised to at least this
# number, at which angles are already near 90 degrees.
_LEAST_SQUARED_GAP = 0.1  # not studied
# Largest weight w_ij, see `noise_errors`, of two outliers in the error of an eigenvalue.
_MOST_OF_A_PAIR = 0.1  # benchmarks/noise_errors/coverage.md
# Ratios of eigenvalues to noise are clipped, as squares could overflow. Errors stay the same.
_LARGEST_RATIO = 1e150  # not tuned


def noise_errors(
    eigenvalues: np.ndarray, off_diagonal_std: float, edge: float
) -> tuple[np.ndarray, np.ndarray]:
    r"""Estimate errors of eigenvalues, and the angles by which noise turns eigenvectors.

    Noise is symmetric and Gaussian, with standard deviation :math:`\tau` off the diagonal; the
    noisy eigenvalues :math:`\mu` descend. To first order an eigenvalue moves by :math:`\sqrt 2
    \tau`, and the squared tangent of the angle is a sum of :math:`w_{ij} = \tau^2 / (\mu_i -
    \mu_j)^2` times squared normal numbers. For an outlier, an eigenvalue above the `edge` of the
    noise, in the limit of a large matrix, the mean of this sum is exact with noisy eigenvalues, and
    the error is :math:`\sqrt 2 \tau \sqrt{1 + \sum_{j>i} w_{ij}}` once `eigenvalue_pushes` are
    subtracted. Noise increases the squared gap between two outliers by :math:`8 \tau^2` on average,
    which is subtracted, too; their :math:`w_{ij}` in errors is at most .1. A quantile of the sum is
    approximated by a multiple of a chi-squared number with the same mean and variance (F. E.
    Satterthwaite, 1946, :doi:`10.2307/3002019`). Below the edge, a vector may have any direction,
    and the error is the largest push. benchmarks/noise_errors/coverage.md has the coverage.
    """
    n = len(eigenvalues)
    if off_diagonal_std == 0:
        return np.zeros(n), np.zeros(n)
    largest_error = max(np.sqrt(n), np.sqrt(2))
    is_above = eigenvalues > edge
    with np.errstate(over="ignore"):
        values = np.clip(eigenvalues / off_diagonal_std, -_LARGEST_RATIO, _LARGEST_RATIO)
    repulsion = 8 * np.logical_and.outer(is_above, is_above)
    squared_gaps = np.square(values[:, None] - values) - repulsion
    weights = 1 / np.maximum(squared_gaps, _LEAST_SQUARED_GAP)
    np.fill_diagonal(weights, _LARGEST_RATIO**-2)  # almost 0; a lone eigenvalue needs a maximum > 0
    in_errors = np.where(repulsion > 0, np.minimum(weights, _MOST_OF_A_PAIR), weights)
    errors = np.sqrt(2 * (1 + np.triu(in_errors, 1).sum(axis=1)))
    errors = np.where(is_above, np.minimum(errors, largest_error), largest_error)
    parts = weights / weights.max(axis=1, keepdims=True)
    degrees = parts.sum(axis=1) ** 2 / np.square(parts).sum(axis=1)
    squares = weights.sum(axis=1) / degrees * chdtri(degrees, 1 - _CONFIDENCE)
    angles = np.arctan(np.sqrt(squares))
    return off_diagonal_std * errors, np.where(is_above, angles, np.pi / 2)


def components_for_ratio(explained_variance_ratio: np.ndarray, ratio: float) -> int:
    """Return how many components explain more than `ratio` of the variance, at least 1."""
    cumulated = np.cumsum(explained_variance_ratio)
    # The sums have rounding errors, and so has the total by which the ratios were divided. A ratio
    # that equals a sum up to such errors counts as equal.
    tie = _TIE * np.finfo(cumulated.dtype).eps + 2 * len(cumulated) * UNIT_ROUNDOFF
    needed = int(np.searchsorted(cumulated, ratio * (1 + tie), side="right")) + 1
    return min(needed, len(cumulated))


def most_likely_rank(eigenvalues: np.ndarray, n_rows: int, off_diagonal_std: float = 0.0) -> int:
    r"""Choose a rank from 1 to d - 1 by the approximate evidence for each rank.

    The approximation is from T. P. Minka (2000), "Automatic choice of dimensionality for PCA",
    NIPS. An entry of the covariance of n rows with variance v has the sampling error
    :math:`v / \sqrt n`. Additional noise :math:`\tau` makes the error as large as that of
    :math:`n / (1 + n \tau^2 / v^2)` rows, so that this number of rows is used, with v the median
    eigenvalue or, if larger, :math:`\tau`.
    """
    n_features = len(eigenvalues)
    largest_rank, variance = n_features - 1, max(float(np.median(eigenvalues)), off_diagonal_std)
    if off_diagonal_std > 0:
        n_rows = max(round(n_rows / (1 + n_rows * (off_diagonal_std / variance) ** 2)), 2)
        # If noise leaves hardly more effective rows than features, eigenvalues of noise spread
        # widely, and the evidence prefers ranks that are too large. So the rank is at most the
        # number of eigenvalues above the edge of the noise.
        edge = variance + noise_edge(off_diagonal_std, n_features)
        largest_rank = min(largest_rank, max(int(np.sum(eigenvalues > edge)), 1))
    evidence = [_log_evidence(eigenvalues, rank, n_rows) for rank in range(1, largest_rank + 1)]
    return int(np.argmax(evidence)) + 1 if evidence else 1


def _log_evidence(eigenvalues: np.ndarray, rank: int, n_rows: int) -> float:
    """Return Minka's approximation of the log evidence for a rank."""
    n_features = len(eigenvalues)
    leading, rest = eigenvalues[:rank], eigenvalues[rank:]
    smallest = _NEGLIGIBLE * eigenvalues[0]
    if leading[-1] <= smallest:
        return -np.inf
    noise_variance = max(rest.mean(), smallest)
    dimensions = n_features - np.arange(rank)
    log_prior = -rank * np.log(2) + np.sum(gammaln(dimensions / 2) - np.log(np.pi) * dimensions / 2)
    log_fit = -n_rows / 2 * (np.log(leading).sum() + len(rest) * np.log(noise_variance))
    n_angles = n_features * rank - rank * (rank + 1) / 2
    log_volume = np.log(2 * np.pi) * (n_angles + rank) / 2
    # The log determinant of the Hessian of the evidence, in the angles of the subspace.
    flattened = eigenvalues.copy()
    flattened[rank:] = noise_variance
    first, second = np.triu_indices(rank, 1, n_features)
    gaps = eigenvalues[first] - eigenvalues[second]
    terms = (1 / flattened[second] - 1 / flattened[first]) * gaps
    tiny = np.finfo(np.float64).tiny
    curvature = float(np.sum(np.log(np.maximum(terms, tiny)) + np.log(n_rows)))
    return float(log_prior + log_fit + log_volume - curvature / 2 - rank * np.log(n_rows) / 2)
