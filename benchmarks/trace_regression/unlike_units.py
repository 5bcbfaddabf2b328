"""R2 of trace regressions on matrices whose rows or columns are in unlike units.

Run

    python -m benchmarks.trace_regression.unlike_units          # 3 minutes on one core
    python -m benchmarks.trace_regression.unlike_units --write  # unlike_units.md beside this file
"""

import argparse
import warnings
from pathlib import Path

import numpy as np

from benchmarks.report import table
from benchmarks.sweep.designs import r2_by_alternation
from benchmarks.sweep.tables import held_out
from skdp import DPTraceRegressor

EPSILONS, N_DESIGNS, N_FITS = (0.25, 1.0, 4.0, 16.0, 256.0), 24, 2
UNITS, SHAPES = (1.0, 100.0, 0.01, 1e4), ((6, 12), (8, 8), (12, 5), (3, 20))
TEXT = """\
# Matrices whose rows or columns are in unlike units

Written by `python -m benchmarks.trace_regression.unlike_units --write`. {n} random designs of 2,250
or 6,000 records: rank 1 or 2, shape 3 x 20 to 12 x 5, columns correlated by 0, .5 or .8, rows,
columns or both in units of 1, 100, .01 or 10,000, means of 0, 3 or 30 spreads, responses in units
of 1 or 50, around 0, 1 or 1,000. Mean R2 on new records, and in brackets the least, of {fits} fits,
and how many of the fits warn. The twin is least squares of that rank without privacy, in the units
of which the records were made. "Alike" are designs with units of exp(.4 z) for normal z.

Even designs chose the least ratio of lengths that is scaled, 32, and the precision of the counts;
odd ones were looked at once. Before, the lengths of rows and columns were not released: means of
.15, .25, .28 and .39 of the odd designs at .25, 1, 4 and 256, and of designs alike .65 and .85 at
.5 and 1, where they are .64 and .84 now.

{results}
"""


def design(seed: int, *, alike: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    random = np.random.default_rng(seed)
    shape, n_records = SHAPES[random.integers(4)], int(random.choice([3000, 8000]))
    rank, Z = int(random.integers(1, 3)), random.normal(size=(n_records, *shape))
    correlation = random.choice([0, 0.5, 0.8])
    for j in range(1, shape[1]):
        Z[:, :, j] *= np.sqrt(1 - correlation**2)
        Z[:, :, j] += correlation * Z[:, :, j - 1]
    side = random.integers(3)
    rows, columns = (
        random.choice(UNITS, size) if side in (own, 2) else np.ones(size)
        for own, size in zip((1, 0), shape, strict=True)
    )
    if alike:
        rows, columns = (np.exp(0.4 * random.normal(size=size)) for size in shape)
    M = random.normal(size=(shape[0], rank)) @ random.normal(size=(rank, shape[1]))
    y = (Z * M).sum(axis=(1, 2))
    y = y / y.std() + 0.3 * random.normal(size=n_records)
    units = np.outer(rows, columns)
    X = (Z + random.choice([0, 3, 30]) * random.normal(size=shape)) * units
    return X, y * random.choice([1, 50]) + random.choice([0, 1, 1000]), units, rank


def scores(seed: int, *, alike: bool) -> list[tuple[float, int]]:
    """Return R2 and the number of fits that warn for each epsilon, then the twin's R2."""
    X, y, units, rank = design(seed, alike=alike)
    train, test, y_train, y_test = held_out(X, y, seed)
    found = []
    for epsilon in EPSILONS:
        r2, n_warned = [], 0
        for _ in range(N_FITS):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                model = DPTraceRegressor(rank, epsilon=epsilon).fit(train, y_train)
            r2.append(max(model.score(test, y_test), -1.0))
            n_warned += bool(caught)
        found.append((float(np.mean(r2)), n_warned))
    return [*found, (r2_by_alternation(train / units, y_train, test / units, y_test, rank), 0)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    cases = {
        "even": (range(0, N_DESIGNS, 2), False),
        "odd": (range(1, N_DESIGNS, 2), False),
        "alike": (range(100, 100 + N_DESIGNS // 2), True),
    }
    rows = []
    for name, (seeds, alike) in cases.items():
        by_epsilon = zip(*(scores(seed, alike=alike) for seed in seeds), strict=True)
        cells = [
            f"{np.mean(r2):.2f} ({np.min(r2):.2f}), {sum(n_warned)} warn"
            for r2, n_warned in (zip(*one, strict=True) for one in by_epsilon)
        ]
        rows.append([name, *cells[:-1], cells[-1].split(" (")[0]])
    results = table(["designs", *(f"{epsilon:g}" for epsilon in EPSILONS), "twin"], rows)
    text = TEXT.format(n=N_DESIGNS, fits=N_FITS, results=results)
    print(text)
    if parser.parse_args().write:
        Path(__file__).with_suffix(".md").write_text(text)


if __name__ == "__main__":
    main()
