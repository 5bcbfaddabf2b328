"""Rows of many users, whose regressions share a representation."""

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from skdp.datasets import correlated
from skdp.linalg.spectrum import orthonormal_basis


def make_personalized_regression(
    n_users: int = 500,
    n_features: int = 20,
    *,
    n_components: int = 2,
    rows_per_user: int = 20,
    scales: Any = 1.0,
    mean: float = 0.0,
    correlation: float = 0.0,
    noise: float = 0.5,
    random_state: Any = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    r"""Make labeled rows of users, each with coefficients of their own: X, y, users, coefficients.

    The response to a row x of user j is :math:`y = \langle x, U v_j\rangle + s z`, where U has
    `n_components` orthonormal columns that are shared by all users and uniformly random, the
    entries of :math:`v_j` are normal with spreads `scales`, the first of them around `mean`, s is
    the `noise` and z standard normal. Features k apart have a correlation that is the k-th power of
    `correlation`.
    """
    random = check_random_state(random_state)
    basis = orthonormal_basis(random.normal(size=(n_features, n_components)))
    center = np.array([mean, *[0.0] * (n_components - 1)])
    coef = (center + np.asarray(scales) * random.normal(size=(n_users, n_components))) @ basis.T
    groups = np.repeat(np.arange(n_users), rows_per_user)
    X = correlated(random.normal(size=(len(groups), n_features)), correlation)
    y = np.einsum("ij,ij->i", X, coef[groups])
    return X, y + noise * random.normal(size=len(y)), groups, coef
