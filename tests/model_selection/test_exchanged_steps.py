"""Searches among steps of a pipeline, and among shares: each distinct pipeline is planned."""

import math

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler

from skdp import (
    DPPCA,
    DPLogisticRegression,
    DPPipeline,
    DPStandardScaler,
    DPTraceRegressor,
    DPTruncatedSVD,
    privacy_spent,
)
from skdp.model_selection import DPGridSearch, DPRandomizedSearch
from skdp.model_selection._fits import prepare_search
from skdp.privacy import PrivacyCost

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

GENERATOR = np.random.default_rng(0)
X = GENERATOR.standard_normal((300, 4))
Y = X[:, 0] + 0.1 * GENERATOR.standard_normal(300)
LABELS = (Y > 0).astype(int)
SCALER, CLASSIFIER = DPStandardScaler(bounds=(-5, 5)), DPLogisticRegression(classes=[0, 1])
PIPELINE = DPPipeline([("scale", SCALER), ("classify", CLASSIFIER)])
REGRESSION = DPPipeline([("reduce", DPPCA(2)), ("regress", DPTraceRegressor(n_iter=2))])
PARTS = ColumnTransformer([("svd", DPTruncatedSVD(1), [0, 1])], remainder="passthrough")
GRIDS = {
    "no scaler": (PIPELINE, {"scale": [SCALER, "passthrough"]}),
    "other scalers": (PIPELINE, {"scale": [SCALER, DPStandardScaler(), Normalizer()]}),
    "shares": (PIPELINE, {"shares": [{"scale": 0.1}, {"scale": 0.4}, {"scale": 0.9}]}),
    "given shares": (
        clone(PIPELINE).set_params(shares={"scale": 0.3, "classify": 0.7}),
        {"scale": ["passthrough", SCALER]},
    ),
    "steps and their parameters": (
        PIPELINE,
        [{"scale": ["passthrough", None]}, {"scale": [SCALER], "scale__bounds": [(-3, 3)]}],
    ),
    "of one step": (
        PIPELINE,
        {
            "scale": ["passthrough"],
            "classify": [CLASSIFIER, DPLogisticRegression(classes=[0, 1], row_norm=2)],
        },
    ),
    "parts": (
        DPPipeline([("apart", PARTS), ("regress", DPTraceRegressor(n_iter=2))]),
        {"apart": [PARTS, DPPCA(2), "passthrough"]},
    ),
    "within parts": (
        DPPipeline([("apart", PARTS), ("regress", DPTraceRegressor(n_iter=2))]),
        {"apart__svd": [DPPCA(1), DPTruncatedSVD(2)]},
    ),
    "plain": (Pipeline(PIPELINE.steps), {"scale": [SCALER, "passthrough"]}),
    "of proportions": (
        Pipeline(REGRESSION.steps),
        {"regress": [DPTraceRegressor(epsilon=5.0), DPTraceRegressor(epsilon=0.1)]},
    ),
}


def responses_of(estimator):
    return LABELS if "classify" in dict(estimator.steps) else Y


@pytest.mark.covered(at_most=8)
@pytest.mark.parametrize("refits", [True, False])
@pytest.mark.parametrize("name", GRIDS)
def test_the_dearest_choice_spends_the_whole_budget_and_no_choice_more(name, refits):
    estimator, grid = GRIDS[name]
    search = DPGridSearch(estimator, grid)._grid(None)
    cost = PrivacyCost(2.0, 1e-6)
    facts = {"cost": cost, "refits": refits}
    planned = prepare_search(estimator, search, X, responses_of(estimator), **facts)
    fits = {
        one.keys[number].fit: share
        for one, shares in zip(planned.candidates, planned.split.search, strict=True)
        for number, share in shares.by_step.items()
    }
    assert len(fits) == sum(planned.split.n_fits.values())
    totals = [
        math.fsum([*fits.values(), *last.by_step.values(), planned.split.choice])
        for last in planned.split.final
    ]
    assert max(totals) == pytest.approx(1, abs=1e-12) or max(totals) < 1
    assert max(totals) > 0.9
    assert min(totals) > 0.8


@pytest.mark.covered(at_most=2)
@pytest.mark.parametrize("name", GRIDS)
def test_a_search_among_steps_is_one_charge_of_what_it_says(name, ledger):
    estimator, grid = GRIDS[name]
    before = estimator.get_params()
    search = DPGridSearch(estimator, grid, epsilon=2.0, ledger=ledger)
    search.fit(X, responses_of(estimator))
    (entry,) = ledger.entries()
    assert entry["mu"] == pytest.approx(PrivacyCost(2.0, 1e-6).mu)
    assert entry["mu"] >= search.privacy_spent_.mu > 0.9 * entry["mu"]
    for model in (search, search.best_estimator_):
        assert privacy_spent(model).spent == search.privacy_spent_
    assert str(estimator.get_params()) == str(before)
    chosen = search.best_estimator_
    for parameter, value in search.best_params_.items():
        assert type(chosen.get_params()[parameter]) is type(value)
        assert not hasattr(value, "privacy_spent_")
    assert chosen.predict(X).shape == Y.shape


def test_candidates_share_the_fits_of_equal_steps():
    grid = {"scale": ["passthrough", SCALER], "classify__row_norm": [1.0, 2.0]}
    search = DPGridSearch(PIPELINE, grid).fit(X, LABELS)
    assert search.n_distinct_fits_ == {"scale": 1, "classify": 4}
    grid = {
        "classify": [
            CLASSIFIER,
            DPLogisticRegression(classes=[0, 1], row_norm=2),
            clone(CLASSIFIER),
        ]
    }
    search = DPGridSearch(PIPELINE, grid).fit(X, LABELS)
    assert search.n_distinct_fits_ == {"scale": 1, "classify": 2}
    grid = {"reduce": ["passthrough", *(DPPCA(n, solver="covariance") for n in (1, 2))]}
    search = DPGridSearch(REGRESSION, grid).fit(X, Y)
    assert search.n_distinct_fits_ == {"reduce": 1, "regress": 3}


def test_functions_are_steps_that_are_exchanged():
    steps = [("function", FunctionTransformer(np.tanh)), *REGRESSION.steps]
    grid = {"function": ["passthrough", FunctionTransformer(lambda X: X / 2)], "reduce": ["drop"]}
    with pytest.raises(ValueError, match="'drop' would leave no columns"):
        DPGridSearch(DPPipeline(steps), grid).fit(X, Y)
    del grid["reduce"]
    search = DPRandomizedSearch(DPPipeline(steps), grid, n_iter=2, random_state=2**100).fit(X, Y)
    again = clone(search).fit(X, Y)
    np.testing.assert_array_equal(again.predict(X), search.predict(X))
    assert search.n_distinct_fits_ == {"reduce": 2, "regress": 2}


def test_the_better_step_is_chosen():
    # Without scales the column that says all is lost beside the others.
    rows = X * [1e-3, 1e3, 1e3, 1e3]
    grid = {"scale": ["passthrough", DPStandardScaler()]}
    search = DPGridSearch(PIPELINE, grid, epsilon=200.0).fit(rows, LABELS)
    assert search.best_params_["scale"] is grid["scale"][1]
    assert search.score(rows, LABELS) > 0.9


def test_scores_of_counts_need_the_same_classes():
    other = DPLogisticRegression(classes=[0, 2])
    grid = {"classify": [CLASSIFIER, other]}
    for scoring in ("f1", "roc_auc", "balanced_accuracy"):
        with pytest.raises(ValueError, match="same classes"):
            DPGridSearch(PIPELINE, grid, scoring=scoring).fit(X, np.zeros_like(LABELS))


def test_candidates_have_to_be_judged_by_one_score():
    grid = {"classify": [CLASSIFIER, DPTraceRegressor()]}
    with pytest.raises(ValueError, match="different scores: pass scoring"):
        DPGridSearch(PIPELINE, grid).fit(X, LABELS)
    with pytest.raises(ValueError, match="'accuracy' is for classifiers"):
        DPGridSearch(PIPELINE, grid, scoring="accuracy").fit(X, LABELS)


def test_the_share_of_a_step_that_passes_through_goes_to_the_others():
    steps = [("scale", "passthrough"), ("reduce", DPPCA(2)), ("regress", DPTraceRegressor())]
    shares = {"scale": 0.5, "reduce": 0.2}
    model = DPPipeline(steps, shares=shares)
    of = {name: 0.0 for name, _ in steps}
    for release in model.plan(1000, 5).releases:
        of[release.name.partition(":")[0]] += release.share
    assert of == {"scale": 0, "reduce": pytest.approx(0.4), "regress": pytest.approx(0.6)}
    with pytest.raises(ValueError, match="leave a part for 'regress'"):
        clone(model).set_params(shares={"scale": 1.0}).plan(1000, 5)


def test_frozen_steps_that_have_no_pickle_are_told_apart_by_what_they_have_learned():
    alike = [
        ("same", FunctionTransformer(lambda rows: rows), [0]),
        ("scaled", StandardScaler(), [1]),
    ]
    public = np.random.default_rng(1).standard_normal((50, 2))
    frozen = [FrozenEstimator(ColumnTransformer(alike).fit(public * size)) for size in (1.0, 1e3)]
    pipeline = DPPipeline([("scale", frozen[0]), ("classify", CLASSIFIER)])
    search = DPGridSearch(pipeline, {"scale": frozen}, epsilon=10.0).fit(X[:, :2], LABELS)
    assert "fit 2" in str(search.privacy_spent_)
