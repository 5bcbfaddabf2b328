"""Whether a larger budget is ever worse: each estimator on its tables, from epsilon .25 to inf.

Beside each stands its twin without privacy. Run

    SKDP_DATA=... python -m benchmarks.budgets.budgets            # some 20 minutes on two cores
    SKDP_DATA=... python -m benchmarks.budgets.budgets --write    # budgets.md and .png beside it

Without SKDP_DATA only tables of scikit-learn and made ones are used, and the others named.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed

from benchmarks.budgets.figure import draw
from benchmarks.budgets.rows import EPSILONS, ROWS, Fit, Row
from benchmarks.budgets.tables import at_hand_of
from benchmarks.report import need_two_seeds, parser_for, table

HERE = Path(__file__).parent
NAMES = [f"{epsilon:g}" for epsilon in EPSILONS]
# So much less than at the budget before is a fall, of accuracy and the like, and of log loss.
FALL, FALL_OF_LOSS = 0.005, 0.01
NEAR_TWIN, LARGE = 0.01, EPSILONS.index(256.0)
TITLE = f"""\
# A larger budget is never worse

Written by `python -m benchmarks.budgets.budgets --write`. Means of {{seeds}} fits a cell, defaults
everywhere, delta 1e-6; a quarter of the rows is held out of supervised fits. A w marks cells of
which more than half of the fits warn. Columns of `DPLogisticRegression` are standardized by looking
at them, which is not private; all others take the tables as they are. "Twin" is the same without
privacy: scikit-learn's, on standardized columns where there is a response, or for matrices and
personal models ours with `epsilon=inf`. "Captured" is the part of the squared length of the rows
that the components keep, "aligned" that of the true representation that is found. R2 counts as -1
where it is smaller.

A fall is a mean that is worse than at the budget before by more than {FALL} (log loss:
{FALL_OF_LOSS}), in a cell that is not warned of."""


class Line(NamedTuple):
    """One table of an estimator by one measure: means by budget, and what the twin has."""

    row: str
    table: str
    measure: str
    means: np.ndarray
    warned: np.ndarray
    twin: float

    @property
    def gains(self) -> np.ndarray:
        """Change from each budget to the next, better upwards, in units of what is a fall."""
        is_loss = self.measure == "log loss"
        return np.diff(self.means) * (-1 / FALL_OF_LOSS if is_loss else 1 / FALL)

    @property
    def falls(self) -> list[int]:
        """Places of budgets that are worse than the one before."""
        return [place for place in range(1, len(self.means)) if self.gains[place - 1] < -1]

    @property
    def cells(self) -> list[str]:
        marks = np.where(self.warned, "w", "")
        return [f"{mean:.3f}{mark}" for mean, mark in zip(self.means, marks, strict=True)]


def lines_of(row: Row, name: str, n_seeds: int) -> Iterator[Line]:
    fits: list[list[Fit]] = [
        [row.at(name, epsilon, seed) for seed in range(n_seeds)] for epsilon in EPSILONS
    ]
    twins = [row.without_privacy(name, seed) for seed in range(n_seeds)]
    warned = np.array([np.mean([fit.has_warned for fit in cell]) > 0.5 for cell in fits])
    for measure in twins[0]:
        means = np.array([np.mean([fit.values[measure] for fit in cell]) for cell in fits])
        twin = float(np.mean([values[measure] for values in twins]))
        yield Line(row.name, name, measure, means, warned, twin)


def all_lines(row_name: str, name: str, n_seeds: int) -> list[Line]:
    """Measure one table, in a process of its own: rows have functions that cannot be pickled."""
    (row,) = (row for row in ROWS if row.name == row_name)
    return list(lines_of(row, name, n_seeds))


def sections(lines: list[Line]) -> Iterator[str]:
    for row in dict.fromkeys(line.row for line in lines):
        own = [line for line in lines if line.row == row]
        yield f"## {row}"
        rows = [[line.table, line.measure, *line.cells, f"{line.twin:.3f}"] for line in own]
        yield table(["table", "measure", *NAMES, "twin"], rows)


def summary(lines: list[Line]) -> Iterator[str]:
    open_cells = [(line, place) for line in lines for place in range(1, len(EPSILONS))]
    open_cells = [(line, place) for line, place in open_cells if not line.warned[place]]
    falls = [(line, place) for line, place in open_cells if place in line.falls]
    yield "## Falls"
    yield f"{len(falls)} of {len(open_cells)} cells that are not warned of."
    rows = [
        [
            *(line.row, line.table, line.measure, NAMES[place - 1], NAMES[place]),
            *(f"{mean:.3f}" for mean in line.means[place - 1 : place + 1]),
        ]
        for line, place in falls
    ]
    yield table(["estimator", "table", "measure", "from", "to", "before", "after"], rows)
    yield "## Beside the twin, at epsilon 256"
    far = [line for line in lines if abs(line.means[LARGE] - line.twin) > NEAR_TWIN]
    yield f"{len(lines) - len(far)} of {len(lines)} lines are within {NEAR_TWIN} of the twin."
    rows = [
        [line.row, line.table, line.measure, f"{line.means[LARGE]:.3f}", f"{line.twin:.3f}"]
        for line in far
    ]
    yield table(["estimator", "table", "measure", "at 256", "twin"], rows)


def main() -> None:
    parser = parser_for(
        __doc__,
        seeds="fits of each cell, default 10",
        only="estimators with this in their name",
        write="replace budgets.md and budgets.png",
    )
    arguments = parser.parse_args()
    n_seeds = arguments.seeds or 10
    need_two_seeds(parser, n_seeds)
    chosen = [row for row in ROWS if arguments.only in row.name]
    pairs = [(row.name, name) for row in chosen for name in at_hand_of(list(row.tables))]
    found = Parallel(n_jobs=2)(delayed(all_lines)(*pair, n_seeds) for pair in pairs)
    lines = [line for several in found for line in several]
    page = "\n\n".join([TITLE.format(seeds=n_seeds), *summary(lines), *sections(lines)]) + "\n"
    if arguments.write:
        (HERE / "budgets.md").write_text(page)
        draw(lines, EPSILONS, HERE / "budgets.png")
    else:
        print(page)


if __name__ == "__main__":
    main()
