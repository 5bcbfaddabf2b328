"""scikit-learn's own tests of TruncatedSVD, run on DPTruncatedSVD without noise and clipping."""

import numpy as np
import pytest
from suites import Suite

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


SUITE = Suite("test_truncated_svd", TruncatedSVD)
globals().update(SUITE.tests)
X_sparse = SUITE.module.X_sparse


@pytest.fixture(params=[42, 0, 1, 2, 3])
def global_random_seed(request):
    return request.param


def test_the_suite_is_the_one_we_know(request):
    SUITE.check([item.name for item in request.node.parent.collect()])
