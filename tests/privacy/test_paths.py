"""Plans whose releases say which way a fit goes on: every way is checked, and none left."""

import math
from dataclasses import replace

import numpy as np
import pytest

from skdp.exceptions import BudgetError
from skdp.privacy import Plan, PrivacyBudget, sensitivity
from skdp.privacy.plan import AnyOf, PrivacyCost, nodes_of

COST = PrivacyCost(1.0, 1e-6)


def line(name, share):
    return COST.release(name, "gaussian", share, sensitivity.count, {})


GATE = line("gate", 0.1)
USUAL = (GATE, line("all of it", 0.9))
HALVES = (GATE, line("half 1", 0.4), line("half 2", 0.5))
THIRDS = (GATE, line("half 1", 0.4), line("third 2", 0.2), line("third 3", 0.3))


def plan_of(*branches):
    return Plan(COST, AnyOf(branches), unit="row", adjacency="replace")


def release(budget, *lines):
    for one in lines:
        budget.release(one, np.zeros(3))


@pytest.mark.parametrize("way", [USUAL, HALVES, THIRDS], ids=["usual", "halves", "thirds"])
def test_every_way_may_be_taken_and_spends_what_is_planned(way):
    plan = plan_of(USUAL, HALVES, THIRDS)
    budget = PrivacyBudget.of(plan)
    release(budget, *way)
    record = budget.spent()
    assert [(r.name, r.share) for r in record.releases] == [(r.name, r.share) for r in way]
    assert record.mu == pytest.approx(plan.mu, rel=1e-14)
    with pytest.raises(BudgetError, match="all planned ones are made"):
        release(budget, line("one more", 0.1))


@pytest.mark.parametrize(
    "lines",
    [
        (USUAL[1],),
        (GATE, GATE),
        (GATE, HALVES[2]),
        (GATE, HALVES[1], USUAL[1]),
        # Who has taken one way cannot go on along another.
        (*THIRDS[:3], HALVES[2]),
        (*USUAL, HALVES[1]),
        # Another share is another release, whatever its name.
        (GATE, line("half 1", 0.5)),
    ],
)
def test_what_no_way_has_next_is_refused(lines):
    budget = PrivacyBudget.of(plan_of(USUAL, HALVES, THIRDS))
    release(budget, *lines[:-1])
    before = budget.spent()
    with pytest.raises(BudgetError, match=lines[-1].name):
        release(budget, lines[-1])
    assert budget.spent() == before


def test_ways_that_spend_too_much_or_not_the_same_are_refused():
    with pytest.raises(BudgetError, match="at most 1"):
        plan_of(USUAL, (*HALVES, line("one more", 0.1)))
    with pytest.raises(BudgetError, match="spend the same"):
        plan_of(USUAL, HALVES[:2])


def test_ways_within_ways_are_all_written_out():
    rest = AnyOf((line("all of it", 0.9), (line("half 1", 0.4), AnyOf((HALVES[2:], THIRDS[2:])))))
    plan = Plan(COST, (GATE, None, (rest,)), unit="row", adjacency="replace")
    assert plan.branches == (USUAL, HALVES, THIRDS)


N_CHOICES = 40


def plan_of_many_choices(*, more=0.0):
    """Plan choices between one release and two; the last alternative may spend more."""
    part = 1 / (4 * N_CHOICES)
    choices = [
        AnyOf(
            (
                line(f"{i} at once", 3 * part),
                (line(f"{i} first", part), line(f"{i} then", 2 * part)),
            )
        )
        for i in range(N_CHOICES - 1)
    ]
    last = AnyOf((line("at once", 3 * part), (line("first", part), line("then", 2 * part + more))))
    return Plan(COST, (*choices, last), unit="row", adjacency="replace")


def test_choices_one_after_another_do_not_multiply():
    plan = plan_of_many_choices()
    assert len(plan.branches) == 1 + N_CHOICES
    assert repr(plan).endswith("more")
    assert (plan.n_releases, len(plan.releases)) == (2 * N_CHOICES, N_CHOICES)
    seen, ahead = {}, list(nodes_of(plan.parts))
    while ahead:
        node = ahead.pop()
        if id(node) not in seen:
            seen[id(node)] = node
            ahead += node.following
    assert len(seen) == 3 * N_CHOICES


@pytest.mark.parametrize("begins_with_two", [True, False])
def test_every_combination_of_choices_may_be_taken(begins_with_two):
    plan = plan_of_many_choices()
    budget = PrivacyBudget.of(plan)
    for i in range(N_CHOICES):
        at_once, (first, then) = plan.parts[i].branches
        release(budget, *((first, then) if (i % 2 == 0) == begins_with_two else (at_once,)))
    record = budget.spent()
    assert len(record.releases) == 3 * N_CHOICES // 2
    assert record.mu == pytest.approx(plan.mu, rel=1e-14)


def test_alternatives_that_spend_more_are_refused_behind_any_choices():
    with pytest.raises(BudgetError, match="spend the same"):
        plan_of_many_choices(more=1e-9)


def test_alternatives_that_begin_alike_are_one_once_they_have_joined():
    """As long as the releases do not say which alternative is taken, both go on."""
    alike = AnyOf(
        (
            (line("a", 0.01), line("b", 0.01)),
            (line("a", 0.01), line("c", 0.01)),
            (line("a", 0.01), line("b", 0.01)),
        )
    )
    plan = Plan(COST, (alike,) * N_CHOICES, unit="row", adjacency="replace")
    budget = PrivacyBudget.of(plan)
    for _ in range(N_CHOICES):
        release(budget, line("a", 0.01), line("b", 0.01))
        assert len(budget._nodes) in (0, 3)
    assert len(budget.spent().releases) == 2 * N_CHOICES


def test_a_release_that_is_refused_leaves_all_ways_open():
    budget = PrivacyBudget.of(plan_of(USUAL, HALVES))
    release(budget, GATE)
    with pytest.raises(BudgetError, match="sensitivity"):
        budget.release(replace(USUAL[1], sensitivity_of=float), np.zeros(3), 0.0)
    release(budget, *HALVES[1:])


def test_all_ways_are_printed_each_from_where_it_parts():
    printed = repr(plan_of(USUAL, HALVES))
    assert printed.count("gate") == 1
    before, after = printed.split("or, as released values say:")
    assert "all of it" in before
    assert "half 2" in after


def test_ways_are_printed_up_to_where_they_join_the_first():
    rest = line("joined", 0.2), line("end", 0.3)
    plan = plan_of((GATE, line("left", 0.4), *rest), (GATE, line("right", 0.4), *rest))
    before, after = repr(plan).split("or, as released values say:")
    assert before.count("end") == 1
    assert [row.split()[0] for row in after.strip().splitlines()] == ["right", "joined"]
    assert after.endswith("as above")


def test_the_noise_of_every_way_is_that_of_its_shares():
    plan = plan_of(USUAL, HALVES)
    for way in plan.branches:
        for one in way:
            assert one.noise_std == pytest.approx(1 / (plan.mu * math.sqrt(one.share)), rel=1e-3)
