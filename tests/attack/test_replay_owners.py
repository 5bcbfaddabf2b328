"""What a party does and ends with follows from what it is told, and not from its rows."""

from contextlib import contextmanager
from unittest.mock import patch

import numpy as np
import pytest
from owner_cells import CASES, N_OWN, N_WIDE, Cell, D, Server, hear, retold
from owner_neighbors import assert_one_story

from skdp import RowBlocks
from skdp.federated._agreement import view_of

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")


def parties(cell, agreement):
    """Views of rows that have nothing in common but their features, and of a party without any."""
    X = cell.rows()
    found = [X[:N_OWN], np.zeros((N_OWN, X.shape[1])), -3 * X[::-1, ::-1] + 1e4, X[:1]]
    found += [np.full((3, X.shape[1]), 1e300), 5e-324 * X[:2]]
    if cell.unit == "owner":
        found.append(np.tile(X, (25, 1)))
    yield from (view_of(agreement, cell.contain(one)) for one in found)
    yield view_of(agreement, agreement.null, agreement.null_target)


def all_heard(cell, server):
    """Tell all parties what the first is told."""
    agreement = cell.agreement()
    first, *others = parties(cell, agreement)
    story = hear(agreement, first, server)
    return [story, *(retold(agreement, one, story) for one in others)]


# Neighbors are told the same in every case, by `test_attack_owners.py`.
@pytest.mark.covered(at_most=4)
@pytest.mark.parametrize(("cell", "lie"), CASES[::2], ids=lambda one: str(one))
def test_other_rows_give_the_same_model_and_ask_the_same(cell, lie):
    heard = all_heard(cell, Server(cell, lie))
    assert_one_story(heard)
    # Parties without anything in common hand in other parts.
    assert not np.array_equal(heard[0].parts[-1], heard[2].parts[-1])
    # The story is told to its end, which is that of a plan.
    plan = cell.agreement().plan
    names = [layout.name for layout in heard[0].layouts]
    assert names in [[release.name for release in path] for path in plan.branches]


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize("solver", ["auto", "power"])
def test_wide_tables_give_the_same_model(solver):
    heard = all_heard(Cell(solver, is_wide=True, unit="owner"), Server(Cell(solver, is_wide=True)))
    assert_one_story(heard)
    assert heard[0].model.components_.shape == (2, N_WIDE)


@pytest.mark.parametrize("kind", ["float32", "blocks", "Fortran", "read-only"])
def test_containers_of_rows_are_private(kind):
    # What an owner keeps its rows in is nobody's business, but for sparse ones.
    cell = Cell("power", norms="private")
    agreement, server, X = cell.agreement(), Server(cell), cell.rows()[:N_OWN]
    story = hear(agreement, view_of(agreement, X), server)
    others = {
        "float32": X.astype(np.float32),
        "blocks": RowBlocks(lambda: (X[i : i + 3] for i in range(0, N_OWN, 3)), X.shape),
        "Fortran": np.asfortranarray(X),
        "read-only": np.lib.stride_tricks.as_strided(X, writeable=False),
    }
    heard = retold(agreement, view_of(agreement, others[kind]), story)
    assert_one_story([story, heard])
    np.testing.assert_allclose(heard.parts[-1], story.parts[-1], rtol=1e-5, atol=1e-5)


@contextmanager
def no_least_rounding():
    """Charge what sums round; that of few rows is less than what is charged at least."""
    with (
        patch("skdp.data.rows.LEAST_ROUNDING", 0.0),
        patch("skdp.data.reduce.LEAST_ROUNDING", 0.0),
    ):
        yield


# Facts of the own rows in the place of agreed ones: units, searches among them, depths of sums.
OWN_FACTS = [
    Cell("covariance", norms="private"),
    Cell("covariance", unit="owner", norms="private", model="pca"),
    Cell("guided power", unit="owner"),
    Cell("power", norms="private"),
    Cell("covariance", norms="private", container="sparse"),
]


@pytest.mark.parametrize("cell", OWN_FACTS, ids=str)
def test_facts_of_the_own_rows_are_not_told_where_the_least_rounding_does_not_hide_them(cell):
    with no_least_rounding():
        assert_one_story(all_heard(cell, Server(cell)))


def test_an_owner_may_have_more_rows_than_there_are_owners():
    agreement = Cell("covariance", unit="owner").agreement()
    assert view_of(agreement, np.ones((1000, D))).n_rows == agreement.n_owners
