"""Weights of classes: public odds, which no release depends on."""

import numpy as np
import pytest
from scipy.special import expit, logsumexp
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from watched import moved, replaying, watched

from skdp import DPLogisticRegression, PrivacyLedger, make_dp_pipeline
from skdp.federated import Federation

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
GENERATOR = np.random.default_rng(0)
X = GENERATOR.standard_normal((4000, 3))
RARE = (GENERATOR.random(4000) < expit(2 * X[:, 0] - X[:, 1] - 3)).astype(int)
THREE = np.where(X[:, 2] > 1, "c", np.where(X[:, 1] > 0, "b", "a"))


def fitted(y, weights, **more):
    labels = np.unique(y).tolist()
    model = DPLogisticRegression(classes=labels, class_weight=weights, random_state=1, **more)
    return model.fit(X, y)


@pytest.mark.parametrize("epsilon", [1.0, np.inf])
@pytest.mark.parametrize(("y", "weights"), [(RARE, {1: 9.0}), (THREE, {"a": 0.5, "c": 3})])
def test_weights_multiply_the_odds_and_nothing_else(y, weights, epsilon):
    with watched() as budgets:
        plain = fitted(y, None, epsilon=epsilon)
    with replaying(budgets):
        weighted = fitted(y, weights, epsilon=epsilon)
    np.testing.assert_array_equal(plain.coef_, weighted.coef_)
    assert plain.privacy_spent_.releases == weighted.privacy_spent_.releases
    logs = np.log([weights.get(one, 1.0) for one in plain.classes_.tolist()])
    moved = plain.predict_log_proba(X[:50]) + logs
    expected = moved - logsumexp(moved, axis=1, keepdims=True)
    np.testing.assert_allclose(weighted.predict_log_proba(X[:50]), expected, atol=1e-12)
    assert weighted.get_params()["class_weight"] == weights


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize("y", [RARE, THREE])
def test_weights_of_1_change_nothing(y):
    ones = dict.fromkeys(np.unique(y).tolist(), 1)
    with watched() as budgets:
        fitted(y, None)
    for name in ("coef_", "intercept_"):
        found = []
        for one in (None, ones, {}):
            with replaying(budgets):
                found.append(getattr(fitted(y, one), name))
        np.testing.assert_array_equal(found[0], found[1])
        np.testing.assert_array_equal(found[0], found[2])


def test_nothing_is_released_of_weights():
    with watched() as before:
        fitted(RARE, None)
    with replaying(before) as after:
        fitted(RARE, {1: 50.0})
    assert moved(before, after) == [0.0] * len(before[0].values)


def test_weights_find_a_rare_class_as_weighted_rows_do():
    twin = LogisticRegression(class_weight={1: 12}).fit(X, RARE)
    found = [
        balanced_accuracy_score(RARE, model.predict(X))
        for model in (twin, fitted(RARE, {1: 12}, epsilon=4.0), fitted(RARE, None, epsilon=4.0))
    ]
    assert found[1] > found[0] - 0.08
    assert found[1] > found[2] + 0.02
    exact = fitted(RARE, {1: 12}, epsilon=np.inf)
    np.testing.assert_allclose(exact.coef_, twin.coef_, atol=0.3)
    np.testing.assert_allclose(exact.intercept_, twin.intercept_, atol=0.3)


@pytest.mark.parametrize(
    ("weights", "told"),
    [
        ("balanced", "'class_weight' parameter"),
        ({2: 1.0}, r"class_weight has 2, which is not among classes: its keys"),
        *(({1: one}, "must be a number from 1e-100") for one in (0, -1, np.inf, np.nan, "1", None)),
    ],
)
def test_bad_weights_are_refused_before_anything_is_spent(weights, told, tmp_path):
    ledger = PrivacyLedger.create(tmp_path / "x", dataset="x", epsilon=9, delta=1e-5, unit="record")
    with pytest.raises(ValueError, match=told):
        fitted(RARE, weights, ledger=ledger)
    assert ledger.entries() == []


def test_a_pipeline_hands_weights_on():
    step = DPLogisticRegression(classes=[0, 1], class_weight={np.int64(1): 9})
    plain, weighted = (
        make_dp_pipeline(one, epsilon=np.inf).fit(X, RARE)
        for one in (DPLogisticRegression(classes=[0, 1]), step)
    )
    moved = weighted[-1].intercept_ - plain[-1].intercept_
    np.testing.assert_allclose(moved, np.log(9), rtol=1e-9)


def test_owners_agree_on_weights():
    rows, labels = [X[:2000], X[2000:]], [RARE[:2000], RARE[2000:]]

    def federation(weights):
        model = DPLogisticRegression(classes=[0, 1], class_weight=weights, epsilon=np.inf)
        return Federation(model, 4000, 3, owners=2)

    plain, weighted = (federation(weights).fit(rows, labels) for weights in (None, {1: 9.0}))
    np.testing.assert_allclose(weighted.intercept_ - plain.intercept_, np.log(9))
    digests = {federation(one)._agreement.digest for one in (None, {1: 9.0}, {1: 8.0})}
    assert len(digests) == 3
