"""The tables of `personalization.py`, and what they are checked against."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.personalization.measures import (
    CELLS,
    EPSILONS,
    FEW_EPSILONS,
    FEW_ROWS,
    LEVEL_EPSILONS,
    METHODS,
    ORACLE,
    OURS,
    OWN_MEAN,
    REGIMES,
    RIDGE,
    ROW_COUNTS,
    SPREADS,
    ZERO,
    Cell,
    cells,
    levels,
    methods,
    row_counts,
    row_of_levels,
    variance_at,
    with_defaults,
    without_mean,
)
from benchmarks.report import Section, Values, mean_and_error, section_table, table, titled

__all__ = ["SECTIONS", "PersonalSection", "part"]

MOST_OVER_RIDGE, MOST_OF_ONE_SEED = 1.25, 2.0
REFERENCES = [ZERO, RIDGE, ORACLE]
# Of a risk, which has more digits then.
_SMALL = 0.01
ROWS = [str(regime) for regime in REGIMES]


@dataclass(frozen=True)
class PersonalSection(Section):
    """A table, and what is written of it."""

    shown: Callable[["PersonalSection", Values], str]
    n_seeds: int | None = None


def risks(section: PersonalSection, values: Values) -> str:
    return section_table(section, lambda key: _risk(values[key]) if key in values else "-")


def _risk(found: np.ndarray) -> str:
    return mean_and_error(found, 3 if found.mean() >= _SMALL else 5)


def checked(section: PersonalSection, values: Values) -> str:
    header = ["", RIDGE, OURS, "largest of a seed", "wanted", ""]
    return table(header, [_checked_row(cell, values) for cell in CELLS])


def _checked_row(cell: Cell, values: Values) -> list[str]:
    found, local = values[str(cell), OURS], values[str(cell), RIDGE]
    if cell.at_most is not None:
        holds = bool(found.mean() <= cell.at_most)
        wanted = f"{cell.at_most:g}"
    else:
        mean, largest = found.mean() / local.mean(), float(np.max(found / local))
        holds = bool(mean <= MOST_OVER_RIDGE and largest <= MOST_OF_ONE_SEED)
        wanted = (
            f"{MOST_OVER_RIDGE:g} of ridge, is {mean:.2f}; a seed {MOST_OF_ONE_SEED:g}, is "
            f"{largest:.2f}"
        )
    return [
        str(cell),
        mean_and_error(local, 3),
        mean_and_error(found, 3),
        f"{found.max():.3f}",
        wanted,
        "holds" if holds else "**misses**",
    ]


def part(section: PersonalSection, values: Values) -> str:
    return titled(section, section.text, section.shown(section, values))


SECTIONS = [
    PersonalSection(
        "methods",
        "Regimes and methods",
        'Epsilon 1. A dash: "altmin" would have a second moment of more than 200 rows.',
        "",
        ROWS,
        [*REFERENCES, *METHODS],
        methods,
        risks,
    ),
    PersonalSection(
        "epsilon",
        "Epsilon",
        "Defaults.",
        "",
        ROWS,
        [*REFERENCES, *(f"{epsilon:g}" for epsilon in EPSILONS)],
        with_defaults,
        risks,
    ),
    PersonalSection(
        "no mean",
        "Epsilon, without mean head and intercept",
        "`mean_head=False` and `fit_intercept=False`: right in all regimes but H.",
        "",
        ROWS,
        [*REFERENCES, *(f"{epsilon:g}" for epsilon in FEW_EPSILONS)],
        without_mean,
        risks,
    ),
    PersonalSection(
        "rows",
        "Rows of a user",
        "B, n 2000, with other numbers of rows; defaults.",
        "rows",
        [str(m) for m in ROW_COUNTS],
        [*REFERENCES, *(f"{epsilon:g}" for epsilon in FEW_EPSILONS)],
        row_counts,
        risks,
    ),
    PersonalSection(
        "levels",
        "Levels of users",
        '2000 users, d 20, k 2, s .5, intercepts of standard deviation "spread": the risk at '
        "epsilon 1, 8 and inf, and the released `intercept_variance_`, where spread squared is "
        'true. "Own mean" predicts the mean response of the user.',
        "",
        [row_of_levels(m, spread) for m in FEW_ROWS for spread in SPREADS],
        [
            ZERO,
            OWN_MEAN,
            *(f"{epsilon:g}" for epsilon in LEVEL_EPSILONS),
            *(variance_at(epsilon) for epsilon in LEVEL_EPSILONS),
        ],
        levels,
        risks,
    ),
    PersonalSection(
        "wanted", "What has to hold", "Means of 10 seeds.", "", [], [], cells, checked, n_seeds=10
    ),
]
