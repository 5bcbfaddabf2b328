"""How much is clipped: less as the budget grows, by public facts, and never past a bound."""

import numpy as np
import pytest

from skdp import DPLinearRegression, DPLogisticRegression, DPTraceClassifier, PrivacyWarning

KEY = 2**100


@pytest.mark.parametrize("row_norm", [None, 2.0])
def test_a_given_norm_bounds_what_is_released_whatever_the_budget(row_norm):
    """What a record can change in units of that norm: levels rise beyond a released median only."""
    like = np.zeros((1, 3, 4))
    models = [DPTraceClassifier(1, classes=[0, 1], row_norm=row_norm) for _ in range(2)]
    models[1].set_params(epsilon=1000.0)
    plans = [model.plan(2000, 12, like=like) for model in models]
    found = [{one.name: one.sensitivity for one in plan.releases}["mean matrix"] for plan in plans]
    assert found == [None, None] if row_norm is None else found[0] == pytest.approx(found[1])
    assert row_norm is None or found[0] == pytest.approx(2 * row_norm, rel=1e-3)


@pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
def test_few_far_rows_are_not_overruled_at_a_large_budget():
    random = np.random.default_rng(0)
    X = random.normal(size=(4000, 5))
    y = X[:, 0] + X[:, 1] + 0.5 * random.normal(size=4000)
    # As codes of missing values do: least squares has a slope of about 0 and R2 of .45.
    X[::333, 0], y[::333] = 300, 0
    fits = [DPLinearRegression(epsilon=256.0, random_state=KEY + s).fit(X, y) for s in range(4)]
    assert np.mean([fit.score(X, y) for fit in fits]) > 0.1


# ------------------------------
# Columns in units that decide alone.


# With two columns, no median is between the large and the small one.
@pytest.mark.parametrize("n_small", [6, 1])
def test_raw_units_are_warned_of_and_standardized_columns_are_not(n_small):
    random, n_large = np.random.default_rng(0), (n_small + 3) // 4
    X = random.normal(size=(5000, n_small + n_large))
    y = (X.sum(axis=1) + random.logistic(size=5000) > 0).astype(int)
    model = DPLogisticRegression(classes=[0, 1], random_state=KEY)
    # By this warning, or in a few fits by that of a spread that is hidden altogether.
    with pytest.warns(PrivacyWarning, match="DPStandardScaler"):
        model.fit(X * np.repeat([1e-3, 1e4], [n_small, n_large]), y)
    model.fit(X, y)  # no warning, which would be an error


# ------------------------------
# More budget, and no less accuracy.


@pytest.mark.parametrize("epsilon", [4.0, 256.0])
def test_a_large_budget_learns_as_much_of_skew_responses_as_none(epsilon):
    random = np.random.default_rng(0)
    X = random.normal(size=(8000, 6))
    y = X @ np.linspace(-0.3, 0.3, 6) + random.exponential(size=8000)
    best = DPLinearRegression(epsilon=np.inf).fit(X, y).score(X, y)
    found = DPLinearRegression(epsilon=epsilon, random_state=KEY).fit(X, y).score(X, y)
    assert found > best - 0.005
