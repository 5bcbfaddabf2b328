"""How often `coef_std_error_` of `DPLogisticRegression` holds, on made-up rows and on tables.

Tables are looked for in the folder that the environment variable `SKDP_DATA` names. Run

    python -m benchmarks.noise_errors.classes          # 20 fits a line, half an hour
    python -m benchmarks.noise_errors.classes --write  # classes.md beside it
"""

from functools import cache

import numpy as np
from scipy.special import expit, softmax
from sklearn.preprocessing import scale

from benchmarks.report import asked_of_tables, ignore_drowned_signal, publish, table
from benchmarks.sweep.tables import load
from skdp import DPLogisticRegression

FITS, NORMAL = 20, 1.96
TITLE = """\
# Errors of the coefficients of classes

Written by `python -m benchmarks.noise_errors.classes --write`. {} fits a line of
`DPLogisticRegression`, delta 1e-6, to new rows. Percentages of coefficients within 1.96
`coef_std_error_` of those of the law, in the mean of all and the lowest and the highest of one; the
root mean square, in units of the deviation of the column, of what the coefficients err, of the
standard errors, and of the coefficients; and in how many of 100 fits there are errors. 95 is
nominal. Rows of a table, with standardized columns, are drawn from it with replacement, as many as
it has; the law has the coefficients of `DPLogisticRegression(epsilon=inf)` of the table. Those of
made-up rows are drawn once; scores deviate by 1.5 from their mean, and neighboring columns may be
correlated.

"""
# Rows, columns, classes, correlation, distribution.
DATA = {
    "5,000 rows, 5 columns": (5000, 5, 2, 0.0, "normal"),
    "20,000 rows, 10 columns, correlation .5": (20_000, 10, 2, 0.5, "normal"),
    "2,000 rows, 10 columns": (2000, 10, 2, 0.0, "normal"),
    "5,000 rows, 20 columns, correlation .5": (5000, 20, 2, 0.5, "normal"),
    "5,000 rows, 10 columns of 0 and 1": (5000, 10, 2, 0.0, "binary"),
    "5,000 rows, 10 columns, long tails": (5000, 10, 2, 0.0, "tails"),
    "20,000 rows, 5 skewed columns": (20_000, 5, 2, 0.0, "skewed"),
    "20,000 rows, 10 columns, a rare class": (20_000, 10, 2, 0.0, "rare"),
    "5,000 rows, 5 columns, 3 classes": (5000, 5, 3, 0.0, "normal"),
    "20,000 rows, 8 columns, 6 classes": (20_000, 8, 6, 0.5, "normal"),
}
TABLES = (
    *("mammography", "email", "storms", "yrbss", "vowel"),
    *("page_blocks", "attrition", "adult", "bank", "default", "spambase"),
)
EPSILONS = (0.25, 1.0, 4.0)


def columns_of(generator: np.random.Generator, n: int, d: int, correlation: float, kind: str):
    """Draw correlated columns of a distribution."""
    X = generator.standard_t(5, size=(n, d)) if kind == "tails" else generator.normal(size=(n, d))
    for j in range(1, d):
        X[:, j] = correlation * X[:, j - 1] + np.sqrt(1 - correlation**2) * X[:, j]
    if kind == "binary":
        return (X > 0.25).astype(float)
    return np.exp(X / 2) if kind == "skewed" else X


@cache
def law_of(name: str) -> tuple[np.ndarray, ...]:
    """Draw coefficients; return also the means and deviations of columns, or a table."""
    if name not in DATA:
        X, y = load(name)
        whole = np.isfinite(X).all(axis=1)
        X, y = scale(X[whole]), np.unique(y[whole], return_inverse=True)[1]
        coef = DPLogisticRegression(classes=range(y.max() + 1), epsilon=np.inf).fit(X, y).coef_
        return coef, X.std(axis=0), X, y
    _, d, n_classes, correlation, kind = DATA[name]
    coef = np.random.default_rng([d, n_classes]).normal(size=(n_classes, d))
    coef = coef[:1] if n_classes == 2 else coef - coef.mean(axis=0)
    many = columns_of(np.random.default_rng(5), 100_000, d, correlation, kind)
    coef *= 1.5 / np.sqrt((many @ coef.T).var(axis=0).mean())
    return coef, many.std(axis=0), coef @ many.mean(axis=0)


def rows_of(name: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw rows and their classes."""
    generator, law = np.random.default_rng(seed), law_of(name)
    if name not in DATA:
        places = generator.integers(len(law[2]), size=len(law[2]))
        return law[2][places], law[3][places]
    n, d, n_classes, correlation, kind = DATA[name]
    X = columns_of(generator, n, d, correlation, kind)
    scores = X @ law[0].T - law[2] - 2.5 * (kind == "rare")
    likely = expit(-scores) if n_classes == 2 else softmax(scores, axis=1)
    return X, (likely.cumsum(axis=1)[:, : n_classes - 1] < generator.random((n, 1))).sum(axis=1)


def line(name: str, epsilon: float, n_fits: int) -> list[str]:
    """Fit many times, and print the percentages."""
    coef, deviations = law_of(name)[:2]
    found, classes = [], range(max(2, len(coef)))
    for seed in range(n_fits):
        model = DPLogisticRegression(classes=classes, epsilon=epsilon).fit(*rows_of(name, seed))
        if hasattr(model, "coef_std_error_"):
            found.append((model.coef_ - coef, model.coef_std_error_))
    cells = [f"{name}, epsilon {epsilon:g}"]
    if not found:
        return [*cells, *["-"] * 4, "0"]
    errors, stds = np.array(found).swapaxes(0, 1)
    holds = 100 * np.mean(np.abs(errors) <= NORMAL * stds, axis=0)
    cells.append(f"{holds.mean():.0f} ({holds.min():.0f} to {holds.max():.0f})")
    for values in (errors, stds, coef):
        cells.append(f"{np.sqrt(np.mean(np.square(values * deviations))):.3f}")
    return [*cells, f"{100 * len(found) / n_fits:.0f}"]


def main() -> None:
    arguments, n_fits = asked_of_tables(__doc__, FITS, "classes.md")
    ignore_drowned_signal()
    names = [name for name in (*DATA, *TABLES) if arguments.only in name]
    lines = [line(name, epsilon, n_fits) for name in names for epsilon in EPSILONS]
    head = ["data", "within", "error", "standard error", "coefficient", "of 100"]
    publish(TITLE.format(n_fits) + table(head, lines), __file__, write=arguments.write)


if __name__ == "__main__":
    main()
