"""Whether `DPLogisticRegression` warns of columns in larger units that decide alone.

Each table as it is, and behind `DPStandardScaler`, under the same epsilon. Run

    SKDP_DATA=... python -m benchmarks.classification.units            # some 10 minutes on one core
    SKDP_DATA=... python -m benchmarks.classification.units --write    # units.md beside it

Without SKDP_DATA only tables of scikit-learn and made ones are used, and the others named.
"""

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
from sklearn.model_selection import train_test_split

from benchmarks.budgets.rows import KEY
from benchmarks.budgets.tables import CLASSES, RESPONSES, Table, at_hand_of, standardized, table_of
from benchmarks.report import line, parser_for, table
from skdp import DPLogisticRegression, DPStandardScaler, PrivacyWarning, make_dp_pipeline
from skdp.linear_model.logistic import plan as logistic_plan

HERE = Path(__file__).parent
EPSILONS = (0.5, 1.0, 4.0)
TITLE = """\
# Columns in larger units that decide alone

Written by `python -m benchmarks.classification.units --write`. Accuracy of `DPLogisticRegression`
on a held-out quarter of the rows, as they are and behind `DPStandardScaler` without bounds, which
shares the epsilon: means of {seeds} splits. Tables with a response have the classes above and not
above its median; those marked "std" are standardized by looking at them. "Median" is the median of
the released variances of the columns, in standard deviations of their noise, and "largest" the
largest one in such medians, or in standard deviations of noise if these are more: the means of
both. The fit warns if the first is below `_VISIBLE` = {visible:g} and the second beyond `_FAR_OUT`
= {far_out:g}; "warned" is how many of the fits did, and "other" how many of the others had another
warning."""
COLUMNS = ["table", "epsilon", "as it is", "scaled", "median", "largest", "warned", "other"]
SIGN = "larger units"


class Found(NamedTuple):
    as_it_is: float
    scaled: float
    median: float
    largest: float
    has_warned: bool
    has_warned_otherwise: bool


def halved(maker: Callable[[], Table]) -> Callable[[], Table]:
    """Take for the class whether a response exceeds the median."""

    def _make() -> Table:
        X, y = table_of(maker)
        return Table(X, (y > np.median(y)).astype(int))

    return _make


TABLES = {
    **CLASSES,
    **{f"{name}, std": standardized(CLASSES[name]) for name in ("adult", "wine", "coil", "digits")},
    **{name: halved(RESPONSES[name]) for name in ("california", "updrs", "crime", "blog")},
}


def found_in(given: Table, epsilon: float, seed: int) -> Found:
    train, test, ours, theirs = train_test_split(*given, random_state=seed)
    seen, unlike = [], logistic_plan._are_unlike

    def _seen(variances: np.ndarray, noise_std: float) -> bool:
        median = float(np.median(variances))
        seen.append((median / noise_std, variances.max() / max(median, noise_std)))
        return unlike(variances, noise_std)

    last = DPLogisticRegression(classes=np.unique(given.y))
    alone = DPLogisticRegression(
        classes=np.unique(given.y), epsilon=epsilon, random_state=KEY + seed
    )
    both = make_dp_pipeline(DPStandardScaler(), last, epsilon=epsilon, random_state=KEY + seed)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", PrivacyWarning)
        with patch.object(logistic_plan, "_are_unlike", _seen):
            as_it_is = alone.fit(train, ours).score(test, theirs)
        signs = [SIGN in str(one.message) for one in told]
        scaled = both.fit(train, ours).score(test, theirs)
    return Found(as_it_is, scaled, *seen[0], any(signs), bool(signs) and not any(signs))


def rows(n_seeds: int) -> Iterator[list[str]]:
    for name in at_hand_of(list(TABLES)):
        given = table_of(TABLES[name])
        for epsilon in EPSILONS:
            found = [found_in(given, epsilon, seed) for seed in range(n_seeds)]
            means = np.mean([one[:4] for one in found], axis=0)
            counts = np.sum([one[4:] for one in found], axis=0)
            cells = f"{means[0]:.3f}", f"{means[1]:.3f}", f"{means[2]:.1f}", f"{means[3]:.1f}"
            yield [name, f"{epsilon:g}", *cells, *(f"{count} of {n_seeds}" for count in counts)]


def main() -> None:
    parser = parser_for(__doc__, seeds="splits of each cell, default 3", write="replace units.md")
    arguments = parser.parse_args()
    n_seeds = arguments.seeds or 3
    lines = [table(COLUMNS, [])]
    print(lines[0])
    for cells in rows(n_seeds):
        lines.append(line(cells))
        print(lines[-1], flush=True)
    if arguments.write:
        rule = {"visible": logistic_plan._VISIBLE, "far_out": logistic_plan._FAR_OUT}
        title = TITLE.format(seeds=n_seeds, **rule)
        (HERE / "units.md").write_text("\n\n".join([title, "\n".join(lines)]) + "\n")


if __name__ == "__main__":
    main()
