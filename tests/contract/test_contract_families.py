"""What every estimator promises, for every cell of every family."""

import pytest
from contract_laws import CONTRACT_LAWS
from families import FAMILIES

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

LAWS = [
    pytest.param(law, family, cell, id=f"{law.__name__}, {family.name}: {cell}")
    for family in FAMILIES
    for cell in family.cells
    for law in CONTRACT_LAWS
]


@pytest.mark.parametrize(("law", "family", "cell"), LAWS)
def test_law(law, family, cell):
    with family.setting(cell):
        law(family, cell)
