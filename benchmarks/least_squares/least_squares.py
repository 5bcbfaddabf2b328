"""What the constants of a least-squares fit are worth, on half of the real tables.

    SKDP_DATA=... OPENBLAS_NUM_THREADS=1 python -m benchmarks.least_squares.least_squares [--write]

Each setting changes one or two constants. Mean R2 of rows held out, over tables and splits; one
below -1 counts as -1.
"""

import warnings
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import skdp
from benchmarks.report import parser_for, table
from benchmarks.sweep.tables import REGRESSION, held_out, load
from skdp.linear_model.least_squares import plan, steps

EPSILONS = (0.25, 1.0, 4.0, 256.0)
# Every second table; the others were looked at once, in the end.
CHOSEN, OTHERS = REGRESSION[::2], REGRESSION[1::2]
SPLITS = 2
SETTINGS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "rows up to 8 mean lengths": {"_NORM_LIMITS": (1.3, 8.0)},
    "rows up to 1.3 mean lengths": {"_NORM_LIMITS": (1.3, 1.3)},
    "up to 20 steps": {"_STEP_LIMITS": (8, 40)},
    "5 steps": {"_STEP_LIMITS": (5, 5), "_FEWEST_WITH_MOMENTUM": 5},
    "entries up to 16 scales": {"_ENTRY": 16.0},
    "entries up to 3 scales": {"_ENTRY": 3.0},
    "moment with half the share": {"_MOMENT_SHARE": 0.15},
    "no calibration": {"_WEAK": 0.0},
    "calibration up to 300": {"_WEAK": 300.0},
    "scales with half the share": {
        "_LARGEST_OF_FEATURES": 0.15,
        "_LEAST_OF_FEATURES": (0.075, 0.025),
    },
    "bias weighs 1": {"_BIAS": 1.0},
    "reach of 2": {"_CLIP_NORM": 2.0},
}
TEXT = """# Least squares

Made by `SKDP_DATA=... OPENBLAS_NUM_THREADS=1 python -m benchmarks.least_squares.least_squares
--write`. Mean R2 of held out rows by epsilon, {n_splits} splits, defaults but for what is named.
One below -1 counts as -1.

## The tables that settings were chosen on

{chosen}

{tables}

## The other tables

{others}

{last}
"""


def score(name: str, split: int, epsilon: float) -> float:
    """Fit to a table, and score what is held out."""
    X, y = load(name)
    A, B, a, b = held_out(X, y.astype(float), split)
    return max(-1.0, skdp.DPLinearRegression(epsilon=epsilon).fit(A, a).score(B, b))


def scores(names: tuple[str, ...], changes: dict[str, Any]) -> list[float]:
    """Average the scores for each budget."""
    with ExitStack() as stack:
        for name, value in changes.items():
            module = plan if hasattr(plan, name) else steps
            stack.enter_context(patch.object(module, name, value))
        return [
            float(np.mean([score(name, split, one) for name in names for split in range(SPLITS)]))
            for one in EPSILONS
        ]


def rows_of(names: tuple[str, ...], settings: dict[str, dict[str, Any]]) -> str:
    """Make the table of some settings."""
    found = [
        [setting, *map("{:.3f}".format, scores(names, settings[setting]))] for setting in settings
    ]
    return table(["setting", *map("{:g}".format, EPSILONS)], found)


def main() -> None:
    """Print the tables, or write them."""
    options = parser_for(__doc__, write="write the tables").parse_args()
    warnings.simplefilter("ignore")
    text = TEXT.format(
        n_splits=SPLITS,
        chosen=", ".join(CHOSEN),
        others=", ".join(OTHERS),
        tables=rows_of(CHOSEN, SETTINGS),
        last=rows_of(OTHERS, {"as it is": {}}),
    )
    if options.write:
        Path(__file__).with_suffix(".md").write_text(text)
    else:
        print(text)


if __name__ == "__main__":
    main()
