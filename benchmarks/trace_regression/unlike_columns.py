"""`DPTraceRegressor` on random tables of unlike columns: is there a bad fit without a warning?

The tables of `tests/linear_model/unlike_columns.py`: spikes, long tails, nearly collinear columns,
integers, dates, rare ones, in units and at offsets of any size. Defaults, R^2 on fresh records. Run

    python -m benchmarks.trace_regression.unlike_columns            # some 5 minutes on one core
    python -m benchmarks.trace_regression.unlike_columns --write    # unlike_columns.md beside it
"""

import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.report import line, parser_for, table
from skdp import DPTraceRegressor

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "tests" / "linear_model"))

from unlike_columns import linear_tails, random_table, spiked_columns  # noqa: E402

SEEDS = range(50)
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
TITLE = """\
# Random tables of unlike columns

Written by `python -m benchmarks.trace_regression.unlike_columns --write`. 50 tables of a kind, one
fit of each with defaults: R² on fresh records, fits below 0, and how many of these did not warn.
The random tables have 3 to 24 columns and 7,500 records to fit, the others 6 or 26 and 11,000."""
CASES: dict[str, tuple[Callable[[int], Any], int]] = {
    "random": (random_table, 7_500),
    "spiked, collinear": (spiked_columns, 11_000),
    "spiked": (partial(spiked_columns, collinear=False), 11_000),
    "linear in long tails": (linear_tails, 11_000),
}
COLUMNS = ["", "epsilon", "no privacy", "median", "third least", "least", "below 0", "silently"]


def fitted(X: np.ndarray, y: np.ndarray, n_fitted: int, epsilon: float, seed: int) -> Any:
    """Return the R^2 of a fit and whether a warning told."""
    model = DPTraceRegressor(epsilon=epsilon, random_state=2**100 + seed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X[:n_fitted], y[:n_fitted])
    return model.score(X[n_fitted:], y[n_fitted:]), bool(caught)


def rows(name: str, make: Callable[[int], Any], n_fitted: int) -> list[list[str]]:
    found: dict[float, list[Any]] = {epsilon: [] for epsilon in EPSILONS}
    best = []
    for seed in SEEDS:
        X, y = make(seed)
        usual = make_pipeline(StandardScaler(), LinearRegression()).fit(X[:n_fitted], y[:n_fitted])
        best.append(usual.score(X[n_fitted:], y[n_fitted:]))
        for epsilon in EPSILONS:
            found[epsilon].append(fitted(X, y, n_fitted, epsilon, seed))
    return [
        [name, f"{epsilon:g}", f"{np.median(best):.3f}", *told(found[epsilon])]
        for epsilon in EPSILONS
    ]


def told(results: list[Any]) -> list[str]:
    scores, warned = (np.array(values) for values in zip(*results, strict=True))
    least, _, third = np.sort(scores)[:3]
    is_bad = scores < 0
    return [
        *(f"{value:.3f}" for value in (np.median(scores), third, least)),
        f"{is_bad.sum()}",
        f"{(is_bad & ~warned).sum()}",
    ]


def main() -> None:
    parser = parser_for(__doc__, write="replace unlike_columns.md")
    arguments = parser.parse_args()
    lines = [table(COLUMNS, [])]
    print(lines[0])
    for name, (make, n_fitted) in CASES.items():
        for row in rows(name, make, n_fitted):
            lines.append(line(row))
            print(lines[-1], flush=True)
    if arguments.write:
        (HERE / "unlike_columns.md").write_text("\n\n".join([TITLE, "\n".join(lines)]) + "\n")


if __name__ == "__main__":
    main()
