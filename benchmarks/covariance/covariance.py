"""One release of `DPCovariance` beside a fit for each question: R2, AUC, captured variance, time.

Tables are looked for in the folder that the environment variable `SKDP_DATA` names. Run

    python -m benchmarks.covariance.covariance          # 5 seeds, some minutes
    python -m benchmarks.covariance.covariance --write  # covariance.md beside it
"""

import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from sklearn.base import clone
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.preprocessing import StandardScaler

import skdp.covariance
from benchmarks.data import file_at_hand
from benchmarks.report import (
    Key,
    ignore_drowned_signal,
    measured,
    parser_for,
    seeds_asked_for,
    standard_error,
    table,
)
from skdp import (
    DPPCA,
    DPCovariance,
    DPLinearRegression,
    DPLogisticRegression,
    DPStandardScaler,
    make_dp_pipeline,
)
from skdp.metrics import captured_variance
from skdp.privacy import PrivacyCost

HERE = Path(__file__).parent
EPSILONS, N_SEEDS, N_COMPONENTS = (0.25, 1.0, 4.0, 16.0), 5, 5
TITLE = """\
# One release, or a fit for each question

Written by `python -m benchmarks.covariance.covariance --write`. Mean of {} seeds, each with other
noise and another fifth of the rows to score. *One* is `DPCovariance`, with the target among its
columns: its `regression`, or for classes its `discriminant`, and its five components of columns by
their scales. *Own* is `DPLinearRegression`, or `DPLogisticRegression` behind a `DPStandardScaler`;
and `DPPCA` behind it, of the same columns. Each has the whole epsilon for itself, delta 1e-6. No
bounds are given. The strength is n mu / d; below {:g} `DPCovariance` warns before the fit. Captured
is the variance of columns in their true scales, in that of their best five components. Times are
seconds of processors.

"""
# Files, whether the target is one of classes, and without whose long tails.
TABLES = {
    "california": ("california_housing.npz", False),
    "wine": ("wine_quality_white.npz", False),
    "diamonds": ("diamonds.npz", False),
    "bank": ("bank.npz", True),
    "letter": ("letter.npz", True),
}


@cache
def rows_of(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Load columns, and a target that is a number, or 0 or 1."""
    file, is_class = TABLES[name]
    path = file_at_hand(file)
    if path is None:
        raise FileNotFoundError(f"{file} is not in the folder that SKDP_DATA names.")
    with np.load(path, allow_pickle=True) as found:
        X, y = found["X"].astype(np.float64), found["y"]
    if is_class:
        y = y.astype(str)
        y = y > np.sort(y)[len(y) // 2] if name == "letter" else y == np.unique(y)[-1]
    return X, y.astype(np.float64)


def timed(function: Callable[[], Any]) -> tuple[Any, float]:
    """Return a result, and how long it took."""
    before = time.process_time()
    result = function()
    return result, time.process_time() - before


def measure(seed: int, names: list[str]) -> Iterator[tuple[Key, float]]:
    """Fit all to most rows, and score the others."""
    for name in names:
        X, y = rows_of(name)
        is_test = np.random.default_rng(seed).random(len(X)) < 0.2
        for epsilon in EPSILONS:
            for key, value in compared(X, y, is_test, epsilon, is_class=TABLES[name][1]):
                yield (f"{name}, {epsilon:g}", key), value


def compared(
    X: np.ndarray, y: np.ndarray, is_test: np.ndarray, epsilon: float, *, is_class: bool
) -> Iterator[tuple[str, float]]:
    """Yield what one release gives, and what single fits give."""
    X_fit, y_fit, X_test, y_test = X[~is_test], y[~is_test], X[is_test], y[is_test]
    n, d = X_fit.shape
    yield "strength", n * PrivacyCost(epsilon, 1e-6).mu / (d + 1)
    rows = np.column_stack([X_fit, y_fit])
    released, seconds = timed(lambda: DPCovariance(epsilon=epsilon).fit(rows))
    scaler = DPStandardScaler()
    if is_class:
        own: Any = make_dp_pipeline(scaler, DPLogisticRegression(classes=[0, 1]), epsilon=epsilon)
        one = answer(lambda: released.discriminant(d))
    else:
        own, one = DPLinearRegression(epsilon=epsilon), released.regression(d)
    own, seconds_of_own = timed(lambda: own.fit(X_fit, y_fit))
    for kind, model in (("one", one), ("own", own)):
        if model is not None:
            yield kind, score(model, X_test, y_test, is_class=is_class)
    pca = make_dp_pipeline(clone(scaler), DPPCA(N_COMPONENTS), epsilon=epsilon).fit(X_fit)
    best = StandardScaler().fit(X_fit).transform(X_fit)
    top = np.linalg.svd(best, full_matrices=False)[2][:N_COMPONENTS]
    found = released.components(N_COMPONENTS, on=range(d), scale=True)[-1].components_
    for kind, V in (("one, captured", found), ("own, captured", pca[-1].components_)):
        yield kind, captured_variance(V, best) / captured_variance(top, best)
    yield "one, seconds", seconds
    yield "own, seconds", seconds_of_own


def answer(ask: Callable[[], Any]) -> Any:
    """Ask; nothing where noise leaves no answer."""
    try:
        return ask()
    except ValueError:
        return None


def score(model: Any, X: np.ndarray, y: np.ndarray, *, is_class: bool) -> float:
    """Return the AUC, or R2, at least 0: of less, the mean is better."""
    if is_class:
        return float(roc_auc_score(y, model.decision_function(X)))
    return max(float(r2_score(y, model.predict(X))), 0.0)


def shown(values: np.ndarray, digits: int = 3) -> str:
    return f"{values.mean():.{digits}f} ± {standard_error(values):.{digits}f}"


COLUMNS = ["one", "own", "one, captured", "own, captured"]
TIMES = ["one, seconds", "own, seconds"]


def table_of_fits(names: list[str], n_seeds: int) -> str:
    """Measure, and print a line for each table and epsilon."""
    found = measured(lambda seed: measure(seed, names), n_seeds)
    lines = []
    for case in dict.fromkeys(key[0] for key in found):
        cells = [
            shown(found[case, column]) if (case, column) in found else "-" for column in COLUMNS
        ]
        times = [f"{np.median(found[case, column]):.2f}" for column in TIMES]
        lines.append([case, f"{found[case, 'strength'].mean():.0f}", *cells, *times])
    return table(["table, epsilon", "strength", *COLUMNS, *TIMES], lines)


# ------------------------------
# The constants.

FACTORS, FLOORS = (0.5, 1.0, 2.0), (0.1, 0.3, 1.0)
OF_CONSTANTS = """

## Constants

The same R2 or AUC, and the root mean squared error of correlations, with other constants: shares
of the scales, factors of what rows are clipped to, and floors of eigenvalues.

"""
CONSTANTS = {
    "as it is": {},
    **{f"share of scales {share:g}": {"_SCALES_SHARES": (share, share)} for share in (0.1, 0.3)},
    **{f"clipping {factor:g} f": {"_WEAK": 100 / factor**4} for factor in (0.7, 1.4)},
    **{f"floor {floor:g}": {"_FLOOR": floor} for floor in (0.1, 1.0)},
}


def measure_constants(seed: int, names: list[str]) -> Iterator[tuple[Key, float]]:
    """Fit with each of the constants."""
    for label, constants in CONSTANTS.items():
        with patch.multiple(skdp.covariance, **{"_WEAK": 100.0, **constants}):
            for name in names:
                for epsilon in (1.0, 4.0):
                    yield from correlated(name, epsilon, seed, label)


def correlated(name: str, epsilon: float, seed: int, label: str) -> Iterator[tuple[Key, float]]:
    """Yield the score and the error of correlations of one fit."""
    X, y = rows_of(name)
    is_test = np.random.default_rng(seed).random(len(X)) < 0.2
    rows, at = np.column_stack([X, y]), X.shape[1]
    released = DPCovariance(epsilon=epsilon).fit(rows[~is_test])
    is_class = TABLES[name][1]
    model = answer(lambda: released.discriminant(at)) if is_class else released.regression(at)
    if model is not None:
        got = score(model, X[is_test], y[is_test], is_class=is_class)
        yield (label, f"{name}, {epsilon:g}"), got
    with np.errstate(invalid="ignore"):
        error = released.correlation_ - np.nan_to_num(np.corrcoef(rows.T))
    yield (label, f"{name}, {epsilon:g}, error"), float(np.sqrt(np.mean(np.square(error))))


def table_of_constants(names: list[str], n_seeds: int) -> str:
    """Measure, and print a line for each choice of constants."""
    found = measured(lambda seed: measure_constants(seed, names), n_seeds)
    cases = [f"{name}, {epsilon:g}" for name in names for epsilon in (1.0, 4.0)]
    lines = [
        [label, *(cell_of_constants(found, label, case) for case in cases)] for label in CONSTANTS
    ]
    return table(["score / error", *cases], lines)


def cell_of_constants(found: dict[Key, np.ndarray], label: str, case: str) -> str:
    score_of = found.get((label, case))
    first = "-" if score_of is None else f"{score_of.mean():.3f}"
    return f"{first} / {found[label, f'{case}, error'].mean():.3f}"


def main() -> None:
    parser = parser_for(
        __doc__,
        seeds=f"seeds of each line, default {N_SEEDS}",
        only="tables whose names have this",
        quick="2 seeds",
        write="replace covariance.md",
    )
    arguments = parser.parse_args()
    n_seeds = seeds_asked_for(arguments, usual=N_SEEDS, quick=2)
    names = [name for name in TABLES if arguments.only in name]
    if arguments.write and (len(names) < len(TABLES) or n_seeds < N_SEEDS):
        parser.error(f"the committed table has all tables, and at least {N_SEEDS} seeds")
    ignore_drowned_signal()
    text = TITLE.format(n_seeds, skdp.covariance._WEAK) + table_of_fits(names, n_seeds)
    text += OF_CONSTANTS + table_of_constants(names, n_seeds) + "\n"
    if arguments.write:
        (HERE / "covariance.md").write_text(text)
    else:
        print(text)


if __name__ == "__main__":
    main()
