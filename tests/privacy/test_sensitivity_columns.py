"""Neighbors that differ in one row of clipped columns: a search, and grids with its corners."""

import numpy as np
import pytest

from skdp.privacy import sensitivity

ADJACENCIES = ("replace", "zero_out")
N_PAIRS, N_STEPS = 100, 200


def contributions(rows):
    """What rows of numbers from -1 to 1 add to the sums of all columns."""
    return np.concatenate([rows, np.square(rows) - 0.5], axis=1)


def distances(first, second, adjacency):
    """How far rows move the sums, from each other or from null rows, which add nothing."""
    change = contributions(first)
    if adjacency == "replace":
        change = change - contributions(second)
    return np.linalg.norm(change, axis=1)


def farthest(n_columns, adjacency):
    """Climb from many pairs of rows at once."""
    generator = np.random.default_rng(0)
    pairs = generator.uniform(-1, 1, size=(2, N_PAIRS, n_columns))
    found = distances(*pairs, adjacency)
    for scale in np.geomspace(1, 1e-3, N_STEPS):
        tried = np.clip(pairs + scale * generator.normal(size=pairs.shape), -1, 1)
        moved = distances(*tried, adjacency)
        pairs[:, moved > found] = tried[:, moved > found]
        found = np.maximum(moved, found)
    return found.max()


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("n_columns", [1, 2, 5])
def test_the_sensitivity_of_moments_is_reached_and_not_exceeded(n_columns, adjacency):
    declared = sensitivity.column_moments(n_columns, adjacency)
    assert 0.98 <= farthest(n_columns, adjacency) / declared <= 1 + 1e-12


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_no_pair_of_a_grid_moves_one_column_further(adjacency):
    grid = np.linspace(-1, 1, 401)
    first, second = (side.reshape(-1, 1) for side in np.meshgrid(grid, grid))
    declared = sensitivity.column_moments(1, adjacency)
    assert distances(first, second, adjacency).max() == pytest.approx(declared, rel=1e-12)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_rounding_counts_twice_in_units_of_the_longest_contribution(adjacency):
    more = sensitivity.column_moments(3, adjacency, 0.01)
    assert more == pytest.approx(
        sensitivity.column_moments(3, adjacency) + 0.02 * np.sqrt(15 / 4), rel=1e-12
    )
