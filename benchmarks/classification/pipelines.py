"""One epsilon from raw rows to a published classifier: `DPPipeline`, with its default shares.

Columns are in the units of the data. Where bounds are given to the scaler, they are the least and
the largest value of all rows, which are taken to be public and are not; digits have 0 and 16. Run

    SKDP_DATA=... python -m benchmarks.classification.pipelines            # about two minutes
    SKDP_DATA=... python -m benchmarks.classification.pipelines --write    # to pipelines.md
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from benchmarks.classification.tasks import KEY, Split, Task, measured_on
from benchmarks.data import file_at_hand
from benchmarks.report import ignore_drowned_signal, line, mean_and_error, parser_for, table
from skdp import DPPCA, DPLogisticRegression, DPStandardScaler, make_dp_pipeline

HERE = Path(__file__).parent
N_SEEDS, N_COMPONENTS = 5, 20
TITLE = f"""\
# From raw rows to a classifier under one epsilon

Written by `python -m benchmarks.classification.pipelines --write`.

Accuracy on a held-out quarter: mean of {N_SEEDS} seeds ± standard error. `DPPipeline` of
`DPStandardScaler`, `DPPCA({N_COMPONENTS})` where it is named, and `DPLogisticRegression`, with
default shares. Bounds are the least and the largest value of all rows, as if they were public."""
EPSILONS = {"adult": (0.25, 1.0, 4.0), "digits": (1.0, 4.0)}


def raw(name: str) -> Task | None:
    if name == "digits":
        return Task(*load_digits(return_X_y=True))
    path = file_at_hand(f"{name}.npz")
    if path is None:
        print(f"{name}: skipped, SKDP_DATA names no folder that has it")
        return None
    with np.load(path) as arrays:
        return Task(np.nan_to_num(arrays["X"].astype(np.float64)), arrays["y"])


def model(split: Split, epsilon: float, bounds: Any, *, has_components: bool) -> Any:
    steps = [DPStandardScaler(bounds=bounds)]
    steps += [DPPCA(N_COMPONENTS)] * has_components
    last = DPLogisticRegression(classes=split.task.classes)
    return make_dp_pipeline(*steps, last, epsilon=epsilon, random_state=KEY + split.seed)


def rows(name: str, task: Task, n_seeds: int) -> Iterator[list[str]]:
    ends = (0, 16) if name == "digits" else task.bounds
    for bounds in (ends, None):
        for has_components in (False, True):
            cells = []
            for epsilon in EPSILONS["adult"]:
                found = [
                    measured_on(one, model(one, epsilon, bounds, has_components=has_components))
                    for one in task.splits(n_seeds if epsilon in EPSILONS[name] else 0)
                ]
                cells.append(
                    mean_and_error(np.array([one.accuracy for one in found]), 3) if found else ""
                )
            between = f"DPPCA({N_COMPONENTS})" * has_components
            yield [name, "none" if bounds is None else "given", between, *cells]


def main() -> None:
    parser = parser_for(__doc__, write="replace pipelines.md")
    parser.add_argument("--seeds", type=int, default=N_SEEDS)
    asked = parser.parse_args()
    ignore_drowned_signal()
    lines = [table(["data", "bounds", "between", *map(str, EPSILONS["adult"])], [])]
    print(lines[0])
    for name in EPSILONS:
        task = raw(name)
        for cells in rows(name, task, asked.seeds) if task is not None else ():
            lines.append(line(cells))
            print(lines[-1], flush=True)
    if asked.write:
        (HERE / "pipelines.md").write_text("\n\n".join([TITLE, "\n".join(lines)]) + "\n")


if __name__ == "__main__":
    main()
