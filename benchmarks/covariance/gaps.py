"""Correlations and components of rows with gaps: `DPCovariance(missing="mean")`.

Run

    python -m benchmarks.covariance.gaps          # 50 seeds, a minute
    python -m benchmarks.covariance.gaps --write  # gaps.md beside it
"""

from pathlib import Path

import numpy as np

from benchmarks.report import ignore_drowned_signal, parser_for, seeds_asked_for, table
from skdp import DPCovariance
from skdp.metrics import captured_variance

HERE = Path(__file__).parent
SEEDS, N_ROWS, N_COLUMNS, N_FACTORS = 50, 19_000, 10, 3
TITLE = """\
# Gaps

Written by `python -m benchmarks.covariance.gaps --write`. {} fits a line of `DPCovariance` without
bounds to new rows, 19,000 of 10 columns that follow from three factors, delta 1e-6; entries are
missing at random. *Error* is the largest of the 45 correlations, against those of the same rows
without gaps: the median of all fits, and the largest. *Components* is the part of the variance that
the best three components hold, which three components by `scale=True` hold: mean and least. *Filled
in* is the error where gaps are filled with means, without noise.

"""


def rows_of(generator: np.random.Generator) -> np.ndarray:
    """Draw rows."""
    factors = generator.normal(size=(N_ROWS, N_FACTORS))
    loadings = np.random.default_rng(0).normal(size=(N_FACTORS, N_COLUMNS))
    return factors @ loadings + generator.normal(size=(N_ROWS, N_COLUMNS))


def largest_error(correlations: np.ndarray, rows: np.ndarray) -> float:
    """Return the largest error of a correlation."""
    return float(np.abs(correlations - np.corrcoef(rows.T)).max())


def cells_of(part: float, epsilon: float, n_seeds: int) -> list[str]:
    """Fit many times, and print the errors."""
    errors, filled, held = [], [], []
    for seed in range(n_seeds):
        generator = np.random.default_rng(seed)
        rows = rows_of(generator)
        X = np.where(generator.random(rows.shape) < part, np.nan, rows)
        fitted = DPCovariance(missing="mean", epsilon=epsilon).fit(X)
        errors.append(largest_error(fitted.correlation_, rows))
        means = np.where(np.isnan(X), np.nanmean(X, axis=0), X)
        filled.append(largest_error(np.corrcoef(means.T), rows))
        Z = (rows - rows.mean(axis=0)) / rows.std(axis=0)
        best = np.linalg.svd(Z, full_matrices=False)[2][:N_FACTORS]
        found = fitted.components(N_FACTORS, scale=True)[-1].components_
        held.append(captured_variance(found, Z) / captured_variance(best, Z))
    return [
        f"{np.median(errors):.3f}, {max(errors):.3f}",
        f"{np.mean(held):.4f}, {min(held):.4f}",
        f"{np.median(filled):.3f}",
    ]


def main() -> None:
    parser = parser_for(
        __doc__,
        seeds=f"fits of each line, default {SEEDS}",
        quick="5 fits",
        write="replace gaps.md",
    )
    arguments = parser.parse_args()
    n_seeds = seeds_asked_for(arguments, usual=SEEDS, quick=5)
    ignore_drowned_signal()
    header = ["gaps", "epsilon", "error: median, largest", "components: mean, least", "filled in"]
    cases = [(part, epsilon) for part in (0.0, 0.1, 0.3) for epsilon in (1.0, 4.0)]
    lines = [[f"{part:.0%}", f"{at:g}", *cells_of(part, at, n_seeds)] for part, at in cases]
    text = table(header, lines)
    if arguments.write:
        (HERE / "gaps.md").write_text(TITLE.format(n_seeds) + text + "\n")
    else:
        print(text)


if __name__ == "__main__":
    main()
