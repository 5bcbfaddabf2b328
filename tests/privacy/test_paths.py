"""Plans whose releases say which way a fit goes on: every way is checked, and none left."""

import math

import numpy as np
import pytest

from skdp.exceptions import BudgetError
from skdp.privacy import PlannedRelease, PrivacyBudget
from skdp.privacy.cost import PrivacyCost
from skdp.privacy.plan import make_plan


def line(name, share):
    return PlannedRelease(name, "gaussian", share, 1.0)


GATE = line("gate", 0.1)
USUAL = (GATE, line("all of it", 0.9))
HALVES = (GATE, line("half 1", 0.4), line("half 2", 0.5))
THIRDS = (GATE, line("half 1", 0.4), line("third 2", 0.2), line("third 3", 0.3))


def plan_of(*ways):
    usual, *others = ways
    return make_plan(
        usual, cost=PrivacyCost(1.0, 1e-6), unit="row", adjacency="replace", others=others
    )


def release(budget, *names):
    for name in names:
        budget.gaussian(name, np.zeros(3), sensitivity=1.0)


@pytest.mark.parametrize("way", [USUAL, HALVES, THIRDS], ids=["usual", "halves", "thirds"])
def test_every_way_may_be_taken_and_spends_what_is_planned(way):
    plan = plan_of(USUAL, HALVES, THIRDS)
    budget = PrivacyBudget.of(plan)
    release(budget, *(one.name for one in way))
    record = budget.spent()
    assert [(r.name, r.share) for r in record.releases] == [(r.name, r.share) for r in way]
    assert record.mu == pytest.approx(plan.mu, rel=1e-14)
    with pytest.raises(BudgetError, match="all that is has been released"):
        release(budget, "one more")


@pytest.mark.parametrize(
    "names",
    [
        ("all of it",),
        ("gate", "gate"),
        ("gate", "half 2"),
        ("gate", "half 1", "all of it"),
        # Who has taken one way cannot go on along another.
        ("gate", "half 1", "third 2", "half 2"),
        ("gate", "all of it", "half 1"),
    ],
)
def test_what_no_way_has_next_is_refused(names):
    budget = PrivacyBudget.of(plan_of(USUAL, HALVES, THIRDS))
    release(budget, *names[:-1])
    before = budget.spent()
    with pytest.raises(BudgetError, match=names[-1]):
        release(budget, names[-1])
    assert budget.spent() == before


def test_ways_that_spend_too_much_or_cannot_be_told_apart_are_refused():
    with pytest.raises(BudgetError, match="at most 1"):
        plan_of(USUAL, (*HALVES, line("one more", 0.1)))
    with pytest.raises(BudgetError, match="spend the same"):
        plan_of(USUAL, HALVES[:2])
    with pytest.raises(BudgetError, match="differ in the share"):
        plan_of(USUAL, (line("gate", 0.2), line("rest", 0.8)))
    with pytest.raises(BudgetError, match="differ in the share of 'half 1'"):
        plan_of(USUAL, HALVES, (GATE, line("half 1", 0.5), line("rest", 0.4)))


def test_no_way_of_a_name_for_two_releases_spends_more():
    either = line("gate", 0.3).or_else("door", "gaussian")
    plan = plan_of((line("gate", 0.5), line("cheap", 0.5)), (either, line("dear", 0.7)))
    budget = PrivacyBudget.of(plan)
    release(budget, "gate")
    with pytest.raises(BudgetError, match="at most 1"):
        release(budget, "dear")


def test_a_release_that_is_refused_leaves_all_ways_open():
    budget = PrivacyBudget.of(plan_of(USUAL, HALVES))
    release(budget, "gate")
    with pytest.raises(BudgetError, match="sensitivity"):
        budget.gaussian("all of it", np.zeros(3), sensitivity=0.0)
    release(budget, "half 1", "half 2")


def test_all_ways_are_printed_each_from_where_it_parts():
    printed = repr(plan_of(USUAL, HALVES))
    assert printed.count("gate") == 1
    before, after = printed.split("or, as released values say:")
    assert "all of it" in before
    assert "half 2" in after


def test_the_noise_of_every_way_is_that_of_its_shares():
    plan = plan_of(USUAL, HALVES)
    for way in plan.paths:
        for one in way:
            assert one.noise_scale == pytest.approx(1 / (plan.mu * math.sqrt(one.share)), rel=1e-3)
