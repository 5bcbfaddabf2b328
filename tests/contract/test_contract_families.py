"""What every estimator promises, for every pair of values of cells.

By default for a cover with every value, of which each law takes every ninth cell, in turns. What
classes and modules keep is hardly a matter of the cell: it is looked at once for every third class.
"""

import pytest
from attack_laws import ATTACK_LAWS
from contract_laws import CONTRACT_LAWS, contract_laws_for, nothing_is_stored_beside_the_estimator
from covers import pairwise_cover, single_cover
from families import FAMILIES
from public import ESTIMATORS

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

N_TURNS = 9


def class_of(cell):
    """Give the class that a cell makes an estimator of, and not what names arguments in tests."""
    return next(one for one in type(cell()).__mro__ if not one.__module__.endswith("_cells"))


def covered(family):
    """Choose cells with every value; of people, who fit as records do, a few of them."""
    return single_cover(family.cells)[: 6 if family.name.endswith("people") else None]


# Each cell of a cover with its number, and the first cell that makes an estimator of a class.
COVERS = {
    family.name: {cell: number for number, cell in enumerate(covered(family))}
    for family in FAMILIES
}
FIRSTS = {class_of(cell): cell for cover in reversed(COVERS.values()) for cell in reversed(cover)}


def is_slow(law, family, cell):
    """Whether a law is slow for a cell."""
    cover = COVERS[family.name]
    if cell not in cover:
        return True
    if law is nothing_is_stored_beside_the_estimator:
        return cell not in list(FIRSTS.values())[::3]
    return (cover[cell] - CONTRACT_LAWS.index(law)) % min(N_TURNS, len(cover)) != 0


ALL = [
    (law, family, cell)
    for family in FAMILIES
    for cell in dict.fromkeys((*COVERS[family.name], *pairwise_cover(family.cells)))
    for law in contract_laws_for(family)
    if law is not nothing_is_stored_beside_the_estimator or cell in COVERS[family.name]
]
LAWS = [
    pytest.param(*one, id=f"{one[0].__name__}, {one[1].name}: {one[2]}")
    for one in ALL
    if not is_slow(*one)
]
OTHERS = {}
for law, family, cell in ALL:
    if is_slow(law, family, cell):
        OTHERS.setdefault(f"{family.name}: {cell}", (family, cell, []))[-1].append(law)


@pytest.mark.parametrize(("law", "family", "cell"), LAWS)
def test_law(law, family, cell):
    with family.setting(cell):
        law(family, cell)


@pytest.mark.slow
@pytest.mark.parametrize(("family", "cell", "laws"), OTHERS.values(), ids=OTHERS)
def test_laws_that_are_slow(family, cell, laws):
    with family.setting(cell):
        for law in laws:
            law(family, cell)


def test_laws_that_take_turns_hold_somewhere_in_every_family():
    for family in FAMILIES:
        assert {law for law, one, _ in ALL if one is family} == {
            law
            for law, one, cell in ALL
            if one is family
            and (law is nothing_is_stored_beside_the_estimator or not is_slow(law, one, cell))
        }


def test_every_class_is_looked_at_for_what_is_kept_beside_it():
    assert FIRSTS.keys() == {class_of(cell) for family in FAMILIES for cell in family.cells}


def test_every_estimator_is_of_a_family():
    assert set(ESTIMATORS) <= {type(cell()) for family in FAMILIES for cell in family.cells}


def test_what_a_family_is_exempt_from_is_a_law():
    laws = {law.__name__ for law in (*CONTRACT_LAWS, *ATTACK_LAWS)}
    assert all(family.exempt.keys() <= laws for family in FAMILIES)
