"""Measure how many halvings one step of a search should have.

Each search spends the same. The noise is that of a single count, as a part of all values, if each
halving took one.
"""

import math
from unittest import mock

import numpy as np
from scipy.special import ndtri

from benchmarks.report import parser_for, publish, table
from skdp.linalg import norms
from skdp.linear_model._descent import ANY_SIZE
from skdp.privacy import PrivacyBudget
from skdp.privacy.noise import NoiseSource
from skdp.privacy.releases import SCALE_GRID

N_VALUES = 1000
AROUND = np.linspace(-1.0, 1.0, 255)
LEVELS, NOISE = (1, 2, 3, 4, 5), (0.01, 0.05, 0.147, 0.2)
AS_GOOD = (0.0, 0.5, 1.0, 2.0, 3.0)

TEXT = """\
# Halvings in one step of a search

Written by `python -m benchmarks.search.halvings --write`: the distance of the result
from the wanted quantile as a part of {} values, mean of {} searches, and how often it exceeds .3.
A search of 14 halvings takes {} steps.

{}

A fitted count may be the target if it is that many deviations of the noise away:

{}"""


def log_normal(generator):
    """Values in an unknown unit."""
    return np.exp(5 * generator.normal() + 0.3 * generator.normal(size=N_VALUES))


CASES = {
    "any size, 7 + N(0, 1)": (ANY_SIZE, lambda rng: 7 + rng.normal(size=N_VALUES), 0.5),
    # Half of the values lie up to a point that the first step counts.
    "any size, around 31,600": (
        ANY_SIZE,
        lambda rng: 31_600 + 12_000 * ndtri((np.arange(N_VALUES) + 0.5) / N_VALUES),
        0.5,
    ),
    "any size, N(0, 1)": (ANY_SIZE, lambda rng: rng.normal(size=N_VALUES), 0.5),
    "scales, log-normal": (SCALE_GRID, log_normal, 0.5),
    "around, narrow": (
        AROUND,
        lambda rng: rng.uniform(-0.5, 0.5) + 0.01 * rng.normal(size=N_VALUES),
        0.5,
    ),
    "around, wide": (AROUND, lambda rng: rng.uniform(-0.5, 0.5) + rng.normal(size=N_VALUES), 0.5),
}


def distance(case, noise, seed):
    """Return how far the result is from the quantile, as a part of the values."""
    grid, make, q = CASES[case]
    values = make(np.random.default_rng(seed))
    of_count = (noise * N_VALUES) ** 2 / norms.n_halvings(len(grid))
    budget = PrivacyBudget(
        50.0, 1e-6, unit="row", adjacency="replace", noise_source=NoiseSource(seed)
    )
    share = budget.cost.noise_std("gaussian", 1.0, 1.0) ** 2 / of_count
    found = budget.quantile(budget.cost.search("level", share, grid), values, q=q)
    below = grid[max(np.searchsorted(grid, found) - 1, 0)]
    up_to = np.mean(values <= found), np.mean(values <= below)
    return max(0.0, q - up_to[0], up_to[1] - q)


def table_of(n_seeds, heads, constant, values):
    """Make a table: mean distance, and how often it exceeds .3, in percent."""
    rows = []
    for case in CASES:
        for noise in NOISE:
            rows.append([case, noise])
            for value in values:
                with mock.patch.object(norms, constant, value):
                    found = np.array([distance(case, noise, seed) for seed in range(n_seeds)])
                rows[-1].append(f"{found.mean():.3f}, {100 * np.mean(found > 0.3):.1f}%")
    return table(["case", "noise", *heads], rows)


def main():
    """Print the table, or write it."""
    asked = parser_for(__doc__, seeds="default 200", write="write halvings.md").parse_args()
    n_seeds = asked.seeds or 200
    text = TEXT.format(
        N_VALUES,
        n_seeds,
        ", ".join(f"{math.ceil(14 / n)}" for n in LEVELS),
        table_of(n_seeds, [f"{n} halvings" for n in LEVELS], "_MOST_LEVELS", LEVELS),
        table_of(n_seeds, [f"{one:g}" for one in AS_GOOD], "_AS_GOOD", AS_GOOD),
    )
    publish(text, __file__, write=asked.write)


if __name__ == "__main__":
    main()
