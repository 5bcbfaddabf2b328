"""The tests that every family takes catch the mistakes that they are for."""

from dataclasses import replace

import pytest
import toy
from attack_laws import ATTACK_LAWS
from contract_laws import CONTRACT_LAWS
from families import FAMILIES

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

(TOY,) = (family for family in FAMILIES if family.name == "toy")
ATTACKS = {law.__name__: law for law in ATTACK_LAWS}
CONTRACT = {law.__name__: law for law in CONTRACT_LAWS}
CAUGHT_BY = {
    "sensitivity": {"neighbours_move_no_release_further_than_declared"},
    "attribute": {
        "attributes_and_warnings_follow_the_releases",
        "nothing_but_documented_attributes_is_kept",
    },
    "branch": {"attributes_and_warnings_follow_the_releases"},
    "kept row": {
        "attributes_and_warnings_follow_the_releases",
        "nothing_but_documented_attributes_is_kept",
        "a_fitted_pickle_has_neither_seed_nor_data",
    },
}


def broken_laws(cell):
    """Names of the laws that an estimator does not keep."""
    broken = set()
    for name, law in {**ATTACKS, **CONTRACT}.items():
        try:
            law(TOY, cell)
        except (AssertionError, pytest.fail.Exception):
            broken.add(name)
    return broken


@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
@pytest.mark.parametrize("leak", toy.LEAKS)
def test_a_copy_that_leaks_breaks_the_laws_that_are_for_it(leak, adjacency):
    assert broken_laws(toy.Cell(adjacency, toy.LEAKS[leak])) == CAUGHT_BY[leak]


@pytest.mark.parametrize("cell", toy.CELLS, ids=str)
def test_the_copies_differ_in_their_leaks_alone(cell):
    assert broken_laws(cell) == set()


@pytest.mark.parametrize("leak", ["attribute", "kept row"])
def test_a_leak_that_is_documented_is_one_all_the_same(leak):
    kept = {"attribute": "spread_", "kept row": "_first"}[leak]
    family = replace(TOY, public=lambda cell: {*TOY.public(cell), kept})
    with pytest.raises(AssertionError, match=kept):
        ATTACKS["attributes_and_warnings_follow_the_releases"](
            family, toy.Cell("replace", toy.LEAKS[leak])
        )
