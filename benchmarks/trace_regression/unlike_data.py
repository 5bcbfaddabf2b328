"""`DPTraceRegressor` on data unlike those of the other tables: does it fit, or warn?

Each line is one of the datasets of `unlike.py`, which tests share:
20,000 records, epsilon 1, all else default. R^2 on as many fresh records, and of how many fits a
warning told. Run

    python -m benchmarks.trace_regression.unlike_data            # some 5 minutes on one core
    python -m benchmarks.trace_regression.unlike_data --write    # unlike_data.md beside it
"""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression

from benchmarks.report import line, parser_for, table
from benchmarks.trace_regression.unlike import (
    INDICATORS,
    OFFSETS,
    RARE_RESPONSES,
    SPARSE_INDICATORS,
    N,
    rare_and_large,
    usual,
    with_responses,
)
from skdp import DPTraceRegressor, RankOneMatrices

HERE = Path(__file__).parent
SEEDS = range(20)
TITLE = """\
# Data unlike those of the other tables

Written by `python -m benchmarks.trace_regression.unlike_data --write`. 20,000 records, epsilon 1,
defaults, 20 seeds: median of R² on fresh records, the least of all seeds, and the share of the fits
that warned. The first column is least squares without privacy."""

# A function of a generator and a number of records, parameters, and how many records are fitted.
Case = tuple[Callable[..., Any], dict[str, Any], int]


def tenfold(random: np.random.Generator, n_records: int) -> Any:
    X, y = usual(random, n_records)
    return 10 * X, y


def with_long_rows(n_long: int) -> Callable[..., Any]:
    def make(random: np.random.Generator, n_records: int) -> Any:
        X, y = usual(random, n_records)
        X[:n_long] *= 1000
        return X, y

    return make


def cells_of(rank: int) -> Callable[..., Any]:
    """Return a function that draws cells of a matrix of 300 x 100, of which .8 can be explained."""

    def make(random: np.random.Generator, n_records: int) -> Any:
        factors = [random.normal(size=(side, rank)) for side in CELLS]
        places = [random.integers(side, size=n_records) for side in CELLS]
        values = (factors[0][places[0]] * factors[1][places[1]]).sum(axis=1) / np.sqrt(rank)
        y = values + 0.5 * random.normal(size=n_records)
        return RankOneMatrices.from_indices(*places, shape=CELLS), y

    return make


def of(make: Callable[..., Any], n_fitted: int = N, **parameters: Any) -> Case:
    return make, parameters, n_fitted


CELLS = (300, 100)
CASES: dict[str, Case] = {
    "usual": of(usual),
    **{name: of(make) for name, make in OFFSETS.items()},
    "a bound a million times too large": of(usual, response_bound=1e7),
    'tenfold, covariance="identity"': of(tenfold, covariance="identity"),
    **{
        name: of(with_responses(change), response_bound=bound)
        for name, (change, bound) in RARE_RESPONSES.items()
    },
    **{f"indicators, {name}": of(make) for name, make in INDICATORS.items()},
    **{f"sparse indicators, {name}": of(make) for name, make in SPARSE_INDICATORS.items()},
    "a rare feature of size 1000": of(rare_and_large),
    **{
        f"{n_long} public rows 1000 times as long": of(
            with_long_rows(n_long), privacy_unit="response"
        )
        for n_long in (1, 50)
    },
}
# Signal strength 1 is that of 5344 cells for rank 1.
CELL_CASES: dict[str, Case] = {
    **{f"cells, strength {s:g}": of(cells_of(1), int(5344 * s)) for s in (3.7, 5.9, 8, 12)},
    "cells of rank 2, asked for 10": of(cells_of(2), 100_000, rank=10),
}


def fitted(case: Case, seed: int) -> tuple[float, bool]:
    make, parameters, n_fitted = case
    X, y = make(np.random.default_rng(seed), n_fitted + N)
    model = DPTraceRegressor(random_state=2**100 + seed, **parameters)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X[:n_fitted], y[:n_fitted])
    return model.score(X[n_fitted:], y[n_fitted:]), bool(caught)


def least_squares(case: Case) -> str:
    """Return what is possible without privacy; nothing for cells."""
    make, _, n_fitted = case
    X, y = make(np.random.default_rng(0), n_fitted + N)
    if isinstance(X, RankOneMatrices):
        return ""
    model = LinearRegression().fit(X[:n_fitted], y[:n_fitted])
    return f"{model.score(X[n_fitted:], y[n_fitted:]):.3g}"


def row(name: str, case: Case) -> list[str]:
    results = [fitted(case, seed) for seed in SEEDS]
    scores, warned = (np.array(values) for values in zip(*results, strict=True))
    found = f"{np.median(scores):.3g}", f"{scores.min():.3g}", f"{warned.mean():.2g}"
    return [name, least_squares(case), *found]


def main() -> None:
    parser = parser_for(__doc__, write="replace unlike_data.md")
    arguments = parser.parse_args()
    lines = [table(["", "no privacy", "median", "least", "warned"], [])]
    print(lines[0])
    for name, case in (CASES | CELL_CASES).items():
        lines.append(line(row(name, case)))
        print(lines[-1], flush=True)
    if arguments.write:
        (HERE / "unlike_data.md").write_text("\n\n".join([TITLE, "\n".join(lines)]) + "\n")


if __name__ == "__main__":
    main()
