"""What no estimator may break, whatever the data: each law is a function of a family and a cell."""

import io
import logging
import math
import warnings
from contextlib import redirect_stderr, redirect_stdout
from unittest.mock import patch

import harness
import numpy as np
import pytest
from harness import assert_same_fit, farthest_of, fit_with, record, replay
from recording import RecordingBudget, scripted_budget

from skdp.privacy.budget import SKIPPED

ROUNDING = 1 + 1e-12
# The weakest attack notices its mistake two times in five: all of them fail once in 100,000 times.
N_ATTACKS = 24


def neighbors_move_no_release_further_than_declared(family, cell, data=None):
    """The worst neighbor is within the sensitivity, and the attack gets near it."""
    is_ordinary = data is None
    for worst in attacks(family, cell, family.ordinary(cell) if is_ordinary else data):
        assert max(worst.values()) <= ROUNDING, worst
        if not is_ordinary or family.is_reached(cell, worst):
            return
    # An attack that gets nowhere would prove nothing.
    pytest.fail(f"no attack gets far: {worst}")


def attacks(family, cell, data):
    """Yield how far releases have moved so far, by name, with other noise in every attack.

    How far one gets depends on the bases that the noise leads to, and with them on how this
    processor rounds.
    """
    worst = {}
    for attempt in range(N_ATTACKS):
        with patch.object(harness, "SEED", harness.SEED + attempt):
            for name, ratio in farthest_of(cell, family.groups(cell, data)).items():
                worst[name] = max(worst.get(name, 0.0), ratio)
        yield worst


def a_null_unit_contributes_nothing(family, cell):
    """Where a unit is null, what it would be makes no difference."""
    groups = [group for group in family.groups(cell, family.ordinary(cell)) if group.has_null]
    assert groups
    for group in groups:
        script = record(cell, group.origin).released
        with group.make_null():
            replays = [replay(cell, one, script) for one in (group.origin, group.datasets[-1])]
        for one, other in zip(*(each.values for each in replays), strict=True):
            np.testing.assert_array_equal(one, other)


def all_that_is_told_follows_the_releases(family, cell):
    """Other data that are answered with the same releases give the same fit."""
    data = family.ordinary(cell)
    (original, budget), told = said_by(
        lambda: fit_with(cell(), family.arguments(data), RecordingBudget)
    )
    scripted = scripted_budget(budget.released)
    for other in family.strangers(cell, data):
        (again, _), told_again = said_by(lambda: fit_with(cell(), other, scripted))  # noqa: B023
        assert told_again == told
        assert_same_fit(again, original)
    for group in family.groups(cell, data):
        if group.has_null:
            with group.make_null():
                (again, _), told_again = said_by(
                    lambda: fit_with(cell(), group.origin, scripted)  # noqa: B023
                )
            assert told_again == told
            assert_same_fit(again, original)


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
    # Only what a failed test leaves out has no name of its own.
    names = [line.name for line in spent.releases if line.name != SKIPPED]
    assert len(set(names)) == len(names)


ATTACK_LAWS = (
    neighbors_move_no_release_further_than_declared,
    all_that_is_told_follows_the_releases,
    the_whole_budget_is_spent_and_no_more,
)


def attack_laws_for(family, cell):
    """Give the laws that say something of a cell."""
    laws = ATTACK_LAWS + (a_null_unit_contributes_nothing,) * family.has_null(cell)
    return tuple(filter(family.keeps, laws))


def said_by(fit):
    """Return what a function returns, and all that it says: warnings, prints, log records."""
    told, logger = io.StringIO(), logging.getLogger()
    handler, level = logging.StreamHandler(told), logger.level
    logger.addHandler(handler)
    logger.setLevel(1)
    try:
        with (
            warnings.catch_warnings(record=True) as caught,
            redirect_stdout(told),
            redirect_stderr(told),
        ):
            warnings.simplefilter("always")
            result = fit()
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    return result, [*(str(warning.message) for warning in caught), told.getvalue()]
