"""Classifiers that build on a published one, kept by value, and taken as far as losses fall."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils._testing import ignore_warnings

from skdp import DPLogisticRegression, model_card, privacy_spent, to_sklearn

KEY, D = 2**70, 8


def records(n, seed=0, n_classes=2):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n, D)) + 0.5
    slopes = np.random.default_rng(9).normal(0, 0.8, size=(D, n_classes))
    return X, np.argmax((X - 0.5) @ slopes + generator.gumbel(size=(n, n_classes)), axis=1)


def public(n_classes=2):
    return make_pipeline(StandardScaler(), LogisticRegression()).fit(*records(400, 1, n_classes))


GOOD = public()
BAD = (-GOOD[-1].coef_, np.zeros(1))


def scores(prior, epsilon, n, n_classes=2, n_fits=6):
    X, y = records(n, n_classes=n_classes)
    given = {"classes": range(n_classes), "epsilon": epsilon, "prior": prior}
    fits = [DPLogisticRegression(random_state=KEY + s, **given).fit(X, y) for s in range(n_fits)]
    new, codes = records(2000, 2, n_classes)
    areas = [roc_auc_score(codes == 1, fit.predict_log_proba(new)[:, 1]) for fit in fits]
    return np.mean(areas), np.mean([fit.prior_weight_ for fit in fits])


@pytest.mark.covered(at_most=1)
@ignore_warnings
@pytest.mark.parametrize(("n_classes", "n"), [(2, 1000), (4, 2000)])
def test_a_good_prior_is_taken_and_helps(n_classes, n):
    plain, _ = scores(None, 0.25, n, n_classes)
    better, weight = scores(public(n_classes), 0.25, n, n_classes)
    assert better > plain + 0.02
    assert weight > 0.3


@ignore_warnings
def test_a_bad_prior_costs_little():
    (plain, _), (other, weight) = scores(None, 1.0, 6000), scores(BAD, 1.0, 6000)
    assert weight < 0.05
    assert other > plain - 0.02


@ignore_warnings
def test_with_much_budget_the_fit_undoes_what_is_wrong_in_a_prior():
    coef = GOOD[-1].coef_ / GOOD[0].scale_
    half = coef * (np.arange(D) < 5), -0.5 * coef[:, :5].sum(axis=1)
    (plain, _), (other, weight) = scores(None, 30.0, 6000), scores(half, 30.0, 6000)
    assert weight > 0.3
    assert other == pytest.approx(plain, abs=0.01)


@ignore_warnings
def test_what_a_prior_says_is_kept_by_value():
    X, y = records(300)
    model = clone(clone(DPLogisticRegression(classes=[0, 1], prior=FrozenEstimator(GOOD))))
    coef, intercept, classes, names = model.prior
    assert (classes, names) == ((0, 1), None)
    np.testing.assert_allclose(X @ coef.T + intercept, GOOD.decision_function(X)[:, None])
    fits = [
        clone(model).set_params(prior=(one * coef, intercept), random_state=KEY).fit(X, y)
        for one in (1.0, 1.0, 1.5)
    ]
    assert fits[0].intercept_ == fits[1].intercept_
    # Fits with other priors do not share noise.
    assert fits[0].intercept_ != fits[2].intercept_
    again = DPLogisticRegression(classes=[0, 1], prior=fits[0], epsilon=2.0).fit(X, y)
    assert 0 <= again.prior_weight_ <= 1


def test_without_noise_a_prior_changes_nothing():
    X, y = records(300)
    plain, other = (
        DPLogisticRegression(classes=[0, 1], epsilon=np.inf, prior=one).fit(X, y)
        for one in (None, BAD)
    )
    assert (other.prior_weight_, other.coef_.tolist()) == (0.0, plain.coef_.tolist())


@pytest.mark.parametrize(
    ("prior", "match"),
    [
        (LogisticRegression(), "clone has undone that: pass it in a FrozenEstimator"),
        (LinearRegression().fit(*records(50)), "prior must be a linear classifier"),
        (3.0, "prior must be a linear classifier or a tuple"),
        ((np.ones(D), 0.0), r"prior has an array of shape \(8,\) where X asks for \(1, 8\)"),
        (public(3), r"prior has an array of shape \(3, 8\)"),
        ((np.full((1, D), np.nan), np.zeros(1)), "prior must have finite numbers"),
        ((np.ones((1, D)), np.zeros(1), (0, 2)), "prior has other classes than this fit"),
        ((np.ones((1, D)), np.zeros(1), None, tuple("abcdefgh")), "other names of features"),
    ],
)
def test_other_priors_are_refused_before_anything_is_spent(prior, match):
    pandas = pytest.importorskip("pandas")
    X, y = records(50)
    model = DPLogisticRegression(classes=[0, 1], prior=prior)
    with pytest.raises(ValueError, match=match):
        model.fit(pandas.DataFrame(X).add_prefix("x"), y)
    assert not hasattr(model, "privacy_spent_")


@ignore_warnings
def test_it_is_a_public_fact_of_the_report_the_plan_and_the_card():
    X, y = records(400)
    model = DPLogisticRegression(classes=[0, 1], prior=GOOD, random_state=KEY).fit(X, y)
    assert "prior" in privacy_spent(model).steps[0].note
    assert "prior agreement" in [release.name for release in model.plan(X.shape).releases]
    assert model_card(model).assumptions["prior"][2] == [0, 1]
    np.testing.assert_allclose(to_sklearn(model).predict_proba(X), model.predict_proba(X))


@ignore_warnings
def test_sparse_and_dense_rows_and_rows_in_parts_get_the_same_agreement():
    from in_parts import in_parts
    from scipy.sparse import csr_array

    X, y = records(500)
    given = {"classes": [0, 1], "epsilon": 1e6, "prior": GOOD}
    fits = [
        DPLogisticRegression(**given).fit(*data)
        for data in ((X, y), (csr_array(X), y), (in_parts(X, y),))
    ]
    weights = [fit.prior_weight_ for fit in fits]
    np.testing.assert_allclose(weights, weights[0], atol=0.05)
    assert weights[0] > 0.5
