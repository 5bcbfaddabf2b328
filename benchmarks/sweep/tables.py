"""Tables of the sweep, from the folder of SKDP_DATA, and tasks that are made of them.

A task is a case in a mode: a fit for any epsilon, its twin without privacy, and no model at all.
"""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
from sklearn.model_selection import train_test_split

from benchmarks.data import file_at_hand

__all__ = [
    "CLASSES",
    "COMPONENTS",
    "REGRESSION",
    "Scores",
    "Task",
    "held_out",
    "load",
    "public_ends",
]

REGRESSION = (
    *("baseball", "ames", "house8L", "space_ga", "scorecard", "teams"),
    *("ailerons", "wind", "doctor", "mv", "nox", "hfi"),
)
CLASSES = (
    *("mammography", "email", "storms", "vowel", "cnae9", "yrbss"),
    *("segment", "splice", "polarity", "attrition", "page_blocks"),
)
COMPONENTS = (
    *("scorecard", "house8L", "ailerons", "wind"),
    *("segment", "teams", "mammography", "page_blocks"),
)
MOST_ROWS = 20_000

# Scores by the name of their measure, larger is better; the name of the first one is empty.
Scores = dict[str, float]


class Task(NamedTuple):
    """A fit that is scored at any epsilon, beside the scores of its twin and of no model."""

    case: str
    mode: str
    fit: Callable[[float], Scores]
    twin: Scores
    trivial: Scores


@cache
def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Load X and y, `MOST_ROWS` rows at most, in an order that does not change."""
    with np.load(file_at_hand(f"{name}.npz"), allow_pickle=True) as arrays:
        X, y = arrays["X"].astype(float), arrays["y"]
    rows = np.random.default_rng(7).permutation(len(X))[:MOST_ROWS]
    return X[rows], y[rows]


def public_ends(X: np.ndarray, factor: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of columns, `factor` times as far apart, rounded outwards: what may be known.

    Columns of 0 and 1 have these ends.
    """
    low, high = np.nanmin(X, axis=0), np.nanmax(X, axis=0)
    middle, half = (low + high) / 2, (high - low) / 2
    half = np.where(half > 0, half, np.maximum(1, np.abs(middle)))
    lower, upper = middle - factor * half, middle + factor * half
    unit = 10.0 ** np.floor(np.log10(np.where(upper > lower, upper - lower, 1))) / 10
    is_binary = (low == 0) & (high == 1) & (np.isnan(X) | np.isin(X, (0, 1))).all(axis=0)
    return (
        np.where(is_binary, 0.0, np.floor(lower / unit) * unit),
        np.where(is_binary, 1.0, np.ceil(upper / unit) * unit),
    )


def held_out(X: np.ndarray, y: np.ndarray, rep: int, *, stratify: bool = False) -> list[np.ndarray]:
    """Split off a quarter; a class of a single row stands in the way of stratification."""
    options = {"test_size": 0.25, "random_state": 100 + rep}
    if stratify and np.unique(y, return_counts=True)[1].min() > 1:
        options["stratify"] = y
    return train_test_split(X, y, **options)
