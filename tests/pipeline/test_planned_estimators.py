"""Estimators of other authors, who give their word: in pipelines, searches, ledgers, verdicts."""

import importlib.util
import pickle
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from skdp import (
    DPPCA,
    BudgetError,
    DPLinearRegression,
    DPStandardScaler,
    PrivacyLedger,
    make_dp_pipeline,
    model_card,
    privacy_spent,
    to_sklearn,
)
from skdp.model_selection import DPGridSearch
from skdp.privacy import PrivacyBudget, PrivacyCost

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

# The estimator of the page that says how to write one.
GUIDE = Path(__file__).parents[2] / "docs" / "user_guide" / "private_quantiles.py"
spec = importlib.util.spec_from_file_location("quantiles_as_a_step", GUIDE)
guide = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = guide
spec.loader.exec_module(guide)
Quantiles, X = guide.PrivateQuantileTransformer, guide.X
Y = X[:, 0]
WORD = "private on its author's word"
EDGES = {"privatequantiletransformer__edges": [(-1, 0, 1), (-2, 0, 2)]}


class Unsized(*(kind for kind in Quantiles.__bases__ if kind is not OneToOneFeatureMixin)):
    """Returns one column, and does not say so."""

    def __init__(self, edges=(-1, 0, 1), *, epsilon=1.0, delta=1e-6):
        self.edges, self.epsilon, self.delta = edges, epsilon, delta

    plan, fit, _counts = Quantiles.plan, Quantiles.fit, Quantiles._counts
    _change = staticmethod(Quantiles._change)

    def transform(self, X):
        return X[:, :1]


class Elsewhere(Quantiles):
    def fit(self, X, y=None):
        plan = replace(self.plan(*X.shape), enforced=True)
        budget = PrivacyBudget.of(plan)
        self.counts_, _ = budget.release(plan.parts, self._counts(X))
        self.privacy_spent_ = budget.spent()
        return self


class Dearer(Quantiles):
    def plan(self, n_samples, n_features):
        return Quantiles(epsilon=2 * self.epsilon).plan(n_samples, n_features)


class Enforced(Quantiles):
    def plan(self, n_samples, n_features):
        return replace(super().plan(n_samples, n_features), enforced=True)


def test_a_verdict_says_whose_word_it_is():
    fitted = Quantiles().fit(X)
    report = privacy_spent(fitted)
    assert report.is_private
    assert report.verdict.endswith(f"; {WORD}: PrivateQuantileTransformer")
    assert not report.spent.enforced
    assert model_card(fitted).meaning.startswith("As long as what is promised holds, ")
    with pytest.raises(TypeError, match="no twin"):
        to_sklearn(fitted)


@pytest.mark.parametrize(
    ("steps", "n_columns"), [((Quantiles(), DPPCA(2)), 2), ((DPPCA(2), Quantiles()), 2)]
)
def test_it_is_a_step_and_the_pipeline_spends_once(steps, n_columns):
    model = make_dp_pipeline(*steps, epsilon=2.0)
    planned = [release.name for release in model.plan(*X.shape).releases]
    assert "privatequantiletransformer: counts" in planned
    assert not model.plan(*X.shape).enforced
    spent = model.fit(X).privacy_spent_
    assert spent.epsilon_at(1e-6) == pytest.approx(2.0)
    assert "privatequantiletransformer: counts" in [release.name for release in spent.releases]
    assert not spent.enforced
    assert model.transform(X).shape == (len(X), n_columns)
    report = privacy_spent(model)
    assert report.is_private
    assert WORD in report.verdict
    assert "promised by the caller" not in report.verdict
    assert pickle.loads(pickle.dumps(model)).privacy_spent_ == spent


def test_its_cost_is_what_it_is_handed_and_what_its_parameters_say_elsewhere():
    seen = []

    class Seen(Quantiles):
        def fit(self, X, y=None):
            seen.append(self.cost)
            return super().fit(X, y)

    model = make_dp_pipeline(Seen(), DPPCA(2), epsilon=2.0, shares={"seen": 0.36}).fit(X)
    whole = PrivacyCost(2.0, 1e-6)
    assert seen[-1].mu == pytest.approx(0.6 * whole.mu, rel=1e-15)
    assert seen[-1].delta == 5e-7
    # The fitted step stays what its parameters say, for another fit of it alone.
    assert model.named_steps["seen"].cost == PrivacyCost(1.0, 1e-6)
    model.named_steps["seen"].fit(X)
    assert seen[-1] == PrivacyCost(1.0, 1e-6)


def test_it_is_a_part_of_columns():
    parts = ColumnTransformer([("q", Quantiles(), ["a", "b"]), ("s", DPStandardScaler(), ["c"])])
    model = make_dp_pipeline(parts, DPPCA(2)).fit(pd.DataFrame(X, columns=list("abc")))
    assert privacy_spent(model).is_private
    assert WORD in privacy_spent(model).verdict


def test_a_ledger_is_charged_once_and_refuses_before_anything_is_spent(tmp_path):
    ledger = PrivacyLedger.create(tmp_path / "one.skdp", dataset="x", epsilon=2.5, delta=1e-5)
    model = make_dp_pipeline(Quantiles(), DPPCA(2), epsilon=2.0, ledger=ledger).fit(X)
    assert ledger.spent()[0] == pytest.approx(model.privacy_spent_.mu)
    with pytest.raises(BudgetError):
        clone(model).fit(X)
    alone = Quantiles(epsilon=2.5)
    alone.ledger = ledger
    with pytest.raises(BudgetError):
        alone.fit(X)
    assert not hasattr(alone, "ranks_")


def test_searches_take_it():
    model = make_dp_pipeline(Quantiles(), DPLinearRegression())
    private = DPGridSearch(model, EDGES, epsilon=4.0).fit(X, Y)
    assert privacy_spent(private).is_private
    assert WORD in privacy_spent(private).verdict
    search = GridSearchCV(make_pipeline(Quantiles(), DPLinearRegression()), EDGES, cv=2).fit(X, Y)
    report = privacy_spent(search)
    assert report.verdict.startswith("Not private: GridSearchCV chose")
    fit = privacy_spent(search.best_estimator_)
    assert report.spent.mu == pytest.approx(fit.spent.mu * np.sqrt(5))


def test_a_budget_that_was_opened_elsewhere_is_no_word():
    assert not privacy_spent(Elsewhere().fit(X)).is_private
    with pytest.raises(ValueError, match=r"must call self\.open_budget"):
        make_dp_pipeline(Elsewhere()).fit(X)


class ClonesItself(Quantiles):
    """Has what it releases by what its parameters say."""

    def fit(self, X, y=None):
        inner = clone(self)
        Quantiles.fit(inner, X)
        vars(self).update(vars(inner))
        return self


class FitsTwice(Quantiles):
    def fit(self, X, y=None):
        return super().fit(X) and super().fit(X)


@pytest.mark.parametrize("kind", [Elsewhere, ClonesItself, FitsTwice])
@pytest.mark.parametrize("steps", [(), (DPPCA(2),)], ids=["alone", "before another"])
def test_what_is_not_spent_by_the_one_budget_is_charged_and_refused(kind, steps, tmp_path):
    facts = {"dataset": "X", "epsilon": 3.0, "delta": 1e-5}
    ledger = PrivacyLedger.create(tmp_path / "ledger.db", **facts)
    pipeline = make_dp_pipeline(kind(), *steps, epsilon=2.0, ledger=ledger)
    with pytest.raises((ValueError, BudgetError), match=r"must call self\.open_budget\(plan\)"):
        pipeline.fit(X)
    assert [one["epsilon"] for one in ledger.entries()] == [2.0]


def test_a_record_that_nobody_gives_his_word_for_is_unknown():
    def fit(self, X, y=None):
        self.privacy_spent_ = Quantiles().fit(X).privacy_spent_
        return self

    methods = {"fit": fit, "transform": lambda self, X: X}
    unsaid = type("Unsaid", (BaseEstimator,), methods)().fit(X)
    for model in (unsaid, make_pipeline(clone(unsaid), DPPCA(2)).fit(X)):
        report = privacy_spent(model)
        assert not report.is_private
        assert report.verdict.startswith("Unknown: ")
        assert "let it inherit skdp.PlannedEstimator" in report.verdict


def test_a_plan_of_another_cost_is_refused_before_anything_is_spent():
    of_users = type("OfUsers", (Quantiles,), {"privacy_unit": "user"})()
    for refused, fact in (
        (lambda: Dearer().fit(X), r"cost=PrivacyCost\(epsilon=1\.0"),
        (lambda: make_dp_pipeline(Dearer()).plan(*X.shape), "cost=PrivacyCost"),
        (lambda: make_dp_pipeline(Dearer()).fit(X), "cost=PrivacyCost"),
        (lambda: of_users.fit(X), "unit='user', got 'row'"),
        (lambda: Enforced().fit(X), "enforced=False, got True"),
    ):
        with pytest.raises(ValueError, match=f"must have {fact}"):
            refused()


class Planless(*Quantiles.__bases__):
    epsilon, delta = 1.0, 1e-6

    def fit(self, X, y=None):
        return self


class Costless(*Quantiles.__bases__):
    def fit(self, X, y=None):
        return self


class Recordless(Quantiles):
    def fit(self, X, y=None):
        super().fit(X)
        del self.privacy_spent_
        return self


@pytest.mark.parametrize(
    ("kind", "advice"),
    [
        (Planless, r"must have a method plan\(n_samples, n_features\) .*, got NoneType"),
        (Costless, "must have epsilon and delta, which its __init__ takes and stores"),
        (Recordless, r"must set self\.privacy_spent_ = budget\.spent\(\)"),
    ],
)
def test_a_pipeline_says_what_a_step_lacks(kind, advice):
    with pytest.raises((TypeError, ValueError), match=f"{kind.__name__} {advice}"):
        make_dp_pipeline(kind()).fit(X)


@pytest.mark.parametrize(
    "bad", [{"epsilon": one} for one in ("1", "abc", None, True, -1.0)] + [{"delta": "1e-6"}]
)
def test_a_budget_that_is_no_number_is_refused_by_its_name(bad):
    (name,) = bad
    with pytest.raises(ValueError, match=f"'{name}' parameter of PrivateQuantileTransformer"):
        Quantiles(**bad).fit(X)


def test_what_follows_has_to_know_how_many_columns_there_are():
    assert make_dp_pipeline(DPPCA(2), Unsized()).fit(X).transform(X).shape == (len(X), 1)
    for refused in (lambda one: one.plan(*X.shape), lambda one: one.fit(X)):
        with pytest.raises(ValueError, match=r"follows .*, which does not say how many columns"):
            refused(make_dp_pipeline(Unsized(), DPPCA(1)))


def test_bad_rows_are_refused_and_nothing_is_told():
    for X_bad in (np.full_like(X, np.nan), X[:, 0]):
        with pytest.raises(ValueError, match=r"X|array"):
            make_dp_pipeline(Quantiles()).fit(X_bad)
    with pytest.raises(ValueError, match="users"):
        make_dp_pipeline(Quantiles()).fit(X, users=range(len(X)))
