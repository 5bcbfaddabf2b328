"""Fits of `DPTraceRegressor` for `speed.py`, in a form that needs no responses."""

from typing import Any

import numpy as np

from skdp.data.matrices import Design
from skdp.data.parts import Targets
from skdp.data.sources import as_source
from skdp.linear_model.low_rank.descent import RecordClipping, random_start
from skdp.linear_model.low_rank.records import Records

SHAPE, RANK = (50, 50), 2


def responses(n_records: int) -> np.ndarray:
    return np.random.default_rng(1).normal(size=n_records)


class Regression:
    """A regressor with responses of its own: what they are does not change the time."""

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: np.ndarray) -> None:
        self.estimator.fit(X, responses(len(X)))


class GradientStep:
    """What one step of the descent computes of the data: clipped gradients, and their sum."""

    def __init__(self, n_jobs: int | None = None) -> None:
        self.n_jobs = n_jobs

    def fit(self, X: np.ndarray) -> None:
        design = Design(as_source(X), SHAPE, self.n_jobs)
        records = Records(design, Targets.of(responses(len(X))), 1.0)
        clipping = RecordClipping(records)
        point = random_start(SHAPE, RANK, np.random.default_rng(2)).point.with_values(np.ones(RANK))
        clipping.gradient(point, 0.0, level=10.0)


class TwoProducts:
    """What no gradient can do without: predictions, and the product with the residuals."""

    def fit(self, X: np.ndarray) -> None:
        residuals = responses(len(X)) - X @ np.ones(X.shape[1])
        X.T @ residuals
