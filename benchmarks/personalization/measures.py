"""What `personalization.py` measures; each function yields ((row, column), value) for a seed.

A column is a way to find the coefficients of users, with its excess risk over the true ones: the
mean over users of (t - t*)' S (t - t*) + (b - b*)^2, S being the covariance of the features.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import toeplitz

from benchmarks.personalization.users import make_personalized_regression
from benchmarks.report import Measured
from skdp import DPPersonalizedRegressor

# Of no tuning: the defaults of the estimator were chosen with other seeds.
FIRST_FRESH_SEED = 1000
# Printed here, hence good for repeatable tables and for nothing else.
KEY = 0x2F7B94C1E0385DA6B1479E0D6C53F82A
DELTA = 1e-6

ZERO, RIDGE, ORACLE = "zero", "ridge", "oracle"
OURS = "ours"
OFF = {"mean_head": False, "fit_intercept": False}
FLAT = {"decorrelate": False}
OFF_FLAT = {**OFF, **FLAT}
# Beside the zero model, ridge and the oracle; the parameters of the estimator.
METHODS: dict[str, dict[str, Any]] = {
    "pooled": {"n_components": 0},
    "spectral": {"n_iter": 0},
    "altmin": {"solver": "altmin"},
    OURS: {},
    "ours, no mean": OFF,
    "ours, no whitening": FLAT,
    "ours, neither": OFF_FLAT,
}
# Of "altmin", whose second moment has as many rows.
LARGEST_ALTMIN = 200
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
FEW_EPSILONS = (0.5, 1.0, 4.0)
SHARE_OF_OUTLIERS, SIZE_OF_OUTLIERS = 0.05, 100.0
RIDGES = 10.0 ** np.arange(-6, 6.01, 0.125)
_TINY = 1e-9


@dataclass(frozen=True)
class Regime:
    """Users as `make_personalized_regression` draws them, of some of whom responses may be huge."""

    name: str
    n_users: int
    n_features: int
    n_components: int
    rows_per_user: int
    noise: float
    more: dict[str, Any] = field(default_factory=dict)
    has_outliers: bool = False
    # Standard deviation of the intercepts of users.
    spread: float = 0.0

    def __str__(self) -> str:
        return f"{self.name}, n {self.n_users}"

    def draw(self, seed: int) -> "Sample":
        X, y, groups, coef = make_personalized_regression(
            self.n_users,
            self.n_features,
            n_components=self.n_components,
            rows_per_user=self.rows_per_user,
            noise=self.noise,
            random_state=FIRST_FRESH_SEED + seed,
            **self.more,
        )
        is_usual = np.ones(self.n_users, dtype=bool)
        if self.has_outliers:
            is_usual[: round(SHARE_OF_OUTLIERS * self.n_users)] = False
            y = np.where(is_usual[groups], y, SIZE_OF_OUTLIERS * y)
        levels = self.spread * np.random.default_rng(seed).normal(size=self.n_users)
        correlation = self.more.get("correlation", 0.0)
        covariance = toeplitz(float(correlation) ** np.arange(self.n_features))
        return Sample(self, X, y + levels[groups], groups, coef, levels, is_usual, covariance)


class Sample(NamedTuple):
    """Rows of users, the true coefficients, and whose risk is measured."""

    regime: Regime
    X: np.ndarray
    y: np.ndarray
    groups: np.ndarray
    coef: np.ndarray
    levels: np.ndarray
    is_usual: np.ndarray
    covariance: np.ndarray

    def risk(self, coefs: np.ndarray, intercepts: Any = 0.0) -> float:
        off = (coefs - self.coef)[self.is_usual]
        missed = (intercepts - self.levels)[self.is_usual]
        return float(np.mean(np.sum(off @ self.covariance * off, axis=1) + missed**2))

    def by_user(self) -> tuple[np.ndarray, np.ndarray]:
        n_users = self.regime.n_users
        return self.X.reshape(n_users, -1, self.X.shape[1]), self.y.reshape(n_users, -1)


def _users(letter: str, *sizes: int, more: Any = None, **numbers: Any) -> list[Regime]:
    shape = (numbers["d"], numbers["k"], numbers["m"], numbers["noise"])
    outliers = numbers.get("outliers", False)
    return [Regime(letter, n, *shape, more or {}, outliers) for n in sizes]


REGIMES = [
    *_users("A", 300, 1000, 3000, d=20, k=2, m=10, noise=0.5),
    *_users("B", 500, 1000, 2000, 5000, d=50, k=3, m=20, noise=1.0),
    *_users("C", 2000, 5000, d=100, k=5, m=25, noise=1.0),
    *_users("D", 1000, 3000, d=30, k=3, m=20, noise=0.5, more={"scales": (2.0, 1.0, 0.5)}),
    *_users("E", 3000, d=20, k=2, m=4, noise=0.5),
    *_users("F", 1000, d=20, k=2, m=20, noise=0.5, outliers=True),
    *_users("G .6", 1000, d=20, k=2, m=20, noise=0.5, more={"correlation": 0.6}),
    *_users("G .9", 3000, d=20, k=2, m=20, noise=0.5, more={"correlation": 0.9}),
    *_users("H", 1000, d=20, k=2, m=20, noise=0.5, more={"mean": 2.0}),
    *_users("S", 500, 2000, d=20, k=2, m=20, noise=0.1),
    *_users("S0", 3000, d=20, k=2, m=20, noise=0.0),
]
BY_NAME = {str(regime): regime for regime in REGIMES}
ROW_COUNTS = (5, 10, 20, 40)
FEW_ROWS, SPREADS = (2, 5, 10), (0.0, 1.0, 5.0)
LEVEL_EPSILONS = (1.0, 8.0, math.inf)
OWN_MEAN = "own mean"


def fitted(
    sample: Sample, seed: int, epsilon: float, **parameters: Any
) -> tuple[DPPersonalizedRegressor, float]:
    """Fit, and measure the risk of heads that are fitted with the released prior."""
    estimator = DPPersonalizedRegressor(
        **{"n_components": sample.regime.n_components, **parameters},
        epsilon=epsilon,
        delta=DELTA,
        random_state=KEY + seed,
    ).fit(sample.X, sample.y, sample.groups)
    # `personalize` makes an object of each of thousands of users.
    data = estimator._checked(sample.X, sample.y, sample.groups)
    return estimator, sample.risk(*estimator._models(data))


def ours(sample: Sample, seed: int, epsilon: float, **parameters: Any) -> float:
    return fitted(sample, seed, epsilon, **parameters)[1]


def ridge(sample: Sample) -> float:
    """Measure the risk of ridge of each user, at the best common penalty in hindsight."""
    X, y = sample.by_user()
    values, vectors = np.linalg.eigh(X @ X.transpose(0, 2, 1))
    values = np.maximum(values, 0.0)
    turned = np.einsum("nij,ni->nj", vectors, y)
    back = X.transpose(0, 2, 1) @ vectors

    def risk(penalty: float) -> float:
        return sample.risk(np.einsum("ndj,nj->nd", back, turned / (values + penalty)))

    return min(map(risk, _near_best(risk)))


def _near_best(risk: Callable[[float], float]) -> np.ndarray:
    """Find the penalty by halves of the grid: the risk falls, then rises."""
    coarse = RIDGES[::8]
    best = int(np.argmin([risk(penalty) for penalty in coarse]))
    around = slice(max(8 * best - 7, 0), 8 * best + 8)
    return RIDGES[around]


def oracle(sample: Sample) -> float:
    """Measure that of the posterior mean, where moments of coefficients and noise are known."""
    X, y = sample.by_user()
    usual = sample.coef[sample.is_usual]
    center, k = usual.mean(axis=0), sample.regime.n_components
    values, vectors = np.linalg.eigh(np.cov(usual.T))
    root = vectors[:, -k:] * np.sqrt(values[-k:])
    Z = X @ root
    kernel = Z.transpose(0, 2, 1) @ Z
    kernel[:, np.arange(k), np.arange(k)] += max(sample.regime.noise**2, _TINY)
    products = np.einsum("nmk,nm->nk", Z, y - X @ center)
    heads = np.linalg.solve(kernel, products[..., np.newaxis])[..., 0]
    return sample.risk(center + heads @ root.T)


def references(row: str, sample: Sample) -> Measured:
    yield (row, ZERO), sample.risk(np.zeros_like(sample.coef))
    yield (row, RIDGE), ridge(sample)
    yield (row, ORACLE), oracle(sample)


def methods(seed: int) -> Measured:
    for regime in REGIMES:
        sample, row = regime.draw(seed), str(regime)
        yield from references(row, sample)
        for name, parameters in METHODS.items():
            if name != "altmin" or regime.n_features * regime.n_components <= LARGEST_ALTMIN:
                yield (row, name), ours(sample, seed, 1.0, **parameters)


def epsilons(tried: tuple[float, ...], parameters: dict[str, Any], seed: int) -> Measured:
    for regime in REGIMES:
        sample, row = regime.draw(seed), str(regime)
        yield from references(row, sample)
        for epsilon in tried:
            yield (row, f"{epsilon:g}"), ours(sample, seed, epsilon, **parameters)


def row_counts(seed: int) -> Measured:
    for m in ROW_COUNTS:
        sample = Regime("B", 2000, 50, 3, m, 1.0).draw(seed)
        yield from references(str(m), sample)
        for epsilon in FEW_EPSILONS:
            yield (str(m), f"{epsilon:g}"), ours(sample, seed, epsilon)


def row_of_levels(m: int, spread: float) -> str:
    return f"m {m}, spread {spread:g}"


def variance_at(epsilon: float) -> str:
    return f"variance, {epsilon:g}"


def levels(seed: int) -> Measured:
    for m, spread in product(FEW_ROWS, SPREADS):
        sample, row = (
            Regime("", 2000, 20, 2, m, 0.5, spread=spread).draw(seed),
            row_of_levels(m, spread),
        )
        zero = np.zeros_like(sample.coef)
        yield (row, ZERO), sample.risk(zero)
        yield (row, OWN_MEAN), sample.risk(zero, sample.y.reshape(-1, m).mean(axis=1))
        for epsilon in LEVEL_EPSILONS:
            estimator, risk = fitted(sample, seed, epsilon)
            yield (row, f"{epsilon:g}"), risk
            yield (row, variance_at(epsilon)), estimator.intercept_variance_


class Cell(NamedTuple):
    """A risk, and what it has to be at most; or what it has to be in units of that of ridge."""

    regime: str
    epsilon: float
    parameters: dict[str, Any]
    at_most: float | None

    def __str__(self) -> str:
        said = [f"epsilon {self.epsilon:g}"]
        said += ["no mean"] * ("mean_head" in self.parameters)
        said += ["no whitening"] * ("decorrelate" in self.parameters)
        return ", ".join([self.regime, *said])


_B, _G, _S = "B, n 2000", "G .9, n 3000", "S, n 500"
CELLS = [
    Cell(_B, 1.0, OFF, 0.42),
    Cell(_B, 1.0, OFF_FLAT, 0.32),
    Cell(_B, 4.0, OFF, 0.21),
    Cell(_G, 1.0, OFF, 0.075),
    Cell(_S, 1.0, OFF, 0.06),
    Cell(_B, 1.0, {}, 0.50),
    Cell(_B, 4.0, {}, 0.22),
    Cell(_G, 1.0, {}, 0.09),
    Cell(_S, 1.0, {}, 0.12),
    *(
        Cell(name, 0.5, parameters, None)
        for name in ("A, n 300", "B, n 500", "C, n 2000")
        for parameters in (OFF, {})
    ),
]


def cells(seed: int) -> Measured:
    for cell in CELLS:
        sample = BY_NAME[cell.regime].draw(seed)
        yield (str(cell), RIDGE), ridge(sample)
        yield (str(cell), OURS), ours(sample, seed, cell.epsilon, **cell.parameters)


with_defaults = partial(epsilons, EPSILONS, {})
without_mean = partial(epsilons, FEW_EPSILONS, OFF)
