"""Every law of privacy, for every cell of every family: by default, for a pairwise cover."""

import itertools

import pytest
from attack_laws import attack_laws_for, attacks, neighbors_move_no_release_further_than_declared
from covers import pairwise_cover, single_cover, slow_outside
from families import FAMILIES

from skdp.privacy import sensitivity

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

LAWS = [
    pytest.param(law, family, cell, id=f"{law.__name__}, {family.name}: {cell}")
    for family in FAMILIES
    for cell in pairwise_cover(family.cells)
    for law in attack_laws_for(family, cell)
]
OTHERS = [
    pytest.param(family, cell, id=f"{family.name}: {cell}", marks=marks)
    for family in FAMILIES
    for cell, marks in slow_outside(pairwise_cover, family.cells)
    if marks
]


@pytest.mark.parametrize(("law", "family", "cell"), LAWS)
def test_law(law, family, cell):
    with family.setting(cell):
        law(family, cell)


@pytest.mark.parametrize(("family", "cell"), OTHERS)
def test_laws_outside_the_cover(family, cell):
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
    for name in itertools.islice(family.datasets(cell), 1, None)
]


@pytest.mark.covered(at_most=12)
@pytest.mark.parametrize(("family", "cell", "name"), DEGENERATE)
def test_other_data_have_no_worse_neighbors(family, cell, name):
    with family.setting(cell):
        neighbors_move_no_release_further_than_declared(family, cell, family.datasets(cell)[name])


SLIPS = [(family, name, slip) for family in FAMILIES for name, slip in family.slips.items()]
# By default one for each sensitivity.
FIRST = {slip.function: slip for _, _, slip in reversed(SLIPS)}.values()


@pytest.mark.parametrize(
    ("family", "slip"),
    [
        pytest.param(
            family,
            slip,
            id=f"{family.name}: {name}",
            marks=[] if slip in FIRST else pytest.mark.slow,
        )
        for family, name, slip in SLIPS
    ],
)
def test_the_attack_catches_a_sensitivity_that_is_too_small(monkeypatch, family, slip):
    right = getattr(sensitivity, slip.function)
    monkeypatch.setattr(sensitivity, slip.function, slip.wrong(right))
    with family.setting(slip.cell):
        assert any(
            ratio > 1.05
            for worst in attacks(family, slip.cell, family.ordinary(slip.cell))
            for name, ratio in worst.items()
            if name.startswith(slip.release)
        )


def test_every_sensitivity_has_a_mistake_that_is_caught():
    tried = {slip.function for family in FAMILIES for slip in family.slips.values()}
    assert tried == set(sensitivity.__all__)
