"""Models that build on a published one, kept by value, and taken as far as it fits."""

import numpy as np
import pandas as pd
import pytest
from in_parts import in_parts
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.utils._testing import ignore_warnings

from skdp import DPLinearRegression, DPLogisticRegression, model_card, privacy_spent, to_sklearn

KEY, D = 2**70, 8


def records(n, seed=0):
    generator = np.random.default_rng(seed)
    X = generator.normal(50, 10, size=(n, D))
    return X, X @ np.linspace(-1, 1, D) + 5 + 5 * generator.normal(size=n)


def labeled(n, seed=0, n_classes=2):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n, D)) + 0.5
    slopes = np.random.default_rng(9).normal(0, 0.8, size=(D, n_classes))
    return X, np.argmax((X - 0.5) @ slopes + generator.gumbel(size=(n, n_classes)), axis=1)


def of_four(n, seed=0):
    return labeled(n, seed, n_classes=4)


def public(of_records):
    return make_pipeline(StandardScaler(), LogisticRegression()).fit(*of_records(400, 1))


PUBLIC = records(200, seed=1)
LINE, CLASSES = LinearRegression().fit(*PUBLIC), public(labeled)
# Models, their records, a prior that fits and one that does not.
KINDS = {
    "linear": (DPLinearRegression(), records, LINE, (-LINE.coef_, 0.0)),
    "classes": (
        DPLogisticRegression(classes=[0, 1]),
        labeled,
        CLASSES,
        (-CLASSES[-1].coef_, np.zeros(1)),
    ),
    "four classes": (DPLogisticRegression(classes=range(4)), of_four, public(of_four), None),
}
each_kind = pytest.mark.parametrize("kind", ["linear", "classes"])


def scores(kind, prior, epsilon, n):
    model, of_records = KINDS[kind][:2]
    n_fits, given = (8 if kind == "linear" else 6), {"epsilon": epsilon, "prior": prior}
    fits = [
        clone(model).set_params(random_state=KEY + s, **given).fit(*of_records(n))
        for s in range(n_fits)
    ]
    X, y = of_records(2000, seed=2)
    if kind == "linear":
        found = [fit.score(X, y) for fit in fits]
    else:
        found = [roc_auc_score(y == 1, fit.predict_log_proba(X)[:, 1]) for fit in fits]
    return np.mean(found), np.mean([fit.prior_weight_ for fit in fits])


@pytest.mark.covered(at_most=1)
@ignore_warnings
@pytest.mark.parametrize(
    ("kind", "epsilon", "n", "gain", "least"),
    [
        ("linear", 0.25, 2000, 0.05, 0.5),
        ("linear", 0.5, 1000, 0.05, 0.5),
        ("classes", 0.25, 1000, 0.02, 0.3),
        ("four classes", 0.25, 2000, 0.02, 0.3),
    ],
)
def test_a_good_prior_is_taken_and_helps(kind, epsilon, n, gain, least):
    plain, _ = scores(kind, None, epsilon, n)
    better, weight = scores(kind, KINDS[kind][2], epsilon, n)
    assert better > plain + gain
    assert weight > least


@ignore_warnings
def test_a_prior_of_rare_responses_is_taken():
    X = np.random.default_rng(0).normal(size=(20_000, D))
    y = (X[:, 0] > 1.6).astype(float)
    prior = LinearRegression().fit(X, y)
    fits = [
        DPLinearRegression(prior=prior, epsilon=1.0, random_state=KEY + s).fit(X, y)
        for s in range(4)
    ]
    assert np.mean([fit.prior_weight_ for fit in fits]) > 0.6


@pytest.mark.slow
@ignore_warnings
@each_kind
def test_a_bad_prior_costs_little(kind):
    (plain, _), (other, weight) = (
        scores(kind, prior, 1.0, 6000) for prior in (None, KINDS[kind][3])
    )
    assert weight < 0.05
    assert other > plain - 0.02


@pytest.mark.slow
@ignore_warnings
@pytest.mark.parametrize("epsilon", [2.0, 100.0])
@pytest.mark.parametrize(
    "prior",
    [
        (1000 * LINE.coef_, 1000 * LINE.intercept_),
        (1e9 * LINE.coef_, 1e9 * LINE.intercept_),
        (LINE.coef_, LINE.intercept_ + 1e4),
    ],
    ids=["other units", "far smaller units", "another offset"],
)
def test_a_prior_that_predicts_other_numbers_costs_nothing(prior, epsilon):
    (plain, _), (other, weight) = (scores("linear", one, epsilon, 2000) for one in (None, prior))
    assert weight < 0.01
    assert other > plain - 0.01


@ignore_warnings
@pytest.mark.parametrize("epsilon", [16.0, 256.0])
def test_the_fit_undoes_what_a_prior_says_of_far_rows(epsilon):
    X, coef = np.random.default_rng(0).normal(size=(8000, 4)), np.array([1, -1, 0.5, 0])
    X[::33] += 40
    y = X @ coef + np.random.default_rng(1).normal(size=8000)
    half = np.array([1, 0, 0.5, 0])
    prior = half, float(np.mean(y - X @ half))
    model = DPLinearRegression(prior=prior, epsilon=epsilon, random_state=KEY)
    assert model.fit(X[:4000], y[:4000]).score(X[4000:], y[4000:]) > 0.9
    assert model.prior_weight_ > 0.1


@pytest.mark.slow
@ignore_warnings
def test_with_much_budget_the_fit_undoes_what_is_wrong_in_a_prior():
    coef = CLASSES[-1].coef_ / CLASSES[0].scale_
    half = coef * (np.arange(D) < 5), -0.5 * coef[:, :5].sum(axis=1)
    (plain, _), (other, weight) = (scores("classes", prior, 30.0, 6000) for prior in (None, half))
    assert weight > 0.3
    assert other == pytest.approx(plain, abs=0.01)


@ignore_warnings
@pytest.mark.parametrize("container", [np.asarray, list])
def test_what_a_prior_says_is_kept_by_value(container):
    X, y = records(300)
    model = clone(clone(DPLinearRegression(prior=LINE)))
    assert model.prior[0].tolist() == LINE.coef_.tolist()
    assert model.set_params(prior=FrozenEstimator(Ridge().fit(*PUBLIC))).fit(X, y).prior_weight_ > 0
    values = container(LINE.coef_), LINE.intercept_
    one, other = (
        DPLinearRegression(prior=prior, random_state=KEY).fit(X, y) for prior in (LINE, values)
    )
    # The names of features, which are none, are part of what a seed is keyed by.
    assert one.prior_weight_ == pytest.approx(other.prior_weight_, abs=0.5)


@ignore_warnings
def test_what_a_prior_of_classes_says_is_kept_by_value():
    X, y = labeled(300)
    model = clone(clone(DPLogisticRegression(classes=[0, 1], prior=FrozenEstimator(CLASSES))))
    coef, intercept, classes, names = model.prior
    assert (classes, names) == ((0, 1), None)
    np.testing.assert_allclose(X @ coef.T + intercept, CLASSES.decision_function(X)[:, None])
    fits = [
        clone(model).set_params(prior=(one * coef, intercept), random_state=KEY).fit(X, y)
        for one in (1.0, 1.0, 1.5)
    ]
    assert fits[0].intercept_ == fits[1].intercept_
    # Fits with other priors do not share noise.
    assert fits[0].intercept_ != fits[2].intercept_
    again = DPLogisticRegression(classes=[0, 1], prior=fits[0], epsilon=2.0).fit(X, y)
    assert 0 <= again.prior_weight_ <= 1


def test_a_prior_behind_scalers_has_their_units():
    scaled = make_pipeline(StandardScaler(), StandardScaler(with_mean=False), LinearRegression())
    coef, intercept, _ = DPLinearRegression(prior=scaled.fit(*PUBLIC)).prior
    np.testing.assert_allclose(coef, LINE.coef_, rtol=1e-9)
    np.testing.assert_allclose(intercept, LINE.intercept_, rtol=1e-9)


@ignore_warnings
def test_priors_do_not_share_noise():
    X, y = records(300)
    fits = [
        DPLinearRegression(prior=(LINE.coef_, one), random_state=KEY, epsilon=2.0).fit(X, y)
        for one in (5.0, 5.0, 6.0)
    ]
    assert fits[0].intercept_ == fits[1].intercept_
    assert fits[0].prior_weight_ != fits[2].prior_weight_


@each_kind
def test_without_noise_a_prior_changes_nothing(kind):
    model, of_records, _, bad = KINDS[kind]
    plain, other = (
        clone(model).set_params(epsilon=np.inf, prior=prior).fit(*of_records(300))
        for prior in (None, bad)
    )
    assert (other.prior_weight_, other.coef_.tolist()) == (0.0, plain.coef_.tolist())


@pytest.mark.parametrize(
    ("kind", "prior", "match"),
    [
        ("linear", LinearRegression(), "clone has undone it, pass a FrozenEstimator"),
        (
            "linear",
            make_pipeline(MinMaxScaler(), Ridge()).fit(*PUBLIC),
            "prior must be a linear model",
        ),
        ("linear", 3.0, "prior must be a linear model or a tuple"),
        ("linear", ([1.0], 0.0), r"prior has an array of shape \(1,\) where X asks for \(8,\)"),
        ("linear", (np.full(8, np.nan), 0.0), "prior must have finite numbers"),
        ("linear", (["a"] * 8, 0.0), "an entry that is not a number"),
        ("linear", (np.ones(8), 0.0, tuple("abcdefgh")), "must have the names of features"),
        ("classes", LogisticRegression(), "clone has undone it, pass a FrozenEstimator"),
        ("classes", LinearRegression().fit(*labeled(50)), "prior must be a linear classifier"),
        ("classes", 3.0, "prior must be a linear classifier or a tuple"),
        (
            "classes",
            (np.ones(D), 0.0),
            r"prior has an array of shape \(8,\) where X asks for \(1, 8\)",
        ),
        (
            "classes",
            public(lambda *args: labeled(*args, 3)),
            r"prior has an array of shape \(3, 8\)",
        ),
        ("classes", (np.full((1, D), np.nan), np.zeros(1)), "prior must have finite numbers"),
        (
            "classes",
            (np.ones((1, D)), np.zeros(1), (0, 2)),
            r"must have the classes 0, 1, in this order, got 0, 2\.$",
        ),
        (
            "classes",
            (np.ones((1, D)), np.zeros(1), None, tuple("abcdefgh")),
            "must have the names of features",
        ),
    ],
)
def test_other_priors_are_refused_before_anything_is_spent(kind, prior, match):
    model, of_records = KINDS[kind][:2]
    X, y = of_records(50)
    model = clone(model).set_params(prior=prior)
    with pytest.raises(ValueError, match=match):
        model.fit(pd.DataFrame(X).add_prefix("x"), y)
    assert not hasattr(model, "privacy_spent_")


@ignore_warnings
def test_it_is_a_public_fact_of_the_report_and_the_card():
    model = DPLinearRegression(prior=LINE).fit(*records(400))
    assert "prior" in privacy_spent(model).steps[0].note
    verdict = privacy_spent(model).verdict
    assert verdict.endswith("priors that are taken to be public, in DPLinearRegression")
    assert "priors" not in privacy_spent(DPLinearRegression().fit(*records(400))).verdict
    assert model_card(model).assumptions["prior"][0] == LINE.coef_.tolist()


@ignore_warnings
def test_one_of_classes_is_a_public_fact_of_the_report_the_plan_and_the_card():
    X, y = labeled(400)
    model = DPLogisticRegression(classes=[0, 1], prior=CLASSES, random_state=KEY).fit(X, y)
    assert "prior" in privacy_spent(model).steps[0].note
    assert "prior agreement" in [release.name for release in model.plan(X.shape).releases]
    assert model_card(model).assumptions["prior"][2] == [0, 1]
    np.testing.assert_allclose(to_sklearn(model).predict_proba(X), model.predict_proba(X))


@ignore_warnings
@pytest.mark.parametrize("n", [400, 4000])
def test_its_twin_predicts_the_same_far_away(n):
    X, y = records(n)
    frame = pd.DataFrame(X).add_prefix("x")
    model = DPLinearRegression(prior=LINE, epsilon=0.5, random_state=KEY).fit(frame, y)
    far = frame * 100
    np.testing.assert_allclose(to_sklearn(model).predict(far), model.predict(far), rtol=1e-9)


@ignore_warnings
@each_kind
def test_sparse_and_dense_rows_and_rows_in_parts_get_the_same_agreement(kind):
    model, of_records, good, _ = KINDS[kind]
    X, y = of_records(500)
    fits = [
        clone(model).set_params(epsilon=1e6, prior=good).fit(*data)
        for data in ((X, y), (csr_array(X), y), (in_parts(X, y),))
    ]
    weights = [fit.prior_weight_ for fit in fits]
    np.testing.assert_allclose(weights, weights[0], atol=0.05 if kind == "classes" else 0.02)
    assert weights[0] > 0.5
