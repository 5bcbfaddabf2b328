"""How often intervals of 95% hold the coefficients of a population: `DPCovariance.std_errors`.

Each fit has new rows and new noise. Run

    python -m benchmarks.covariance.intervals          # 200 fits a line, some minutes
    python -m benchmarks.covariance.intervals --write  # intervals.md beside it
"""

import math
from statistics import NormalDist

import numpy as np

from benchmarks.report import ignore_drowned_signal, parser_for, publish, seeds_asked_for, table
from skdp import DPCovariance

FITS, N_COLUMNS, NORMAL = 200, 6, 1.96
TITLE = """\
# Intervals of coefficients

Written by `python -m benchmarks.covariance.intervals --write`. {} fits a line of `DPCovariance` to
new rows of 6 columns and a target, delta 1e-6: percentages in which a coefficient of the population
is within 1.96 `std_errors` of that of `regression`, in the mean of all coefficients, and the lowest
and the highest of single ones; how many fits get errors, and are not refused as noise hides a
direction; and the median width of the intervals, in those that sampling alone would have. 95 is
nominal. Correlated columns are those of an autoregression with .8; skewed ones are lognormal, and
so is a skewed target; heavy noise is a residual of four times the signal; of gaps there are 20%, at
random. A rare target is not 0 in 2% of rows; with 5,000 rows noise hides its scale, of which
`std_errors` warns. Rare columns are not 0 in 5% of rows. Long tails are those of t(3), of columns
and residual.

## What these releases cannot tell

Scales are released of each column by itself, and the moment of rows whose entries were clipped. So
nothing changes if entries of the target beyond the same end of its interval change places: the
clipped rows are the same, and so are all columns by themselves. But the covariance with a column
changes by up to p s t, if p is the part of such rows, and s and t are the standard deviations,
among them, of this column and of what clipping took from the target. Intervals that hold for both
populations are as wide, at any epsilon. The same is true of the entries of a column. So
`std_errors` assume columns that predict linearly, with residuals that are independent of them, as
the usual errors do: then clipping changes coefficients by known factors at most. They do not hold
where long tails of columns decide whether a rare target is 1.

"""
DESIGNS = ("clean", "skewed", "skewed target", "rare target", "rare columns", "long tails")
DESIGNS += ("correlated", "heavy noise", "gaps")
CASES = [
    (design, n, epsilon)
    for design in DESIGNS
    for n, epsilon in ((5000, 1.0), (20_000, 1.0), (20_000, 4.0))
]
COEF = np.array([1.0, -0.5, 0.0, 0.25, 0.0, -1.0])
RARE = NormalDist().inv_cdf(0.98)


def rows_of(design: str, n: int, generator: np.random.Generator) -> np.ndarray:
    """Draw rows, the last column of which is the target."""
    X = generator.normal(size=(n, N_COLUMNS))
    if design == "correlated":
        for j in range(1, N_COLUMNS):
            X[:, j] = 0.8 * X[:, j - 1] + 0.6 * X[:, j]
    if design == "skewed":
        X = np.exp(0.5 * X)
    if design == "rare columns":
        X = (generator.random(X.shape) < 0.05) * 4.0
    if design == "long tails":
        X = generator.standard_t(3, size=X.shape)
    spread = 4.0 * np.linalg.norm(COEF) if design == "heavy noise" else 1.0
    y = X @ COEF + spread * generator.normal(size=n)
    if design == "long tails":
        y = X @ COEF + generator.standard_t(3, size=n)
    if design == "rare target":  # so that COEF is its mean slope
        size = math.sqrt(COEF @ COEF + 1)
        y = (y > RARE * size) * size / NormalDist().pdf(RARE)
    if design == "skewed target":  # so that COEF is its mean slope, by Stein's lemma
        y = 2 * np.exp(y / 2 - (COEF @ COEF + 1) / 8)
    rows = np.column_stack([X, y])
    if design == "gaps":
        rows[generator.random(rows.shape) < 0.2] = np.nan
    return rows


def cells_of(design: str, n: int, epsilon: float, n_fits: int) -> list[str]:
    """Fit many times, and print the percentages."""
    errors, widths = [], []
    for seed in range(n_fits):
        rows = rows_of(design, n, np.random.default_rng(seed))
        missing = "mean" if design == "gaps" else "refuse"
        fitted = DPCovariance(missing=missing, epsilon=epsilon).fit(rows)
        try:
            stds = fitted.std_errors(N_COLUMNS)
        except ValueError:
            continue
        errors.append((fitted.regression(N_COLUMNS)[-1].coef_ - COEF) / stds)
        whole = rows[~np.isnan(rows).any(axis=1)]
        X, y = whole[:, :-1] - whole[:, :-1].mean(axis=0), whole[:, -1]
        residual = y - y.mean() - X @ np.linalg.lstsq(X, y - y.mean(), rcond=None)[0]
        widths.append(stds / np.sqrt(np.diag(np.linalg.inv(X.T @ X)) * residual.var()))
    part = f"{100 * len(errors) / n_fits:.0f}"
    if len(errors) < n_fits / 20:
        return ["-", "-", part, "-"]
    holds = 100 * np.mean(np.abs(errors) <= NORMAL, axis=0)
    span = f"{holds.min():.1f} to {holds.max():.1f}"
    return [f"{holds.mean():.1f}", span, part, f"{np.median(widths):.1f}"]


def main() -> None:
    parser = parser_for(
        __doc__,
        seeds=f"fits of each line, default {FITS}",
        quick="50 fits",
        write="replace intervals.md",
    )
    arguments = parser.parse_args()
    n_fits = seeds_asked_for(arguments, usual=FITS, quick=50)
    ignore_drowned_signal()
    header = ["data", "rows", "epsilon", "within", "single coefficients", "of 100", "width"]
    lines = [[case[0], case[1], f"{case[2]:g}", *cells_of(*case, n_fits)] for case in CASES]
    publish(TITLE.format(n_fits) + table(header, lines), __file__, write=arguments.write)


if __name__ == "__main__":
    main()
