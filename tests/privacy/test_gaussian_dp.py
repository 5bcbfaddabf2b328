import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from skdp.privacy import pure_dp
from skdp.privacy.gaussian_dp import (
    compose,
    compose_tails,
    delta_at,
    epsilon_at,
    mu_from_epsilon_delta,
    rho_from_mu,
    true_positives_at,
)

EPSILONS = (1e-3, 1e-2, 0.1, 0.5, 1.0, 3.0, 10.0, 30.0, 100.0, 1e3)
DELTAS = (1e-300, 1e-200, 1e-100, 1e-50, 1e-20, 1e-12, 1e-9, 1e-6, 1e-3, 0.1, 0.5)
EXTREMES = ((1e-20, 1e-300), (1e-20, 0.5), (1e-9, 1e-200), (1e-6, 1e-100), (1e12, 1e-300))
TIGHT = 1e-8


def exact_delta(mu, epsilon):
    # The naive formula: mpmath's exponents have no end, and 100 digits outlive the cancellation.
    with mpmath.workdps(100):
        mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
        return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(
            -epsilon / mu - mu / 2
        )


@pytest.mark.parametrize(
    ("delta", "epsilon", "exact"),
    [
        (1e-5, 0.1, 30.7),
        (1e-5, 1, 3.73),
        (1e-5, 5, 0.892),
        (1e-5, 10, 0.500),
        (1e-5, 30, 0.2147),
        (1e-5, 40, 0.1749),
        (1e-8, 1, 5.10),
        (1e-8, 10, 0.616),
    ],
)
def test_noise_multipliers_have_the_specified_values(delta, epsilon, exact):
    assert 1 / mu_from_epsilon_delta(epsilon, delta) == pytest.approx(exact, rel=2e-3)


GRID = ((epsilon, DELTAS) for epsilon in EPSILONS)


@pytest.mark.parametrize(
    ("epsilon", "deltas"), [*GRID, *((epsilon, (delta,)) for epsilon, delta in EXTREMES)]
)
def test_conversions_are_safe_and_tight(epsilon, deltas):
    for delta in deltas:
        mu = mu_from_epsilon_delta(epsilon, delta)
        exact = exact_delta(mu, epsilon)
        assert exact <= delta < exact_delta(mu * (1 + TIGHT), epsilon)
        found = epsilon_at(mu, delta)
        assert exact_delta(mu, found) <= delta
        assert delta_at(mu, epsilon) >= exact
        if deltas is DELTAS:
            assert delta_at(mu, epsilon) <= exact * (1 + TIGHT)
            assert exact_delta(mu, found * (1 - TIGHT)) > delta
        # A difference of 1e-12 means nothing: it need not be tight beyond that.
        assert found <= epsilon * (1 + 1e-7) + 1e-12


NEAR_ONE = tuple(1 - 2.0**-bits for bits in (1.001, 13, 27, 30, 33.2, 40, 46.5, 50, 51, 52, 53))
NEAR_ZERO = (5e-324, 1e-320, 3e-310, 1e-307)


def exact_complement(mu, epsilon):
    with mpmath.workdps(100):
        mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
        far = mpmath.exp(epsilon) * mpmath.ncdf(-epsilon / mu - mu / 2)
        return mpmath.ncdf(epsilon / mu - mu / 2) + far


@pytest.mark.parametrize("epsilon", [1e-12, 1e-9, 1e-3, 0.1, 0.5, 1, 2, 5, 10, 50, 300, 700])
def test_mu_is_safe_at_both_ends_of_delta(epsilon):
    for delta in NEAR_ONE:
        mu = mu_from_epsilon_delta(epsilon, delta)
        assert mu == mu_from_epsilon_delta(epsilon, 0.5)
        assert exact_complement(mu, epsilon) >= 1 - delta
    for delta in NEAR_ZERO:
        mu = mu_from_epsilon_delta(epsilon, delta)
        assert exact_delta(mu, epsilon) <= delta
        assert mu == 0 or exact_delta(mu * (1 + TIGHT), epsilon) > delta


@pytest.mark.parametrize("mu", [1e-3, 1, 5, 10, 13, 16, 16.3, 16.5, 17, 20, 30, 50, 100, 1e4])
def test_epsilon_at_is_safe_at_both_ends_of_delta(mu):
    for delta in NEAR_ONE:
        epsilon = epsilon_at(mu, delta)
        assert epsilon == epsilon_at(mu, 0.5)
        assert exact_complement(mu, epsilon) >= 1 - delta
    for delta in NEAR_ZERO:
        assert exact_delta(mu, epsilon_at(mu, delta)) <= delta


def test_delta_that_no_float_holds_is_rounded_up_to_one_that_is_not_zero():
    assert 0 < delta_at(1.0, 1e6) < 1e-300


def test_nothing_spent_is_zero_and_no_privacy_is_infinity():
    assert mu_from_epsilon_delta(math.inf, 1e-6) == math.inf
    assert mu_from_epsilon_delta(math.inf, 0.0) == math.inf
    assert mu_from_epsilon_delta(1.0, 0.0) == 0.0
    assert delta_at(0.0, 0.0) == delta_at(0.0, 1.0) == 0.0
    assert delta_at(1.0, math.inf) == 0.0
    assert delta_at(math.inf, 1.0) == 1.0
    assert epsilon_at(0.0, 0.0) == epsilon_at(0.0, 1e-6) == 0.0
    assert epsilon_at(math.inf, 1e-6) == math.inf
    assert epsilon_at(1.0, 0.0) == math.inf
    assert epsilon_at(0.1, 0.5) == 0.0
    assert compose([]) == 0.0
    assert compose([1.0, math.inf]) == math.inf


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        *((mu_from_epsilon_delta, (epsilon, 1e-6)) for epsilon in (0.0, -1.0, math.nan)),
        *((mu_from_epsilon_delta, (1.0, delta)) for delta in (-1e-9, 1.0, 2.0, math.nan)),
        *((delta_at, (mu, 1.0)) for mu in (-1e-9, math.nan)),
        *((delta_at, (1.0, epsilon)) for epsilon in (-1e-9, math.nan)),
        *((epsilon_at, (mu, 1e-6)) for mu in (-1e-9, math.nan)),
        *((epsilon_at, (1.0, delta)) for delta in (-1e-9, 1.0, math.nan)),
        (rho_from_mu, (-1e-9,)),
        *((true_positives_at, (mu, 0.01)) for mu in (-1e-9, math.nan)),
        *((true_positives_at, (1.0, rate)) for rate in (-1e-9, 1.0, math.nan)),
    ],
)
def test_values_out_of_range_are_refused(function, arguments):
    with pytest.raises(ValueError, match="must"):
        function(*arguments)


def test_composition_adds_squares_rounded_up():
    mus = [0.1] * 100 + [3.0, 4.0]
    exact = mpmath.sqrt(sum(mpmath.mpf(mu) ** 2 for mu in mus))
    assert exact <= compose(mus) <= exact * (1 + TIGHT)
    assert compose([compose(mus[:50]), compose(mus[50:])]) == pytest.approx(float(exact), rel=TIGHT)
    assert mpmath.mpf(0.3) ** 2 / 2 <= rho_from_mu(0.3) <= 0.045 * (1 + TIGHT)


# Parts of delta, and one that leaves of it what rounding would lose.
TAILS = (1e-12, 0.3, 0.999, 1 - 1e-15)


def exact(value):
    return mpmath.mpf(Fraction(value).numerator) / Fraction(value).denominator


def delta_with_tail(mu, epsilon, tail):
    with mpmath.workdps(100):
        return exact_delta(mu, epsilon) + exact(tail)


@pytest.mark.covered
@pytest.mark.parametrize("part", TAILS)
@pytest.mark.parametrize("epsilon", [1e-2, 1.0, 30.0])
def test_mu_leaves_room_for_a_tail_event_and_no_more(epsilon, part):
    for delta in (1e-20, 1e-6, 1e-3, 0.1):
        tail = part * delta
        mu = mu_from_epsilon_delta(epsilon, delta, tail)
        assert delta_with_tail(mu, epsilon, tail) <= delta
        assert delta_with_tail(mu * (1 + TIGHT), epsilon, tail) > delta


@pytest.mark.covered
@pytest.mark.parametrize("tail", [1e-30, 1e-9, 1e-3, 0.5])
@pytest.mark.parametrize("mu", [1e-3, 0.1, 1.0, 5.0])
def test_a_tail_event_adds_to_the_curve(mu, tail):
    for epsilon in (0.0, 0.1, 1.0, 10.0):
        delta = delta_at(mu, epsilon, tail)
        least = min(1, delta_with_tail(mu, epsilon, tail))
        assert least <= delta <= least * (1 + 3e-9) + 1e-300
    for left in (1e-30, 1e-12, 1e-6, 1e-3, 0.1):
        delta = tail + left
        if delta > tail:
            epsilon = epsilon_at(mu, delta, tail)
            assert delta_with_tail(mu, epsilon, tail) <= delta
            if epsilon > 0:
                assert delta_with_tail(mu, epsilon * (1 - 1e-6), tail) > delta


@pytest.mark.parametrize("tail", [0.0, 1e-3])
@pytest.mark.parametrize("mu", [1e-3, 0.3, 1.0, 4.0])
def test_true_positives_are_the_least_that_the_whole_curve_allows(mu, tail):
    for rate in (1e-9, 0.01, 0.4):
        found = true_positives_at(mu, rate, tail)
        allowed = [
            math.exp(epsilon) * rate + delta_at(mu, epsilon, tail)
            for epsilon in np.linspace(0, mu * mu / 2 + 7 * mu, 2001)
        ]
        assert found <= min(allowed) * (1 + 1e-8)
        assert found >= min(allowed) * (1 - 1e-4) or rate > 0.3
    assert true_positives_at(mu, 0.0, tail) == pytest.approx(tail)
    assert true_positives_at(math.inf, 0.01, tail) == 1.0


def test_no_epsilon_goes_with_a_delta_below_that_of_the_tail_event():
    assert epsilon_at(0.5, 1e-6, 1e-5) == math.inf
    assert epsilon_at(0.5, 1e-5, 1e-5) == math.inf
    assert epsilon_at(0.0, 1e-6, 1e-5) == math.inf
    assert epsilon_at(0.0, 1e-5, 1e-5) == 0.0
    assert delta_at(0.0, 1.0, 1e-5) == delta_at(0.5, math.inf, 1e-5) == 1e-5
    assert delta_at(50.0, 0.0, 0.3) == delta_at(math.inf, 1.0, 0.3) == 1.0
    assert mu_from_epsilon_delta(math.inf, 1e-6, 1e-5) == math.inf


def test_tail_events_add_up_to_one_at_most():
    assert compose_tails([]) == 0.0
    assert compose_tails([1e-7]) == 1e-7
    assert compose_tails([0.6, 0.6]) == 1.0
    tails = [0.1, 1e-20, 0.3]
    assert sum(map(Fraction, tails)) <= Fraction(compose_tails(tails)) <= Fraction(0.4 + 1e-15)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (mu_from_epsilon_delta, (1.0, 1e-6, -1e-7)),
        (mu_from_epsilon_delta, (1.0, 1e-6, 1e-6)),
        (mu_from_epsilon_delta, (1.0, 1e-6, math.nan)),
        (mu_from_epsilon_delta, (1.0, 0.0, 1e-7)),
        (mu_from_epsilon_delta, (math.inf, 0.0, 1e-7)),
        (mu_from_epsilon_delta, (math.inf, 1e-6, 1.0)),
        (delta_at, (1.0, 1.0, -1e-7)),
        (epsilon_at, (1.0, 1e-6, math.nan)),
        (compose_tails, ([1e-7, 1.1],)),
    ],
)
def test_tails_out_of_range_are_refused(function, arguments):
    with pytest.raises(ValueError, match="delta_tail must"):
        function(*arguments)


def test_a_tail_does_not_hide_a_delta_out_of_range():
    for function, arguments in (
        (mu_from_epsilon_delta, (1.0, 1.2, 0.5)),
        (epsilon_at, (1.0, 1.2, 0.5)),
        (epsilon_at, (1.0, -0.1, 0.5)),
    ):
        with pytest.raises(ValueError, match="delta must lie in"):
            function(*arguments)


@pytest.mark.covered
@pytest.mark.parametrize("below", [1e-11, 1e-13, 1e-15])
@pytest.mark.parametrize("mu", [1e-6, 2e-5, 4e-5, 1e-3, 0.1, 1.0])
def test_epsilon_is_rounded_to_0_only_where_it_is(mu, below):
    with mpmath.workdps(50):
        at_0 = mpmath.erf(mpmath.mpf(mu) / mpmath.sqrt(8))
        delta = float(at_0 * (1 - below))
        found = epsilon_at(mu, delta)
        assert found > 0
        assert exact_delta(mu, found) <= delta
        assert epsilon_at(mu, float(at_0 * (1 + 1e-13))) == 0.0


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.longdouble])
def test_accounting_is_in_double_precision_whatever_the_type(kind):
    epsilon, delta, tail, mu = kind(0.7), kind(1e-3), kind(2e-4), kind(0.3)
    plain = {"epsilon": float(epsilon), "delta": float(delta), "delta_tail": float(tail)}
    for found, expected in (
        (mu_from_epsilon_delta(epsilon, delta, tail), mu_from_epsilon_delta(**plain)),
        (delta_at(mu, epsilon, tail), delta_at(float(mu), plain["epsilon"], plain["delta_tail"])),
        (epsilon_at(mu, delta, tail), epsilon_at(float(mu), plain["delta"], plain["delta_tail"])),
        (compose([mu, mu]), compose([float(mu)] * 2)),
        (compose_tails([tail, tail]), compose_tails([float(tail)] * 2)),
        (rho_from_mu(mu), rho_from_mu(float(mu))),
        (pure_dp.mu_from_epsilon(epsilon), pure_dp.mu_from_epsilon(float(epsilon))),
        (pure_dp.epsilon_from_mu(mu), pure_dp.epsilon_from_mu(float(mu))),
        (pure_dp.delta_at(epsilon, mu), pure_dp.delta_at(float(epsilon), float(mu))),
        (pure_dp.epsilon_at(epsilon, delta), pure_dp.epsilon_at(float(epsilon), float(delta))),
    ):
        assert type(found) is float
        assert found == expected
