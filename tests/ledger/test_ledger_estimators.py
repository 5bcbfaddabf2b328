"""Estimators with a ledger: every fit is charged once, before any release, or not at all."""

import math
import os
import pickle
import warnings
from functools import partial
from pathlib import Path

import joblib
import numpy as np
import pytest
from public import ESTIMATORS
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

import skdp
from skdp.display import score_histogram
from skdp.ledger import LEFT_OUT
from skdp.model_selection import DPGridSearch, private_score
from skdp.privacy import PrivacyBudget
from skdp.units import Entry, Update

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
SEED = 2**100
generator = np.random.default_rng(0)
X, Y = generator.normal(size=(120, 6)), generator.normal(size=120)
GROUPS = np.arange(120) // 4
UNITS = ("row", "record", "user", "update", "entry")
FITS = {
    "pca": (skdp.DPPCA(2), (X,), "DPPCA.fit, 120 rows"),
    "svd": (skdp.DPTruncatedSVD(2), (X,), "DPTruncatedSVD.fit, 120 rows"),
    "scaler": (skdp.DPStandardScaler(), (X,), "DPStandardScaler.fit, 120 rows"),
    "covariance": (skdp.DPCovariance(), (X,), "DPCovariance.fit, 120 rows"),
    "factorizer": (
        skdp.DPLowRankFactorizer(2, privacy_unit=Entry((-3, 3))),
        (X,),
        "DPLowRankFactorizer.fit, 720 entries",
    ),
    "linear": (skdp.DPLinearRegression(), (X, Y), "DPLinearRegression.fit, 120 records"),
    "trace": (skdp.DPTraceRegressor(1), (X, Y), "DPTraceRegressor.fit, 120 records"),
    "logistic": (
        skdp.DPLogisticRegression(classes=[0, 1]),
        (X, Y > 0),
        "DPLogisticRegression.fit, 120 records",
    ),
    "trace classes": (
        skdp.DPTraceClassifier(classes=[0, 1]),
        (X, Y > 0),
        "DPTraceClassifier.fit, 120 records",
    ),
    "one budget": (
        skdp.make_dp_pipeline(skdp.DPStandardScaler(), skdp.DPLogisticRegression(classes=[0, 1])),
        (X, Y > 0),
        "DPPipeline.fit, 120 records",
    ),
    "personal": (
        skdp.DPPersonalizedRegressor(1),
        (X, Y, GROUPS),
        "DPPersonalizedRegressor.fit, 30 users",
    ),
}


@pytest.fixture
def ledger(tmp_path):
    return skdp.PrivacyLedger.create(
        tmp_path / "people.skdp", dataset="people", epsilon=10.0, delta=1e-5, unit=UNITS
    )


def test_every_estimator_is_charged():
    assert {*ESTIMATORS, skdp.DPPipeline} == {type(estimator) for estimator, _, _ in FITS.values()}


@pytest.mark.parametrize("name", FITS)
def test_a_fit_is_charged_once_for_all_that_it_costs(ledger, name):
    estimator, arguments, what = FITS[name]
    fitted = clone(estimator).set_params(ledger=ledger).fit(*arguments)
    (entry,) = ledger.entries()
    spent = fitted.privacy_spent_
    assert entry["what"] == what
    # What several steps share is charged before they compose, which rounds.
    rounding = 1e-8 if name == "one budget" else 1e-12
    assert entry["mu"] == pytest.approx(spent.mu, rel=rounding)
    for field in ("epsilon", "delta", "unit", "delta_tail"):
        assert entry[field] == getattr(spent, field)
    assert (entry["seeded"], entry["enforced"]) == (0, 1)


@pytest.mark.parametrize(
    ("stream", "what"),
    [
        (skdp.DPStreamingFactorizer, "DPStreamingFactorizer, 30 x 20"),
        (partial(skdp.DPContinualFactorizer, horizon=2), "DPContinualFactorizer, 30 x 20"),
    ],
)
def test_a_stream_is_charged_when_it_opens(ledger, stream, what):
    stream(2, shape=(30, 20), privacy_unit=Update(1.0), ledger=ledger)
    (entry,) = ledger.entries()
    assert entry["what"] == what


@pytest.mark.parametrize("name", FITS)
def test_a_refused_fit_releases_nothing_and_stays_as_it_was(ledger, name, monkeypatch):
    estimator, arguments, _ = FITS[name]
    estimator = clone(estimator).set_params(ledger=ledger, epsilon=20.0)
    before = dict(vars(estimator))
    published = []
    monkeypatch.setattr(PrivacyBudget, "_publish", lambda *one: published.append(one))
    with pytest.raises(skdp.BudgetError, match="was not charged, and released nothing"):
        estimator.fit(*arguments)
    assert published == []
    assert ledger.entries() == []
    assert vars(estimator).keys() == before.keys()


def test_what_has_no_privacy_is_refused(ledger):
    with pytest.raises(skdp.BudgetError, match="no cost to charge"):
        skdp.DPPCA(2, epsilon=math.inf, ledger=ledger).fit(X)


def test_bad_input_costs_nothing(ledger):
    for wrong in (X * np.nan, X[:, :0], "text"):
        with pytest.raises((ValueError, TypeError)):
            skdp.DPPCA(2, ledger=ledger).fit(wrong)
    assert ledger.entries() == []


def test_releases_that_no_memory_holds_cost_nothing(ledger):
    X = csr_array((20, 2**20))
    for estimator in (
        skdp.DPLogisticRegression(classes=[0, 1]),
        skdp.DPPCA(2, solver="covariance"),
    ):
        estimator.set_params(ledger=ledger)
        # More numbers than noise may protect from rounding, or than there is memory for.
        with pytest.raises(ValueError, match=r"moment' has (shape .* GiB|.* and its share)"):
            estimator.fit(X, np.arange(20) % 2)
    assert ledger.spent()[0] == 0


def test_fits_are_the_same_with_a_ledger_and_without(ledger):
    with_ledger, without = (
        skdp.DPPCA(2, random_state=SEED, ledger=one).fit(X) for one in (ledger, None)
    )
    np.testing.assert_array_equal(with_ledger.components_, without.components_)
    assert ledger.entries()[0]["seeded"] == 1


def test_the_same_file_is_met_from_clones_and_pickles(ledger, tmp_path):
    model = skdp.DPPCA(2, ledger=ledger)
    assert clone(model).ledger is ledger
    joblib.dump(model, tmp_path / "model")
    for one in (joblib.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        one.fit(X)
    clone(one).fit(X)
    assert len(ledger.entries()) == 3
    (tmp_path / "people.skdp").unlink()
    loaded = pickle.loads(pickle.dumps(one))
    np.testing.assert_array_equal(loaded.transform(X), one.transform(X))
    with pytest.raises(skdp.LedgerError, match="There is no ledger"):
        one.fit(X)


def fitted_with(ledger, name):
    if name == "search":
        return DPGridSearch(skdp.DPTraceRegressor(1), {"n_iter": [2, 3]}, ledger=ledger).fit(X, Y)
    if name == "pipeline":
        steps = (skdp.DPPCA(2, ledger=ledger), skdp.DPTraceRegressor(1, ledger=ledger))
        return make_pipeline(*steps).fit(X, Y)
    estimator, arguments, _ = FITS[name]
    return clone(estimator).set_params(ledger=ledger).fit(*arguments)


@pytest.mark.covered(at_most=6)
@pytest.mark.parametrize("name", [*FITS, "search", "pipeline"])
def test_pickles_of_what_was_fitted_tell_no_path(ledger, name):
    model, arguments = fitted_with(ledger, name), FITS.get(name, (None, (X, Y)))[1]
    pickled = pickle.dumps(model)
    for told in (os.path.basename(ledger.path), os.path.dirname(ledger.path), ledger._uuid):
        assert told.encode() not in pickled
    before, names = ledger.entries(), [key for key in model.get_params() if "ledger" in key]
    loaded = pickle.loads(pickle.dumps(pickle.loads(pickled)))
    given = [key for key in names if model.get_params()[key] is not None]
    assert given
    for one in (loaded, clone(loaded), pickle.loads(pickle.dumps(clone(loaded)))):
        assert [one.get_params()[key] for key in given] == [LEFT_OUT] * len(given)
        with pytest.raises(skdp.LedgerError, match="pass the ledger again"):
            one.fit(*arguments)
    assert ledger.entries() == before
    assert model.get_params()[given[0]] is ledger
    loaded.set_params(**dict.fromkeys(given, ledger)).fit(*arguments)
    assert len(ledger.entries()) == 2 * len(before)


def test_a_stream_that_has_ended_tells_no_path(ledger):
    stream = skdp.DPStreamingFactorizer(2, shape=(30, 20), privacy_unit=Update(1.0), ledger=ledger)
    stream.finalize()
    assert ledger.path.encode() not in pickle.dumps(stream)
    assert pickle.loads(pickle.dumps(stream)).ledger is LEFT_OUT
    with pytest.raises(skdp.LedgerError, match="pass the ledger again"):
        skdp.DPStreamingFactorizer(2, shape=(30, 20), privacy_unit=Update(1.0), ledger=LEFT_OUT)


def test_plans_need_no_ledger():
    assert (
        skdp.DPPCA(2, ledger=LEFT_OUT).plan(100, 5).releases == skdp.DPPCA(2).plan(100, 5).releases
    )


def refused_with(ledger):
    yield lambda: skdp.DPPCA(2, ledger=ledger).fit(X)
    yield lambda: DPGridSearch(skdp.DPTraceRegressor(), {"n_iter": [2]}, ledger=ledger).fit(X, Y)
    yield lambda: skdp.DPStreamingFactorizer(shape=(3, 2), privacy_unit=Update(1.0), ledger=ledger)
    yield lambda: private_score(skdp.DPPCA(2).fit(X), X, ledger=ledger)
    yield lambda: score_histogram(skdp.DPPCA(2).fit(X), X, ledger=ledger)


def test_a_path_is_no_ledger(ledger):
    for wrong in (ledger.path, Path(ledger.path), ledger.path.encode()):
        for refused in refused_with(wrong):
            with pytest.raises(ValueError, match=r"'ledger' parameter of .*PrivacyLedger' or None"):
                refused()
    assert ledger.entries() == []


def search(ledger, **more):
    pipeline = make_pipeline(skdp.DPPCA(2, ledger=ledger), skdp.DPTraceRegressor(1, ledger=ledger))
    grid = {"dppca__epsilon": [0.1, 0.2, 0.3], "dptraceregressor__epsilon": [0.1, 0.2]}
    return GridSearchCV(pipeline, grid, cv=3, **more)


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize("backend", ["sequential", "threading", "loky", "multiprocessing"])
def test_every_fit_of_a_search_is_charged(ledger, backend):
    with joblib.parallel_backend(backend):
        search(ledger, n_jobs=1 if backend == "sequential" else 2).fit(X, Y)
    # Six candidates in three folds, and the best one on all rows: two steps each.
    assert len(ledger.entries()) == 38
    ledger.verify()


@pytest.fixture
def nearly_empty(tmp_path):
    return skdp.PrivacyLedger.create(
        tmp_path / "small.skdp", dataset="people", epsilon=0.5, delta=1e-5, unit=UNITS
    )


def test_a_search_beyond_the_limit_stops_where_it_is_told_to(nearly_empty):
    with pytest.raises(skdp.BudgetError, match="has less left"):
        search(nearly_empty, error_score="raise").fit(X, Y)
    assert nearly_empty.spent()[2] <= 1


def test_a_search_beyond_the_limit_goes_on_to_the_end_otherwise(nearly_empty):
    # The later candidates have no scores, and the best one is one of the first.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitFailedWarning)
        warnings.simplefilter("ignore", UserWarning)
        found = search(nearly_empty, refit=False).fit(X, Y)
    scores = found.cv_results_["mean_test_score"]
    assert np.isnan(scores).any()
    assert np.isfinite(scores).any()
    assert nearly_empty.spent()[2] <= 1


@pytest.mark.slow
def test_a_search_beyond_the_limit_has_nothing_left_for_the_best_one(nearly_empty):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitFailedWarning)
        warnings.simplefilter("ignore", UserWarning)
        equal = search(nearly_empty)
        equal.estimator.set_params(dppca__epsilon=0.1, dptraceregressor__epsilon=0.1)
        equal.set_params(param_grid={"dppca__n_components": [1, 2, 3, 4, 5, 6]})
        # Raised by the last fit, after all others have spent what there was.
        with pytest.raises(skdp.BudgetError, match="has less left"):
            equal.fit(X, Y)
    assert nearly_empty.spent()[2] <= 1
    assert nearly_empty.remaining(delta=1e-6) < 0.1


CHECKED = {
    **{one.__name__: one for one in ESTIMATORS},
    "DPGridSearch": partial(DPGridSearch, skdp.DPTraceRegressor(), {"n_iter": [2, 3]}),
}


@pytest.mark.slow
@pytest.mark.parametrize("make", CHECKED.values(), ids=CHECKED)
def test_estimator_checks_pass_with_a_ledger(tmp_path, make):
    ledger = skdp.PrivacyLedger.create(
        tmp_path / "file", dataset="checks", epsilon=1e4, delta=1e-3, unit=UNITS
    )
    failed = [
        one["check_name"]
        for one in check_estimator(make(ledger=ledger), on_fail=None, on_skip=None)
        if one["status"] == "failed"
    ]
    assert failed == []
    assert len(ledger.entries()) > 20
