"""Would another length of the steps, no cut, or another clip level be better than the defaults?

Each dataset is fitted with the defaults and with one thing changed: R^2 on fresh records less that
with the defaults and the same seed, medians of the seeds. Run

    python -m benchmarks.trace_regression.defaults            # some 3 minutes on one core
    python -m benchmarks.trace_regression.defaults --write    # the tables of defaults.md

Without SKDP_DATA real data but the diabetes are left out.
"""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from sklearn.datasets import load_diabetes

from benchmarks.budgets.tables import RESPONSES, at_hand_of, table_of
from benchmarks.report import ignore_drowned_signal, line, parser_for, table
from benchmarks.trace_regression.measures import KEY, made, without_cut
from skdp import DPTraceRegressor
from skdp.linear_model.low_rank import descent as trace_descent

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "tests" / "linear_model"))

from unlike_columns import linear_tails, random_table, spiked_columns  # noqa: E402

SEEDS = range(10)
N_FRESH = 4_000
TITLE = """\
# Other settings than the defaults

Written by `python -m benchmarks.trace_regression.defaults --write`. R² with the defaults on fresh
records, and what it changes to do one thing otherwise; medians of 10 seeds. Matrices are 16 x 16
and of rank 2, ε is 1 if nothing else is said. `step` is the length of a step, relative to the
curvature; `quantile` the share of the gradients that are not clipped."""
FINDINGS = "\n## What the tables say\n"
Case = tuple[Callable[[int], Any], dict[str, Any]]
Change = tuple[Callable[[], AbstractContextManager[Any]], Callable[[Any], dict[str, Any]]]


def matrices(n: int, seed: int, **design: Any) -> Any:
    X, y, _ = made(n + N_FRESH, 16, seed, singular_values=(1.5, 1.0), **design)
    return X, y, n


def rows(make: Callable[[int], Any], n: int, seed: int) -> Any:
    return *make(seed), n


def real(name: str, seed: int) -> Any:
    is_bundled = name == "diabetes"
    X, y = load_diabetes(return_X_y=True, scaled=False) if is_bundled else table_of(RESPONSES[name])
    order = np.random.default_rng(seed).permutation(len(y))
    return X[order], y[order], int(0.8 * len(order))


REAL = ("california", "wine", "updrs")


CASES: dict[str, Case] = {
    "matrices, n 4000": (partial(matrices, 4_000), {"rank": 2}),
    "matrices, n 2000, ε .5": (partial(matrices, 2_000), {"rank": 2, "epsilon": 0.5}),
    "correlated, n 16000": (partial(matrices, 16_000, column_correlation=0.6), {"rank": 2}),
    "cells, n 16000": (partial(matrices, 16_000, design="completion"), {"rank": 2}),
    "tasks, n 16000": (partial(matrices, 16_000, design="tasks"), {"rank": 2}),
    "random tables": (partial(rows, random_table, 7_500), {}),
    "spiked, collinear": (partial(rows, spiked_columns, 11_000), {}),
    "long tails": (partial(rows, linear_tails, 11_000), {}),
    "diabetes, ε 4": (partial(real, "diabetes"), {"epsilon": 4.0}),
    **{name: (partial(real, name), {}) for name in REAL},
}


def with_step(length: float) -> AbstractContextManager[Any]:
    return patch.object(trace_descent, "_STEP", length)


def asking(**parameters: Any) -> Change:
    return nullcontext, lambda _: parameters


CHANGES: dict[str, Change] = {
    "defaults": asking(),
    **{f"step {s:g}": (partial(with_step, s), lambda _: {}) for s in (0.35, 0.75, 1.0)},
    "no cut": (without_cut, lambda _: {}),
    **{f"quantile {q:g}": asking(clip_quantile=q) for q in (0.3, 0.5, 0.7, 0.9)},
}


def scores(case: Case, changes: dict[str, Change], seed: int) -> list[float]:
    """Return R^2 with each change."""
    make, parameters = case
    X, y, n = make(seed)
    found = []
    for change, asked in changes.values():
        model = DPTraceRegressor(**parameters, **asked(X), random_state=KEY + seed)
        with change():
            found.append(model.fit(X[:n], y[:n]).score(X[n:], y[n:]))
    return found


def row(name: str, case: Case, changes: dict[str, Change]) -> list[str]:
    values = np.array([scores(case, changes, seed) for seed in SEEDS])
    differences = np.median(values[:, 1:] - values[:, :1], axis=0)
    return [name, f"{np.median(values[:, 0]):.3f}", *(f"{value:+.3f}" for value in differences)]


def rows_of(cases: dict[str, Case], changes: dict[str, Change]) -> str:
    lines = [table(["", *changes], [])]
    print(lines[0])
    for name, case in cases.items():
        lines.append(line(row(name, case, changes)))
        print(lines[-1], flush=True)
    return "\n".join(lines)


def main() -> None:
    arguments = parser_for(__doc__, write="replace the tables of defaults.md").parse_args()
    ignore_drowned_signal()
    skipped = set(REAL) - set(at_hand_of(list(REAL)))
    cases = {name: case for name, case in CASES.items() if name not in skipped}
    parts = [TITLE, rows_of(cases, CHANGES)]
    if arguments.write:
        file = HERE / "defaults.md"
        said = file.read_text().partition(FINDINGS)[2] if file.exists() else ""
        file.write_text("\n\n".join(parts) + "\n" + FINDINGS + said)


if __name__ == "__main__":
    main()
