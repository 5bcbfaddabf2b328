import math

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from skdp import PlannedEstimator
from skdp.privacy import Plan
from skdp.testing import PrivacyCase, parametrize_with_privacy_checks


class PrivateQuantileTransformer(OneToOneFeatureMixin, TransformerMixin, PlannedEstimator):
    """Map each column to ranks between 0 and 1, by noisy counts between public edges."""

    def __init__(self, edges=(-3, -2, -1, 0, 1, 2, 3), *, epsilon=1.0, delta=1e-6):
        self.edges = edges
        self.epsilon = epsilon
        self.delta = delta

    def plan(self, n_samples, n_features):
        """List what a fit would release: from public facts, before there are data."""
        cost = self.cost
        shape = n_features, len(self.edges) + 1
        counts = cost.release(
            "counts", "gaussian", 1.0, self._change, {"n": n_features}, shape=shape
        )
        return Plan(cost, counts, unit="row", adjacency="replace", enforced=False)

    @staticmethod
    def _change(n):
        """Bound what a row can do: in each of n columns, one count falls by 1, another rises."""
        return math.sqrt(2 * n)

    def fit(self, X, y=None):
        """Count the rows between edges, add noise, and keep what the noisy counts say."""
        X = validate_data(self, X, dtype=np.float64)  # refuses bad data, and spends nothing
        plan = self.plan(*X.shape)
        budget = self.open_budget(plan)
        noisy, _ = budget.release(plan.parts, self._counts(X))
        # From here on all follows from what was released.
        below = np.maximum(noisy, 0).cumsum(axis=1)
        self.ranks_ = below[:, :-1] / np.maximum(below[:, -1:], 1)
        self.privacy_spent_ = budget.spent()
        return self

    def _counts(self, X):
        places = np.searchsorted(self.edges, X)
        return np.array([np.bincount(one, minlength=len(self.edges) + 1) for one in places.T])

    def transform(self, X):
        """Interpolate the ranks: of public rows, as this is not covered by the guarantee."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        columns = zip(X.T, self.ranks_, strict=True)
        return np.column_stack([np.interp(x, self.edges, ranks) for x, ranks in columns])


X = np.random.default_rng(0).normal(size=(60, 3))
CASES = [PrivacyCase(PrivateQuantileTransformer(epsilon=100.0), (X,))]


@parametrize_with_privacy_checks(CASES)
def test_privacy(case, check):
    check(case)
