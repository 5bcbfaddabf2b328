"""What studies of classifiers share: data, held-out rows, two steps under one epsilon.

Features are scaled to [-1, 1] by the least and largest value of all rows, which are taken to be
public and are not: so all figures are better than they should be. Features that are 0 or 1 stay as
they are. A quarter of the rows is held out.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline, make_pipeline

from benchmarks.classification.strokes import make_strokes
from benchmarks.data import file_at_hand
from skdp import DPLogisticRegression, DPStandardScaler
from skdp.privacy.gaussian_dp import epsilon_at, mu_from_epsilon_delta

__all__ = ["DELTA", "NAMES", "Split", "Task", "loaded", "ours", "part_of"]

DELTA = 1e-6
# Printed here, hence good for repeatable tables and for nothing else.
KEY = 0x3C81F0D2A94E4B7786E5D1C02B97A64F
MADE: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    "breast cancer": lambda: load_breast_cancer(return_X_y=True),
    "digits": lambda: load_digits(return_X_y=True),
    "strokes": make_strokes,
}
FILES = {"adult": "adult", "wine": "wine_quality_white", "coil": "coil2000_insurance"}
NAMES = [*FILES, *MADE]
# Of the square of mu, where the scaler takes a part.
SCALER_SHARE = 0.15


@dataclass(frozen=True)
class Task:
    X: np.ndarray
    y: np.ndarray

    @property
    def classes(self) -> np.ndarray:
        return np.unique(self.y)

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Ends of all columns; a constant column has some width."""
        low, high = self.X.min(axis=0), self.X.max(axis=0)
        return low, np.where(high > low, high, low + 1)

    def splits(self, n_seeds: int) -> Iterator["Split"]:
        for seed in range(n_seeds):
            yield Split(self, seed, *train_test_split(self.X, self.y, random_state=seed))


class Split(NamedTuple):
    task: Task
    seed: int
    train: np.ndarray
    test: np.ndarray
    ours: np.ndarray
    theirs: np.ndarray

    @property
    def n_classes(self) -> int:
        return len(self.task.classes)


def loaded(name: str) -> Task | None:
    if name in MADE:
        X, y = MADE[name]()
        return Task(X / X.max() if name == "digits" else scaled(X), y)
    path = file_at_hand(f"{FILES[name]}.npz")
    if path is None:
        print(f"{name}: skipped, SKDP_DATA names no folder that has it")
        return None
    with np.load(path) as arrays:
        X, y = np.nan_to_num(arrays["X"].astype(np.float64)), arrays["y"]
    return Task(scaled(X), (y >= 6).astype(int) if name == "wine" else y)


def scaled(X: np.ndarray) -> np.ndarray:
    if X.min() == 0 and X.max() == 1:
        return X
    low, high = X.min(axis=0), X.max(axis=0)
    is_binary = ((X == 0) | (X == 1)).all(axis=0)
    unit = 2 * (X - low) / np.where(high > low, high - low, 1) - 1
    return np.where(is_binary, X, unit)


def part_of(epsilon: float, share: float) -> float:
    """Return the epsilon of a step that spends a share of the square of mu."""
    return epsilon_at(np.sqrt(share) * mu_from_epsilon_delta(epsilon, DELTA), DELTA)


def ours(task: Task, epsilon: float, seed: int, *, is_scaled: bool = False) -> Pipeline:
    """Return the classifier, if asked for after the scaler, that spend epsilon together."""
    settings: dict[str, Any] = {"delta": DELTA, "random_state": KEY + seed}
    public = {**settings, "classes": task.classes}
    if not is_scaled:
        return make_pipeline(DPLogisticRegression(epsilon=epsilon, **public))
    first, rest = part_of(epsilon, SCALER_SHARE), part_of(epsilon, 1 - SCALER_SHARE)
    return make_pipeline(
        DPStandardScaler(bounds=task.bounds, epsilon=first, **settings),
        DPLogisticRegression(epsilon=rest, **public),
    )
