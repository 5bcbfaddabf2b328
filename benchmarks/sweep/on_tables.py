"""Jobs of the sweep on real tables: regressions, classes and components, with defaults."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss, r2_score, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.sweep.tables import Scores, Task, held_out, load, public_ends
from skdp import (
    DPPCA,
    DPCovariance,
    DPLinearRegression,
    DPLogisticRegression,
    DPStandardScaler,
    make_dp_pipeline,
)

__all__ = ["classes", "components", "explained", "r2_of_covariance", "regression"]

FACTORS = {"none": None, "x1.5": 1.5, "x4": 4}
MOST_ROWS_OF_COMPONENTS = 6000


def bounds_of(X: np.ndarray, mode: str) -> dict[str, Any]:
    factor = FACTORS[mode]
    return {} if factor is None else {"bounds": public_ends(X, factor)}


def r2_of_covariance(frame: pd.DataFrame, X: np.ndarray, y: np.ndarray, epsilon: float) -> Scores:
    """Score the regression of the last column of a frame, by one released second moment."""
    model = DPCovariance(epsilon=epsilon).fit(frame).regression(frame.columns[-1])
    return {"": r2_score(y, model.predict(pd.DataFrame(X, columns=frame.columns[:-1])))}


def regression(name: str, rep: int) -> Iterator[Task]:
    """R2: rows as they are, with ends of columns that are known, and by `DPCovariance`."""
    X, y = load(name)
    train, test, y_train, y_test = held_out(X, y.astype(float), rep)
    ridge = make_pipeline(StandardScaler(), Ridge(1e-6 * len(train))).fit(train, y_train)
    twin, none = {"": ridge.score(test, y_test)}, {"": 0.0}

    def fit(epsilon: float, mode: str) -> Scores:
        model = DPLinearRegression(epsilon=epsilon, **bounds_of(X, mode)).fit(train, y_train)
        return {"": model.score(test, y_test)}

    for mode in FACTORS:
        yield Task(name, mode, partial(fit, mode=mode), twin, none)
    names = [*(f"x{number}" for number in range(X.shape[1])), "y"]
    frame = pd.DataFrame(np.column_stack([train, y_train]), columns=names)
    yield Task(name, "covariance", partial(r2_of_covariance, frame, test, y_test), twin, none)


def scores_of_classes(model: Any, X: np.ndarray, y: np.ndarray, labels: np.ndarray) -> Scores:
    """Return the mean AUC of one class against the others, and minus the log loss."""
    found, codes = model.predict_proba(X), np.searchsorted(labels, y)
    several = [k for k in range(len(labels)) if 0 < (codes == k).sum() < len(codes)]
    auc = np.mean([roc_auc_score(codes == k, found[:, k]) for k in several])
    return {"": float(auc), " -loss": -log_loss(y, found, labels=labels)}


def classes(name: str, rep: int) -> Iterator[Task]:
    """AUC, and minus log loss, of a scaler and a classifier at one epsilon."""
    X, y = load(name)
    y, has_gaps = y.astype(str), bool(np.isnan(X).any())
    labels = np.unique(y)
    train, test, y_train, y_test = held_out(X, y, rep, stratify=True)
    imputers, given = ([SimpleImputer()], {"missing": "mean"}) if has_gaps else ([], {})
    plain = make_pipeline(*imputers, StandardScaler(), LogisticRegression(max_iter=400))
    twin = scores_of_classes(plain.fit(train, y_train), test, y_test, labels)
    frequencies = np.mean(y_train[:, None] == labels, axis=0).clip(1e-6)
    by_frequency = np.tile(frequencies, (len(y_test), 1))
    none = {"": 0.5, " -loss": -log_loss(y_test, by_frequency, labels=labels)}

    def fit(epsilon: float, mode: str) -> Scores:
        scaler = DPStandardScaler(**given, **bounds_of(X, mode))
        classifier = DPLogisticRegression(classes=list(labels))
        model = make_dp_pipeline(scaler, classifier, epsilon=epsilon).fit(train, y_train)
        return scores_of_classes(model, test, y_test, labels)

    for mode in FACTORS:
        yield Task(name, mode, partial(fit, mode=mode), twin, none)


def explained(moment: np.ndarray, components: np.ndarray, k: int) -> Scores:
    """Return the part of what the best k components explain, that these explain."""
    basis = np.linalg.qr(np.asarray(components).T)[0]
    best = np.linalg.eigvalsh(moment)[-k:].sum()
    return {"": float(np.trace(basis.T @ moment @ basis) / best)}


def components(name: str, rep: int) -> Iterator[Task]:
    """Variance that components explain: of rows as they are, of scaled ones, by `DPCovariance`."""
    X, _ = load(name)
    X = X[~np.isnan(X).any(axis=1)]
    varies = X[:MOST_ROWS_OF_COMPONENTS].std(axis=0) > 0
    X = X[:MOST_ROWS_OF_COMPONENTS, varies]
    centered = X - X.mean(axis=0)
    scaled = centered / centered.std(axis=0)
    raw, unit = (rows.T @ rows / len(X) for rows in (centered, scaled))

    def of_rows(epsilon: float, k: int) -> Scores:
        return explained(raw, DPPCA(k, epsilon=epsilon).fit(X).components_, k)

    def of_scaled(epsilon: float, k: int) -> Scores:
        model = make_dp_pipeline(DPStandardScaler(), DPPCA(k), epsilon=epsilon).fit(X)
        return explained(unit, model[-1].components_, k)

    def of_covariance(epsilon: float, k: int) -> Scores:
        model = DPCovariance(epsilon=epsilon).fit(X).components(k, scale=True)
        return explained(unit, model[-1].components_, k)

    modes = {"raw": of_rows, "scaled": of_scaled, "covariance scaled": of_covariance}
    for k in (2, 5):
        if k < X.shape[1]:
            for mode, fit in modes.items():
                none = {"": k / X.shape[1]}
                yield Task(f"{name} k={k}", mode, partial(fit, k=k), {"": 1.0}, none)
