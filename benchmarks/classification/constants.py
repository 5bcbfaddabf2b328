"""Numbers of `DPLogisticRegression` and `DPStandardScaler`, each halved and doubled, alone.

The cases are those of `tasks.py`, and scales of the columns of `benchmarks/scaling/columns.py`. Run

    SKDP_DATA=... python -m benchmarks.classification.constants            # some 30 minutes
    SKDP_DATA=... python -m benchmarks.classification.constants --write    # constants.md beside it
"""

from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from scipy.special import expit
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline

from benchmarks.classification.tasks import KEY, Split, loaded, measured_on, ours, part_of
from benchmarks.report import ignore_drowned_signal, line, parser_for, standard_error, table
from benchmarks.scaling.columns import CASES as COLUMNS
from skdp import DPLogisticRegression, DPStandardScaler
from skdp.linear_model.logistic import fit as logistic_fit
from skdp.linear_model.logistic import plan as logistic_plan
from skdp.preprocessing import intervals, scales

HERE = Path(__file__).parent
TITLE = """\
# Constants of the classifier and of the scaler

Written by `python -m benchmarks.classification.constants --write`.

Each number is halved and doubled, alone; those after ± are standard errors, of the default. The
noise differs from line to line. "Accuracy", AUC and log loss are means over at most {} seeds on a
held-out quarter of the rows, in [-1, 1] by public ranges; "scaler" is `DPStandardScaler` with these
ranges and .15 of the square of mu before the classifier, "no bounds" without them and with .25. The
error of scales is the mean over the tables of `benchmarks/scaling/columns.py`, with 20,000 rows and
epsilon 1, of the logarithm of base 2 of the ratio of the released scale to the true one, its sign
dropped: of the first column, which is narrow and far from 0. "Coin flips" are 1000 rows of 8 normal
features that tell nothing of classes 60:40, whose frequencies alone have the log loss .673; of the
"weak signal" 4000 rows of 10 features tell log odds with a standard deviation of .6.

`_LARGEST_RATIO` of 2 once showed that adult loses without bounds, as columns of which 92% and 95%
are one number shrank to it: since then `_MOST` of `intervals.py` is .95 and not .9
(`benchmarks/scaling/columns.md`)."""


class Number(NamedTuple):
    module: ModuleType
    name: str
    others: tuple[Any, Any]


CLASSIFIER = [
    Number(logistic_plan, "_NORM_SHARE", (0.015, 0.06)),
    Number(logistic_plan, "_MOMENT_SHARE", (0.2, 0.8)),
    Number(logistic_plan, "_LEAST_COUNT", (75.0, 300.0)),
    Number(logistic_plan, "_STEPS_OF_TWO", (5, 20)),
    Number(logistic_plan, "_STEPS_OF_MORE", (7, 28)),
    Number(logistic_plan, "_STEP_LIMITS", ((4, 50), (16, 200))),
    Number(logistic_plan, "_BEYOND_NORM", (175.0, 700.0)),
    Number(logistic_plan, "_LEVEL_STRENGTH", (30.0, 120.0)),
    Number(logistic_plan, "_BEYOND_LEVEL_LIMITS", ((1 / 64, 1.0), (1 / 4, 1.0))),
    Number(logistic_fit, "_CLIP", (0.25, 1.0)),
    Number(logistic_fit, "_STEP_OF_TWO", (2.0, 8.0)),
    Number(logistic_fit, "_STEP_A_CLASS", (0.2, 0.8)),
    Number(logistic_fit, "_LARGEST_STEP", (2.0, 8.0)),
    Number(logistic_plan, "_LEAST_OF_LARGEST", (0.5e-4, 2e-4)),
    Number(logistic_plan, "_LEAST_OF_MEAN", (0.5e-2, 2e-2)),
    Number(logistic_plan, "_CURVATURE", (0.125, 0.5)),
    Number(logistic_plan, "_LARGEST_CURVATURE", (0.4, 1.6)),
    Number(logistic_plan, "_CURVATURE_OF_WEAK", (0.25, 1.0)),
    Number(logistic_plan, "_MARGIN", (1.0, 4.0)),
    Number(logistic_plan, "_WEAK_OF_TWO", (2.5, 10.0)),
    Number(logistic_plan, "_WEAK_OF_MORE", (7.5, 30.0)),
]
SCALER = [
    Number(scales, "_SIZES_SHARE", (3 / 16, 3 / 4)),
    Number(scales, "_PLACES_SHARE", (1 / 16, 1 / 4)),
    Number(scales, "_LEAST_VARIANCE", (0.5e-4, 2e-4)),
    Number(intervals, "_LARGEST_RATIO", (2.0, 8.0)),
    Number(intervals, "_FEWEST_BINS", (8, 32)),
]


class Case(NamedTuple):
    name: str
    n_seeds: int
    measure: Callable[[int], float]


task_of = cache(loaded)


@cache
def split_of(name: str, seed: int) -> Split:
    task = task_of(name)
    assert task is not None
    return list(task.splits(seed + 1))[-1]


def classified(name: str, epsilon: float, measure: str, seed: int, *, is_scaled: bool) -> float:
    split = split_of(name, seed)
    model = ours(split.task, epsilon, seed, is_scaled=is_scaled)
    return float(getattr(measured_on(split, model), measure))


def without_bounds(name: str, epsilon: float, seed: int) -> float:
    split, key = split_of(name, seed), KEY + seed
    scaler = DPStandardScaler(epsilon=part_of(epsilon, 0.25), random_state=key)
    rest = part_of(epsilon, 0.75)
    last = DPLogisticRegression(classes=split.task.classes, epsilon=rest, random_state=key)
    return measured_on(split, make_pipeline(scaler, last)).accuracy


def scale_error(seed: int) -> float:
    errors = []
    for make in COLUMNS.values():
        X, _ = make(np.random.default_rng(seed), 20_000)
        scale = DPStandardScaler(random_state=KEY + seed).fit(X).scale_[0]
        errors.append(abs(np.log2(scale / X[:, 0].std())))
    return float(np.mean(errors))


def lost_where(slope: float, n_rows: int, n_features: int, seed: int) -> float:
    """Measure the log loss where normal features tell so much of classes 60:40."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows + 4000, n_features))
    weights = slope * np.eye(n_features)[0]
    y = (random.random(len(X)) < expit(X @ weights + np.log(1.5))).astype(int)
    model = DPLogisticRegression(classes=[0, 1], random_state=KEY + seed)
    model.fit(X[:n_rows], y[:n_rows])
    return float(log_loss(y[n_rows:], model.predict_proba(X[n_rows:])))


def case(name: str, epsilon: float, measure: str, *, is_scaled: bool = False) -> Case:
    title = f"{name}, {'scaler, ' * is_scaled}{epsilon:g}, {measure.replace('_', ' ')}"
    n_seeds = 5 if name == "adult" else 10
    return Case(title, n_seeds, partial(classified, name, epsilon, measure, is_scaled=is_scaled))


OF_CLASSIFIER = [
    case("digits", 1.0, "accuracy"),
    case("digits", 1.0, "log_loss"),
    case("breast cancer", 1.0, "accuracy"),
    case("wine", 0.25, "accuracy", is_scaled=True),
    case("adult", 0.25, "accuracy", is_scaled=True),
    case("coil", 1.0, "auc"),
    case("coil", 1.0, "log_loss", is_scaled=True),
    case("adult", 1.0, "log_loss", is_scaled=True),
    case("adult", 16.0, "log_loss", is_scaled=True),
    case("digits", 16.0, "log_loss"),
    Case("coin flips, 1, log loss", 10, partial(lost_where, 0.0, 1000, 8)),
    Case("weak signal, 1, log loss", 10, partial(lost_where, 0.6, 4000, 10)),
]
OF_SCALER = [
    Case("adult, no bounds, 1, accuracy", 5, partial(without_bounds, "adult", 1.0)),
    Case("wine, no bounds, 1, accuracy", 10, partial(without_bounds, "wine", 1.0)),
    Case("cancer, no bounds, 4, accuracy", 10, partial(without_bounds, "breast cancer", 4.0)),
    Case("digits, no bounds, 4, accuracy", 10, partial(without_bounds, "digits", 4.0)),
    Case("error of scales", 5, scale_error),
]


def cells(cases: list[Case], most: int, *, with_errors: bool = False) -> list[str]:
    shown = []
    for case in cases:
        values = np.array([case.measure(seed) for seed in range(min(case.n_seeds, most))])
        error = f" ± {standard_error(values):.3f}" if with_errors else ""
        shown.append(f"{values.mean():.3f}{error}")
    return shown


def lines_of(numbers: list[Number], cases: list[Case], most: int) -> Iterator[str]:
    yield table(["number", "value", *(case.name for case in cases)], [])
    yield line(["all", "the default", *cells(cases, most, with_errors=True)])
    for number in numbers:
        path = "/".join(number.module.__name__.split(".")[-2:])
        for value in number.others:
            with patch.object(number.module, number.name, value):
                yield line([f"`{number.name}` in `{path}.py`", value, *cells(cases, most)])


def main() -> None:
    parser = parser_for(__doc__, write="replace constants.md")
    parser.add_argument("--seeds", type=int, default=10, help="at most so many of each figure")
    asked = parser.parse_args()
    ignore_drowned_signal()
    blocks = []
    for numbers, cases in ((CLASSIFIER, OF_CLASSIFIER), (SCALER, OF_SCALER)):
        lines = []
        for text in lines_of(numbers, cases, asked.seeds):
            print(text, flush=True)
            lines.append(text)
        blocks.append("\n".join(lines))
    if asked.write:
        (HERE / "constants.md").write_text("\n\n".join([TITLE.format(asked.seeds), *blocks]) + "\n")


if __name__ == "__main__":
    main()
