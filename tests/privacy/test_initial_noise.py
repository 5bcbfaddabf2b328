"""Sums in fixed point that start from their noise."""

from dataclasses import replace
from fractions import Fraction
from unittest.mock import patch

import numpy as np
import pytest

from skdp import BudgetError
from skdp.linalg.prefix_sums import prefix_noise
from skdp.privacy import PrivacyBudget, Release
from skdp.privacy.budget import InitialNoiseSums, fixed_point_unit, to_counts
from skdp.testing._recording import check_lattice

ONCE = prefix_noise(1)
RELEASE = Release("sums", "gaussian", 1.0, sensitivity=1.0, noise_std=3.0)


def opened(epsilon=1.0, delta=1e-6):
    return PrivacyBudget(epsilon, delta, unit="update", adjacency="replace")


def test_the_budget_is_spent_before_there_are_data():
    budget = opened()
    sums = Release("sums", "gaussian", 0.25, sensitivity=2.0, shape=(4, 3))
    counts = budget.sums_with_initial_noise(sums, unit=2.0**-40, correlation=ONCE)
    (release,) = budget.spent().releases
    assert (release.name, release.share, release.sensitivity) == ("sums", 0.25, 2.0)
    assert release.noise_std == budget.cost.noise_std("gaussian", 2.0, 0.25)
    assert counts.counts.dtype == np.int64
    with pytest.raises(BudgetError, match="asks for a share"):
        budget.sums_with_initial_noise(replace(sums, share=0.8), unit=1.0, correlation=ONCE)
    with pytest.raises(BudgetError, match="gaussian"):
        opened(delta=0).sums_with_initial_noise(sums, unit=1.0, correlation=ONCE)


def test_what_is_read_is_on_the_lattice_of_the_noise():
    counts = InitialNoiseSums(RELEASE, (300,), 2.0**-38, ONCE)
    counts.counts += to_counts(np.linspace(-1e3, 1e3, 300), 2.0**-38)
    released, scale = counts.read()
    check_lattice(RELEASE, released)
    assert np.abs(released - np.linspace(-1e3, 1e3, 300)).max() < 40 * scale
    assert scale == RELEASE.noise_std
    with pytest.raises(BudgetError, match="has been read"):
        counts.read()


def test_rounding_the_noise_is_rounding_the_noisy_sum():
    unit, values = 2.0**-10, np.arange(-50, 50) * 2.0**-9
    noise = np.random.default_rng(0).normal(size=100)
    with patch("skdp.privacy.budget.draw", lambda *_: noise.copy()):
        counts = InitialNoiseSums(RELEASE, (100,), unit, ONCE)
    counts.counts += to_counts(values, unit)
    exact = [
        round((Fraction(v) + 3 * Fraction(z)) / Fraction(unit))
        for v, z in zip(values.tolist(), noise.tolist(), strict=True)
    ]
    np.testing.assert_array_equal(counts.counts, exact)


def test_noise_has_its_scale_and_is_never_the_same():
    one, other = (
        InitialNoiseSums(RELEASE, (20_000,), 2.0**-38, ONCE).counts * 2.0**-38 for _ in range(2)
    )
    assert np.std(one) == pytest.approx(3.0, rel=0.05)
    assert not np.isin(one, other).any()


def test_without_noise_nothing_is_added():
    counts = InitialNoiseSums(
        Release("sums", "gaussian", 1.0, sensitivity=1.0, noise_std=0.0), (5,), 1.0, ONCE
    )
    counts.counts[:] = [1, -2, 3, 2**40 + 1, 0]
    released, scale = counts.read()
    np.testing.assert_array_equal(released, counts.counts)
    assert scale == 0


@pytest.mark.parametrize("unit", [2.0**-60, 2.0**-10, 1.0, 2.0**30, 2.0**1000])
def test_counts_are_rounded_and_wrap_around(unit):
    draw = np.random.default_rng(0)
    values = draw.normal(size=400) * 10.0 ** draw.uniform(-320, 308, size=400)
    with np.errstate(over="ignore"):
        powers = unit * 2.0 ** np.array([0, 10, 52, 53, 62, 63, 64, 65])
    values = np.concatenate([values, [0.0, -0.0, 5e-324, np.finfo(float).max], powers, powers / 2])
    values = values[np.isfinite(values)]
    expected = [
        (round(Fraction(value) / Fraction(unit)) + 2**63) % 2**64 - 2**63
        for value in values.tolist()
    ]
    found = to_counts(values, unit)
    np.testing.assert_array_equal(found.astype(object), expected)
    # Opposites cancel.
    np.testing.assert_array_equal(found + to_counts(-values, unit), 0)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 50.0, 1e6, np.inf])
def test_the_unit_is_far_below_the_noise_and_leaves_room_above(epsilon):
    scale = opened(epsilon).cost.noise_std("gaussian", 1.0, 0.35)
    sums = [
        Release("", "gaussian", 0.5, sensitivity=size, noise_std=size * scale)
        for size in (1.0, 3.0)
    ]
    unit = fixed_point_unit(sums)
    assert np.log2(unit) == int(np.log2(unit))
    assert unit <= 2.0**-40 * max(scale, 1 / 16)
    assert unit * 2.0**62 > 2.0**20 * max(scale, 1 / 16)


def test_every_epoch_has_noise_that_is_read_once():
    counts = InitialNoiseSums(RELEASE, (4000,), 2.0**-38, prefix_noise(3))
    for epoch in range(3):
        if epoch:
            counts.open_epoch()
        released, scale = counts.read()
        # Of which the counts have all, as there are no data.
        assert np.std(released) == pytest.approx(scale, rel=0.08)
        with pytest.raises(BudgetError, match="has been read"):
            counts.read()
    with pytest.raises(BudgetError, match="no more epochs"):
        counts.open_epoch()
