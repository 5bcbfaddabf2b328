"""What has to hold in the tables of `errors.py`."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.report import Key, Values
from benchmarks.trace_regression.measures import METHODS

Measure = Callable[[Values], float]


@dataclass(frozen=True)
class Criterion:
    """A number that follows from a table, and between what it has to be."""

    text: str
    measure: Measure
    at_least: float = -math.inf
    at_most: float = math.inf

    def holds(self, number: float) -> bool:
        return self.at_least <= number <= self.at_most


def median(key: Key) -> Measure:
    return lambda found: float(np.median(found[key]))


def ratio(numerator: Key, denominator: Key) -> Measure:
    return lambda found: median(numerator)(found) / median(denominator)(found)


def largest_over_smallest(rows: list[str], column: str) -> Measure:
    def _measure(found: Values) -> float:
        medians = [median((row, column))(found) for row in rows]
        return max(medians) / min(medians)

    return _measure


def largest_rise(rows: list[str], column: str) -> Measure:
    def _measure(found: Values) -> float:
        medians = np.array([median((row, column))(found) for row in rows])
        return float((medians[1:] / medians[:-1]).max())

    return _measure


def slope(rows: list[str], column: str) -> Measure:
    """Fit the power of what the rows say that the medians follow."""

    def _measure(found: Values) -> float:
        medians = [median((row, column))(found) for row in rows]
        return float(np.polyfit(np.log([float(row) for row in rows]), np.log(medians), 1)[0])

    return _measure


def largest(keys: list[Key]) -> Measure:
    return lambda found: float(max(found[key].max() for key in keys))


def slopes(
    rows: list[str],
    *,
    skdp: tuple[float, float],
    constant: tuple[float, float],
    exact: tuple[float, float],
) -> list[Criterion]:
    bounds = dict(zip(METHODS, (skdp, constant, exact), strict=True))
    return [
        Criterion(f"slope of {name}", slope(rows, name), *between)
        for name, between in bounds.items()
    ]


def labels(numbers: tuple[float, ...]) -> list[str]:
    return [f"{number:g}" for number in numbers]
