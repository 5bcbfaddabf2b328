"""Fits of `DPPersonalizedRegressor` for `speed.py`, beside a regression of each user alone."""

import numpy as np
from sklearn.linear_model import Ridge

from benchmarks.speed.regression import responses
from skdp import DPPersonalizedRegressor

N_ROWS = 20  # of a user


class SharedModel:
    """What users share, in 10 rounds; what is learned does not change the time."""

    def fit(self, X: np.ndarray) -> None:
        users = np.arange(len(X)) // N_ROWS
        DPPersonalizedRegressor(3, n_iter=10).fit(X, responses(len(X)), users)


class RidgeOfEach:
    """Ridge regression of each user, one after the other."""

    def fit(self, X: np.ndarray) -> None:
        y = responses(len(X))
        for start in range(0, len(X), N_ROWS):
            Ridge(alpha=10.0).fit(X[start : start + N_ROWS], y[start : start + N_ROWS])
