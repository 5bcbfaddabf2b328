"""`DPTraceRegressor` on real data, against least squares without privacy and AdaSSP.

- The published row: AdaSSP on parkinsons_updrs, total UPDRS of the 19 columns and the user number,
  standardized, rows of norm 1, responses centered and divided by their largest, 10-fold [1]_. Mean
  squared errors. The preparation looks at the data, as there: it is part of the experiment and not
  private.
- Rows of features as they are, with defaults: nothing about the data is told. R^2 on a fifth that
  is held out, median of the seeds. "reference" is AdaSSP in ten lines, with rows that are
  standardized by looking at them and divided by their norms: a bound that it is told for nothing.
- Many tasks: one recording of one of 42 people, whose coefficients are a column of a matrix of rank
  1 or 2, with an intercept for each (`RankOneMatrices.from_tasks`). One recording is protected, not
  the person. Features are standardized by looking at them, which is not private either.

Run

    SKDP_DATA=... python -m benchmarks.trace_regression.real_data     # some 3 minutes

Without SKDP_DATA only the bundled data are used, and the others named as skipped.

.. [1] Y.-X. Wang (2018). "Revisiting differentially private linear regression: optimal and adaptive
   prediction and estimation in unbounded domain". UAI. arXiv:1803.02596
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import KFold, train_test_split

from benchmarks.data import file_at_hand
from benchmarks.report import ignore_drowned_signal, parser_for
from skdp import DPTraceRegressor, RankOneMatrices
from skdp.privacy.gaussian_dp import mu_from_epsilon_delta

DELTA = 1e-6
EPSILONS = (1.0, 4.0, 10.0)
PUBLISHED = {0.1: 0.1543, 1.0: 0.1330, 10.0: 0.1282}
NAMES = ("california_housing", "wine_quality_white", "parkinsons_updrs", "communities_crime")


def load(name: str) -> dict[str, np.ndarray] | None:
    path = file_at_hand(f"{name}.npz")
    if path is None:
        print(f"{name}: skipped, SKDP_DATA names no folder that has it")
        return None
    with np.load(path) as arrays:
        return {key: np.nan_to_num(arrays[key].astype(np.float64)) for key in arrays.files}


def rows_and_responses(name: str) -> tuple[np.ndarray, np.ndarray] | None:
    if name == "diabetes":
        return load_diabetes(return_X_y=True, scaled=False)
    arrays = load(name)
    if arrays is None:
        return None
    if "y" not in arrays:
        return arrays["X"][:, :-1], arrays["X"][:, -1]
    y = arrays["y"]
    return arrays["X"], y[:, 1] if y.ndim == 2 else y


def standardized(X: np.ndarray) -> np.ndarray:
    spread = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)


class Reference:
    """AdaSSP in ten lines, for rows of norm at most 1 and responses between -1 and 1."""

    def __init__(self, epsilon: float, seed: int) -> None:
        self.mu = mu_from_epsilon_delta(epsilon, DELTA)
        self.random = np.random.default_rng(seed)

    def fit(self, X: np.ndarray, y: np.ndarray) -> "Reference":
        d, scale = X.shape[1], math.sqrt(3) / self.mu
        upper = np.triu(self.random.normal(size=(d, d)))
        noise = math.sqrt(2) * scale * (upper + np.triu(upper, 1).T)
        smallest = np.linalg.eigvalsh(X.T @ X)[0] + scale * self.random.normal() - 1.64 * scale
        reach = math.sqrt(2) * scale * math.sqrt(d * math.log(2 * d**2 / 0.05))
        ridge = max(0.0, reach - max(smallest, 0.0))
        products = X.T @ y + 2 * scale * self.random.normal(size=d)
        self.coef_ = np.linalg.solve(X.T @ X + noise + ridge * np.eye(d), products)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return X @ self.coef_


def published_row(n_repeats: int) -> None:
    arrays = load("parkinsons_updrs")
    if arrays is None:
        return
    X = standardized(np.column_stack([arrays["X"], arrays["user"]]))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = arrays["y"][:, 1] - arrays["y"][:, 1].mean()
    y /= np.abs(y).max()
    told = {"response_bound": 1.0, "fit_intercept": False, "delta": DELTA}
    methods: dict[str, Callable[[float, int], Any]] = {
        "skdp": lambda epsilon, _: DPTraceRegressor(epsilon=epsilon, **told),
        "reference": Reference,
    }
    print(f"\nparkinsons_updrs, mean squared error; always the mean: {np.square(y).mean():.4f}")
    print("  epsilon  published" + "".join(f"{name:>11}" for name in methods))
    for epsilon, printed in PUBLISHED.items():
        errors = {
            name: np.mean(
                [
                    np.square(
                        y[test] - make(epsilon, seed).fit(X[train], y[train]).predict(X[test])
                    ).mean()
                    for seed in range(n_repeats)
                    for train, test in KFold(10, shuffle=True, random_state=seed).split(X)
                ]
            )
            for name, make in methods.items()
        }
        print(f"  {epsilon:7g}{printed:11.4f}" + "".join(f"{e:11.4f}" for e in errors.values()))


def score(model: Any, X: Any, y: np.ndarray, seed: int) -> float:
    train, test = train_test_split(np.arange(len(y)), test_size=0.2, random_state=seed)
    residuals = y[test] - model.fit(X[train], y[train]).predict(X[test])
    return 1 - np.square(residuals).mean() / y[test].var()


def median_score(make: Callable[[int], Any], X: Any, y: np.ndarray, seeds: range) -> float:
    return float(np.median([score(make(seed), X, y, seed) for seed in seeds]))


def told_bounds(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Prepare for `Reference`; NOT private."""
    rows = np.column_stack([standardized(X), np.ones(len(X))])
    y = y - y.mean()
    return rows / np.linalg.norm(rows, axis=1, keepdims=True), y / np.abs(y).max()


def tables(seeds: range) -> Iterator[str]:
    header = ("least squares", "skdp", "skdp, 30 steps", "reference")
    yield "  " + f"{'data':<22}{'epsilon':>8}" + "".join(f"{name:>17}" for name in header)
    for name in ("diabetes", *NAMES):
        data = rows_and_responses(name)
        if data is None:
            continue
        X, y = data
        best = median_score(lambda _: LinearRegression(), X, y, seeds)
        for epsilon in EPSILONS:
            values = [best]
            for parameters in ({}, {"n_iter": 30}):
                values.append(
                    median_score(
                        lambda _, p=parameters, e=epsilon: DPTraceRegressor(epsilon=e, **p),
                        X,
                        y,
                        seeds,
                    )
                )
            values.append(
                median_score(lambda seed, e=epsilon: Reference(e, seed), *told_bounds(X, y), seeds)
            )
            label = f"{name} {X.shape[0]}x{X.shape[1]}"
            yield f"  {label:<22.22}{epsilon:8g}" + "".join(f"{v:17.3f}" for v in values)


def tasks(seeds: range) -> Iterator[str]:
    arrays = load("parkinsons_updrs")
    if arrays is None:
        return
    people = np.unique(arrays["user"], return_inverse=True)[1]
    y, X = arrays["y"][:, 1], standardized(arrays["X"])
    # The intercept of a person matters most: it is a feature of about the length of the others.
    with_constant = np.column_stack([np.full(len(X), 4.0), X])
    matrices = RankOneMatrices.from_tasks(with_constant, people, people.max() + 1)
    written_out = matrices.toarray()
    yield f"  least squares: a column for each person {score(Ridge(), written_out, y, 0):.3f}, "
    yield f"  one for all {score(Ridge(), X, y, 0):.3f}"
    methods = {
        "rank 1": (matrices, {}),
        "rank 2": (matrices, {"rank": 2}),
        "one for all": (X, {}),
    }
    yield "  epsilon" + "".join(f"{name:>21}" for name in methods)
    for epsilon in (0.5, *EPSILONS):
        values = [
            median_score(
                lambda _, p=parameters, e=epsilon: DPTraceRegressor(epsilon=e, **p), data, y, seeds
            )
            for data, parameters in methods.values()
        ]
        yield f"  {epsilon:7g}" + "".join(f"{value:21.3f}" for value in values)


def main() -> None:
    parser = parser_for(__doc__, seeds="seeds of each number, default 10")
    parser.set_defaults(seeds=10)
    arguments = parser.parse_args()
    ignore_drowned_signal()
    published_row(max(1, arguments.seeds // 3))
    print("\nR^2 held out, rows of features as they are, defaults, median of the seeds")
    for line in tables(range(arguments.seeds)):
        print(line, flush=True)
    print("\nR^2 held out, total UPDRS of 42 people, median of the seeds")
    for line in tasks(range(arguments.seeds)):
        print(line, flush=True)


if __name__ == "__main__":
    main()
