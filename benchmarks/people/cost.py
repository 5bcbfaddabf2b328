"""What whole people cost in time: fits of the unit "user" beside those of the unit of rows. Run

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.people.cost           # some minutes
    OPENBLAS_NUM_THREADS=1 python -m benchmarks.people.cost --write   # cost.md beside it

100,000 rows of 200 features, or matrices of 16 x 16, of 20,000 people: processor seconds of whole
fits, which other processes hardly change, the least of several, one kind in turn with the other.
Memory is what a fit takes beside X, at its peak.
"""

import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report import ignore_drowned_signal, parser_for, table
from skdp import (
    DPPCA,
    DPLinearRegression,
    DPLogisticRegression,
    DPStandardScaler,
    DPTraceClassifier,
    DPTraceRegressor,
    DPTruncatedSVD,
    RankOneMatrices,
)

HERE = Path(__file__).parent
N_ROWS, N_FEATURES, N_PEOPLE, ROUNDS = 100_000, 200, 20_000, 7
SIDE, N_CELLS = 16, 100
MIB = 2.0**20
FITS: dict[str, Callable[..., Any]] = {
    "DPPCA, covariance": lambda **unit: DPPCA(5, row_norm=16.0, solver="covariance", **unit),
    "DPPCA, power": lambda **unit: DPPCA(5, row_norm=16.0, solver="power", **unit),
    "DPPCA, its own bounds": lambda **unit: DPPCA(5, **unit),
    "DPTruncatedSVD, adaptive": lambda **unit: DPTruncatedSVD(5, solver="adaptive", **unit),
    "DPStandardScaler": lambda **unit: DPStandardScaler(with_mean=False, **unit),
    "DPLinearRegression": lambda **unit: DPLinearRegression(**unit),
    "DPLogisticRegression": lambda **unit: DPLogisticRegression(classes=[0, 1], **unit),
    "DPTraceRegressor, matrices": lambda **unit: DPTraceRegressor(2, **unit),
    "DPTraceRegressor, cells": lambda **unit: DPTraceRegressor(2, **unit),
    "DPTraceRegressor, factors": lambda **unit: DPTraceRegressor(2, **unit),
    "DPTraceRegressor, factors, rank 5": lambda **unit: DPTraceRegressor(5, **unit),
    "DPTraceClassifier, matrices": lambda **unit: DPTraceClassifier(2, classes=[0, 1], **unit),
}


def rows() -> tuple[np.ndarray, np.ndarray]:
    """Draw rows, and a class for each."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, N_FEATURES)) * np.linspace(2, 0.5, N_FEATURES)
    return X, (X[:, :5].sum(axis=1) + rng.normal(size=N_ROWS) > 0).astype(int)


def matrices() -> tuple[np.ndarray, np.ndarray]:
    """Draw matrices, and a class for each, which serves as a response, too."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, SIDE, SIDE))
    return X, (X[:, 0, 0] + rng.normal(size=N_ROWS) > 0).astype(int)


def cells_of_a_table() -> tuple[RankOneMatrices, np.ndarray]:
    """Draw cells of a table, and a response for each."""
    rng = np.random.default_rng(0)
    places = rng.integers(0, N_CELLS, (2, N_ROWS))
    y = places.sum(axis=0) / N_CELLS + rng.normal(size=N_ROWS)
    return RankOneMatrices.from_indices(*places, shape=(N_CELLS, N_CELLS)), y


def factors() -> tuple[RankOneMatrices, np.ndarray]:
    """Draw dense factors of outer products, and a response for each."""
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=(2, N_ROWS, SIDE))
    return RankOneMatrices(left, right), left[:, 0] * right[:, 0] + rng.normal(size=N_ROWS)


DATA: dict[str, Callable[[], tuple[Any, np.ndarray]]] = {
    ", matrices": matrices,
    ", cells": cells_of_a_table,
    ", factors": factors,
}


def taken(fit: Callable[[], object]) -> float:
    before = time.process_time()
    fit()
    return time.process_time() - before


def memory(fit: Callable[[], object]) -> float:
    """Return the MiB that a fit takes at its peak."""
    tracemalloc.start()
    fit()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / MIB


def cells(name: str) -> list[str]:
    """Measure fits of both units in turn."""
    X, y = next((draw for form, draw in DATA.items() if form in name), rows)()
    users = np.random.default_rng(1).integers(0, N_PEOPLE, N_ROWS)
    branches: list[Callable[[], object]] = [
        lambda: FITS[name]().fit(X, y),
        lambda: FITS[name](privacy_unit="user").fit(X, y, users=users),
    ]
    times = np.min([[taken(way) for way in branches] for _ in range(ROUNDS)], axis=0)
    peaks = [memory(way) for way in branches]
    ratio = times[1] / times[0]
    return [name, *(f"{value:.2f}" for value in (*times, ratio)), *(f"{m:.0f}" for m in peaks)]


def main() -> None:
    asked = parser_for(__doc__, write="write cost.md").parse_args()
    ignore_drowned_signal()
    header = ["", "rows, s", "people, s", "people / rows", "rows, MiB", "people, MiB"]
    text = table(header, [cells(name) for name in FITS])
    print(text)
    if asked.write:
        HERE.joinpath("cost.md").write_text(PAGE.format(table=text))


PAGE = f"""# What whole people cost in time

Written by `OPENBLAS_NUM_THREADS=1 python -m benchmarks.people.cost --write`: {N_ROWS:,} rows of
{N_FEATURES} features, {N_PEOPLE:,} people, the least of {ROUNDS} runs, one unit in turn with the
other. Seconds are those of the processor in this process, whatever else the machine does. Matrices
and factors have sides of {SIDE}, cells lie in a table of {N_CELLS} x {N_CELLS}. X itself takes
{N_ROWS * N_FEATURES * 8 / MIB:.0f} MiB as rows.

{{table}}
"""

if __name__ == "__main__":
    main()
