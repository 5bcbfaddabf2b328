"""Warnings name the line of the user, whatever lies between it and a fit."""

import warnings

import joblib
import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

import skdp
from skdp import DPPCA, DPTraceRegressor, PrivacyWarning
from skdp.model_selection import DPGridSearch, epsilon_curve

X = np.random.default_rng(0).standard_normal((60, 4))
Y = X[:, 0]
PIPELINE = make_pipeline(DPPCA(2), DPTraceRegressor())
JOBS = {
    "fit": lambda: DPPCA(2).fit(X),
    "pipeline": lambda: PIPELINE.fit(X, Y),
    "search": lambda: GridSearchCV(PIPELINE, {"dppca__n_components": [1, 2]}, cv=2).fit(X, Y),
    "scores": lambda: cross_val_score(DPPCA(2), X, cv=2),
    "private search": lambda: DPGridSearch(PIPELINE, {"dppca__n_components": [1]}).fit(X, Y),
    "curve": lambda: epsilon_curve(DPPCA(2), X, epsilons=[1], n_samples=100),
}


def files_of(job):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        job()
    return {one.filename for one in caught if issubclass(one.category, PrivacyWarning)}


@pytest.mark.parametrize("name", JOBS)
def test_a_warning_is_at_the_line_of_the_user(name):
    assert files_of(JOBS[name]) == {__file__}


def test_a_warning_of_a_thread_is_at_a_line_of_skdp():
    search = GridSearchCV(DPPCA(2), {"n_components": [1, 2]}, cv=2, n_jobs=2, refit=False)
    with joblib.parallel_backend("threading"):
        found = files_of(lambda: search.fit(X))
    assert found
    assert all(file == __file__ or file.startswith(skdp.__path__[0]) for file in found)
