"""What the constants of a least-squares fit are worth, on half of the real tables.

    SKDP_DATA=... OPENBLAS_NUM_THREADS=1 python -m benchmarks.least_squares.least_squares [--write]

Each setting changes one or two constants. Mean R2 of rows held out, over tables and splits; one
below -1 counts as -1. Weak signals are made: normal columns, three of which decide, or normal
matrices, of which coefficients of rank one decide.
"""

import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

import skdp
from benchmarks.report import parser_for, publish, table
from benchmarks.sweep.tables import REGRESSION, held_out, load
from skdp.linear_model import _descent
from skdp.linear_model.least_squares import plan, steps
from skdp.linear_model.low_rank import spec

EPSILONS = (0.25, 1.0, 4.0, 256.0)
# Every second table; the others were looked at once, in the end.
CHOSEN, OTHERS = REGRESSION[::2], REGRESSION[1::2]
SPLITS = 2
UNCALIBRATED = {"_WEAK": 0.0, "plan_calibration": lambda *_: None}
SETTINGS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "rows up to 8 mean lengths": {"_NORM_LIMITS": (1.3, 8.0)},
    "rows up to 1.3 mean lengths": {"_NORM_LIMITS": (1.3, 1.3)},
    "up to 20 steps": {"_STEP_LIMITS": (8, 40)},
    "5 steps": {"_STEP_LIMITS": (5, 5), "_FEWEST_WITH_MOMENTUM": 5},
    "entries up to 16 scales": {"_ENTRY": 16.0},
    "entries up to 3 scales": {"_ENTRY": 3.0},
    "moment with half the share": {"_MOMENT_SHARE": 0.15},
    "no calibration": UNCALIBRATED,
    "calibration with a third of the share": {"_CALIBRATION_SHARE": 0.05},
    "calibration up to 300": {"_WEAK": 300.0},
    "scales with half the share": {
        "_LARGEST_OF_FEATURES": 0.15,
        "_LEAST_OF_FEATURES": (0.075, 0.025),
    },
    "bias weighs 1": {"_BIAS": 1.0},
    "reach of 2": {"_CLIP_NORM": 2.0},
}
WEAK_SETTINGS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "a third of the share": {"_CALIBRATION_SHARE": 0.05},
    "bounds of 3": {"CALIBRATED": (3.0, 3.0)},
    "no margin of the factor": {"_OF_FACTOR": 0.0},
    "no calibration": UNCALIBRATED,
}
# Rows and columns, with either budget; parts of the variance that the columns explain.
SIZES, WEAK_EPSILONS, EXPLAINED = ((4400, 60), (1500, 12), (1000, 5)), (0.25, 0.5), (0.0, 0.1, 0.4)
MATRIX_SIZES = ((1200, 4, 5), (1600, 8, 8), (3000, 6, 10))
WEAK_FITS, HELD_OUT, LOSS = 8, 3000, 0.02
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

## Weak signals

{sizes}, {n_fits} fits of each. By the part of the variance
of the responses that the columns explain: mean R2, and the part of the fits that are {loss:g} worse
than the mean of the responses without a warning.

{weak}

Of `DPTraceRegressor` with rank 1, matrices: {matrix_sizes}.

{weak_matrices}
"""


def score(name: str, split: int, epsilon: float) -> float:
    """Fit to a table, and score what is held out."""
    X, y = load(name)
    A, B, a, b = held_out(X, y.astype(float), split)
    return max(-1.0, skdp.DPLinearRegression(epsilon=epsilon).fit(A, a).score(B, b))


@contextmanager
def changed(constants: dict[str, Any]) -> Iterator[None]:
    """Change constants of a fit."""
    with ExitStack() as stack:
        for name, value in constants.items():
            for module in (plan, steps, spec, _descent):
                if hasattr(module, name):
                    stack.enter_context(patch.object(module, name, value))
        yield


def scores(names: tuple[str, ...], changes: dict[str, Any]) -> list[float]:
    """Average the scores for each budget."""
    with changed(changes):
        return [
            float(np.mean([score(name, split, one) for name in names for split in range(SPLITS)]))
            for one in EPSILONS
        ]


def weak_fit(explained: float, size: tuple[int, ...], epsilon: float, seed: int) -> np.ndarray:
    """Return the R2 of a weak signal, and whether the fit was worse than the mean in silence."""
    generator, (n_rows, *shape) = np.random.default_rng(seed), size
    X = generator.normal(size=(n_rows + HELD_OUT, *shape))
    noise = generator.normal(size=len(X))
    model, signal = skdp.DPLinearRegression(epsilon=epsilon), X[:, :3].sum(axis=1) / np.sqrt(3)
    if len(shape) == 2:
        model = skdp.DPTraceRegressor(rank=1, epsilon=epsilon)
        left, right = (generator.normal(size=one) for one in shape)
        signal = np.einsum("nij,i,j", X, left, right)
        signal /= np.linalg.norm(left) * np.linalg.norm(right)
    y = np.sqrt(explained) * signal + np.sqrt(1 - explained) * noise
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always", skdp.exceptions.PrivacyWarning)
        model.fit(X[:n_rows], y[:n_rows])
    score = model.score(X[n_rows:], y[n_rows:])
    return np.array([max(-1.0, score), score < -LOSS and not given])


def weak_row(setting: str, sizes: tuple[tuple[int, ...], ...] = SIZES) -> list[str]:
    """Average R2 and silent losses of weak signals in one setting."""
    cells = [setting]
    with changed(WEAK_SETTINGS[setting]):
        for explained in EXPLAINED:
            fits = [
                weak_fit(explained, size, epsilon, seed)
                for size in sizes
                for epsilon in WEAK_EPSILONS
                for seed in range(WEAK_FITS)
            ]
            cells.append("{:.3f}, {:.0%}".format(*np.mean(fits, axis=0)))
    return cells


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
        sizes=", ".join(f"{rows:,} x {columns}" for rows, columns in SIZES)
        + f", epsilon {WEAK_EPSILONS[0]:g} and {WEAK_EPSILONS[1]:g}",
        n_fits=WEAK_FITS,
        loss=LOSS,
        weak=table(["setting", *map("{:g}".format, EXPLAINED)], map(weak_row, WEAK_SETTINGS)),
        matrix_sizes=", ".join("{:,} of {} x {}".format(*size) for size in MATRIX_SIZES),
        weak_matrices=table(
            ["setting", *map("{:g}".format, EXPLAINED)],
            [weak_row(setting, MATRIX_SIZES) for setting in ("as it is", "no calibration")],
        ),
    )
    publish(text, __file__, write=options.write)


if __name__ == "__main__":
    main()
