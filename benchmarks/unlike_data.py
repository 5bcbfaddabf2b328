"""`DPTraceRegressor` on data unlike those of the other tables: does it fit, or warn?

Each line is one of the datasets of `tests/linear_model/unlike_data.py`, whose tests it shares:
20,000 records, epsilon 1, all else default. R^2 on as many fresh records, and of how many fits a
warning told. Run

    python benchmarks/unlike_data.py            # some 5 minutes on one core
    python benchmarks/unlike_data.py --write    # unlike_data.md beside it
"""

import argparse
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression

from skdp import DPTraceRegressor

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests" / "linear_model"))

from unlike_data import (  # noqa: E402
    INDICATORS,
    OFFSETS,
    RARE_RESPONSES,
    SPARSE_INDICATORS,
    N,
    rare_and_large,
    usual,
    with_responses,
)

SEEDS = range(20)
TITLE = """\
# Data unlike those of the other tables

Written by `python benchmarks/unlike_data.py --write`. 20,000 records, epsilon 1, defaults, 20
seeds: median of R² on fresh records, the least of all seeds, and the share of the fits that warned.
The first column is least squares without privacy."""

Case = tuple[Callable[..., Any], dict[str, Any]]
CASES: dict[str, Case] = {
    "usual": (usual, {}),
    **{name: (make, {}) for name, make in OFFSETS.items()},
    "a bound a million times too large": (usual, {"response_bound": 1e7}),
    **{
        name: (with_responses(change), {"response_bound": bound})
        for name, (change, bound) in RARE_RESPONSES.items()
    },
    **{f"indicators, {name}": (make, {}) for name, make in INDICATORS.items()},
    **{f"sparse indicators, {name}": (make, {}) for name, make in SPARSE_INDICATORS.items()},
    "a rare feature of size 1000": (rare_and_large, {}),
}


def fitted(case: Case, solver: str, seed: int) -> tuple[float, bool, float]:
    make, parameters = case
    X, y = make(np.random.default_rng(seed), 2 * N)
    model = DPTraceRegressor(solver=solver, random_state=2**100 + seed, **parameters)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X[:N], y[:N])
    best = LinearRegression().fit(X[:N], y[:N]).score(X[N:], y[N:]) if seed == 0 else np.nan
    return model.score(X[N:], y[N:]), bool(caught), best


def line(name: str) -> str:
    cells = []
    for solver in ("rgrad", "adassp"):
        results = [fitted(CASES[name], solver, seed) for seed in SEEDS]
        scores, warned, best = (np.array(values) for values in zip(*results, strict=True))
        cells += [f"{np.median(scores):.3g}", f"{scores.min():.3g}", f"{warned.mean():.2g}"]
    return f"| {name} | {best[0]:.3g} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="replace unlike_data.md")
    arguments = parser.parse_args()
    columns = [
        f"{solver}{what}" for solver in ("rgrad", "adassp") for what in ("", ", least", ", warned")
    ]
    lines = [f"|  | no privacy | {' | '.join(columns)} |", "| --- " * (len(columns) + 2) + "|"]
    print("\n".join(lines))
    for name in CASES:
        lines.append(line(name))
        print(lines[-1], flush=True)
    if arguments.write:
        (HERE / "unlike_data.md").write_text("\n\n".join([TITLE, "\n".join(lines)]) + "\n")


if __name__ == "__main__":
    main()
