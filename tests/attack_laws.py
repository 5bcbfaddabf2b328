"""What no estimator may break, whatever the data: each law is a function of a family and a cell."""

import math

import pytest
from family_case import of_family

from skdp.privacy.budget import is_skipped
from skdp.testing import _checks


def the_whole_budget_is_spent_and_no_more(family, cell):
    """Shares add to 1, and what they buy is what was asked for."""
    parameters = cell().get_params(deep=False)
    estimator = cell(epsilon=0.8).fit(*family.arguments(family.ordinary(cell)))
    spent, delta = estimator.privacy_spent_, parameters["delta"]
    assert math.fsum(line.share for line in spent.releases) == pytest.approx(1, abs=1e-12)
    assert spent.epsilon_at(delta) <= 0.8 * (1 + 1e-6)
    assert spent.epsilon_at(delta) == pytest.approx(0.8, rel=1e-6)
    assert (spent.epsilon, spent.delta) == (0.8, delta)
    mechanisms = {line.mechanism for line in spent.releases}
    noises = {"laplace", "spherical"} if delta == 0 else {"gaussian", "symmetric_gaussian"}
    assert mechanisms <= {*noises, "exponential"}
    assert (spent.unit, spent.enforced) == family.recorded(cell)
    assert spent.adjacency == cell.adjacency
    # Only what is left out has no name of its own.
    names = [line.name for line in spent.releases if not is_skipped(line.name)]
    assert len(set(names)) == len(names)


neighbors_move_no_release_further_than_declared = of_family(
    _checks.neighbors_move_no_release_further_than_declared
)
a_null_unit_contributes_nothing = of_family(_checks.a_null_unit_contributes_nothing)
ATTACK_LAWS = (
    neighbors_move_no_release_further_than_declared,
    of_family(_checks.outputs_follow_the_releases),
    the_whole_budget_is_spent_and_no_more,
)


def attack_laws_for(family, cell):
    """Give the laws that say something of a cell."""
    laws = ATTACK_LAWS + (a_null_unit_contributes_nothing,) * family.has_null(cell)
    return tuple(filter(family.keeps, laws))
