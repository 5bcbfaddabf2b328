import math
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from planned import budget_for, spec_of

from skdp.data.matrices import Design
from skdp.data.parts import Targets
from skdp.data.sources import as_source
from skdp.linear_model._descent import median_of_responses
from skdp.linear_model.low_rank import records as trace_records
from skdp.linear_model.low_rank.fit import exact_standardization, standardized_by
from skdp.linear_model.low_rank.plan import plan_trace
from skdp.preprocessing.scales import release_scales
from skdp.privacy.plan import left_of, share_for_counts

N = 4000
# The thresholds hold for 50 others, too.
SEEDS = range(20)


def spread_of(values, seed, epsilon=1.0):
    spec = spec_of(len(values), (1, 1), epsilon=epsilon)
    spread = plan_trace(spec).branches.branches[0].response_spread
    budget = budget_for(spec, spread, seed=seed)
    return trace_records.release_spread(spread, Targets.of(values), budget, math.inf, len(values))


def center_of(values, seed=0, bound=None):
    spec = spec_of(len(values), (1, 1), response_bound=bound)
    searches = plan_trace(spec).response_center
    budget = budget_for(spec, searches, seed=seed)
    return median_of_responses(searches, Targets.of(values), budget, len(values))


def found_in(X, seed=0, *, centered=True):
    spec = spec_of(len(X), (X.shape[1], 1), fit_intercept=centered)
    plan = plan_trace(spec).features
    with np.errstate(all="ignore"):
        budget = budget_for(spec, plan, seed=seed)
        return standardized_by(release_scales(plan, design_of(X), X.shape, None, budget), spec)


def design_of(X):
    return Design(as_source(X), (X.shape[1], 1))


SAMPLES = {
    "normal": lambda random: random.normal(size=N),
    "uniform": lambda random: random.uniform(-1, 1, size=N),
    "exponential": lambda random: random.exponential(size=N),
    "two values": lambda random: random.choice([-1.0, 1.0], size=N),
    "of other units": lambda random: 1e-6 * random.normal(size=N),
    "large": lambda random: 1e9 * random.normal(size=N),
}


@pytest.mark.parametrize("sample", SAMPLES)
def test_spreads_are_those_of_the_responses(sample):
    for seed in SEEDS:
        values = SAMPLES[sample](np.random.default_rng(seed))
        spread = spread_of(values, seed).size
        assert 0.5 < spread / np.sqrt(np.mean(values**2)) < 2


def test_sizes_are_counted_at_the_nearest_power_of_two():
    values = np.array([0, 1e-300, 0.8, -1, 1.3, 1.5, 1.7e308, np.inf, np.nan])
    counts = trace_records.count_by_power(values)
    assert counts.sum() == len(values) - 1
    assert (counts[0], counts[40], counts[41], counts[-1]) == (2, 3, 1, 2)


def test_a_spread_that_noise_hides_is_not_huge():
    # Of 10 responses at epsilon .1 nothing can be told but that.
    for seed in SEEDS:
        values = np.random.default_rng(seed).normal(size=10)
        spread = spread_of(values, seed, 0.1).size
        assert 0 < spread < math.inf


@pytest.mark.parametrize("bound", [None, 10.0])
def test_centers_are_medians(bound):
    for seed in SEEDS:
        values = np.random.default_rng(seed).normal(size=N) + 5
        center = center_of(values, seed, bound)
        assert center == pytest.approx(5, abs=1)


def make_features(seed):
    random = np.random.default_rng(seed)
    units = np.array([1e-4, 1.0, 50.0, 1e5])
    return random.normal(size=(N, 4)) * units + 3 * units


def test_features_are_centered_and_scaled_one_by_one():
    largest = []
    for seed in SEEDS:
        X = make_features(seed)
        found = found_in(X, seed)
        scaled = (X - found.center[:, 0]) * found.multiplier[:, 0]
        assert np.all(np.abs(scaled.mean(axis=0)) < 0.7)
        spread = scaled.std(axis=0)
        # In one or two of a hundred fits noise leaves a variance so small that it counts as hidden.
        assert 0.2 < spread.min() <= spread.max() < 2
        largest.append(spread.max())
        assert found.center.shape == found.multiplier.shape == (4, 1)
    assert np.median(largest) < 1.2


def test_features_without_centers_are_scaled_about_zero():
    for seed in SEEDS:
        X = make_features(seed)
        found = found_in(X, seed, centered=False)
        assert found.center is None
        size = np.sqrt(np.mean((X * found.multiplier[:, 0]) ** 2, axis=0))
        assert 0.2 < size.min() <= size.max() < 1.5


def test_constant_features_have_finite_multipliers():
    for value in (0.0, 7.0, 1e300, -5e-324):
        X = np.full((N, 2), value)
        X[:, 1] = np.random.default_rng(0).normal(size=N)
        found = found_in(X)
        assert np.isfinite(found.multiplier).all()
        assert np.isfinite(found.center).all()
        assert 0.2 < found.multiplier[1, 0] < 1.5


def test_public_features_are_standardized_exactly():
    X = make_features(0)
    X[:, 0] = 7.0
    found = exact_standardization(design_of(X), centered=True)
    scaled = (X - found.center[:, 0]) * found.multiplier[:, 0]
    assert_allclose(scaled.mean(axis=0), 0, atol=1e-9)
    assert_allclose(scaled.std(axis=0), [0, 1, 1, 1], atol=1e-9)


def test_a_few_wild_public_entries_do_not_decide_what_the_others_are_scaled_by():
    X = make_features(0)
    right = exact_standardization(design_of(X), centered=True)
    for factor in (1e3, 1e60, 1e300):
        wild = X.copy()
        wild[: N // 50] *= factor
        found = exact_standardization(design_of(wild), centered=True)
        assert_allclose(found.multiplier / right.multiplier, 1, atol=0.2)
        assert_allclose((found.center - right.center) * right.multiplier, 0, atol=0.2)


def test_rare_public_entries_are_scaled_by_all_of_them():
    # They may be large, and are no error.
    X = np.zeros((N, 2))
    X[: N // 50] = 1000 * np.random.default_rng(0).normal(size=(N // 50, 2))
    found = exact_standardization(design_of(X), centered=False)
    assert_allclose(1 / found.multiplier[:, 0], np.sqrt(np.mean(X**2, axis=0)))


def test_the_norm_of_matrices_is_their_median():
    for seed in SEEDS:
        X = 300 * np.random.default_rng(seed).normal(size=(N, 6))
        responses = Targets.of(np.zeros(N))
        # Matrices that are no vectors have a norm.
        spec = spec_of(N, (3, 2))
        search = plan_trace(spec).first_center[0]
        budget = budget_for(spec, search, seed=seed)
        norm = trace_records.release_norm(search, design_of(X), responses, budget)
        assert norm == pytest.approx(np.median(np.linalg.norm(X, axis=1)), rel=0.3)


def test_null_records_are_not_counted():
    X = np.ones((N, 2))
    is_null = np.arange(N) >= 100
    spec = spec_of(N, (2, 2))
    plan = plan_trace(spec)
    norm, spread = plan.first_center[0], plan.branches.branches[0].response_spread
    budget = budget_for(spec, norm, spread, plan.response_center)
    released = []
    budget._publish = lambda release, value: released.append(value) or value
    values = Targets.of(np.where(is_null, np.nan, 1.0))
    trace_records.release_norm(norm, design_of(X), values, budget)
    assert max(map(np.max, released)) == 100
    released.clear()
    trace_records.release_spread(spread, values, budget, math.inf, len(values))
    median_of_responses(plan.response_center, values, budget, len(values))
    assert max(map(np.max, released)) == 100


def test_shares_depend_on_public_facts_and_are_small():
    mu = spec_of(N, (1, 1)).cost.mu
    share_for = partial(share_for_counts, precision=0.05, limits=(2e-3, 0.1))
    for n_records in (1, 100, 10_000, 10**7):
        for n_counts in (1, 50, 1000):
            share = share_for(n_counts, n_records, mu)
            assert 2e-3 <= share <= 0.1
            # More counts or fewer records never get less.
            assert share <= share_for(2 * n_counts, n_records, mu)
            assert share >= share_for(n_counts, 2 * n_records, mu)
            # A budget whose square is 0 gets the most, and one without end the least.
            assert share_for(n_counts, n_records, 5e-324) == 0.1
            assert share_for(n_counts, n_records, math.inf) == 2e-3
    assert left_of(plan_trace(spec_of(100, (1000, 1))).features) > 0.7
    assert left_of(plan_trace(spec_of(10**6, (4, 1))).features) >= 0.95


def test_looks_have_the_fewer_bins_the_more_noise_they_have():
    for n_records, n_bins in ((2000, 64), (30_000, 2048), (10**6, 2**14)):
        looks = plan_trace(spec_of(n_records, (6, 1))).features.branches.branches[1].places
        assert {look.shape for look in looks} == {(6, n_bins)}
        assert len({look.name for look in looks}) == 5
