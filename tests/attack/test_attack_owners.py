"""Attacks on the parts that owners hand in, while the server tells them whatever it likes."""

from contextlib import contextmanager
from unittest.mock import patch

import entry_cells
import numpy as np
import pytest
import row_cells
from owner_cells import CASES, LIES, N_OWN, N_OWNERS, Cell, Server, hear, is_count, setting
from owner_neighbors import assert_one_story, assert_within_limits, attack

from skdp.federated._agreement import view_of
from skdp.privacy import sensitivity
from skdp.privacy.shares import ShareBudget

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

ROUNDING = 1 + 1e-12


def farthest_sum(worst):
    """Largest movement of what is no count."""
    return max(ratio for name, ratio in worst.items() if not is_count(name))


def may_be_lost_in_rounding(cell):
    """Whether a server may tell a norm beside which sparse rows lose their digits when centered.

    Then noise is for their rounding.
    """
    is_centered = cell.model in ("pca", "pca, public center")
    return is_centered and cell.container == "sparse" and cell.norms == "private"


@pytest.mark.covered(at_most=4)
@pytest.mark.parametrize(("cell", "lie"), CASES, ids=lambda one: str(one))
def test_neighbors_move_no_part_further_than_booked(cell, lie):
    worst, heard = attack(cell, Server(cell, lie))
    assert max(worst.values()) <= ROUNDING, worst
    # An attack that gets nowhere would prove nothing.
    if not may_be_lost_in_rounding(cell):
        assert farthest_sum(worst) > (0.6 if cell.solver == "interaction" else 0.95), worst
    assert_one_story(heard)
    assert_within_limits(heard)


@pytest.mark.covered(at_most=2)
@pytest.mark.parametrize("unit", ["row", "owner"])
@pytest.mark.parametrize("lie", LIES)
def test_no_lie_makes_the_bounds_slack(lie, unit):
    # A bound that is not attained whatever is told would waste noise, or hide a weak attack.
    cell = Cell("covariance", "zero_out" if unit == "row" else "replace", unit, "pca", "private")
    worst, _ = attack(cell, Server(cell, lie))
    assert 0.999 < farthest_sum(worst) <= ROUNDING


WIDE = [
    Cell(solver, adjacency, unit, is_wide=True, norms=norms)
    for solver, adjacency, unit, norms in (
        ("auto", "replace", "owner", "given"),
        ("auto", "zero_out", "row", "private"),
        ("power", "zero_out", "owner", "given"),
        ("power", "replace", "row", "private"),
    )
]


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize("lie", ["honest", "largest", "random"])
@pytest.mark.parametrize("cell", WIDE, ids=str)
def test_wide_tables_move_no_part_further_than_booked(cell, lie):
    worst, heard = attack(cell, Server(cell, lie), n_random=1)
    assert max(worst.values()) <= ROUNDING, worst
    assert farthest_sum(worst) > 0.95, worst
    assert any(layout.name.startswith("guiding mean") for layout in heard[0].layouts)
    assert_one_story(heard)


def climb(cell, n_steps, generator):
    """Search for sums after which neighbors are farther apart; return all largest movements."""
    server, best, found = Server(cell, "other fit"), 0.0, {}
    sums = server.known
    for step in range(n_steps):
        size = 10.0 ** generator.uniform(-3, 0.5)
        server.known = [
            one + (size * np.abs(one).max() * generator.normal(size=one.size)).astype(np.int64)
            for one in (sums if step else server.known)
        ]
        worst, _ = attack(cell, server, n_random=1, long=False)
        for name, ratio in worst.items():
            found[name] = max(found.get(name, 0.0), ratio)
        if (total := sum(worst.values())) > best:
            best, sums = total, server.known
    return found


CLIMBED = [
    Cell("power", "replace", "owner"),
    Cell("interaction"),
    Cell("power", "zero_out", "row", "pca", "private"),
    Cell("guided power", "replace", "row", norms="private"),
    Cell("guided adaptive", "zero_out", "owner"),
    Cell("refined", "replace", "owner", "pca"),
    Cell("refined", "zero_out", "row", container="sparse"),
    Cell("interaction", model="pca, not centered", container="sparse"),
]


@pytest.mark.slow
@pytest.mark.parametrize("cell", CLIMBED, ids=str)
def test_climbing_finds_no_sums_after_which_neighbors_are_farther_apart(cell):
    found = climb(cell, 8, np.random.default_rng(4))
    assert max(found.values()) <= ROUNDING, found
    assert farthest_sum(found) > 0.9, found


SLIPS = [
    (slip, Cell(slip.cell.solver, slip.cell.adjacency, unit, slip.cell.model))
    for number, slip in enumerate(row_cells.SLIPS.values())
    for unit in ("row", "owner")
] + [
    (entry_cells.SLIPS[name], Cell("interaction"))
    for name in ("interaction_mean", "interaction_squares", "an interaction moves one row, clicks")
]


@pytest.mark.covered(at_most=4)
@pytest.mark.parametrize(
    ("slip", "cell"), SLIPS, ids=lambda one: getattr(one, "function", None) or str(one)
)
def test_a_sensitivity_that_is_too_small_is_caught(monkeypatch, slip, cell):
    right = getattr(sensitivity, slip.function)
    monkeypatch.setattr(sensitivity, slip.function, slip.wrong(right))
    worst, _ = attack(cell, Server(cell))
    assert max(r for name, r in worst.items() if name.startswith(slip.release)) > 1.01, worst


@contextmanager
def not_divided():
    """Forget to divide the part of an owner by the number of its rows."""
    right = ShareBudget.open

    def open_wrong(*arguments, n_own, **more):
        return right(*arguments, **more)

    with patch.object(ShareBudget, "open", open_wrong):
        yield


@pytest.mark.covered(at_most=2)
@pytest.mark.parametrize("solver", ["covariance", "adaptive", "power", "guided covariance"])
@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
def test_a_part_that_is_not_divided_by_the_rows_of_its_owner_is_caught(solver, adjacency):
    cell = Cell(solver, adjacency, "owner")
    with not_divided():
        worst, _ = attack(cell, Server(cell))
    assert min(ratio for name, ratio in worst.items() if not is_count(name)) > 10, worst
    # One row is not divided in any case.
    cell = Cell(solver, adjacency, "row")
    with not_divided():
        assert max(attack(cell, Server(cell))[0].values()) <= ROUNDING


@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
def test_the_mean_over_rows_lies_in_the_hull_of_single_rows(adjacency):
    # As many rows as you like say no more than the one of them that says most.
    cell = Cell("covariance", adjacency, "owner", "pca, not centered")
    agreement, generator = cell.agreement(), np.random.default_rng(0)
    X, (bound,) = (
        100 * generator.normal(size=(20_000, 6)),
        [release.sensitivity for release in agreement.plan.releases],
    )
    for n_rows in (1, 7, 20_000):
        rows = view_of(agreement, X[:n_rows])
        part = hear(agreement, rows, lambda number, layout, part: np.zeros(21, int)).parts[0]
        assert np.linalg.norm(part) <= bound
        # Each of them is on the sphere.
        assert np.trace(part) == pytest.approx(1.0)


def test_the_parts_of_all_owners_add_up_to_that_of_all_rows():
    cell = Cell("power", unit="row", norms="private")
    with setting(cell):
        agreement, server = cell.agreement(), Server(cell)
        X = cell.rows()
        whole = hear(agreement, view_of(agreement, X), server)
        owners = [
            hear(agreement, view_of(agreement, X[i : i + N_OWN]), server)
            for i in range(0, N_OWN * N_OWNERS, N_OWN)
        ]
    for number, part in enumerate(whole.parts):
        total = sum(owner.parts[number] for owner in owners)
        np.testing.assert_allclose(total, part, rtol=1e-12, atol=1e-12)
