"""`DPTraceRegressor` on narrow features far from 0: how often to look, for what share.

And with how much noise not to look at all. Run

    python -m benchmarks.trace_regression.looks            # three minutes on one core
    python -m benchmarks.trace_regression.looks --write    # looks.md beside it
"""

import warnings
from itertools import product
from pathlib import Path
from unittest.mock import patch

import numpy as np

from benchmarks.report import line, parser_for, table
from skdp import DPTraceRegressor
from skdp.linear_model.low_rank import plan as trace_plan
from skdp.preprocessing import scales

HERE = Path(__file__).parent
N_SEEDS, N_FEATURES = 10, 4
CASES = (5000, 1.0), (2000, 1.0), (2000, 3.0)
OFFSETS = 0.0, 1e2, 1e4, 1e5, 1e6, 1e7
LOOKS = (2, 0.02), (4, 0.02), (5, 0.02), (5, 0.03), (4, 0.04)
N_SEEDS_OF_FEW = 40
FEW = (300, 1.0), (400, 1.0), (500, 1.0), (650, 1.0), (1000, 1.0), (500, 3.0)
OFFSETS_OF_FEW = 0.0, 5.0, 15.0, 30.0, 1e2, 1e3, 1e5
LIMITS = np.inf, 0.25, 0.125
TITLE = """\
# How often to look at narrow features

Written by `python -m benchmarks.trace_regression.looks --write`. 4 normal features of variance 1
around an offset. Mean and least R2 of 10 fits, and how many of the fits below .8 do not warn, for
every number of looks and their share of the budget."""
TITLE_OF_FEW = """\
## When not to look

The same for few rows, with 40 fits, and their 10% quantile in the place of the least. If the noise
of one bin exceeds the limit, in units of all rows, no look is taken."""


def cell(n_rows: int, epsilon: float, offset: float, n_seeds: int, low: float) -> str:
    scores, n_silent = [], 0
    for seed in range(n_seeds):
        generator = np.random.default_rng(seed)
        centered = generator.normal(size=(n_rows, N_FEATURES))
        y = centered @ np.linspace(1, 2, N_FEATURES) + 0.5 * generator.normal(size=n_rows)
        model = DPTraceRegressor(epsilon=epsilon, random_state=2**100 + seed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            scores.append(model.fit(centered + offset, y).score(centered + offset, y))
        n_silent += scores[-1] < 0.8 and not caught
    return f"{np.mean(scores):.2f}, {np.quantile(scores, low):.2f}, {n_silent}"


def main() -> None:
    arguments = parser_for(__doc__, write="replace looks.md").parse_args()
    parts = [TITLE, how_often(), TITLE_OF_FEW, when()]
    if arguments.write:
        (HERE / "looks.md").write_text("\n\n".join(parts) + "\n")


def how_often() -> str:
    lines = [table(["looks", "share", "rows", "epsilon", *(f"{one:g}" for one in OFFSETS)], [])]
    print(lines[0])
    for (n_zooms, share), (n_rows, epsilon) in product(LOOKS, CASES):
        with (
            patch.multiple(scales, N_ZOOMS=n_zooms, _ZOOMS=scales._ZOOMS[: n_zooms + 1]),
            patch.object(trace_plan, "_PLACES_SHARE", share),
        ):
            cells = [cell(n_rows, epsilon, offset, N_SEEDS, 0) for offset in OFFSETS]
        lines.append(line([f"{n_zooms}", f"{share}", f"{n_rows}", f"{epsilon:g}", *cells]))
        print(lines[-1], flush=True)
    return "\n".join(lines)


def when() -> str:
    lines = [table(["limit", "rows", "epsilon", *(f"{one:g}" for one in OFFSETS_OF_FEW)], [])]
    print(lines[0])
    for (n_rows, epsilon), limit in product(FEW, LIMITS):
        with patch.object(scales, "_MOST_NOISE_OF_BIN", limit):
            cells = [cell(n_rows, epsilon, one, N_SEEDS_OF_FEW, 0.1) for one in OFFSETS_OF_FEW]
        lines.append(line([f"{limit:g}", f"{n_rows}", f"{epsilon:g}", *cells]))
        print(lines[-1], flush=True)
    return "\n".join(lines)


if __name__ == "__main__":
    main()
