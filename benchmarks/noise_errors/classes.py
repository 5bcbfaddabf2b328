"""Why `DPLogisticRegression` publishes no errors of coefficients: how often they would hold.

The standard deviations are those by which the fit shrinks its coefficients: noise of a gradient
stays in the weights until later steps correct it, at the curvature that the fit takes the loss to
have. Each fit is made again from the same releases, but without noise in its gradients. Run

    python -m benchmarks.noise_errors.classes          # 200 fits a line, some minutes
    python -m benchmarks.noise_errors.classes --write  # classes.md beside it
"""

from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.noise_errors.coefficients import NORMAL, WithoutNoise
from benchmarks.report import ignore_drowned_signal, parser_for, seeds_asked_for, table
from skdp import DPLogisticRegression
from skdp.linear_model.logistic import fit as logistic_fit
from skdp.testing._recording import RecordingBudget, budgets_of

HERE = Path(__file__).parent
FITS, N_ROWS, N_COLUMNS = 200, 5000, 5
TITLE = """\
# Errors of the coefficients of classes, by noise alone

Written by `python -m benchmarks.noise_errors.classes --write`. In {} fits of `DPLogisticRegression`
to 5,000 rows of 5 columns, delta 1e-6: percentages of coefficients, before they are shrunk, within
1.96 standard deviations of those of the same fit without noise in its gradients; and the largest
mean error of one coefficient, in its standard deviations. The latter are those by which the fit
shrinks. 95 is nominal: noise does not only spread coefficients, it moves them, since noisy weights
make flatter losses.

"""
CASES = {
    f"{case[0]} classes, correlation {case[1]:g}, epsilon {case[2]:g}": case
    for case in [(2, 0.0, 1.0), (2, 0.0, 4.0), (2, 0.5, 4.0), (3, 0.0, 4.0)]
}


def rows_of(n_classes: int, correlation: float) -> tuple[np.ndarray, np.ndarray]:
    """Make rows and classes."""
    generator = np.random.default_rng(1)
    X = generator.normal(size=(N_ROWS, N_COLUMNS))
    for j in range(1, N_COLUMNS):
        X[:, j] = correlation * X[:, j - 1] + np.sqrt(1 - correlation**2) * X[:, j]
    scores = X @ generator.normal(size=(N_COLUMNS, n_classes))
    return X, (2 * scores / scores.std() + generator.gumbel(size=scores.shape)).argmax(axis=1)


def errors_of(epsilon: float, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Fit with and without noise; return errors of all slopes, in their standard deviations."""
    seen: list[Any] = []
    shrink = logistic_fit.shrunk_mean

    def keep(iterates, pace, start, white, **settings):
        n_columns, root, spread = start.shape[1], white.root, np.maximum(white.spread, 1e-12)
        variances = pace.noise(spread) / spread
        centered = 1 - 1 / n_columns if n_columns > 1 else 1.0
        stds = np.sqrt((root @ white.vectors) ** 2 @ variances * centered)
        seen.append((root @ np.mean(iterates[pace.n_steps // 2 :], axis=0)[:-1], stds))
        return shrink(iterates, pace, start, white, **settings)

    kind: Any = RecordingBudget
    with patch.object(logistic_fit, "shrunk_mean", keep):
        for _ in range(2):
            with budgets_of(lambda _, kind=kind: kind) as made:
                DPLogisticRegression(classes=np.unique(y), epsilon=epsilon).fit(X, y)
            kind = type("Again", (WithoutNoise,), {"script": made[0].released})
    (noisy, stds), (exact, _) = seen
    return (noisy - exact) / stds[:, np.newaxis]


def cells_of(name: str, n_fits: int) -> list[str]:
    """Fit many times, and print the percentage and the largest mean error."""
    n_classes, correlation, epsilon = CASES[name]
    data = rows_of(n_classes, correlation)
    errors = np.array([errors_of(epsilon, *data) for _ in range(n_fits)])
    within = 100 * np.mean(np.abs(errors) <= NORMAL)
    return [f"{within:.0f}", f"{np.abs(errors.mean(axis=0)).max():.1f}"]


def main() -> None:
    parser = parser_for(
        __doc__,
        seeds=f"fits of each line, default {FITS}",
        quick="20 fits",
        write="replace classes.md",
    )
    arguments = parser.parse_args()
    n_fits = seeds_asked_for(arguments, usual=FITS, quick=20)
    ignore_drowned_signal()
    header = ["data", "within", "mean error"]
    text = table(header, [[name, *cells_of(name, n_fits)] for name in CASES])
    if arguments.write:
        (HERE / "classes.md").write_text(TITLE.format(n_fits) + text + "\n")
    else:
        print(text)


if __name__ == "__main__":
    main()
