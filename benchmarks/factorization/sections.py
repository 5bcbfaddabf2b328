"""The tables of `factorization.py`, and what they are checked against."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.factorization.measures import (
    BEST,
    EPSILON_NAMES,
    EPSILONS,
    EPSILONS_OF_RATINGS,
    MATRICES,
    MEGABYTES,
    METHODS,
    RANKS,
    RATING_NAMES,
    SECONDS,
    SHARES,
    SOLVERS,
    TIME_NAMES,
    USUAL,
    WARNED,
    ZERO,
    by_epsilon,
    epsilons,
    grid,
    in_time,
    row_in_time,
    row_of_ratings,
)
from benchmarks.report import (
    Key,
    Section,
    Values,
    mean_and_error,
    section_table,
    table,
    titled,
)

__all__ = ["SECTIONS", "FactorSection", "captured", "part", "warnings_table"]

LARGEST_OVER_ZERO, LARGEST_OVER_SOLVERS = 1.15, 1.05
# Rounding of an error: the zero matrix is not worse than itself.
ROUNDING = 1e-9
GOOD = 0.9

Cell = Callable[[Values, Key], str]


@dataclass(frozen=True)
class FactorSection(Section):
    """A table, what its cells say, what comes below it, and whether its data are elsewhere."""

    cell: Cell
    below: Callable[["FactorSection", Values], list[str]]
    needs_folder: bool = False
    counts_warnings: bool = True


def relative(values: Values, key: Key) -> np.ndarray:
    return values[key] / values[key[0], ZERO]


def captured(values: Values, key: Key) -> np.ndarray:
    """How much a fit explains, of what the best matrix of that rank does."""
    squares = {name: values[key[0], name] ** 2 for name in (key[1], ZERO, BEST)}
    return (squares[ZERO] - squares[key[1]]) / (squares[ZERO] - squares[BEST])


def error_cell(values: Values, key: Key) -> str:
    return mean_and_error(values[key], 0)


def relative_cell(values: Values, key: Key) -> str:
    return mean_and_error(relative(values, key), 3)


def captured_cell(values: Values, key: Key) -> str:
    return mean_and_error(captured(values, key), 3)


def costs(section: FactorSection, values: Values) -> list[str]:
    """Tabulate the seconds and the megabytes of a fit."""
    measured_rows = [row for row in section.rows if (row, ZERO) in values]
    rows = [[row, *(_cost(values, row, name) for name in METHODS)] for row in measured_rows]
    return [
        "Time of a fit on one core, and the most memory that it takes beside the matrix, as Python "
        "traces it. Streams read 100 rows at a time, and need no matrix.",
        table([section.corner, *METHODS], rows),
    ]


def _cost(values: Values, row: str, name: str) -> str:
    seconds, size = values[row, name + SECONDS].mean(), values[row, name + MEGABYTES][0]
    return f"{seconds:.2f} s, {size:.0f} MB"


def over_zero(section: FactorSection, values: Values) -> str:
    fitted = [name for name in section.columns if name not in (ZERO, BEST)]
    keys = [(row, name) for row in section.rows for name in fitted]
    worst = max(keys, key=lambda key: float(relative(values, key).mean()))
    number = float(relative(values, worst).mean())
    result = "holds" if number <= LARGEST_OVER_ZERO else "**misses**"
    return (
        f"- No mean error above {LARGEST_OVER_ZERO:g} times that of the zero matrix: at most "
        f"{number:.3f} ({worst[1]}; {section.corner or 'row'} {worst[0]}): {result}."
    )


def auto_over_solvers(section: FactorSection, values: Values) -> str:
    def ratio(row: str) -> float:
        return float(values[row, "auto"].mean() / min(values[row, s].mean() for s in SOLVERS))

    worst = max(section.rows, key=ratio)
    result = "holds" if ratio(worst) <= LARGEST_OVER_SOLVERS else "**misses**"
    return (
        f'- Mean error of "auto" at most {LARGEST_OVER_SOLVERS:g} times that of the better of '
        f"{' and '.join(SOLVERS)}: at most {ratio(worst):.3f} ({section.corner or 'row'} "
        f"{worst}): {result}."
    )


def checks(section: FactorSection, values: Values) -> list[str]:
    return ["\n".join([over_zero(section, values), auto_over_solvers(section, values)])]


def zero_check(section: FactorSection, values: Values) -> list[str]:
    return [over_zero(section, values)]


def part(section: FactorSection, values: Values) -> str:
    # A quick run leaves out rows.
    tabulated = section_table(
        section, lambda key: section.cell(values, key) if key in values else ""
    )
    return titled(section, section.text, tabulated, *section.below(section, values))


def warnings_table(results: dict[str, Values]) -> str:
    """Count, for each way and section, what fits captured and whether they warned."""
    rows = []
    for section in SECTIONS:
        if not section.counts_warnings or section.name not in results:
            continue
        found = results[section.name]
        for name in section.columns:
            if (section.rows[0], name + WARNED) in found:
                rows.append([f"{section.name}, {name}", *_counts(section, found, name)])
    header = ["", "fits", "worse than zero", "... silent", f"captures {GOOD:g}", "... warned"]
    return table(header, rows)


def _counts(section: FactorSection, values: Values, name: str) -> list[int]:
    warned = np.concatenate([values[row, name + WARNED] for row in section.rows]) > 0
    found = np.concatenate([captured(values, (row, name)) for row in section.rows])
    lost, good = found < -ROUNDING, found >= GOOD
    counts = (lost, lost & ~warned, good, good & warned)
    return [len(found), *(int(np.sum(each)) for each in counts)]


SECTIONS: list[FactorSection] = [
    FactorSection(
        "grid",
        "Matrices",
        "Errors as Frobenius norms, at epsilon 1 and delta 1e-6. Beside m, n and the rank: the "
        "smallest and the largest singular value of the signal, and the size of the noise that is "
        "part of the matrix.",
        "",
        [str(matrix) for matrix in MATRICES],
        [ZERO, BEST, *METHODS],
        grid,
        error_cell,
        costs,
        # None of them is hard.
        counts_warnings=False,
    ),
    FactorSection(
        "epsilon",
        "Epsilon",
        f"Errors over the norm of the matrix, {USUAL}: 1 is that of the zero matrix.",
        "epsilon",
        [f"{epsilon:g}" for epsilon in EPSILONS],
        [BEST, *EPSILON_NAMES],
        epsilons,
        relative_cell,
        checks,
    ),
    FactorSection(
        "ratings",
        "MovieLens, ratings that are withdrawn",
        "What is captured after 110,000 updates: 100,000 ratings from 1 to 5 of 943 users of 1682 "
        "films in a random order, of which one in ten is taken back at a random later time. "
        "Delta 1e-8. The unit is what a cell finally holds, `Entry((1, 5))`, with 0 for no rating: "
        "a step of 5. Epsilon inf is without noise.",
        "",
        [row_of_ratings(k, epsilon) for k in RANKS for epsilon in (*EPSILONS_OF_RATINGS, np.inf)],
        RATING_NAMES,
        by_epsilon,
        captured_cell,
        checks,
        needs_folder=True,
    ),
    FactorSection(
        "time",
        "The same in the course of time",
        "Epsilon 8. Streams that end after a part of the updates, each with a budget of its own, "
        "and what they capture of the matrix as it is then.",
        "",
        [row_in_time(k, share) for k in RANKS for share in SHARES],
        TIME_NAMES,
        in_time,
        captured_cell,
        zero_check,
        needs_folder=True,
    ),
]
