"""How much is clipped: less as the budget grows, by public facts, and never past a bound."""

from fractions import Fraction

import numpy as np
import pytest
from planned import budget_for, spec_of

from skdp import DPLinearRegression, DPLogisticRegression, DPTraceClassifier, PrivacyWarning
from skdp.data.parts import Targets
from skdp.linear_model import _descent
from skdp.linear_model.logistic.fit import warnings_for_moment
from skdp.linear_model.logistic.plan import level_factor, n_steps, norm_quantile, whitening_of
from skdp.linear_model.low_rank.plan import covariance_bound, plan_trace

EPSILONS = [0.01, 0.25, 1.0, 16.0, 256.0, 4096.0]
KEY = 2**100
ignore_warnings = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")


def classes_of(epsilon, n_records=2000, n_features=8, **parameters):
    model = DPLogisticRegression(classes=[0, 1], epsilon=epsilon, **parameters)
    return model._spec_like(n_records, n_features, None)


@pytest.mark.parametrize("power", [1.0, 2.0])
def test_the_clipped_fraction_falls_as_the_signal_rises_within_its_limits(power):
    strengths = [0.0, 1e-300, 1.0, 10.0, 20.0, 1e3, 1e300, np.inf]
    found = [_descent.clipped_fraction(strength, 5.0, (1e-4, 0.5), power) for strength in strengths]
    assert found == sorted(found, reverse=True)
    assert found[0] == 0.5
    assert found[-1] == 1e-4
    # Between the limits the bias, in units of the noise, is the wanted one.
    assert found[4] * 20.0 == pytest.approx(5.0 * 0.25 ** (power - 1))


def test_no_more_than_the_fraction_is_beyond_its_level():
    for fraction in (1.0, 0.25, 1 / 16):
        # Chebyshev's inequality is reached: that many have the level, and the others are 0.
        norms = np.where(np.arange(1600) < 1600 * fraction, _descent.level_beyond(fraction), 0.0)
        assert np.mean(norms**2) == pytest.approx(1.0)


def test_levels_of_a_classifier_rise_with_the_budget():
    specs = [classes_of(epsilon) for epsilon in EPSILONS]
    for level in (norm_quantile, level_factor, n_steps):
        found = [level(spec) for spec in specs]
        assert found == sorted(found)
        assert found[0] < found[-1]
    assert norm_quantile(specs[0]) == 0.5
    assert [level_factor(specs[0]), level_factor(specs[-1])] == [1.0, 4.0]


def test_levels_of_a_regression_rise_with_the_budget():
    specs = [spec_of(500_000, (1, 10), epsilon=epsilon) for epsilon in (1e-3, *EPSILONS, np.inf)]
    found = [covariance_bound(spec) for spec in specs]
    assert found == sorted(found)
    assert found[0] == pytest.approx(1.3 * np.sqrt(10))
    assert found[-2] == pytest.approx(16 * np.sqrt(10))


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 8.0, 256.0])
def test_a_covariance_is_planned_for_the_bound_to_which_rows_are_clipped(epsilon):
    spec = spec_of(5000, (1, 10), epsilon=epsilon)
    release = plan_trace(spec).branches.branches[0].covariances[1]
    # Replacing a record changes the second moment by at most the bound squared, times sqrt(2).
    changed = np.sqrt(2) * covariance_bound(spec) ** 2
    assert release.sensitivity == pytest.approx(changed, rel=1e-4)
    assert release.sensitivity >= changed


@pytest.mark.covered
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
def test_losses_of_any_quantile_move_by_one_at_most_exactly(epsilon, adjacency):
    """In exact arithmetic as in floats, for records that are replaced or become null."""
    spec = classes_of(epsilon, n_records=2017, adjacency=adjacency)
    wanted = norm_quantile(spec) * spec.n_units
    goal = Fraction(wanted)
    random = np.random.default_rng(0)
    places, points = np.sort(random.integers(0, 241, size=2017)), np.arange(241)
    for new in (-1, 0, 100, 240, None):
        others = places[1:] if new is None else np.sort(np.append(places[1:], new))
        losses, exact = [], []
        for ordered in (places, others):
            up_to = np.searchsorted(ordered, points, side="right").astype(float)
            below = np.append(0.0, up_to[:-1])
            losses.append(np.maximum(0.0, np.maximum(wanted - up_to, below - wanted)))
            pairs = zip(up_to, below, strict=True)
            exact.append([max(goal - int(u), int(b) - goal, Fraction(0)) for u, b in pairs])
        assert losses[0].tolist() == exact[0]
        assert losses[1].tolist() == exact[1]
        moved = [abs(a - b) for a, b in zip(*exact, strict=True)]
        assert max(moved) <= 1


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


def test_a_refined_median_stays_within_the_first_grid():
    # At the end of the grid, where half of the points of a refinement are beyond it.
    spec = spec_of(300, (1, 5), response_bound=10.0)
    responses = Targets.of(np.full(300, 10.0))
    searches = plan_trace(spec).response_center
    assert len(searches) >= 2
    found = [
        _descent.median_of_responses(searches, responses, budget, 300)
        for budget in (budget_for(spec, searches, seed=seed) for seed in range(30))
    ]
    assert np.abs(found).max() <= 10.0


def test_a_median_is_refined_at_least_once():
    assert _descent.affordable_refinements(1001, 0.0) == 1
    assert _descent.affordable_refinements(1001, 1e6) > 1


# ------------------------------
# Columns in units that decide alone.


def whitened_with(variances, noise):
    size = len(variances)
    moment = np.zeros((size + 3, size + 3))
    moment[:size, :size] = np.diag(variances)
    moment[size, size] = 1.0
    return whitening_of(moment, noise, 1.0, size)


@pytest.mark.parametrize(
    ("variances", "noise", "is_told"),
    [
        ([100.0, 1e-4, 1e-4, 1e-4], 0.1, True),
        ([100.0, 1e-4, 1e-4, 1e-4], 1e-9, False),  # visible, so that whitening makes them alike
        ([1.0, 1.1, 0.9, 1.0], 0.01, False),
        ([2.0, 1.0, 1.0, 1.0], 0.3, False),
        ([100.0, 90.0, 80.0, 1e-4], 0.1, False),
    ],
)
def test_columns_that_decide_alone_are_told(variances, noise, is_told):
    told = " ".join(warnings_for_moment(classes_of(1.0), whitened_with(variances, noise)))
    assert ("DPStandardScaler before this step" in told) == is_told


def test_raw_units_are_warned_of_and_standardized_columns_are_not():
    random = np.random.default_rng(0)
    X = random.normal(size=(5000, 8))
    y = (X.sum(axis=1) > 0).astype(int)
    model = DPLogisticRegression(classes=[0, 1], random_state=KEY)
    # By this warning, or in a few fits by that of a spread that is hidden altogether.
    with pytest.warns(PrivacyWarning, match="DPStandardScaler"):
        model.fit(X * np.repeat([1e-3, 1e4], [6, 2]), y)
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
