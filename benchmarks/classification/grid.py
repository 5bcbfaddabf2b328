"""`DPLogisticRegression` over budgets and tables, beside another version of it and scikit-learn's.

Columns are standardized by all rows, which is not private, and clipped to 10; pixels are divided by
the largest. A quarter of the rows is held out. Of kddcup99 30,000 rows are taken, whose two classes
are attacks and others. Run

    SKDP_DATA=... python -m benchmarks.classification.grid                     # half an hour
    SKDP_DATA=... python -m benchmarks.classification.grid --save FILE         # what --beside reads
    SKDP_DATA=... python -m benchmarks.classification.grid --beside FILE NAME --write  # grid.md

FILE is written in a checkout of the other version, of that NAME, with copies of this file and
`tasks.py`. Without SKDP_DATA only the data that need no folder are used.
"""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from benchmarks.classification.tasks import Task, measured_on, ours
from benchmarks.data import file_at_hand
from benchmarks.report import ignore_drowned_signal, line, parser_for, standard_error, table

HERE = Path(__file__).parent
EPSILONS, N_FITS, N_OF_KDD = (0.25, 1.0, 4.0, 16.0, 256.0), 10, 30_000
TITLE = """\
# Classifiers over budgets

Written by `python -m benchmarks.classification.grid --write`, with figures of another version.

Accuracy / log loss on a held-out quarter, means of {n_fits} fits, at delta 1e-6: this version's,
and those of {name}, each with noise of its own on the same rows. "+" and "-" mark
what is better or worse than in that version by more than two standard errors of the difference.
Without noise: `LogisticRegression(max_iter=1000)`, for mnist_t10k 300 and one split. The
frequencies of the classes have the log loss of the last column."""
# What is measured of a fit: accuracy, log loss, log loss of the frequencies, CPU seconds.
Figures = list[list[float]]


def _of_file(file: str, columns: str = "X") -> tuple[np.ndarray, np.ndarray] | None:
    path = file_at_hand(f"{file}.npz")
    if path is None:
        print(f"{file}: skipped, SKDP_DATA names no folder that has it")
        return None
    with np.load(path, allow_pickle=True) as arrays:
        return arrays[columns].astype(float), arrays["y"]


def _standardized(file: str) -> Task | None:
    found = _of_file(file)
    if found is None:
        return None
    X, y = found
    return Task(np.clip(StandardScaler().fit_transform(X), -10, 10), y.astype(str))


def _kddcup() -> Task | None:
    found = _of_file("kddcup99_10pct", "num")
    if found is None:
        return None
    X, y = found
    rows = np.random.default_rng(0).permutation(len(y))[:N_OF_KDD]
    return Task(
        np.clip(StandardScaler().fit_transform(X[rows]), -10, 10), (y[rows] > 0).astype(int)
    )


def _mnist() -> Task | None:
    found = _of_file("mnist_t10k")
    return None if found is None else Task(found[0] / 255, found[1])


def _digits() -> Task:
    X, y = load_digits(return_X_y=True)
    return Task(X / 16, y)


TABLES: dict[str, Callable[[], Task | None]] = {
    **{
        name: lambda name=name: _standardized(name)
        for name in ("letter", "spambase", "adult", "bank", "default")
    },
    "kddcup99": _kddcup,
    "digits": _digits,
    "mnist_t10k": _mnist,
}


def fits_of(task: Task, epsilon: float, n_fits: int) -> Figures:
    found = (measured_on(split, ours(task, epsilon, split.seed)) for split in task.splits(n_fits))
    return [[fit[0], *fit[2:]] for fit in found]


def theirs_of(task: Task, n_fits: int) -> Figures:
    """Measure scikit-learn's, with its weak penalty, on the same rows."""
    is_wide = task.X.shape[1] > 500
    splits = task.splits(1 if is_wide else n_fits)
    return [
        [fit[0], *fit[2:]]
        for split in splits
        for fit in [measured_on(split, LogisticRegression(max_iter=300 if is_wide else 1000))]
    ]


def cell(figures: Figures, beside: Figures | None = None) -> str:
    """Show mean figures, and marks of differences from others."""
    marks = ["", ""]
    for column, sign in enumerate((1, -1)) if beside else ():
        here, there = (np.array(fits)[:, column] for fits in (figures, beside))
        difference = sign * (here.mean() - there.mean())
        if abs(difference) > 2 * np.hypot(standard_error(here), standard_error(there)):
            marks[column] = " +" if difference > 0 else " -"
    accuracy, loss = np.mean(figures, axis=0)[:2]
    return f"{accuracy:.3f}{marks[0]} / {loss:.3f}{marks[1]}"


def main() -> None:
    parser = parser_for(__doc__, write="replace grid.md")
    parser.add_argument("--fits", type=int, default=N_FITS)
    parser.add_argument("--data", nargs="+", default=list(TABLES))
    parser.add_argument("--save", type=Path, help="write figures of this version, alone")
    parser.add_argument("--beside", nargs=2, metavar=("FILE", "NAME"), help="another version's")
    asked = parser.parse_args()
    ignore_drowned_signal()
    there = json.loads(Path(asked.beside[0]).read_text()) if asked.beside else {}
    name = asked.beside[1] if asked.beside else "no other"
    header = [
        "data",
        "epsilon",
        "this version",
        name,
        "without noise",
        "frequencies",
        "CPU seconds",
    ]
    lines, saved = [table(header, [])], {}
    for data in asked.data:
        task = TABLES[data]()
        if task is None:
            continue
        theirs = "" if asked.save else cell(theirs_of(task, asked.fits))
        for epsilon in EPSILONS:
            key = f"{data} {epsilon:g}"
            saved[key] = figures = fits_of(task, epsilon, asked.fits)
            other = there.get(key)
            _, _, frequencies, seconds = np.median(figures, axis=0)
            cells = [cell(figures, other), cell(other) if other else "", theirs]
            lines.append(
                line([data, f"{epsilon:g}", *cells, f"{frequencies:.3f}", f"{seconds:.2f}"])
            )
            print(lines[-1], flush=True)
            if asked.save:
                asked.save.write_text(json.dumps(saved))
    if asked.write:
        title = TITLE.format(n_fits=asked.fits, name=name)
        (HERE / "grid.md").write_text("\n\n".join([title, "\n".join(lines)]) + "\n")


if __name__ == "__main__":
    main()
