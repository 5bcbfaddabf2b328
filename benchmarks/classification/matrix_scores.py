"""Log losses of classes of matrices, beside those of the class frequencies, with other constants.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.classification.matrix_scores [--write]

Labels follow a logistic regression whose coefficients have rank one.
"""

import warnings
from unittest.mock import patch

import numpy as np
from scipy.special import expit
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss

from benchmarks.report import parser_for, publish, table
from skdp import DPTraceClassifier
from skdp.linear_model import _trace_classifier as fits

SHAPE, N, EPSILONS, N_FITS = (8, 8), 2000, (0.25, 1.0), 20
# Norm of the coefficients, intercept, and part of far matrices; of images none of these.
DESIGNS = {
    "signal": (3.0, 0.0, 0.0),
    "none": (0.0, 0.0, 0.0),
    "rare class": (2.0, -3.5, 0.0),
    "-999 in 5%": (3.0, 0.0, 0.05),
    "-999 in 20%": (3.0, 0.0, 0.2),
    "images of 8": None,
}
SETTINGS = {
    "as it is": {"_BESIDE": fits._BESIDE},
    "a constant of .25 beside matrices": {"_BESIDE": 0.25},
    "a constant of 1 beside matrices": {"_BESIDE": 1.0},
    "scores up to 2 sizes": {"_FARTHEST": 2.0},
    "scores up to 4 sizes": {"_FARTHEST": 4.0},
    "scores of any size": {"_LONGEST": 1e9},
    "far scores not counted": {"_NORMAL_WITHIN": 0.0},
}
# Those of the estimator at commit 1be412b9, which released no losses.
BEFORE = (
    *("0.095 (0.27)", "-0.299 (-0.24)", "0.333 (0.98)", "0.013 (0.04)"),
    *("0.508 (0.78)", "-0.004 (0.06)", "0.709 (1.15)", "0.475 (0.75)"),
    *("2.276 (3.99)", "2.608 (3.18)", "3.373 (4.08)", "0.079 (0.48)"),
)
TEXT = """# Matrices

Made by `OPENBLAS_NUM_THREADS=1 python -m benchmarks.classification.matrix_scores --write`: {n:,}
matrices, {shape} entries of variance 1, {n_fits} fits. Log loss less that of the frequencies of the
classes, in brackets the largest. A rare class has .1 of the records. Images are the 1,797 of digits
of scikit-learn, in raw pixels, half of them for the fit.

{table}
"""


def drawn(design: str, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw matrices and labels, half of them for the fit."""
    if DESIGNS[design] is None:
        pixels, digits = load_digits(return_X_y=True)
        order = generator.permutation(len(digits))
        return pixels.reshape(-1, *SHAPE)[order], digits[order] == 8
    norm, intercept, far = DESIGNS[design]
    X = generator.normal(size=(2 * N, *SHAPE))
    coef = np.outer(generator.normal(size=SHAPE[0]), generator.normal(size=SHAPE[1]))
    scores = X.reshape(2 * N, -1) @ coef.ravel()
    labels = generator.random(2 * N) < expit(norm * scores / scores.std() + intercept)
    X[generator.random(2 * N) < far] = -999.0
    return X, labels


def excess(design: str, epsilon: float, seed: int) -> float:
    """Return by how much the log loss on new matrices exceeds that of the frequencies."""
    X, labels = drawn(design, np.random.default_rng(seed))
    half = len(X) // 2
    model = DPTraceClassifier(classes=[False, True], epsilon=epsilon).fit(X[:half], labels[:half])
    new = labels[half:]
    guesses = model.predict_proba(X[half:])[:, 1], np.full(len(new), labels[:half].mean())
    of_model, of_frequencies = (log_loss(new, guess) for guess in guesses)
    return float(of_model - of_frequencies)


def row_of(setting: str) -> list[str]:
    """Show the mean and the largest excess of one setting, by design and epsilon."""
    row = [setting]
    with patch.multiple(fits, **SETTINGS[setting]):
        for design in DESIGNS:
            for epsilon in EPSILONS:
                found = [excess(design, epsilon, seed) for seed in range(N_FITS)]
                row.append(f"{np.mean(found):.3f} ({max(found):.2f})")
    return row


def main() -> None:
    """Print the table, or write it."""
    options = parser_for(__doc__, write="write the table").parse_args()
    warnings.simplefilter("ignore")
    header = ["setting", *(f"{name}, {one:g}" for name in DESIGNS for one in EPSILONS)]
    shape = " x ".join(map(str, SHAPE))
    rows = table(header, [*map(row_of, SETTINGS), ["no losses released", *BEFORE]])
    publish(TEXT.format(n=N, shape=shape, n_fits=N_FITS, table=rows), __file__, write=options.write)


if __name__ == "__main__":
    main()
