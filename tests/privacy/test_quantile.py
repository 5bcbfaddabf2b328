import math

import numpy as np
import pytest
from scipy.special import ndtri

from skdp.exceptions import BudgetError
from skdp.linalg.norms import (
    GridCounts,
    bin_counts,
    n_halvings,
    quantile_from_counts,
    steps_of,
    tree_of_differences,
)
from skdp.privacy import PrivacyBudget, sensitivity
from skdp.privacy.noise import NoiseSource
from skdp.privacy.plan import PrivacyCost
from skdp.testing._recording import RecordingBudget, farthest, scripted_budget


class NoisyCounts(RecordingBudget):
    """Answers with the exact count plus noise of some size."""

    noise = 0.0

    def _answer(self, release, value, place):
        return value + self.noise * np.random.default_rng(place).normal(size=value.shape)


def search_of(values, grid, noise=0.0, q=0.5):
    """Search; return what was found, and how many counts were released."""
    budget = NoisyCounts(math.inf, 1e-6, unit="row", adjacency="replace")
    budget.noise = noise
    found = budget.quantile(budget.cost.search("spread", 1.0, grid), values, q=q)
    return found, len(budget.released)


def found_by(values, q, grid):
    return search_of(values, grid, q=q)[0]


def quantile_by_the_rule(values, q, grid):
    for point in grid:
        if sum(value <= point for value in values) >= q * len(values):
            return point
    return grid[-1]


def make_data(seed):
    generator = np.random.default_rng(seed)
    grid = np.sort(
        generator.choice(np.arange(1, 60) / 2.0, size=generator.integers(1, 41), replace=False)
    )
    values = generator.integers(-5, 40, size=generator.integers(1, 60)).astype(float)
    values[generator.random(values.size) < 0.2] = generator.choice([np.nan, np.inf, 1e300, grid[0]])
    return values, grid


@pytest.mark.covered(at_most=2)
@pytest.mark.parametrize("q", [0.01, 0.2, 0.5, 0.95, 0.999])
def test_search_without_noise_finds_the_first_point_that_enough_values_reach(q):
    for seed in range(200):
        values, grid = make_data(seed)
        found = found_by(values, q, grid)
        assert found == quantile_by_the_rule(values, q, grid)


@pytest.mark.slow
@pytest.mark.parametrize("n_points", [1, 2, 3, 4, 5, 8, 9, 31, 32, 33, 1024])
def test_search_reaches_every_point_of_the_grid(n_points):
    grid = np.arange(1.0, n_points + 1)
    for point in grid:
        assert found_by(np.full(9, point), 0.5, grid) == point


def test_values_on_neither_side_of_the_grid_give_its_ends():
    grid = np.array([1.0, 2.0, 4.0])
    assert found_by(np.zeros(5), 0.5, grid) == 1.0
    assert found_by(np.full(5, 1e9), 0.5, grid) == 4.0
    assert found_by(np.full(5, np.inf), 0.5, grid) == 4.0
    assert found_by(np.full(5, np.nan), 0.5, grid) == 4.0


def test_null_units_keep_their_part_of_n():
    # Two of four values lie below 2; without the null unit two of three would.
    values, grid = np.array([1.0, 2.0, 3.0, np.nan]), np.array([1.0, 2.0, 3.0])
    assert found_by(values, 0.5, grid) == 2.0
    assert found_by(values, 0.6, grid) == 3.0


@pytest.mark.parametrize("n_points", [1, 2, 7, 64, 65, 1024])
def test_number_of_noisy_counts_does_not_depend_on_the_data(n_points):
    grid = np.geomspace(0.1, 10, n_points)
    n_steps, n_levels = steps_of(len(grid))
    assert 2 ** (n_steps * n_levels) >= n_points
    datasets = [
        np.zeros(10),
        np.full(10, 1e300),
        np.full(10, np.nan),
        np.random.default_rng(0).uniform(0.1, 10, size=1000),
        np.ones(1),
    ]
    for values in datasets:
        for noise in (0.0, 1e6):
            found, n_counts = search_of(values, grid, noise)
            assert found in grid
            assert n_counts == n_steps


def open_budget(make=PrivacyBudget, epsilon=1.0, seed=None, adjacency="replace"):
    return make(epsilon, 1e-6, unit="row", adjacency=adjacency, noise_source=NoiseSource(seed))


def quantile_of(values, budget, share=0.5):
    search = budget.cost.search("spread", share, np.arange(1.0, 33.0))
    return budget.quantile(search, values, q=0.5)


def test_a_search_is_paid_for_as_a_whole():
    budget = open_budget(epsilon=1000.0, seed=2**100)
    values = np.tile(np.arange(1.0, 31.0), 10)
    assert quantile_of(values, budget) == pytest.approx(15, abs=1)
    spent = budget.spent()
    assert [release.name for release in spent.releases] == [
        f"spread, counts {step}" for step in range(1, 3)
    ]
    assert {release.sensitivity for release in spent.releases} == {math.sqrt(2)}
    assert math.fsum(release.share for release in spent.releases) == pytest.approx(0.5)
    assert "spread, 2 times" in repr(spent)
    for share in (0.6, 0.0, -0.1, math.nan):
        with pytest.raises(BudgetError, match=r"'spread' (has the|asks for a) share"):
            quantile_of(values, budget, share)
    assert budget.spent() == spent


def test_a_count_that_noise_turns_round_misleads_a_search_for_a_while():
    values = 7 + np.random.default_rng(0).normal(size=1000)
    far = np.geomspace(1e-6, 1e12, 500)
    grid = np.concatenate([-far[::-1], [0.0], far])
    # The noise of a count is a quarter of all values: one binary search of seven is astray.
    cost = PrivacyCost(1.0, 1e-6)
    share = n_halvings(len(grid)) * cost.noise_std("gaussian", 1.0, 1.0) ** 2 / 250.0**2
    found = []
    for seed in range(150):
        budget = open_budget(seed=seed)
        found.append(budget.quantile(budget.cost.search("median", share, grid), values, q=0.5))
    assert np.mean(np.abs(np.array(found) - 7) > 3) <= 0.08


def test_no_search_leaves_the_values_where_half_of_them_lie_up_to_a_point_that_is_counted():
    # The bin beyond that point has thousands of points: with odds for each, 4 of 100 searches ended
    # there, a million times too high.
    values = 31_600 + 12_000 * ndtri((np.arange(1000) + 0.5) / 1000)
    side = 10.0 ** np.linspace(-9, 18, 8191)
    grid = np.concatenate([-side[::-1], [0.0], side])
    cost = PrivacyCost(50.0, 1e-6)
    share = n_halvings(len(grid)) * cost.noise_std("gaussian", 1.0, 1.0) ** 2 / 10.0**2
    for seed in range(150):
        budget = open_budget(epsilon=50.0, seed=seed)
        found = budget.quantile(budget.cost.search("median", share, grid), values, q=0.5)
        assert 25_000 < found < 40_000


def test_values_are_not_counted_where_only_pure_noise_is_accepted():
    budget = PrivacyBudget(1.0, 0.0, unit="row", adjacency="replace")
    with pytest.raises(BudgetError, match="delta=0"):
        budget.cost.search("spread", 0.5, np.ones(4))


@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
def test_counts_move_by_their_sensitivity_and_no_more(adjacency):
    generator, grid = np.random.default_rng(3), np.arange(1.0, 33.0)
    worst = 0.0
    for seed in range(40):
        values = generator.uniform(0, 30, size=40)
        values[generator.random(40) < 0.1] = np.nan
        if seed % 2:
            # Below all points, so that every count changes when the row goes.
            values[0] = 0.0
        recorded = open_budget(RecordingBudget, seed=seed, adjacency=adjacency)
        found = quantile_of(values, recorded)
        neighbor = values.copy()
        neighbor[0] = generator.choice([np.nan, 0.0, np.inf][: 3 if adjacency == "replace" else 1])
        replayed = open_budget(scripted_budget(recorded.released), adjacency=adjacency)
        counts = GridCounts.of(grid, bin_counts(neighbor, np.append(grid, np.inf)), 40)
        assert quantile_of(counts, replayed) == found
        worst = max(worst, *farthest([replayed], recorded).values())
    assert 1 <= worst <= math.sqrt(2)


@pytest.mark.parametrize("n_levels", [1, 2, 3, 4, 5])
def test_differences_of_counts(n_levels):
    """A unit moves from any bin to any other; the last one is also that of a null unit."""
    tree = tree_of_differences(n_levels)[:, :-1]
    added = np.cumsum(np.eye(2**n_levels), axis=1)[:, :-1] @ tree.T
    moved = np.linalg.norm(added[:, np.newaxis] - added, axis=-1)
    assert moved.max() == pytest.approx(sensitivity.differences_of_counts(n_levels), rel=1e-15)
    spread = np.random.default_rng(0).dirichlet(np.full(2**n_levels, 0.1), size=(2, 500)) @ added
    assert np.linalg.norm(spread[0] - spread[1], axis=-1).max() <= moved.max()


def test_bins_reach_up_to_and_include_their_edge():
    edges = np.array([1.0, 2.0, 4.0])
    values = np.array([-np.inf, 0.5, 1.0, 1.5, 2.0, 2.5, 4.0, 9.0, np.inf, np.nan])
    np.testing.assert_array_equal(bin_counts(values, edges), [3, 2, 4])


def test_bins_count_every_value_but_null_ones():
    for seed in range(50):
        values, edges = make_data(seed)
        counts = bin_counts(values, edges)
        assert counts.shape == edges.shape
        assert counts.sum() == (~np.isnan(values)).sum()
    np.testing.assert_array_equal(bin_counts(np.full(3, np.nan), np.ones(1)), [0])


@pytest.mark.parametrize("q", [0.01, 0.2, 0.5, 0.95])
def test_quantile_from_exact_counts_follows_the_rule(q):
    for seed in range(100):
        values, edges = make_data(seed)
        # The last bin holds what lies beyond, as if it lay on the last edge.
        clipped = np.minimum(values[~np.isnan(values)], edges[-1])
        found = quantile_from_counts(bin_counts(values, edges), edges, q)
        if clipped.size:
            assert found == quantile_by_the_rule(clipped, q, edges)
        else:
            assert found in edges


def test_negative_counts_are_taken_for_zero():
    edges = np.array([1.0, 2.0, 4.0])
    assert quantile_from_counts(np.array([-3.0, -1.0, -2.0]), edges, 0.5) in edges
    assert quantile_from_counts(np.array([-100.0, 6.0, 4.0]), edges, 0.5) == 2.0
    assert quantile_from_counts(np.array([4.0, -100.0, 6.0]), edges, 0.5) == 4.0


def test_a_part_of_the_values_is_searched_for_a_part_of_all():
    values, grid = np.arange(1.0, 31.0), np.arange(1.0, 33.0)
    n_counts = []

    class Watched(PrivacyBudget):
        def _publish(self, release, value):
            n_counts.append(value.size)
            return value + 15.0

    budget = open_budget(Watched, epsilon=math.inf)
    search = budget.cost.search("spread", 0.5, grid)
    # Other parties have 15 more values, all of them small: 30 of 60 do not exceed 15.
    counts = GridCounts.in_all(grid, values, 60)
    assert budget.quantile(search, counts, q=0.5) == 15
    budget = open_budget(Watched, epsilon=math.inf)
    assert budget.quantile(search, values, q=0.5) == 1
    assert n_counts == 4 * [7]
