"""What searches of scikit-learn have cost: all of their fits, and a choice that is not private."""

import math

import pytest
from sklearn.ensemble import StackingRegressor
from sklearn.experimental import enable_halving_search_cv  # noqa: F401 - for what it brings
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler
from small_pipelines import FOLDS, GRID, MU, X, Y, pca, regressor, statuses, svd, total

from skdp.model_selection import DPGridSearch, privacy_spent
from skdp.privacy import gaussian_dp

pytestmark = pytest.mark.filterwarnings(
    "ignore::skdp.PrivacyWarning", "ignore::sklearn.exceptions.FitFailedWarning"
)


@pytest.mark.slow
def test_all_fits_of_a_search_are_counted_as_a_ledger_counts_them(ledger):
    both = make_pipeline(pca(ledger=ledger), regressor(ledger=ledger))
    search = GridSearchCV(both, GRID, cv=FOLDS, error_score="raise").fit(X, Y)
    report = privacy_spent(search)
    assert len(ledger.entries()) == 38
    assert report.spent.mu == total(*[MU] * 38)
    assert report.spent.mu == pytest.approx(ledger.spent()[0], rel=1e-6)
    assert not report.is_private
    assert report.verdict == (
        "Not private: GridSearchCV chose by scores computed from the data without privacy; "
        "DPGridSearch chooses privately; a record is a row of X, with its response"
    )
    assert statuses(report) == {
        "": "not private",
        "estimator__dppca": "private",
        "estimator__dptraceregressor": "private",
    }


def test_the_epsilon_of_each_candidate_is_its_own():
    search = GridSearchCV(pca(), {"epsilon": [0.5, 1.0, 4.0]}, cv=FOLDS).fit(X)
    mus = [gaussian_dp.mu_from_epsilon_delta(epsilon, 1e-6) for epsilon in (0.5, 1.0, 4.0)]
    folds = [mu for mu in mus for _ in range(3)]
    report = privacy_spent(search)
    refit = gaussian_dp.mu_from_epsilon_delta(search.best_params_["epsilon"], 1e-6)
    assert report.spent.mu == total(*folds, refit)


def test_a_search_without_a_last_fit():
    search = GridSearchCV(pca(), {"n_components": [1, 2]}, cv=FOLDS, refit=False).fit(X)
    report = privacy_spent(search)
    assert report.spent.mu == total(*[MU] * 6)
    assert [step.class_name for step in report.steps] == ["GridSearchCV"]


def test_with_one_candidate_there_was_nothing_to_choose_and_scores_are_kept():
    search = GridSearchCV(pca(), {"n_components": [2]}, cv=FOLDS).fit(X)
    report = privacy_spent(search)
    told = "Not private: GridSearchCV keeps scores computed from the data without privacy"
    assert (report.verdict, report.is_private) == (told, False)
    assert report.spent.mu == total(*[MU] * 4)
    assert privacy_spent(search.best_estimator_).is_private
    for more in ({"refit": False}, {"scoring": lambda *_: 0.0}):
        scores = GridSearchCV(pca(), {"n_components": [2]}, cv=FOLDS, **more).fit(X)
        assert privacy_spent(scores).verdict == told
    learns_nothing = GridSearchCV(Normalizer(), {}, cv=FOLDS, scoring=lambda *_: 0.0).fit(X)
    assert privacy_spent(learns_nothing).verdict == told
    scaled = GridSearchCV(make_pipeline(StandardScaler(), pca()), {}, cv=FOLDS).fit(X)
    assert "estimator__standardscaler" in privacy_spent(scaled).verdict


@pytest.mark.parametrize("seed", [0, 2**100])
def test_a_search_with_a_seed_is_counted_and_named(seed):
    search = GridSearchCV(pca(random_state=seed), {"n_components": [2]}, cv=FOLDS).fit(X)
    report = privacy_spent(search)
    assert report.spent.mu == total(*[MU] * 4)
    assert not report.is_private
    assert "fitted with one seed several times" in report.verdict
    named = "random_state of GridSearchCV, estimator (DPPCA)" in report.verdict
    assert named == ("may be guessed" not in report.verdict) == (seed > 0)
    assert report.spent.guessable == (seed == 0)


def test_candidates_that_are_estimators_stay_as_they_are():
    steps = [pca(epsilon=2.0), svd(epsilon=2.0), "passthrough"]
    pipeline = Pipeline([("first", "passthrough"), ("second", pca())])
    grid = {"first": steps}
    search = GridSearchCV(pipeline, grid, cv=FOLDS, scoring=lambda *_: 0.0).fit(X)
    two = gaussian_dp.mu_from_epsilon_delta(2.0, 1e-6)
    report = privacy_spent(search)
    assert report.spent.mu == total(*[MU] * 9, *[two] * 6, MU, two)
    assert not hasattr(steps[0], "components_")


def test_a_search_in_a_pipeline_and_a_pipeline_in_a_search():
    inner = GridSearchCV(pca(), {"n_components": [1, 2]}, cv=FOLDS)
    pipeline = Pipeline([("norm", Normalizer()), ("search", inner)]).fit(X)
    report = privacy_spent(pipeline)
    assert report.spent.mu == total(*[MU] * 7)
    assert "search (GridSearchCV) chose by scores" in report.verdict
    assert statuses(report)["search__estimator"] == "private"


STACK = StackingRegressor([("a", regressor())], final_estimator=Ridge(), cv=3)
UNCOUNTED = [
    (GridSearchCV(pca(), {}, cv=2), {"estimator__row_norm": [2.0, 3.0]}),
    (DPGridSearch(pca(), {"n_components": [1, 2]}), {}),
    (STACK, {"passthrough": [True]}),
    # Of two candidates `fit` refuses one.
    (pca(), {"epsilon": [1.0, -1.0]}),
]


@pytest.mark.filterwarnings("ignore:One or more of the test scores")
@pytest.mark.parametrize(("estimator", "grid"), UNCOUNTED, ids=lambda one: type(one).__name__)
def test_what_else_a_search_fits_is_not_counted(estimator, grid):
    search = GridSearchCV(estimator, grid, cv=2)
    report = privacy_spent(search.fit(X, Y))
    assert "in ways that are not counted" in report.verdict


def test_a_search_without_private_steps_is_not_private():
    search = GridSearchCV(Ridge(), {"alpha": [1, 2]}, cv=FOLDS).fit(X, Y)
    report = privacy_spent(search)
    assert (report.spent, report.is_private) == (None, False)


def test_a_search_at_infinite_epsilon_is_no_privacy():
    search = GridSearchCV(pca(epsilon=math.inf), {"n_components": [2]}, cv=FOLDS).fit(X)
    report = privacy_spent(search)
    assert not report.is_private
    assert "inf, which is no privacy" in report.verdict
