"""Small fits of every family, whose accuracy `constants.py` measures.

A case draws its data once, and fits them many times, each time with another value of a constant.
For each value `constants.py` imports the package again, so that no case imports estimators or units
before its fit: `new` does.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from benchmarks.personalization.users import make_personalized_regression
from skdp import datasets

__all__ = ["CASES", "Case"]

# An accuracy below this counts as this one: 0 is no better than no model.
_LEAST = -1.0


@dataclass(frozen=True)
class Case:
    """Functions that draw the data of a seed, and fit them and return an accuracy: 1 at best."""

    name: str
    family: str
    draw: Callable[[int], Any]
    accuracy: Callable[[Any, int], float]

    def measure(self, data: Any, seed: int) -> float:
        return max(_LEAST, float(self.accuracy(data, seed)))


def new(name: str, *arguments: Any, **parameters: Any) -> Any:
    """Make an object of the package, as it is imported now, from the name of its class."""
    module, _, name = f"skdp.{name}".rpartition(".")
    return getattr(importlib.import_module(module), name)(*arguments, **parameters)


entry = partial(new, "units.Entry", (-1.0, 1.0), zero_is_missing=False)
edge = partial(new, "units.Edge", (0.0, 1.0))
interaction = partial(new, "units.Interaction")
change = partial(new, "units.FrobeniusChange", 1.0)


def captured(
    name: str, k: int, X: Any, seed: int, unit: Callable[[], Any] | None = None, **parameters: Any
) -> float:
    """Return the captured variance as a fraction of that of the best components."""
    if unit is not None:
        parameters["privacy_unit"] = unit()
    components = new(name, k, random_state=seed, **parameters).fit(X).components_
    X = X.toarray() if hasattr(X, "toarray") else X
    if name == "DPPCA":
        X = X - X.mean(axis=0)
    eigenvalues = np.linalg.eigvalsh(X.T @ X)
    return np.square(X @ np.linalg.qr(components.T)[0]).sum() / eigenvalues[-k:].sum()


def factored(k: int, X: np.ndarray, seed: int, unit: Callable[[], Any], **parameters: Any) -> float:
    fit = new("DPLowRankFactorizer", k, privacy_unit=unit(), random_state=seed, **parameters)
    return explained(X, fit.fit(X).reconstruct(), about_mean=False)


def streamed(k: int, X: np.ndarray, seed: int, unit: Callable[[], Any], epsilon: float) -> float:
    parameters = {"privacy_unit": unit(), "epsilon": epsilon, "random_state": seed}
    stream = new("DPStreamingFactorizer", shape=X.shape, n_components=k, **parameters)
    return explained(X, stream.partial_fit(X).finalize().reconstruct(), about_mean=False)


def explained(truth: np.ndarray, found: np.ndarray, *, about_mean: bool) -> float:
    total = np.square(truth - truth.mean() if about_mean else truth).sum()
    return 1 - np.square(truth - found).sum() / total


def coefficients(rank: int, data: Any, seed: int, **parameters: Any) -> float:
    X, y, matrix = data
    if isinstance(X, tuple):
        X = new("RankOneMatrices", *X)
    fit = new("DPTraceRegressor", rank, random_state=seed, **parameters).fit(X, y)
    return explained(matrix, fit.coef_matrix_, about_mean=False)


def predicted(data: Any, seed: int, **parameters: Any) -> float:
    """Fit two thirds of the records; return R2 on the last third."""
    X, y = data
    n = 2 * len(X) // 3
    fit = new("DPTraceRegressor", random_state=seed, **parameters).fit(X[:n], y[:n])
    return explained(y[n:], fit.predict(X[n:]), about_mean=True)


def classified(data: Any, seed: int, **parameters: Any) -> float:
    """Fit two thirds of the records; return the accuracy on the last third."""
    X, y = data
    n, classes = 2 * len(X) // 3, np.unique(y)
    fit = new("DPLogisticRegression", classes=classes, random_state=seed, **parameters)
    return fit.fit(X[:n], y[:n]).score(X[n:], y[n:])


def scaled(X: np.ndarray, seed: int, **parameters: Any) -> float:
    """Return 1 minus the errors of log scales and, in units of the scales, of means."""
    fit, scale = new("DPStandardScaler", random_state=seed, **parameters).fit(X), X.std(axis=0)
    off = np.abs(np.log(fit.scale_ / scale)) + np.abs(fit.mean_ - X.mean(axis=0)) / scale
    return 1 - off.mean()


def personal(k: int, data: Any, seed: int, **parameters: Any) -> float:
    """Fit every other row of each user; return R2 of noiseless responses of the other rows."""
    X, y, users, coef = data
    mine = X[::2], y[::2], users[::2]
    model = new("DPPersonalizedRegressor", k, random_state=seed, **parameters).fit(*mine)
    found = model.predict(X[1::2], groups=users[1::2], support=mine)
    truth = np.einsum("ij,ij->i", X[1::2], coef[users[1::2]])
    return explained(truth, found, about_mean=False)


def digits(_: int) -> np.ndarray:
    return load_digits().data


def spiked(n: int, d: int, seed: int) -> np.ndarray:
    return datasets.make_spiked(n, d, random_state=seed)[0]


def low_rank(m: int, n: int, seed: int, **parameters: Any) -> np.ndarray:
    return datasets.make_low_rank(m, n, **parameters, random_state=seed)[0]


def graph(seed: int) -> Any:
    return datasets.make_block_graph(400, p_within=0.5, p_between=0.1, random_state=seed)[0]


def interactions(n: int, d: int, seed: int) -> Any:
    return datasets.make_interactions(n, d, random_state=seed)


def matrices(n: int, side: int, seed: int, **parameters: Any) -> Any:
    X, y, M = datasets.make_trace_regression(n, (side, side), **parameters, random_state=seed)
    return (X if isinstance(X, np.ndarray) else (X.left, X.right)), y, M


def unlike_columns(seed: int) -> Any:
    """Draw correlated columns of different centers and units, a rare one, and one of counts."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(9_000, 8)) + 0.7 * random.normal(size=(9_000, 1))
    X[:, 6] = random.random(9_000) < 0.05
    X[:, 7] = random.poisson(np.exp(X[:, 7]))
    y = X @ random.normal(size=8) + random.normal(size=9_000)
    return 5 + X * np.geomspace(0.01, 100, 8), 30 + 10 * y


def years(seed: int) -> np.ndarray:
    """Draw columns whose spread is small compared with their distance from 0."""
    random = np.random.default_rng(seed)
    return 2000 + random.normal(size=(9_000, 6)) * np.geomspace(1, 30, 6)


def classes(n_classes: int, seed: int) -> Any:
    """Draw the columns of `unlike_columns`, with quantile intervals of a response as classes."""
    X, y = unlike_columns(seed)
    return X, np.searchsorted(np.quantile(y, np.arange(1, n_classes) / n_classes), y)


def users(n: int, seed: int, **parameters: Any) -> Any:
    return make_personalized_regression(n, **parameters, random_state=seed)


SVD, PCA = partial(captured, "DPTruncatedSVD"), partial(captured, "DPPCA")
FACTORS, FACTORED = partial(captured, "DPLowRankFactorizer"), partial(factored, 3, unit=change)
EXPONENTIAL = partial(personal, 1, solver="exponential", delta=0.0, epsilon=4.0)
HEADLESS = {"fit_intercept": False, "mean_head": False, "decorrelate": False}
TRACE = partial(coefficients, 2)
SPIKED = partial(spiked, 4000, 60)
DENSE = partial(low_rank, 300, 200, singular_values=(200, 140, 100))
RECORDS = partial(matrices, 4000, 10)
CELLS, TASKS = (partial(matrices, 8000, 10, design=design) for design in ("completion", "tasks"))
USERS = partial(users, 700, rows_per_user=40)
UNLIKE_USERS = partial(users, 1000, rows_per_user=20, mean=1.0, correlation=0.6)
FEW_USERS = partial(users, 300, n_features=4, n_components=1, rows_per_user=20)

CASES = (
    Case("PCA, digits", "rows", digits, partial(PCA, 5, epsilon=0.4)),
    Case("SVD, digits", "rows", digits, partial(SVD, 3, epsilon=0.4)),
    Case("SVD, power", "rows", SPIKED, partial(SVD, 5, solver="power", epsilon=0.5)),
    Case("SVD, people", "rows", partial(interactions, 3000, 500), partial(SVD, 3)),
    Case("SVD, entries", "entries", DENSE, partial(SVD, 3, unit=entry, epsilon=4.0)),
    Case("PCA, entries, pure", "entries", DENSE, partial(PCA, 3, unit=entry, delta=0, epsilon=40)),
    Case("SVD, edges", "entries", graph, partial(SVD, 2, unit=edge, epsilon=0.7)),
    Case(
        "SVD, interactions",
        "entries",
        partial(interactions, 600, 300),
        partial(SVD, 2, unit=interaction),
    ),
    Case("factors, rows", "factors", SPIKED, partial(FACTORS, 5, epsilon=0.5)),
    Case("factors, input", "factors", DENSE, partial(FACTORED, epsilon=2.0)),
    Case(
        "factors, alternating",
        "factors",
        DENSE,
        partial(FACTORED, solver="alternating", epsilon=4.0),
    ),
    Case("stream", "factors", DENSE, partial(streamed, 3, unit=change, epsilon=4.0)),
    Case("trace, matrices", "trace", RECORDS, partial(TRACE, epsilon=0.4)),
    Case("trace, start from data", "trace", RECORDS, partial(TRACE, init="spectral", epsilon=0.6)),
    Case("trace, cells", "trace", CELLS, partial(TRACE, epsilon=0.3)),
    Case("trace, tasks", "trace", TASKS, partial(TRACE, epsilon=0.3)),
    Case("trace, unlike columns", "trace", unlike_columns, predicted),
    Case("scaler", "columns", lambda seed: unlike_columns(seed)[0], scaled),
    Case(
        "scaler, bounds",
        "columns",
        lambda seed: years(seed) - 2000,
        partial(scaled, bounds=(-100, 100)),
    ),
    Case("scaler, zoom", "columns", years, scaled),
    Case("classes", "classes", partial(classes, 2), classified),
    Case("classes, several", "classes", partial(classes, 5), partial(classified, epsilon=0.5)),
    Case("personal", "personal", USERS, partial(personal, 2)),
    Case("personal, mean, correlation", "personal", UNLIKE_USERS, partial(personal, 2)),
    Case("personal, altmin", "personal", USERS, partial(personal, 2, solver="altmin", epsilon=4.0)),
    Case("personal, exponential", "personal", FEW_USERS, partial(EXPONENTIAL, **HEADLESS)),
)
