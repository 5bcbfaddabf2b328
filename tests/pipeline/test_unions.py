"""Unions of public steps, as a step of a pipeline."""

from functools import partial

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import FeatureUnion, make_pipeline, make_union
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    StandardScaler,
)
from watched import farthest

import skdp
from skdp import (
    DPPCA,
    DPLinearRegression,
    DPLogisticRegression,
    DPPipeline,
    DPStandardScaler,
    make_dp_pipeline,
)
from skdp.model_selection import DPGridSearch, privacy_spent

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
GENERATOR = np.random.default_rng(0)
X = GENERATOR.integers(0, 3, (120, 3)).astype(float)
Y = (X[:, 0] > 0).astype(int)
LAST = DPLogisticRegression(classes=[0, 1])
FROZEN = FrozenEstimator(StandardScaler().fit(GENERATOR.normal(size=(20, 3))))
UNIONS = {
    "numbers": make_union(Normalizer(), Binarizer(), "passthrough"),
    "dropped": FeatureUnion([("a", Normalizer()), ("b", "drop")], transformer_weights={"a": 2.0}),
    "functions": make_union(FunctionTransformer(np.sqrt), Normalizer()),
    "frozen": make_union(FROZEN, Binarizer()),
    "one-hot": make_union(
        OneHotEncoder(categories=[[0, 1, 2]] * 3, sparse_output=False), Normalizer()
    ),
    "within": make_union(make_union(Normalizer(), Binarizer()), "passthrough"),
}


@pytest.mark.parametrize("name", UNIONS)
def test_a_union_of_public_steps_is_a_step(name):
    union = UNIONS[name]
    pipeline = make_dp_pipeline(union, LAST, epsilon=np.inf).fit(X, Y)
    made = clone(union).fit_transform(X)
    alone = clone(LAST).set_params(epsilon=np.inf).fit(made, Y)
    np.testing.assert_allclose(pipeline[-1].coef_, alone.coef_, rtol=1e-9, atol=1e-12)
    assert pipeline.predict(X).shape == Y.shape
    assert privacy_spent(pipeline).spent == pipeline.privacy_spent_
    assert make_dp_pipeline(union, LAST).plan(*X.shape).n_releases > 0


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize("form", [csr_array, np.asarray])
@pytest.mark.parametrize("name", ["numbers", "within"])
def test_a_union_behind_a_private_step_takes_all_rows(name, form):
    union = UNIONS[name]
    first = DPPCA(2, center=False, row_norm=2.0)
    pipeline = make_dp_pipeline(first, union, LAST, epsilon=4.0, random_state=1)
    neighbor = X.copy()
    neighbor[0] = 1e300
    assert farthest(pipeline.fit, (form(X), Y), (form(neighbor), Y)) <= 1 + 1e-12


@pytest.mark.covered(at_most=2)
@pytest.mark.parametrize("name", UNIONS)
def test_no_row_moves_a_pipeline_further_than_declared(name):
    pipeline = make_dp_pipeline(
        UNIONS[name], DPStandardScaler(bounds=(-2, 2)), LAST, epsilon=4.0, random_state=1
    )
    neighbor = X.copy()
    neighbor[0] = [2.0, 0.0, 1.0]
    other = Y.copy()
    other[0] = 1 - other[0]
    assert farthest(pipeline.fit, (X, Y), (neighbor, other)) <= 1 + 1e-12


def centered(rows):
    return rows - rows.mean(axis=0)


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        ((make_union(StandardScaler()), LAST), "may learn from the rows"),
        ((make_union(DPPCA(2)), LAST), "may learn from the rows"),
        ((make_union(FunctionTransformer(centered)), LAST), "map each row by itself"),
        ((make_union(make_pipeline(StandardScaler())), LAST), "may learn from the rows"),
        ((DPPCA(2), UNIONS["functions"], LAST), "may refuse single rows"),
        ((DPPCA(2), UNIONS["frozen"], LAST), "may refuse single rows"),
        ((make_union(OneHotEncoder(categories=[[0, 1]] * 3)), LAST), "refuses a category"),
        ((make_union("drop"), LAST), "0 feature"),
    ],
    ids=range(8),
)
def test_other_unions_are_refused_before_anything_is_spent(steps, told, tmp_path):
    ledger = skdp.PrivacyLedger.create(
        tmp_path / "x", dataset="x", epsilon=9, delta=1e-5, unit="record"
    )
    with pytest.raises(ValueError, match=told):
        make_dp_pipeline(*steps, ledger=ledger).fit(X, Y)
    assert ledger.entries() == []


def test_parameters_of_a_union_are_searched():
    union = FeatureUnion([("cut", Binarizer()), ("as it is", "passthrough")])
    pipeline = DPPipeline([("both", union), ("last", LAST)])
    grid = {"both__cut__threshold": [0.0, 1.0]}
    assert DPGridSearch(pipeline, grid, epsilon=4.0).fit(X, Y).best_params_.keys() == grid.keys()
    with pytest.raises(ValueError, match="may learn"):
        DPGridSearch(pipeline, {"both__cut": [StandardScaler()]}).fit(X, Y)


def test_rows_in_parts_go_through_a_union():
    halves, targets = [X[:50], X[50:]], [X[:50, 0], X[50:, 0]]
    parts = skdp.RowBlocks.from_partitions(
        [partial(np.array, one) for one in halves], [50, 70], 3, y=targets
    )
    pipeline = make_dp_pipeline(
        UNIONS["numbers"], DPLinearRegression(bounds=(-3, 3), response_bound=2.0), epsilon=np.inf
    )
    whole = clone(pipeline).fit(X, X[:, 0])
    made = pipeline.fit(parts)
    np.testing.assert_allclose(made[-1].coef_, whole[-1].coef_, atol=1e-6)
