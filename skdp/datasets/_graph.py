"""Random graphs."""

from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, validate_params


@validate_params(
    {
        "n_nodes": [Interval(Integral, 1, None, closed="left")],
        "n_communities": [Interval(Integral, 1, None, closed="left")],
        "p_within": [Interval(Real, 0, 1, closed="both")],
        "p_between": [Interval(Real, 0, 1, closed="both")],
        "random_state": ["random_state"],
    },
    prefer_skip_nested_validation=True,
)
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
    rows, columns = np.hstack(
        [
            _bernoulli_pairs(nodes + 1, ends - nodes - 1, p_within, random),
            _bernoulli_pairs(ends, n_nodes - ends, p_between, random),
        ]
    )
    dtype = np.int32 if max(n_nodes, 2 * len(rows)) < 2**31 else np.int64
    ends_of_edges = rows.astype(dtype), columns.astype(dtype)
    upper = sparse.csr_array((np.ones(len(rows)), ends_of_edges), shape=(n_nodes, n_nodes))
    return upper + upper.T.tocsr(), labels


def _bernoulli_pairs(
    first: np.ndarray, n_partners: np.ndarray, probability: float, random: np.random.RandomState
) -> np.ndarray:
    """Draw edges: node i meets each of ``first[i] ... first[i] + n_partners[i] - 1`` or not."""
    offsets = np.concatenate([[0], np.cumsum(n_partners)])
    chosen = _bernoulli_indices(int(offsets[-1]), probability, random)
    nodes = np.searchsorted(offsets, chosen, side="right") - 1
    return np.stack([nodes, first[nodes] + chosen - offsets[nodes]])


def _bernoulli_indices(size: int, probability: float, random: np.random.RandomState) -> np.ndarray:
    """Choose each of ``0 ... size - 1`` independently, by drawing the gaps between the chosen."""
    if probability == 0 or size == 0:
        return np.empty(0, dtype=np.int64)
    if probability == 1:
        return np.arange(size)
    rate = -np.log1p(-probability)
    expected = size * probability
    parts, last = [], -1
    while last < size:
        n_gaps = int(expected + 4 * np.sqrt(expected)) + 10
        # Gaps beyond the end are shortened to just beyond it, so that their sums cannot overflow.
        with np.errstate(over="ignore"):
            gaps = np.clip(np.ceil(random.exponential(size=n_gaps) / rate), 1, size + 1)
        parts.append(last + np.cumsum(gaps.astype(np.int64)))
        last = parts[-1][-1]
    chosen = np.concatenate(parts)
    return chosen[chosen < size]
