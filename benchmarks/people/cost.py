"""What whole people cost in time: fits of the unit "user" beside those of the unit of rows. Run

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.people.cost           # some minutes
    OPENBLAS_NUM_THREADS=1 python -m benchmarks.people.cost --write   # cost.md beside it

100,000 rows of 200 features, of 20,000 people: processor seconds of whole fits, the least of
several, one kind in turn with the other. Memory is what a fit takes beside X, at its peak.
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
    DPTruncatedSVD,
)

HERE = Path(__file__).parent
N_ROWS, N_FEATURES, N_PEOPLE, ROUNDS = 100_000, 200, 20_000, 7
MIB = 2.0**20
FITS: dict[str, Callable[..., Any]] = {
    "DPPCA, covariance": lambda **unit: DPPCA(5, row_norm=16.0, solver="covariance", **unit),
    "DPPCA, power": lambda **unit: DPPCA(5, row_norm=16.0, solver="power", **unit),
    "DPPCA, its own bounds": lambda **unit: DPPCA(5, **unit),
    "DPTruncatedSVD, adaptive": lambda **unit: DPTruncatedSVD(5, solver="adaptive", **unit),
    "DPStandardScaler": lambda **unit: DPStandardScaler(with_mean=False, **unit),
    "DPLinearRegression": lambda **unit: DPLinearRegression(**unit),
    "DPLogisticRegression": lambda **unit: DPLogisticRegression(classes=[0, 1], **unit),
}


def data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw rows, a class for each, and whose they are."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, N_FEATURES)) * np.linspace(2, 0.5, N_FEATURES)
    y = (X[:, :5].sum(axis=1) + rng.normal(size=N_ROWS) > 0).astype(int)
    return X, y, rng.integers(0, N_PEOPLE, N_ROWS)


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
    X, y, users = data()
    ways: list[Callable[[], object]] = [
        lambda: FITS[name]().fit(X, y),
        lambda: FITS[name](privacy_unit="user").fit(X, y, users=users),
    ]
    times = np.min([[taken(way) for way in ways] for _ in range(ROUNDS)], axis=0)
    peaks = [memory(way) for way in ways]
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
other. X itself takes {N_ROWS * N_FEATURES * 8 / MIB:.0f} MiB.

{{table}}
"""

if __name__ == "__main__":
    main()
