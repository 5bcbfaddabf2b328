"""Log losses of few records, of which hardly anything can be learnt, beside those of frequencies.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.classification.weak [--write]

Columns are normal, and three of them explain 0 or .4 of the variance of what the classes cut.
"""

import warnings
from unittest.mock import patch

import numpy as np
from sklearn.metrics import log_loss

from benchmarks.report import parser_for, publish, table
from skdp import DPLogisticRegression
from skdp.linear_model.logistic import plan, scores

# Parts of the records in each class.
CLASSES = {
    "2 classes, .1": (0.9, 0.1),
    "3 classes": (0.34, 0.33, 0.33),
    "5 classes, .01": (0.5, 0.3, 0.15, 0.04, 0.01),
}
EXPLAINED, SIZES, N_FITS, HELD_OUT = (0.0, 0.4), ((400, 6), (750, 6), (1500, 12)), 16, 3000
# Constants of `plan` or of `scores`, by which of the two has them.
SETTINGS = {
    "as it is": {"_CAUTION": scores._CAUTION},
    "no counts": {"_LEAST_OF_COUNTS": 1.0},
    "counts have .15 at most, and 30": {
        "_OF_COUNTS": 30.0,
        "_MOST_OF_COUNTS": 0.15,
        "_LEAST_OF_COUNTS": 0.03,
    },
    "counts have .5 at most, and 70": {
        "_OF_COUNTS": 70.0,
        "_MOST_OF_COUNTS": 0.5,
        "_LEAST_OF_COUNTS": 0.02,
    },
    "changes with the length are unknown": {"_CHANGE_STD": 1.0},
    "a caution of 2.5": {"_CAUTION": 2.5},
}
TEXT = """# Few records

Made by `OPENBLAS_NUM_THREADS=1 python -m benchmarks.classification.weak --write`. Rows and columns:
{sizes}; epsilon .25, {n_fits} fits of each, half of which
show nothing. Log loss less that of the frequencies of the classes, and in brackets the part of the
fits where it is above .1.

{table}
"""


def excess(parts: tuple[float, ...], explained: float, size: tuple[int, int], seed: int) -> float:
    """Return by how much the log loss on new records exceeds that of the frequencies."""
    generator, (n_rows, n_columns) = np.random.default_rng(seed), size
    X = generator.normal(size=(n_rows + HELD_OUT, n_columns))
    signal = np.sqrt(explained / 3) * X[:, :3].sum(axis=1)
    values = signal + np.sqrt(1 - explained) * generator.normal(size=len(X))
    labels = np.digitize(values, np.quantile(values, np.cumsum(parts)[:-1]))
    classes = list(range(len(parts)))
    model = DPLogisticRegression(epsilon=0.25, classes=classes).fit(X[:n_rows], labels[:n_rows])
    new = labels[n_rows:]
    guesses = model.predict_proba(X[n_rows:]), np.tile(parts, (HELD_OUT, 1))
    of_model, of_frequencies = (log_loss(new, guess, labels=classes) for guess in guesses)
    return float(of_model - of_frequencies)


def row_of(setting: str) -> list[str]:
    """Average the excess of one setting, for each kind of classes."""
    constants, row = SETTINGS[setting], [setting]
    with patch.multiple(plan if hasattr(plan, min(constants)) else scores, **constants):
        for parts in CLASSES.values():
            found = [
                excess(parts, explained, size, seed)
                for explained in EXPLAINED
                for size in SIZES
                for seed in range(N_FITS)
            ]
            row.append(f"{np.mean(found):.3f} ({np.mean(np.array(found) > 0.1):.0%})")
    return row


def main() -> None:
    """Print the table, or write it."""
    options = parser_for(__doc__, write="write the table").parse_args()
    warnings.simplefilter("ignore")
    text = TEXT.format(
        sizes=", ".join(f"{rows:,} x {columns}" for rows, columns in SIZES),
        n_fits=N_FITS,
        table=table(["setting", *CLASSES], map(row_of, SETTINGS)),
    )
    publish(text, __file__, write=options.write)


if __name__ == "__main__":
    main()
