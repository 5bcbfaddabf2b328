"""What scikit-learn wraps around a classifier hands it other labels: all of that, in one table."""

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.feature_selection import RFE
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, cross_val_predict
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.semi_supervised import SelfTrainingClassifier

from skdp import DPLogisticRegression, DPPipeline, DPStandardScaler, DPTraceClassifier, RowBlocks
from skdp.model_selection import DPGridSearch


class _Predicted:
    """Predicts as `cross_val_predict` does, by probabilities."""

    def __init__(self, model):
        self.model = model

    def fit(self, X, y):
        classes = np.unique(y)
        table = cross_val_predict(self.model, X, y, cv=2, method="predict_proba")
        self.predictions = classes[table.argmax(axis=1)]
        return self

    def predict(self, X):
        return self.predictions


_WRAPPERS = {
    "bagging": lambda model: BaggingClassifier(model, 2, random_state=0),
    "calibrated": lambda model: CalibratedClassifierCV(model, ensemble=False, cv=2),
    "calibrated, ensemble": lambda model: CalibratedClassifierCV(model, ensemble=True, cv=2),
    "chain": ClassifierChain,
    "grid": lambda model: GridSearchCV(model, {"delta": [1e-6]}, cv=2),
    "one vs one": OneVsOneClassifier,
    "one vs rest": OneVsRestClassifier,
    "output codes": lambda model: OutputCodeClassifier(model, code_size=4, random_state=0),
    "outputs": MultiOutputClassifier,
    "pipeline": make_pipeline,
    "predicted": _Predicted,
    "rfe": lambda model: RFE(model, n_features_to_select=2),
    "self-training": SelfTrainingClassifier,
    "stacking": lambda model: StackingClassifier([("one", model)], model, cv=2),
    "threshold": FixedThresholdClassifier,
    "vote": lambda model: VotingClassifier([("one", model)]),
    "soft vote": lambda model: VotingClassifier([("one", model)], voting="soft"),
}
_LABELS = {
    "strings": ["yes", "no"],
    "three strings": ["c", "a", "b"],
    "whole": [0, 1],
    "three whole": [0, 1, 2],
    "boolean": [False, True],
    "other whole": [3, 7],
}
_OF_TWO = {"one vs one": [0, 1], "one vs rest": [0, 1], "output codes": [-1, 1]}
_ENCODES = {"bagging", "calibrated", "predicted", "stacking", "vote", "soft vote"}


def _rows(labels, n_rows=90):
    places = np.arange(n_rows) % len(labels)
    X = np.random.default_rng(0).normal(size=(n_rows, 3)) / 4 + 3 * np.eye(3)[places]
    return X, np.array(labels)[places]


def _model(classes, kind=DPLogisticRegression):
    return kind(classes=classes, epsilon=np.inf)


def _classes_for(wrapper, labels):
    """Return the classes that errors say to pass."""
    if wrapper in _OF_TWO and (len(labels) > 2 or wrapper == "output codes"):
        return _OF_TWO[wrapper]
    return labels


@pytest.mark.parametrize("labels", _LABELS.values(), ids=_LABELS)
@pytest.mark.parametrize("wrapper", _WRAPPERS)
@pytest.mark.covered
def test_all_that_scikit_learn_wraps_around_a_classifier(wrapper, labels):
    if wrapper in _ENCODES | {"one vs one", "one vs rest"} and labels == [3, 7]:
        labels = [0, 1]
    # The threshold is for two classes.
    labels = labels[:2] if wrapper == "threshold" else labels
    X, y = _rows(labels)
    if wrapper == "chain" and isinstance(labels[0], str):
        # It takes no strings, as predictions become features.
        y = np.unique(y, return_inverse=True)[1]
    if wrapper == "self-training":
        y = y.astype(object) if isinstance(labels[0], str) else y.astype(int)
        y = np.where(np.arange(len(y)) < 80, y, -1)
    targets = np.column_stack([y, y]) if wrapper in ("chain", "outputs") else y
    fitted = _WRAPPERS[wrapper](_model(_classes_for(wrapper, labels))).fit(X, targets)
    assert np.mean(fitted.predict(X)[:80] == targets[:80]) > 0.97


@pytest.mark.parametrize("wrapper", [*_OF_TWO, *sorted(_ENCODES)])
def test_what_to_pass_is_said_where_labels_are_encoded(wrapper):
    labels = [0, 1, 2] if wrapper in _OF_TWO else [3, 7]
    X, y = _rows(labels)
    for n_labels in range(2, len(labels) + 1):
        # With labels of two classes only the process ended by a segmentation fault.
        some = y <= labels[n_labels - 1]
        with pytest.raises(ValueError, match=r"pass classes=(\[0, |list)"):
            _WRAPPERS[wrapper](_model(labels)).fit(X[some], y[some])


@pytest.mark.parametrize("kind", [DPLogisticRegression, DPTraceClassifier])
def test_numbers_are_codes_of_strings(kind):
    X, y = _rows(["no", "yes"])
    X = X if kind is DPLogisticRegression else X.reshape(-1, 1, 3)
    codes = (y == "yes").astype(int)
    of_strings, of_codes = (_model(["yes", "no"], kind).fit(X, each) for each in (y, codes))
    np.testing.assert_array_equal(of_codes.coef_, of_strings.coef_)
    np.testing.assert_array_equal(of_codes.classes_, [0, 1])
    assert of_codes.score(X, codes) == of_strings.score(X, y) == 1
    for other in (codes.astype(float), codes == 1, codes + 1):
        with pytest.raises(ValueError, match=r"not among classes|of one type"):
            _model(["yes", "no"], kind).fit(X, other)
    with pytest.raises(ValueError, match=r"classes has texts: .* classes=\[0, 1\]\.$"):
        _model(["1", "0"], kind).fit(X, codes)


def test_codes_in_a_pipeline_in_a_search_and_in_parts():
    X, y = _rows(["no", "yes"])
    codes = (y == "yes").astype(int)
    whole = DPPipeline([("one", _model(["no", "yes"]).set_params(epsilon=1.0))], epsilon=np.inf)
    search = DPGridSearch(
        _model(["no", "yes"]), {"row_norm": [np.inf]}, scoring="accuracy", epsilon=np.inf
    )
    blocks = RowBlocks.from_partitions([lambda: X], [len(X)], 3, y=[lambda: codes])
    fits = [whole.fit(X, codes), search.fit(X, codes), _model(["no", "yes"]).fit(blocks)]
    assert all(np.array_equal(one.predict(X), codes) for one in fits)
    assert whole.fit(blocks).score(X, codes) == 1
    scaled = DPPipeline([("scale", DPStandardScaler()), *whole.steps], epsilon=np.inf)
    assert scaled.fit(blocks).score(X, codes) == 1
