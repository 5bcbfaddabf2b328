"""Accuracy of private PCA beside published algorithms and other libraries.

Captured variance of k components over that of the best k, on digits and breast cancer of
scikit-learn and on the tables in the folder that the environment variable `SKDP_DATA` names.
Everybody gets the same rows of norm 1 (`tables.py`), the bound 1, neighbors that differ by
one row exchanged for another, and the same epsilon. delta is 1e-6, for the libraries 0.

- `DPTruncatedSVD`, for rows with a public center `DPPCA(center=False)`, with `solver="auto"` is
  compared with the best peer. The power solver stands beside it.
- The peers are ports of published algorithms (`peers/ports.py`), and diffprivlib and OpenDP in
  environments of their own (`peers/libraries.py` tells how). A fit of a library that takes longer
  than a limit is stopped, and what remains for the same table of rows is not tried.

    python -m benchmarks.pca.comparison --quick        # 2 seeds, bundled data, no libraries
    python -m benchmarks.pca.comparison --only adult   # tables with "adult" in their name
    python -m benchmarks.pca.comparison --write        # everything, to comparison.md and .png

All of it takes about half an hour on one core, and 3 GB.
"""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import issparse

from benchmarks.pca.peers.libraries import LIBRARIES, Library, NoAnswer, fitting
from benchmarks.pca.peers.ports import PORTS, top
from benchmarks.pca.tables import TABLES, Table, available
from benchmarks.report import (
    ignore_drowned_signal,
    line,
    mean_and_error,
    need_two_seeds,
    parser_for,
    seeds_asked_for,
    standard_error,
)
from skdp import DPPCA, DPTruncatedSVD

HERE = Path(__file__).parent
EPSILONS, DELTA = [0.1, 0.5, 1.0, 8.0], 1e-6
SEEDS = 20
# Printed here, hence good for repeatable tables and for nothing else.
KEY = 0x51D8E3B07FA94C62960C7E1B35D2A84F
OURS = {"skdp": "auto", "solver power": "power"}
PEERS = [*PORTS, *(library.name for library in LIBRARIES)]
COLUMNS = [*PEERS, *OURS]
LOST = "**LOST**"

CAPTION = """\
# Private PCA beside its peers

Written by `python -m benchmarks.pca.comparison --write`; drawn in `comparison.png`.

Captured variance of k components over that of the best k: mean of {seeds} seeds ± standard error.
All methods have the same rows, divided by their norm, the bound 1, and neighbors that differ by
one row exchanged for another. diffprivlib and OpenDP promise (epsilon, 0), all others (epsilon,
1e-6). "> {limit:g} s": a fit gave no answer in that time; the remaining seeds and larger epsilons
of the same data were not tried.

"skdp" is `DPTruncatedSVD`, for breast cancer and California housing, which have a public center,
`DPPCA`, with `solver="auto"`, which is "covariance" below 400 features; the power solver stands
beside it. "Better" and "lost" mean by more than two standard errors of the difference (s.e.),
"even" all between. The formula of "Analyze Gauss, classic" is proved for epsilon below 1.
"""

Measure = Callable[[np.ndarray], float]


@dataclass
class Cell:
    """Measures of one method on one table for one epsilon, and why there are no more of them."""

    values: np.ndarray = field(default_factory=lambda: np.empty(0))
    note: str = ""

    @property
    def mean(self) -> float:
        return float(self.values.mean())

    @property
    def error(self) -> float:
        return standard_error(self.values)

    def __str__(self) -> str:
        if len(self.values) < 2:
            return self.note or "–"
        # One digit of the error at least; close to 1, what is missing tells more.
        digits = int(np.clip(-np.floor(np.log10(max(self.error, 1e-6))), 4, 6))
        text = mean_and_error(self.values, digits)
        if self.mean > 0.999:
            text = f"1 − {1 - self.mean:.1e} ± {self.error:.0e}"
        return f"{text} ({len(self.values)} fits, then {self.note})" if self.note else text


def measure_of(moment: np.ndarray, k: int) -> Measure:
    """Return the measure: captured by the span of components, over what the best k capture."""
    most = np.vdot(top(moment, k) @ moment, top(moment, k))

    def measure(components: np.ndarray) -> float:
        basis = np.linalg.qr(components.T.astype(np.float64))[0]
        return float(np.vdot(moment @ basis, basis) / most)

    return measure


def of_ours(
    X: Any, table: Table, epsilon: float, solver: str, n_seeds: int, measure: Measure
) -> Cell:
    settings = {"epsilon": epsilon, "delta": DELTA, "row_norm": 1.0, "solver": solver}
    values = []
    for seed in range(n_seeds):
        settings["random_state"] = KEY + seed
        estimator = (
            DPPCA(table.n_components, center=False, **settings)
            if table.centered
            else DPTruncatedSVD(table.n_components, **settings)
        )
        values.append(measure(estimator.fit(X).components_))
    return Cell(np.array(values))


def of_port(
    moment: np.ndarray, table: Table, epsilon: float, name: str, n_seeds: int, measure: Measure
) -> Cell:
    values = [
        measure(
            PORTS[name](
                moment, table.n_components, epsilon, DELTA, np.random.default_rng([KEY, seed])
            )
        )
        for seed in range(n_seeds)
    ]
    return Cell(np.array(values))


def of_library(
    library: Library, X: Any, table: Table, n_seeds: int, limit: float, measure: Measure
) -> list[Cell]:
    """Return a cell for each epsilon."""
    cells = [Cell() for _ in EPSILONS]
    i = 0
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.npy"
        np.save(file, X.toarray() if issparse(X) else X)
        try:
            with fitting(library, file, table.n_components, limit) as components:
                for i, epsilon in enumerate(EPSILONS):
                    for seed in range(n_seeds):
                        value = measure(components(epsilon, seed))
                        cells[i].values = np.append(cells[i].values, value)
        except NoAnswer:
            for cell in cells[i:]:
                cell.note = f"> {limit:g} s"
    return cells


def cells_of(
    table: Table, X: Any, libraries: list[Library], n_seeds: int, limit: float
) -> dict[str, list[Cell]]:
    """Run all methods on one table; return cells by method, one for each epsilon."""
    moment = X.T @ X
    moment = moment.toarray() if issparse(moment) else moment
    measure = measure_of(moment, table.n_components)
    cells = {
        name: [of_port(moment, table, epsilon, name, n_seeds, measure) for epsilon in EPSILONS]
        for name in PORTS
    }
    for library in LIBRARIES:
        cells[library.name] = (
            of_library(library, X, table, n_seeds, limit, measure)
            if library in libraries
            else [Cell(note="not run") for _ in EPSILONS]
        )
    for name, solver in OURS.items():
        cells[name] = [of_ours(X, table, epsilon, solver, n_seeds, measure) for epsilon in EPSILONS]
    return cells


def verdict(cells: dict[str, Cell]) -> tuple[str, str]:
    """Name the best peer and say how the contender compares with it."""
    answered = [name for name in PEERS if len(cells[name].values) > 1]
    best = max(answered, key=lambda name: cells[name].mean)
    difference = cells["skdp"].mean - cells[best].mean
    error = max(np.hypot(cells["skdp"].error, cells[best].error), np.finfo(float).eps)
    word = "better" if difference > 2 * error else "even" if difference >= -2 * error else LOST
    return best, f"{word}, {difference / error:+.1f} s.e."


def lines_of(title: str, cells: dict[str, list[Cell]]) -> list[str]:
    lines = []
    for i, epsilon in enumerate(EPSILONS):
        at = {name: row[i] for name, row in cells.items()}
        values = [f"**{at[name]}**" if name == "skdp" else str(at[name]) for name in COLUMNS]
        lines.append(line([title if i == 0 else "", f"{epsilon:g}", *values, *verdict(at)]))
    return lines


def write(
    folder: Path, caption: str, lines: list[str], panels: dict[str, dict[str, list[Cell]]]
) -> None:
    # Needs matplotlib, which nothing else here does.
    from benchmarks.pca.figure import draw

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "comparison.md").write_text("\n".join([caption, *lines, ""]))
    draw(panels, EPSILONS, folder / "comparison.png")


def libraries_at_hand() -> list[Library]:
    for library in LIBRARIES:
        if not library.interpreter:
            print(f"{library.name} is not run: {library.variable} names no interpreter.")
    return [library for library in LIBRARIES if library.interpreter]


def tables_at_hand(only: str, bundled: bool) -> list[Table]:
    chosen = [table for table in TABLES if only in table.name and not (bundled and table.file)]
    for table in chosen:
        if not available(table):
            print(f"{table.name} is skipped: {table.file} is not where SKDP_DATA points to.")
    return [table for table in chosen if available(table)]


def main() -> None:
    parser = parser_for(
        __doc__,
        seeds=f"seeds of each cell, default {SEEDS}",
        only="tables with this in their name",
        quick="2 seeds, bundled data, no libraries",
    )
    parser.add_argument("--limit", type=float, default=20, help="seconds a library has for a fit")
    parser.add_argument(
        "--write", type=Path, nargs="?", const=HERE, help="folder of the files, default beside this"
    )
    arguments = parser.parse_args()
    n_seeds = seeds_asked_for(arguments, usual=SEEDS, quick=2)
    need_two_seeds(parser, n_seeds)
    tables = tables_at_hand(arguments.only, arguments.quick)
    if not tables:
        parser.error("no table is left to run")
    libraries = [] if arguments.quick else libraries_at_hand()
    complete = len(tables) == len(TABLES) and libraries == LIBRARIES and n_seeds >= SEEDS
    if arguments.write == HERE and not complete:
        parser.error(f"the committed table has all data, both libraries and {SEEDS} seeds")
    ignore_drowned_signal()

    headings = ["data", "epsilon", *COLUMNS, "best peer", "skdp against it"]
    lines, panels = [line(headings), line(["---"] * len(headings))], {}
    print("\n".join(lines), flush=True)
    for table in tables:
        X = table.rows()
        name = table.name.replace("_", " ")
        title = f"{name}, {X.shape[0]:,} × {X.shape[1]}, k = {table.n_components}"
        panels[title] = cells_of(table, X, libraries, n_seeds, arguments.limit)
        lines += lines_of(title, panels[title])
        print("\n".join(lines[-len(EPSILONS) :]), flush=True)
    lost = sum(LOST in text for text in lines)
    lines.append(f"\n{lost} of {len(panels) * len(EPSILONS)} cells lost to the best peer")
    print(lines[-1])
    if arguments.write:
        caption = CAPTION.format(seeds=n_seeds, limit=arguments.limit)
        write(arguments.write, caption, lines, panels)


if __name__ == "__main__":
    main()
