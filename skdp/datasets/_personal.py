"""Rows of many users, whose regressions share a representation."""

from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import check_array, check_random_state
from sklearn.utils._param_validation import Interval, validate_params

from skdp.datasets._shared import correlated
from skdp.linalg.spectrum import orthonormal_basis


@validate_params(
    {
        "n_users": [Interval(Integral, 1, None, closed="left")],
        "n_features": [Interval(Integral, 1, None, closed="left")],
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "rows_per_user": [Interval(Integral, 1, None, closed="left"), tuple, list],
        "scales": ["array-like", None],
        "mean": [Real, "array-like", None],
        "intercept": [Interval(Real, None, None, closed="neither")],
        "correlation": [Interval(Real, -1, 1, closed="neither")],
        "noise": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state"],
    },
    prefer_skip_nested_validation=True,
)
def make_personalized_regression(
    n_users: int = 500,
    n_features: int = 20,
    *,
    n_components: int = 2,
    rows_per_user: int | tuple[int, int] = 20,
    scales: Any = None,
    mean: Any = None,
    intercept: float = 0.0,
    correlation: float = 0.0,
    noise: float = 0.5,
    random_state: Any = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    r"""Make labeled rows of many users, each with coefficients of their own.

    The response to a row x of user j is :math:`y = \langle x, U v_j\rangle + b + s z`, where U has
    `n_components` orthonormal columns that are shared by all users and uniformly random,
    :math:`v_j` is normal, b the `intercept`, s the `noise` and z standard normal.

    Parameters
    ----------
    n_users : int, default=500
        Number of users.
    n_features : int, default=20
        Number of features.
    n_components : int, default=2
        Number of columns of U, at most `n_features`.
    rows_per_user : int or tuple of two ints, default=20
        Number of rows of each user. A pair gives the smallest and the largest number, between which
        all numbers are equally likely.
    scales : array-like of shape (n_components,) or None, default=None
        Standard deviations of the entries of :math:`v_j`, None for 1.
    mean : float, array-like of shape (n_components,) or None, default=None
        Mean of :math:`v_j`, None for 0. A single number is the mean of the first entry; the other
        entries then have mean 0.
    intercept : float, default=0.0
        Intercept of all users.
    correlation : float, default=0.0
        Correlation, between -1 and 1, of neighboring features. Features k apart have the k-th power
        of it as their correlation. Each feature is standard normal.
    noise : float, default=0.5
        Standard deviation of the noise of a response.
    random_state : int, RandomState instance or None, default=None
        Seed of everything that is drawn.

    Returns
    -------
    X : ndarray of shape (n_rows, n_features)
        Rows, those of a user together.
    y : ndarray of shape (n_rows,)
        Responses.
    groups : ndarray of shape (n_rows,)
        User of each row, from 0 to ``n_users - 1``, ascending.
    coef : ndarray of shape (n_users, n_features)
        Coefficients :math:`U v_j` of the users.

    Raises
    ------
    ValueError
        If `n_components` is too large, `rows_per_user` is neither a positive integer nor two of
        them in ascending order, or `scales` or `mean` has another shape or is not acceptable.

    Examples
    --------
    >>> from skdp.datasets import make_personalized_regression
    >>> X, y, groups, coef = make_personalized_regression(100, 8, rows_per_user=5, random_state=0)
    >>> X.shape, y.shape, groups.shape, coef.shape
    ((500, 8), (500,), (500,), (100, 8))
    >>> int(groups.max())
    99
    """
    if n_components > n_features:
        raise ValueError(f"n_components={n_components} must be at most n_features={n_features}.")
    fewest, most = _row_limits(rows_per_user)
    spread = _numbers("scales", scales, np.ones(n_components))
    if spread.min() < 0:
        raise ValueError(f"scales holds {spread.min()}, but must not be negative.")
    if isinstance(mean, Real):
        mean = [mean, *[0.0] * (n_components - 1)]
    center = _numbers("mean", mean, np.zeros(n_components))

    random = check_random_state(random_state)
    basis = orthonormal_basis(random.normal(size=(n_features, n_components)))
    coef = (center + spread * random.normal(size=(n_users, n_components))) @ basis.T
    counts = random.randint(fewest, most + 1, size=n_users)
    groups = np.repeat(np.arange(n_users), counts)
    X = correlated(random.normal(size=(len(groups), n_features)), correlation)
    y = np.einsum("ij,ij->i", X, coef[groups]) + intercept
    return X, y + noise * random.normal(size=len(y)), groups, coef


def _row_limits(rows_per_user: Any) -> tuple[int, int]:
    """Return the smallest and the largest number of rows of a user."""
    if isinstance(rows_per_user, Integral):
        return int(rows_per_user), int(rows_per_user)
    is_pair = len(rows_per_user) == 2 and all(isinstance(n, Integral) for n in rows_per_user)
    if not is_pair or not 1 <= rows_per_user[0] <= rows_per_user[1]:
        raise ValueError(
            "rows_per_user must be a positive integer, or two of them in ascending order, got "
            f"{rows_per_user!r}."
        )
    return int(rows_per_user[0]), int(rows_per_user[1])


def _numbers(name: str, given: Any, default: np.ndarray) -> np.ndarray:
    """Return a number for each component; refuse another shape."""
    if given is None:
        return default
    numbers: np.ndarray = check_array(given, dtype=np.float64, ensure_2d=False, input_name=name)
    if numbers.shape != default.shape:
        raise ValueError(
            f"{name} has shape {numbers.shape}, but must have one number for each of the "
            f"n_components={len(default)}."
        )
    return numbers
