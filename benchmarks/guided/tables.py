"""Tables of people and items, others to compare with, and what components hold of them."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import svds
from sklearn.datasets import load_digits
from sklearn.utils.extmath import row_norms

from benchmarks.data import interactions
from skdp.datasets import make_interactions, make_spiked

__all__ = ["TABLES", "Table", "best_sums", "held"]


@dataclass(frozen=True)
class Table:
    """A table, and whether it is in the folder of the data."""

    name: str
    load: Callable[[], Any]
    needs_folder: bool = True

    @property
    def median_norm(self) -> float:
        """Median of the norms of its rows."""
        return float(np.median(row_norms(self.load())))


@cache
def _movielens() -> sparse.csr_array:
    return sparse.csr_array(
        sparse.load_npz(Path(os.environ["SKDP_DATA"]) / "movielens_100k.npz").astype(np.float64)
    )


@cache
def _gowalla(n_items: int) -> sparse.csr_array:
    """Keep the most visited places."""
    visits = interactions("gowalla")
    popularity = np.asarray(visits.sum(axis=0)).ravel()
    chosen = np.sort(np.argsort(-popularity, kind="stable")[:n_items])
    return sparse.csr_array(visits[:, chosen])


@cache
def _every_other(load: Callable[[], sparse.csr_array]) -> sparse.csr_array:
    return sparse.csr_array(load()[::2])


@cache
def _clicks() -> sparse.csr_array:
    return sparse.csr_array((_movielens() > 3).astype(np.float64))


@cache
def _tastes(n_people: int, n_items: int, n_tastes: int) -> sparse.csr_array:
    return sparse.csr_array(
        make_interactions(
            n_people,
            n_items,
            n_interactions=30 * n_people,
            popularity=0.6,
            n_tastes=n_tastes,
            random_state=0,
        )
    )


@cache
def _digits(is_centered: bool) -> np.ndarray:
    X = load_digits().data
    return X - X.mean(axis=0) if is_centered else X


@cache
def _spiked(n_rows: int, n_features: int) -> np.ndarray:
    return make_spiked(n_rows, n_features, k=5, random_state=0)[0]


def _gowalla_1000() -> sparse.csr_array:
    return _gowalla(1000)


def _gowalla_4000() -> sparse.csr_array:
    return _gowalla(4000)


TABLES = [
    Table("MovieLens", _movielens),
    Table("Gowalla 4000", _gowalla_4000),
    Table("Gowalla 1000", _gowalla_1000),
    Table("MovieLens, every other person", lambda: _every_other(_movielens)),
    Table("MovieLens, ratings above 3 as clicks", _clicks),
    Table("Gowalla 4000, every other person", lambda: _every_other(_gowalla_4000)),
    Table("Web log", lambda: interactions("msweb")),
    Table("3 tastes", lambda: _tastes(5000, 800, 3), needs_folder=False),
    Table("8 tastes", lambda: _tastes(2000, 1500, 8), needs_folder=False),
    Table("Digits", lambda: _digits(False), needs_folder=False),
    Table("Digits, centered", lambda: _digits(True), needs_folder=False),
    Table("Five directions of 100", lambda: _spiked(5000, 100), needs_folder=False),
    Table("Five directions of 600", lambda: _spiked(10_000, 600), needs_folder=False),
]


@cache
def best_sums(table: Table) -> np.ndarray:
    """Sums of squares along the best 1, 2, ... components."""
    values = svds(table.load().astype(np.float64), k=10, return_singular_vectors=False)
    return np.cumsum(np.sort(values)[::-1] ** 2)


def held(table: Table, components: np.ndarray, n_best: int) -> float:
    """Sum of squares along components, over that along the best ones."""
    found = float(np.square(table.load() @ components.T).sum())
    return found / float(best_sums(table)[n_best - 1])
