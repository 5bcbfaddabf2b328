"""The laws on the covered cells notice what declares too little, sensitivity or release."""

import pytest
from mutations import (
    NOT_REACHED,
    first_to_notice,
    releases_of,
    solvers,
    uses_of_sensitivities,
    wrong_release,
    wrong_sensitivity,
)

from skdp.privacy import sensitivity

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")]


@pytest.mark.parametrize(
    ("family", "solver"), [pytest.param(*one, id=f"{one[0].name}: {one[1]}") for one in solvers()]
)
def test_every_release_that_is_declared_too_small_is_noticed(family, solver):
    unnoticed, cells = [], releases_of(family, solver)
    for name in cells.keys() - NOT_REACHED:
        with wrong_release(name):
            if first_to_notice((family, cell) for cell in cells[name]) is None:
                unnoticed.append(name)
    assert unnoticed == []


def test_every_sensitivity_that_is_too_small_is_noticed():
    unnoticed, cells = set(sensitivity.__all__) - NOT_REACHED, uses_of_sensitivities()
    for name in sorted(unnoticed):
        with wrong_sensitivity(name):
            if first_to_notice(cells[name]) is not None:
                unnoticed.remove(name)
    assert unnoticed == set()
