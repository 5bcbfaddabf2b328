"""How often the errors that `DPLinearRegression` publishes hold: `coef_noise_std_`.

Each fit is made again from the same releases, but without noise in its gradients. Run

    python -m benchmarks.noise_errors.coefficients          # 1,000 fits a line, half an hour
    python -m benchmarks.noise_errors.coefficients --write  # coefficients.md beside it
"""

import math
from functools import cache

import numpy as np
from sklearn.base import clone

from benchmarks.report import ignore_drowned_signal, parser_for, publish, seeds_asked_for, table
from benchmarks.trace_regression.measures import without_cut
from skdp import DPLinearRegression
from skdp.testing._recording import RecordingBudget, budgets_of

FITS, N_COLUMNS = 1000, 10
NORMAL = 1.96  # of 95%
TITLE = """\
# Errors of coefficients, by noise alone

Written by `python -m benchmarks.noise_errors.coefficients --write`. Percentages of {} fits of
`DPLinearRegression`, delta 1e-6, in which a coefficient is within 1.96 `coef_noise_std_` of that of
the same fit without noise: with the same scales, whitening and clip levels, but no noise in the
gradients, and nothing cut. They are the mean of all coefficients, and the lowest and the highest of
single ones, among the fits that have this attribute; the last column tells how many have it. 95 is
nominal. The standard error of the percentage of one coefficient is {:.1f} where all fits have it.
Correlated columns are those of an autoregression.

"""
# Rows, columns, correlation of neighbors, distribution, size of what the columns do not explain.
DATA = {
    f"{n} rows, {name}": (n, *facts)
    for n in (2000, 20_000)
    for name, facts in {
        "10 columns": (10, 0.0, "normal", 0.7),
        "raw units": (10, 0.0, "raw", 0.7),
        "correlation .5": (10, 0.5, "normal", 0.7),
    }.items()
}
OTHERS = {
    "2000 rows, 3 columns": (2000, 3, 0.0, "normal", 0.7),
    "5000 rows, 20 columns, one matters": (5000, 20, 0.0, "one", 0.7),
    "5000 rows, weak signal": (5000, 10, 0.0, "normal", 4.0),
    "5000 rows, 0 and 1": (5000, 10, 0.0, "binary", 0.7),
    "5000 rows, long tails": (5000, 10, 0.0, "tails", 0.7),
    "5000 rows, correlation .7": (5000, 10, 0.7, "normal", 0.7),
    "5000 rows, correlation .9": (5000, 10, 0.9, "normal", 0.7),
}
CASES = [(name, epsilon) for name in DATA for epsilon in (1.0, 4.0)]
CASES += [(name, 4.0) for name in OTHERS]


@cache
def rows_of(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Make rows and responses."""
    n, d, correlation, kind, spread = (DATA | OTHERS)[name]
    generator = np.random.default_rng(1)
    X = generator.normal(size=(n, d))
    if kind == "tails":
        X = generator.standard_t(4, size=(n, d))
    for j in range(1, d):
        X[:, j] = correlation * X[:, j - 1] + np.sqrt(1 - correlation**2) * X[:, j]
    if kind == "binary":
        X = (X > 0.25).astype(float)
    coef = np.eye(d)[0] if kind == "one" else generator.normal(size=d)
    signal = X @ coef
    y = (signal - signal.mean()) / signal.std() + spread * generator.normal(size=n)
    if kind == "raw":
        units = 10.0 ** generator.uniform(-3, 3, d)
        X, y = units * (X + 2 * generator.normal(size=d)), 100 * y + 500
    return X, y


class WithoutNoise(RecordingBudget):
    """Answers as another fit did, but for gradients, which get no noise."""

    def _answer(self, release, value, place=None):
        if "gradient" in release.name:
            return np.array(value)
        return super()._answer(release, value, place)


def errors_of(model: DPLinearRegression, X: np.ndarray, y: np.ndarray) -> np.ndarray | None:
    """Fit with and without noise; return errors in their standard deviations, if these exist."""
    with budgets_of(lambda _: RecordingBudget) as made:
        model.fit(X, y)
    if not hasattr(model, "coef_noise_std_"):
        return None
    again = type("Again", (WithoutNoise,), {"script": made[0].released})
    with without_cut(), budgets_of(lambda _: again):
        exact = clone(model).fit(X, y)
    return (model.coef_ - exact.coef_) / model.coef_noise_std_


def cells_of(name: str, epsilon: float, n_fits: int) -> list[str]:
    """Fit many times, and print the percentages."""
    model = DPLinearRegression(epsilon=epsilon)
    found = [errors_of(model, *rows_of(name)) for _ in range(n_fits)]
    errors = [one for one in found if one is not None]
    part = f"{100 * len(errors) / n_fits:.0f}"
    if len(errors) < n_fits / 20:
        return ["-", "-", part]
    holds = 100 * np.mean(np.abs(errors) <= NORMAL, axis=0)
    return [f"{holds.mean():.1f}", f"{holds.min():.1f} to {holds.max():.1f}", part]


def main() -> None:
    parser = parser_for(
        __doc__,
        seeds=f"fits of each line, default {FITS}",
        quick="50 fits",
        write="replace coefficients.md",
    )
    arguments = parser.parse_args()
    n_fits = seeds_asked_for(arguments, usual=FITS, quick=50)
    ignore_drowned_signal()
    header = ["data", "epsilon", "within", "single coefficients", "of 100"]
    lines = [[name, f"{at:g}", *cells_of(name, at, n_fits)] for name, at in CASES]
    title = TITLE.format(n_fits, 100 * math.sqrt(0.95 * 0.05 / n_fits))
    publish(title + table(header, lines), __file__, write=arguments.write)


if __name__ == "__main__":
    main()
