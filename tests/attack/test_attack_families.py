"""Every law of privacy, for every cell of every family: by default, for few cells of its cover.

Together these make all releases that the cells of the cover make, under both adjacencies. With the
slow tests all laws for all cells, and with other data than the ordinary ones for those of the
cover.
"""

import itertools

import pytest
from attack_laws import attack_laws_for
from attack_laws import neighbors_move_no_release_further_than_declared as neighbors
from covers import single_cover, slow_outside
from families import FAMILIES
from family_case import FamilyCase
from mutations import ATTACKED

from skdp.privacy import sensitivity
from skdp.testing._checks import attacks

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")


COVERS = {family.name: family.cover(family.cells) for family in FAMILIES}
DEFAULTS = {name: {cover[place] for place in ATTACKED[name]} for name, cover in COVERS.items()}


ALL = [
    (law, family, cell)
    for family in FAMILIES
    for cell in family.cells
    for law in attack_laws_for(family, cell)
]
LAWS = [
    pytest.param(*one, id=f"{one[0].__name__}, {one[1].name}: {one[2]}")
    for one in ALL
    if one[2] in DEFAULTS[one[1].name]
]
OTHERS = [
    pytest.param(family, cell, id=f"{family.name}: {cell}", marks=pytest.mark.slow)
    for family in FAMILIES
    for cell in family.cells
    if cell not in DEFAULTS[family.name]
]


@pytest.mark.parametrize(("law", "family", "cell"), LAWS)
def test_law(law, family, cell):
    with family.setting(cell):
        law(family, cell)


@pytest.mark.parametrize(("family", "cell"), OTHERS)
def test_laws_that_are_slow(family, cell):
    with family.setting(cell):
        for law in attack_laws_for(family, cell):
            law(family, cell)


DEGENERATE = [
    pytest.param(
        family,
        cell,
        name,
        id=f"{family.name}: {cell}, {name}",
        # At the bounds, entries move as far as they can.
        marks=[*marks, *[pytest.mark.slow] * (name == "distinct")],
    )
    for family in FAMILIES
    for cell, marks in slow_outside(single_cover, family.cells)
    if cell in COVERS[family.name]
    for name in itertools.islice(family.datasets(cell), 1, None)
]


@pytest.mark.covered(at_most=3)
@pytest.mark.parametrize(("family", "cell", "name"), DEGENERATE)
def test_other_data_have_no_worse_neighbors(family, cell, name):
    with family.setting(cell):
        neighbors(family, cell, family.datasets(cell)[name])


SLIPS = [
    pytest.param(family, slip, id=f"{family.name}: {name}")
    for family in FAMILIES
    for name, slip in family.slips.items()
]


@pytest.mark.covered(at_most=4)
@pytest.mark.parametrize(("family", "slip"), SLIPS)
def test_the_attack_catches_a_sensitivity_that_is_wrong(monkeypatch, family, slip):
    right = getattr(sensitivity, slip.function)
    monkeypatch.setattr(sensitivity, slip.function, slip.wrong(right))
    with family.setting(slip.cell):
        assert any(
            ratio > 1.05
            for worst in attacks(FamilyCase(family, slip.cell))
            for name, ratio in worst.items()
            if name.startswith(slip.release)
        )
