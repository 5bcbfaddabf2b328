"""Jobs of the sweep on odd designs: far from 0, matrices, rare columns, entries, people."""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.sparse.linalg import eigsh
from sklearn.datasets import load_digits

from benchmarks.data import file_at_hand
from benchmarks.sweep.on_tables import explained, r2_of_covariance
from benchmarks.sweep.tables import Scores, Task, held_out
from skdp import (
    DPPCA,
    DPCovariance,
    DPLinearRegression,
    DPPersonalizedRegressor,
    DPTraceRegressor,
    DPTruncatedSVD,
    RankOneMatrices,
)
from skdp.units import Edge

__all__ = ["entries", "far", "images", "load_ratings", "people", "rare", "ratings"]


def far(rep: int) -> Iterator[Task]:
    """Two components of rows far from 0: people in raw units, and offsets of many spreads."""
    random, n = np.random.default_rng(rep), 5000
    height, year, salt = (
        random.normal(170, 9, n),
        random.integers(1940, 2005, n),
        random.normal(140, 2.5, n),
    )
    weight = height - 100 + random.normal(0, 10, n)
    pressure = random.normal(130, 15, n) + 0.3 * (2005 - year)
    cases = {
        "people": np.column_stack(
            [height, weight, year, pressure, salt, random.normal(36.8, 0.4, n)]
        )
    }
    for offset in (30, 300):
        rows = random.normal(size=(20_000, 10)) * [3, 2, *np.ones(8)]
        cases[f"offset {offset}"] = rows + offset * random.random(10)

    def by_pca(epsilon: float, X: np.ndarray) -> Scores:
        return explained(np.cov(X.T), DPPCA(2, epsilon=epsilon).fit(X).components_, 2)

    def by_covariance(epsilon: float, X: np.ndarray) -> Scores:
        model = DPCovariance(epsilon=epsilon).fit(X).components(2)
        return explained(np.cov(X.T), model.components_, 2)

    for name, X in cases.items():
        for mode, fit in (("DPPCA", by_pca), ("DPCovariance", by_covariance)):
            yield Task(name, mode, partial(fit, X=X), {"": 1.0}, {"": 0.2})


def designs_of_matrices(
    random: np.random.Generator,
) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Images, sensors with offsets, and entries of unlike variance, with their responses."""
    digits = load_digits()
    X = np.tile(digits.images / 16, (4, 1, 1)) + 0.02 * random.normal(size=(4 * 1797, 8, 8))
    target = np.tile(digits.target, 4) * 1.0
    yield "ink of the right half", X, X[:, :, 4:].sum(axis=(1, 2))
    yield "is it 0", X, (target == 0) * 1.0
    yield "the digit", X, target
    Z = random.normal(size=(8000, 6, 12))
    for moment in range(1, 12):
        Z[:, :, moment] += 0.8 * Z[:, :, moment - 1]
    y = (Z * np.outer(random.normal(size=6), np.linspace(0, 1, 12))).sum(axis=(1, 2))
    y = y / y.std() + 0.2 * random.normal(size=8000)
    yield "sensors", Z, y
    yield "sensors + 37", Z + 37, y
    spreads = np.exp(0.7 * random.normal(size=(6, 1)))
    yield "sensors, unlike", Z * spreads + 37 + 10 * random.normal(size=(6, 12)), y
    W = random.normal(size=(16_000, 10, 10)) * 10 ** random.uniform(-0.5, 0.5, size=(10, 10))
    y = (W * np.outer(random.normal(size=10), random.normal(size=10))).sum(axis=(1, 2))
    yield "entries of unlike variance", W, y + random.normal(size=16_000)


def images(rep: int) -> Iterator[Task]:
    """R2 of coefficients of low rank, for matrices that are no isotropic noise."""
    for name, X, y in designs_of_matrices(np.random.default_rng(rep)):
        train, test, y_train, y_test = held_out(X, y, rep)

        def fit(epsilon, rank, train=train, test=test, y_train=y_train, y_test=y_test):
            model = DPTraceRegressor(rank=rank, epsilon=epsilon).fit(train, y_train)
            return {"": model.score(test, y_test)}

        for rank in (1, 2):
            twin = {"": r2_by_alternation(train, y_train, test, y_test, rank)}
            yield Task(name, f"rank {rank}", partial(fit, rank=rank), twin, {"": 0.0})


def r2_by_alternation(
    X: np.ndarray, y: np.ndarray, test: np.ndarray, y_test: np.ndarray, rank: int
) -> float:
    """Score least squares of that rank, by alternating minimization from the cut gradient."""
    center, middle = X.mean(axis=0), y.mean()
    X, y = X - center, y - middle
    right = np.linalg.svd(np.einsum("n,nij->ij", y, X))[2][:rank].T

    def solve(sides: np.ndarray) -> np.ndarray:
        design = sides.reshape(len(X), -1)
        moment = design.T @ design
        ridge = 1e-8 * np.trace(moment) / len(moment) * np.eye(len(moment))
        return np.linalg.solve(moment + ridge, design.T @ y).reshape(-1, rank)

    for _ in range(40):
        left = np.linalg.qr(solve(X @ right))[0]
        right = solve(X.transpose(0, 2, 1) @ left)
    errors = y_test - middle - np.einsum("nij,ir,jr->n", test - center, left, right)
    return float(1 - np.mean(errors**2) / np.var(y_test))


def rare(rep: int) -> Iterator[Task]:
    """R2 of three normal columns beside one that is mostly one value; new rows differ there."""
    random, n = np.random.default_rng(rep), 4000
    informative, coefficients = random.normal(size=(n, 3)), [1.0, 2.0, 3.0]
    y = informative @ coefficients + 0.3 * random.normal(size=n)
    columns = {
        "zeros": np.zeros(n),
        "ones": np.ones(n),
        "1%": (random.random(n) < 0.01) * 1.0,
        "20 ones": np.isin(np.arange(n), random.permutation(n)[:20]) * 1.0,
        "mostly 1": random.choice([1.0, 2, 3, 4], n, p=[0.91, 0.07, 0.015, 0.005]),
        "mostly 7.5": np.where(random.random(n) < 0.92, 7.5, random.uniform(7, 8, n)),
    }
    for name, column in columns.items():
        X = np.column_stack([informative, column])
        test = np.column_stack([random.normal(size=(n, 3)), random.permutation(column)])
        test[: n // 50, 3] = {"zeros": 1.0, "ones": 0.0}.get(name, test[0, 3])
        y_test = test[:, :3] @ coefficients
        bounds = [-5] * 3 + [0], [5] * 3 + [1 if column.max() <= 1 else 10]

        def fit(epsilon, bounds=None, X=X, test=test, y_test=y_test):
            model = DPLinearRegression(epsilon=epsilon, bounds=bounds).fit(X, y)
            return {"": model.score(test, y_test)}

        frame = pd.DataFrame(np.column_stack([X, y]), columns=list("abcdt"))
        fits = {
            "none": fit,
            "bounds": partial(fit, bounds=bounds),
            "covariance": partial(r2_of_covariance, frame, test, y_test),
        }
        for mode, one in fits.items():
            yield Task(name, mode, one, {"": 1.0}, {"": 0.0})


def entries(rep: int) -> Iterator[Task]:
    """Length of a graph along one component, where a dense group stands beside communities."""
    random, n = np.random.default_rng(rep), 2000
    group = np.repeat(np.arange(6), 334)[:n]
    chances = np.where(group[:, None] == group, 0.1, 0.005)
    chances[:120, :120] = 0.8
    upper = np.triu(random.random((n, n)) < chances, 1)
    graph = sparse.csr_array((upper | upper.T).astype(float))
    longest = eigsh(graph, k=1)[0][0]

    def fit(epsilon: float) -> Scores:
        svd = DPTruncatedSVD(1, epsilon=epsilon, delta=1e-8, privacy_unit=Edge((0, 1)))
        found = svd.fit(graph).components_[0]
        return {"": float(np.linalg.norm(graph @ found) / np.linalg.norm(found) / longest)}

    yield Task("dense group among communities", "edge", fit, {"": 1.0}, {"": 0.3})
    if file_at_hand(RATINGS) is None:
        print(f"entries skips the ratings: SKDP_DATA names no folder that has {RATINGS}.")
    else:
        yield ratings(random)


RATINGS, LEAST_RATINGS, SHRINKAGE = "movielens_100k.npz", 50, 5


class Ratings(NamedTuple):
    """Ratings, who gave each one to what, and which are fitted and which are new."""

    who: np.ndarray
    what: np.ndarray
    y: np.ndarray
    train: np.ndarray
    test: np.ndarray

    def loss(self, predicted: np.ndarray | float) -> float:
        """Return the squared error of predictions of new ratings, which are cut to 1 and 5."""
        return float(np.mean((self.y[self.test] - np.clip(predicted, 1, 5)) ** 2))


def load_ratings(random: np.random.Generator) -> Ratings:
    """Load ratings of movies that have at least 50, and split off a tenth as new."""
    table = sparse.load_npz(file_at_hand(RATINGS)).tocoo()
    often = np.isin(table.col, np.flatnonzero(np.bincount(table.col) >= LEAST_RATINGS))
    who, what = (np.unique(ids[often], return_inverse=True)[1] for ids in (table.row, table.col))
    y = table.data[often].astype(float)
    order = random.permutation(len(y))
    return Ratings(who, what, y, order[len(y) // 10 :], order[: len(y) // 10])


def ratings(random: np.random.Generator) -> Task:
    """Minus the squared error of ratings of rank 1, beside means of people and of movies."""
    who, what, y, train, test = data = load_ratings(random)
    left, right = (
        sparse.csr_array((np.ones(len(y)), (np.arange(len(y)), ids))) for ids in (who, what)
    )

    def fit(epsilon: float) -> Scores:
        model = DPTraceRegressor(rank=1, epsilon=epsilon)
        model.fit(RankOneMatrices(left[train], right[train]), y[train])
        return {"": -data.loss(model.predict(RankOneMatrices(left[test], right[test])))}

    mean = y[train].mean()
    of_who, of_what = (
        np.bincount(ids[train], y[train] - mean) / (np.bincount(ids[train]) + SHRINKAGE)
        for ids in (who, what)
    )
    twin = {"": -data.loss(mean + of_who[who[test]] + of_what[what[test]])}
    return Task("ratings (minus squared error)", "cells", fit, twin, {"": -data.loss(mean)})


def people(rep: int) -> Iterator[Task]:
    """R2 of heads for people with few rows of little noise."""
    random, n_people, n_new, d, k, noise = np.random.default_rng(rep), 8000, 4, 20, 2, 0.1
    directions = np.linalg.qr(random.normal(size=(d, k)))[0]
    for n_own in (4, 8):
        weights = random.normal(size=(n_people, k))
        X = random.normal(size=(n_people, n_own + n_new, d))
        y = np.einsum("nmd,dk,nk->nm", X, directions, weights)
        y += noise * random.normal(size=y.shape)

        def fit(epsilon, n_own=n_own, X=X, y=y):
            own, y_own, groups = X[:, :n_own], y[:, :n_own], np.repeat(np.arange(n_people), n_own)
            model = DPPersonalizedRegressor(k, epsilon=epsilon)
            model.fit(own.reshape(-1, d), y_own.ravel(), groups=groups)
            errors = [
                np.mean((y[i, n_own:] - model.head(own[i], y_own[i]).predict(X[i, n_own:])) ** 2)
                for i in range(500)
            ]
            return {"": float(1 - np.mean(errors) / y.var())}

        twin = {"": 1 - noise**2 * (1 + k / n_own) / y.var()}
        yield Task(f"{n_own} rows each", "heads", fit, twin, {"": 0.0})
