"""What every estimator promises, for every cell of every family: by default, for a single cover."""

import pytest
from attack_laws import ATTACK_LAWS
from contract_laws import CONTRACT_LAWS, contract_laws_for
from covers import single_cover, slow_outside
from families import FAMILIES
from public import ESTIMATORS

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

LAWS = [
    pytest.param(law, family, cell, id=f"{law.__name__}, {family.name}: {cell}")
    for family in FAMILIES
    for cell in single_cover(family.cells)
    for law in contract_laws_for(family)
]
OTHERS = [
    pytest.param(family, cell, id=f"{family.name}: {cell}", marks=marks)
    for family in FAMILIES
    for cell, marks in slow_outside(single_cover, family.cells)
    if marks
]


@pytest.mark.parametrize(("law", "family", "cell"), LAWS)
def test_law(law, family, cell):
    with family.setting(cell):
        law(family, cell)


@pytest.mark.parametrize(("family", "cell"), OTHERS)
def test_laws_outside_the_cover(family, cell):
    with family.setting(cell):
        for law in contract_laws_for(family):
            law(family, cell)


def test_every_estimator_is_of_a_family():
    assert set(ESTIMATORS) <= {type(cell()) for family in FAMILIES for cell in family.cells}


def test_what_a_family_is_exempt_from_is_a_law():
    laws = {law.__name__ for law in (*CONTRACT_LAWS, *ATTACK_LAWS)}
    assert all(family.exempt.keys() <= laws for family in FAMILIES)
