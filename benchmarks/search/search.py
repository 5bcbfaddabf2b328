r"""Ways to choose settings at the same total epsilon: none, private searches, and public rows.

`DPGridSearch` beside the defaults, the best candidate in hindsight, and scikit-learn's
`GridSearchCV` on few public rows, with and without `matched_noise`, and on the private rows. Run

    python -m benchmarks.search.search                  # 20 seeds, some 15 minutes on one core
    python -m benchmarks.search.search --quick          # 2 seeds
    python -m benchmarks.search.search --only captured  # tasks so named
    python -m benchmarks.search.search --write          # search.md beside it

California housing is looked for in the folder that the environment variable `SKDP_DATA` names, and
left out without it.
"""

import math
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.report import (
    Values,
    cases_asked_for,
    ignore_drowned_signal,
    mean_and_error,
    measured,
    need_two_seeds,
    parser_for,
    seeds_asked_for,
    table,
)
from benchmarks.search.designs import COLUMNS, HINDSIGHT, candidates_of, designs_of, measure
from benchmarks.search.tasks import TASKS, Task

HERE = Path(__file__).parent
SEEDS = 20

TITLE = """\
# Choosing settings within one budget

Written by `python -m benchmarks.search.search --write`. A cell is mean ± standard error of {}
seeds, unless it is said otherwise. Columns are epsilon; delta is 1e-6, one row may be replaced by
any other, and **each line spends the whole of it, and no more**. In every seed 80% of the rows are
private, 5% public (6% of the private ones), and the rest is what is tested on.

- *Default, no search*: one fit.
- *Best candidate in hindsight*: one fit; of all candidates the one with the best mean over the
  seeds. Nobody can know it before.
- *DPGridSearch*: choice and all fits are within the budget.
- *Public rows*: scikit-learn's `GridSearchCV` with 3 folds on the public rows, which costs nothing,
  and one fit of what it finds. It tries candidates at the epsilon of that fit, or at its noise
  (`matched_noise`).
- *GridSearchCV on private rows*: 5 folds and a last fit, each charged, at the epsilon with which
  all of them together are within the budget. Its scores, and hence its choice, are
  **not private** even so.

One fit of the same settings has the same noise in all lines.
"""
FINDINGS = """\
## What the tables say

Public rows at matched noise find what is next to the best candidate in hindsight, for nothing: the
squared residual is 522 at epsilon 1, where the best has 519 and the default 574; matrices have .26
instead of 1.87. They fail where few rows tell too little: the likelihood of some 60 images takes
too few components at epsilon 2 and 4, and only 6 of them are a zero, in the whole job at epsilon 1.
Without matched noise the same rows mislead: at epsilon 4 the rank of matrices remains wrong, and
digits have three times the error of the default.

A search that one fit serves is nearly free: from epsilon 1 on its number of components is as good
as the best in hindsight. At epsilon .5 it is no better than the default.

Where each candidate takes a fit, a search pays only if the default is wrong and the signal is
strong: three ranks of matrices from epsilon 2 on, where it is as good as hindsight, and the
components of the whole job, which have a third of the default's error at epsilon 2. Else it gains
little or nothing: candidates are judged with three times the noise of the last fit, so that the
simplest wins, such as rank 1, or none stands out, as in the whole job at epsilon 4. With 20 fits
less than a third of the budget is left for the last one: of California housing, where noise matters
little, they are as good as three, elsewhere worse. `DPGridSearch` warns of more than five.

GridSearchCV on private rows loses most at nearly every epsilon, up to five times the error of the
default, and its choice is not private. At epsilon 4 it comes near, and is better with matrices
only.
"""


def measured_by(task: Task, values: Values, loss: str) -> str:
    """Tabulate what the models of all designs lose, to four digits of the largest."""

    def _errors(design: str, column: str) -> np.ndarray:
        named = candidates_of(task) if design == HINDSIGHT else [design]
        found = [values[name, f"{loss}, {column}"] for name in named]
        return min(found, key=np.mean)

    cells = {row: [_errors(row, column) for column in COLUMNS] for row in designs_of(task)}
    largest = max(errors.mean() for row in cells.values() for errors in row)
    digits = max(0, 4 - math.ceil(math.log10(largest)))
    rows = [[row, *(mean_and_error(cell, digits) for cell in cells[row])] for row in cells]
    return table(["", *COLUMNS], rows)


def part(task: Task, values: Values, n_seeds: int) -> str:
    seeds = f" {n_seeds} seeds." if task.n_seeds else ""
    parts = [f"## {task.title}", f"{task.text}{seeds}"]
    for loss in [*task.others, task.loss]:
        parts += [f"{loss}:", measured_by(task, values, loss)]
    return "\n\n".join(parts)


def main() -> None:
    parser = parser_for(
        __doc__,
        seeds=f"seeds of each cell, default {SEEDS}",
        only="tasks with this in their name",
        quick="2 seeds",
        write="replace search.md",
    )
    arguments = parser.parse_args()
    n_seeds = seeds_asked_for(arguments, usual=SEEDS, quick=2)
    need_two_seeds(parser, n_seeds)
    tasks = cases_asked_for(parser, arguments, TASKS, n_seeds=n_seeds, usual=SEEDS)
    ignore_drowned_signal()

    parts = []
    for task in tasks:
        print(f"{task.name} ...", flush=True)
        n_measured = min(n_seeds, task.n_seeds or n_seeds)
        values = measured(partial(measure, task), n_measured)
        parts.append(part(task, values, n_measured))
        print(parts[-1], flush=True)
    if arguments.write:
        text = "\n\n".join([TITLE.format(n_seeds).rstrip(), *parts, FINDINGS])
        (HERE / "search.md").write_text(text)


if __name__ == "__main__":
    main()
