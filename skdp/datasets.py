"""Synthetic data with a known structure."""

import math
from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import hadamard
from sklearn.utils import check_array, check_random_state
from sklearn.utils._param_validation import Interval, StrOptions, validate_params
from sklearn.utils.random import sample_without_replacement

from skdp._validation import AT_LEAST_ONE
from skdp.data.containers import checked_shape
from skdp.data.matrices import RankOneMatrices
from skdp.linalg.spectrum import orthonormal_basis

__all__ = [
    "make_block_graph",
    "make_interactions",
    "make_low_rank",
    "make_spiked",
    "make_trace_regression",
]

# ------------------------------
# Checks of parameters, and correlated features, for several functions below.

_COUNT = [AT_LEAST_ONE]  # not tuned
_NOT_NEGATIVE = [Interval(Real, 0, None, closed="left")]  # not tuned
_PROBABILITY = [Interval(Real, 0, 1, closed="both")]  # not tuned
_CORRELATION = [Interval(Real, -1, 1, closed="neither")]  # not tuned


def _checked(**constraints: Any) -> Any:
    """Decorate a function so that its parameters, among them `random_state`, are checked."""
    constraints["random_state"] = ["random_state"]
    return validate_params(constraints, prefer_skip_nested_validation=True)


def checked_singular_values(
    given: Any, n_most: int, limit: str, *, may_be_negative: bool = False
) -> np.ndarray:
    """Convert singular values to an array; refuse negative ones and more than `n_most`."""
    values: np.ndarray = check_array(
        given, dtype=np.float64, ensure_2d=False, input_name="singular_values"
    )
    if values.ndim != 1 or len(values) > n_most:
        raise ValueError(
            f"singular_values has shape {values.shape}, but must have one dimension and at most "
            f"{n_most} entries, {limit}."
        )
    if not may_be_negative and values.min() < 0:
        raise ValueError(f"singular_values holds {values.min()}, but must not be negative.")
    return values


def correlated(X: np.ndarray, correlation: float) -> np.ndarray:
    """Turn independent entries along the last axis into autoregressive series; X is overwritten.

    Entries k places apart get the k-th power of `correlation` as their correlation; variances stay.
    """
    fresh_part = np.sqrt(1 - correlation**2)
    for column in range(1, X.shape[-1]):
        X[..., column] *= fresh_part
        X[..., column] += correlation * X[..., column - 1]
    return X


# ------------------------------
# Random graphs.


@_checked(n_nodes=_COUNT, n_communities=_COUNT, p_within=_PROBABILITY, p_between=_PROBABILITY)
def make_block_graph(
    n_nodes: int = 1000,
    *,
    n_communities: int = 2,
    p_within: float = 0.15,
    p_between: float = 0.05,
    random_state: Any = None,
) -> tuple[sparse.csr_array, np.ndarray]:
    """Make a random graph of communities, by default with more edges within than between them.

    This is the stochastic block model [1]_. The sizes of the communities differ by at most one
    node. Time and memory grow with the numbers of nodes and edges, not of pairs of nodes [2]_.

    Parameters
    ----------
    n_nodes : int, default=1000
        Number of nodes.
    n_communities : int, default=2
        Number of communities, at most `n_nodes`.
    p_within : float, default=0.15
        Probability of an edge between two nodes of the same community.
    p_between : float, default=0.05
        Probability of an edge between two nodes of different communities.
    random_state : int, RandomState instance or None, default=None
        Seed of the edges.

    Returns
    -------
    adjacency : sparse array of shape (n_nodes, n_nodes)
        Symmetric CSR array of float64, 1 for an edge; the diagonal is empty.
    labels : ndarray of shape (n_nodes,)
        Community of each node, ascending.

    Raises
    ------
    ValueError
        If `n_communities` exceeds `n_nodes`.

    References
    ----------
    .. [1] P. W. Holland, K. B. Laskey, S. Leinhardt (1983). "Stochastic blockmodels: first steps".
       Social Networks 5(2). :doi:`10.1016/0378-8733(83)90021-7`
    .. [2] V. Batagelj, U. Brandes (2005). "Efficient generation of large random networks". Physical
       Review E 71, 036113. :doi:`10.1103/PhysRevE.71.036113`

    Examples
    --------
    >>> from skdp.datasets import make_block_graph
    >>> adjacency, labels = make_block_graph(100, n_communities=3, random_state=0)
    >>> adjacency.shape, labels.shape
    ((100, 100), (100,))
    """
    if n_communities > n_nodes:
        raise ValueError(f"n_communities={n_communities} must be at most n_nodes={n_nodes}.")
    random = check_random_state(random_state)
    nodes = np.arange(n_nodes)
    labels = nodes * n_communities // n_nodes
    # For each node, the first node of the next community.
    ends = np.searchsorted(labels, labels, side="right")
    within = _bernoulli_pairs(nodes + 1, ends - nodes - 1, p_within, random)
    between = _bernoulli_pairs(ends, n_nodes - ends, p_between, random)
    rows, columns = np.hstack([within, between])
    dtype = np.int32 if max(n_nodes, 2 * len(rows)) < 2**31 else np.int64
    ends_of_edges = rows.astype(dtype), columns.astype(dtype)
    upper = sparse.csr_array((np.ones(len(rows)), ends_of_edges), shape=(n_nodes, n_nodes))
    return upper + upper.T.tocsr(), labels


def _bernoulli_pairs(
    first: np.ndarray, n_partners: np.ndarray, probability: float, random: np.random.RandomState
) -> np.ndarray:
    """Draw edges of node i to some of the nodes ``first[i] ... first[i] + n_partners[i] - 1``."""
    # Possible edges are numbered node by node; those of node i begin at offsets[i].
    offsets = np.concatenate([[0], np.cumsum(n_partners)])
    size = int(offsets[-1])
    number = random.binomial(size, probability)
    chosen = np.sort(sample_without_replacement(size, number, random_state=random))
    nodes = np.searchsorted(offsets, chosen, side="right") - 1
    return np.stack([nodes, first[nodes] + chosen - offsets[nodes]])


# ------------------------------
# Interactions of users and items.

# The logarithm of a user's activity has the standard deviation `_ACTIVITY_SPREAD`. The Dirichlet
# law of tastes has the concentration `_TASTE_CONCENTRATION`. With these numbers a table has the
# singular value and the coherence that the docstring of `make_interactions` states.
_ACTIVITY_SPREAD = 0.5  # not tuned
_TASTE_CONCENTRATION = 0.5  # not tuned
_MOST_ROUNDS = 20  # not tuned


@_checked(
    n_users=_COUNT,
    n_items=_COUNT,
    n_interactions=[*_COUNT, None],
    popularity=_NOT_NEGATIVE,
    n_tastes=_COUNT,
)
def make_interactions(
    n_users: int = 1000,
    n_items: int = 1500,
    *,
    n_interactions: int | None = None,
    popularity: float = 0.7,
    n_tastes: int = 5,
    random_state: Any = None,
) -> sparse.csr_array:
    r"""Make a table of which users chose which items, as in recommender systems.

    Items are sorted by popularity: the j-th item has :math:`j^{-a}` times the interactions of the
    first, where a is `popularity`. The activities of the users are log-normal. Users and items are
    mixtures of a few tastes: the more similar the mixtures of a user and an item, the more likely
    is their interaction. With the defaults the largest singular value is about 99, and the
    coherence of its right singular vector (1500 times its largest squared entry) is about 100.

    Parameters
    ----------
    n_users : int, default=1000
        Number of users, the rows.
    n_items : int, default=1500
        Number of items, the columns.
    n_interactions : int or None, default=None
        Number of distinct interactions, at most half the number of cells. None takes 4.6% of the
        cells.
    popularity : float, default=0.7
        Exponent of the popularity; 0 makes all items equally popular.
    n_tastes : int, default=5
        Number of tastes; with 1 all users have the same taste.
    random_state : int, RandomState instance or None, default=None
        Seed of the interactions.

    Returns
    -------
    sparse array of shape (n_users, n_items)
        CSR array of float64, 1 for an interaction.

    Raises
    ------
    ValueError
        If `n_interactions` is too large, or so many distinct interactions cannot be found.

    Notes
    -----
    Interactions are drawn with repetition until enough of them are distinct. So the most popular
    items, of which the same users are drawn again, have fewer interactions than `popularity` says.
    Time and memory grow with the interactions, not with the cells.

    Examples
    --------
    >>> from skdp.datasets import make_interactions
    >>> X = make_interactions(100, 200, n_interactions=1500, random_state=0)
    >>> X.shape, X.nnz
    ((100, 200), 1500)
    """
    n_cells = n_users * n_items
    if n_interactions is None:
        n_interactions = round(0.046 * n_cells)
    elif 2 * n_interactions > n_cells:
        raise ValueError(f"n_interactions={n_interactions} must be at most n_users * n_items / 2.")
    random = check_random_state(random_state)
    concentration = np.full(n_tastes, _TASTE_CONCENTRATION)
    attraction = np.arange(1.0, n_items + 1) ** -popularity
    items = random.dirichlet(concentration, size=n_items).T * attraction
    users = random.dirichlet(concentration, size=n_users)
    activities = random.lognormal(sigma=_ACTIVITY_SPREAD, size=(n_users, 1))
    # For each taste, the cumulative distribution of its items.
    tables = np.cumsum(items, axis=1)
    # The fraction of all interactions that each user makes by each taste. The fraction grows with
    # the sum of a taste's items, so that items keep their popularity.
    rates = activities * users * tables[:, -1]
    rates, tables = rates / rates.sum(), tables / tables[:, -1:]
    cells = _distinct_cells(rates, tables, n_interactions, random)
    if len(cells) < n_interactions:
        raise ValueError(
            f"n_interactions={n_interactions} are too many for popularity={popularity}, which "
            f"leaves most items unseen: {len(cells)} distinct interactions were found."
        )
    indptr = np.searchsorted(cells, np.arange(n_users + 1) * n_items)
    dtype = np.int32 if max(n_items, len(cells)) < 2**31 else np.int64
    indices, indptr = (cells % n_items).astype(dtype), indptr.astype(dtype)
    return sparse.csr_array((np.ones(len(cells)), indices, indptr), shape=(n_users, n_items))


def _distinct_cells(
    rates: np.ndarray, tables: np.ndarray, size: int, random: np.random.RandomState
) -> np.ndarray:
    """Draw cells, numbered row by row, for up to 20 rounds until `size` are distinct; sort them."""
    cells = np.empty(0, dtype=np.int64)
    n_draws = float(size)
    for _ in range(_MOST_ROUNDS):
        drawn = _draw_cells(n_draws * rates, tables, random)
        # Sorting ten million cells takes 5 s; numpy's set functions, which hash them, take 85 s.
        drawn.sort()
        fresh = drawn[np.diff(drawn, prepend=-1) > 0]
        fresh = fresh[np.append(cells, -1)[np.searchsorted(cells, fresh)] != fresh]
        missing = size - len(cells)
        surplus = random.permutation(len(fresh))[missing:]
        cells = np.sort(np.concatenate([cells, np.delete(fresh, surplus)]))
        if len(fresh) >= missing:
            break
        # The fraction of drawn cells that were new tells how many draws are needed. It falls from
        # round to round, so there is a margin.
        still_missing = missing - len(fresh)
        n_draws = min(1.1 * still_missing * len(drawn) / max(len(fresh), 1), 2.0 * size) + 10
    return cells


def _draw_cells(rates: np.ndarray, tables: np.ndarray, random: np.random.RandomState) -> np.ndarray:
    """Draw cells with repetition: for each user and taste, a Poisson number with mean `rates`."""
    n_tastes, n_items = tables.shape
    counts = random.poisson(rates).ravel()
    users, tastes = np.divmod(np.repeat(np.arange(len(counts)), counts), n_tastes)
    # Each cumulative table ascends from 0 to 1. With i added to table i, all of them together
    # ascend, and one search finds the items of all tastes.
    stacked = (tables + np.arange(n_tastes)[:, None]).ravel()
    places = np.searchsorted(stacked, tastes + random.uniform(size=len(tastes)), side="right")
    return users * n_items + np.minimum(places - tastes * n_items, n_items - 1)


# ------------------------------
# Dense matrices with a known subspace.


@_checked(n_samples=_COUNT, n_features=_COUNT, k=_COUNT)
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


@_checked(
    n_samples=_COUNT,
    n_features=_COUNT,
    singular_values=["array-like"],
    coherence=[Interval(Real, 1, None, closed="left"), None],
    symmetric=["boolean"],
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
        random signs, and zeros elsewhere. If k n / C <= n, no two vectors have nonzero entries in
        the same place. Otherwise some vectors share the places of their nonzero entries, and are
        orthogonal by their signs. None takes uniformly random vectors, of coherence about 2 ln n.
    symmetric : bool, default=False
        Whether X is symmetric, which requires as many rows as columns.
    random_state : int, RandomState instance or None, default=None
        Seed of the singular vectors.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
        The matrix.
    left : ndarray of shape (n_samples, k)
        Left singular vectors. If `symmetric`, the left singular vector of a negative eigenvalue is
        the negative right singular vector.
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
    Let m be the number of nonzero entries of a vector. If s vectors share their nonzero places, m
    must be a multiple of the smallest power of two that is at least s: then there are s orthogonal
    sign patterns. Among all m that allow k vectors, n / m is chosen nearest to C. With C=1 and k=3,
    for instance, all entries have the same size if n is a multiple of 4; otherwise one to three
    entries are zero.

    Examples
    --------
    >>> from skdp.datasets import make_low_rank
    >>> X, left, components = make_low_rank(40, 64, coherence=1, random_state=0)
    >>> X.shape, left.shape, components.shape
    ((40, 64), (40, 3), (3, 64))
    >>> bool((abs(components) == 0.125).all())
    True
    """
    most, limit = min(n_samples, n_features), "the smaller of n_samples and n_features"
    values = checked_singular_values(singular_values, most, limit, may_be_negative=symmetric)
    if symmetric and n_samples != n_features:
        raise ValueError("symmetric=True needs equal n_samples and n_features.")
    if coherence is not None and coherence > most:
        raise ValueError(f"coherence={coherence} must be at most {most}, {limit}.")
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
    """Draw orthonormal vectors, of shape (size, n_vectors): uniformly, or of a given coherence."""
    if coherence is None:
        return orthonormal_basis(random.normal(size=(size, n_vectors)))
    n_places, n_patterns = _places(size, n_vectors, coherence)
    group, pattern = np.divmod(np.arange(n_vectors), n_patterns)
    place = np.arange(n_places)
    signs = hadamard(n_patterns, np.float64)[place[:, None] % n_patterns, pattern]
    vectors = np.zeros((size, n_vectors))
    vectors[group * n_places + place[:, None], np.arange(n_vectors)] = signs / np.sqrt(n_places)
    signs_of_rows = random.choice([-1.0, 1.0], size=size)
    return (signs_of_rows[:, None] * vectors)[random.permutation(size)]


def _places(size: int, n_vectors: int, coherence: float) -> tuple[int, int]:
    """Return the number of nonzero entries, and of vectors that have them in the same places."""
    # Candidates for the number of sign patterns, and for each the number of groups of vectors.
    n_patterns = 2 ** np.arange(int(size).bit_length())
    n_groups = -(-n_vectors // n_patterns)
    most = size // n_groups // n_patterns
    # The numbers of nonzero entries just below and above size / coherence.
    multiples = np.floor(size / coherence / n_patterns) + np.array([[0], [1]])
    n_places = np.clip(multiples, 1, np.maximum(most, 1)) * n_patterns
    error = np.where(most > 0, np.abs(size / n_places - coherence), np.inf)
    best = np.unravel_index(np.argmin(error.T), error.T.shape)[::-1]
    return int(n_places[best]), int(n_patterns[best[1]])


# ------------------------------
# Measurements of a low-rank matrix.


@_checked(
    n_samples=_COUNT,
    shape=[tuple, list],
    rank=_COUNT,
    norm=_NOT_NEGATIVE,
    singular_values=["array-like", None],
    design=[StrOptions({"gaussian", "completion", "tasks"})],
    column_correlation=_CORRELATION,
    noise=_NOT_NEGATIVE,
)
def make_trace_regression(
    n_samples: int = 1000,
    shape: tuple[int, int] = (12, 12),
    *,
    rank: int = 2,
    norm: float = 1.8,
    singular_values: Any = None,
    design: str = "gaussian",
    column_correlation: float = 0.0,
    noise: float = 0.5,
    random_state: Any = None,
) -> tuple[np.ndarray | RankOneMatrices, np.ndarray, np.ndarray]:
    r"""Make noisy measurements of a matrix of low rank.

    The i-th response is :math:`y_i = \langle X_i, M\rangle + s z_i`, where
    :math:`\langle X_i, M\rangle` is the sum of the products of their entries, s the `noise` and
    :math:`z_i` standard normal. The singular vectors of M are uniformly random.

    Parameters
    ----------
    n_samples : int, default=1000
        Number of measurements.
    shape : tuple of two ints, default=(12, 12)
        Number of rows d1 and of columns d2 of M.
    rank : int, default=2
        Rank of M, at most the smaller number in `shape`. Not used if `singular_values` are given.
    norm : float, default=1.8
        Frobenius norm of M. Its singular values are then equispaced, and the first is twice the
        last. Not used if `singular_values` are given.
    singular_values : array-like of shape (rank,) or None, default=None
        Singular values of M, in any order.
    design : {"gaussian", "completion", "tasks"}, default="gaussian"
        Distribution of the :math:`X_i`, see Notes.
    column_correlation : float, default=0.0
        Correlation, between -1 and 1, of neighboring entries in a row of a Gaussian :math:`X_i`.
        Entries k columns apart have the correlation ``column_correlation ** k``. Other designs take
        only 0.
    noise : float, default=0.5
        Standard deviation of the noise.
    random_state : int, RandomState instance or None, default=None
        Seed of M and of the measurements.

    Returns
    -------
    X : ndarray of shape (n_samples, d1, d2) or RankOneMatrices
        The measurement matrices, an array for the Gaussian design.
    y : ndarray of shape (n_samples,)
        The responses.
    M : ndarray of shape (d1, d2)
        The measured matrix.

    Raises
    ------
    ValueError
        If `shape` is not a pair of positive integers, `rank` is too large, there are too many or
        negative `singular_values`, or `column_correlation` is given for a design without it.

    Notes
    -----
    The entries of :math:`X_i` have mean square 1 in every design, and two entries at different
    places have mean product 0 if `column_correlation` is 0. Then :math:`\langle X_i, M\rangle` has
    mean square :math:`\lVert M\rVert_F^2`.

    - "gaussian": all entries are standard normal.
    - "completion": a uniformly random entry is :math:`\sqrt{d_1 d_2}`, the others are zero. So a
      response is the observed entry of M times :math:`\sqrt{d_1 d_2}`, plus noise.
    - "tasks": a uniformly random column, the task, is :math:`\sqrt{d_2}` times a standard normal
      vector, the others are zero. The columns of M are the coefficients of the tasks.

    A measurement takes :math:`8 d_1 d_2` bytes in the first design, 32 in the second and
    :math:`8 d_1 + 16` in the third.

    Examples
    --------
    >>> from skdp.datasets import make_trace_regression
    >>> X, y, M = make_trace_regression(100, (8, 5), random_state=0)
    >>> X.shape, y.shape, M.shape
    ((100, 8, 5), (100,), (8, 5))
    >>> X, y, M = make_trace_regression(100, (8, 5), design="completion", random_state=0)
    >>> X
    RankOneMatrices(shape=(100, 40), matrix_shape=(8, 5), dtype=float64)
    """
    checked_shape(shape)
    if column_correlation != 0 and design != "gaussian":
        raise ValueError(f"column_correlation={column_correlation} must be 0 if design={design!r}.")
    values = _values_of_matrix(singular_values, rank, norm, min(shape))
    random = check_random_state(random_state)
    left, right = (orthonormal_basis(random.normal(size=(size, len(values)))) for size in shape)
    X: np.ndarray | RankOneMatrices
    if design == "gaussian":
        X = correlated(random.normal(size=(n_samples, *shape)), column_correlation)
    elif design == "completion":
        cells = [random.randint(size, size=n_samples) for size in shape]
        ones = RankOneMatrices.from_indices(cells[0], cells[1], shape)
        X = RankOneMatrices(np.sqrt(math.prod(shape)) * ones.left, ones.right)
    else:
        rows = np.sqrt(shape[1]) * random.normal(size=(n_samples, shape[0]))
        X = RankOneMatrices.from_tasks(rows, random.randint(shape[1], size=n_samples), shape[1])
    M = (left * values) @ right.T
    if isinstance(X, RankOneMatrices):
        products = np.einsum("ij,ij->i", X.left @ (left * values), X.right @ right)
    else:
        products = X.reshape(n_samples, -1) @ M.ravel()
    return X, products + noise * random.normal(size=n_samples), M


def _values_of_matrix(singular_values: Any, rank: int, norm: float, n_most: int) -> np.ndarray:
    """Return the given singular values, or those of the given rank and norm; refuse bad ones."""
    if singular_values is not None:
        return checked_singular_values(singular_values, n_most, "the smaller number in shape")
    if rank > n_most:
        raise ValueError(f"rank={rank} must be at most {n_most}, the smaller number in shape.")
    values = np.linspace(2, 1, rank)
    return norm / np.linalg.norm(values) * values
