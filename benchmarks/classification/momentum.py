"""The momentum of steps of more than two classes: what is chosen, beside each that may be.

The rule of `linear_model/logistic/plan.py` chooses from the released moment and public facts. Its
weights were chosen on letter, digits, fifths of diamonds, ordinary rows of nine classes, crime and
mnist; fourths of houses, sixths of compactiv, strokes and standardized digits are a check. Columns
are standardized, with rows that are held out; pixels are divided by the largest, where nothing else
is said.
Run

    SKDP_DATA=... python -m benchmarks.classification.momentum            # some minutes
    SKDP_DATA=... python -m benchmarks.classification.momentum --write    # momentum.md beside it

Without SKDP_DATA only the data that need no folder are used, and the others named as skipped.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import patch

import numpy as np
from sklearn.datasets import load_digits
from sklearn.preprocessing import StandardScaler

from benchmarks.classification.strokes import make_strokes
from benchmarks.classification.tasks import Found, Task, measured_on, ours
from benchmarks.data import file_at_hand
from benchmarks.report import ignore_drowned_signal, line, parser_for, table
from skdp.linear_model.logistic import fit as logistic_fit
from skdp.linear_model.logistic.plan import _MOMENTA, momentum_of

HERE = Path(__file__).parent
EPSILONS, N_SEEDS, MOST_ROWS = (0.25, 1.0, 4.0, 256.0), 2, 10_000
TITLE = f"""\
# Momentum of a logistic regression of several classes

Written by `python -m benchmarks.classification.momentum --write`.

Accuracy / log loss on a held-out quarter, means of {N_SEEDS} seeds, by the momentum; the noise
differs from column to column. "0" are the steps of one gradient after another. The frequencies of
the classes have the log loss of the last column."""


def _of_file(name: str, n_parts: int = 0) -> Task | None:
    """Load a table, with quantiles of a target for its classes if parts are asked for."""
    path = file_at_hand(f"{name}.npz")
    if path is None:
        print(f"{name}: skipped, SKDP_DATA names no folder that has it")
        return None
    with np.load(path, allow_pickle=True) as arrays:
        X = np.nan_to_num(arrays["X"].astype(float))
        X, y = (X, arrays["y"]) if "y" in arrays else (X[:, :-1], X[:, -1])
    X = X / 255 if name == "mnist_t10k" else np.clip(StandardScaler().fit_transform(X), -10, 10)
    if n_parts:
        y = np.digitize(y, np.quantile(y, np.arange(1, n_parts) / n_parts))
    chosen = np.random.default_rng(1).permutation(len(y))[:MOST_ROWS]
    return Task(X[chosen], y[chosen])


def _digits() -> Task:
    X, y = load_digits(return_X_y=True)
    return Task(X / 16, y)


def _standardized_digits() -> Task:
    task = _digits()
    return Task(StandardScaler().fit_transform(task.X), task.y)


def _strokes() -> Task:
    X, y = make_strokes()
    return Task(X / X.max(), y)


def _weak() -> Task:
    """Rows that tell little of nine classes."""
    random = np.random.default_rng(5)
    X = random.normal(size=(MOST_ROWS, 20))
    scores = 0.15 * X @ random.normal(size=(20, 9)) + np.linspace(0, 1.5, 9)
    return Task(X, (scores + random.gumbel(size=scores.shape)).argmax(axis=1))


TABLES: dict[str, Callable[[], Task | None]] = {
    "letter": lambda: _of_file("letter"),
    "digits": _digits,
    "diamonds, fifths": lambda: _of_file("diamonds", 5),
    "nine classes, weak": _weak,
    "crime, fourths": lambda: _of_file("communities_crime", 4),
    "mnist_t10k": lambda: _of_file("mnist_t10k"),
    "houses, fourths": lambda: _of_file("california_housing", 4),
    "compactiv, sixths": lambda: _of_file("compactiv", 6),
    "strokes": _strokes,
    "digits, standardized": _standardized_digits,
}


def _found(task: Task, epsilon: float, momentum: float | None) -> Found:
    """Measure fits with this momentum, or with that which is chosen."""
    rule = momentum_of if momentum is None else lambda *_: momentum
    with patch.object(logistic_fit, "momentum_of", rule):
        fits = [
            measured_on(split, ours(task, epsilon, split.seed)) for split in task.splits(N_SEEDS)
        ]
    return Found(*np.mean(fits, axis=0))


def rows_of(name: str, task: Task) -> Iterator[list[str]]:
    for epsilon in EPSILONS:
        found = [_found(task, epsilon, momentum) for momentum in (None, *_MOMENTA)]
        cells = [f"{one.accuracy:.3f} / {one.log_loss:.3f}" for one in found]
        yield [name, f"{epsilon:g}", *cells, f"{found[0].log_loss_of_frequencies:.3f}"]


def main() -> None:
    asked = parser_for(__doc__, write="replace momentum.md").parse_args()
    ignore_drowned_signal()
    header = ["data", "epsilon", "chosen", *map(str, _MOMENTA), "frequencies"]
    lines = [table(header, [])]
    print(lines[0])
    for name, load in TABLES.items():
        task = load()
        for cells in rows_of(name, task) if task is not None else ():
            lines.append(line(cells))
            print(lines[-1], flush=True)
    if asked.write:
        (HERE / "momentum.md").write_text("\n\n".join([TITLE, "\n".join(lines)]) + "\n")


if __name__ == "__main__":
    main()
