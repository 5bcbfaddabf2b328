"""`DPLogisticRegression` on real data, against scikit-learn's without privacy.

Features are scaled to [-1, 1] by the least and largest value of all rows, which are taken to be
public and are not: so the figures are better than they should be. Features that are 0 or 1 stay as
they are. A quarter of the rows is held out; accuracy, the log loss and that of the class
frequencies are means over seeds, with standard errors.

Run

    SKDP_DATA=... python -m benchmarks.classification.real_data --seeds 5     # about two minutes

Without SKDP_DATA only the bundled data are used, and the others named as skipped.
"""

import time

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from benchmarks.data import file_at_hand
from benchmarks.report import ignore_drowned_signal, mean_and_error, parser_for, table
from skdp import DPLogisticRegression

EPSILONS = (0.25, 1.0, 4.0)
BUNDLED = {"breast cancer": load_breast_cancer, "digits": load_digits}
FILES = {"adult": "adult", "wine": "wine_quality_white", "coil": "coil2000_insurance"}


def loaded(name: str) -> tuple[np.ndarray, np.ndarray] | None:
    if name in BUNDLED:
        X, y = BUNDLED[name](return_X_y=True)
        return (X / 16 if name == "digits" else scaled(X)), y
    path = file_at_hand(f"{FILES[name]}.npz")
    if path is None:
        print(f"{name}: skipped, SKDP_DATA names no folder that has it")
        return None
    with np.load(path) as arrays:
        X, y = np.nan_to_num(arrays["X"].astype(np.float64)), arrays["y"]
    return scaled(X), (y >= 6).astype(int) if name == "wine" else y


def scaled(X: np.ndarray) -> np.ndarray:
    low, high = X.min(axis=0), X.max(axis=0)
    is_binary = ((X == 0) | (X == 1)).all(axis=0)
    unit = 2 * (X - low) / np.where(high > low, high - low, 1) - 1
    return np.where(is_binary, X, unit)


def row(X: np.ndarray, y: np.ndarray, epsilon: float | None, n_seeds: int) -> list[str]:
    classes, found = np.unique(y), []
    for seed in range(n_seeds):
        train, test, ours, theirs = train_test_split(X, y, random_state=seed)
        model = LogisticRegression(max_iter=100)
        if epsilon is not None:
            model = DPLogisticRegression(classes=classes, epsilon=epsilon)
        start = time.process_time()
        model.fit(train, ours)
        seconds = time.process_time() - start
        loss = log_loss(theirs, model.predict_proba(test), labels=classes)
        found.append((model.score(test, theirs), loss, prior_loss(ours, theirs, classes), seconds))
    accuracy, loss, prior, seconds = np.array(found).T
    means = f"{loss.mean():.3f}", f"{prior.mean():.3f}", f"{np.median(seconds):.2f}"
    return [mean_and_error(accuracy, 3), *means]


def prior_loss(train: np.ndarray, test: np.ndarray, classes: np.ndarray) -> float:
    frequencies = np.array([(train == one).mean() for one in classes])
    return float(log_loss(test, np.tile(frequencies, (len(test), 1)), labels=classes))


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--data", nargs="+", default=[*FILES, *BUNDLED])
    asked = parser.parse_args()
    ignore_drowned_signal()
    rows = []
    for name in asked.data:
        data = loaded(name)
        for epsilon in (*EPSILONS, None) if data is not None else ():
            told = "none, scikit-learn" if epsilon is None else f"{epsilon:g}"
            rows.append([name, told, *row(*data, epsilon, asked.seeds)])
    header = ["data", "epsilon", "accuracy", "log loss", "of the frequencies", "CPU seconds"]
    print(table(header, rows))


if __name__ == "__main__":
    main()
