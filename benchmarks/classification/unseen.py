"""New rows that go where no training row went: what is kept of coefficients that may be noise.

Six columns are normal, and beside them stands a constant column, or a category of eight, whose last
one has no rows. New rows have another constant, or the last category, which tells nothing. Each
fit is made twice with the same noise: as it is, and with all of these coefficients. Run

    python -m benchmarks.classification.unseen            # a minute
    python -m benchmarks.classification.unseen --write    # unseen.md beside it
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np
from sklearn.metrics import log_loss

from benchmarks.report import ignore_drowned_signal, parser_for, table
from skdp import DPLogisticRegression
from skdp.linear_model.logistic import plan as logistic_plan

HERE = Path(__file__).parent
EPSILONS, N_FITS, N_ROWS, N_COLUMNS, N_CATEGORIES = (0.25, 1.0, 4.0, 16.0, 256.0), 20, 6000, 6, 8
# Printed here, hence good for repeatable tables and for nothing else.
KEY = 0x51C7E4A90B3D4F6288A1D7C5039BE264
TITLE = f"""\
# Rows that go where no training row went

Written by `python -m benchmarks.classification.unseen --write`.

Log loss of new rows like the {N_ROWS} training rows, and of such that differ from all of these:
with another value of a constant column, or with a category that had no rows. Means of {N_FITS}
fits, as they are, and with all coefficients kept of directions in which noise hides how rows
vary. Such are dropped from a strength of `LEAST_TO_DROP` = {logistic_plan.LEAST_TO_DROP:g} on:
with less, and epsilon .25, fourths of parkinsons_updrs lost .05 of their accuracy."""


def rows_of(
    beside: str, n_classes: int, generator: np.random.Generator, *, is_new: bool
) -> tuple[np.ndarray, np.ndarray]:
    X = generator.normal(size=(N_ROWS, N_COLUMNS))
    scores = X @ np.random.default_rng(1).normal(size=(N_COLUMNS, n_classes))
    y = (scores + generator.gumbel(size=scores.shape)).argmax(axis=1)
    drawn = generator.integers(N_CATEGORIES - 1, size=N_ROWS)
    categories = np.full(N_ROWS, N_CATEGORIES - 1) if is_new else drawn
    constant = np.full((N_ROWS, 1), 2.0 if is_new else 1.0)
    others = constant if beside == "constant" else np.eye(N_CATEGORIES)[categories]
    return np.hstack([X, others]), y


def losses_of(beside: str, n_classes: int, epsilon: float, seed: int) -> list[float]:
    """Return log losses of rows alike and of new ones, as it is, and with all that is kept."""
    rows = partial(rows_of, beside, n_classes, np.random.default_rng(100 + seed))
    train, alike, new = rows(is_new=False), rows(is_new=False), rows(is_new=True)
    model = DPLogisticRegression(classes=range(n_classes), epsilon=epsilon, random_state=KEY + seed)
    found = []
    for kept in (logistic_plan.shrinkage_of_hidden, lambda *_: 1.0):
        with patch.object(logistic_plan, "kept_of_hidden", kept):
            model.fit(*train)
        found += [log_loss(y, model.predict_proba(X)) for X, y in (alike, new)]
    return found


def lines_of() -> Iterator[list[str]]:
    for beside in ("constant", "category"):
        for n_classes in (2, 5):
            for epsilon in EPSILONS:
                losses = [losses_of(beside, n_classes, epsilon, seed) for seed in range(N_FITS)]
                means = [f"{mean:.3f}" for mean in np.mean(losses, axis=0)]
                yield [beside, str(n_classes), f"{epsilon:g}", *means]


def main() -> None:
    asked = parser_for(__doc__, write="replace unseen.md").parse_args()
    ignore_drowned_signal()
    header = ["beside", "classes", "epsilon", "alike", "new", "alike, all kept", "new, all kept"]
    text = table(header, lines_of())
    print(text)
    if asked.write:
        (HERE / "unseen.md").write_text("\n\n".join([TITLE, text]) + "\n")


if __name__ == "__main__":
    main()
