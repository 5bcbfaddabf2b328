"""`DPLogisticRegression`, alone and after `DPStandardScaler`, against scikit-learn's.

The data are those of `tasks.py`, scaled by public ranges that are not quite public. After the
scaler, which has these ranges as `bounds` and a share of .15 of the square of mu, the classifier
has the rest. "strokes" are made-up images, `strokes.py`. Run

    SKDP_DATA=... python -m benchmarks.classification.real_data            # about four minutes
    SKDP_DATA=... python -m benchmarks.classification.real_data --write    # real_data.md beside it

Without SKDP_DATA only the data that need no folder are used, and the others named as skipped.
"""

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.classification.tasks import NAMES, Found, Task, loaded, measured_on, ours
from benchmarks.report import ignore_drowned_signal, line, mean_and_error, parser_for, table

HERE = Path(__file__).parent
EPSILONS, N_SEEDS = (0.25, 1.0, 4.0), 5
# Least accuracy, of the variant.
ALONE, SCALED = "range", "scaler"
WANTED = {
    ("adult", 0.25, SCALED): 0.82,
    ("adult", 1.0, SCALED): 0.835,
    ("digits", 1.0, ALONE): 0.77,
    ("digits", 4.0, ALONE): 0.90,
    ("breast cancer", 1.0, ALONE): 0.89,
    ("breast cancer", 1.0, SCALED): 0.89,
    ("strokes", 1.0, ALONE): 0.80,
}
TITLE = f"""\
# Private logistic regression on real data

Written by `python -m benchmarks.classification.real_data --write`.

Means of {N_SEEDS} seeds, each with a quarter of the rows held out; of accuracies with standard
errors. "Range": features in [-1, 1] by their least and largest value, 0 and 1 as they are.
"Scaler": after that `DPStandardScaler` with these ranges as bounds, .15 of the square of mu, and
one epsilon for both. The ranges come from all rows, held-out ones too: so all figures are better
than they should be. Without privacy: `LogisticRegression(max_iter=100)`, and `StandardScaler`.
"Wanted" is the accuracy that must be reached; "!" marks a log loss that exceeds that of the class
frequencies."""
COLUMNS = ["data", "epsilon", "", "accuracy", "wanted", "AUC", "log loss", "of the frequencies"]
COLUMNS += ["CPU seconds"]


def model_for(task: Task, variant: str, epsilon: float | None, seed: int) -> Any:
    if epsilon is not None:
        return ours(task, epsilon, seed, is_scaled=variant == SCALED)
    plain = LogisticRegression(max_iter=100)
    return make_pipeline(StandardScaler(), plain) if variant == SCALED else plain


def row(name: str, task: Task, epsilon: float | None, variant: str, n_seeds: int) -> list[str]:
    fits = [
        measured_on(split, model_for(task, variant, epsilon, split.seed))
        for split in task.splits(n_seeds)
    ]
    found = Found(*np.array(fits).T)
    loss, prior = found.log_loss.mean(), found.log_loss_of_frequencies.mean()
    wanted = WANTED.get((name, epsilon, variant))
    return [
        f"{name}, {task.X.shape[0]} x {task.X.shape[1]}",
        "none" if epsilon is None else f"{epsilon:g}",
        variant,
        mean_and_error(found.accuracy, 3) + " missed" * bool(found.accuracy.mean() < (wanted or 0)),
        f"{wanted:g}" if wanted else "",
        "" if np.isnan(found.auc).any() else f"{found.auc.mean():.3f}",
        f"{loss:.3f}" + " !" * bool(loss > prior),
        f"{prior:.3f}",
        f"{np.median(found.seconds):.2f}",
    ]


def main() -> None:
    parser = parser_for(__doc__, write="replace real_data.md")
    parser.add_argument("--seeds", type=int, default=N_SEEDS)
    parser.add_argument("--data", nargs="+", default=NAMES)
    asked = parser.parse_args()
    ignore_drowned_signal()
    lines = [table(COLUMNS, [])]
    print(lines[0])
    for name in asked.data:
        task = loaded(name)
        for epsilon in (*EPSILONS, None) if task is not None else ():
            for variant in (ALONE, SCALED):
                lines.append(line(row(name, task, epsilon, variant, asked.seeds)))
                print(lines[-1], flush=True)
    if asked.write:
        (HERE / "real_data.md").write_text("\n\n".join([TITLE, "\n".join(lines)]) + "\n")


if __name__ == "__main__":
    main()
