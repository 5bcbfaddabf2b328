"""Filters of modules are seen before a charge; scores of pipelines, with users and in others."""

import math
import warnings
from functools import partial

import numpy as np
import pytest
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.metrics import get_scorer
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import skdp
from skdp.model_selection import DPGridSearch, private_score
from skdp.model_selection._score import mean_beyond

GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(300, 4))
Y = X[:, 0] + X[:, 1] / 2
IDS = np.repeat(np.arange(60), 5)


@pytest.mark.parametrize("is_search", [False, True])
def test_a_filter_of_this_module_raises_before_the_charge(ledger, is_search):
    model = skdp.DPPCA(1, delta=0.5, **({} if is_search else {"ledger": ledger}))
    if is_search:
        model = DPGridSearch(skdp.DPPCA(1), {}, delta=0.5, ledger=ledger)
    for where in ({"module": __name__}, {"lineno": _line_of_fit()}):
        with warnings.catch_warnings():
            warnings.filterwarnings("error", category=skdp.PrivacyWarning, **where)
            with pytest.raises(skdp.PrivacyWarning, match="delta"):
                _fitted(model)
        assert ledger.entries() == []
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=skdp.PrivacyWarning, module=__name__)
        warnings.filterwarnings("error", category=skdp.PrivacyWarning, module="another")
        _fitted(model)


def _fitted(model):
    return model.fit(X)


def _line_of_fit():
    return _fitted.__code__.co_firstlineno + 1


@pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
def test_a_pipeline_scores_with_users():
    steps = [
        ("scale", skdp.DPStandardScaler(privacy_unit="user")),
        ("last", skdp.DPPersonalizedRegressor(n_components=1, require_groups=True)),
    ]
    model = skdp.DPPipeline(steps, shares={"scale": 0.2}, epsilon=100).fit(X, Y, users=IDS)
    by_hand = model[-1].score(model[:-1].transform(X), Y, users=IDS)
    assert model.score(X, Y, users=IDS) == by_hand
    with pytest.raises(ValueError, match="as users=ids of a DPPipeline"):
        model.score(X, Y)


@pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
@pytest.mark.parametrize("is_search", [False, True])
def test_a_last_step_that_takes_no_users_says_so(is_search):
    model = skdp.DPPipeline([("last", skdp.DPLinearRegression())])
    if is_search:
        model = DPGridSearch(model, {"last__n_iter": [2]})
    model.fit(X, Y)
    with pytest.raises(ValueError, match=r"users must be None, as DPLinearRegression\.score"):
        model.score(X, Y, users=IDS)


@pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
def test_labels_of_another_kind_are_no_mistakes(ledger):
    """A score of 0 for them would be paid for."""
    y = (X[:, 0] > 0).astype(int)
    for of_fit, of_score in ((y, y.astype(str)), (y.astype(str), y), (y, y.astype(str).tolist())):
        model = skdp.DPLogisticRegression(classes=np.unique(of_fit)).fit(X, of_fit)
        assert private_score(model, X, of_fit.astype(object)).value > 0.5
        for scoring in ("accuracy", "neg_log_loss", "neg_brier_score"):
            with pytest.raises(ValueError, match="pass labels and classes of one type"):
                private_score(model, X, of_score, scoring=scoring, ledger=ledger)
    assert ledger.entries() == []


def _table(n=400):
    pd = pytest.importorskip("pandas")
    age = np.random.default_rng(1).integers(18, 90, n)
    return pd.DataFrame({"age": age.astype(float), "job": np.where(age % 3, "cook", "clerk")})


def _pipeline_of_texts(last, unknown="ignore"):
    columns = make_column_transformer(
        (skdp.DPStandardScaler(bounds={"age": (18, 90)}), ["age"]),
        (OneHotEncoder(categories=[["clerk", "cook"]], handle_unknown=unknown), ["job"]),
    )
    return skdp.make_dp_pipeline(columns, last, epsilon=50.0)


def _of_regression(table, *unknown):
    """Return amounts, and models that predict them through their logarithms."""
    y = np.exp(table["age"] / 30 + (table["job"] == "cook")).to_numpy()
    functions = {"func": np.log, "inverse_func": np.exp, "check_inverse": False}
    regression = skdp.DPLinearRegression(response_bound=6.0)
    around = TransformedTargetRegressor(_pipeline_of_texts(regression, *unknown), **functions)
    around.fit(table, y)
    inside = _pipeline_of_texts(TransformedTargetRegressor(regression, **functions), *unknown)
    others = [FrozenEstimator(around), make_pipeline(FrozenEstimator(around))]
    return y, [around, *others, inside.fit(table, y)]


def _of_classifier(table):
    y = np.where(table["age"] > 50, "yes", "no")
    model = _pipeline_of_texts(skdp.DPLogisticRegression(classes=["no", "yes"])).fit(table, y)
    frozen = FrozenEstimator(model)
    fixed = FixedThresholdClassifier(frozen, threshold=0.3, pos_label="yes").fit(table, y)
    tuned = TunedThresholdClassifierCV(frozen, cv="prefit", refit=False).fit(table, y)
    return y, [frozen, fixed, tuned, FrozenEstimator(fixed)]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
def test_estimators_around_a_pipeline_are_scored_on_what_it_takes(tmp_path):
    pytest.importorskip("pyarrow")
    table = _table()
    y, models = _of_regression(table)
    labels, classifiers = _of_classifier(table)
    cases = [(model, y, "neg_mean_absolute_error") for model in models]
    cases += [(model, labels, "balanced_accuracy") for model in classifiers]
    path = tmp_path / "table.parquet"
    table.assign(y=y, label=labels).to_parquet(path, row_group_size=150)
    for model, of_rows, name in cases:
        score = partial(private_score, model, scoring=name, epsilon=math.inf)
        column = "y" if of_rows is y else "label"
        parts = skdp.RowBlocks.from_parquet(path, list(table), y=column)
        found = score(table, of_rows)
        assert score(parts).value == pytest.approx(found.value, rel=1e-12)
        if of_rows is y:
            losses = np.abs(model.predict(table) - y)
            exact = -np.minimum(losses, found.level).mean()
        else:
            exact = get_scorer(name)(model, table, labels)
        assert found.value == pytest.approx(exact)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
def test_around_a_pipeline_unknown_categories_are_refused_unnamed_before_the_charge(ledger):
    table = _table()
    y, models = _of_regression(table, "error")
    table.loc[7, "job"] = "acrobat"
    for model in models:
        with pytest.raises(ValueError, match="refuses a category") as refused:
            private_score(model, table, y, ledger=ledger)
        assert "acrobat" not in str(refused.value)
    assert ledger.entries() == []


@pytest.mark.parametrize("is_long_tailed", [True, False])
def test_a_score_from_which_clipping_takes_much_is_warned_of(is_long_tailed):
    y = np.random.default_rng(0).normal(size=5000)
    y = np.expm1(2 * y) if is_long_tailed else y
    rows, model = np.zeros((5000, 1)), LinearRegression().fit(np.zeros((2, 1)), np.zeros(2))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", skdp.PrivacyWarning)
        found = private_score(model, rows, y, epsilon=1.0)
    lost = np.mean(y**2) + found.value
    told = [str(one.message) for one in caught if "clipping seems to take" in str(one.message)]
    assert bool(told) == is_long_tailed
    # The warned score is off by more than ten of its stds, the other one by less than a tenth.
    assert lost > 10 * found.std if is_long_tailed else lost < 0.1 * np.mean(y**2)


def test_what_counts_show_beyond_a_level_is_exact_for_an_exponential_tail():
    points = np.linspace(0, 6, 25)
    counted = dict(zip(points, 1000 * (1 - np.exp(-points / 2)), strict=True))
    for level in points[8::4]:
        assert mean_beyond(level, counted, 1000) == pytest.approx(2 * np.exp(-level / 2))
    assert mean_beyond(6.0, {**counted, 6.0: 1000.0}, 1000) == 0
    assert mean_beyond(0.0, counted, 1000) == 0
