"""What the lattice makes of a release: where it lies, how it is paid for, and what may fail."""

import math

import mpmath
import numpy as np
import pytest
from scipy.special import ndtri
from toy import certain_part

from skdp.exceptions import BudgetError
from skdp.privacy import PrivacyBudget
from skdp.privacy.noise import (
    SCALE_MARGIN,
    NoiseSource,
    largest_size,
    lattice_step,
    round_to_lattice,
)
from skdp.testing._recording import check_lattice

SECRET = 2**127 + 31
MECHANISMS = ("gaussian", "symmetric_gaussian", "laplace", "spherical")
SCALES = (1e-300, 1e-100, 0.3, 1.0, 1e7, 1e200, 1e300)


def open_budget(epsilon=1.0, delta=1e-6, **keywords):
    return PrivacyBudget(epsilon, delta, unit="row", adjacency="replace", **keywords)


@pytest.mark.parametrize("scale", [*SCALES, 2.0**-1022, 1 / 3, 0.5, 1 - 2.0**-53])
def test_the_step_is_a_power_of_two_between_a_32nd_and_a_16th(scale):
    step = lattice_step(scale)
    assert math.frexp(step)[0] == 0.5
    assert step * 16 <= scale < step * 32


@pytest.mark.covered
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("size", [0.0, 1e-20, 1.0, 1e5, 1e12, 1e20])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_released_numbers_are_multiples_of_the_step(mechanism, size, scale):
    budget = open_budget(noise_source=NoiseSource(SECRET))
    value = np.random.default_rng(0).uniform(-1, 1, size=(20, 20)) * min(size * scale, 1e307)
    value += value.T
    noisy, own_scale = getattr(budget, mechanism)(
        "table", value, sensitivity=scale / 100, share=1.0
    )
    check_lattice(budget.spent().releases[-1], noisy)
    # Rounding is to the nearest multiple, and nothing else.
    assert np.abs(noisy - value).max() < 60 * own_scale + np.abs(value).max() * 2.0**-50


def test_no_sign_of_a_zero_remains():
    rounded = round_to_lattice(np.array([-0.0, -1e-3, -1e-300, 1e-3]), 1.0)
    np.testing.assert_array_equal(rounded, 0)
    assert not np.signbit(rounded).any()


def test_where_floats_are_coarser_than_the_step_nothing_changes():
    values = np.random.default_rng(1).normal(size=100) * 2.0**60
    np.testing.assert_array_equal(round_to_lattice(values.copy(), 1.0), values)


def test_what_is_too_large_for_the_step_becomes_infinite_without_a_word():
    with np.errstate(all="raise"):
        rounded = round_to_lattice(np.array([1e300, -1e300, 1e-310]), 1e-290)
    np.testing.assert_array_equal(rounded, [math.inf, -math.inf, 0.0])


@pytest.mark.parametrize("value", [0.0, 1e-3, 1.0, 1e6])
def test_two_values_reach_the_same_numbers(value):
    scale = 0.777
    step = lattice_step(scale)
    noise = scale * ndtri(np.linspace(0, 0.5, 200_001)[1:])
    noise = np.concatenate([noise, -noise])
    shown = [
        np.unique(round_to_lattice(noise + guess, scale)) for guess in (value, value + 0.3 * step)
    ]
    # The last cells are reached by few of these draws.
    inner = [reached[np.abs(reached - value) < 4 * scale] for reached in shown]
    np.testing.assert_array_equal(*inner)
    np.testing.assert_array_equal(np.diff(inner[0]), step)


def test_no_noise_no_lattice():
    budget = open_budget(math.inf)
    value = np.array([math.pi, 1e-300])
    np.testing.assert_array_equal(
        budget.gaussian("value", value, sensitivity=1.0, share=1.0).value, value
    )


@pytest.mark.parametrize(
    ("mechanism", "delta"),
    [*((mechanism, 1e-6) for mechanism in MECHANISMS), ("laplace", 0.0), ("spherical", 0.0)],
)
def test_scales_are_larger_than_in_exact_arithmetic(mechanism, delta):
    budget = open_budget(2.0, delta)
    price = budget.cost.guarantee(mechanism, 0.25)
    scale = budget.cost.noise_std(mechanism, 3.0, 0.25, joint_entries=5)
    exact = 3.0 / price * (1 if "gaussian" in mechanism else math.sqrt(6))
    assert scale / exact - 1 == pytest.approx(SCALE_MARGIN, rel=1e-6)
    # The record says what was asked for.
    assert budget.spent().epsilon == 2.0


def test_the_margin_pays_for_the_numbers_that_are_allowed():
    # In steps of the proof: from computed to exact, to the neighbor, and back.
    for mu in (1e-6, 0.01, 1.0, 30.0):
        exact = mu / (1 + SCALE_MARGIN)
        n_numbers = largest_size("gaussian", mu)
        assert exact + 2 * 1.2534 * 5e-12 * math.sqrt(n_numbers) < mu
        n_numbers = largest_size("laplace", mu)
        assert exact + 1.8e-10 * math.sqrt(n_numbers) < mu
        n_numbers = largest_size("spherical", mu)
        assert exact + 4e-12 * n_numbers < mu


LIMITS = [
    ("gaussian", 1e-6, lambda m: (7e6 * m) ** 2),
    ("laplace", 1e-6, lambda m: (5e5 * m) ** 2),
    ("laplace", 0.0, lambda m: (5e5 * m) ** 2),
    ("spherical", 1e-6, lambda m: 2e7 * m),
    ("spherical", 0.0, lambda m: 2e7 * m),
]


@pytest.mark.parametrize(("mechanism", "delta", "limit"), LIMITS)
def test_too_many_numbers_are_refused_by_shape_alone(mechanism, delta, limit):
    budget = open_budget(1e-3, delta)
    most = math.floor(limit(budget.cost.guarantee(mechanism, 0.01)))
    # Entries of one number, so that nothing is as large as it looks.
    for size in (most + 1, 10 * most):
        value = np.broadcast_to(np.nan, (size,))
        with pytest.raises(BudgetError, match=rf"'table' has {size} numbers.* at most {most}\."):
            getattr(budget, mechanism)("table", value, sensitivity=1.0, share=0.01)
    assert budget.spent().releases == ()
    budget.cost.check_size("table", mechanism, 0.01, (most,))


def test_long_rows_of_laplace_noise_are_paid_for_as_spherical_noise():
    assert largest_size("laplace", 1.0, 150) == largest_size("laplace", 1.0)
    assert largest_size("laplace", 1.0, 151) == largest_size("spherical", 1.0)
    budget = open_budget(1e-3, 0.0)
    budget.laplace("rows", np.zeros((100, 150)), sensitivity=1.0, share=0.5)
    with pytest.raises(BudgetError, match="15100 numbers"):
        budget.laplace("rows", np.zeros((100, 151)), sensitivity=1.0, share=0.5)


def test_a_symmetric_matrix_has_about_half_as_many_numbers():
    budget = open_budget(1e-4)
    limit = (7e6 * budget.cost.mu) ** 2
    order = math.floor((math.sqrt(1 + 8 * limit) - 1) / 2)
    with pytest.raises(BudgetError, match=f"{(order + 1) * (order + 2) // 2} numbers"):
        budget.symmetric_gaussian(
            "table", np.broadcast_to(0.0, (order + 1,) * 2), sensitivity=1.0, share=1.0
        )
    released, _ = budget.symmetric_gaussian(
        "table", np.broadcast_to(0.0, (order,) * 2), sensitivity=1.0, share=1.0
    )
    assert released.shape == (order, order)
    assert order**2 > limit


@pytest.mark.parametrize("epsilon", [1e100, 1e150, 1e300])
def test_budgets_without_end_take_any_size(epsilon):
    assert largest_size("gaussian", 1e200) == largest_size("laplace", 1e200) == math.inf
    budget = open_budget(epsilon, 0.0)
    released, _ = budget.laplace("table", np.zeros(9), sensitivity=1e200, share=1.0)
    assert np.isfinite(released).all()


@pytest.mark.covered
@pytest.mark.parametrize("shape", [(), (5,), (1, 5), (5, 1), (2, 2, 2), (0,)])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_what_is_no_square_matrix_is_refused_before_it_is_broadcast_to_one(shape, delta):
    budget = open_budget(delta=delta)
    with pytest.raises(ValueError, match=r"square matrix, got shape|delta=0 admits"):
        budget.symmetric_gaussian("table", np.zeros(shape), sensitivity=1.0, share=1.0)
    assert budget.spent().releases == ()


def test_a_search_over_one_point_counts_nothing():
    budget = open_budget()
    assert budget.quantile(budget.cost.search("level", 0.5, [2.0]), np.ones(5), q=0.5) == 2.0
    assert budget.spent().releases == ()


def test_with_hardly_any_privacy_not_one_number_is_released():
    assert largest_size("gaussian", 1.4e-7) < 1 < largest_size("gaussian", 1.5e-7)
    budget = open_budget(1e-5, 1e-6)
    with pytest.raises(BudgetError, match="the rounding of at most 0"):
        budget.gaussian("count", 3.0, sensitivity=1.0, share=1e-6)


GAPS = [0.0, 0.3, 0.49, 0.5, 0.51, 1.0, 777.7, 1e6 + 0.49, 1e15]


def chance_to_exceed(gap, scale, failure):
    """Probability that the certain part of a release exceeds the gap behind it, to 50 digits."""
    step = lattice_step(scale)
    center = round(gap / step)
    reach = math.ceil(60 * scale / step)
    # A lower bound that rises with the release: find the first one that is too large.
    low, high = center - reach, center + reach
    while high - low > 1:
        middle = (low + high) // 2
        is_too_large = certain_part(middle * step, scale, failure) > gap
        low, high = (low, middle) if is_too_large else (middle, high)
    first = high * step
    edge = mpmath.mpf(first) - mpmath.mpf(step) / 2 - mpmath.mpf(np.spacing(first)) / 2
    return mpmath.ncdf((mpmath.mpf(gap) - edge) / mpmath.mpf(scale))


@pytest.mark.parametrize("failure", [1e-12, 1e-7, 1e-3])
@pytest.mark.parametrize("scale", [1.0, 1.37, 1.999])
def test_a_certain_part_fails_as_seldom_as_it_says(scale, failure):
    with mpmath.workdps(50):
        step = lattice_step(scale)
        chances = [chance_to_exceed(gap * step, scale, failure) for gap in GAPS]
        assert failure / 1000 < max(chances) <= failure


def test_without_noise_all_is_certain():
    assert certain_part(3.25, 0.0, 1e-7) == 3.25
