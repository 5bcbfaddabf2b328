"""Values that are counted: those of one user are the same, to the last bit, whatever others have.

A count moves by one at most only if no value of another user crosses an edge. Values do not cross
edges by chance in a test, so that their bits are compared instead, between neighbors whose rows
stand elsewhere, in other blocks, or alone.
"""

import sys
from collections import Counter, defaultdict
from contextlib import ExitStack, contextmanager
from functools import partial
from types import FunctionType
from unittest.mock import patch

import numpy as np
import pytest
from in_parts import in_parts
from people_cells import BY_PLACE
from scipy.sparse import csr_array

from skdp import (
    DPLinearRegression,
    DPLogisticRegression,
    DPPersonalizedRegressor,
    DPTraceClassifier,
    DPTraceRegressor,
    DPTruncatedSVD,
    RankOneMatrices,
)
from skdp.linalg import norms
from skdp.linear_model import _descent
from skdp.linear_model.least_squares import steps
from skdp.linear_model.low_rank import records
from skdp.testing._recording import fit_with, record, scripted_budget

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

N_USERS, MANY, SHAPE = 12, 30, (3, 23)
D = SHAPE[0] * SHAPE[1]


class Personalized(DPPersonalizedRegressor):
    __doc__ = DPPersonalizedRegressor.__doc__

    def fit(self, X, y, users):
        return super().fit(X, y, groups=users)


def of_people(kind, **given):
    return partial(BY_PLACE[kind], epsilon=1e4, privacy_unit="user", **given)


MODELS = {
    "matrices": of_people(DPTraceRegressor, matrix_shape=SHAPE, n_iter=2),
    "regression": of_people(DPLinearRegression),
    "classes of matrices": of_people(DPTraceClassifier, matrix_shape=SHAPE, classes=[0, 1]),
    "components": of_people(DPTruncatedSVD, n_components=2, solver="covariance"),
    "classes": of_people(DPLogisticRegression, classes=[0, 1]),
    "personal": partial(Personalized, epsilon=1e4, n_iter=2),
}
CONTAINERS = {
    # The last row is alone in its part, and so in all products.
    "parts": lambda X, *y: (in_parts(X, *y, cuts=(1, 7, len(X) - 1)),),
    "dense": lambda X, *y: (X, *y),
    "csr": lambda X, *y: (csr_array(X), *y),
    "factors": lambda X, y: (RankOneMatrices(X[:, : SHAPE[0]], X[:, -SHAPE[1] :]), y),
}
TAKES = {
    "parts": set(MODELS) - {"personal"},
    "csr": ("components", "classes"),
    "factors": ("matrices",),
}
CELLS = [
    (name, container)
    for container in CONTAINERS
    for name in MODELS
    if name in TAKES.get(container, MODELS)
]


@contextmanager
def watched():
    """Give a list that collects what is counted inside: its kind, values, and their weights."""
    found = []

    def of_values(function, place):
        def watching(values, *more):
            weights = more[place] if len(more) > place else None
            weights = np.ones(len(values)) if weights is None else weights
            found.append((function.__name__, np.array(values, float), weights))
            return function(values, *more)

        return watching

    def predicted(block, slopes):
        values = steps_predicted(block, slopes)
        found.append(("predicted", values.copy(), block.sample_weight))
        return values

    steps_predicted = steps._predicted
    changes = {
        norms.bin_counts: of_values(norms.bin_counts, 1),
        _descent.n_within: of_values(_descent.n_within, 1),
        records.count_by_power: of_values(records.count_by_power, 0),
        steps_predicted: predicted,
    }
    with ExitStack() as after:
        for module in [one for name, one in sys.modules.items() if name.startswith("skdp.")]:
            for name, one in [*vars(module).items()]:
                if isinstance(one, FunctionType) and one in changes:
                    after.enter_context(patch.object(module, name, changes[one]))
        yield found


def counted(fit):
    """Sum the weights of all values that a fit counts, by kind and bits; each user weighs 1."""
    with watched() as found:
        fit()
    weights = defaultdict(Counter)
    for kind, values, of_values in found:
        for value, weight in zip(values, of_values, strict=True):
            weights[kind][value.tobytes()] += weight
    return weights


@pytest.mark.covered(at_most=2)
@pytest.mark.parametrize(("name", "container"), CELLS)
def test_no_value_that_is_counted_follows_other_users(name, container):
    generator = np.random.default_rng(3)
    # The second user has many rows, and no other user has about as many but the first, at times.
    users = np.repeat(np.arange(N_USERS), [1, MANY, *generator.integers(1, 4, N_USERS - 2)])
    X, is_other = generator.normal(size=(len(users), D)) + 0.3, users > 0
    y = (X[:, 0] > 0.3).astype(int) if "classes" in name else X[:, 0]

    def data(n_own):
        # The first user has other rows, before those of all others.
        own = generator.normal(size=(n_own, D))
        targets = () if name == "components" else (np.append(np.ones(n_own, int), y[is_other]),)
        rows = CONTAINERS[container](np.vstack([own, X[is_other]]), *targets)
        return *rows, np.append(np.zeros(n_own, int), users[is_other])

    script = scripted_budget(record(MODELS[name], data(1)).released)
    first, *others = (
        counted(partial(fit_with, MODELS[name](), data(n_own), script)) for n_own in (1, 2, MANY)
    )
    assert first
    for other in others:
        assert first.keys() == other.keys()
        for kind, weights in first.items():
            n_passes = weights.total() / N_USERS
            assert (weights - other[kind]).total() <= n_passes, kind
            assert (other[kind] - weights).total() <= n_passes, kind
