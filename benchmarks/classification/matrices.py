"""Accuracy of `DPTraceClassifier` by its rank, where the true coefficients have rank 2.

Matrices are Gaussian, of shape (28, 28), and labels follow the model, with which the best accuracy
is about .86. Of every rank, means over seeds with standard errors, on 2,500 fresh records.

Run

    python -m benchmarks.classification.matrices --seeds 5     # about two minutes
"""

import numpy as np
from scipy.special import expit

from benchmarks.report import ignore_drowned_signal, mean_and_error, parser_for, table
from skdp import DPTraceClassifier
from skdp.datasets import make_trace_regression

SIZE, TRUE_RANK, NORM, N_FRESH = 28, 2, 3.65, 2500
RANKS = (1, 2, 3, SIZE)
CASES = ((2500, 1.0), (2500, 4.0), (7500, 1.0), (7500, 4.0))


def drawn(n_records: int, seed: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Draw matrices and labels; return also the accuracy of the true coefficients."""
    X, scores, _ = make_trace_regression(
        n_records, (SIZE, SIZE), rank=TRUE_RANK, norm=NORM, noise=0.0, random_state=seed
    )
    labels = np.random.default_rng(seed).random(n_records) < expit(scores)
    return np.asarray(X), labels, float(np.mean((scores > 0) == labels))


def row(n_records: int, epsilon: float, n_seeds: int) -> list[str]:
    found = []
    for seed in range(n_seeds):
        X, y, best = drawn(n_records + N_FRESH, seed)
        models = (DPTraceClassifier(rank, classes=[0, 1], epsilon=epsilon) for rank in RANKS)
        fits = (model.fit(X[:n_records], y[:n_records]) for model in models)
        found.append([*(fit.score(X[n_records:], y[n_records:]) for fit in fits), best])
    return [mean_and_error(accuracies, 3) for accuracies in np.transpose(found)]


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    asked = parser.parse_args()
    ignore_drowned_signal()
    header = ["records", "epsilon", *(f"rank {rank}" for rank in RANKS), "true coefficients"]
    print(table(header, [[f"{n}", f"{e:g}", *row(n, e, asked.seeds)] for n, e in CASES]))


if __name__ == "__main__":
    main()
