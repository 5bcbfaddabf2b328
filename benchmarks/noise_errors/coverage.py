"""How often the errors that `DPPCA` publishes hold: of variances, and of angles of components.

`components_noise_angle_` and `explained_variance_std_error_`, against the exact second moment of
the same rows, with the same center, clipped to the same norm. Run

    python -m benchmarks.noise_errors.coverage          # 1,000 fits a line, some minutes
    python -m benchmarks.noise_errors.coverage --write  # coverage.md beside it
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from benchmarks.report import ignore_drowned_signal, parser_for, seeds_asked_for, table
from skdp import DPPCA
from skdp.datasets import make_spiked

HERE = Path(__file__).parent
FITS, N_COMPONENTS = 1000, 3
NORMAL = 1.96  # of 95%
TITLE = """\
# Errors of variances and components, by noise alone

Written by `python -m benchmarks.noise_errors.coverage --write`. Percentages of {} fits of `DPPCA`
with `solver="covariance"`, delta 1e-6, in which `explained_variance_` is within 1.96 standard
errors of the exact variance of the same rows, centered and clipped alike; and in which the angle to
the exact component is at most `components_noise_angle_`. They are of components that stand out from
the noise, and of how often they do. 95 is nominal; the standard error of a percentage is 0.7.

"""


@cache
def rows_of(name: str) -> np.ndarray:
    """Make rows."""
    if name == "digits":
        return load_digits().data
    n, d = {"few columns": (4000, 10), "columns": (8000, 50), "many columns": (20_000, 150)}[name]
    X, *_ = make_spiked(n, d, k=3, random_state=0)
    return X


CASES = {
    "digits, epsilon 1": ("digits", {"epsilon": 1.0, "row_norm": 40.0, "mean_norm": 60.0}),
    "digits, epsilon 4": ("digits", {"epsilon": 4.0, "row_norm": 40.0, "mean_norm": 60.0}),
    "digits, bounds found": ("digits", {"epsilon": 4.0}),
    "10 columns, epsilon 1": ("few columns", {"epsilon": 1.0}),
    "50 columns, epsilon 1": ("columns", {"epsilon": 1.0}),
    "50 columns, epsilon 4": ("columns", {"epsilon": 4.0}),
    "50 columns, number found": ("columns", {"epsilon": 4.0, "n_components": 0.5}),
    "150 columns, epsilon 1": ("many columns", {"epsilon": 1.0}),
}


def outcomes(pca: DPPCA, X: np.ndarray) -> Iterator[tuple[bool, bool, bool]]:
    """Yield of each component whether it stands out, and whether variance and angle hold."""
    rows = X - pca.mean_
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    rows *= np.minimum(pca.row_norm_ / np.maximum(norms, 1e-300), 1)
    variances, vectors = np.linalg.eigh(rows.T @ rows / (len(X) - 1))
    for number in range(min(N_COMPONENTS, pca.n_components_)):
        error = abs(pca.explained_variance_[number] - variances[-1 - number])
        cosine = min(abs(pca.components_[number] @ vectors[:, -1 - number]), 1.0)
        angle = pca.components_noise_angle_[number]
        within = error <= NORMAL * pca.explained_variance_std_error_[number]
        yield bool(angle < np.pi / 2), bool(within), bool(np.arccos(cosine) <= angle)


def cells_of(name: str, n_fits: int) -> list[str]:
    """Fit many times, and print the percentages of each component."""
    made, parameters = CASES[name]
    X, found = rows_of(made), np.zeros((N_COMPONENTS, 3))
    for _ in range(n_fits):
        pca = DPPCA(**{"n_components": N_COMPONENTS, "solver": "covariance", **parameters}).fit(X)
        for number, (stands_out, *holds) in enumerate(outcomes(pca, X)):
            found[number] += stands_out * np.array([1, *holds])
    return [
        f"{100 * variance / n:.1f}, {100 * angle / n:.1f} of {100 * n / n_fits:.0f}" if n else "-"
        for n, variance, angle in found
    ]


def main() -> None:
    parser = parser_for(
        __doc__,
        seeds=f"fits of each line, default {FITS}",
        quick="100 fits",
        write="replace coverage.md",
    )
    arguments = parser.parse_args()
    n_fits = seeds_asked_for(arguments, usual=FITS, quick=100)
    ignore_drowned_signal()
    header = ["variance, angle", *(f"component {number + 1}" for number in range(N_COMPONENTS))]
    text = table(header, [[name, *cells_of(name, n_fits)] for name in CASES])
    if arguments.write:
        (HERE / "coverage.md").write_text(TITLE.format(n_fits) + text + "\n")
    else:
        print(text)


if __name__ == "__main__":
    main()
