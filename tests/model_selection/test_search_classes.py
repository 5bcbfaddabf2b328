"""Searches among classifiers: labels are checked before anything is spent, classes are given."""

import warnings

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from skdp import DPPCA, DPLogisticRegression, privacy_spent
from skdp.model_selection import DPGridSearch, epsilon_curve, private_score

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
generator = np.random.default_rng(0)
X = generator.normal(size=(1500, 5)) * [3, 1, 1, 1, 1]
Y = np.where(X[:, 0] + 0.9 * generator.normal(size=1500) > 0, "yes", "no")
CLASSES = ["no", "yes"]
NORMS = {"row_norm": [3.0, 6.0]}
CLASSIFIER = DPLogisticRegression(classes=CLASSES)
PIPELINE = make_pipeline(DPPCA(4, row_norm=6, mean_norm=1), CLASSIFIER)


def test_a_search_chooses_among_classifiers():
    search = DPGridSearch(CLASSIFIER, NORMS, epsilon=8.0).fit(X, Y)
    assert search.score(X, Y) > 0.85
    assert search.classes_.tolist() == CLASSES
    assert search.privacy_spent_.unit == "record"
    whole = DPGridSearch(PIPELINE, {"dppca__n_components": [2, 5]}, epsilon=8.0).fit(X, Y)
    assert whole.score(X, Y) > 0.6
    assert abs(private_score(search, X, Y, epsilon=8.0).value - search.score(X, Y)) < 0.05


@pytest.mark.parametrize(
    ("estimator", "grid"), [(CLASSIFIER, NORMS), (PIPELINE, {"dppca__n_components": [2, 5]})]
)
def test_a_label_that_is_no_class_is_refused_before_anything_is_charged(ledger, estimator, grid):
    labels = np.where(np.arange(len(Y)) == 3, "secret", Y)
    with pytest.raises(ValueError, match="not among classes") as refused:
        DPGridSearch(estimator, grid, ledger=ledger).fit(X, labels)
    assert "secret" not in str(refused.value)
    assert ledger.entries() == []


def test_what_knows_no_labels_needs_classes():
    for lacking in (DPLogisticRegression(), make_pipeline(DPPCA(4), DPLogisticRegression())):
        with pytest.raises(ValueError, match="pass classes"):
            epsilon_curve(lacking, X, Y, epsilons=[1.0], n_samples=1500)


def test_a_report_tells_whether_classes_were_promised():
    for classes in (None, CLASSES):
        model = DPLogisticRegression(classes=classes)
        fitted = GridSearchCV(model, NORMS, cv=2).fit(X, Y)
        records = [one for step in privacy_spent(fitted).steps for one in step.records]
        assert records
        assert {one.enforced for one in records} == {classes is not None}


@pytest.mark.parametrize(
    ("name", "grid"), [("", NORMS), ("dplogisticregression", {"dppca__n_components": [2, 5]})]
)
def test_a_search_takes_the_labels_for_classes_and_warns_once(name, grid):
    estimator = DPLogisticRegression()
    if name:
        estimator = make_pipeline(DPPCA(4, row_norm=6, mean_norm=1), estimator)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        search = DPGridSearch(estimator, grid, epsilon=8.0).fit(X, Y)
    assert sum(str(one.message).count("becomes public") for one in caught) == 1
    assert not search.privacy_spent_.enforced
    best = search.best_estimator_
    last = best.named_steps[name] if name else best
    assert last.classes is None
    assert last.classes_.tolist() == CLASSES
    assert not last.privacy_spent_.enforced
