"""Numbers by which clipping in a `DPTraceRegressor` follows the budget, each halved and doubled.

Run

    SKDP_DATA=... python -m benchmarks.budgets.clipping            # some 10 minutes on one core
    SKDP_DATA=... python -m benchmarks.budgets.clipping --write    # clipping.md beside it

Without SKDP_DATA only made tables are used, and the others named.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.budgets.rows import KEY, ROWS, Row
from benchmarks.budgets.tables import RESPONSES, at_hand_of, table_of
from benchmarks.report import (
    ignore_drowned_signal,
    line,
    need_two_seeds,
    parser_for,
    standard_error,
    table,
)
from skdp import DPTraceRegressor
from skdp.linear_model.low_rank import fit as trace_fit
from skdp.linear_model.low_rank import plan as trace_plan

HERE = Path(__file__).parent
EPSILONS = (0.5, 1.0, 16.0, 256.0)
TABLES = [name for name in RESPONSES if name != "blog"]
NUMBERS: list[tuple[Any, str, tuple[float, float]]] = [
    (trace_fit, "_WANTED_BIAS", (20.0, 80.0)),
    (trace_fit, "_LEAST_CLIPPED", (0.5e-4, 2e-4)),
    (trace_plan, "_CLIP", (0.65, 2.6)),
    (trace_plan, "_LEAST_CLIPPED", (1 / 512, 1 / 128)),
    (trace_plan, "_WANTED_NOISE", (0.05, 0.2)),
]
TITLE = """\
# How clipping follows the budget in a trace regression of rows of features

Written by `python -m benchmarks.budgets.clipping --write`. R2 on a held-out quarter of the rows, of
`DPTraceRegressor` with defaults, on the tables of `benchmarks/budgets/tables.py`: means of
{seeds} splits. Each number is halved and doubled, alone; those after ± are standard errors, of the
default. The noise differs from line to line. `_WANTED_BIAS` and `_LEAST_CLIPPED` of `trace_fit.py`
decide how many gradients are clipped, the others where rows are clipped for their covariance:
`_CLIP` is the least level and `_LEAST_CLIPPED` the inverse square of the highest one, and
`_WANTED_NOISE` what the noise may be between them."""


def settings() -> Iterator[tuple[list[str], AbstractContextManager[Any]]]:
    yield ["all", "the default"], nullcontext()
    for module, name, others in NUMBERS:
        where = f"`{name}` in `{module.__name__.rpartition('.')[2]}.py`"
        for value in others:
            yield [where, f"{value:.4g}"], patch.object(module, name, value)


def scores_of(row: Row, name: str, epsilon: float, n_seeds: int) -> np.ndarray:
    scores = []
    for seed in range(n_seeds):
        data = row.split(table_of(row.tables[name]), seed)
        model = row.make(epsilon, KEY + seed, data).fit(*data[0])
        scores.append(row.measure(model, data)["R2"])
    return np.array(scores)


def section(row: Row, names: list[str], epsilon: float, n_seeds: int) -> Iterator[str]:
    yield table(["number", "value", *names], [])
    for number, (start, setting) in enumerate(settings()):
        with setting:
            found = [scores_of(row, name, epsilon, n_seeds) for name in names]
        errors = [f" ± {standard_error(scores):.3f}" if number == 0 else "" for scores in found]
        cells = [f"{one.mean():.3f}{error}" for one, error in zip(found, errors, strict=True)]
        yield line([*start, *cells])


def main() -> None:
    parser = parser_for(
        __doc__, seeds="splits of each cell, default 5", write="replace clipping.md"
    )
    arguments = parser.parse_args()
    n_seeds = arguments.seeds or 5
    need_two_seeds(parser, n_seeds)
    ignore_drowned_signal()
    (row,) = (row for row in ROWS if row.name == "DPLinearRegression")
    # Rows of features are matrices of one column.
    row = replace(
        row, make=lambda epsilon, key, _: DPTraceRegressor(epsilon=epsilon, random_state=key)
    )
    names, blocks = at_hand_of(TABLES), [TITLE.format(seeds=n_seeds)]
    for epsilon in EPSILONS:
        lines = []
        for text in section(row, names, epsilon, n_seeds):
            print(text, flush=True)
            lines.append(text)
        blocks += [f"## Epsilon {epsilon:g}", "\n".join(lines)]
    if arguments.write:
        (HERE / "clipping.md").write_text("\n\n".join(blocks) + "\n")


if __name__ == "__main__":
    main()
