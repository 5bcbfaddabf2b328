"""What pipelines and searches have spent, or would: every fit counted, none of them hidden."""

import math
import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn import ensemble
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_selector
from sklearn.exceptions import NotFittedError
from sklearn.experimental import enable_halving_search_cv  # noqa: F401 - for what it brings
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, HalvingGridSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler
from small_pipelines import MU, X, Y, columns, pca, regressor, statuses, svd, total, union
from toy import ClippedMean

import skdp
from skdp import DPPCA, DPLowRankFactorizer, DPStandardScaler, DPStreamingFactorizer, DPTruncatedSVD
from skdp.model_selection import DPGridSearch, privacy_spent, private_score
from skdp.model_selection._report import _OURS, COVERED
from skdp.privacy import gaussian_dp
from skdp.units import Entry, FrobeniusChange, Update

ROOMS = (skdp.decomposition, skdp.linear_model, skdp.model_selection, skdp.pipeline)
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


class Keeping(BaseEstimator):
    """Keeps a row beside what it holds, and sets the record of that."""

    def __init__(self, estimator):
        self.estimator = estimator

    def fit(self, X, y=None):
        self.first_ = X[0]
        self.inner_ = clone(self.estimator).fit(X)
        self.privacy_spent_ = self.inner_.privacy_spent_
        return self

    def transform(self, X):
        return self.inner_.transform(X)


def test_a_plain_estimator_is_its_own_report():
    fitted = pca().fit(X)
    report = skdp.privacy_spent(fitted)
    assert report.spent == fitted.privacy_spent_
    assert report.is_private
    assert report.steps[0][:3] == ("", "DPPCA", "private")
    assert repr(report).splitlines()[0] == (
        "This fit alone is private end to end: "
        f"(1, 1e-06)-DP per row, adjacency 'replace'; {COVERED}"
    )
    assert repr(report).endswith(repr(report.spent))


def test_rows_and_records_of_one_pipeline_are_the_same_people():
    pipeline = make_pipeline(pca(), regressor(epsilon=3.0)).fit(X, Y)
    report = privacy_spent(pipeline)
    assert report.spent.mu == total(MU, gaussian_dp.mu_from_epsilon_delta(3.0, 1e-6))
    assert (report.spent.unit, report.is_private) == ("record", True)
    assert report.verdict.endswith("a record is a row of X, with its response")
    names = [release.name for release in report.spent.releases]
    first, second = (step.privacy_spent_.releases for step in pipeline)
    assert names == [release.name for release in (*first, *second)]


def test_what_was_fitted_before_is_counted_beside_its_clone():
    scaler = skdp.DPStandardScaler().fit(X)
    model = skdp.make_dp_pipeline(scaler, skdp.DPLinearRegression()).fit(X, Y)
    spent = skdp.privacy_spent(model).spent
    both = scaler.privacy_spent_, model.privacy_spent_
    assert spent.unit == "record"
    assert spent.mu == total(*(record.mu for record in both))


def test_a_step_that_learns_is_named():
    pipeline = Pipeline([("scaler", StandardScaler()), ("dppca", pca())]).fit(X)
    report = privacy_spent(pipeline)
    assert not report.is_private
    assert report.verdict == (
        "Not private: scaler (StandardScaler) learned from the data without privacy: "
        "use DPStandardScaler in make_dp_pipeline"
    )
    assert statuses(report) == {"scaler": "not private", "dppca": "private"}
    assert report.spent.mu == total(MU)


@pytest.mark.parametrize("step", [Remembering(), type("Mine", (Normalizer,), {})()])
def test_classes_that_are_not_known_may_have_learned(step):
    report = privacy_spent(make_pipeline(step, pca()).fit(X))
    assert not report.is_private
    assert type(step).__name__ in report.verdict


@pytest.mark.parametrize(
    ("container", "private"),
    [
        (union(), {"svd", "pca"}),
        (columns(), {"left", "right"}),
        (columns(("mask", pca(), [False] * 6)), {"left", "right"}),
        (Pipeline([("union", union()), ("norm", Normalizer())]), {"union__svd", "union__pca"}),
        (
            Pipeline(
                [("columns", ColumnTransformer([("u", union(), slice(0, 4))], sparse_threshold=0))]
            ),
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


def test_a_transformed_target():
    plain = TransformedTargetRegressor(regressor(), check_inverse=False).fit(X, Y)
    report = privacy_spent(plain)
    assert statuses(report) == {"transformer": "learns nothing", "regressor": "private"}
    assert report.is_private
    scaled = TransformedTargetRegressor(regressor(), transformer=StandardScaler()).fit(X, Y)
    assert "transformer (StandardScaler)" in privacy_spent(scaled).verdict


UNLISTED = [
    ensemble.VotingRegressor([("a", regressor()), ("no", "drop"), ("b", regressor())]),
    ensemble.BaggingRegressor(regressor(), n_estimators=2),
    ensemble.StackingRegressor([("a", regressor())], final_estimator=Ridge(), cv=2),
    Keeping(pca()),
    make_pipeline(Normalizer(), Keeping(pca())),
    HalvingGridSearchCV(pca(), {"n_components": [1, 2]}, cv=2, min_resources=10),
    type("Mine", (GridSearchCV,), {})(pca(), {"n_components": [2]}, cv=2),
]


@pytest.mark.parametrize("holder", UNLISTED, ids=lambda one: type(one).__name__)
def test_what_other_holders_keep_is_not_known(holder):
    report = privacy_spent(holder.fit(X, Y))
    assert report.verdict.startswith("Not private: ")
    assert report.verdict.endswith("stores what skdp does not know: fit these steps alone")
    assert report.spent is None


def test_a_subclass_of_a_holder_is_not_known_and_what_it_was_given_is_counted():
    report = privacy_spent(type("Mine", (Pipeline,), {})([("pca", pca())]).fit(X))
    assert statuses(report) == {"": "not private", "pca, as given": "private"}
    assert report.spent.mu == total(MU)


def test_nothing_that_learned_is_nothing_private():
    report = privacy_spent(make_pipeline(Normalizer()).fit(X))
    assert report.spent is None
    assert not report.is_private
    assert report.verdict.startswith("No private step")
    assert not privacy_spent(make_pipeline(Ridge()).fit(X, Y)).is_private


def test_what_has_no_record_is_unknown_unless_it_was_fitted_beside_private_steps():
    for model in (Ridge().fit(X, Y), make_pipeline(Normalizer(), Ridge()).fit(X, Y)):
        report = privacy_spent(model)
        assert report.steps[-1].status == "unknown"
        assert not report.is_private
        assert report.verdict.startswith("Unknown: ")
        assert report.verdict.endswith("has no record: nothing says how it was fitted")
    beside = privacy_spent(make_pipeline(StandardScaler(), pca()).fit(X))
    assert beside.verdict.startswith("Not private: ")


@pytest.mark.parametrize("threshold", [0.3, "auto"])
def test_a_fixed_threshold_is_private(threshold):
    classifier = skdp.DPLogisticRegression(classes=[0, 1])
    model = FixedThresholdClassifier(classifier, threshold=threshold).fit(X, Y > 0)
    report = privacy_spent(model)
    assert report.is_private
    assert report.spent == model.estimator_.privacy_spent_
    twin = skdp.to_sklearn(model)
    # The twin does not clip scores.
    low, high = model.estimator_.score_bounds_[:, 0]
    scores = model.estimator_.decision_function(X)
    is_near = (low < scores) & (scores < high)
    assert (twin.predict(X[is_near]) == model.predict(X[is_near])).all()
    assert privacy_spent(twin).is_private
    learned = FixedThresholdClassifier(LogisticRegression()).fit(X, Y > 0)
    assert not privacy_spent(make_pipeline(pca(), learned).fit(X, Y > 0)).is_private


def test_a_public_threshold_on_a_frozen_model_costs_what_the_model_has_cost():
    model = skdp.DPLogisticRegression(classes=[0, 1]).fit(X, Y > 0)
    moved = FixedThresholdClassifier(FrozenEstimator(model), threshold=0.3).fit(X[:2], [0, 1])
    report = privacy_spent(moved)
    assert report.is_private
    assert report.spent == model.privacy_spent_
    assert [step.path for step in report.steps] == ["estimator"]
    assert "DPLogisticRegression" in skdp.model_card(moved).as_markdown()
    learned = FrozenEstimator(LogisticRegression().fit(X, Y > 0))
    public = FixedThresholdClassifier(learned, threshold=0.3).fit(X, Y > 0)
    assert not privacy_spent(public).is_private


def test_the_best_of_a_search_is_one_fit_and_the_verdict_says_where_the_others_are_counted():
    search = GridSearchCV(pca(), {"n_components": [1, 2]}, cv=2, scoring=lambda *_: 0.0).fit(X)
    best = privacy_spent(search.best_estimator_)
    assert best.verdict.startswith("This fit alone is private")
    assert "privacy_spent(search) counts all fits of a search" in best.verdict
    assert privacy_spent(search).spent.mu > best.spent.mu


def test_infinite_epsilon_is_no_privacy():
    report = privacy_spent(make_pipeline(svd(), pca(epsilon=math.inf)).fit(X))
    assert not report.is_private
    assert report.verdict == (
        "Not private: dppca (DPPCA) had an epsilon of inf, which is no privacy"
    )
    assert math.isinf(report.spent.epsilon)


def test_a_seed_is_named():
    report = privacy_spent(make_pipeline(svd(), pca(random_state=2**100)).fit(X))
    assert report.is_private
    assert report.verdict.endswith("anyone who can guess random_state of dppca (DPPCA)")
    assert report.spent.seeded


@pytest.mark.parametrize("seed", [0, 2**64 - 1, np.int64(7), np.random.default_rng(0)])
def test_a_seed_that_may_be_guessed_is_no_privacy(seed):
    report = privacy_spent(make_pipeline(svd(), pca(random_state=seed)).fit(X))
    assert not report.is_private
    assert report.verdict.startswith(
        "Not private: dppca (DPPCA) had a random_state that may be guessed, and with it the noise"
    )
    assert report.spent.guessable
    assert not privacy_spent(pca(random_state=seed).fit(X)).is_private


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


def test_a_search_of_skdp_has_one_record():
    pipeline = Pipeline([("norm", Normalizer()), ("svd", svd()), ("pca", pca())])
    search = DPGridSearch(pipeline, {"svd__n_components": [3]}).fit(X)
    report = privacy_spent(search)
    assert report.spent is search.privacy_spent_
    assert report.is_private
    private = {"": "private", "estimator__svd": "private", "estimator__pca": "private"}
    assert statuses(report) == {"estimator__norm": "learns nothing", **private}
    assert privacy_spent(search.best_estimator_).spent is search.privacy_spent_


def test_a_search_with_a_seed_that_may_be_guessed_is_not_private():
    for seed in (3, np.random.RandomState(2)):
        search = DPGridSearch(pca(), {"n_components": [1, 2]}, random_state=seed).fit(X)
        assert search.privacy_spent_.guessable
        assert not privacy_spent(search).is_private
        assert not privacy_spent(search.best_estimator_).is_private
        score = private_score(Ridge().fit(X, Y), X, Y, random_state=seed)
        assert score.privacy_spent.guessable
    secret = DPGridSearch(pca(), {"n_components": [1, 2]}, random_state=2**100).fit(X)
    assert privacy_spent(secret).is_private
    assert not pca(epsilon=math.inf, random_state=0).fit(X).privacy_spent_.guessable


def test_a_subclass_of_a_private_class_may_keep_more():
    class Mine(DPPCA):
        def fit(self, X, y=None):
            self.first_ = X[0]
            return super().fit(X)

    fitted = Mine(2, row_norm=3.0, mean_norm=3.0).fit(X)
    report = privacy_spent(fitted)
    assert report.verdict == "Not private: Mine may store more than was released, as a subclass"
    assert report.spent.mu == total(MU)
    search = DPGridSearch(clone(fitted), {"n_components": [1, 2]}, refit=False).fit(X)
    assert not privacy_spent(search).is_private
    held = privacy_spent(make_pipeline(Normalizer(), fitted))
    assert statuses(held) == {"normalizer": "learns nothing", "mine": "not private"}


def test_another_private_estimator_is_as_its_author_declares():
    report = privacy_spent(make_pipeline(Normalizer(), ClippedMean()).fit(X))
    assert report.is_private
    assert report.verdict == (
        "This fit alone is private end to end: "
        f"(1, 1e-06)-DP per row, adjacency 'replace'; {COVERED}; "
        "private on its author's word: clippedmean (ClippedMean)"
    )
    with pytest.raises(NotFittedError):
        privacy_spent(make_pipeline(Normalizer(), ClippedMean()))


def test_every_class_of_skdp_that_sets_a_record_is_known():
    named = {getattr(module, name) for module in (skdp, *ROOMS) for name in module.__all__}
    kinds = {kind for kind in named if isinstance(kind, type)}
    has_record = {kind for kind in kinds if "privacy_spent_ : PrivacySpent" in (kind.__doc__ or "")}
    assert has_record <= set(_OURS) <= kinds


@pytest.mark.parametrize(
    "make",
    [
        lambda one: FeatureUnion([("a", one), ("b", one)]),
        lambda one: Pipeline([("a", one), ("b", one)]),
        lambda one: Pipeline([("a", make_pipeline(one)), ("b", Normalizer()), ("c", one)]),
        lambda one: FeatureUnion([("a", make_pipeline(Normalizer(), one)), ("b", one)]),
        lambda one: FeatureUnion([("a", FrozenEstimator(one.fit(X))), ("b", one)]),
        lambda one: FeatureUnion([("a", one), ("b", FrozenEstimator(one.fit(X)))]),
    ],
)
def test_one_estimator_in_two_places_is_refused(make):
    twice = make(DPTruncatedSVD(6, row_norm=3.0)).fit(X)
    with pytest.raises(ValueError, match=r"one and the same private.*clone"):
        privacy_spent(twice)
    frozen = FrozenEstimator(svd().fit(X))
    both = FeatureUnion([("a", frozen), ("b", frozen), ("c", svd())]).fit(X)
    assert privacy_spent(both).spent.mu == total(MU)


@pytest.mark.parametrize(
    ("more", "is_private"),
    [({}, False), ({"sparse_threshold": 0}, True), ({"sparse_threshold": 1e-9}, False)],
)
@pytest.mark.parametrize("part", ["passthrough", Normalizer(), make_pipeline(svd(), Normalizer())])
def test_columns_that_may_be_sparse(part, more, is_private):
    fitted = ColumnTransformer([("a", pca(), [0, 1]), ("b", part, [2, 3])], **more)
    report = privacy_spent(fitted.fit(csr_array(X)))
    assert report.is_private == is_private
    assert is_private or "pass sparse_threshold=0" in report.verdict


def test_columns_that_are_dense_in_any_case():
    parts = [("a", pca(), [0, 1]), ("b", make_pipeline(Normalizer(), svd(), None), [2, 3])]
    inner = [("c", FeatureUnion([("d", pca()), ("no", "drop")]), [4, 5]), ("no", "drop", [1])]
    assert privacy_spent(ColumnTransformer([*parts, *inner]).fit(X)).is_private
    nested = ColumnTransformer([("e", ColumnTransformer(parts), [0, 1, 2, 3])])
    assert privacy_spent(nested.fit(X)).is_private


@pytest.mark.parametrize("with_mean", [True, False])
def test_a_scaler_that_centers_gives_dense_columns(with_mean):
    scaler = DPStandardScaler(with_mean=with_mean, bounds=(-9, 9))
    both = ColumnTransformer([("a", scaler, [0, 1]), ("b", pca(), [2, 3])])
    assert privacy_spent(both.fit(X)).is_private == with_mean


def test_columns_that_a_function_chooses():
    rows = pd.DataFrame(X, columns=list("abcdef"))
    by_names = ColumnTransformer([("a", pca(), make_column_selector("a|b|c"))]).fit(rows)
    assert privacy_spent(by_names).is_private
    by_values = ColumnTransformer([("a", pca(), lambda X: list(X.columns[X.max() > 0]))])
    assert "function" in privacy_spent(by_values.fit(rows)).verdict


def test_a_target_whose_functions_are_tried_on_it():
    functions = {"func": np.cbrt, "inverse_func": np.abs}
    fitted = TransformedTargetRegressor(regressor(), **functions)
    with pytest.warns(UserWarning, match="not strictly inverse"):
        assert not privacy_spent(fitted.fit(X, Y)).is_private
    fitted.set_params(check_inverse=False)
    assert privacy_spent(fitted.fit(X, Y)).is_private
    for is_checked in (True, False):
        step = FunctionTransformer(np.cbrt, np.power, check_inverse=is_checked)
        step.set_params(inverse_func=lambda X: X**3)
        report = privacy_spent(make_pipeline(step, pca()).fit(X))
        assert report.is_private != is_checked


def test_memory_of_private_steps_is_refused(tmp_path):
    before = joblib.hash(pca())
    for step in (pca(), make_pipeline(Normalizer(), pca()), FeatureUnion([("a", svd())])):
        cached = make_pipeline(step, regressor(), memory=str(tmp_path))
        with pytest.raises(ValueError, match="memory=None"):
            cached.fit(X, Y)
    assert joblib.hash(pca()) == before != joblib.hash(pca(epsilon=2.0))
    # One that was fitted before is fitted anew.
    fit = joblib.Memory(tmp_path, verbose=0).cache(lambda model, rows: model.fit(rows))
    for model in (pca().fit(X), make_pipeline(Normalizer(), pca()).fit(X)):
        with pytest.raises(ValueError, match="memory=None"):
            fit(model, X)
    assert joblib.hash(model) != before


def test_streams_and_what_they_give_have_a_report():
    stream = DPStreamingFactorizer(2, shape=(30, 6), privacy_unit=Update(bound=1.0))
    for found in (privacy_spent(stream), privacy_spent(stream.finalize())):
        assert (found.spent.unit, found.is_private) == ("update", True)


@pytest.mark.parametrize(
    "unfitted",
    [
        *(pca(), union(), columns(), StandardScaler(), TransformedTargetRegressor(regressor())),
        *(make_pipeline(pca(), regressor()), make_pipeline(StandardScaler(), Ridge())),
        ensemble.VotingRegressor([("a", regressor())]),
        ensemble.BaggingRegressor(regressor()),
        ensemble.BaggingRegressor(regressor(), bootstrap=False),
        ensemble.StackingRegressor([("a", regressor())]),
        GridSearchCV(pca(), {"n_components": [1]}),
        make_pipeline(Normalizer(), GridSearchCV(Ridge(), {"alpha": [1]})),
    ],
)
def test_unfitted_estimators_are_refused(unfitted):
    with pytest.raises(NotFittedError, match="not fitted"):
        privacy_spent(unfitted)


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
        privacy_spent(entries)


def test_html_is_escaped():
    named = Pipeline([("<b>", pca())]).fit(X)
    html = privacy_spent(named)._repr_html_()
    assert "<pre>" in html
    assert "&lt;b&gt;" in html
    assert "<b>" not in html
