"""Small private steps, data, and what pipelines of them cost."""

import math

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import KFold
from sklearn.pipeline import FeatureUnion

from skdp import DPPCA, DPTraceRegressor, DPTruncatedSVD
from skdp.privacy import gaussian_dp
from skdp.privacy.budget import is_skipped
from skdp.privacy.plan import nodes_of

generator = np.random.default_rng(0)
X, Y = generator.normal(size=(120, 6)), generator.normal(size=120)
MU = gaussian_dp.mu_from_epsilon_delta(1.0, 1e-6)
FOLDS = KFold(3)


def way_of(plan, releases, is_made=None):
    """Return the branch of a plan with these releases, some of which may be left out."""
    begun = [((), nodes_of(plan.parts))]
    for release in releases:
        begun = [
            ((*way, node.release), node.following)
            for way, nodes in begun
            for node in nodes
            if (is_made or is_named)(node.release, release)
        ]
    (way,) = [way for way, nodes in begun if not nodes]
    return way


def is_named(one, release):
    return (one.may_be_skipped and is_skipped(release.name)) or (
        (one.name, one.mechanism) == (release.name, release.mechanism)
    )


class WithTail(DPTraceRegressor):
    """A regression that reserves a tenth of delta, as of something that holds nearly always."""

    def _reserved_part(self):
        return 0.1


def pca(**parameters):
    return DPPCA(2, row_norm=3.0, mean_norm=3.0, **parameters)


def svd(**parameters):
    return DPTruncatedSVD(2, row_norm=3.0, **parameters)


def regressor(**parameters):
    return DPTraceRegressor(1, n_iter=2, response_bound=3.0, **parameters)


def total(*mus):
    return pytest.approx(math.hypot(*mus), rel=1e-6)


def union():
    return FeatureUnion([("svd", svd()), ("pca", pca()), ("gone", "drop"), ("x", "passthrough")])


def columns(*more):
    return ColumnTransformer(
        [("left", pca(), slice(0, 3)), ("right", svd(), [3, 4, 5]), ("empty", pca(), []), *more]
    )


GRID = {"dppca__n_components": [1, 2], "dptraceregressor__n_iter": [1, 2, 3]}


def statuses(report):
    return {step.path: step.status for step in report.steps}
