"""All estimators on real tables and odd designs, beside their twins without privacy and no model.

The data are not in the checkout. Run

    export SKDP_DATA=... OPENBLAS_NUM_THREADS=1
    python -m benchmarks.sweep.sweep run FILE                   # some 6 minutes on one core
    python -m benchmarks.sweep.sweep run FILE --jobs regression,rare --epsilons 1,256 --reps 2
    python -m benchmarks.sweep.sweep report FILE                # and what is worst
    python -m benchmarks.sweep.sweep report FILE --before OTHER # and what got better or worse
    python -m benchmarks.sweep.sweep report FILE --write        # sweep.md beside this file

FILE has a line of JSON for each score; `run` adds lines. Without SKDP_DATA the jobs on tables are
skipped, and named. `tables.py` names the tables, `measures.py` says what counts as what.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from benchmarks.data import file_at_hand
from benchmarks.report import table
from benchmarks.sweep import designs, measures, on_tables, tables
from benchmarks.sweep.measures import Cells, Fit
from skdp import PrivacyWarning

HERE = Path(__file__).parent
EPSILONS, N_REPS = (0.25, 1.0, 4.0, 16.0, 256.0), 3
ON_TABLES = {
    "regression": (on_tables.regression, tables.REGRESSION),
    "classes": (on_tables.classes, tables.CLASSES),
    "components": (on_tables.components, tables.COMPONENTS),
}
DESIGNS = {
    job.__name__: job
    for job in (designs.far, designs.images, designs.rare, designs.entries, designs.people)
}
JOBS = [*ON_TABLES, *DESIGNS]
# Graphs differ more than splits do: that many times the repetitions.
MORE = {"entries": 3}
TITLE = """\
# All estimators on real tables and odd designs

Written by `python -m benchmarks.sweep.sweep report FILE --write`, of results at {version}. Means of
{reps} repetitions, defaults, delta 1e-6; of "regression", "images", "rare" and "people" R2 on new
rows, of "classes" the AUC and minus the log loss, of "components" and "far" the part of the best
variance that is explained, of "entries" the length of a graph and minus the squared error of
ratings. A score counts as 1 below no model at least. "x1.5" and "x4" are bounds that are so many
times as far apart as the observed ends, rounded; "twin" is scikit-learn, or another fit without
privacy.

A cell is a case in a mode at one epsilon. *Silent*: scores .02 worse than no model, without a
warning. *False alarms*: scores within .01 of the twin, with a warning; in brackets, of how many.
*Below*: cells .05 worse than no model. *Falls*: cells that a larger epsilon makes worse, by more
than .01 and two standard errors, and leaves behind the twin. *Misses*: cells .01 behind the twin at
epsilon 256. *No model*: cells with refused fits, or scores within .01 of no model's, where the
twin is .1 better than that. A fit of classes counts twice, by its AUC and by its log loss.

Few rows decide the twin of two tables of "components": one of page_blocks, which has nine tenths of
the variance of a column, and eleven of ailerons, where seven columns differ from 0 in five rows at
most. Privacy hides them at any of these budgets: without the row and the columns, nothing is missed
at epsilon 256."""


# ------------------------------
# Run.


def units_of(jobs: list[str], chosen: list[str], reps: range) -> Iterator[tuple[str, str, int]]:
    """Yield what one process does at a time: a job, its table, and the repetition."""
    for job in jobs:
        for name in names_of(job, chosen):
            for rep in range(reps.start, reps.start + len(reps) * MORE.get(job, 1)):
                yield job, name, rep


def names_of(job: str, chosen: list[str]) -> list[str]:
    """Return the tables of a job that are at hand; a design has a single name, which is empty."""
    if job not in ON_TABLES:
        return [""]
    names = chosen or list(ON_TABLES[job][1])
    found = [name for name in names if file_at_hand(f"{name}.npz")]
    if missing := [name for name in names if name not in found]:
        print(f"{job} skips {', '.join(missing)}: SKDP_DATA names no folder that has these files.")
    return found


def measured(job: str, name: str, rep: int, epsilons: tuple[float, ...]) -> list[Fit]:
    tasks = ON_TABLES[job][0](name, rep) if job in ON_TABLES else DESIGNS[job](rep)
    found = []
    for task in tasks:
        for epsilon in epsilons:
            scores, *rest = attempted(task.fit, epsilon)
            # A fit that is refused scores as no model.
            for measure, score in (scores or task.trivial).items():
                key = job, task.case, task.mode + measure, epsilon, rep
                twin, trivial = float(task.twin[measure]), float(task.trivial[measure])
                found.append(Fit(*key, float(score), twin, trivial, *rest))
    return found


def attempted(fit: Callable[[float], Any], epsilon: float) -> tuple[Any, list[str], str, float]:
    """Return scores or None, the lines of all warnings, an error, and the seconds that it took."""
    began, scores, error = time.perf_counter(), None, ""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            scores = fit(epsilon)
        except Exception as spec:
            error = f"{type(spec).__name__}: {spec}"[:200]
    texts = [str(one.message) for one in caught if issubclass(one.category, PrivacyWarning)]
    said = sorted({text for several in texts for text in several.split("\n")})
    return scores, said, error, round(time.perf_counter() - began, 2)


def run(arguments: argparse.Namespace) -> None:
    reps = range(arguments.first, arguments.first + arguments.reps)
    units = list(units_of(arguments.jobs, arguments.tables, reps))
    works = (delayed(measured)(*unit, arguments.epsilons) for unit in units)
    several = Parallel(n_jobs=arguments.processes, return_as="generator_unordered")(works)
    with arguments.file.open("a") as file:
        for fits in several:
            file.writelines(json.dumps(fit._asdict()) + "\n" for fit in fits)
            file.flush()


# ------------------------------
# Report.


def of_job(cells: Cells, job: str) -> Cells:
    return {key: cell for key, cell in cells.items() if key[0] == job}


def summary(job: str, cells: Cells) -> list[object]:
    """Count failures of all kinds, for the first table."""
    fits = [fit for cell in cells.values() for fit in cell.fits]
    worth = [cell for cell in cells.values() if measures.is_worth_a_model(cell)]
    without = sum(map(measures.has_no_model, worth))
    alarms, good = sum(fit.is_false_alarm for fit in fits), sum(fit.is_good for fit in fits)
    return [
        *(job, len(fits), len(cells), sum(bool(fit.error) for fit in fits)),
        sum(fit.is_silent_failure for fit in fits),
        f"{alarms} ({good})",
        sum(map(measures.is_below, cells.values())),
        len(measures.falls(cells)),
        sum(map(measures.is_miss, cells.values())),
        f"{without} of {len(worth)}",
    ]


def means(cells: Cells) -> str:
    """Write the mean over the cases, for each mode and epsilon."""
    epsilons = sorted({key[3] for key in cells})
    rows = []
    for mode in dict.fromkeys(key[2] for key in cells):
        own = {key: cell for key, cell in cells.items() if key[2] == mode}
        at = [[cell.mean for key, cell in own.items() if key[3] == epsilon] for epsilon in epsilons]
        twins = {key[1]: cell.twin for key, cell in own.items()}
        trivials = {key[1]: cell.trivial for key, cell in own.items()}
        numbers = [*map(np.mean, at), *(np.mean(list(one.values())) for one in (twins, trivials))]
        rows.append([mode, *(f"{number:.3f}" for number in numbers)])
    return table(["mode", *(f"{epsilon:g}" for epsilon in epsilons), "twin", "no model"], rows)


def page(cells: Cells) -> Iterator[str]:
    """Write all tables: failures by job, warnings, and the means of each job."""
    jobs = list(dict.fromkeys(key[0] for key in cells))
    header = ["job", "scores", "cells", "errors", "silent", "false alarms", "below", "falls"]
    rows = [summary(job, of_job(cells, job)) for job in jobs]
    yield table([*header, "misses", "no model"], rows)
    yield "## Warnings"
    yield (
        "How often a warning came with a score within .01 of the twin, which makes it a false "
        "alarm, and\nhow often with others; and the median distance to the twin where it came."
    )
    fits = [fit for cell in cells.values() for fit in cell.fits]
    good = measures.good_by_each_score(fits)
    told = sum(bool(fit.said) for fit in good)
    yield f"{len(good)} fits are good by each of their scores, and {told} of them warn."
    yield table(
        ["warning", "good", "others", "false", "distance"],
        [
            [
                *(one.text, one.good, one.others),
                f"{one.good / (one.good + one.others):.0%}",
                f"{one.distance:.3f}",
            ]
            for one in measures.counts_of_warnings(fits)
        ],
    )
    for job in jobs:
        yield f"## {job}"
        yield means(of_job(cells, job))


def details(cells: Cells, before: Cells) -> Iterator[str]:
    """Name the worst scores and cells of each job, and those that have changed most."""
    for job in dict.fromkeys(key[0] for key in cells):
        own = of_job(cells, job)
        silent = [
            (fit.score - fit.trivial, f"{cell.name}: {fit.score:.3g}, no model {fit.trivial:.3g}")
            for cell in own.values()
            for fit in cell.fits
            if fit.is_silent_failure
        ]
        below, misses, without = (
            [
                (cell.mean - cell.twin, f"{cell.name}: {cell.mean:.3f}, twin {cell.twin:.3f}")
                for cell in own.values()
                if is_so(cell)
            ]
            for is_so in (
                measures.is_below,
                measures.is_miss,
                lambda cell: measures.is_worth_a_model(cell) and measures.has_no_model(cell),
            )
        )
        changed = measures.changes(before, own)
        found = {
            "silent failures": silent,
            "cells below no model": below,
            "falls": measures.falls(own),
            "misses": misses,
            "cells with no model": without,
            "worse than before": [one for one in changed if one[0] < 0],
            "better than before": [(-change, text) for change, text in changed if change > 0],
        }
        yield f"## {job}"
        for what, several in found.items():
            yield f"{what}: {len(several)}" + "".join(
                f"\n  {one}" for _, one in sorted(several)[:6]
            )


def report(arguments: argparse.Namespace) -> None:
    cells = measures.cells_of(measures.read(arguments.file))
    before = measures.cells_of(measures.read(arguments.before)) if arguments.before else {}
    print("\n\n".join(page(cells)))
    print("\n".join(["", "# The worst", *details(cells, before)]))
    if arguments.write:
        reps = len({fit.rep for cell in cells.values() for fit in cell.fits if fit.job not in MORE})
        title = TITLE.format(version=arguments.version, reps=reps)
        (HERE / "sweep.md").write_text("\n\n".join([title, *page(cells)]) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    running = commands.add_parser("run", help="add results to a file")
    running.add_argument("file", type=Path)
    running.add_argument("--jobs", type=lambda text: text.split(","), default=JOBS)
    running.add_argument("--tables", type=lambda text: text.split(","), default=[])
    running.add_argument(
        "--epsilons", type=lambda text: tuple(map(float, text.split(","))), default=EPSILONS
    )
    running.add_argument("--reps", type=int, default=N_REPS)
    running.add_argument("--first", type=int, default=0, help="number of the first repetition")
    running.add_argument("--processes", type=int, default=1)
    running.set_defaults(act=run)
    reporting = commands.add_parser("report", help="print what results say")
    reporting.add_argument("file", type=Path)
    reporting.add_argument("--before", type=Path, help="results to compare with")
    reporting.add_argument("--write", action="store_true", help="replace sweep.md")
    reporting.add_argument("--version", default="this commit", help="where the results are from")
    reporting.set_defaults(act=report)
    arguments = parser.parse_args()
    arguments.act(arguments)


if __name__ == "__main__":
    main()
