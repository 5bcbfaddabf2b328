"""What the results of the sweep say: cells, failures that nobody is warned of, falls, misses."""

import gzip
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from textwrap import shorten
from typing import NamedTuple

import numpy as np

__all__ = [
    "Cell",
    "Cells",
    "Fit",
    "WarningCounts",
    "cells_of",
    "changes",
    "counts_of_warnings",
    "falls",
    "good_by_each_score",
    "has_no_model",
    "is_below",
    "is_miss",
    "is_worth_a_model",
    "read",
]

# A score that is so near to its twin's is good; so much worse than no model, a failure of a fit, or
# of a cell; so near to no model's, no model; a twin that is so much better than it, worth a model.
NEAR_TWIN, FAILURE, BELOW, NO_MODEL, WORTH = 0.01, 0.02, 0.05, 0.01, 0.1
# One table must not make a mean: scores count as so much worse than no model at most.
WORST = 1.0
LARGE = 256.0
Key = tuple[str, str, str, float]


class Fit(NamedTuple):
    """One score of a fit, as a line of the file of results has it."""

    job: str
    case: str
    mode: str
    epsilon: float
    rep: int
    score: float
    twin: float
    trivial: float
    said: list[str]
    error: str
    seconds: float

    @property
    def key(self) -> Key:
        return self.job, self.case, self.mode, self.epsilon

    @property
    def clipped(self) -> float:
        return max(self.score, self.trivial - WORST)

    @property
    def is_good(self) -> bool:
        return self.score > self.twin - NEAR_TWIN

    @property
    def is_silent_failure(self) -> bool:
        return not (self.said or self.error) and self.score < self.trivial - FAILURE

    @property
    def is_false_alarm(self) -> bool:
        return bool(self.said) and self.is_good


class Cell(NamedTuple):
    """The fits of a case in a mode at an epsilon, one for each repetition."""

    fits: list[Fit]

    @property
    def mean(self) -> float:
        return float(np.mean([fit.clipped for fit in self.fits]))

    @property
    def error(self) -> float:
        """Standard error of the mean."""
        spread = np.std([fit.clipped for fit in self.fits])
        return float(spread / max(len(self.fits) - 1, 1) ** 0.5)

    @property
    def twin(self) -> float:
        """Mean of the twins of these fits, which have rows of their own."""
        return float(np.mean([fit.twin for fit in self.fits]))

    @property
    def trivial(self) -> float:
        return self.fits[0].trivial

    @property
    def name(self) -> str:
        _, case, mode, epsilon = self.fits[0].key
        return f"{case}, {mode}, {epsilon:g}"


Cells = dict[Key, Cell]


def read(file: Path) -> Iterator[Fit]:
    """Read results, one in a line; a name that ends with .gz is that of a compressed file."""
    with gzip.open(file, "rt") if file.suffix == ".gz" else file.open() as lines:
        for text in lines:
            yield Fit(**json.loads(text))


def cells_of(fits: Iterable[Fit]) -> Cells:
    found = defaultdict(list)
    for fit in fits:
        found[fit.key].append(fit)
    return {key: Cell(several) for key, several in found.items()}


def good_by_each_score(fits: Iterable[Fit]) -> list[Fit]:
    """Return one score of each fit that is near its twin by all of its scores.

    A fit of classes has two. Where a twin overfits, the log loss of a fit that ranks nothing is as
    good as its, and the warning of this fit is right.
    """
    found = defaultdict(list)
    for fit in fits:
        found[fit.job, fit.case, fit.mode.removesuffix(" -loss"), fit.epsilon, fit.rep].append(fit)
    return [several[0] for several in found.values() if all(fit.is_good for fit in several)]


def is_below(cell: Cell) -> bool:
    """Whether a cell is worse than no model."""
    return cell.mean < cell.trivial - BELOW


def is_miss(cell: Cell) -> bool:
    """Whether a cell at the largest budget is behind its twin."""
    is_large = cell.fits[0].epsilon == LARGE
    return is_large and cell.mean < cell.twin - NEAR_TWIN - 2 * cell.error


def is_worth_a_model(cell: Cell) -> bool:
    return cell.twin > cell.trivial + WORTH


def has_no_model(cell: Cell) -> bool:
    """Whether half of the fits, or more, are refused or score as no model does."""
    without = [bool(fit.error) or abs(fit.score - fit.trivial) < NO_MODEL for fit in cell.fits]
    return np.mean(without) >= 0.5


def falls(cells: Cells) -> list[tuple[float, str]]:
    """Return losses by larger budgets that leave a cell behind its twin, one for each cell."""
    found = []
    for (job, case, mode, epsilon), cell in cells.items():
        for larger in sorted(key[3] for key in cells if key[:3] == (job, case, mode)):
            change = _change(cell, cells[job, case, mode, larger]) if larger > epsilon else 0.0
            if change < 0:
                after = cells[job, case, mode, larger]
                found.append(
                    (change, f"{cell.name}: {cell.mean:.3f}; {after.mean:.3f} at {larger:g}")
                )
                break
    return sorted(found)


def _change(cell: Cell, after: Cell) -> float:
    """Return by how much the same repetitions fall; 0 if by chance, or to no less than a twin."""
    later = {fit.rep: fit for fit in after.fits}
    pairs = [(fit, later[fit.rep]) for fit in cell.fits if fit.rep in later]
    if len(pairs) < 2:
        return 0.0
    changes = [second.clipped - first.clipped for first, second in pairs]
    gap = np.mean([second.clipped - second.twin for _, second in pairs])
    chance = 2 * np.std(changes) / (len(changes) - 1) ** 0.5
    is_fall = np.mean(changes) < -NEAR_TWIN - chance and gap < -NEAR_TWIN
    return float(np.mean(changes)) if is_fall else 0.0


def changes(before: Cells, after: Cells) -> list[tuple[float, str]]:
    """Return cells that got better or worse by more than .01 and two standard errors."""
    found = []
    for key in before.keys() & after.keys():
        old, new = before[key], after[key]
        if abs(new.mean - old.mean) > NEAR_TWIN + 2 * np.hypot(old.error, new.error):
            found.append((new.mean - old.mean, f"{new.name}: {old.mean:.3f} to {new.mean:.3f}"))
    return sorted(found)


class WarningCounts(NamedTuple):
    """How often a warning came with good and other scores; their median distance to the twin."""

    text: str
    good: int
    others: int
    distance: float


def plain_text(text: str) -> str:
    """Return how a warning begins, without its step, its numbers and names of columns.

    Texts of old results were cut to 160 characters.
    """
    text = re.sub(r"^Step '[^']*'(, which has \S+ of the budget)?: ", "", text.split("\n")[0])
    text = re.sub(r" \(.*?(\)|$)", "", text)
    text = re.sub(r"\d+([.,]\d+)*(e[+-]?\d+)?%?", "#", text)
    beginning = re.match(r".{20}.*?(?=[.:;] |$)", text)
    return shorten(beginning[0] if beginning else text, 90, placeholder="").rstrip(".,: ")


def counts_of_warnings(fits: Iterable[Fit]) -> list[WarningCounts]:
    """Count for each warning, the most frequent first, the scores that it came with."""
    found = defaultdict(list)
    for fit in fits:
        for text in {plain_text(text) for text in fit.said}:
            found[text].append(fit)
    counts = [
        WarningCounts(
            text,
            sum(fit.is_good for fit in several),
            sum(not fit.is_good for fit in several),
            float(np.median([fit.twin - fit.clipped for fit in several])),
        )
        for text, several in found.items()
    ]
    return sorted(counts, key=lambda one: -one.good - one.others)
