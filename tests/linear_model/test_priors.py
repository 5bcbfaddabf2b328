"""Regressions that build on a published model, kept by value, and taken as far as it fits."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.utils._testing import ignore_warnings

from skdp import DPLinearRegression, model_card, privacy_spent, to_sklearn

KEY = 2**70


def records(n, seed=0, d=8):
    generator = np.random.default_rng(seed)
    X = generator.normal(50, 10, size=(n, d))
    return X, X @ np.linspace(-1, 1, d) + 5 + 5 * generator.normal(size=n)


PUBLIC = records(200, seed=1)
GOOD = LinearRegression().fit(*PUBLIC)
BAD = (-GOOD.coef_, 0.0)


def scores(prior, epsilon, n, n_fits=8):
    X, y = records(n)
    given = {"epsilon": epsilon, "prior": prior}
    fits = [DPLinearRegression(random_state=KEY + s, **given).fit(X, y) for s in range(n_fits)]
    new = records(2000, seed=2)
    return np.mean([fit.score(*new) for fit in fits]), np.mean([f.prior_weight_ for f in fits])


@ignore_warnings
@pytest.mark.parametrize(("epsilon", "n"), [(0.25, 2000), (0.5, 1000)])
def test_a_good_prior_is_taken_and_helps(epsilon, n):
    (plain, _), (better, weight) = scores(None, epsilon, n), scores(GOOD, epsilon, n)
    assert better > plain + 0.05
    assert weight > 0.5


@ignore_warnings
def test_a_bad_prior_costs_little():
    (plain, _), (other, weight) = scores(None, 1.0, 6000), scores(BAD, 1.0, 6000)
    assert weight < 0.05
    assert other > plain - 0.02


@ignore_warnings
@pytest.mark.parametrize("container", [np.asarray, list])
def test_what_a_prior_says_is_kept_by_value(container):
    X, y = records(300)
    model = clone(clone(DPLinearRegression(prior=GOOD)))
    assert model.prior[0].tolist() == GOOD.coef_.tolist()
    assert model.set_params(prior=FrozenEstimator(Ridge().fit(*PUBLIC))).fit(X, y).prior_weight_ > 0
    values = container(GOOD.coef_), GOOD.intercept_
    one, other = (
        DPLinearRegression(prior=prior, random_state=KEY).fit(X, y) for prior in (GOOD, values)
    )
    # The names of features, which are none, are part of what a seed is keyed by.
    assert one.prior_weight_ == pytest.approx(other.prior_weight_, abs=0.5)


def test_a_prior_behind_scalers_has_their_units():
    scaled = make_pipeline(StandardScaler(), StandardScaler(with_mean=False), LinearRegression())
    coef, intercept, _ = DPLinearRegression(prior=scaled.fit(*PUBLIC)).prior
    np.testing.assert_allclose(coef, GOOD.coef_, rtol=1e-9)
    np.testing.assert_allclose(intercept, GOOD.intercept_, rtol=1e-9)


@ignore_warnings
def test_priors_do_not_share_noise():
    X, y = records(300)
    fits = [
        DPLinearRegression(prior=(GOOD.coef_, one), random_state=KEY, epsilon=0.1).fit(X, y)
        for one in (5.0, 5.0, 6.0)
    ]
    assert fits[0].intercept_ == fits[1].intercept_
    assert fits[0].prior_weight_ != fits[2].prior_weight_


def test_without_noise_a_prior_changes_nothing():
    X, y = records(300)
    plain, other = (DPLinearRegression(epsilon=np.inf, prior=one).fit(X, y) for one in (None, BAD))
    assert (other.prior_weight_, other.coef_.tolist()) == (0.0, plain.coef_.tolist())


@pytest.mark.parametrize(
    ("prior", "match"),
    [
        (LinearRegression(), "clone has undone that: pass it in a FrozenEstimator"),
        (make_pipeline(MinMaxScaler(), Ridge()).fit(*PUBLIC), "prior must be a linear model"),
        (3.0, "prior must be a linear model or a tuple"),
        (([1.0], 0.0), r"prior has an array of shape \(1,\) where X asks for \(8,\)"),
        ((np.full(8, np.nan), 0.0), "prior must have finite numbers"),
        ((["a"] * 8, 0.0), "an entry that is not a number"),
        ((np.ones(8), 0.0, tuple("abcdefgh")), "other names of features"),
    ],
)
def test_other_priors_are_refused_before_anything_is_spent(prior, match):
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(records(50)[0]).add_prefix("x")
    model = DPLinearRegression(prior=prior)
    with pytest.raises(ValueError, match=match):
        model.fit(X, X["x0"])
    assert not hasattr(model, "privacy_spent_")


@ignore_warnings
def test_it_is_a_public_fact_of_the_report_and_the_card():
    model = DPLinearRegression(prior=GOOD).fit(*records(400))
    assert "prior" in privacy_spent(model).steps[0].note
    verdict = privacy_spent(model).verdict
    assert verdict.endswith("priors that are taken to be public, in DPLinearRegression")
    assert "priors" not in privacy_spent(DPLinearRegression().fit(*records(400))).verdict
    assert model_card(model).assumptions["prior"][0] == GOOD.coef_.tolist()


@ignore_warnings
@pytest.mark.parametrize("n", [400, 4000])
def test_its_twin_predicts_the_same_far_away(n):
    pandas = pytest.importorskip("pandas")
    X, y = records(n)
    frame = pandas.DataFrame(X).add_prefix("x")
    model = DPLinearRegression(prior=GOOD, epsilon=0.5, random_state=KEY).fit(frame, y)
    far = frame * 100
    np.testing.assert_allclose(to_sklearn(model).predict(far), model.predict(far), rtol=1e-9)


@ignore_warnings
def test_sparse_and_dense_rows_get_the_same_agreement():
    from scipy.sparse import csr_array

    X, y = records(500)
    given = {"epsilon": 1e6, "prior": GOOD}
    dense, other = (DPLinearRegression(**given).fit(rows, y) for rows in (X, csr_array(X)))
    assert dense.prior_weight_ == pytest.approx(other.prior_weight_, abs=0.02)
