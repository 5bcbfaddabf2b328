"""Interactions of users and items."""

from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, validate_params

# Standard deviation of the log-activities of users, and concentration of the tastes. With these and
# the defaults, `make_interactions` has the leading singular value and coherence of its docstring.
_ACTIVITY_SPREAD = 0.5  # not tuned
_TASTE_CONCENTRATION = 0.5  # not tuned
_MOST_ROUNDS = 20  # not tuned


@validate_params(
    {
        "n_users": [Interval(Integral, 1, None, closed="left")],
        "n_items": [Interval(Integral, 1, None, closed="left")],
        "n_interactions": [Interval(Integral, 1, None, closed="left"), None],
        "popularity": [Interval(Real, 0, None, closed="left")],
        "n_tastes": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    },
    prefer_skip_nested_validation=True,
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
    r"""Make a table of which user met which item, such as recommender systems learn from.

    Items are sorted by popularity: the j-th item has :math:`j^{-a}` times the interactions of the
    first, where a is `popularity`. The activities of the users are log-normal. Users and items are
    mixtures of a few tastes, and the more their mixtures agree, the more likely they meet. With the
    defaults the largest singular value is about 99, and the coherence of its right singular vector
    (1500 times its largest squared entry) is about 100.

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
        Number of tastes; with 1 all users have the same.
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
    items, which most users meet anyway, have fewer interactions than their popularity says. Time
    and memory grow with the interactions, not with the cells.

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
        raise ValueError(
            f"n_interactions={n_interactions} must be at most {n_cells // 2}, half the number of "
            "cells."
        )
    random = check_random_state(random_state)
    rates, tables = _interaction_model(n_users, n_items, popularity, n_tastes, random)
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


def _interaction_model(
    n_users: int, n_items: int, popularity: float, n_tastes: int, random: np.random.RandomState
) -> tuple[np.ndarray, np.ndarray]:
    """Draw the rates of each user and taste, of sum 1, and each taste's distribution of items."""
    concentration = np.full(n_tastes, _TASTE_CONCENTRATION)
    attraction = np.arange(1.0, n_items + 1) ** -popularity
    items = random.dirichlet(concentration, size=n_items).T * attraction
    users = random.dirichlet(concentration, size=n_users)
    activities = random.lognormal(sigma=_ACTIVITY_SPREAD, size=(n_users, 1))
    tables = np.cumsum(items, axis=1)
    # Weighting the tastes by their items keeps the popularity of the items as it is.
    rates = activities * users * tables[:, -1]
    return rates / rates.sum(), tables / tables[:, -1:]


def _distinct_cells(
    rates: np.ndarray, tables: np.ndarray, size: int, random: np.random.RandomState
) -> np.ndarray:
    """Draw cells, numbered row by row, until `size` are distinct or it takes too long; sorted."""
    cells = np.empty(0, dtype=np.int64)
    n_draws = float(size)
    for _ in range(_MOST_ROUNDS):
        drawn = _draw_cells(n_draws * rates, tables, random)
        fresh = _fresh_cells(drawn, cells)
        missing = size - len(cells)
        surplus = random.permutation(len(fresh))[missing:]
        cells = np.sort(np.concatenate([cells, np.delete(fresh, surplus)]))
        if len(fresh) >= missing:
            break
        # Extrapolated from the fraction of fresh cells; some more, because that fraction falls.
        still_missing = missing - len(fresh)
        n_draws = min(1.1 * still_missing * len(drawn) / max(len(fresh), 1), 2.0 * size) + 10
    return cells


def _fresh_cells(drawn: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """Return the distinct entries of `drawn` that are not in sorted `cells`; sorts `drawn`."""
    # On tens of millions, sorting is many times faster than numpy's set functions, which hash.
    drawn.sort()
    fresh = drawn[np.diff(drawn, prepend=-1) > 0]
    if len(cells) == 0:
        return fresh
    nearest = np.minimum(np.searchsorted(cells, fresh), len(cells) - 1)
    return fresh[cells[nearest] != fresh]


def _draw_cells(rates: np.ndarray, tables: np.ndarray, random: np.random.RandomState) -> np.ndarray:
    """Draw cells with repetition: a Poisson number for each user and taste."""
    n_tastes, n_items = tables.shape
    counts = random.poisson(rates).ravel()
    users, tastes = np.divmod(np.repeat(np.arange(len(counts)), counts), n_tastes)
    # Each cumulative table ascends from 0 to 1. Each is shifted by its number, so that one search
    # serves all.
    stacked = (tables + np.arange(n_tastes)[:, None]).ravel()
    found = np.searchsorted(stacked, tastes + random.uniform(size=len(tastes)), side="right")
    return users * n_items + np.minimum(found - tastes * n_items, n_items - 1)
