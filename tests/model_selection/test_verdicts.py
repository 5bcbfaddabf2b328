"""What must not be called private: a verdict says no more than was checked."""

import functools
import math
import pickle
import re

import joblib
import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import VotingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    Normalizer,
    OneHotEncoder,
    StandardScaler,
)
from small_pipelines import FOLDS, MU, X, Y, pca, regressor, statuses, svd, total
from told import lines_warned_by, warned_by

from skdp import DPPipeline, DPTruncatedSVD
from skdp.model_selection import DPGridSearch, privacy_spent
from skdp.model_selection._report import ALL_OF_IT, COVERED
from skdp.units import Entry

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

SCALER = StandardScaler().fit(X)
OF_Y = StandardScaler().fit(Y[:, np.newaxis])
LEARNED = "learned from the data without privacy"
OBJECTS = "calls objects that may have learned from rows, or store them"


# ------------------------------
# What a verdict covers.


def test_a_verdict_says_that_it_is_about_steps_only():
    assert COVERED == (
        "every step in it is private; what was done before is not checked; "
        "privacy_spent(search) counts all fits of a search"
    )
    # The categories were made of private rows, which nobody can see.
    categories = [np.unique(column) for column in X.round().T]
    encoder = OneHotEncoder(categories=categories, handle_unknown="ignore", sparse_output=False)
    report = privacy_spent(make_pipeline(encoder, svd()).fit(X.round()))
    assert report.is_private
    assert report.verdict == (
        "This fit alone is private end to end: "
        f"(1, 1e-06)-DP per row, adjacency 'replace'; {COVERED}"
    )
    for other in (make_pipeline(Normalizer()), make_pipeline(StandardScaler(), svd())):
        assert COVERED not in privacy_spent(other.fit(X)).verdict


def test_a_verdict_on_a_private_search_is_about_all_of_its_fits():
    search = DPGridSearch(svd(), {"n_components": [1, 2]}, epsilon=1.0).fit(X)
    assert privacy_spent(search).verdict == (
        "This search, with all its fits, is private end to end: "
        f"(1, 1e-06)-DP per row, adjacency 'replace'; {ALL_OF_IT}"
    )
    assert COVERED in privacy_spent(search.best_estimator_).verdict


@pytest.mark.parametrize(
    "step",
    [
        FunctionTransformer(np.tanh),
        FunctionTransformer(lambda rows: rows - rows.mean(axis=0)),
        FunctionTransformer(np.asarray),
        FunctionTransformer(csr_array),
        FunctionTransformer(csr_array, inverse_func=np.asarray, check_inverse=False),
        FunctionTransformer(np.clip, kw_args={"a_min": -1, "a_max": np.ones(6)}),
        FunctionTransformer(functools.partial(np.clip, a_min=-1, a_max=1)),
    ],
)
def test_functions_are_not_checked_and_the_verdict_says_so(step):
    pipeline = Pipeline([("mine", step), ("svd", svd())]).fit(X)
    report = privacy_spent(pipeline)
    assert statuses(report) == {"mine": "learns nothing", "svd": "private"}
    told = f"{COVERED}; functions that are not checked, in mine (FunctionTransformer)"
    assert report.verdict.endswith(told)
    nothing = make_pipeline(FunctionTransformer(), Normalizer(), svd()).fit(X)
    assert privacy_spent(nothing).verdict.endswith(COVERED)


# ------------------------------
# Steps that keep rows, or warn of them.


def encoder(**more):
    categories = [[0, 1]] * 6
    return OneHotEncoder(
        categories=categories, handle_unknown="ignore", sparse_output=False, **more
    )


def warnings_of(model, rows):
    return [one for one in lines_warned_by(lambda: model.fit(rows)) if "unknown categories" in one]


@pytest.mark.parametrize("drop", ["first", "if_binary", [0] * 6])
def test_an_encoder_that_warns_of_one_unknown_category_is_not_private(drop):
    known = (X > 0) * 1.0
    odd = known.copy()
    odd[7, 2] = 5.0
    one, other = make_pipeline(encoder(drop=drop), svd()), make_pipeline(encoder(), svd())
    assert len(warnings_of(one, odd)) == 1
    assert [warnings_of(*case) for case in ((one, known), (other, odd))] == [[], []]
    assert privacy_spent(one).verdict == (
        "Not private: onehotencoder (OneHotEncoder) warns if a row has an unknown category: "
        "pass drop=None"
    )
    assert privacy_spent(other).is_private
    steps = [("encode", encoder(drop=drop)), ("svd", svd())]
    for silent in (DPPipeline(steps), DPGridSearch(Pipeline(steps), {"svd__n_components": [1, 2]})):
        assert warnings_of(silent, odd) == []
        report = privacy_spent(silent)
        assert report.is_private
        assert "learns nothing" in statuses(report).values()


def test_functions_that_a_pipeline_with_one_budget_tries_are_tried_on_public_rows():
    step = FunctionTransformer(np.cbrt, np.abs)
    model = DPPipeline([("mine", step), ("svd", svd())])
    assert "inverse" not in warned_by(lambda: model.fit(X))
    assert privacy_spent(model).is_private


def test_memory_keeps_rows(tmp_path):
    cached = make_pipeline(Normalizer(), pca(), memory=str(tmp_path)).fit(X)
    files = [joblib.load(path) for path in tmp_path.rglob("output.pkl")]
    assert any(np.array_equal(rows, cached[0].transform(X)) for rows, _ in files)
    told = "Pipeline) has memory, which stores rows, and repeats a fit"
    for holder in (FeatureUnion([("a", cached)]), make_pipeline(cached, Normalizer())):
        assert told in privacy_spent(holder).verdict
    assert not privacy_spent(cached).is_private


@pytest.mark.filterwarnings("ignore:The estimator Normalizer does not support callbacks")
def test_callbacks_that_ask_for_rows_may_keep_them():
    callback = pytest.importorskip("sklearn.callback", reason="needs scikit-learn 1.9")

    def _verdict(*callbacks):
        return privacy_spent(make_pipeline(Normalizer(), svd()).set_callbacks(*callbacks).fit(X))

    monitor = callback.ScoringMonitor(scoring=lambda model, *rows: 0.0)
    assert _verdict(monitor).verdict.startswith(
        "Not private: Pipeline has callbacks that ask for rows, and may store them or their scores"
    )
    assert _verdict(callback.ProgressBar()).is_private


# ------------------------------
# What steps call: what an object has learned is unknown.


class Scaled:
    """Is called, and holds what it was made of."""

    def __init__(self, scaler):
        self.scaler = scaler

    def __call__(self, rows):
        return self.scaler.transform(rows)


def scaled(rows, scaler=None):
    return rows if scaler is None else scaler.transform(rows)


def scaled_by_default(rows, scaler=SCALER):
    return scaler.transform(rows)


def closed(scaler):
    return lambda rows: scaler.transform(rows)


def with_attribute(rows):
    return with_attribute.scaler.transform(rows)


with_attribute.scaler = SCALER
CALLING = {
    "method": {"func": SCALER.transform},
    "method that fits": {"func": StandardScaler().fit_transform},
    "part of a method": {"func": functools.partial(SCALER.transform)},
    "part with an estimator": {"func": functools.partial(scaled, scaler=SCALER)},
    "object": {"func": Scaled(SCALER)},
    "method of an object": {"func": Scaled(SCALER).__call__},
    "argument": {"func": scaled, "kw_args": {"scaler": SCALER}},
    "argument in a list": {"func": scaled, "kw_args": {"scaler": [SCALER]}},
    "default": {"func": scaled_by_default},
    "closure": {"func": closed(SCALER)},
    "name": {"func": lambda rows: SCALER.transform(rows)},
    "attribute": {"func": with_attribute},
    "class": {"func": lambda rows: StandardScaler().fit_transform(rows)},
    "inverse": {"func": scaled, "inverse_func": SCALER.inverse_transform},
    "argument of the inverse": {"func": scaled, "inv_kw_args": {"scaler": SCALER}},
    "names": {"func": scaled, "feature_names_out": Scaled(SCALER)},
    "private": {"func": svd().transform},
    "cache in memory": {"func": functools.lru_cache(scaled)},
}


@pytest.mark.parametrize("name", CALLING)
def test_what_an_object_that_is_called_has_learned_is_unknown(name):
    step = FunctionTransformer(check_inverse=False, **CALLING[name])
    # Not fitted: it learns nothing itself, and some of these take no rows.
    report = privacy_spent(Pipeline([("mine", step), ("svd", svd().fit(X))]))
    assert report.verdict.startswith(f"Not private: mine (FunctionTransformer) {OBJECTS}")
    assert report.spent.mu == total(MU)
    with pytest.raises(ValueError, match=r"may learn.*Use plain functions, or .*FrozenEstimator"):
        DPPipeline([("mine", step), ("svd", svd())]).fit(X)
    with pytest.raises(ValueError, match="Use plain functions"):
        DPGridSearch(make_pipeline(step, pca()), {"dppca__n_components": [1, 2]}).fit(X)


def test_a_function_that_is_cached_on_disk_keeps_rows(tmp_path):
    step = FunctionTransformer(joblib.Memory(tmp_path, verbose=0).cache(scaled))
    report = privacy_spent(Pipeline([("mine", step), ("svd", svd())]).fit(X))
    assert list(tmp_path.rglob("output.pkl"))
    assert report.verdict == f"Not private: mine (FunctionTransformer) {OBJECTS}"


def test_the_remedy_for_an_object_that_was_fitted_to_public_rows():
    model = DPPipeline([("mine", FrozenEstimator(SCALER)), ("svd", svd())]).fit(X)
    report = privacy_spent(model)
    assert report.is_private
    assert report.verdict.endswith("frozen, fitted before and not counted: mine (StandardScaler)")
    frozen = FrozenEstimator(FunctionTransformer(SCALER.transform))
    held = privacy_spent(Pipeline([("mine", frozen), ("svd", svd())]).fit(X))
    assert held.verdict.endswith("not counted: mine (FunctionTransformer)")


def test_other_steps_that_call_objects():
    words = HashingVectorizer(n_features=8, analyzer=Scaled(None))
    report = privacy_spent(Pipeline([("words", words), ("svd", svd().fit(X))]))
    assert report.verdict.startswith(f"Not private: words (HashingVectorizer) {OBJECTS}")
    functions = {"func": OF_Y.transform, "inverse_func": OF_Y.inverse_transform}
    target = TransformedTargetRegressor(regressor(), check_inverse=False, **functions).fit(X, Y)
    assert f"transformer (FunctionTransformer) {OBJECTS}" in privacy_spent(target).verdict


def test_functions_that_hold_themselves_are_looked_at_once():
    def _again(rows, depth=0):
        return rows if depth else _again(rows, 1)

    step = FunctionTransformer(_again, inv_kw_args={"more": _again})
    assert privacy_spent(make_pipeline(step, svd()).fit(X)).is_private


# ------------------------------
# What was fitted before, and is kept beside its clone.


def fitted_before(estimator, *rows):
    """Fit without noise, as for a comparison, and ask for noise later."""
    return estimator.set_params(epsilon=math.inf).fit(*rows).set_params(epsilon=1.0)


KEEPING = {
    "one budget": lambda: DPPipeline([("p", fitted_before(pca(), X))]).fit(X),
    "columns": lambda: ColumnTransformer(
        [("p", fitted_before(pca(), X[:, :3]), [0, 1, 2])], sparse_threshold=0
    ).fit(X),
    "columns of one budget": lambda: DPPipeline(
        [("c", ColumnTransformer([("p", fitted_before(pca(), X), [0, 1])], sparse_threshold=0))]
    ).fit(X),
    "search": lambda: DPGridSearch(fitted_before(pca(), X), {"n_components": [1, 2]}).fit(X),
    "votes": lambda: VotingRegressor([("p", fitted_before(regressor(), X, Y))]).fit(X, Y),
    "target": lambda: TransformedTargetRegressor(
        fitted_before(regressor(), X, Y), check_inverse=False
    ).fit(X, Y),
    "targets": lambda: MultiOutputRegressor(fitted_before(regressor(), X, Y)).fit(X, np.c_[Y, Y]),
    "deep": lambda: make_pipeline(Normalizer(), DPPipeline([("p", fitted_before(pca(), X))])).fit(
        X
    ),
}


@pytest.mark.parametrize("name", KEEPING)
def test_what_was_fitted_before_is_kept_and_not_private(name):
    model = KEEPING[name]()
    verdict = privacy_spent(model).verdict
    assert verdict.startswith("Not private: ")
    assert ", as given (" in verdict
    assert verdict.endswith("had an epsilon of inf, which is no privacy")
    assert privacy_spent(pickle.loads(pickle.dumps(model))).verdict == verdict


def test_what_was_fitted_before_with_privacy_is_counted():
    model = DPPipeline([("p", pca().fit(X))]).fit(X)
    report = privacy_spent(model)
    assert report.is_private
    assert statuses(report) == dict.fromkeys(["", "p", "p, as given"], "private")
    assert report.spent.mu == total(MU, MU)
    alone = DPPipeline([("p", pca())]).fit(X)
    assert privacy_spent(alone).spent.mu == total(MU)
    # A frozen step is passed on as it is, and not counted.
    frozen = FrozenEstimator(pca().fit(X))
    held = ColumnTransformer([("p", frozen, slice(0, 6))], sparse_threshold=0).fit(X)
    assert statuses(privacy_spent(held)) == {"p": "frozen"}


# ------------------------------
# Nothing is raised where some step is not private.

TWICE = DPTruncatedSVD(6, row_norm=3.0)
SECRET = 2**100
TOLD = {
    "units": "Pipeline has no total: Only fits of the same unit compose, got ",
    "adjacencies": "adjacency",
    "seeds": "Records of the same seed do not compose",
    **dict.fromkeys(("two places", "two places before", "frozen"), "one and the same private"),
}
RAISING = {
    "units": make_pipeline(StandardScaler(), svd(), DPTruncatedSVD(1, privacy_unit=Entry((-1, 1)))),
    "adjacencies": make_pipeline(StandardScaler(), svd(), pca(adjacency="zero_out")),
    "seeds": make_pipeline(StandardScaler(), svd(random_state=SECRET), pca(random_state=SECRET)),
    "two places": make_pipeline(
        StandardScaler(), FeatureUnion([("a", TWICE), ("b", TWICE)]), Normalizer()
    ),
    "two places before": FeatureUnion([("a", TWICE), ("b", TWICE), ("scaler", StandardScaler())]),
    "frozen": FeatureUnion(
        [("a", FrozenEstimator(TWICE)), ("b", TWICE), ("scaler", StandardScaler())]
    ),
}


@pytest.mark.parametrize("name", RAISING)
def test_what_is_not_private_is_named_and_no_error_is_raised(name):
    TWICE.fit(X)
    report = privacy_spent(RAISING[name].fit(X, Y))
    assert report.verdict.startswith("Not private: ")
    first, second = report.verdict.split("; ")[:2]
    assert f"(StandardScaler) {LEARNED}" in first
    assert re.search(TOLD[name], second)
    assert (report.is_private, report.spent) == (False, None)


def test_a_holder_that_is_not_private_is_named_and_no_error_is_raised():
    parts = [("a", svd(), [0, 1]), ("b", DPTruncatedSVD(1, privacy_unit=Entry((-1, 1))), [2, 3])]
    report = privacy_spent(ColumnTransformer([*parts, ("c", "passthrough", [4])]).fit(X))
    assert report.verdict.startswith("Not private: ColumnTransformer may have learned")
    assert report.spent is None
    with pytest.raises(ValueError, match="same unit"):
        privacy_spent(ColumnTransformer(parts).fit(X))


def test_a_fit_that_failed_has_published_what_was_fitted_before():
    failed = Pipeline([("scaler", StandardScaler()), ("pca", pca(solver="none"))])
    with pytest.raises(NotFittedError):
        privacy_spent(failed)
    with pytest.raises(ValueError, match="solver"):
        failed.fit(X)
    assert privacy_spent(failed).verdict == (
        f"Not private: scaler (StandardScaler) {LEARNED}: use DPStandardScaler in "
        "make_dp_pipeline; Pipeline has no total: This DPPCA is not fitted yet, and nothing is "
        "spent: call fit"
    )
    plain = make_pipeline(StandardScaler().fit(X), Ridge())
    assert not privacy_spent(plain).is_private


# ------------------------------
# Estimators that hold or learn: none is called private.

HOLDING = {
    "bins": make_pipeline(KBinsDiscretizer(encode="onehot-dense"), svd()),
    "means": make_pipeline(SimpleImputer(), svd()),
    "union": FeatureUnion([("a", svd()), ("b", make_pipeline(StandardScaler(), pca()))]),
    "pipeline": Pipeline([("a", Pipeline([("b", StandardScaler()), ("c", svd())]))]),
    "remainder": ColumnTransformer(
        [("a", pca(), [0, 1])], remainder=SimpleImputer(), sparse_threshold=0
    ),
    "remainder in a pipeline": make_pipeline(
        ColumnTransformer([("a", pca(), [0, 1])], remainder=make_pipeline(StandardScaler())),
        Normalizer(),
    ),
    "target": TransformedTargetRegressor(regressor(), transformer=StandardScaler()),
}


@pytest.mark.parametrize("name", HOLDING)
def test_what_holds_private_steps_and_learns_is_not_private(name):
    fitted = HOLDING[name].fit(X, Y)
    report = privacy_spent(fitted)
    assert not report.is_private
    assert report.verdict.startswith("Not private: ")


def test_scores_of_one_candidate_move_with_one_row_and_are_in_the_pickle():
    searches = []
    for rows in (X, np.r_[X[:-1], X[-1:] * 1e6]):
        search = GridSearchCV(pca(), {"n_components": [2]}, cv=FOLDS).fit(rows)
        searches.append(pickle.loads(pickle.dumps(search)))
    assert abs(np.subtract(*(search.best_score_ for search in searches))) > 1e6
    assert not any(privacy_spent(search).is_private for search in searches)
