"""scikit-learn's own tests of TruncatedSVD, run on DPTruncatedSVD without noise and clipping.

The test module is executed with our class in place of scikit-learn's, and its tests and fixtures
are collected from here.
"""

import importlib.util

import numpy as np
import pytest
import sklearn.decomposition

from skdp import DPTruncatedSVD


class TruncatedSVD(DPTruncatedSVD):
    """DPTruncatedSVD behind the signature that scikit-learn's tests call."""

    def __init__(
        self,
        n_components=2,
        *,
        algorithm="randomized",
        n_iter=5,
        n_oversamples=10,
        power_iteration_normalizer="auto",
        random_state=None,
        tol=0.0,
    ):
        super().__init__(
            n_components,
            epsilon=np.inf,
            row_norm=np.inf,
            solver="covariance",
            random_state=random_state,
        )
        self.algorithm = algorithm
        self.n_iter = n_iter
        self.n_oversamples = n_oversamples
        self.power_iteration_normalizer = power_iteration_normalizer
        self.tol = tol

    def fit(self, X, y=None):
        # ARPACK cannot give as many components as there are features.
        if self.algorithm == "arpack" and self.n_components >= np.shape(X)[1]:
            raise ValueError("n_components must be less than the number of features")
        return super().fit(X)


def suite_on(replacement):
    """Execute the test module under another name with the replacement in place."""
    spec = importlib.util.find_spec("sklearn.decomposition.tests.test_truncated_svd")
    copy = importlib.util.spec_from_file_location("truncated_svd_suite", spec.origin)
    module = importlib.util.module_from_spec(copy)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sklearn.decomposition, "TruncatedSVD", replacement)
        copy.loader.exec_module(module)
    return module


SUITE = suite_on(TruncatedSVD)
globals().update(
    {name: value for name, value in vars(SUITE).items() if name.startswith(("test_", "X_"))}
)


@pytest.fixture(params=[42, 0, 1, 2, 3])
def global_random_seed(request):
    return request.param


def test_the_suite_runs_on_our_class():
    assert SUITE.TruncatedSVD is TruncatedSVD
    assert sum(name.startswith("test_") for name in vars(SUITE)) >= 9
