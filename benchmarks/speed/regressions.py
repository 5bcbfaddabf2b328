"""What a linear regression takes beside scikit-learn's, and what it takes at the least.

CPU seconds of whole fits on one thread, in turn in one process, with the defaults of both and
`random_state=None`. Run it as

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.speed.regressions           # prints the table
    OPENBLAS_NUM_THREADS=1 python -m benchmarks.speed.regressions --write   # and writes it
"""

import math
import os
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.linear_model import LinearRegression
from threadpoolctl import threadpool_limits

from benchmarks.report import parser_for, table
from skdp import DPLinearRegression, PrivacyWarning

SIZES = [(250_000, 19), (20_000, 100), (24_000, 6), (500, 5)]
ROUNDS = 5
# The check, and the lengths of whitened rows; all other readings are for a release.
OTHER_READINGS = 2
# How the names of releases begin that take a reading of their own.
OF_READINGS = ("signed", "places", "closer", "column", "row cov", "gradient")
TEXT = """# Linear regression beside scikit-learn

Made by `OPENBLAS_NUM_THREADS=1 python -m benchmarks.speed.regressions --write`: CPU milliseconds on
one thread, medians of {rounds} fits in turn, after one more. Columns are in units of their own. The
machine had {cores} cores and a load of {load:.0f}; if that is more, caches were shared, and ratios
are rough.

The floor is a model of bytes and flops, with what this machine read and multiplied just before.
X is read once a step, once for each release of its columns, and {others} times beside. A step
multiplies each entry twice, takes off a center and multiplies by a scale; the covariance and the
lengths of whitened rows are products of 3 n d² flops. Nothing is counted for what is done of a row,
nor for counts of columns by size and place, which take a large part of the time in long tables, nor
for calls, which take all of it in short ones.

{fits}
"""


def rows(n_rows: int, n_features: int) -> tuple[np.ndarray, np.ndarray]:
    """Make normal columns in units of their own, and numbers to predict."""
    rng = np.random.default_rng(0)
    standard = rng.normal(size=(n_rows, n_features))
    units = 10.0 ** rng.uniform(-1, 3, n_features)
    X = units * (standard + rng.uniform(0, 9, n_features))
    return X, standard @ rng.normal(size=n_features) / 2 + rng.normal(size=n_rows)


def spent(job: Callable[[], object]) -> float:
    """Run a job; return the milliseconds of the processor."""
    start = time.process_time()
    job()
    return 1e3 * (time.process_time() - start)


def in_turn(*jobs: Callable[[], object]) -> list[float]:
    """Return the median of each of several jobs."""
    rounds = [list(map(spent, jobs)) for _ in range(ROUNDS + 1)]
    return [float(np.median(of_job)) for of_job in zip(*rounds[1:], strict=True)]


def limits() -> tuple[float, float]:
    """Return bytes, and flops of large products, a millisecond."""
    X, A = np.ones((1 << 22, 4)), np.ones((1000, 1000))
    read, multiplied = in_turn(X.sum, partial(np.matmul, A, A))
    return X.nbytes / read, 2e9 / multiplied


def floor_of(X: np.ndarray, names: list[str]) -> float:
    """Return the milliseconds that reading and multiplying take, for releases of these names."""
    bytes_a_ms, flops_a_ms = limits()
    n_readings = OTHER_READINGS + sum(name.startswith(OF_READINGS) for name in names)
    n_steps = sum(name.startswith("gradient") for name in names)
    flops = (6 * n_steps + 3 * X.shape[1]) * X.size
    return n_readings * X.nbytes / bytes_a_ms + flops / flops_a_ms


def line_of(size: tuple[int, int]) -> list[str]:
    """Time the fits to a table of that size."""
    X, y = rows(*size)
    exact = DPLinearRegression(epsilon=math.inf)
    models = DPLinearRegression(), exact, LinearRegression()
    ours, inf, theirs = in_turn(*(partial(model.fit, X, y) for model in models))
    floor = floor_of(X, [one.name for one in models[0].privacy_spent_.releases])
    cells = [f"{one:.1f}" for one in (ours, inf, theirs, ours / theirs, inf / theirs, floor)]
    return [f"{size[0]:,} x {size[1]}", *cells, f"{ours / floor:.1f}"]


def main() -> None:
    """Print the table, or write it."""
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
    busy = {"cores": os.cpu_count(), "load": os.getloadavg()[0]}
    text = TEXT.format(rounds=ROUNDS, others=OTHER_READINGS, fits=fits, **busy)
    print(text)
    if asked.write:
        Path(__file__).with_suffix(".md").write_text(text)


if __name__ == "__main__":
    main()
