"""scikit-learn's own tests of StandardScaler, run on ours without noise and clipping."""

import numpy as np
import pytest
from suites import Suite

from skdp import DPStandardScaler


class StandardScaler(DPStandardScaler):
    """DPStandardScaler behind the signature that scikit-learn's tests call."""

    def __init__(self, *, copy=True, with_mean=True):
        super().__init__(with_mean=with_mean, epsilon=np.inf, clip=None)
        self.copy = copy

    def fit(self, X, y=None, sample_weight=None):
        if sample_weight is not None:
            raise TypeError("sample_weight")
        return super().fit(X)

    def transform(self, X, copy=None):
        return super().transform(X)


SUITE = Suite(
    "test_data",
    StandardScaler,
    package="sklearn.preprocessing",
    only=("test_standard_scaler", "test_scaler"),
)
globals().update(SUITE.tests)
for name in ("near_constant_features", "constant_features"):
    test = f"test_standard_scaler_{name}"
    globals()[test] = pytest.mark.covered(SUITE.tests[test])


def test_the_suite_is_the_one_we_know(request):
    SUITE.check([item.name for item in request.node.parent.collect()])
