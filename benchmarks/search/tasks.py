"""What `search.py` tunes: estimators, their candidates, and what these are judged by."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline

from benchmarks.data import file_at_hand
from skdp import DPPCA, DPTraceRegressor
from skdp.datasets import make_trace_regression

Grid = dict[str, list[Any]]
Losses = Callable[[Any, np.ndarray, np.ndarray], np.ndarray]


class Rows(NamedTuple):
    X: np.ndarray
    y: np.ndarray


class Parts(NamedTuple):
    """Private rows, 6% as many public ones, and fresh ones to test on."""

    private: Rows
    public: Rows
    test: Rows


@dataclass(frozen=True)
class Task:
    """An estimator whose settings are the default, and grids for it.

    `losses` is what every design judges by, a loss for each row, a private search by `scoring`,
    which has the same; their mean over test rows is tabulated, under the name of `loss`, and each
    of `others`, too. The last grid has all candidates.
    """

    name: str
    title: str
    text: str
    rows: Callable[[], Rows]
    estimator: Any
    grids: dict[str, Grid]
    loss: str
    losses: Losses
    others: dict[str, Callable[[Any, Parts], float]] = field(default_factory=dict)
    scoring: str | None = None  # None: of the estimator
    n_seeds: int | None = None  # None: all
    needs_folder: bool = False

    @property
    def grid(self) -> Grid:
        return list(self.grids.values())[-1]

    def measures(self, model: Any, parts: Parts) -> dict[str, float]:
        found = {name: measure(model, parts) for name, measure in self.others.items()}
        return {**found, self.loss: float(self.losses(model, *parts.test).mean())}


def parts_of(rows: Rows, random: np.random.Generator) -> Parts:
    """Split rows at random: 80% are private, 5% public."""
    order, n_rows = random.permutation(len(rows.X)), len(rows.X)
    split = np.split(order, [n_rows * 80 // 100, n_rows * 85 // 100])
    return Parts(*(Rows(rows.X[part], rows.y[part]) for part in split))


@cache
def digits() -> Rows:
    return Rows(*load_digits(return_X_y=True))


@cache
def zeros_among_digits() -> Rows:
    X, labels = digits()
    return Rows(X, (labels == 0).astype(float))


@cache
def matrices() -> Rows:
    X, y, _ = make_trace_regression(6000, (10, 10), rank=3, random_state=0)
    return Rows(X.reshape(len(X), -1), y)


FILE = "california_housing.npz"


@cache
def houses() -> Rows:
    file = file_at_hand(FILE)
    if file is None:
        raise FileNotFoundError(f"{FILE} is not in the folder that SKDP_DATA names.")
    data = np.load(file)
    return Rows(data["X"].astype(float), data["y"] / 1e5)


def unlikelihoods(model: Any, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    return -model.score_samples(X)


def residuals(model: Any, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.square(X - model.inverse_transform(model.transform(X))).sum(axis=1)


def squares(model: Any, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.square(model.predict(X) - y)


def squares_of_houses(model: Any, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Compute them with predictions between 0 and 500,000 dollars, the largest value there is."""
    return np.square(np.clip(model.predict(X), 0, 5) - y)


def class_error(model: Any, parts: Parts) -> float:
    """Compute the error rate of the nearest class mean along the components."""
    along, labels = model.transform(parts.private.X), parts.private.y
    means = np.array([along[labels == label].mean(axis=0) for label in np.unique(labels)])
    tested = model.transform(parts.test.X)[:, np.newaxis]
    nearest = np.square(tested - means).sum(axis=2).argmin(axis=1)
    return float(np.mean(nearest != parts.test.y))


SQUARED_ERROR = "Mean squared error"
UNLIKELIHOOD = "Negative log-likelihood of a row, by which candidates are judged"
ERROR_RATE = {"Error rate of the nearest class mean along the components": class_error}
COMPONENTS = {"n_components": [2, 5, 9, 14, 25]}
PUBLIC_NORMS = {"row_norm": 40.0, "mean_norm": 64.0}

TASKS = [
    Task(
        "components",
        "Digits, number of components",
        "`DPPCA` of 1437 images; 2, 5, 9, 14 or 25 components, which one release serves. By "
        "default 10. Class means are computed without privacy, so that only the components limit.",
        digits,
        DPPCA(10, solver="covariance", **PUBLIC_NORMS),
        {"5 candidates of one fit": COMPONENTS},
        UNLIKELIHOOD,
        unlikelihoods,
        ERROR_RATE,
    ),
    Task(
        "norms",
        "Digits, number of components and row norm",
        "The same, and row norms 15, 22, 30 or 40: 20 candidates of 4 distinct fits. By default "
        "10 components and 40.",
        digits,
        DPPCA(10, solver="covariance", **PUBLIC_NORMS),
        {"20 candidates of 4 fits": {**COMPONENTS, "row_norm": [15.0, 22.0, 30.0, 40.0]}},
        UNLIKELIHOOD,
        unlikelihoods,
        ERROR_RATE,
    ),
    Task(
        "captured",
        "Digits, norms of rows and of the mean",
        "`DPPCA` of 1437 images with 8 components. Row norms "
        "5, 10, 20, 30, 40, norms of the mean 30, 45, 64, 100, a fit for each candidate; few: row "
        "norms 10, 20 and 40. By default 40 and 64.",
        digits,
        DPPCA(8, solver="covariance", **PUBLIC_NORMS),
        {
            "3 fits": {"row_norm": [10.0, 20.0, 40.0]},
            "20 fits": {
                "row_norm": [5.0, 10.0, 20.0, 30.0, 40.0],
                "mean_norm": [30.0, 45.0, 64.0, 100.0],
            },
        },
        "Squared residual of a row",
        residuals,
        scoring="reconstruction",
    ),
    Task(
        "matrices",
        "Matrices of rank 3",
        "`DPTraceRegressor` of 4800 records, `make_trace_regression(6000, (10, 10), rank=3)`; "
        "noise has .25 of the error. Ranks 1, 2, 3, 4, 6, and 3, 6, 12 or 24 steps; few: "
        "ranks 1, 3 and 6. By default rank 1, which is wrong, and 10 steps.",
        matrices,
        DPTraceRegressor(matrix_shape=(10, 10), covariance="identity"),
        {
            "3 fits": {"rank": [1, 3, 6]},
            "20 fits": {"rank": [1, 2, 3, 4, 6], "n_iter": [3, 6, 12, 24]},
        },
        SQUARED_ERROR,
        squares,
        n_seeds=10,
    ),
    Task(
        "houses",
        "California housing",
        "`DPTraceRegressor` of 16,346 records, in units of 100,000 dollars; predictions are held "
        "between 0 and 5, but where a private search judges them. 2, 5, 10, 20 or 40 steps, and "
        "clipping at the quantile .3, .5, .7 or .9; few: 5, 10 and 20 steps. By "
        "default 10, and a quantile by the noise.",
        houses,
        DPTraceRegressor(),
        {
            "3 fits": {"n_iter": [5, 10, 20]},
            "20 fits": {"n_iter": [2, 5, 10, 20, 40], "clip_quantile": [0.3, 0.5, 0.7, 0.9]},
        },
        SQUARED_ERROR,
        squares_of_houses,
        n_seeds=10,
        needs_folder=True,
    ),
    Task(
        "job",
        "A whole job: components, then regression",
        "`make_pipeline(DPPCA(), DPTraceRegressor())` of 1437 images, on whether one is a zero; "
        "predicting 0 has .10. 3, 10 or 30 components: one fit of the "
        "first step, three of the second. By default as many components as there are pixels.",
        zeros_among_digits,
        make_pipeline(DPPCA(), DPTraceRegressor()),
        {"3 candidates": {"dppca__n_components": [3, 10, 30]}},
        SQUARED_ERROR,
        squares,
    ),
]
