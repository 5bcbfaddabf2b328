"""Warnings of a fit are one, at the line of the user, whatever lies between it and a fit."""

import os
import pickle
import re
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import InconsistentVersionWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import skdp
from skdp.data.workers import without_warnings
from skdp.exceptions import _action
from skdp.model_selection import DPGridSearch, epsilon_curve, private_score
from skdp.units import Update

X = np.random.default_rng(0).standard_normal((60, 4))
Y = X[:, 0]
PIPELINE = make_pipeline(skdp.DPPCA(2), skdp.DPTraceRegressor())
JOBS = {
    "fit": lambda: skdp.DPPCA(2).fit(X),
    "pipeline": lambda: PIPELINE.fit(X, Y),
    "search": lambda: GridSearchCV(PIPELINE, {"dppca__n_components": [1, 2]}, cv=2).fit(X, Y),
    "scores": lambda: cross_val_score(skdp.DPPCA(2), X, cv=2),
    "private search": lambda: DPGridSearch(PIPELINE, {"dppca__n_components": [1]}).fit(X, Y),
    "curve": lambda: epsilon_curve(skdp.DPPCA(2), X, epsilons=[1], n_samples=100),
}


LABELS = np.where(X[:, 0] > 0, "yes", "no")
WHOLE = skdp.make_dp_pipeline(skdp.DPStandardScaler(), skdp.DPPCA(2), skdp.DPLogisticRegression())
GIVEN = clone(WHOLE).set_params(dplogisticregression__classes=["no", "yes"])
WHOLES = {
    "fit": lambda: skdp.DPLogisticRegression(delta=0.1).fit(X, LABELS),
    "pipeline": lambda: WHOLE.fit(X, LABELS),
    "private search": lambda: DPGridSearch(WHOLE, {"dppca__n_components": [1, 2]}).fit(X, LABELS),
    "curve": lambda: epsilon_curve(GIVEN, X, LABELS, epsilons=[0.1, 1], n_samples=100),
    "score": lambda: private_score(
        skdp.DPPCA(2, epsilon=np.inf).fit(X), X, delta=0.1, random_state=0
    ),
}


def caught_from(job, *filters):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for one in filters:
            warnings.filterwarnings(*one)
        job()
    return [one for one in caught if issubclass(one.category, skdp.PrivacyWarning)]


def files_of(job):
    return {one.filename for one in caught_from(job)}


def lines_of(job, *filters):
    (warning,) = caught_from(job, *filters)
    return str(warning.message).splitlines()


@pytest.mark.covered(at_most=3)
@pytest.mark.parametrize("name", JOBS)
def test_a_warning_is_at_the_line_of_the_user(name):
    assert files_of(JOBS[name]) == {__file__}


def test_a_warning_of_a_thread_is_at_a_line_of_skdp():
    search = GridSearchCV(skdp.DPPCA(2), {"n_components": [1, 2]}, cv=2, n_jobs=2, refit=False)
    with joblib.parallel_backend("threading"):
        found = files_of(lambda: search.fit(X))
    assert found
    assert all(file == __file__ or file.startswith(skdp.__path__[0]) for file in found)


@pytest.mark.covered(at_most=2)
@pytest.mark.parametrize("name", WHOLES)
def test_a_whole_warns_once_and_says_nothing_twice(name):
    (warning,) = caught_from(WHOLES[name])
    assert warning.filename == __file__
    lines = str(warning.message).splitlines()
    assert len(lines) > 1
    assert len({re.sub(r"[\d., ]+", "#", line) for line in lines}) == len(lines)


@pytest.mark.covered(at_most=2)
@pytest.mark.parametrize("name", ["pipeline", "private search", "curve"])
def test_a_whole_names_each_step(name):
    told = "\n".join(lines_of(WHOLES[name]))
    for step in ("dpstandardscaler", "dppca", "dplogisticregression"):
        assert f"Step '{step}', which has " in told


def test_steps_whose_names_differ_in_a_number_are_told_apart():
    two = skdp.make_dp_pipeline(
        skdp.DPStandardScaler(), skdp.DPPCA(2), skdp.DPPCA(1), epsilon=0.1, shares={"dppca-1": 0.3}
    )
    told = "\n".join(lines_of(lambda: two.fit(X)))
    assert "Step 'dppca-1'" in told
    assert "Step 'dppca-2'" in told


@pytest.mark.slow
def test_a_curve_of_steps_that_share_no_budget_names_their_classes():
    steps = make_pipeline(skdp.DPPCA(2), skdp.DPTraceRegressor())
    lines = lines_of(lambda: epsilon_curve(steps, X, Y, epsilons=[0.1, 1], n_samples=100))
    assert {line.partition(":")[0] for line in lines} == {"DPPCA", "DPTraceRegressor"}


def test_a_filter_of_a_sentence_leaves_the_others():
    few = skdp.DPPCA(2, delta=0.1)
    lines = lines_of(lambda: few.fit(X), ("ignore", ".*too few rows, 60"))
    assert [line for line in lines if "too few" in line] == []
    assert "outright: delta=0.1 exceeds" in lines[0]
    assert len(lines_of(lambda: few.fit(X))) > len(lines)


@pytest.mark.parametrize("model", [skdp.DPPCA(2), skdp.make_dp_pipeline(skdp.DPPCA(2))])
@pytest.mark.parametrize(("text", "n_charged"), [(".", 0), (".*too few rows, ", 0), (".*Only", 1)])
def test_an_error_of_public_facts_is_raised_before_anything_is_spent(
    tmp_path, model, text, n_charged
):
    file = tmp_path / "ledger.skdp"
    ledger = skdp.PrivacyLedger.create(file, dataset="rows", epsilon=9, delta=1e-5, unit="row")
    model = clone(model).set_params(epsilon=0.01, ledger=ledger)
    with pytest.raises(skdp.PrivacyWarning, match=text):
        caught_from(lambda: model.fit(X), ("error", text, skdp.PrivacyWarning))
    assert len(ledger.entries()) == n_charged
    assert hasattr(model, "privacy_spent_") == bool(n_charged)


def test_what_a_fit_had_to_say_is_lost_with_the_fit():
    with pytest.raises(ValueError, match="NaN"):
        caught_from(lambda: skdp.DPPCA(2, delta=0.1).fit(np.full((60, 4), np.nan)))
    assert lines_of(lambda: skdp.DPPCA(2).fit(X))[0].startswith(
        "mean_norm may be far off: too few rows, 60"
    )


def test_a_delta_above_one_over_the_number_of_rows_is_warned_of():
    rows = np.random.default_rng(0).standard_normal((1_000_001, 1))
    model = skdp.DPStandardScaler(bounds=(-3, 3))
    with pytest.raises(skdp.PrivacyWarning, match="delta=1e-06"):
        caught_from(lambda: model.fit(rows), ("error",))
    (line,) = lines_of(lambda: model.fit(rows))
    assert "outright: delta=1e-06 exceeds" in line
    assert line.endswith("Pass delta=1e-07, or less.")
    assert caught_from(lambda: skdp.DPStandardScaler(bounds=(-3, 3), delta=1e-7).fit(rows)) == []


ONE = X[:, :1]
OF_ONE = {
    "pca": lambda: skdp.DPPCA(1, epsilon=0.01).fit(ONE),
    "svd": lambda: skdp.DPTruncatedSVD(1, epsilon=0.01).fit(ONE),
    "scaler": lambda: skdp.DPStandardScaler(epsilon=0.01).fit(ONE),
    "regression": lambda: skdp.DPLinearRegression(epsilon=0.01).fit(ONE, Y),
    "matrices": lambda: skdp.DPTraceRegressor(epsilon=0.01).fit(ONE.reshape(-1, 1, 1), Y),
    "classes": lambda: skdp.DPLogisticRegression(epsilon=0.01).fit(ONE, LABELS),
    "classes of matrices": lambda: skdp.DPTraceClassifier(epsilon=0.01).fit(ONE[:, None], LABELS),
    "users": lambda: skdp.DPPersonalizedRegressor(1, epsilon=0.01).fit(ONE, Y),
    "stream": lambda: skdp.DPStreamingFactorizer(
        1, shape=(9, 1), privacy_unit=Update(1.0), delta=0.2
    ).finalize(),
}


@pytest.mark.parametrize("name", OF_ONE)
def test_one_is_no_plural_and_nothing_is_less(name):
    told = " ".join(str(one.message) for one in caught_from(OF_ONE[name]))
    assert told
    assert not re.search(r"\b1 [a-z]+s\b", told)
    assert "smaller rank" not in told
    assert "fewer components" not in told


STEPS = [FunctionTransformer(np.tanh), skdp.DPStandardScaler(), skdp.DPLogisticRegression()]
COLUMNS = ColumnTransformer([("all", FunctionTransformer(np.tanh), [0, 1, 2, 3])])


@pytest.mark.slow
def test_fits_in_threads_leave_the_filters_of_warnings():
    models = [skdp.make_dp_pipeline(*STEPS), STEPS[-1], skdp.make_dp_pipeline(COLUMNS, *STEPS[1:])]

    def fitted(number):
        return clone(models[number % len(models)]).fit(X, LABELS)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        before = list(warnings.filters)
        with ThreadPoolExecutor(2) as pool:
            assert len(list(pool.map(fitted, range(20)))) == 20
        assert warnings.filters == before
        caught.clear()
        warnings.warn("shown", UserWarning, stacklevel=1)
        assert len(caught) == 1


def test_silences_that_overlap_end_each_for_itself_and_hide_no_warning_of_privacy():
    first, second = without_warnings(), without_warnings()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        before = list(warnings.filters)
        first.__enter__()
        second.__enter__()
        with warnings.catch_warnings():
            copied = list(warnings.filters)
            first.__exit__(None, None, None)
            skdp.DPPCA(2, random_state=0).fit(X)
            warnings.warn("not shown", UserWarning, stacklevel=1)
        second.__exit__(None, None, None)
        assert warnings.filters == before
        # Such a copy may stay where other code restores filters in several threads.
        warnings.filters[:] = copied
        warnings.warn("shown", UserWarning, stacklevel=1)
    told = [str(one.message) for one in caught]
    assert "may be guessed" in told[0]
    assert told[1:] == ["shown"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing is forked")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_is_silent_for_its_own_thread_only():
    begun, may_end = Event(), Event()

    def wait():
        with without_warnings():
            begun.set()
            may_end.wait()

    def is_heard():
        with warnings.catch_warnings(record=True) as caught:
            warnings.warn_explicit("told", UserWarning, "file", 1)
        return len(caught)

    with ThreadPoolExecutor(1) as pool, warnings.catch_warnings(action="always"):
        pool.submit(wait)
        begun.wait()
        child = os.fork()
        if child == 0:
            heard = [is_heard()]
            with without_warnings():
                heard.append(is_heard())
                if (grandchild := os.fork()) == 0:
                    os._exit(is_heard())
                heard.append(os.waitpid(grandchild, 0)[1])
            os._exit(heard != [1, 0, 0])
        may_end.set()
    assert os.waitpid(child, 0)[1] == 0


def test_warnings_are_silenced_where_a_context_has_filters_of_its_own(monkeypatch):
    # As in Python 3.14, whose `catch_warnings` may put other filters in place of the global ones.
    own = list(warnings.filters)
    monkeypatch.setattr(warnings, "_get_filters", lambda: own, raising=False)
    before = list(own)
    with without_warnings():
        assert own[1:] == before
        assert issubclass(UserWarning, own[0][2])
    assert own == before


def test_filters_of_a_context_decide_whether_a_warning_is_an_error(monkeypatch):
    own = [("error", re.compile("few"), skdp.PrivacyWarning, None, 0)]
    monkeypatch.setattr(warnings, "_get_filters", lambda: own, raising=False)
    assert _action("few rows") == "error"
    assert _action("many rows") == "default"


def test_no_fit_enters_a_context_that_all_threads_share():
    files = [one for one in Path(skdp.__file__).parent.rglob("*.py") if "testing" not in one.parts]
    assert not [one for one in files if "catch_warnings(" in one.read_text()]


@pytest.mark.parametrize(
    "make",
    [
        lambda: skdp.DPPCA(2),
        lambda: skdp.DPPCA(2).fit(X),
        lambda: skdp.make_dp_pipeline(*STEPS).fit(X, LABELS),
        lambda: DPGridSearch(PIPELINE, {"dppca__n_components": [1]}).fit(X, Y),
        lambda: ended(skdp.DPStreamingFactorizer(2, shape=(60, 4), privacy_unit=Update(bound=1.0))),
        lambda: Update(bound=1.0),
    ],
    ids=["unfitted", "fitted", "pipeline", "search", "stream", "unit"],
)
@pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
def test_a_pickle_of_another_version_warns_where_it_is_loaded(make, monkeypatch):
    model = make()
    with warnings.catch_warnings(action="error", category=InconsistentVersionWarning):
        again = pickle.loads(pickle.dumps(model))
    assert vars(again).keys() == vars(model).keys()
    with monkeypatch.context() as patch:
        patch.setattr(skdp, "__version__", "0.0.9")
        pickled = pickle.dumps(model)
    with pytest.warns(InconsistentVersionWarning, match="of skdp from version 0.0.9") as caught:
        again = pickle.loads(pickled)
    assert {one.filename for one in caught} == {__file__}
    assert vars(again).keys() == vars(model).keys()


def ended(stream):
    stream.finalize()
    return stream


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize("is_search", [False, True])
def test_columns_that_noise_hides_are_warned_of_unless_the_classes_are_surely_found(is_search):
    """A scaler cannot know what its columns predict; a classifier behind it has released that."""
    rows = np.random.default_rng(0).normal(size=(2000, 4))
    hidden = np.column_stack([rows, np.zeros((2000, 4))])
    model = skdp.make_dp_pipeline(
        skdp.DPStandardScaler(), skdp.DPLogisticRegression(classes=[False, True]), epsilon=8.0
    )
    if is_search:
        grid = {"dplogisticregression__row_norm": [3.0, 4.0]}
        model = DPGridSearch(model, grid, epsilon=32.0)
    likely, unknown = rows[:, 0] > rows[::-1, 0], np.random.default_rng(1).normal(size=2000) > 0
    for labels, is_warned in ((rows[:, 0] > 0, False), (likely, False), (unknown, True)):
        fit = clone(model).set_params(random_state=0)
        caught = caught_from(lambda fit=fit, labels=labels: fit.fit(hidden, labels))
        assert any("a third of the columns" in str(one.message) for one in caught) == is_warned
