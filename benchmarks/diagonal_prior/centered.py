"""What `DPPCA` captures with a private row norm and a private mean, as it is and as it was.

Before, the quantile of the norms did not depend on the number of components, and the mean had a
share of .15 at any budget. Run

    python -m benchmarks.diagonal_prior.centered                # 4 seeds, some 3 minutes
    python -m benchmarks.diagonal_prior.centered --only coil    # tables so named
    python -m benchmarks.diagonal_prior.centered --write        # centered.md beside it

Real tables are looked for in the folder that the environment variable `SKDP_DATA` names, and left
out without it.
"""

import itertools
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np

from benchmarks.data import file_at_hand
from benchmarks.diagonal_prior.components import KEY, TABLES, Chosen, captured, most_popular
from benchmarks.report import (
    Measured,
    Values,
    cases_asked_for,
    ignore_drowned_signal,
    measured,
    need_two_seeds,
    parser_for,
    seeds_asked_for,
    standard_error,
    table,
)
from skdp import DPPCA
from skdp.decomposition.rows import plan as rows_plan

HERE = Path(__file__).parent
SEEDS = 4
EPSILONS, RANKS = (0.25, 0.5, 1.0, 4.0), (1, 2, 3, 5, 10)
BEFORE = {"_FEW_COMPONENTS": 0.0, "_CENTER_LIMITS": (0.15, 0.15)}

TITLE = """\
# Centered rows: the quantile of their norms, and the share of their mean

Written by `python -m benchmarks.diagonal_prior.centered --write`. Variance along k components of
`DPPCA` over that along the best k, no bounds given: as it was, and the change ± its standard error.
Means of {} seeds, delta 1e-6, columns divided by their ranges.
"""
FINDINGS = """\
## What the tables say

The signal r counts (r / 60)^2 times as much for few components, so nothing changes where
noise dominates. Where few long rows hold most of the variance (spambase), a larger quantile gains
most. Norms alone cannot tell whether it will: "scaled rows" have norms much like those of spambase,
but lengths that say nothing of directions. There a larger bound only adds noise, though little at
these budgets. So a histogram of norms could not choose for both tables, and how much is spent and
sought decides. A larger share of the mean gains at little budget: the noise of the center adds a
direction to all rows, which holds n times its squared length.
"""


def _by_ranges(file: str, n_columns: int | None = None) -> np.ndarray:
    X = np.load(file_at_hand(file))["X"][:, :n_columns].astype(float)
    ranges = np.ptp(X, axis=0)
    return (X - X.min(axis=0)) / np.where(ranges > 0, ranges, 1)


def _spambase() -> np.ndarray:
    """Percentages of words, and lengths of runs of capitals; all long tails."""
    return np.load(file_at_hand("spambase.npz"))["X"][:, :54].astype(float)


def scaled_rows() -> np.ndarray:
    """Draw rows in six directions, each times a log-normal number of its own."""
    random = np.random.default_rng(0)
    rows = random.normal(size=(5000, 6)) @ random.normal(size=(6, 60))
    return rows * np.exp(random.normal(size=(5000, 1)))


CHOSEN = [
    *(one for one in TABLES if one.name in ("digits", "coil2000", "crime")),
    Chosen("spambase, percentages", 0, _spambase),
    Chosen("spambase, by ranges", 0, partial(_by_ranges, "spambase.npz")),
    Chosen("compactiv", 0, partial(_by_ranges, "compactiv.npz")),
    Chosen("parkinsons", 0, partial(_by_ranges, "parkinsons_updrs.npz")),
    Chosen("wine", 0, partial(_by_ranges, "wine_quality_white.npz")),
    Chosen("Gowalla, 200 columns", 0, lambda: most_popular("Gowalla 1000", 200)[::4].toarray()),
    Chosen("scaled rows", 0, scaled_rows, needs_folder=False),
]


def cells_of(chosen: Chosen, seed: int) -> Measured:
    """Measure both ways at each budget, for each number of components."""
    X = chosen.load()
    for rank, epsilon in itertools.product(RANKS, EPSILONS):
        pca = DPPCA(rank, epsilon=epsilon, random_state=KEY + seed)
        with patch.multiple(rows_plan, **BEFORE):
            pca.fit(X)
        row = f"{chosen.name}, k={rank}"
        yield (row, f"{epsilon:g} before"), captured(chosen, "raw", pca)
        yield (row, f"{epsilon:g} now"), captured(chosen, "raw", pca.fit(X))


def changes(values: Values) -> str:
    lines = []
    for row in dict.fromkeys(row for row, _ in values):
        cells = []
        for epsilon in EPSILONS:
            before, now = values[row, f"{epsilon:g} before"], values[row, f"{epsilon:g} now"]
            change = now - before
            cells.append(f"{before.mean():.3f} {change.mean():+.3f} ± {standard_error(change):.3f}")
        lines.append([row, *cells])
    return table(["", *(f"epsilon {epsilon:g}" for epsilon in EPSILONS)], lines)


def main() -> None:
    parser = parser_for(
        __doc__,
        seeds=f"seeds of each cell, default {SEEDS}",
        only="tables with this in their name",
        quick="2 seeds",
        write="replace centered.md",
    )
    arguments = parser.parse_args()
    n_seeds = seeds_asked_for(arguments, usual=SEEDS, quick=2)
    need_two_seeds(parser, n_seeds)
    ignore_drowned_signal()
    values: Values = {}
    for chosen in cases_asked_for(parser, arguments, CHOSEN, n_seeds=n_seeds, usual=SEEDS):
        own = measured(partial(cells_of, chosen), n_seeds)
        print(changes(own), flush=True)
        values |= own
    if arguments.write:
        parts = [TITLE.format(n_seeds).rstrip(), changes(values), FINDINGS.rstrip()]
        (HERE / "centered.md").write_text("\n\n".join(parts) + "\n")


if __name__ == "__main__":
    main()
