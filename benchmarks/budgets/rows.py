"""Rows of the study of budgets: an estimator on its tables, and its twin without privacy."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import accuracy_score, log_loss, r2_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skdp
from benchmarks.budgets.tables import (
    CLASSES,
    MATRICES,
    RESPONSES,
    Table,
    standardized,
    table_of,
)
from benchmarks.personalization.users import make_personalized_regression
from skdp.datasets import make_trace_regression
from skdp.exceptions import PrivacyWarning
from skdp.units import Entry, Update

__all__ = ["EPSILONS", "ROWS", "Fit", "Row"]

EPSILONS = (0.25, 0.5, 1.0, 4.0, 16.0, 64.0, 256.0, np.inf)
# Printed here, hence good for repeatable tables and for nothing else.
KEY = 0x7AE21C90D5B84F3396F0A8C4E7132D58
# A smaller R2 counts as this: one useless fit would hide all others of its cell.
WORST = -1.0


@dataclass(frozen=True)
class Fit:
    """Measures of one fit, by their names, and whether it has warned."""

    values: dict[str, float]
    has_warned: bool


@dataclass(frozen=True)
class Row:
    """An estimator on tables; `measure` takes what `split` gives, and a fitted model."""

    name: str
    tables: dict[str, Callable[[], Any]]
    make: Callable[[float, int, Any], Any]
    twin: Callable[[Any], Any]
    measure: Callable[[Any, Any], dict[str, float]]
    split: Callable[[Any, int], Any]
    fit: Callable[[Any, Any], Any] = field(default=lambda model, data: model.fit(*data[0]))

    def at(self, table: str, epsilon: float, seed: int) -> Fit:
        data = self.split(table_of(self.tables[table]), seed)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            model = self.make(epsilon, KEY + seed, data)
            fitted = self.fit(model, data)
        has_warned = any(issubclass(one.category, PrivacyWarning) for one in told)
        return Fit(self.measure(fitted, data), has_warned)

    def without_privacy(self, table: str, seed: int) -> dict[str, float]:
        data = self.split(table_of(self.tables[table]), seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self.measure(self.fit(self.twin(data), data), data)


# Splits: what is fitted, then what is measured.


def _held_out(table: Table, seed: int) -> Any:
    X, T, y, t = train_test_split(table.X, table.y, random_state=seed)
    return (X, y), (T, t)


def _whole(table: Table, seed: int) -> Any:
    return (table.X,), table.X


def _made_by(maker: Callable[[int], tuple[np.ndarray, ...]]) -> Callable[[Any, int], Any]:
    def _split(_: Any, seed: int) -> Any:
        X, y, *rest = maker(seed)
        half = len(X) // 2
        return (X[:half], y[:half]), (X[half:], y[half:], *rest)

    return _split


# Measures.


def _r2(model: Any, data: Any) -> dict[str, float]:
    return {"R2": max(r2_score(data[1][1], model.predict(data[1][0])), WORST)}


def _of_classes(model: Any, data: Any) -> dict[str, float]:
    X, y = data[1]
    probabilities = model.predict_proba(X)
    return {
        "accuracy": accuracy_score(y, model.predict(X)),
        "log loss": log_loss(y, probabilities, labels=model.classes_),
    }


def _captured(model: Any, data: Any) -> dict[str, float]:
    X, components = data[1], model.components_
    mean = getattr(model, "mean_", None)
    if sparse.issparse(X) or mean is None:
        inside = np.linalg.norm(X @ components.T) ** 2
        whole = sparse.linalg.norm(X) if sparse.issparse(X) else np.linalg.norm(X)
        return {"captured": float(inside / whole**2)}
    centered = X - X.mean(axis=0)
    inside = np.linalg.norm(centered @ components.T) ** 2
    return {"captured": float(inside / np.linalg.norm(centered) ** 2)}


def _classes_of(data: Any) -> np.ndarray:
    return np.unique(data[0][1])


def _chosen(tables: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: tables[name] for name in names}


def _scaled_classifier(epsilon: float, key: int, data: Any) -> Any:
    last = skdp.DPLogisticRegression(classes=_classes_of(data))
    return skdp.make_dp_pipeline(skdp.DPStandardScaler(), last, epsilon=epsilon, random_state=key)


def _matrices(seed: int) -> tuple[np.ndarray, np.ndarray]:
    return make_trace_regression(8000, (12, 12), rank=2, random_state=seed)[:2]


def _labeled_matrices(seed: int) -> tuple[np.ndarray, np.ndarray]:
    X, y = _matrices(seed)
    return X, (y > 0).astype(int)


NO_TABLE: dict[str, Callable[[], Any]] = {"made": lambda: None}


def _people(_: Any, seed: int) -> Any:
    X, y, users, coefs = make_personalized_regression(2000, random_state=seed)
    return (X, y, users), np.linalg.svd(coefs, full_matrices=False)[2][:2].T


def _aligned(model: Any, data: Any) -> dict[str, float]:
    """Measure which part of the true representation the released one has."""
    found = np.linalg.qr(model.components_.T)[0]
    return {"aligned": float(np.linalg.norm(found.T @ data[1]) ** 2 / data[1].shape[1])}


def _stream(epsilon: float, key: int, data: Any) -> Any:
    unit = Update(bound=1.0)
    return skdp.DPStreamingFactorizer(
        4, shape=data[1].shape, privacy_unit=unit, epsilon=epsilon, random_state=key
    )


def _streamed(model: Any, data: Any) -> Any:
    if not hasattr(model, "finalize"):
        return model.fit(data[1])
    model.update(*sparse.find(data[1]))
    return model.finalize()


ROWS: list[Row] = [
    Row(
        "DPLinearRegression",
        RESPONSES,
        lambda epsilon, key, _: skdp.DPLinearRegression(epsilon=epsilon, random_state=key),
        lambda _: make_pipeline(StandardScaler(), LinearRegression()),
        _r2,
        _held_out,
    ),
    Row(
        "DPLogisticRegression",
        {name: standardized(maker) for name, maker in CLASSES.items()},
        lambda epsilon, key, data: skdp.DPLogisticRegression(
            classes=_classes_of(data), epsilon=epsilon, random_state=key
        ),
        lambda _: make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)),
        _of_classes,
        _held_out,
    ),
    Row(
        "DPStandardScaler, DPLogisticRegression",
        CLASSES,
        _scaled_classifier,
        lambda _: make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)),
        _of_classes,
        _held_out,
    ),
    Row(
        "DPTraceRegressor",
        NO_TABLE,
        lambda epsilon, key, _: skdp.DPTraceRegressor(rank=2, epsilon=epsilon, random_state=key),
        lambda _: skdp.DPTraceRegressor(rank=2, epsilon=np.inf, n_iter=100),
        _r2,
        _made_by(_matrices),
    ),
    Row(
        "DPTraceClassifier",
        NO_TABLE,
        lambda epsilon, key, _: skdp.DPTraceClassifier(
            rank=2, classes=[0, 1], epsilon=epsilon, random_state=key
        ),
        lambda _: skdp.DPTraceClassifier(rank=2, classes=[0, 1], epsilon=np.inf),
        _of_classes,
        _made_by(_labeled_matrices),
    ),
    Row(
        "DPPCA",
        _chosen(MATRICES, "digits", "california", "adult", "heavy tails", "correlated"),
        lambda epsilon, key, _: skdp.DPPCA(4, epsilon=epsilon, random_state=key),
        lambda _: PCA(4),
        _captured,
        _whole,
    ),
    Row(
        "DPTruncatedSVD, rows",
        _chosen(MATRICES, "digits", "msweb", "movielens"),
        lambda epsilon, key, _: skdp.DPTruncatedSVD(4, epsilon=epsilon, random_state=key),
        lambda _: TruncatedSVD(4, algorithm="arpack"),
        _captured,
        _whole,
    ),
    Row(
        "DPTruncatedSVD, entries",
        _chosen(MATRICES, "digits", "movielens"),
        lambda epsilon, key, _: skdp.DPTruncatedSVD(
            4, privacy_unit=Entry((0, 1)), epsilon=epsilon, random_state=key
        ),
        lambda _: TruncatedSVD(4, algorithm="arpack"),
        _captured,
        _whole,
    ),
    Row(
        "DPLowRankFactorizer, rows",
        _chosen(MATRICES, "digits", "msweb"),
        lambda epsilon, key, _: skdp.DPLowRankFactorizer(4, epsilon=epsilon, random_state=key),
        lambda _: TruncatedSVD(4, algorithm="arpack"),
        _captured,
        _whole,
    ),
    Row(
        "DPStreamingFactorizer",
        _chosen(MATRICES, "digits"),
        _stream,
        lambda _: TruncatedSVD(4, algorithm="arpack"),
        _captured,
        _whole,
        _streamed,
    ),
    Row(
        "DPPersonalizedRegressor",
        NO_TABLE,
        lambda epsilon, key, _: skdp.DPPersonalizedRegressor(2, epsilon=epsilon, random_state=key),
        lambda _: skdp.DPPersonalizedRegressor(2, epsilon=np.inf),
        _aligned,
        _people,
    ),
]
