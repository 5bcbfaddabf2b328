"""scikit-learn's own tests of PCA, run on DPPCA without noise and clipping."""

from dataclasses import replace

import numpy as np
import pytest
from suites import Suite

from skdp import DPPCA


class PCA(DPPCA):
    """DPPCA behind the signature that scikit-learn's tests call."""

    def __init__(
        self,
        n_components=None,
        *,
        copy=True,
        whiten=False,
        svd_solver="auto",
        tol=0.0,
        iterated_power="auto",
        n_oversamples=10,
        power_iteration_normalizer="auto",
        random_state=None,
    ):
        super().__init__(
            n_components,
            whiten=whiten,
            epsilon=np.inf,
            row_norm=np.inf,
            mean_norm=np.inf,
            solver="covariance",
            random_state=random_state,
        )
        self.copy = copy
        self.svd_solver = svd_solver
        self.tol = tol
        self.iterated_power = iterated_power
        self.n_oversamples = n_oversamples
        self.power_iteration_normalizer = power_iteration_normalizer

    def _spec_of(self, shape, **facts):
        spec = super()._spec_of(shape, **facts)
        if self.n_components == "mle" and self.svd_solver in ("arpack", "randomized"):
            raise ValueError(
                f"n_components='mle' cannot be a string with svd_solver='{self.svd_solver}'"
            )
        # ARPACK cannot give all components.
        smaller = min(shape)
        if self.svd_solver == "arpack" and self.n_components == smaller:
            raise ValueError(
                f"n_components={smaller} must be strictly less than "
                f"min(n_samples, n_features)={smaller} with svd_solver='arpack'"
            )
        return spec

    def _set_factors(self, factors, spec):
        if self.svd_solver == "arpack" and spec.n_components is None:
            spec = replace(spec, n_components=min(spec.shape) - 1)
        return super()._set_factors(factors, spec)


SUITE = Suite("test_pca", PCA)
globals().update(SUITE.tests)
test_pca_sparse = pytest.mark.covered(SUITE.tests["test_pca_sparse"])


@pytest.fixture(params=[42, pytest.param(0, marks=pytest.mark.slow)])
def global_random_seed(request):
    return request.param


@pytest.fixture(params=[np.float64, np.float32])
def global_dtype(request):
    return request.param


def test_the_suite_is_the_one_we_know(request):
    SUITE.check([item.name for item in request.node.parent.collect()])
