"""Few cells that have every value, or every pair of values, that any cell has.

The laws of a cover run by default, those of all other cells with the slow tests. What the cover
still notices stands in `tests/attack/test_mutations.py`.
"""

from itertools import combinations

import pytest


def single_cover(cells):
    """Choose cells among which every value of every parameter occurs."""
    return cover(cells, 1)


def pairwise_cover(cells):
    """Choose cells among which every pair of values of two parameters occurs."""
    return cover(cells, 2)


def cover(cells, strength):
    """Choose cells that have all combinations of so many values that any cell has.

    Each step takes the first of those that add most.
    """
    missing = set().union(*(combined_values(cell, strength) for cell in cells))
    chosen = []
    while missing:
        best = max(cells, key=lambda cell: len(combined_values(cell, strength) & missing))
        chosen.append(best)
        missing -= combined_values(best, strength)
    return tuple(chosen)


def combined_values(cell, strength):
    """Give all combinations of so many parameters of a cell, with their values."""
    return set(combinations(vars(cell).items(), strength))


def slow_outside(make_cover, cells):
    """Give all cells, each with the marks of its tests: those outside the cover are slow."""
    covered = set(make_cover(cells))
    return [(cell, [] if cell in covered else [pytest.mark.slow]) for cell in cells]
