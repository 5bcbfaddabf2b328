"""Record what a fit releases, replay it on a neighbouring dataset, and measure how far it moved."""

from collections.abc import Callable
from contextlib import contextmanager
from functools import partial
from unittest.mock import patch

import numpy as np

import skdp.decomposition._base as base
from skdp.linalg.rows import Rows
from skdp.privacy import PrivacyBudget

SEED = 2**100 + 7


class RecordingBudget(PrivacyBudget):
    """Keeps every noiseless value beside its release."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.values, self.released = [], []

    def _publish(self, release, value):
        self.values.append(np.array(value))
        self.released.append(np.array(self._answer(release, value)))
        return self.released[-1].copy()

    def _answer(self, release, value):
        return super()._publish(release, value)


class ReplayBudget(RecordingBudget):
    """Answers with a given list of releases, whatever the data are."""

    def __init__(self, *args, script, **kwargs):
        super().__init__(*args, **kwargs)
        self.script = list(script)

    def _answer(self, release, value):
        return self.script[len(self.released)]


class NullRows(Rows):
    """Rows of which one is null: it keeps its slot but takes part in no sum and no count."""

    null = None

    def norms(self):
        return self._forget(super().norms())

    def _weights_of(self, rows, block):
        weights = super()._weights_of(rows, block)
        if self.null is not None and weights is not None and rows.start <= self.null < rows.stop:
            weights[self.null - rows.start] = 0.0
        return weights

    def projection_norms(self, basis):
        return self._forget(super().projection_norms(basis))

    def _forget(self, values):
        if self.null is not None:
            values[self.null] = np.nan
        return values


@contextmanager
def null_row(index):
    """Make one row null in every fit inside."""
    rows = type("NullRowsAt", (NullRows,), {"null": index})
    with patch.object(base, "Rows", rows):
        yield


def fit_with(estimator, X, make_budget):
    """Fit with a budget of the harness in place of the estimator's own; return both."""
    budgets = []

    def open_budget(source, seed):
        budgets.append(
            make_budget(
                estimator.epsilon,
                estimator.delta,
                unit=estimator.privacy_unit,
                adjacency=estimator.adjacency,
            )
        )
        return budgets[-1]

    estimator.set_params(random_state=SEED)
    estimator._open_budget = open_budget
    estimator.fit(X)
    (budget,) = budgets
    return estimator, budget


def record(make_estimator: Callable, X) -> RecordingBudget:
    return fit_with(make_estimator(), X, RecordingBudget)[1]


def replay(make_estimator: Callable, X, script) -> RecordingBudget:
    return fit_with(make_estimator(), X, partial(ReplayBudget, script=script))[1]


def worst_ratio(
    make_estimator: Callable, recorded: RecordingBudget, X, *, null=None, only=""
) -> float:
    """Largest movement of a release on X against the recorded fit, in declared sensitivities.

    `only` restricts it to the releases whose names begin so.

    Also checks that the two fits differ in nothing but the noiseless values.
    """
    with null_row(null):
        replayed = replay(make_estimator, X, recorded.released)
    assert replayed.spent().releases == recorded.spent().releases
    ratios = []
    for release, ours, theirs in zip(
        recorded.spent().releases, recorded.values, replayed.values, strict=True
    ):
        assert ours.shape == theirs.shape
        assert np.isfinite(theirs).all(), release.name
        if release.name.startswith(only):
            ratios.append(np.linalg.norm(ours - theirs) / release.sensitivity)
    return max(ratios)


def adversarial_rows(X: np.ndarray, components: np.ndarray) -> dict[str, np.ndarray]:
    """Rows that break what is not careful: scales, signs, alignment."""
    d = X.shape[1]
    first, alternating = X[0], (-1.0) ** np.arange(d)
    outside = alternating - components.T @ (components @ alternating)
    return {
        "zero": np.zeros(d),
        "negated": -first,
        "huge": np.full(d, 1e300),
        "largest": alternating * np.finfo(float).max,
        "denormal": np.full(d, 1e-310),
        "tiny": np.full(d, 1e-200),
        "mixed scales": 10.0 ** np.linspace(-300, 300, d),
        "one huge entry": np.where(np.arange(d) == d - 1, -1e20, first),
        "aligned": components[0],
        "aligned and huge": 1e30 * components[0],
        "outside": outside,
        "outside and huge": 1e20 * outside,
    }


def with_row(X: np.ndarray, index: int, row: np.ndarray) -> np.ndarray:
    X = X.copy()
    X[index] = row
    return X
