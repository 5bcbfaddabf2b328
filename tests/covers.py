"""Few cells that have every value, or every pair of values, that any cell has.

The laws of a cover run by default, those of all other cells with the slow tests. So it is with a
test that is marked `covered`: of all its parameters those of a single cover run by default, or the
first of them. What covers still notice stands in `tests/attack/test_mutations.py`.
"""

from dataclasses import is_dataclass
from functools import cache
from itertools import combinations

import pytest


def single_cover(cells):
    """Choose cells among which every value of every parameter occurs."""
    return cover(tuple(cells), 1)


def pairwise_cover(cells):
    """Choose cells among which every pair of values of two parameters occurs."""
    return cover(tuple(cells), 2)


@cache
def cover(cells, strength):
    """Choose cells that have all combinations of so many values that any cell has."""
    found = least_cover([combined(vars(cell), strength) for cell in cells])
    return tuple(cells[number] for number in found)


def least_cover(sets):
    """Number sets that have together what any has: each the first of those that add most."""
    missing, chosen = set().union(*sets), []
    while missing:
        best = max(range(len(sets)), key=lambda number: len(sets[number] & missing))
        chosen.append(best)
        missing -= sets[best]
    return chosen


def combined(values, strength):
    """Give all combinations of so many names, with their values."""
    return set(combinations(values.items(), strength))


def each(cells, **wanted):
    """Parametrize a test by the cells with these values, or with one of those in a tuple."""
    choices = {name: one if isinstance(one, tuple) else (one,) for name, one in wanted.items()}
    found = [
        cell
        for cell in cells
        if all(getattr(cell, name) in values for name, values in choices.items())
    ]
    assert found
    return pytest.mark.parametrize("cell", found, ids=str)


def slow_outside(make_cover, cells):
    """Give all cells, each with the marks of its tests: those outside the cover are slow."""
    covered = set(make_cover(cells))
    return [(cell, [] if cell in covered else [pytest.mark.slow]) for cell in cells]


def mark_uncovered(items):
    """Mark as slow what lies outside a single cover of the parameters of each test marked so.

    `covered(at_most=n)` also marks what comes after the first n of the cover.
    """
    tests = {}
    for item in items:
        if item.get_closest_marker("covered") and not item.get_closest_marker("slow"):
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for group in tests.values():
        at_most = group[0].get_closest_marker("covered").kwargs.get("at_most")
        chosen = least_cover([combined(parameters_of(item), 1) for item in group])[:at_most]
        for number in set(range(len(group))) - set(chosen):
            group[number].add_marker(pytest.mark.slow)


def parameters_of(item):
    """Give the parameters of a test, those of a cell one by one; others by which object it is."""
    parameters = {}
    # Not by `callspec.indices`: those of stacked parameters number the tests, not the values.
    for name, value in item.callspec.params.items():
        is_cell = is_dataclass(value) and not isinstance(value, type)
        own = {key: repr(one) for key, one in vars(value).items()} if is_cell else {"": id(value)}
        parameters |= {(name, key): one for key, one in own.items()}
    return parameters
