import math

import mpmath
import numpy as np
import pytest
from scipy import stats

from skdp.privacy import gaussian_dp
from skdp.privacy.pure_dp import delta_at, epsilon_at, epsilon_from_mu, mu_from_epsilon

EPSILONS = (1e-40, 1e-12, 1e-4, 0.1, 0.5, 1.0, 1.9999, 2.0001, 5.0, 10.0, 30.0, 100.0, 700.0, 1e5)
DELTAS = (1e-300, 1e-50, 1e-20, 1e-12, 1e-6, 1e-3, 0.1, 0.5, 0.9, 1 - 1e-6, 1 - 2.0**-53)
TIGHT = 1e-8


def exact_epsilon(mu):
    """The epsilon whose randomized response has the errors of both kinds that mu-GDP has."""
    error = mpmath.erfc(mu / mpmath.sqrt(8)) / 2
    return mpmath.log((1 - error) / error)


def exact_delta(pure_epsilon, epsilon):
    truth, other = mpmath.exp(pure_epsilon), mpmath.exp(epsilon)
    return max(mpmath.mpf(0), (truth - other) / (1 + truth))


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_mu_is_safe_and_tight(epsilon):
    with mpmath.workdps(150):
        mu = mpmath.mpf(mu_from_epsilon(epsilon))
        assert exact_epsilon(mu) >= epsilon
        assert exact_epsilon(mu * (1 - TIGHT)) < epsilon


@pytest.mark.parametrize("mu", [1e-40, 1e-12, 1e-4, 0.1, 1.0, 1.9999, 2.0001, 5.0, 30.0, 1e3])
def test_epsilon_is_safe_and_tight(mu):
    with mpmath.workdps(150):
        exact = exact_epsilon(mpmath.mpf(mu))
        assert exact * (1 - TIGHT) < epsilon_from_mu(mu) <= exact


def test_epsilon_and_mu_invert_each_other_up_to_the_largest_floats():
    for epsilon in (1e-300, *EPSILONS, 1e30, 1e100, 1e200, 1e307):
        back = epsilon_from_mu(mu_from_epsilon(epsilon))
        assert back == pytest.approx(epsilon, rel=TIGHT)
    assert mu_from_epsilon(1e300) == pytest.approx(math.sqrt(8e300))
    assert 1e308 < epsilon_from_mu(1e200) < math.inf


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0])
def test_errors_of_mu_gdp_are_below_those_of_randomized_response(epsilon):
    first = np.concatenate([np.linspace(0, 1, 1000), np.geomspace(1e-15, 1, 1000)])
    response = np.maximum(
        0, np.maximum(1 - math.exp(epsilon) * first, math.exp(-epsilon) * (1 - first))
    )
    mu = mu_from_epsilon(epsilon)
    gaussian = stats.norm.cdf(stats.norm.isf(first) - mu)
    assert np.all(gaussian <= response * (1 + 1e-9) + 1e-15)
    # A smaller mu is not enough where the two lines of the response meet.
    corner = 1 / (1 + math.exp(epsilon))
    for factor, enough in ((1.0, True), (0.999, False)):
        assert (stats.norm.cdf(stats.norm.isf(corner) - factor * mu) <= corner) == enough


@pytest.mark.parametrize("pure_epsilon", [1e-3, 0.1, 1.0, 2.0, 5.0, 10.0, 30.0])
def test_the_curve_of_the_mu_dominates_the_pure_curve(pure_epsilon):
    mu = mu_from_epsilon(pure_epsilon)
    for epsilon in np.linspace(0, 1.5 * pure_epsilon, 1000):
        assert gaussian_dp.delta_at(mu, epsilon) >= delta_at(pure_epsilon, epsilon) * (1 - TIGHT)


@pytest.mark.parametrize("pure_epsilon", EPSILONS)
def test_delta_at_is_safe_and_tight(pure_epsilon):
    with mpmath.workdps(100):
        for epsilon in pure_epsilon * np.array([0, 1e-9, 0.1, 0.5, 0.9, 1 - 1e-9]):
            exact = exact_delta(mpmath.mpf(pure_epsilon), mpmath.mpf(epsilon))
            assert exact <= delta_at(pure_epsilon, epsilon) <= exact * (1 + TIGHT)
    assert delta_at(pure_epsilon, pure_epsilon) == delta_at(pure_epsilon, math.inf) == 0.0


@pytest.mark.parametrize("pure_epsilon", EPSILONS)
def test_epsilon_at_is_safe_and_tight(pure_epsilon):
    assert epsilon_at(pure_epsilon, 0.0) == pure_epsilon
    slack = 1e-13 * (1 + pure_epsilon)
    with mpmath.workdps(100):
        for delta in DELTAS:
            found = epsilon_at(pure_epsilon, delta)
            assert 0 <= found <= pure_epsilon
            assert exact_delta(mpmath.mpf(pure_epsilon), mpmath.mpf(found)) <= delta
            less = found * (1 - TIGHT) - slack
            assert less < 0 or exact_delta(mpmath.mpf(pure_epsilon), mpmath.mpf(less)) > delta


def test_nothing_spent_is_zero_and_no_privacy_is_infinity():
    assert mu_from_epsilon(0.0) == epsilon_from_mu(0.0) == 0.0
    assert mu_from_epsilon(math.inf) == epsilon_from_mu(math.inf) == math.inf
    assert epsilon_at(0.0, 0.0) == epsilon_at(0.0, 0.5) == delta_at(0.0, 0.0) == 0.0
    assert epsilon_at(math.inf, 0.0) == epsilon_at(math.inf, 0.5) == math.inf
    assert delta_at(math.inf, 1.0) == 1.0


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        *((mu_from_epsilon, (epsilon,)) for epsilon in (-1e-9, math.nan)),
        *((epsilon_from_mu, (mu,)) for mu in (-1e-9, math.nan)),
        *((delta_at, pair) for pair in ((-1e-9, 1.0), (1.0, -1e-9), (math.nan, 1.0))),
        *((epsilon_at, pair) for pair in ((-1e-9, 0.5), (1.0, -1e-9), (1.0, 1.0), (1.0, math.nan))),
    ],
)
def test_values_out_of_range_are_refused(function, arguments):
    with pytest.raises(ValueError, match="must"):
        function(*arguments)
