"""The budget and the record where a part of delta is reserved for a tail event."""

import dataclasses
import json
import math

import numpy as np
import pytest

from skdp.privacy import PrivacyBudget, gaussian_dp

EPSILONS = (0.0, 0.3, 1.0, 3.0, 10.0)


def open_budget(epsilon=1.0, delta=1e-6, delta_tail=4e-7):
    return PrivacyBudget(epsilon, delta, unit="row", adjacency="replace", delta_tail=delta_tail)


def spent_on(*shares, mechanism="gaussian", **settings):
    budget = open_budget(**settings)
    for share in shares:
        getattr(budget, mechanism)("part", np.zeros(2), sensitivity=3.0, share=share)
    return budget.spent()


def pure(epsilon=0.7):
    return spent_on(1.0, mechanism="laplace", epsilon=epsilon, delta=0.0, delta_tail=0.0)


def test_mu_is_that_of_what_the_tail_leaves_of_delta():
    budget, rest = open_budget(delta=1e-6, delta_tail=4e-7), open_budget(delta=6e-7, delta_tail=0.0)
    assert budget.cost.mu == pytest.approx(rest.cost.mu, rel=1e-12)
    assert budget.cost.mu < open_budget(delta_tail=0.0).cost.mu
    stds = [one.cost.noise_std("gaussian", 3.0, 0.5) for one in (budget, rest)]
    assert stds[0] == pytest.approx(stds[1], rel=1e-12)


@pytest.mark.parametrize("part", [1e-9, 0.5, 0.999999])
@pytest.mark.parametrize("delta", [1e-9, 1e-3])
def test_the_whole_budget_is_what_was_asked_for(delta, part):
    spent = spent_on(0.5, 0.5, epsilon=2.0, delta=delta, delta_tail=part * delta)
    assert (spent.epsilon, spent.delta, spent.delta_tail) == (2.0, delta, part * delta)
    assert spent.delta_at(2.0) <= delta
    assert spent.epsilon_at(delta) <= 2.0
    assert spent.epsilon_at(delta) == pytest.approx(2.0, rel=1e-7)


def test_the_curve_is_that_of_mu_and_the_tail():
    spent = spent_on(1.0)
    for epsilon in EPSILONS:
        expected = gaussian_dp.delta_at(spent.mu, epsilon) + 4e-7
        assert spent.delta_at(epsilon) == pytest.approx(expected, rel=1e-12)
    assert spent.delta_at(math.inf) == 4e-7
    assert spent.epsilon_at(5e-7) == pytest.approx(gaussian_dp.epsilon_at(spent.mu, 1e-7))
    for delta in (0.0, 1e-7, 4e-7):
        assert spent.epsilon_at(delta) == math.inf
    # It is not known whether the event has had its chance, so that it counts from the start.
    assert spent_on().delta_at(1.0) == 4e-7
    # mu leaves the event out.
    assert spent.rho == gaussian_dp.rho_from_mu(spent.mu)


@pytest.mark.parametrize(
    ("epsilon", "delta", "delta_tail"),
    [
        (1.0, 1e-6, 1e-6),
        (1.0, 1e-6, 0.1),
        (1.0, 1e-6, -1e-9),
        (1.0, 1e-6, math.nan),
        (1.0, 0.0, 1e-9),
        (math.inf, 0.0, 1e-9),
        (math.inf, 1e-6, -1e-9),
    ],
)
def test_tails_out_of_range_are_refused(epsilon, delta, delta_tail):
    with pytest.raises(ValueError, match="delta_tail must be 0, or below delta="):
        open_budget(epsilon, delta, delta_tail)


def test_a_tail_so_large_that_no_noise_is_usable_is_refused():
    with pytest.raises(ValueError, match="is too small; pass a larger"):
        open_budget(1e-55, 1e-55, 0.9e-55)


def test_an_infinite_epsilon_takes_any_tail():
    for delta_tail in (0.0, 1e-7, 1e-6, 0.1):
        spent = spent_on(1.0, epsilon=math.inf, delta_tail=delta_tail)
        assert spent.mu == math.inf
        assert spent.delta_at(1.0) == 1.0
        assert spent.epsilon_at(0.5) == math.inf


def test_the_record_tells_of_the_tail():
    spent = spent_on(1.0)
    assert "4e-07 of delta for a tail event" in repr(spent)
    assert "tail" not in repr(spent_on(1.0, delta_tail=0.0))
    record = json.loads(json.dumps(spent.as_dict(), allow_nan=False))
    assert record == spent.as_dict()
    assert record["delta_tail"] == 4e-7
    assert spent_on(1.0, delta_tail=0.0).as_dict()["delta_tail"] == 0.0


def test_tails_of_a_composition_add():
    first = spent_on(1.0, delta=1e-6, delta_tail=4e-7)
    second = spent_on(1.0, delta=1e-8, delta_tail=3e-9)
    plain = spent_on(1.0, delta=1e-9, delta_tail=0.0)
    both = first.compose(plain, second)
    assert both.delta_tail == pytest.approx(4.03e-7)
    assert both.delta == pytest.approx(1.003e-6)
    # What the first record keeps beside its own tail is what the composition keeps beside all.
    assert both.delta - both.delta_tail == pytest.approx(first.delta - first.delta_tail)
    assert both.epsilon == both.epsilon_at(both.delta)
    assert both.epsilon == pytest.approx(gaussian_dp.epsilon_at(both.mu, 6e-7))
    assert both.delta_at(both.epsilon) <= both.delta
    # Even where the tail of another exceeds the delta of the first.
    other = plain.compose(first)
    assert other.delta == pytest.approx(1e-9 + 4e-7)
    assert math.isfinite(other.epsilon)
    assert plain.epsilon < other.epsilon


def test_a_composition_states_the_same_in_one_step_or_in_two():
    parts = [spent_on(0.5, delta=1e-6, delta_tail=tail) for tail in (1e-7, 5e-7, 2e-9)]
    for records in (parts, [pure(), *parts], [parts[0], pure(), *parts[1:]]):
        first, second, *others = records
        at_once, stepwise = first.compose(second, *others), first.compose(second).compose(*others)
        for name in ("delta", "delta_tail", "mu", "epsilon"):
            assert getattr(stepwise, name) == pytest.approx(getattr(at_once, name), rel=1e-7)
    alone = parts[0].compose()
    assert (alone.delta, alone.delta_tail) == (1e-6, 1e-7)


def test_pure_records_beside_one_with_a_tail_promise_no_pure_privacy():
    tailed = spent_on(1.0)
    for both in (pure().compose(tailed), tailed.compose(pure())):
        assert (both.delta, both.delta_tail) == (1e-6, 4e-7)
        assert both.mu == pytest.approx(math.hypot(pure().mu, tailed.mu))
        assert both.epsilon_at(4e-7) == math.inf
        assert both.delta_at(math.inf) == 4e-7
        assert math.isfinite(both.epsilon)
        assert both.epsilon > tailed.epsilon
    # Nor does what merely looks like a pure record.
    forged = dataclasses.replace(pure(), delta_tail=0.1)
    assert forged.epsilon_at(0.05) == forged.compose(pure()).epsilon == math.inf
    assert forged.delta_at(0.7) >= 0.1


def test_tails_that_add_to_more_than_one_promise_nothing():
    likely = spent_on(1.0, delta=0.5, delta_tail=0.4)
    many = likely.compose(likely, likely)
    assert many.delta_tail == 1.0
    assert many.delta < 1
    assert many.epsilon == many.epsilon_at(0.99) == math.inf
    assert many.delta_at(100.0) == 1.0


def test_tails_that_take_all_of_a_delta_that_is_stated_leave_it_below_one():
    likely, certain = spent_on(1.0, delta=0.9, delta_tail=0.1), spent_on(1.0, delta=0.9)
    both = certain.compose(*[likely] * 5)
    assert both.delta < 1
    assert both.delta_at(both.epsilon) <= both.delta


@pytest.mark.parametrize("n_fits", [1, 2, 5])
@pytest.mark.parametrize("tail", [1e-9, 1e-3, 0.1])
def test_claims_hold_for_fits_that_publish_everything_in_the_tail(n_fits, tail):
    fit = spent_on(1.0, epsilon=2.0, delta=1.5 * tail, delta_tail=tail)
    together = fit.compose(*[fit] * (n_fits - 1))
    kept = (1 - tail) ** n_fits
    for epsilon in EPSILONS:
        gaussian = gaussian_dp.delta_at(math.sqrt(n_fits) * fit.mu, epsilon)
        # All comes out unless no fit fails.
        exact = -math.expm1(n_fits * math.log1p(-tail)) + kept * gaussian
        claimed = together.delta_at(epsilon)
        # An accountant that forgot the tail, or counted it once, would claim less.
        assert exact * (1 - 1e-9) <= claimed
        assert claimed <= exact * (1 + 1e-6) + n_fits**2 * tail * (tail + gaussian)
