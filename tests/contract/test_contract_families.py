"""What every estimator promises, for every cell of every family."""

import pytest
from contract_laws import CONTRACT_LAWS
from families import every_cell

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")


@every_cell
@pytest.mark.parametrize("law", CONTRACT_LAWS, ids=lambda law: law.__name__)
def test_law(law, family, cell):
    with family.setting(cell):
        law(family, cell)
