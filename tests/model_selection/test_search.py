"""Private searches: what they cost, what they refuse, and what they leave."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone, is_regressor
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import get_scorer
from sklearn.pipeline import Pipeline, make_pipeline, make_union
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    StandardScaler,
)
from small_pipelines import WithTail

from skdp import (
    DPPCA,
    BudgetError,
    DPCovariance,
    DPLogisticRegression,
    DPLowRankFactorizer,
    DPPersonalizedRegressor,
    DPPipeline,
    DPTraceRegressor,
    DPTruncatedSVD,
    PrivacyWarning,
    RowBlocks,
    make_dp_pipeline,
)
from skdp.model_selection import DPGridSearch, DPRandomizedSearch, private_score
from skdp.privacy import gaussian_dp
from skdp.units import Entry, SparseRow

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

SEED = 2**100 + 7
GENERATOR = np.random.default_rng(0)
X = GENERATOR.standard_normal((80, 4)) * [3, 2, 1, 1]
Y = X[:, 0] + GENERATOR.standard_normal(80)
PIPELINE = make_pipeline(DPPCA(2), DPTraceRegressor(n_iter=2))
GRIDS = [
    (DPPCA(2), {"n_components": [1, 2, 3]}, {"estimator": 1}),
    (DPPCA(2), {"n_components": [1, 2], "row_norm": [1.0, 2.0, 5.0]}, {"estimator": 3}),
    (DPPCA(2, solver="power"), {"n_components": [1, 2], "whiten": [True, False]}, {"estimator": 2}),
    (DPTraceRegressor(), {"n_iter": [2, 3, 4]}, {"estimator": 3}),
    (DPTraceRegressor(init="spectral"), {"n_iter": [2, 3], "init": ["spectral", "random"]}, None),
    (PIPELINE, {"dppca__n_components": [1, 2, 3]}, {"dppca": 1, "dptraceregressor": 3}),
    (PIPELINE, {"dptraceregressor__n_iter": [2, 3]}, {"dppca": 1, "dptraceregressor": 2}),
    (PIPELINE, {"dppca__row_norm": [1.0, 2.0]}, {"dppca": 2, "dptraceregressor": 2}),
    (
        PIPELINE,
        [
            {"dppca__n_components": [1]},
            {"dptraceregressor__n_iter": [1, 2], "dppca__whiten": [True]},
        ],
        {"dppca": 1, "dptraceregressor": 3},
    ),
    (DPPCA(2), {"n_components": [2]}, {"estimator": 1}),
    (
        PIPELINE,
        {"dppca": ["passthrough", DPPCA(2), DPPCA(2, row_norm=1.0)]},
        {"dppca": 2, "dptraceregressor": 3},
    ),
    (
        DPPipeline(PIPELINE.steps),
        [{"shares": [{"dppca": 0.1}, None]}, {"dptraceregressor": [DPTraceRegressor()]}],
        {"dppca": 2, "dptraceregressor": 3},
    ),
]


@pytest.mark.covered(at_most=4)
@pytest.mark.parametrize("refit", [True, False])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 30.0])
@pytest.mark.parametrize(("estimator", "grid", "n_fits"), GRIDS, ids=lambda value: repr(value)[:50])
def test_everything_costs_what_was_asked_for(estimator, grid, n_fits, epsilon, refit):
    search = DPGridSearch(estimator, grid, epsilon=epsilon, delta=1e-5, refit=refit).fit(X, Y)
    spent = search.privacy_spent_
    tail = spent.delta_tail
    whole = gaussian_dp.mu_from_epsilon_delta(epsilon, 1e-5, tail)
    # Where shares or steps differ, the dearest choice costs the whole, and another one may be made.
    unspent = 0.05 if "shares" in repr(grid) or "passthrough" in repr(grid) else 1e-3
    assert spent.mu == pytest.approx(whole, rel=unspent)
    assert spent.mu <= whole * (1 + 1e-12)
    assert spent.epsilon_at(1e-5) <= epsilon * (1 + 1e-9)
    assert tail <= 1e-6 * (1 + 1e-9)
    assert sum(release.share for release in spent.releases) == pytest.approx(1, abs=unspent)
    if n_fits is not None:
        assert search.n_distinct_fits_ == n_fits


def test_the_steps_keep_their_ratio():
    pipeline = make_pipeline(DPPCA(2, epsilon=3.0), DPTraceRegressor(n_iter=2, epsilon=1.0))
    search = DPGridSearch(pipeline, {"dppca__whiten": [False]}, epsilon=2.0).fit(X, Y)
    releases = search.privacy_spent_.releases
    first = sum(release.share for release in releases if release.name.startswith("fit 1:"))
    mus = [gaussian_dp.mu_from_epsilon_delta(epsilon, 1e-6) for epsilon in (3.0, 1.0)]
    assert first == pytest.approx(mus[0] ** 2 / (mus[0] ** 2 + mus[1] ** 2), rel=1e-3)


def test_the_last_fit_has_three_times_the_signal_of_those_of_the_search():
    search = DPGridSearch(DPTraceRegressor(n_iter=2), {"clip_quantile": [0.4, 0.5]}).fit(X, Y)
    releases = search.privacy_spent_.releases
    shares = {
        label: sum(one.share for one in releases if one.name.startswith(label))
        for label in ("fit 1:", "fit 2:", "choice:", "last fit 1:")
    }
    assert shares["fit 1:"] == pytest.approx(shares["fit 2:"])
    assert shares["last fit 1:"] == pytest.approx(9 * shares["fit 1:"], rel=1e-6)
    assert shares["choice:"] == pytest.approx(0.1, rel=1e-6)


def test_one_candidate_is_a_fit():
    search = DPGridSearch(DPPCA(2), {"n_components": [2]}, random_state=SEED).fit(X)
    names = [release.name for release in search.privacy_spent_.releases]
    assert not any(name.startswith("choice") for name in names)
    assert search.best_index_ == 0


def test_results_look_as_those_of_scikit_learn():
    grid = [{"n_components": [1, 2]}, {"whiten": [True]}]
    search = DPGridSearch(DPPCA(3), grid).fit(X)
    table = search.cv_results_
    assert table["params"] == [{"n_components": 1}, {"n_components": 2}, {"whiten": True}]
    assert table["param_n_components"].mask.tolist() == [False, False, True]
    assert table["param_whiten"].mask.tolist() == [True, True, False]
    assert table["selected"].sum() == 1
    assert table["params"][search.best_index_] == search.best_params_
    assert not any("score" in name for name in table)
    with pytest.raises(AttributeError, match="private_score"):
        _ = search.best_score_
    assert not hasattr(search, "best_score_")


def test_what_was_found_carries_the_record_of_the_search():
    search = DPGridSearch(PIPELINE, {"dppca__n_components": [1, 2]}, epsilon=2.0).fit(X, Y)
    found = search.best_estimator_
    for part in (found, *(step for _, step in found.steps)):
        assert part.privacy_spent_ is search.privacy_spent_
    assert search.privacy_spent_.unit == "record"
    copied = pickle.loads(pickle.dumps(search))
    assert copied.best_estimator_.privacy_spent_ == search.privacy_spent_
    np.testing.assert_array_equal(copied.predict(X), search.predict(X))
    assert found.steps[0][1].components_.shape[0] == search.best_params_["dppca__n_components"]


def test_what_was_found_does_what_it_can():
    search = DPGridSearch(DPPCA(), {"n_components": [1, 2]}, random_state=SEED)
    assert not hasattr(search, "predict")
    Z = search.fit_transform(X)
    assert search.inverse_transform(Z).shape == X.shape
    assert search.score(X) == pytest.approx(search.score_samples(X).mean())
    assert len(search.get_feature_names_out()) == Z.shape[1]
    assert search.n_features_in_ == 4
    regression = DPGridSearch(DPTraceRegressor(), {"n_iter": [2, 3]}).fit(X, Y)
    assert is_regressor(regression)
    assert regression.score(X, Y) == pytest.approx(regression.best_estimator_.score(X, Y))
    assert not hasattr(regression, "transform")
    without = DPGridSearch(DPTraceRegressor(), {"n_iter": [2, 3]}, refit=False).fit(X, Y)
    assert not hasattr(without, "best_estimator_")
    assert not hasattr(without, "predict")
    with pytest.raises(AttributeError) as refused:
        _ = without.predict
    assert "refit=False" in str(refused.value.__cause__)
    assert not hasattr(DPGridSearch(DPPCA(), {}, refit=False), "fit_transform")


def test_sparse_rows_and_texts():
    sparse = csr_array(np.maximum(X, 0))
    search = DPGridSearch(DPTruncatedSVD(2), {"n_components": [1, 2]}).fit(sparse)
    assert search.transform(sparse).shape[0] == 80
    texts = [f"one {number} two {number % 7}" for number in range(60)]
    pipeline = make_pipeline(HashingVectorizer(n_features=16), DPTruncatedSVD(2))
    search = DPGridSearch(pipeline, {"dptruncatedsvd__n_components": [1, 2]})
    assert search.fit(texts).n_distinct_fits_ == {"dptruncatedsvd": 1}


def test_a_seed_repeats_a_search_and_is_not_shown():
    def fitted(seed):
        return DPGridSearch(PIPELINE, {"dppca__n_components": [1, 2]}, random_state=seed).fit(X, Y)

    one, two, other = fitted(SEED), fitted(SEED), fitted(SEED + 1)
    np.testing.assert_array_equal(one.predict(X), two.predict(X))
    assert (one.predict(X) != other.predict(X)).any()
    assert one.privacy_spent_.seeded
    assert str(SEED) not in repr(one) + one._repr_html_()
    assert pickle.loads(pickle.dumps(one)).random_state is None
    with pytest.raises(ValueError, match="same seed"):
        one.privacy_spent_.compose(two.privacy_spent_)
    for step in one.best_estimator_:
        assert str(step.random_state) not in repr(one.best_estimator_)


def test_other_data_get_other_noise_with_the_same_seed():
    searches = [
        DPGridSearch(DPPCA(2), {"whiten": [False, True]}, random_state=SEED).fit(rows)
        for rows in (X, X + 1e-9)
    ]
    first, second = (search.best_estimator_.mean_ for search in searches)
    assert np.abs(first - second).min() > 1e-6


def test_random_candidates_never_come_from_the_global_generator():
    search = DPRandomizedSearch(DPPCA(), {"n_components": list(range(1, 5)), "whiten": [0, 1]})
    drawn = []
    for _ in range(8):
        np.random.seed(0)  # noqa: NPY002 - anybody may reset it
        drawn.append(str(list(search._grid(None))))
    assert len(set(drawn)) > 1
    assert str(list(search._grid(SEED))) == str(list(search._grid(SEED)))


def test_a_search_is_one_charge(ledger):
    search = DPGridSearch(PIPELINE, {"dppca__n_components": [1, 2]}, epsilon=2.0, ledger=ledger)
    search.fit(X, Y)
    (entry,) = ledger.entries()
    assert entry["what"] == "DPGridSearch.fit, 80 records"
    assert entry["mu"] >= search.privacy_spent_.mu
    assert clone(search).ledger is ledger


def test_what_the_ledger_refuses_leaves_nothing(ledger):
    search = DPGridSearch(PIPELINE, {"dppca__n_components": [1, 2]}, epsilon=2e3, ledger=ledger)
    before = dict(vars(search))
    with pytest.raises(BudgetError):
        search.fit(X, Y)
    assert vars(search) == before
    assert ledger.entries() == []


FROZEN = FrozenEstimator(Ridge().fit(X[:, :2], Y))
BAD = [
    (make_pipeline(StandardScaler(), DPPCA(2)), {}, "StandardScaler may learn from the rows"),
    (make_pipeline(GaussianProcessRegressor(), DPPCA(2)), {}, "GaussianProcessRegressor may learn"),
    (make_pipeline(DPPCA(2), Ridge()), {}, "Ridge may learn"),
    (make_pipeline(DPPCA(2), RandomForestClassifier()), {}, "RandomForestClassifier may learn"),
    (Pipeline([("pca", DPPCA(2))], memory="/nowhere"), {}, "memory=None"),
    (PCA(2), {}, "PCA may learn"),
    (FrozenEstimator(Ridge().fit(X, Y)), {}, "no private step"),
    (DPPCA(2, random_state=0), {}, "random_state must be None"),
    (DPPCA(2, delta=0), {}, "delta must be positive"),
    (DPCovariance(), {}, "reconstruction' needs the .* No score fits it"),
    (make_pipeline(DPPCA(2, adjacency="zero_out"), DPTraceRegressor()), {}, "one adjacency"),
    (DPPCA(2, privacy_unit=Entry((0, 1))), {}, "must protect one row"),
    (DPLowRankFactorizer(privacy_unit=Entry((0, 1))), {}, "must protect one row"),
    (DPPersonalizedRegressor(), {}, "must protect one row"),
    (
        make_pipeline(DPPCA(2), DPTraceRegressor(privacy_unit="response")),
        {},
        "must protect one row",
    ),
    (DPPCA(2), {"n_components": [2, 9]}, "n_components=9 must be at most"),
    (DPPCA(2), {"n_components": [2, -1]}, "n_components"),
    (DPPCA(2), {"nothing": [2]}, "nothing"),
    (DPPCA(2), {"ledger__path": ["x"]}, "must not be searched"),
    (DPPCA(2, row_norm=1.0), {"row_norm": [1.0, np.inf]}, "row_norm=inf with epsilon"),
    (DPPCA(2, epsilon=np.inf, row_norm=np.inf), {}, "row_norm=inf with epsilon"),
    (make_pipeline(DPPCA(2), FROZEN), {}, "put it before the first private step"),
    (make_pipeline(DPPCA(2), FrozenEstimator(Ridge())), {}, "fit the estimator in a FrozenEst"),
    (PIPELINE, {"dppca": [DPPCA(2), StandardScaler()]}, "StandardScaler may learn"),
    (PIPELINE, {"dppca": [DPPCA(adjacency="zero_out")]}, "one adjacency"),
    (PIPELINE, {"dppca": ["passthrough"], "dppca__whiten": [True]}, "step that is fitted"),
    (PIPELINE, {"verbose": [True]}, "step that is fitted"),
    (
        Pipeline([("a", DPTraceRegressor())]),
        {"a": [DPTraceRegressor(), DPTraceRegressor(adjacency="zero_out")]},
        "must protect the same unit",
    ),
    (DPPipeline([("a", DPPCA(2))]), {"a": [DPPCA(epsilon=2.0)]}, "keep its default epsilon"),
    (DPPipeline([("a", DPPCA(2))]), {"shares": [{"a": 1.0}, {"b": 0.5}]}, "no private step"),
    (PIPELINE, {"dppca__n_components": [1, 9]}, "n_components=9 must be at most"),
    (PIPELINE, {"dptraceregressor__rank": [1, 2]}, "rank=2 exceeds"),
]
BAD += [
    (DPPCA(2), {name: [1]}, "must not be searched")
    for name in (
        "epsilon",
        "delta",
        "adjacency",
        "privacy_unit",
        "random_state",
        "ledger",
        "n_jobs",
    )
]


@pytest.mark.parametrize(("estimator", "grid", "told"), BAD, ids=lambda value: str(value)[:50])
def test_what_cannot_be_searched_is_refused_before_anything_is_spent(ledger, estimator, grid, told):
    search = DPGridSearch(estimator, grid, ledger=ledger)
    before = dict(vars(search))
    with pytest.raises(ValueError, match=told):
        search.fit(X, Y)
    assert vars(search) == before
    assert ledger.entries() == []


NOT_A_NAME = (
    r"'scoring' parameter .* a str among {'accuracy', .*'neg_log.*} or None\. Got .+ instead"
)
NAN = X.copy()
NAN[3, 1] = np.nan


@pytest.mark.parametrize(
    ("rows", "responses", "more", "told"),
    [
        (NAN, Y, {}, "NaN"),
        (X, np.where(Y > 1, np.nan, Y), {}, "NaN"),
        (X, Y[:-1], {}, "inconsistent"),
        (X, None, {}, "requires y"),
        (X[:, 0], Y, {}, "2D"),
        (RowBlocks(lambda: iter([X]), X.shape), Y, {}, "RowBlocks"),
        (X, Y, {"scoring": "precision"}, NOT_A_NAME),
        (X, Y, {"scoring": "log_likelihood"}, "needs the method score_samples .*one of 'r2', "),
        (X, Y, {"scoring": "accuracy"}, "is for classifiers"),
        (X, Y, {"scoring": "r2", "estimator": DPLogisticRegression(classes=[1, 2])}, "is for reg"),
        (X, Y, {"scoring": get_scorer("neg_mean_squared_error")}, NOT_A_NAME),
        (X, Y, {"scoring": lambda model, X, y: -y}, NOT_A_NAME),
        (X, [f"a{number}" for number in range(80)], {}, "y holds texts"),
        (X, Y, {"delta": 0}, "delta"),
        (X, Y, {"epsilon": 0}, "epsilon"),
        (X, Y, {"param_grid": {}}, None),
    ],
)
def test_bad_input_is_refused_before_anything_is_spent(ledger, rows, responses, more, told):
    search = DPGridSearch(PIPELINE, {"dppca__n_components": [1, 2]}, ledger=ledger)
    search.set_params(**more)
    if told is None:
        # No parameter is one candidate.
        assert search.fit(rows, responses).best_params_ == {}
        return
    with pytest.raises(ValueError, match=told) as refused:
        search.fit(rows, responses)
    assert refused.value.__context__ is None or "NaN" not in told
    assert ledger.entries() == []
    assert not hasattr(search, "best_index_")


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize("row", [0, 3])
@pytest.mark.parametrize("gap", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("contain", [np.array, csr_array, pd.DataFrame])
def test_gaps_are_refused_unless_a_public_step_fills_them(ledger, row, gap, contain):
    rows = X.copy()
    rows[row, 1] = gap
    given = contain(rows)
    # Of a frame it would return a frame.
    unchanged = FunctionTransformer(validate=contain is pd.DataFrame)
    for step in (Normalizer(), unchanged, Binarizer()):
        for steps in ([step], [unchanged, step]):
            pipeline = make_pipeline(*steps, DPPCA(2))
            with pytest.raises(ValueError, match="Input X contains"):
                DPGridSearch(pipeline, {"dppca__whiten": [False]}, ledger=ledger).fit(given)
            with pytest.raises(ValueError, match="Input X contains"):
                private_score(pipeline.fit(contain(X)), given, ledger=ledger)
    assert ledger.entries() == []
    filled = make_pipeline(FunctionTransformer(filled_by_zero), DPPCA(2))
    search = DPGridSearch(filled, {"dppca__whiten": [False]}, random_state=SEED).fit(given)
    exact = DPGridSearch(filled, {"dppca__whiten": [False]}, random_state=SEED)
    exact.fit(contain(np.where(np.isfinite(rows), rows, 0.0)))
    np.testing.assert_array_equal(search.best_estimator_[1].mean_, exact.best_estimator_[1].mean_)


def filled_by_zero(rows):
    if isinstance(rows, csr_array):
        rows = rows.copy()
        rows.data = np.nan_to_num(rows.data, posinf=0, neginf=0)
        return rows
    return np.nan_to_num(np.asarray(rows), posinf=0, neginf=0)


def test_many_fits_and_guessable_seeds_are_warned_of():
    with pytest.warns(PrivacyWarning, match="fits one step 6 times"):
        DPGridSearch(DPTraceRegressor(), {"n_iter": range(1, 7)}).fit(X, Y)
    with pytest.warns(PrivacyWarning, match="may be guessed"):
        DPGridSearch(DPPCA(), {"n_components": [1]}, random_state=1).fit(X)
    with pytest.warns(PrivacyWarning, match="delta=0.1 exceeds"):
        DPGridSearch(DPPCA(), {"n_components": [1]}, delta=0.1).fit(X)


def test_without_noise_the_best_is_chosen():
    spread = np.diag([9.0, 5.0, 0.1, 0.1])
    rows = np.random.default_rng(3).standard_normal((500, 4)) @ spread
    search = DPGridSearch(DPPCA(), {"n_components": [1, 2]}, epsilon=np.inf).fit(rows)
    assert search.best_params_ == {"n_components": 2}
    assert search.privacy_spent_.epsilon == np.inf
    grid = {"fit_intercept": [False, True]}
    better = DPGridSearch(DPTraceRegressor(), grid, epsilon=np.inf).fit(X, Y + 9)
    assert better.best_params_ == {"fit_intercept": True}


def test_parameters_that_are_arrays_are_compared_by_value():
    centers = [np.zeros(4), np.zeros(4), np.ones(4)]
    search = DPGridSearch(DPPCA(2), {"center": centers, "n_components": [1, 2]}).fit(X)
    assert search.n_distinct_fits_ == {"estimator": 2}
    learns_nothing = FunctionTransformer(lambda rows: rows)
    pipeline = make_pipeline(learns_nothing, Normalizer(), DPPCA(2))
    grid = {"functiontransformer__func": [lambda rows: rows, lambda rows: 2 * rows]}
    assert DPGridSearch(pipeline, grid).fit(X).n_distinct_fits_ == {"dppca": 2}
    # A function without a pickle in a list of steps is the same function for all candidates.
    union = make_dp_pipeline(make_union(learns_nothing), DPPCA(2))
    search = DPGridSearch(union, {"dppca__n_components": [1, 2]}).fit(X)
    assert search.n_distinct_fits_ == {"dppca": 1}


def test_what_cannot_be_compared_shares_no_fit():
    class Own(SparseRow):
        pass

    grid = {"privacy_unit__max_entries": [2, 3, 4, 5]}
    search = DPGridSearch(DPTruncatedSVD(1, privacy_unit=Own(3, (-5, 5))), grid).fit(X)
    assert search.n_distinct_fits_ == {"estimator": 4}


@pytest.mark.parametrize(
    "wrong", [{"response_bound": np.inf}, {"matrix_shape": (5, 4)}, {"covariance": np.eye(7)}]
)
def test_what_follows_an_open_number_of_components_is_checked_before(ledger, wrong):
    pipeline = make_pipeline(DPPCA(0.9), DPTraceRegressor(**wrong))
    with pytest.raises(ValueError, match="|".join(wrong)):
        DPGridSearch(pipeline, {"dppca__whiten": [False]}, ledger=ledger).fit(X, Y)
    assert ledger.entries() == []


@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
def test_a_private_score_is_near_the_score(adjacency):
    rows = np.random.default_rng(1).standard_normal((20_000, 3))
    responses = rows[:, 0] + 0.5 * np.random.default_rng(2).standard_normal(20_000)
    model = DPTraceRegressor(epsilon=np.inf).fit(rows[:100], responses[:100])
    found = private_score(model, rows, responses, adjacency=adjacency, random_state=SEED)
    assert found.value == pytest.approx(-0.25, abs=0.06)
    assert 0 < found.std < 0.01
    assert found.privacy_spent.unit == "record"
    assert found.privacy_spent.mu == pytest.approx(gaussian_dp.mu_from_epsilon_delta(1, 1e-6))


def test_a_private_accuracy_needs_no_level():
    digits, labels = load_digits(return_X_y=True)
    model = LogisticRegression(max_iter=200).fit(digits[:300], labels[:300])
    found = private_score(model, digits[300:], labels[300:], random_state=SEED)
    assert found.value == pytest.approx(model.score(digits[300:], labels[300:]), abs=5 * found.std)
    assert len(found.privacy_spent.releases) == 1


def test_a_score_is_charged_and_refused(ledger):
    model = DPPCA(2, row_norm=3, mean_norm=3).fit(X)
    private_score(model, X, epsilon=0.5, delta=1e-5, ledger=ledger)
    assert [entry["what"] for entry in ledger.entries()] == ["private_score, 80 rows"]
    with pytest.raises(BudgetError):
        private_score(model, X, epsilon=1e3, delta=1e-5, ledger=ledger)
    for more, told in (
        ({"scoring": "r2"}, "no mean over rows"),
        ({"scoring": "accuracy"}, "is for classifiers"),
        ({"scoring": "neg_mean_squared_error"}, "needs the method predict"),
        ({"scoring": get_scorer("r2")}, NOT_A_NAME),
        ({"epsilon": 0}, "epsilon"),
        ({"adjacency": "add"}, "adjacency"),
    ):
        with pytest.raises(ValueError, match=told):
            private_score(model, X, ledger=ledger, **more)
    assert len(ledger.entries()) == 1


def test_a_step_without_noise_of_its_own_reserves_its_tail():
    regression = WithTail(n_iter=2, epsilon=np.inf)
    search = DPGridSearch(regression, {"clip_quantile": [0.4, 0.5]}, epsilon=0.1, delta=1e-4)
    spent = search.fit(X, Y).privacy_spent_
    assert spent.delta_tail == pytest.approx(1e-5)
    assert spent.delta_at(0.1) <= 1e-4 * (1 + 1e-9)


def test_what_was_found_is_as_it_was_asked_for(ledger):
    pipeline = make_pipeline(DPPCA(2, epsilon=0.3), DPTraceRegressor(n_iter=2, delta=1e-7))
    grid = {"dppca__n_components": [1, 2]}
    search = DPGridSearch(pipeline, grid, ledger=ledger, random_state=SEED).fit(X, Y)
    pca, regression = search.best_estimator_
    assert (pca.epsilon, pca.delta, regression.epsilon, regression.delta) == (0.3, 1e-6, 1.0, 1e-7)
    assert pca.random_state is regression.random_state is None
    search.best_estimator_.fit(X, Y)
    assert len(ledger.entries()) == 3


def test_solvers_that_differ_do_not_share_a_fit():
    grid = {"solver": ["power", "covariance"]}
    search = DPGridSearch(DPPCA(2, mean_norm=30, row_norm=30), grid, random_state=SEED).fit(X)
    assert search.n_distinct_fits_ == {"estimator": 2}


def test_warnings_made_errors_cost_nothing(ledger):
    search = DPGridSearch(DPPCA(2, epsilon=1.0), {"whiten": [False, True]}, ledger=ledger)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyWarning)
        with pytest.raises(PrivacyWarning, match="too few rows"):
            search.fit(X)
    assert ledger.entries() == []


def test_errors_of_public_steps_tell_no_values():
    texts = np.array([["secret", "rows"]] * 80, dtype=object)
    one_hot = FrozenEstimator(OneHotEncoder().fit([["a", "b"], ["c", "d"]]))
    for step, reason in ((one_hot, "refuses a category"), (Normalizer(), "left out")):
        with pytest.raises(ValueError, match=reason) as refused:
            DPGridSearch(make_pipeline(step, DPPCA(1)), {"dppca__whiten": [False]}).fit(texts)
        assert refused.value.__context__ is None
        assert "secret" not in str(refused.value)


@pytest.mark.parametrize("epsilon", [1e-12, 1e-7])
def test_what_does_not_pay_for_its_fits_is_refused_before_the_charge(ledger, epsilon):
    search = DPGridSearch(DPPCA(2), {"n_components": [1, 2], "row_norm": [1.0, 2.0]})
    with pytest.raises(ValueError, match="too small"):
        search.set_params(epsilon=epsilon, ledger=ledger).fit(X)
    assert ledger.entries() == []


def test_a_score_of_few_rows_is_warned_of():
    model = DPPCA(2, row_norm=3, mean_norm=3).fit(X)
    with pytest.warns(PrivacyWarning, match="half of the losses are clipped"):
        private_score(model, X[:10])
    with pytest.warns(PrivacyWarning, match="% of the losses are clipped"):
        private_score(model, np.tile(X, (10, 1)), epsilon=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyWarning)
        found = private_score(model, np.tile(X, (100, 1)), epsilon=1.0)
    assert repr(found).startswith(f"PrivateScore(log_likelihood): {found.value:.4g} +- ")
    assert f", losses clipped at {found.level:.4g}\nfor rows that are not in the fit" in repr(found)
    with pytest.raises(ValueError, match="features"):
        private_score(model, X[:, :3])


def test_what_was_chosen_is_not_doubted_for_what_was_chosen():
    digits = load_digits().data
    pca = DPPCA(row_norm=40, mean_norm=64)
    with warnings.catch_warnings():
        # Once in some 40 searches noise hides the range of the losses, which is told.
        warnings.simplefilter("ignore", PrivacyWarning)
        warnings.filterwarnings("error", ".*stand out from the noise", PrivacyWarning)
        DPGridSearch(pca, {"n_components": [20, 40]}).fit(digits)
    with pytest.warns(PrivacyWarning, match="stand out from the noise"):
        DPGridSearch(pca, {"n_components": [40]}).fit(digits)
