"""Tables of the study of budgets: real ones, and made ones in raw units, far from 0, or skewed."""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_digits

from benchmarks.data import file_at_hand, interactions

__all__ = ["CLASSES", "MATRICES", "RESPONSES", "Table", "at_hand_of", "standardized", "table_of"]

N_MADE = 20_000
N_OF_KDD, N_OF_BLOG = 30_000, 12_000


class Table(NamedTuple):
    X: np.ndarray | sparse.csr_array
    y: np.ndarray | None = None


def _arrays(name: str) -> dict[str, np.ndarray]:
    path = file_at_hand(f"{name}.npz")
    assert path is not None
    with np.load(path) as arrays:
        return {key: np.nan_to_num(arrays[key].astype(np.float64)) for key in arrays.files}


def _supervised(name: str) -> Table:
    arrays = _arrays(name)
    return Table(arrays["X"], arrays["y"])


def _some(table: Table, n_rows: int) -> Table:
    chosen = np.random.default_rng(0).permutation(table.X.shape[0])[:n_rows]
    return Table(table.X[chosen], None if table.y is None else table.y[chosen])


def _updrs() -> Table:
    arrays = _arrays("parkinsons_updrs")
    return Table(arrays["X"], arrays["y"][:, 1])


def _crime() -> Table:
    X = _arrays("communities_crime")["X"]
    return Table(X[:, :-1], X[:, -1])


def _kddcup() -> Table:
    arrays = _arrays("kddcup99_10pct")
    return _some(Table(arrays["num"], (arrays["y"] > 0).astype(int)), N_OF_KDD)


def _standardized(X: np.ndarray) -> np.ndarray:
    spread = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)


def _features(kind: str, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Make features of a kind, and the same in units of their spread around their mean."""
    clear = random.normal(size=(N_MADE, 12))
    if kind == "correlated":
        clear = clear @ np.linalg.cholesky(0.9 + 0.1 * np.eye(12)).T
    if kind == "heavy tails":
        clear = random.standard_t(3, size=clear.shape) / np.sqrt(3)
    if kind == "rare columns":
        rate = np.geomspace(0.005, 0.5, 12)
        shown = (random.random(clear.shape) < rate).astype(float)
        return shown, (shown - rate) / np.sqrt(rate * (1 - rate))
    units = np.geomspace(1e-3, 1e4, 12) if kind == "raw units" else np.ones(12)
    offsets = np.full(12, 40.0 if kind == "offsets" else 0.0)
    return (clear + offsets) * units, clear


def _made(kind: str, *, is_class: bool) -> Table:
    random = np.random.default_rng(53)
    X, clear = _features(kind, random)
    signal = clear @ (random.normal(size=12) / np.sqrt(12))
    if is_class:
        return Table(X, (random.random(N_MADE) < 1 / (1 + np.exp(-2 * signal))).astype(int))
    return Table(X, 10 + signal + random.normal(size=N_MADE))


def _wine(*, is_class: bool) -> Table:
    table = _supervised("wine_quality_white")
    return table._replace(y=(table.y >= 6).astype(int)) if is_class else table


def _digits() -> Table:
    X, y = load_digits(return_X_y=True)
    return Table(X / 16, y)


def _cancer() -> Table:
    X, y = load_breast_cancer(return_X_y=True)
    return Table(X, y)


def standardized(maker: Callable[[], Table]) -> Callable[[], Table]:
    """Standardize the columns of a table by looking at them, which is not private."""

    def _make() -> Table:
        table = table_of(maker)
        return table._replace(X=_standardized(table.X))

    return _make


KINDS = ("raw units", "offsets", "heavy tails", "rare columns", "correlated")
RESPONSES: dict[str, Callable[[], Table]] = {
    "california": lambda: _supervised("california_housing"),
    "wine": lambda: _wine(is_class=False),
    "updrs": _updrs,
    "crime": _crime,
    "blog": lambda: _some(_supervised("blog_feedback"), N_OF_BLOG),
    **{kind: lambda kind=kind: _made(kind, is_class=False) for kind in KINDS},
}
CLASSES: dict[str, Callable[[], Table]] = {
    "adult": lambda: _supervised("adult"),
    "wine": lambda: _wine(is_class=True),
    "coil": lambda: _supervised("coil2000_insurance"),
    "kddcup": _kddcup,
    "cancer": _cancer,
    "digits": _digits,
    **{kind: lambda kind=kind: _made(kind, is_class=True) for kind in KINDS},
}
MATRICES: dict[str, Callable[[], Table]] = {
    "digits": _digits,
    "california": standardized(lambda: _supervised("california_housing")),
    "adult": standardized(lambda: _supervised("adult")),
    "heavy tails": lambda: _made("heavy tails", is_class=False),
    "correlated": lambda: _made("correlated", is_class=False),
    "movielens": lambda: Table(interactions("movielens_100k")),
    "msweb": lambda: Table(interactions("msweb")),
}
BUNDLED = {"digits", "cancer", *KINDS}


def at_hand_of(names: list[str]) -> list[str]:
    """Leave out the tables of the folder where there is none, and say so."""
    has_folder = file_at_hand("") is not None
    for name in names:
        if name not in BUNDLED and not has_folder:
            print(f"{name} is skipped: SKDP_DATA names no folder.")
    return [name for name in names if name in BUNDLED or has_folder]


@cache
def table_of(maker: Callable[[], Table]) -> Table:
    return maker()
