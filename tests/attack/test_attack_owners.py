"""Attacks on the parts that owners hand in, while the server tells them whatever it likes."""

import numpy as np
import pytest
from owner_cells import CASES, LIES, Cell, Server, hear, is_count
from owner_neighbors import assert_one_story, assert_within_limits, attack

from skdp.federated._agreement import view_of

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


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize(("cell", "lie"), CASES, ids=lambda one: str(one))
def test_neighbors_move_no_part_further_than_booked(cell, lie):
    worst, heard = attack(cell, Server(cell, lie))
    assert max(worst.values()) <= ROUNDING, worst
    # An attack that gets nowhere would prove nothing.
    if not may_be_lost_in_rounding(cell):
        assert farthest_sum(worst) > (0.6 if cell.solver == "interaction" else 0.95), worst
    assert_one_story(heard)
    assert_within_limits(heard)


@pytest.mark.covered(at_most=1)
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


@pytest.mark.slow
@pytest.mark.parametrize("lie", ["honest", "largest", "random"])
@pytest.mark.parametrize("cell", WIDE, ids=str)
def test_wide_tables_move_no_part_further_than_booked(cell, lie):
    worst, heard = attack(cell, Server(cell, lie), n_random=1)
    assert max(worst.values()) <= ROUNDING, worst
    assert farthest_sum(worst) > 0.95, worst
    assert any(layout.name.startswith("guiding mean") for layout in heard[0].layouts)
    assert_one_story(heard)


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
