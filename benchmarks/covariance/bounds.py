"""Correlations of columns in units of bounds, beside those in released scales.

Tables are looked for in the folder that the environment variable `SKDP_DATA` names. Run

    python -m benchmarks.covariance.bounds          # 3 seeds, three minutes
    python -m benchmarks.covariance.bounds --write  # bounds.md beside it
"""

import math
from collections.abc import Iterator
from unittest.mock import patch

import numpy as np

from benchmarks.report import (
    Key,
    asked_of_tables,
    ignore_drowned_signal,
    mean_by_case,
    publish,
    table,
)
from benchmarks.sweep.tables import load, public_ends
from skdp import DPCovariance, _second_moment

EPSILONS, N_SEEDS, N_ROWS = (1.0, 4.0, 256.0), 3, 6000
CHOSEN, CHECKED = ("wind", "space_ga", "ailerons", "house8L"), ("nox", "teams", "mv", "segment")
SQUARES = {"1": 1.0, "1/3": 1 / 3, "1/9": 1 / 9}
TITLE = """\
# Covariances in units of bounds

Written by `python -m benchmarks.covariance.bounds --write`. Root mean square errors of
`correlation_` of `DPCovariance` on at most 6000 rows of a table, delta 1e-6, means of {} seeds.
*Scales* are released ones, and the other columns have ``scales="bounds"``, where rows are shortened
whose entries have a larger mean square than that, in units of half the width of their bounds. These
are 4 standard deviations from the mean, or 1.5 or 4 times as far apart as the ends of the columns.
1/3 was chosen on {}: 1/9 has less noise, but makes `unclipped_` small where bounds fit, of
which errors of coefficients are made, and is worse at 256.
"""
COLUMNS = ["scales", *SQUARES]


def measure(seed: int, names: tuple[str, ...]) -> Iterator[tuple[Key, float]]:
    """Fit in released scales, and in bounds of several widths."""
    for name in names:
        X = load(name)[0]
        X = X[np.isfinite(X).all(axis=1)][:N_ROWS]
        X = X[:, X.std(axis=0) > 0]
        true, mean, far = np.corrcoef(X.T), X.mean(axis=0), 4 * X.std(axis=0)
        widths = {"4 deviations": (mean - far, mean + far)}
        widths |= {f"x{factor:g}": public_ends(X, factor) for factor in (1.5, 4.0)}
        for width, epsilon in ((one, each) for one in widths for each in EPSILONS):
            given = {"bounds": widths[width], "epsilon": epsilon, "random_state": seed}
            found = {"scales": DPCovariance(**given)}
            found |= dict.fromkeys(SQUARES, DPCovariance(**given, scales="bounds"))
            for column, model in found.items():
                with patch.object(_second_moment, "_USUAL_SQUARE", SQUARES.get(column, 1.0)):
                    error = model.fit(X).correlation_ - true
                case = f"{name}, {width}, {epsilon:g}"
                yield (case, column), math.sqrt(float(np.mean(error**2)))


def main() -> None:
    arguments, n_seeds = asked_of_tables(__doc__, N_SEEDS, "bounds.md")
    ignore_drowned_signal()
    names = tuple(name for name in CHOSEN + CHECKED if arguments.only in name)
    means, cases = mean_by_case(lambda seed: measure(seed, names), n_seeds)
    lines = [[case, *(f"{means[case, column]:.3f}" for column in COLUMNS)] for case in cases]
    title = TITLE.format(n_seeds, ", ".join(CHOSEN))
    text = f"{title}\n{table(['table, bounds, epsilon', *COLUMNS], lines)}\n"
    publish(text, __file__, write=arguments.write)


if __name__ == "__main__":
    main()
