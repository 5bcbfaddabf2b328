"""Accuracy of private classifiers beside peers, against epsilon.

On the data of `tasks.py` with public ranges. Ports of published ways (`peers/ports.py`) are given
more than is private, as their docstring tells; diffprivlib has an environment of its own
(`peers/libraries.py`). `DPTraceRegressor` fits labels of +1 and -1, of several classes one after
the other under the same epsilon. Run

    SKDP_DATA=... python -m benchmarks.classification.comparison            # some five minutes
    SKDP_DATA=... python -m benchmarks.classification.comparison --quick    # 2 seeds, no files
    SKDP_DATA=... python -m benchmarks.classification.comparison --write    # to .md and .png
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression

from benchmarks.classification.peers.libraries import DIFFPRIVLIB, diffprivlib, interpreter
from benchmarks.classification.peers.ports import PORTS
from benchmarks.classification.tasks import DELTA, KEY, MADE, Split, Task, loaded, ours, part_of
from benchmarks.report import (
    Measured,
    Values,
    ignore_drowned_signal,
    line,
    mean_and_error,
    measured,
    need_two_seeds,
    parser_for,
    seeds_asked_for,
    table,
)
from skdp import DPTraceRegressor

HERE = Path(__file__).parent
DATA = ["adult", "breast cancer", "digits"]
EPSILONS = (0.25, 1.0, 4.0)
CLASSIFIER, AFTER_SCALER = "DPLogisticRegression", "DPLogisticRegression after DPStandardScaler"
REGRESSOR, WITHOUT = "DPTraceRegressor on labels", "LogisticRegression, no privacy"
METHODS = [CLASSIFIER, AFTER_SCALER, *PORTS, DIFFPRIVLIB, REGRESSOR, WITHOUT]
TITLE = """\
# Private classifiers beside their peers

Written by `python -m benchmarks.classification.comparison --write`; drawn in `comparison.png`.

Accuracy on a held-out quarter: mean of {seeds} seeds ± standard error. Features lie in [-1, 1] by
ranges that are taken to be public. Gradient descent and output perturbation have the exact median
norm as clip level, and the best of a grid, chosen on the held-out rows: they are better here than
they can be. diffprivlib has that norm, too, and promises (epsilon, 0), all others (epsilon,
1e-6). For neighbors that differ by one record exchanged for another.
"""


def of_ours(split: Split, *, is_scaled: bool) -> Iterator[float]:
    for epsilon in EPSILONS:
        model = ours(split.task, epsilon, split.seed, is_scaled=is_scaled)
        yield model.fit(split.train, split.ours).score(split.test, split.theirs)


def of_regressor(split: Split) -> Iterator[float]:
    """Fit a regression to +1 and -1 for each class, or one for two classes."""
    classes = split.task.classes
    told = classes[1:] if len(classes) == 2 else classes
    for epsilon in EPSILONS:
        scores = np.column_stack(
            [
                DPTraceRegressor(
                    matrix_shape=(split.train.shape[1], 1),
                    epsilon=part_of(epsilon, 1 / len(told)),
                    delta=DELTA,
                    response_bound=1.0,
                    random_state=KEY + split.seed,
                )
                .fit(split.train, np.where(split.ours == one, 1.0, -1.0))
                .predict(split.test)
                for one in told
            ]
        )
        if len(told) == 1:
            scores = np.hstack([-scores, scores])
        yield float(np.mean(classes[scores.argmax(axis=1)] == split.theirs))


def accuracies(split: Split) -> Iterator[tuple[str, Iterator[float]]]:
    yield CLASSIFIER, of_ours(split, is_scaled=False)
    yield AFTER_SCALER, of_ours(split, is_scaled=True)
    for name, port in PORTS.items():
        yield name, port(split, EPSILONS)
    if interpreter():
        yield DIFFPRIVLIB, diffprivlib(split, EPSILONS)
    yield REGRESSOR, of_regressor(split)
    plain = LogisticRegression(max_iter=100).fit(split.train, split.ours)
    yield WITHOUT, iter([plain.score(split.test, split.theirs)] * len(EPSILONS))


def found_on(task: Task, n_seeds: int) -> Values:
    splits = list(task.splits(n_seeds))

    def measure(seed: int) -> Measured:
        for method, values in accuracies(splits[seed]):
            for epsilon, value in zip(EPSILONS, values, strict=True):
                yield (method, f"{epsilon:g}"), value

    return measured(measure, n_seeds)


def lines_of(title: str, found: Values) -> list[str]:
    told = [f"{epsilon:g}" for epsilon in EPSILONS]
    return [
        line([title, method, *(mean_and_error(found[method, epsilon], 3) for epsilon in told)])
        for method in METHODS
        if (method, told[0]) in found
    ]


def main() -> None:
    parser = parser_for(
        __doc__,
        seeds="seeds of each cell, default 5",
        quick="2 seeds, bundled data",
        write="replace comparison.md and comparison.png",
    )
    asked = parser.parse_args()
    n_seeds = seeds_asked_for(asked, usual=5, quick=2)
    need_two_seeds(parser, n_seeds)
    ignore_drowned_signal()
    if not interpreter():
        print(f"{DIFFPRIVLIB} is not run: see peers/libraries.py.")
    tasks = {name: loaded(name) for name in DATA if name in MADE or not asked.quick}
    complete = interpreter() and len(tasks) == len(DATA) and all(tasks.values()) and n_seeds >= 5
    if asked.write and not complete:
        parser.error("the committed table has all data, diffprivlib and 5 seeds")
    lines, panels = [table(["data", "method", *EPSILONS], [])], {}
    print(lines[0])
    for name, task in tasks.items():
        if task is not None:
            title = f"{name}, {task.X.shape[0]:,} × {task.X.shape[1]}"
            panels[title] = found_on(task, n_seeds)
            lines += lines_of(title, panels[title])
            print("\n".join(lines_of(title, panels[title])), flush=True)
    if asked.write:
        # Needs matplotlib, which nothing else here does.
        from benchmarks.classification.figure import draw

        text = "\n".join([TITLE.format(seeds=n_seeds), *lines, ""])
        (HERE / "comparison.md").write_text(text)
        draw(panels, METHODS, EPSILONS, HERE / "comparison.png")


if __name__ == "__main__":
    main()
