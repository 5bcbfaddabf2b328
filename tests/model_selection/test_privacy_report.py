"""What pipelines and searches have spent, or would: every fit counted, none of them hidden."""

import math
import pickle

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import (
    BaggingRegressor,
    RandomForestRegressor,
    StackingRegressor,
    VotingRegressor,
)
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler
from small_pipelines import MU, X, Y, columns, pca, regressor, statuses, svd, total, union

import skdp
from skdp import DPPCA, DPLowRankFactorizer, DPStreamingFactorizer, DPTruncatedSVD
from skdp.model_selection import privacy_spent
from skdp.privacy import gaussian_dp
from skdp.units import Entry, FrobeniusChange, Update

pytestmark = pytest.mark.filterwarnings(
    "ignore::skdp.PrivacyWarning", "ignore::sklearn.exceptions.FitFailedWarning"
)


class Remembering(TransformerMixin, BaseEstimator):
    """A transformer that is not known to learn nothing."""

    def fit(self, X, y=None):
        self.first_ = X[0]
        return self

    def transform(self, X):
        return X


class Wrapper(BaseEstimator):
    """A record that is computed when it is asked for."""

    def __init__(self, record=None):
        self.record = record

    def fit(self, X, y=None):
        return self

    @property
    def privacy_spent_(self):
        if self.record is None:
            raise AttributeError("not fitted")
        return self.record


def test_a_plain_estimator_is_its_own_report():
    fitted = pca().fit(X)
    report = skdp.privacy_spent(fitted)
    assert report.spent == fitted.privacy_spent_
    assert report.is_private
    assert report.steps[0][:3] == ("", "DPPCA", "private")
    assert repr(report).splitlines()[0] == (
        "Private end to end: (1, 1e-06)-DP per row, adjacency 'replace'"
    )
    assert repr(report).endswith(repr(report.spent))


def test_a_pipeline_of_rows_and_records_composes_where_the_caller_says_so():
    pipeline = make_pipeline(pca(), regressor(epsilon=3.0)).fit(X, Y)
    with pytest.raises(ValueError, match="same_unit=True"):
        privacy_spent(pipeline)
    report = privacy_spent(pipeline, same_unit=True)
    assert report.spent.mu == total(MU, gaussian_dp.mu_from_epsilon_delta(3.0, 1e-6))
    assert (report.spent.unit, report.is_private) == ("record", True)
    names = [release.name for release in report.spent.releases]
    first, second = (step.privacy_spent_.releases for step in pipeline)
    assert names == [release.name for release in (*first, *second)]


def test_an_epsilon_of_two_is_said_as_such():
    step = regressor(epsilon=2.0).fit(X, Y)
    assert privacy_spent(step).verdict == (
        "Private end to end: (2, 1e-06)-DP per record, adjacency 'replace'"
    )


def test_a_step_that_learns_is_named():
    pipeline = Pipeline([("scaler", StandardScaler()), ("dppca", pca())]).fit(X)
    report = privacy_spent(pipeline)
    assert not report.is_private
    assert report.verdict == (
        "Not private: scaler (StandardScaler) learned from the data without privacy"
    )
    assert statuses(report) == {"scaler": "not private", "dppca": "private"}
    assert report.spent.mu == total(MU)


@pytest.mark.parametrize("step", [Remembering(), type("Mine", (Normalizer,), {})()])
def test_classes_that_are_not_known_may_have_learned(step):
    report = privacy_spent(make_pipeline(step, pca()).fit(X))
    assert not report.is_private
    assert type(step).__name__ in report.verdict


def test_steps_that_learn_nothing_are_said_to():
    pipeline = Pipeline([("norm", Normalizer()), ("none", None), ("svd", svd())]).fit(X)
    report = privacy_spent(pipeline)
    assert report.is_private
    assert statuses(report) == {
        "norm": "learns nothing",
        "none": "learns nothing",
        "svd": "private",
    }


@pytest.mark.parametrize(
    ("container", "private"),
    [
        (union(), {"svd", "pca"}),
        (columns(), {"left", "right"}),
        (columns(("mask", pca(), [False] * 6)), {"left", "right"}),
        (Pipeline([("union", union()), ("norm", Normalizer())]), {"union__svd", "union__pca"}),
        (
            Pipeline([("columns", ColumnTransformer([("u", union(), slice(0, 4))]))]),
            {"columns__u__svd", "columns__u__pca"},
        ),
        (Pipeline([("a", svd()), ("b", Pipeline([("c", pca())]))]), {"a", "b__c"}),
    ],
)
def test_every_container_is_walked_through(container, private):
    report = privacy_spent(container.fit(X))
    found = statuses(report)
    assert {path for path in found if found[path] == "private"} == private
    assert set(found.values()) <= {"private", "learns nothing"}
    assert report.spent.mu == total(MU, MU)
    assert report.is_private


def test_a_remainder_is_a_step():
    fitted = ColumnTransformer([("a", pca(), [0, 1, 2])], remainder=StandardScaler()).fit(X)
    assert statuses(privacy_spent(fitted)) == {"a": "private", "remainder": "not private"}


def test_a_transformed_target():
    plain = TransformedTargetRegressor(regressor()).fit(X, Y)
    report = privacy_spent(plain)
    assert statuses(report) == {"transformer": "learns nothing", "regressor": "private"}
    assert report.is_private
    scaled = TransformedTargetRegressor(regressor(), transformer=StandardScaler()).fit(X, Y)
    assert "transformer (StandardScaler)" in privacy_spent(scaled).verdict


def test_ensembles_add_up():
    votes = VotingRegressor([("a", regressor()), ("no", "drop"), ("b", regressor())]).fit(X, Y)
    report = privacy_spent(votes)
    assert statuses(report) == {"a": "private", "b": "private"}
    assert report.spent.mu == total(MU, MU)
    both = MultiOutputRegressor(regressor()).fit(X, np.c_[Y, Y])
    assert privacy_spent(both).spent.mu == total(MU, MU)
    bag = BaggingRegressor(regressor(), n_estimators=4, bootstrap=False, max_samples=0.5).fit(X, Y)
    report = privacy_spent(bag)
    assert report.is_private
    assert report.spent.mu == total(*[MU] * 4)


def test_a_row_that_is_drawn_several_times_is_not_protected_as_one():
    bag = BaggingRegressor(regressor(), n_estimators=3).fit(X, Y)
    report = privacy_spent(bag)
    assert not report.is_private
    assert "bootstrap=False" in report.verdict


def test_estimators_that_do_more_than_they_hold_are_not_private():
    stack = StackingRegressor([("a", regressor())], final_estimator=Ridge(), cv=3).fit(X, Y)
    report = privacy_spent(stack)
    assert statuses(report) == {
        "": "not private",
        "a": "private",
        "final_estimator": "not private",
    }
    assert "more often than is counted" in report.verdict
    forest = privacy_spent(RandomForestRegressor(5).fit(X, Y))
    assert [step[:3] for step in forest.steps] == [("", "RandomForestRegressor", "not private")]
    assert forest.spent is None


def test_a_subclass_of_a_container_may_learn():
    mine = type("Mine", (Pipeline,), {})([("pca", pca())]).fit(X)
    assert statuses(privacy_spent(mine)) == {"": "not private", "pca": "private"}


def test_nothing_that_learned_is_nothing_private():
    report = privacy_spent(make_pipeline(Normalizer()).fit(X))
    assert report.spent is None
    assert not report.is_private
    assert report.verdict.startswith("No private step")
    assert not privacy_spent(make_pipeline(Ridge()).fit(X, Y)).is_private


def test_infinite_epsilon_is_no_privacy():
    report = privacy_spent(make_pipeline(svd(), pca(epsilon=math.inf)).fit(X))
    assert not report.is_private
    assert report.verdict == (
        "Not private: dppca (DPPCA) had an epsilon of inf, which is no privacy"
    )
    assert math.isinf(report.spent.epsilon)


def test_a_seed_is_named():
    report = privacy_spent(make_pipeline(svd(), pca(random_state=0)).fit(X))
    assert report.is_private
    assert report.verdict.endswith("anyone who can guess random_state of dppca (DPPCA)")
    assert report.spent.seeded


def test_bounds_that_are_promised_are_named():
    unit = FrobeniusChange(1.0)
    fitted = DPLowRankFactorizer(2, privacy_unit=unit).fit(X)
    report = privacy_spent(fitted)
    assert "not enforced, in DPLowRankFactorizer" in report.verdict
    assert not report.spent.enforced


def test_a_frozen_step_is_told_and_not_counted():
    frozen = FrozenEstimator(make_pipeline(Normalizer(), pca()).fit(X[:60]))
    pipeline = Pipeline([("old", frozen), ("svd", svd())]).fit(X)
    report = privacy_spent(pipeline)
    assert statuses(report) == {
        "old__normalizer": "learns nothing",
        "old__dppca": "frozen",
        "svd": "private",
    }
    assert report.spent.mu == total(MU)
    assert report.is_private
    assert report.verdict.endswith("frozen, fitted before and not counted: old__dppca (DPPCA)")
    both = report.spent.compose(*report.steps[1].records)
    assert both.mu == total(MU, MU)


def test_frozen_scalers_leave_a_pipeline_private():
    scaler = FrozenEstimator(StandardScaler().fit(X[:60]))
    report = privacy_spent(make_pipeline(scaler, pca()).fit(X[60:]))
    assert report.is_private
    assert "frozenestimator (StandardScaler)" in report.verdict
    alone = privacy_spent(FrozenEstimator(pca().fit(X)))
    assert (alone.spent, alone.is_private) == (None, False)


def test_one_record_object_counts_once():
    pipeline = make_pipeline(svd(), pca()).fit(X)
    whole = pipeline[0].privacy_spent_.compose(pipeline[1].privacy_spent_)
    pipeline.privacy_spent_ = whole
    for step in pipeline:
        step.privacy_spent_ = whole
    report = privacy_spent(pipeline)
    assert report.spent == whole
    assert set(statuses(report).values()) == {"private"}
    pipeline.steps.append(("more", pca().fit(X)))
    assert privacy_spent(pipeline).spent.mu == total(MU, MU, MU)


def test_equal_records_of_two_fits_count_twice():
    first, second = pca().fit(X), pca().fit(X)
    assert first.privacy_spent_ == second.privacy_spent_
    both = FeatureUnion([("a", first), ("b", second)])
    assert privacy_spent(both).spent.mu == total(MU, MU)


def test_a_pickle_keeps_records_apart_and_together():
    pipeline = make_pipeline(svd(), pca()).fit(X)
    before = privacy_spent(pipeline)
    assert privacy_spent(pickle.loads(pickle.dumps(pipeline))) == before
    whole = before.spent
    pipeline.privacy_spent_ = whole
    for step in pipeline:
        step.privacy_spent_ = whole
    assert privacy_spent(pickle.loads(pickle.dumps(pipeline))).spent == whole


def test_a_search_with_a_record_of_its_own_has_that():
    class Search(BaseEstimator):
        def fit(self, X, y=None):
            self.best_estimator_ = make_pipeline(Normalizer(), svd(), pca()).fit(X)
            first, second = (step.privacy_spent_ for step in self.best_estimator_[1:])
            self.privacy_spent_ = first.compose(second)
            for step in (self.best_estimator_, *self.best_estimator_[1:]):
                step.privacy_spent_ = self.privacy_spent_
            return self

    search = Search().fit(X)
    report = privacy_spent(search)
    assert report.spent is search.privacy_spent_
    assert report.is_private
    assert list(statuses(report)) == [
        "",
        "estimator",
        "estimator__normalizer",
        "estimator__dptruncatedsvd",
        "estimator__dppca",
    ]


def test_a_record_may_be_a_property():
    record = pca().fit(X).privacy_spent_
    assert privacy_spent(Wrapper(record)).spent == record
    with pytest.raises(NotFittedError):
        privacy_spent(Pipeline([("w", Wrapper())]))


def test_streams_and_what_they_give_have_a_report():
    stream = DPStreamingFactorizer((30, 6), 2, privacy_unit=Update(bound=1.0))
    for found in (privacy_spent(stream), privacy_spent(stream.finalize())):
        assert (found.spent.unit, found.is_private) == ("update", True)


@pytest.mark.parametrize(
    "unfitted",
    [
        pca(),
        make_pipeline(pca(), regressor()),
        make_pipeline(StandardScaler(), Ridge()),
        union(),
        columns(),
        TransformedTargetRegressor(regressor()),
        VotingRegressor([("a", regressor())]),
        BaggingRegressor(regressor()),
        BaggingRegressor(regressor(), bootstrap=False),
        StackingRegressor([("a", regressor())]),
        GridSearchCV(pca(), {"n_components": [1]}),
        make_pipeline(Normalizer(), GridSearchCV(Ridge(), {"alpha": [1]})),
        StandardScaler(),
    ],
)
def test_unfitted_estimators_are_refused(unfitted):
    with pytest.raises(NotFittedError, match="not fitted"):
        privacy_spent(unfitted)


def test_one_fitted_step_does_not_make_the_others_so():
    holders = [MultiOutputRegressor(regressor()), BaggingRegressor(regressor(), bootstrap=False)]
    for unfitted in (regressor(), *holders):
        with pytest.raises(NotFittedError):
            privacy_spent(make_pipeline(pca().fit(X), unfitted, Normalizer()))


@pytest.mark.parametrize("wrong", [X, "passthrough", None, DPPCA, 3])
def test_what_is_no_estimator_is_refused_without_its_value(wrong):
    with pytest.raises(TypeError, match="must be a fitted estimator") as error:
        privacy_spent(wrong)
    assert len(str(error.value)) < 100


def test_records_that_do_not_compose_are_refused():
    mixed = make_pipeline(svd(), pca(adjacency="zero_out")).fit(X)
    with pytest.raises(ValueError, match="adjacency"):
        privacy_spent(mixed)
    entries = make_pipeline(svd(), DPTruncatedSVD(1, privacy_unit=Entry((-1, 1)))).fit(X)
    with pytest.raises(ValueError, match="same unit"):
        privacy_spent(entries, same_unit=True)


def test_html_is_escaped():
    named = Pipeline([("<b>", pca())]).fit(X)
    html = privacy_spent(named)._repr_html_()
    assert "<pre>" in html
    assert "&lt;b&gt;" in html
    assert "<b>" not in html


def test_a_long_report_is_cut():
    many = FeatureUnion([(f"step{i}", Normalizer()) for i in range(50)]).fit(X)
    assert "and 20 more" in repr(privacy_spent(many))
