"""Errors of arguments name the class that the user has called, and what it takes."""

import inspect
import pickle

import numpy as np
import pytest
from public import ESTIMATORS
from refusals import refusal_of
from sklearn import config_context
from sklearn.base import clone

import skdp
from skdp import (
    DPPCA,
    DPLogisticRegression,
    DPPipeline,
    DPStandardScaler,
    DPTraceClassifier,
    DPTruncatedSVD,
)
from skdp.model_selection import DPGridSearch
from skdp.units import Edge

OF_SKLEARN = ("algorithm", "svd_solver", "tol", "copy", "power_iteration_normalizer")


class Mine(DPPCA):
    def __init__(self, n_components=None, *, tol=0.0):
        super().__init__(n_components)
        self.tol = tol


@pytest.mark.covered
@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.parametrize("name", OF_SKLEARN)
def test_parameters_of_scikit_learn_that_mean_nothing_are_refused_with_those_that_do(kind, name):
    with pytest.raises(TypeError, match=f"{kind.__name__}.*unexpected.*{name!r}") as refused:
        kind(**{name: "any"})
    told = str(refused.value)
    assert told.endswith(f"It takes {', '.join(inspect.signature(kind).parameters)}.")
    assert ("Use solver." in told) == (name in OF_SKLEARN[:2])
    assert refused.value.__cause__ is None


def test_a_class_of_the_user_may_take_what_it_likes():
    assert clone(Mine(2, tol=0.5)).tol == 0.5
    assert pickle.loads(pickle.dumps(Mine(2, tol=0.5))).tol == 0.5
    with pytest.raises(
        TypeError, match=r"^Mine\.__init__: .*'algorithm'\. Use solver\. It takes n_comp"
    ):
        Mine(algorithm="arpack")


X = np.zeros((20, 3))
WRONG = {
    "DPPCA.fit": lambda: DPPCA().fit(),
    "DPTruncatedSVD.fit": lambda: DPTruncatedSVD().fit(X, sample_weight=1),
    "DPTruncatedSVD.inverse_transform": lambda: DPTruncatedSVD().inverse_transform(),
    "DPLogisticRegression.predict": lambda: DPLogisticRegression().predict(),
    "DPStandardScaler.plan": lambda: DPStandardScaler().plan(),
    "DPPCA.__init__": lambda: DPPCA(2, True),
    "Mine.fit": lambda: Mine().fit(X, weights=1),
    "Mine.plan": lambda: Mine().plan(like=X),
    "DPGridSearch.__init__": lambda: DPGridSearch(DPPCA()),
    "DPGridSearch.fit": lambda: DPGridSearch(DPPCA(), {}).fit(),
    "DPPipeline.fit": lambda: DPPipeline([("a", DPPCA())]).fit(),
    "DPPipeline.predict": lambda: DPPipeline([("a", DPLogisticRegression())]).predict(),
    "DPStreamingFactorizer.__init__": lambda: skdp.DPStreamingFactorizer(2, tol=1),
    "Edge.__init__": lambda: Edge(),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_of_arguments_name_the_class_of_the_user(name):
    with pytest.raises(TypeError, match=rf"^{name}: ") as refused:
        WRONG[name]()
    assert "Estimator" not in str(refused.value)


def test_an_error_from_within_stays_as_it_is():
    with pytest.raises(TypeError, match=r"^n_samples must be"):
        DPPCA().plan("a", 3)
    assert list(inspect.signature(DPPCA.fit).parameters) == ["self", "X", "y", "users"]


@pytest.mark.parametrize(
    "model",
    [
        DPLogisticRegression(classes=[0, 1], row_norm=-1.0),
        DPPCA(2, row_norm=-1.0, mean_norm=1.0),
        DPTraceClassifier(classes=[0, 1], row_norm=1e300),
    ],
)
def test_bounds_are_checked_even_if_scikit_learn_skips_the_check_of_parameters(model):
    rows = np.random.default_rng(0).standard_normal((40, 3))
    with config_context(skip_parameter_validation=True):
        told = str(refusal_of(model, rows, (rows[:, 0] > 0).astype(int)).value)
    assert told.startswith(f"The 'row_norm' parameter of {type(model).__name__} must be")
