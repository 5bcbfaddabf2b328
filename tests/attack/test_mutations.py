"""The laws on the covered cells notice what declares too little, sensitivity or release."""

import mutations
import pytest
from families import FAMILIES

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")]


@pytest.mark.parametrize(
    ("family", "solver"),
    [pytest.param(*one, id=f"{one[0].name}: {one[1]}") for one in mutations.solvers()],
)
def test_every_release_that_is_declared_too_small_is_noticed(family, solver):
    unnoticed, cells = [], mutations.releases_of(family, solver)
    for name in cells.keys() - mutations.NOT_REACHED:
        with mutations.wrong_release(name):
            if mutations.first_to_notice((family, cell) for cell in cells[name]) is None:
                unnoticed.append(name)
    assert unnoticed == []


def test_every_sensitivity_that_is_too_small_is_noticed():
    unnoticed, cells = (
        mutations.SENSITIVITIES - mutations.NOT_REACHED,
        mutations.uses_of_sensitivities(),
    )
    for name in sorted(unnoticed):
        with mutations.wrong_sensitivity(name):
            if mutations.first_to_notice(cells[name]) is not None:
                unnoticed.remove(name)
    assert unnoticed == set()


def test_what_is_attacked_by_default_makes_all_that_covers_make():
    wanted, made = set(), set()
    for family in FAMILIES:
        cells = family.cover(family.cells)
        attacked = [cells[place] for place in mutations.ATTACKED[family.name]]
        assert {cell.adjacency for cell in attacked} == {cell.adjacency for cell in cells}
        wanted |= set().union(*(mutations.made_by(family, cell) for cell in cells))
        made |= set().union(*(mutations.made_by(family, cell) for cell in attacked))
    assert made == wanted
