"""What regressions and classifiers take beside scikit-learn's; regressions, at the least.

CPU seconds of whole fits on one thread, in turn in one process, with the defaults of both and
`random_state=None`. Run it as

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.speed.regressions           # prints the tables
    OPENBLAS_NUM_THREADS=1 python -m benchmarks.speed.regressions --write   # and writes them
"""

import math
import os
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from benchmarks.report import parser_for, publish, table
from benchmarks.speed.beside import in_turn, rows
from skdp import (
    DPLinearRegression,
    DPLogisticRegression,
    DPStandardScaler,
    PrivacyWarning,
    make_dp_pipeline,
)

SIZES = [(250_000, 19), (20_000, 100), (24_000, 6), (500, 5)]
# Rows, columns and classes of classifiers without noise.
CLASSIFIED = [(10_000, 216, 2), (10_000, 216, 6), (20_000, 36, 6)]
ROUNDS = 5
# The check, the standardized copy, and the lengths of whitened rows; all other readings are for a
# release.
OTHER_READINGS = 3
# How the names of releases begin that take a reading of their own.
OF_READINGS = ("signed", "places", "closer", "column", "response moment", "whitened gradient")
TEXT = """# Regressions and classifiers beside scikit-learn

Made by `OPENBLAS_NUM_THREADS=1 python -m benchmarks.speed.regressions --write`: CPU milliseconds on
one thread, medians of {rounds} fits in turn, after one more. Columns are in units of their own. The
machine had {cores} cores and a load of {load:.0f}; if that is more, caches were shared, and ratios
are rough.

## Linear regression

The floor is a model of bytes and flops, with what this machine read and multiplied just before.
X is read once a step, once for each release of its columns, and {others} times beside: to check,
to standardize and to measure rows. A step multiplies each entry twice; the covariance and the
lengths of whitened rows are products of 3 n d² flops. Nothing is counted for what is done of a row,
nor for counts of columns by size and place, which take a large part of the time in long tables, nor
for calls, which take all of it in short ones.

{fits}

## Classifiers

The first is a pipeline with a scaler, on columns in units of their own, at epsilon=1. The others
are classifiers of columns of variance 1 at epsilon=inf, where the result is the optimum.

{classifiers}
"""


def medians(*jobs: Callable[[], object]) -> list[float]:
    """Return the median of each of several jobs, in milliseconds of the processor."""
    return [1e3 * float(np.median([one.cpu for one in runs])) for runs in in_turn(jobs, ROUNDS)]


def limits() -> tuple[float, float]:
    """Return bytes, and flops of large products, a millisecond."""
    X, A = np.ones((1 << 22, 4)), np.ones((1000, 1000))
    read, multiplied = medians(X.sum, partial(np.matmul, A, A))
    return X.nbytes / read, 2e9 / multiplied


def floor_of(X: np.ndarray, names: list[str]) -> float:
    """Return the milliseconds that reading and multiplying take, for releases of these names."""
    bytes_a_ms, flops_a_ms = limits()
    n_readings = OTHER_READINGS + sum(name.startswith(OF_READINGS) for name in names)
    n_steps = sum(name.startswith("whitened gradient") for name in names)
    flops = (4 * n_steps + 2 + 3 * X.shape[1]) * X.size
    return n_readings * X.nbytes / bytes_a_ms + flops / flops_a_ms


def line_of(size: tuple[int, int]) -> list[str]:
    """Time the fits to a table of that size."""
    X, y, _ = rows(*size)
    exact = DPLinearRegression(epsilon=math.inf)
    models = DPLinearRegression(), exact, LinearRegression()
    ours, inf, theirs = medians(*(partial(model.fit, X, y) for model in models))
    floor = floor_of(X, [one.name for one in models[0].privacy_spent_.releases])
    cells = [f"{one:.1f}" for one in (ours, inf, theirs, ours / theirs, inf / theirs, floor)]
    return [f"{size[0]:,} x {size[1]}", *cells, f"{ours / floor:.1f}"]


def labels(n_rows: int, n_features: int, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Make normal columns, and classes that a softmax of linear scores has drawn."""
    rng = np.random.default_rng(0)
    standard = rng.normal(size=(n_rows, n_features))
    scores = standard @ rng.normal(size=(n_features, n_classes)) / math.sqrt(n_features)
    return standard, np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)


def lines_of_classifiers() -> list[list[str]]:
    """Time a pipeline with a scaler, and classifiers without noise."""
    X, _, classes = rows(*SIZES[0])
    ours = make_dp_pipeline(DPStandardScaler(), DPLogisticRegression(classes=[0, 1]))
    theirs = make_pipeline(StandardScaler(), LogisticRegression())
    jobs = [("scaler and classifier", SIZES[0], ours, theirs, X, classes)]
    for *size, n_classes in CLASSIFIED:
        ours = DPLogisticRegression(epsilon=math.inf, classes=list(range(n_classes)))
        name = f"{n_classes} classes, epsilon=inf"
        jobs.append((name, size, ours, LogisticRegression(), *labels(*size, n_classes)))
    lines = []
    for name, (n_rows, n_features), one, other, X, y in jobs:
        of_ours, of_theirs = medians(partial(one.fit, X, y), partial(other.fit, X, y))
        times = (f"{time:.1f}" for time in (of_ours, of_theirs, of_ours / of_theirs))
        lines.append([name, f"{n_rows:,} x {n_features}", *times])
    return lines


def main() -> None:
    """Print the tables, or write them."""
    asked = parser_for(__doc__, write="write regressions.md").parse_args()
    warnings.simplefilter("ignore", PrivacyWarning)
    header = [
        "rows",
        "skdp",
        "epsilon=inf",
        "scikit-learn",
        "ratio",
        "ratio, inf",
        "floor",
        "of it",
    ]
    with threadpool_limits(1):
        fits = table(header, list(map(line_of, SIZES)))
        header = ["fit", "rows", "skdp", "scikit-learn", "ratio"]
        classifiers = table(header, lines_of_classifiers())
    busy = {"cores": os.cpu_count(), "load": os.getloadavg()[0]}
    text = TEXT.format(
        rounds=ROUNDS, others=OTHER_READINGS, fits=fits, classifiers=classifiers, **busy
    )
    publish(text, __file__, write=asked.write)


if __name__ == "__main__":
    main()
