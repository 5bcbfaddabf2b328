"""Covers leave out no value and no pair of values, and most of the cells."""

from dataclasses import dataclass
from itertools import combinations, product
from types import SimpleNamespace

import pytest
from covers import mark_uncovered, pairwise_cover, single_cover, slow_outside
from families import FAMILIES


@dataclass(frozen=True)
class Cell:
    first: str
    second: int
    third: bool = False
    fourth: float | None = None


CELLS = tuple(Cell(*values) for values in product("abc", range(4), (False, True), (None, 0.5)))


def values_of(cells, *names):
    return {tuple(getattr(cell, name) for name in names) for cell in cells}


@pytest.mark.parametrize("cells", [CELLS, *(family.cells for family in FAMILIES)])
def test_every_value_and_every_pair_of_values_occurs(cells):
    names = tuple(vars(cells[0]))
    for name in names:
        assert values_of(single_cover(cells), name) == values_of(cells, name)
    for pair in combinations(names, 2):
        assert values_of(pairwise_cover(cells), *pair) == values_of(cells, *pair)


def test_a_pair_that_no_cell_has_is_not_asked_for():
    # Solvers go with some units only.
    cells = (Cell("a", 0), Cell("b", 1), Cell("b", 0))
    assert set(pairwise_cover(cells)) == set(cells)
    assert set(single_cover(cells)) == {Cell("a", 0), Cell("b", 1)}


class Item:
    """What of a test is asked for: its name, its parameters and its marks."""

    def __init__(self, name, marks, **numbers):
        self.nodeid, self.marks = f"{name}[{numbers}]", list(marks)
        self.callspec = SimpleNamespace(params=numbers)

    def get_closest_marker(self, name):
        return next((mark.mark for mark in self.marks if mark.name == name), None)

    def add_marker(self, mark):
        self.marks.append(mark)


@pytest.mark.parametrize(("more", "n_fast"), [({}, 4), ({"at_most": 3}, 3), ({"at_most": 9}, 4)])
def test_tests_outside_a_cover_are_slow(more, n_fast):
    marks = [pytest.mark.covered(**more)]
    items = [Item("one", marks, a=a, b=b) for a, b in product(range(4), range(2))]
    others = [Item("other", [], a=a) for a in range(9)]
    slow = [Item("slow", [*marks, pytest.mark.slow], a=a) for a in range(9)]
    mark_uncovered([*items, *others, *slow])
    fast = [item for item in items if not item.get_closest_marker("slow")]
    assert len(fast) == n_fast
    assert {item.callspec.params["b"] for item in fast} == {0, 1}
    assert not any(item.get_closest_marker("slow") for item in others)
    assert all(len(item.marks) == 2 for item in slow)


STACKED = """
import pytest

@pytest.mark.covered
@pytest.mark.parametrize("a", [0.5, None, "x", []])
@pytest.mark.parametrize("b", [1, 2])
def test_stacked(a, b):
    pass
"""


class Collected:
    def pytest_collection_modifyitems(self, items):
        mark_uncovered(items)
        self.fast = [item for item in items if not item.get_closest_marker("slow")]


def test_parameters_as_pytest_hands_them_over_are_covered(tmp_path):
    # Its own numbers of stacked parameters are those of the tests.
    path, settings, collected = tmp_path / "test_stacked.py", tmp_path / "pytest.ini", Collected()
    path.write_text(STACKED)
    settings.write_text("[pytest]")
    options = ["--collect-only", "-q", "-p", "no:cacheprovider", "-c", str(settings)]
    pytest.main([*options, str(path)], plugins=[collected])
    assert len(collected.fast) == 4
    assert {item.callspec.params["b"] for item in collected.fast} == {1, 2}


def test_cells_outside_a_cover_are_slow_and_none_is_lost():
    marked = slow_outside(single_cover, CELLS)
    assert [cell for cell, _ in marked] == list(CELLS)
    assert {cell for cell, marks in marked if not marks} == set(single_cover(CELLS))
    assert {mark.name for _, marks in marked for mark in marks} == {"slow"}
