"""How often intervals of 95% hold the means and standard deviations of `DPStandardScaler`.

Each fit has new rows and new noise. Run

    python -m benchmarks.noise_errors.scales          # 100 fits a line, a minute
    python -m benchmarks.noise_errors.scales --write  # scales.md beside it
"""

import numpy as np

from benchmarks.report import asked_of_tables, ignore_drowned_signal, publish, table
from skdp import DPStandardScaler

FITS, NORMAL = 100, 1.96
TITLE = """\
# Errors of means and scales

Written by `python -m benchmarks.noise_errors.scales --write`. {} fits a line of `DPStandardScaler`,
delta 1e-6, to new rows of six columns: normal, uniform, exponential, of 0 and 1, of 0 and 1 with
one 1 of twenty, and of a Student law with 5 degrees of freedom, in their own units and places.
Percentages in which a mean and a standard deviation of the law are within 1.96 of its error, in
the mean of all columns and the lowest and the highest of one; and of how many there is an error,
and no infinity. Bounds are twice as far apart as the .01% and the 99.99% of the law. 95 is nominal.

"""
CASES = [
    (bounds, n, epsilon)
    for bounds in ("none", "given")
    for n, epsilon in ((2000, 1.0), (5000, 0.25), (5000, 1.0), (5000, 4.0), (50_000, 1.0))
]
UNITS, PLACES = np.array([1.0, 20.0, 0.1, 1.0, 1.0, 5.0]), np.array([0.0, 50.0, 0.0, 0, 0, -3.0])
MEANS = np.array([0.0, 0.0, 1.0, 0.5, 0.05, 0.0]) * UNITS + PLACES
STDS = np.array([1.0, 12**-0.5, 1.0, 0.5, 0.0475**0.5, (5 / 3) ** 0.5]) * UNITS


def rows_of(n: int, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    columns = [
        generator.normal(size=n),
        generator.uniform(-0.5, 0.5, size=n),
        generator.exponential(size=n),
        generator.random(n) < 0.5,
        generator.random(n) < 0.05,
        generator.standard_t(5, size=n),
    ]
    return np.column_stack(columns) * UNITS + PLACES


def line(bounds: str, n: int, epsilon: float, n_fits: int) -> list[str]:
    """Fit many times, and print the percentages."""
    low, high = np.quantile(rows_of(200_000, 99), [1e-4, 1 - 1e-4], axis=0)
    middle, half = (low + high) / 2, high - low
    held, given = [], []
    for seed in range(n_fits):
        ends = {"bounds": (middle - half, middle + half)} if bounds == "given" else {}
        fitted = DPStandardScaler(epsilon=epsilon, **ends).fit(rows_of(n, seed))
        pairs = (
            (fitted.mean_ - MEANS, fitted.mean_std_error_),
            (fitted.scale_ - STDS, fitted.scale_std_error_),
        )
        held.append([np.abs(error) <= NORMAL * std for error, std in pairs])
        given.append([std < 1e300 for _, std in pairs])
    is_given, is_held = np.array(given), np.array(held)
    cells = [f"bounds {bounds}, {n:,} rows, epsilon {epsilon:g}"]
    for kind in range(2):
        counts = is_given[:, kind].sum(axis=0)
        some = counts > 0
        parts = 100 * (is_held & is_given)[:, kind].sum(axis=0)[some] / counts[some]
        of_all = 100 * counts.mean() / n_fits
        cells.append(f"{parts.mean():.0f} ({parts.min():.0f} to {parts.max():.0f}), {of_all:.0f}")
    return cells


def main() -> None:
    arguments, n_fits = asked_of_tables(__doc__, FITS, "scales.md")
    ignore_drowned_signal()
    head = ["case", "means, of how many", "scales, of how many"]
    lines = [line(*case, n_fits) for case in CASES if arguments.only in case[0]]
    publish(TITLE.format(n_fits) + table(head, lines), __file__, write=arguments.write)


if __name__ == "__main__":
    main()
