"""`DPStandardScaler` without bounds on narrow columns far from 0, with and without a zoom.

The offsets of `benchmarks/trace_regression/unlike.py`, years, and a column with a fifth of its rows
in a second place. Run

    python -m benchmarks.scaling.columns            # a minute on one core
    python -m benchmarks.scaling.columns --write    # columns.md beside it
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.report import ignore_drowned_signal, line, parser_for, table
from benchmarks.trace_regression.unlike import OFFSETS
from skdp import DPStandardScaler
from skdp.preprocessing import intervals, scales

HERE = Path(__file__).parent
N_SEEDS, SIZES, EPSILONS = 5, (20_000, 2_000), (0.25, 1.0, 4.0)
TITLE = """\
# Narrow columns far from 0

Written by `python -m benchmarks.scaling.columns --write`. The first column of each table, 5 fits:
median of the released scale and mean error of the released mean, both over the standard deviation
of the column. Without a zoom; with a single look; with looks whose visible bins hold .75 of the
rows; and with the rule of the package, .95 and, less one standard deviation of their noise, .85."""
COLUMNS = ["", "rows", "epsilon"] + [
    f"{what}, {rule}"
    for rule in ("no zoom", "one look", ".75", "the rule")
    for what in ("scale", "mean")
]


def years(random: np.random.Generator, n_rows: int) -> tuple[np.ndarray, None]:
    return 2000 + 5 * random.normal(size=(n_rows, 10)), None


def two_places(random: np.random.Generator, n_rows: int) -> tuple[np.ndarray, None]:
    X = random.normal(size=(n_rows, 6))
    is_other = random.random(n_rows) < 0.2
    X[:, 0] = np.where(is_other, 1500 + 30 * X[:, 0], 2000 + X[:, 0])
    return X, None


CASES: dict[str, Any] = {
    **{name: make for name, make in OFFSETS.items() if not name.startswith("responses")},
    "10 columns of years": years,
    "a fifth elsewhere": two_places,
}


def none_is_narrow(intervals: Any) -> np.ndarray:
    return np.zeros(len(intervals.half), dtype=bool)


def settings() -> Iterator[AbstractContextManager[Any]]:
    yield patch.object(scales, "are_narrow", none_is_narrow)
    yield patch.multiple(scales, N_ZOOMS=1, _ZOOMS=scales._ZOOMS[:2])
    yield patch.object(intervals, "_MOST", 0.75)
    yield nullcontext()


def row(name: str, n_rows: int, epsilon: float) -> list[str]:
    X, _ = CASES[name](np.random.default_rng(1), n_rows)
    mean, spread = X[:, 0].mean(), X[:, 0].std()
    cells = [name, f"{n_rows}", f"{epsilon:g}"]
    for setting in settings():
        with setting:
            scalers = [
                DPStandardScaler(epsilon=epsilon, random_state=2**100 + seed).fit(X)
                for seed in range(N_SEEDS)
            ]
        scale = np.median([scaler.scale_[0] for scaler in scalers])
        error = np.mean([abs(scaler.mean_[0] - mean) for scaler in scalers])
        cells += [f"{scale / spread:.3g}", f"{error / spread:.2g}"]
    return cells


def main() -> None:
    arguments = parser_for(__doc__, write="replace columns.md").parse_args()
    ignore_drowned_signal()
    lines = [table(COLUMNS, [])]
    print(lines[0])
    for name in CASES:
        for n_rows in SIZES:
            for epsilon in EPSILONS:
                lines.append(line(row(name, n_rows, epsilon)))
                print(lines[-1], flush=True)
    if arguments.write:
        (HERE / "columns.md").write_text("\n\n".join([TITLE, "\n".join(lines)]) + "\n")


if __name__ == "__main__":
    main()
