"""Attacks on regressions on rows too long for a moment: the limit is lowered to reach them."""

import dataclasses

import pytest
from attack_laws import attack_laws_for
from families import FAMILIES
from least_squares_cells import Cell, PeopleCell

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

BY_NAME = {family.name: family for family in FAMILIES}
CELLS = [
    ("least squares", Cell("dense", "replace")),
    ("least squares", Cell("dense", "zero_out", fit_intercept=False)),
    ("least squares", Cell("long csr", "zero_out")),
    ("least squares", Cell("long csr", "replace", epsilon=1e3)),
    ("least squares of people", PeopleCell("dense", "replace")),
    ("least squares of people", PeopleCell("parts", "zero_out")),
]


def is_reached(cell, worst):
    """Whether a huge response moves some gradient as far as anything can."""
    assert "response moment" not in worst
    gradients = [ratio for name, ratio in worst.items() if name.startswith("whitened gradient")]
    return max(gradients) > 0.9


@pytest.mark.parametrize(("name", "cell"), CELLS, ids=str)
def test_laws_hold_without_a_moment(name, cell, monkeypatch):
    monkeypatch.setattr("skdp.linear_model.least_squares.plan._LONGEST_WITH_MOMENT", 1)
    family = dataclasses.replace(BY_NAME[name], is_reached=is_reached)
    for law in attack_laws_for(family, cell):
        law(family, cell)
