"""`DPLinearRegression` on narrow features far from 0: how often to look, for what share.

Run

    python -m benchmarks.trace_regression.looks            # two minutes on one core
    python -m benchmarks.trace_regression.looks --write    # looks.md beside it
"""

import warnings
from pathlib import Path
from unittest.mock import patch

import numpy as np

from benchmarks.report import line, parser_for, table
from skdp import DPLinearRegression, _scales
from skdp.linear_model import _trace_plan

HERE = Path(__file__).parent
N_SEEDS, N_FEATURES = 10, 4
CASES = (5000, 1.0), (2000, 1.0), (2000, 3.0)
OFFSETS = 0.0, 1e2, 1e4, 1e5, 1e6, 1e7
LOOKS = (2, 0.02), (4, 0.02), (5, 0.02), (5, 0.03), (4, 0.04)
TITLE = """\
# How often to look at narrow features

Written by `python -m benchmarks.trace_regression.looks --write`. 4 normal features of variance 1
around an offset. Mean and least R2 of 10 fits, and how many of the fits below .8 do not warn, for
every number of looks and their share of the budget."""


def cell(n_rows: int, epsilon: float, offset: float) -> str:
    scores, n_silent = [], 0
    for seed in range(N_SEEDS):
        generator = np.random.default_rng(seed)
        centered = generator.normal(size=(n_rows, N_FEATURES))
        y = centered @ np.linspace(1, 2, N_FEATURES) + 0.5 * generator.normal(size=n_rows)
        model = DPLinearRegression(epsilon=epsilon, random_state=2**100 + seed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            scores.append(model.fit(centered + offset, y).score(centered + offset, y))
        n_silent += scores[-1] < 0.8 and not caught
    return f"{np.mean(scores):.2f}, {min(scores):.2f}, {n_silent}"


def main() -> None:
    arguments = parser_for(__doc__, write="replace looks.md").parse_args()
    lines = [table(["looks", "share", "rows", "epsilon", *(f"{one:g}" for one in OFFSETS)], [])]
    print(lines[0])
    for n_looks, share in LOOKS:
        for n_rows, epsilon in CASES:
            with (
                patch.object(_scales, "N_LOOKS", n_looks),
                patch.object(_trace_plan, "_PLACES_SHARE", share),
            ):
                cells = [cell(n_rows, epsilon, offset) for offset in OFFSETS]
            lines.append(line([f"{n_looks}", f"{share}", f"{n_rows}", f"{epsilon:g}", *cells]))
            print(lines[-1], flush=True)
    if arguments.write:
        (HERE / "looks.md").write_text("\n\n".join([TITLE, "\n".join(lines)]) + "\n")


if __name__ == "__main__":
    main()
