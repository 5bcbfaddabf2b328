"""Tables of rows of norm 1, made from the raw data by steps that are public.

Columns are scaled by ranges known beforehand (of the questionnaire, the scanner, the state of
California), long tails are turned into logarithms, and every row is divided by its own norm, so
that 1 bounds all of them and nothing is clipped. Where columns have no natural zero, a public
center is subtracted first, the same for all methods. No step reads anything off other rows.

Data that may not be passed on are looked for in the folder that `data.py` tells of.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.preprocessing import normalize

from benchmarks.data import file_at_hand

__all__ = ["TABLES", "Table", "available"]


@dataclass(frozen=True)
class Table:
    """A table, the number of components asked for, and whether a public center was subtracted."""

    name: str
    n_components: int
    make: Callable[[], Any]
    file: str | None = None
    centered: bool = False

    def rows(self) -> Any:
        """Return the rows, each of norm 1, or 0 if the whole row is."""
        return normalize(self.make(), copy=False)


def available(table: Table) -> bool:
    return table.file is None or file_at_hand(table.file) is not None


def _saved(file: str, key: str = "X") -> np.ndarray:
    return np.load(file_at_hand(file))[key].astype(np.float64)


def _signed_log(X: np.ndarray) -> np.ndarray:
    return np.sign(X) * np.log1p(np.abs(X))


def _digits() -> np.ndarray:
    return load_digits().data / 16


def _breast_cancer() -> np.ndarray:
    # Ten sizes as mean, standard error and worst. The upper ends are round numbers above those that
    # scikit-learn's description of the data prints; typical cells lie at a third of them.
    high = [30, 40, 200, 2500, 0.2, 0.5, 0.5, 0.25, 0.4, 0.1]
    high += [3, 5, 25, 600, 0.04, 0.15, 0.4, 0.06, 0.1, 0.03]
    high += [40, 50, 300, 4500, 0.3, 1.1, 1.3, 0.3, 0.7, 0.25]
    return load_breast_cancer().data / np.array(high) - 1 / 3


def _california() -> np.ndarray:
    X = _saved("california_housing.npz")
    X[:, 3:7] = np.log(X[:, 3:7])
    # Longitude, latitude, age; logarithms of rooms, bedrooms, people, households; median income.
    logs = np.log([[1, 1, 1, 1], [40_000, 10_000, 40_000, 10_000]])
    low = np.array([-125, 32, 0, *logs[0], 0])
    high = np.array([-114, 42, 52, *logs[1], 15])
    return (2 * X - low - high) / (high - low)


def _adult() -> np.ndarray:
    X = _saved("adult.npz")
    # Age, people represented, years of school, capital gain and loss, hours; the rest is 0 or 1.
    X[:, [1, 3, 4]] = np.log1p(X[:, [1, 3, 4]])
    X[:, :6] /= [90, np.log1p(1.5e6), 16, np.log1p(1e5), np.log1p(1e4), 99]
    return X


def _coil2000() -> np.ndarray:
    # Type of customer, houses, size of household, age and main type; the rest is in classes 0 to 9.
    return _saved("coil2000_insurance.npz") / np.array([41, 10, 6, 6, 10] + 80 * [9])


def _blog_feedback() -> np.ndarray:
    return _signed_log(_saved("blog_feedback.npz"))


def _kddcup99() -> Any:
    numbers = _saved("kddcup99_10pct.npz", "num")
    # Counts go up to 511, and to 255 for those of the host; all others are rates or flags, or rare.
    long_tails = [0, 1, 2, 6, 7, 9, 11, 12, 13, 14, 15]
    numbers[:, long_tails] = np.log1p(numbers[:, long_tails]) / np.log1p(1e9)
    numbers[:, [4, 5]] /= 3
    numbers[:, [19, 20]] /= 511
    numbers[:, [28, 29]] /= 255
    classes = _saved("kddcup99_10pct.npz", "cat").astype(int)
    flags = [
        sparse.csr_array((np.ones(len(column)), (np.arange(len(column)), column)))
        for column in classes.T
    ]
    return sparse.hstack([sparse.csr_array(numbers), *flags], format="csr")


def _msweb() -> Any:
    visits = sparse.load_npz(file_at_hand("msweb.npz"))
    # Users are the longer side.
    return sparse.csr_array(visits if visits.shape[0] > visits.shape[1] else visits.T, dtype=float)


TABLES = [
    Table("digits", 5, _digits),
    Table("breast_cancer", 3, _breast_cancer, centered=True),
    Table("california_housing", 3, _california, "california_housing.npz", centered=True),
    Table("coil2000", 11, _coil2000, "coil2000_insurance.npz"),
    Table("adult", 4, _adult, "adult.npz"),
    Table("msweb", 10, _msweb, "msweb.npz"),
    Table("blog_feedback", 10, _blog_feedback, "blog_feedback.npz"),
    Table("kddcup99", 4, _kddcup99, "kddcup99_10pct.npz"),
]
