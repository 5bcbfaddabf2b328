"""Dense matrices with a known subspace."""

from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, validate_params

from skdp.datasets._shared import checked_singular_values
from skdp.linalg.spectrum import orthonormal_basis


@validate_params(
    {
        "n_samples": [Interval(Integral, 1, None, closed="left")],
        "n_features": [Interval(Integral, 1, None, closed="left")],
        "k": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    },
    prefer_skip_nested_validation=True,
)
def make_spiked(
    n_samples: int = 1000, n_features: int = 100, *, k: int = 5, random_state: Any = None
) -> tuple[np.ndarray, np.ndarray]:
    """Make rows near a random subspace: Gaussian scores of falling spread plus isotropic noise.

    The scores have standard deviations from 3 down to 2, and the noise .5 in every feature. Then X
    is scaled so that 95% of the rows have a Euclidean norm of at most 1.

    Parameters
    ----------
    n_samples : int, default=1000
        Number of rows.
    n_features : int, default=100
        Number of features, at least `k`.
    k : int, default=5
        Dimension of the subspace.
    random_state : int, RandomState instance or None, default=None
        Seed of the data.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
        The rows.
    components : ndarray of shape (k, n_features)
        Orthonormal basis of the subspace.

    Raises
    ------
    ValueError
        If `k` exceeds `n_features`.

    Examples
    --------
    >>> from skdp.datasets import make_spiked
    >>> X, components = make_spiked(200, 30, k=4, random_state=0)
    >>> X.shape, components.shape
    ((200, 30), (4, 30))
    """
    if k > n_features:
        raise ValueError(f"k={k} must be at most n_features={n_features}.")
    random = check_random_state(random_state)
    components = orthonormal_basis(random.normal(size=(n_features, k))).T
    X = (random.normal(size=(n_samples, k)) * np.linspace(3, 2, k)) @ components
    X += 0.5 * random.normal(size=(n_samples, n_features))
    X /= np.quantile(np.linalg.norm(X, axis=1), 0.95)
    return X, components


@validate_params(
    {
        "n_samples": [Interval(Integral, 1, None, closed="left")],
        "n_features": [Interval(Integral, 1, None, closed="left")],
        "singular_values": ["array-like"],
        "coherence": [Interval(Real, 1, None, closed="left"), None],
        "symmetric": ["boolean"],
        "random_state": ["random_state"],
    },
    prefer_skip_nested_validation=True,
)
def make_low_rank(
    n_samples: int = 1000,
    n_features: int = 1000,
    *,
    singular_values: Any = (200, 100, 50),
    coherence: float | None = None,
    symmetric: bool = False,
    random_state: Any = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""Make a dense matrix with given singular values and singular vectors of given coherence.

    The coherence of a unit vector v with n entries is :math:`n \max_j v_j^2`: 1 if all entries have
    the same size, n if all but one are zero.

    Parameters
    ----------
    n_samples : int, default=1000
        Number of rows.
    n_features : int, default=1000
        Number of columns.
    singular_values : array-like of shape (k,), default=(200, 100, 50)
        Singular values, in any order, at most as many as there are rows and columns. If
        `symmetric`, eigenvalues, which may be negative.
    coherence : float or None, default=None
        Coherence C of every singular vector, between 1 and the smaller of `n_samples` and
        `n_features`. A vector with n entries then has about n / C entries of the same size, with
        random signs, and zeros elsewhere. If k n / C <= n, no two vectors share a place. Otherwise
        some share all their places and are orthogonal by their signs. None takes uniformly random
        vectors, of coherence about 2 ln n.
    symmetric : bool, default=False
        Whether X is symmetric, which requires as many rows as columns.
    random_state : int, RandomState instance or None, default=None
        Seed of the singular vectors.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
        The matrix.
    left : ndarray of shape (n_samples, k)
        Left singular vectors. If `symmetric`, those of negative eigenvalues are the negative right
        singular vectors.
    components : ndarray of shape (k, n_features)
        Right singular vectors.

    Raises
    ------
    ValueError
        If `singular_values` has too many or negative entries, `coherence` is too large, or
        `symmetric` is True for a matrix that is not square.

    See Also
    --------
    skdp.metrics.coherence : The coherence of a subspace.

    Notes
    -----
    Let m be the number of nonzero entries of a vector. If s vectors share their places, m must be a
    multiple of the smallest power of two that is at least s, so that there are s orthogonal sign
    patterns. Among the m that allow k vectors, the one with n / m nearest to C is taken. With C=1
    and k=3, for instance, the vectors are exactly flat if n is a multiple of 4; otherwise one to
    three entries are zero.

    Examples
    --------
    >>> from skdp.datasets import make_low_rank
    >>> X, left, components = make_low_rank(40, 64, coherence=1, random_state=0)
    >>> X.shape, left.shape, components.shape
    ((40, 64), (40, 3), (3, 64))
    >>> bool((abs(components) == 0.125).all())
    True
    """
    limit = "the smaller of n_samples and n_features"
    values = checked_singular_values(
        singular_values, min(n_samples, n_features), limit, may_be_negative=symmetric
    )
    if symmetric and n_samples != n_features:
        raise ValueError(
            f"symmetric=True needs a square matrix, got n_samples={n_samples} and "
            f"n_features={n_features}."
        )
    if coherence is not None and coherence > min(n_samples, n_features):
        raise ValueError(
            f"coherence={coherence} must be at most {min(n_samples, n_features)}, {limit}."
        )
    random = check_random_state(random_state)
    right = _singular_vectors(n_features, len(values), coherence, random)
    if symmetric:
        X = (right * values) @ right.T
        return (X + X.T) / 2, right * np.where(values < 0, -1.0, 1.0), right.T
    left = _singular_vectors(n_samples, len(values), coherence, random)
    return (left * values) @ right.T, left, right.T


def _singular_vectors(
    size: int, n_vectors: int, coherence: float | None, random: np.random.RandomState
) -> np.ndarray:
    """Draw orthonormal columns, (size, n_vectors), uniformly or of a given coherence."""
    if coherence is None:
        return orthonormal_basis(random.normal(size=(size, n_vectors)))
    n_places, n_patterns = _places(size, n_vectors, coherence)
    group, pattern = np.divmod(np.arange(n_vectors), n_patterns)
    place = np.arange(n_places)
    signs = _orthogonal_signs(place[:, None] % n_patterns, pattern)
    vectors = np.zeros((size, n_vectors))
    vectors[group * n_places + place[:, None], np.arange(n_vectors)] = signs / np.sqrt(n_places)
    signs_of_rows = random.choice([-1.0, 1.0], size=size)
    return (signs_of_rows[:, None] * vectors)[random.permutation(size)]


def _places(size: int, n_vectors: int, coherence: float) -> tuple[int, int]:
    """Choose how many entries of a vector are nonzero, and how many vectors share their places."""
    n_patterns = 2 ** np.arange(int(size).bit_length())
    n_groups = -(-n_vectors // n_patterns)
    most = size // n_groups // n_patterns
    multiples = np.floor(size / coherence / n_patterns) + np.array([[0], [1]])
    n_places = np.clip(multiples, 1, np.maximum(most, 1)) * n_patterns
    miss = np.where(most > 0, np.abs(size / n_places - coherence), np.inf)
    best = np.unravel_index(np.argmin(miss.T), miss.T.shape)[::-1]
    return int(n_places[best]), int(n_patterns[best[1]])


def _orthogonal_signs(row: np.ndarray, column: np.ndarray) -> np.ndarray:
    """Compute entries of Sylvester's Hadamard matrix: -1 where row and column share odd bits."""
    shared = row & column
    for shift in (32, 16, 8, 4, 2, 1):
        shared = shared ^ (shared >> shift)
    return 1.0 - 2.0 * (shared & 1)
