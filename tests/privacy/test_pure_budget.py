"""The budget and the record where the noise is pure."""

import dataclasses
import functools
import json
import math

import numpy as np
import pytest
from dp_accounting.pld import common
from dp_accounting.pld import privacy_loss_distribution as pld

from skdp.exceptions import BudgetError
from skdp.privacy import PrivacyBudget, gaussian_dp, pure_dp
from skdp.privacy.noise import SCALE_MARGIN, NoiseSource

SECRET = 2**127 + 99
MARGIN = 1 + SCALE_MARGIN
DELTAS = (1e-12, 1e-9, 1e-6, 1e-3, 0.1)


def open_budget(epsilon=1.0, delta=0.0, *, noise_source=None, **keywords):
    return PrivacyBudget(
        epsilon, delta, unit="row", adjacency="replace", noise_source=noise_source, **keywords
    )


def spent_on(*shares, epsilon=1.0, delta=0.0, mechanism="laplace", **keywords):
    budget = open_budget(epsilon, delta, **keywords)
    for share in shares:
        getattr(budget, mechanism)("part", np.zeros(2), sensitivity=3.0, share=share)
    return budget.spent()


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_noise_scale_is_the_standard_deviation_of_an_entry(delta):
    budget = open_budget(3.0, delta)
    epsilon = 0.75
    if delta:
        epsilon = pure_dp.epsilon_from_mu(budget.cost.mu / 2)
    for release, shape, variance in (
        (budget.laplace, (), 2),
        (budget.laplace, (9,), 2),
        (budget.laplace, (9, 1), 2),
        (budget.laplace, (9, 4), 5),
        (budget.spherical, (), 2),
        (budget.spherical, (6,), 7),
        (budget.spherical, (2, 3), 7),
        (budget.spherical, (2, 3, 4), 25),
    ):
        budget._releases.clear()
        released = release("value", np.zeros(shape), sensitivity=5.0, share=0.25)
        assert released.value.shape == shape
        assert released.noise_std == pytest.approx(MARGIN * 5.0 / epsilon * math.sqrt(variance))
        scale = budget.cost.noise_std(release.__name__, 5.0, 0.25, variance - 1)
        assert released.noise_std == scale


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize(
    ("mechanism", "shape"),
    [("laplace", (40_000,)), ("laplace", (10_000, 4)), ("spherical", (400, 100))],
)
def test_noise_has_the_scale_that_the_ledger_says(mechanism, shape, delta):
    budget = open_budget(2.0, delta, noise_source=NoiseSource(SECRET, ("scale",)))
    value = np.linspace(-5, 5, math.prod(shape)).reshape(shape)
    noisy, scale = getattr(budget, mechanism)("table", value, sensitivity=3.0, share=0.5)
    # The kurtosis of these laws is at most 6, hence the spread of a mean of squares.
    rel = 4 * math.sqrt(5 / value.size)
    assert np.mean((noisy - value) ** 2) == pytest.approx(scale**2, rel=rel)


def test_gaussian_noise_is_refused_before_the_data_are_read():
    budget = open_budget()
    unreadable = object()
    for release in (
        functools.partial(budget.gaussian, sensitivity=1.0),
        functools.partial(budget.symmetric_gaussian, sensitivity=1.0),
        functools.partial(budget.histogram, edges=np.ones(2)),
    ):
        with pytest.raises(BudgetError, match="delta=0 admits laplace, spherical and exponential"):
            release("name", unreadable, share=0.5)
    with pytest.raises(BudgetError, match="delta=0 admits laplace, spherical and exponential"):
        budget.cost.search("name", 0.5, np.ones(4))
    with pytest.raises(BudgetError, match="got 'gaussian'"):
        budget.cost.noise_std("gaussian", 1.0, 0.5)
    assert budget.spent().releases == ()
    budget.laplace("all is left", 0.0, sensitivity=1.0, share=1.0)


def test_laplace_noise_takes_vectors_and_matrices_only():
    budget = open_budget()
    with pytest.raises(ValueError, match="value has 3 dimensions"):
        budget.laplace("table", np.zeros((2, 2, 2)), sensitivity=1.0, share=0.5)
    assert budget.spent().releases == ()


@pytest.mark.parametrize("shares", [[0.1] * 10, [1 / 3] * 3, [0.7, 0.2, 0.1]])
def test_shares_are_of_epsilon_and_add_to_one(shares):
    budget = open_budget(2.0)
    for share in shares:
        _, scale = budget.laplace("part", 0.0, sensitivity=3.0, share=share)
        assert scale == pytest.approx(MARGIN * math.sqrt(2) * 3.0 / (2.0 * share))
    assert budget.spent().epsilon_at(0.0) == pytest.approx(2.0, rel=1e-15)
    assert budget.spent().epsilon_at(0.0) <= 2.0
    assert budget.spent().mu <= budget.cost.mu
    with pytest.raises(BudgetError, match="'one more'"):
        budget.spherical("one more", 0.0, sensitivity=1.0, share=1e-9)


def test_tiny_shares_are_refused_rather_than_divided_by():
    for delta in (0.0, 1e-6):
        budget = open_budget(1.0, delta)
        with pytest.raises(BudgetError, match="has 1 numbers"):
            budget.laplace("part", 0.0, sensitivity=1e300, share=5e-324)
        # What has no numbers has nothing to round.
        with pytest.raises(BudgetError, match="deviation inf"):
            budget.laplace("part", np.zeros(0), sensitivity=1e300, share=5e-324)
        assert budget.spent().releases == ()


def test_the_record_of_a_pure_fit_is_exact():
    spent = spent_on(0.5, 0.25, epsilon=2.0)
    assert (spent.epsilon, spent.delta) == (2.0, 0.0)
    assert spent.epsilon_at(0.0) == 1.5
    assert spent.delta_at(1.5) == spent.delta_at(2.0) == 0.0
    assert 0 < spent.delta_at(1.4999) < 1e-4
    assert [release.share for release in spent.releases] == [0.5, 0.25]
    assert {release.mechanism for release in spent.releases} == {"laplace"}
    alone = spent_on(1.0, epsilon=2.0)
    assert alone.mu == pytest.approx(pure_dp.mu_from_epsilon(2.0))
    assert alone.rho == gaussian_dp.rho_from_mu(alone.mu)
    parts = [pure_dp.mu_from_epsilon(epsilon) for epsilon in (1.0, 0.5)]
    assert spent.mu == pytest.approx(math.hypot(*parts))


@pytest.mark.parametrize("shares", [[1.0], [0.01] * 100])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_the_curve_is_the_lower_of_the_pure_one_and_that_of_mu(shares, epsilon):
    spent = spent_on(*shares, epsilon=epsilon)
    for delta in DELTAS:
        found = spent.epsilon_at(delta)
        assert found <= spent.epsilon_at(0.0) <= epsilon
        assert found <= gaussian_dp.epsilon_at(spent.mu, delta)
        assert spent.delta_at(found) <= delta * (1 + 1e-6)
    # Of many small releases the sum of squares tells more than the sum.
    assert (spent.epsilon_at(1e-6) < 0.9 * epsilon) == (len(shares) > 1)


def test_pure_records_compose_by_adding_epsilons():
    first = spent_on(0.5, 0.25, epsilon=1.0)
    second = spent_on(0.5, epsilon=3.0, mechanism="spherical", noise_source=NoiseSource(SECRET))
    both = first.compose(second)
    assert (both.epsilon, both.delta, both.epsilon_at(0.0)) == (2.25, 0.0, 2.25)
    assert both.delta_at(2.25) == 0.0
    assert both.mu == pytest.approx(math.hypot(first.mu, second.mu), rel=1e-8)
    epsilons = [release.share * both.epsilon for release in both.releases]
    assert epsilons == pytest.approx([0.5, 0.25, 1.5])
    assert both.seeded
    # Composed records are records: they compose again.
    three = both.compose(spent_on(1.0, epsilon=0.75), spent_on())
    assert three.epsilon == pytest.approx(3.0)
    epsilons = [release.share * three.epsilon for release in three.releases]
    assert epsilons == pytest.approx([0.5, 0.25, 1.5, 0.75])
    assert spent_on().compose(spent_on()).epsilon == 0.0


def test_a_fit_without_noise_leaves_no_pure_record():
    both = spent_on(1.0).compose(spent_on(1.0, epsilon=math.inf))
    assert both.mu == both.epsilon == both.epsilon_at(0.0) == both.epsilon_at(0.1) == math.inf
    assert "no privacy" in repr(both)
    assert [release.share for release in both.releases] == [1.0, 1.0]


@pytest.mark.parametrize("delta", [1e-6, 1e-9])
def test_pure_and_gaussian_records_compose_by_mu(delta):
    pure = spent_on(0.5, 0.25, epsilon=1.0)
    gaussian = spent_on(0.3, 0.1, epsilon=2.0, delta=delta, mechanism="gaussian")
    for both in (pure.compose(gaussian), gaussian.compose(pure)):
        assert both.mu == pytest.approx(math.hypot(pure.mu, gaussian.mu), rel=1e-8)
        assert both.delta == delta
        assert both.epsilon == both.epsilon_at(delta) == gaussian_dp.epsilon_at(both.mu, delta)
        assert both.epsilon_at(0.0) == math.inf
        assert math.fsum(release.share for release in both.releases) == pytest.approx(1.0)
        for release in both.releases:
            mu = both.mu * math.sqrt(release.share)
            if release.mechanism == "laplace":
                scale = math.sqrt(2) * 3.0 / pure_dp.epsilon_from_mu(mu)
            else:
                scale = 3.0 / mu
            assert release.noise_std == pytest.approx(MARGIN * scale)


def test_pure_noise_in_a_gaussian_budget_is_paid_in_mu():
    budget = open_budget(1.0, 1e-6)
    budget.gaussian("sum", np.zeros(3), sensitivity=1.0, share=0.5)
    budget.spherical("matrix", np.zeros((3, 2)), sensitivity=1.0, share=0.25)
    budget.laplace("rows", np.zeros((3, 2)), sensitivity=1.0, share=0.25)
    spent = budget.spent()
    assert spent.mu == pytest.approx(budget.cost.mu)
    assert spent.epsilon_at(1e-6) == pytest.approx(1.0, rel=1e-8)
    epsilon = pure_dp.epsilon_from_mu(budget.cost.mu / 2)
    assert spent.releases[1].noise_std == pytest.approx(MARGIN * math.sqrt(7) / epsilon)
    assert spent.releases[2].noise_std == pytest.approx(MARGIN * math.sqrt(3) / epsilon)
    assert spent.epsilon_at(0.0) == math.inf


def least_epsilon(distributions, delta):
    """Lower bound of the epsilon of a composition, by numerical accounting."""
    whole = distributions[0]
    for distribution in distributions[1:]:
        whole = whole.compose(distribution)
    return whole.get_epsilon_for_delta(delta)


def laplace_losses(spent):
    return [
        pld.from_laplace_mechanism(
            release.noise_std / math.sqrt(2),
            sensitivity=release.sensitivity,
            pessimistic_estimate=False,
        )
        for release in spent.releases
    ]


def gaussian_losses(spent):
    return [
        pld.from_gaussian_mechanism(
            release.noise_std, sensitivity=release.sensitivity, pessimistic_estimate=False
        )
        for release in spent.releases
    ]


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize("shares", [[1.0], [0.25] * 4, [0.5, 0.3, 0.1, 0.1]])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_claims_for_laplace_noise_hold_in_numerical_accounting(shares, epsilon):
    spent = spent_on(*shares, epsilon=epsilon)
    for delta in DELTAS:
        assert least_epsilon(laplace_losses(spent), delta) <= spent.epsilon_at(delta)


@pytest.mark.parametrize("delta", DELTAS)
def test_claims_for_any_pure_mechanism_hold_and_are_close(delta):
    # Two answers by randomized response are the worst that pure mechanisms can be.
    spent = spent_on(*[0.05] * 20, epsilon=2.0)
    worst = [pld.from_privacy_parameters(common.DifferentialPrivacyParameters(0.1, 0.0))] * len(
        spent.releases
    )
    numerical = least_epsilon(worst, delta)
    # Its losses are rounded up to a grid of 1e-4: twenty times at most.
    assert numerical - 2e-3 <= spent.epsilon_at(delta) <= 2 * numerical


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize("delta", DELTAS)
def test_claims_for_laplace_beside_gaussian_noise_hold(delta):
    pure = spent_on(0.5, 0.5, epsilon=2.0)
    gaussian = spent_on(1.0, epsilon=1.0, delta=1e-6, mechanism="gaussian")
    numerical = least_epsilon([*laplace_losses(pure), *gaussian_losses(gaussian)], delta)
    assert numerical <= pure.compose(gaussian).epsilon_at(delta)
    mixed = open_budget(2.0, 1e-6)
    mixed.gaussian("first", 0.0, sensitivity=1.0, share=0.5)
    mixed.laplace("second", 0.0, sensitivity=1.0, share=0.5)
    first, second = (
        dataclasses.replace(mixed.spent(), releases=(release,))
        for release in mixed.spent().releases
    )
    numerical = least_epsilon([*gaussian_losses(first), *laplace_losses(second)], delta)
    assert numerical <= mixed.spent().epsilon_at(delta)


def test_a_pure_record_is_readable_and_goes_through_json():
    spent = spent_on(0.5, epsilon=2.5)
    assert "(2.5, 0)-DP per row" in repr(spent)
    assert "no privacy" not in repr(spent)
    record = json.loads(json.dumps(spent.as_dict(), allow_nan=False))
    assert record == spent.as_dict()
    assert record["releases"][0]["mechanism"] == "laplace"
