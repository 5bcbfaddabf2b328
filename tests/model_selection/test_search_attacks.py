"""Attacks on whole searches and scores: all they release, replayed on neighboring rows."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, PowerTransformer
from watched import SEED, moved, watched

from skdp import DPPCA, DPTraceRegressor, DPTruncatedSVD
from skdp.model_selection import DPGridSearch, private_score
from skdp.model_selection._score import SCORES, row_losses
from skdp.privacy import sensitivity

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

GENERATOR = np.random.default_rng(0)
X = GENERATOR.standard_normal((60, 4)) * [3, 2, 1, 1]
Y = X[:, 0] + GENERATOR.standard_normal(60)
PCA = DPPCA(row_norm=4.0, mean_norm=4.0)
REGRESSION = DPTraceRegressor(n_iter=3)
PUBLIC = GENERATOR.standard_normal((40, 2))
FOREST = FrozenEstimator(RandomForestRegressor(3, random_state=0).fit(PUBLIC, PUBLIC[:, 0]))
POWERS = FrozenEstimator(PowerTransformer().fit(PUBLIC))
SEARCHES = {
    "free": (PCA, {"n_components": [1, 2, 3], "whiten": [False, True]}, "log_likelihood"),
    "reconstruction": (DPTruncatedSVD(1, row_norm=4.0), {"n_components": [1, 2]}, None),
    "power": (DPPCA(1, solver="power"), {"n_components": [1, 2]}, None),
    "regression": (REGRESSION, {"n_iter": [1, 2]}, None),
    "absolute": (REGRESSION, {"clip_quantile": [0.3, 0.8]}, "neg_mean_absolute_error"),
    "rows": (
        REGRESSION,
        {"n_iter": [1, 2]},
        lambda model, X, y: -(np.abs(model.predict(X) - y) ** 3),
    ),
    "bare pipeline": (
        make_pipeline(DPPCA(2), REGRESSION),
        {"dppca__whiten": [False, True], "dptraceregressor__n_iter": [2]},
        None,
    ),
    "logarithm": (
        make_pipeline(DPPCA(2), FunctionTransformer(np.log), REGRESSION),
        {"dppca__n_components": [1, 2]},
        None,
    ),
    "back": (
        make_pipeline(FunctionTransformer(np.exp, np.log), DPTruncatedSVD(1)),
        {"dptruncatedsvd__n_components": [1, 2]},
        "reconstruction",
    ),
    "forest": (
        make_pipeline(DPPCA(2), FOREST),
        {"dppca__whiten": [False, True]},
        None,
    ),
    "powers": (
        make_pipeline(DPPCA(2), POWERS, REGRESSION),
        {"dppca__whiten": [False, True]},
        lambda model, X, y: -np.abs(model.predict(X) - y),
    ),
    "squares": (
        make_pipeline(DPPCA(2), FunctionTransformer(np.square), REGRESSION),
        {"dppca__n_components": [1, 2]},
        lambda model, X, y: -np.abs(model.predict(X) - y),
    ),
    "pipeline": (
        make_pipeline(Normalizer(), PCA, REGRESSION),
        {"dppca__n_components": [1, 2], "dptraceregressor__n_iter": [2]},
        "r2",
    ),
}
ROWS = {
    "huge": (np.full(4, 1e300), 1e300),
    "largest": (np.full(4, 1.7e308), -1.7e308),
    "opposite": (-X[0], -Y[0]),
    "large": (np.array([1e6, 0, 0, 0]), -1e6),
    "zero": (np.zeros(4), 0.0),
    "aligned": (X[1] * 50, Y[1] * 50),
}


def search_of(name, adjacency):
    estimator, grid, scoring = SEARCHES[name]
    estimator = clone(estimator)
    for prefix in ("", "dppca__", "dptruncatedsvd__", "dptraceregressor__"):
        if f"{prefix}adjacency" in estimator.get_params():
            estimator.set_params(**{f"{prefix}adjacency": adjacency})
    return DPGridSearch(
        estimator, grid, epsilon=2.0, delta=1e-5, scoring=scoring, random_state=SEED
    )


def neighbors(row):
    rows, responses = X.copy(), Y.copy()
    rows[0], responses[0] = row
    return rows, responses


@pytest.mark.covered(at_most=4)
@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("name", SEARCHES)
def test_no_row_moves_a_search_further_than_declared(name, row):
    with watched() as before:
        search_of(name, "replace").fit(X, Y)
    scripts = [budget.released for budget in before]
    with watched(scripts) as after:
        search_of(name, "replace").fit(*neighbors(ROWS[row]))
    assert max(moved(before, after)) <= 1 + 1e-12


@pytest.mark.covered(at_most=4)
@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", SEARCHES)
def test_the_largest_rows_raise_nothing_and_warn_of_nothing(name, dtype):
    rows, responses = X.astype(dtype), Y.astype(dtype)
    for number in range(4):
        largest = np.finfo(dtype).max * (-1) ** number
        rows[number] = [largest, -largest, largest, largest]
        responses[number] = largest
    with np.errstate(all="warn"):
        search = search_of(name, "replace").fit(rows, responses)
    assert search.privacy_spent_.mu > 0
    last = search.best_estimator_
    last = last.steps[-1][1] if hasattr(last, "steps") else last
    for value in vars(last).values():
        assert not isinstance(value, np.ndarray) or np.isfinite(value).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_score_of_the_largest_rows_raises_nothing(dtype):
    rows = X.astype(dtype)
    models = [DPTruncatedSVD(2).fit(rows), DPPCA(2, whiten=True).fit(rows)]
    models += [make_pipeline(models[1], FOREST), RandomForestRegressor(3).fit(rows, Y)]
    rows[0] = np.finfo(dtype).max
    for model in models:
        assert np.isfinite(private_score(model, rows, Y).value)


@pytest.mark.parametrize("scoring", [None, lambda model, X, y: -np.abs(model.predict(X) - y)])
def test_a_row_that_is_refused_changes_no_other(scoring):
    model = RandomForestRegressor(3, random_state=0).fit(X, Y)
    rows = neighbors((np.full(4, 1e300), 0.0))[0]
    scoring = scoring or "neg_mean_squared_error"
    before, after = row_losses(scoring, model, X, Y), row_losses(scoring, model, rows, Y)
    np.testing.assert_array_equal(before[1:], after[1:])
    assert after[0] == 1e100


@pytest.mark.covered(at_most=3)
@pytest.mark.parametrize("name", SEARCHES)
def test_what_is_published_follows_what_is_released(name):
    with watched() as before:
        one = search_of(name, "replace").fit(X, Y)
    scripts = [budget.released for budget in before]
    with watched(scripts):
        other = search_of(name, "replace").fit(*neighbors(ROWS["large"]))
    assert one.best_params_ == other.best_params_
    assert one.privacy_spent_ == other.privacy_spent_
    assert vars(one).keys() == vars(other).keys()
    assert one._said == other._said
    assert set(vars(one)) == {
        *one.get_params(deep=False),
        "_said",
        "best_estimator_",
        "best_index_",
        "best_params_",
        "cv_results_",
        "n_distinct_fits_",
        "n_features_in_",
        "privacy_spent_",
    }
    last = one.best_estimator_, other.best_estimator_
    steps = [model.steps[-1][1] if hasattr(model, "steps") else model for model in last]
    for attribute, value in vars(steps[0]).items():
        if attribute.endswith("_") and isinstance(value, np.ndarray | float):
            np.testing.assert_array_equal(value, getattr(steps[1], attribute))


@pytest.mark.covered(at_most=3)
@pytest.mark.parametrize("name", SEARCHES)
def test_releases_have_the_same_names_and_shares_on_all_data(name):
    with watched() as before:
        one = search_of(name, "zero_out").fit(X, Y).privacy_spent_
    # A released vote may choose among the ways of a plan: it is the same for all.
    scripts = [budget.released for budget in before]
    assert sum(release.share for release in one.releases) == pytest.approx(1, abs=1e-5)
    for rows in ((X * 1e3 + 5, -Y), (np.zeros_like(X), np.zeros_like(Y))):
        with watched(scripts):
            other = search_of(name, "zero_out").fit(*rows).privacy_spent_
        assert one.mu == other.mu
        assert [(release.name, release.share) for release in one.releases] == [
            (release.name, release.share) for release in other.releases
        ]


@pytest.mark.parametrize("scoring", [name for name in SCORES if name != "accuracy"])
def test_a_row_is_judged_by_itself(scoring):
    model = DPPCA(2, row_norm=4.0, mean_norm=4.0, random_state=SEED).fit(X)
    if scoring not in ("log_likelihood", "reconstruction"):
        model = DPTraceRegressor(random_state=SEED).fit(X, Y)
    before = row_losses(scoring, model, X, Y)
    for row in ROWS.values():
        after = row_losses(scoring, model, *neighbors(row))
        np.testing.assert_array_equal(before[1:], after[1:])
        assert np.isfinite(after).all()


@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
@pytest.mark.parametrize("scoring", [None, "neg_mean_absolute_error", "rows"])
def test_no_row_moves_a_score_further_than_declared(scoring, adjacency):
    model = DPTraceRegressor(random_state=SEED).fit(X, Y)
    if scoring == "rows":
        scoring = lambda model, X, y: model.predict(X) - y  # noqa: E731
    settings = {"scoring": scoring, "adjacency": adjacency, "random_state": SEED}
    with watched() as before:
        private_score(model, X, Y, **settings)
    worst = []
    for row in ROWS.values() if adjacency == "replace" else [ROWS["zero"]]:
        rows, responses = neighbors(row)
        if adjacency == "zero_out":
            # A null row takes part in no sum: as one that is predicted exactly.
            responses[0] = model.predict(rows[:1])[0]
        with watched([budget.released for budget in before]) as after:
            private_score(model, rows, responses, **settings)
        worst.append(max(moved(before, after)))
    assert max(worst) <= 1


def test_too_small_a_sensitivity_of_a_score_is_noticed(monkeypatch):
    monkeypatch.setattr(sensitivity, "response_sum", lambda *given: 1.0)
    model = DPTraceRegressor(random_state=SEED).fit(X, Y)

    def signed(model, X, y):
        return np.where(np.abs(y) > 1e100, y, model.predict(X) - y)

    settings = {"scoring": signed, "random_state": SEED}
    rows, responses = neighbors((X[0], 1e300))
    with watched() as before:
        private_score(model, rows, responses, **settings)
    with watched([budget.released for budget in before]) as after:
        private_score(model, *neighbors((X[0], -1e300)), **settings)
    assert max(moved(before, after)) > 1
