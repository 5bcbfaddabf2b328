"""Audits of whole fits: what an attacker can tell from attributes stays below the claim.

Each statistic is positive where it says that the unit is there, or on the first side.
"""

from functools import partial

import numpy as np
import pytest
from sklearn import config_context
from uncut import without_cut, without_debiasing, without_shrinkage

import skdp
from skdp.privacy.plan import PrivacyCost
from skdp.testing import lower_bound_of_epsilon, lower_bound_of_mu
from skdp.units import Edge, Entry

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")]

EPSILON, DELTA = 8.0, 1e-6
# The classifier draws to 0 what noise may have made up: of less it tells next to nothing.
EPSILON_OF_CLASSES = 40.0
BUDGET = {"epsilon": EPSILON, "delta": DELTA}


def moments_of(side, make, **more):
    """First less second diagonal entry of the second moment that the attributes describe."""
    rows = np.zeros((4, 2))
    rows[0, 0 if side > 0 else 1] = 1.0
    model = make(2, row_norm=1.0, **BUDGET, **more).fit(rows)
    return model.singular_values_**2 @ (model.components_**2 @ [1.0, -1.0])


def entry_of(side, index=(0, 1), threshold=0.5, **more):
    """Return whether there is an edge, or an entry."""
    X = np.zeros((2, 2))
    X[index] = X[index[::-1]] = side > 0
    with without_debiasing():
        model = skdp.DPTruncatedSVD(2, n_iter=1, **more).fit(X)
    factors = (model.left_components_ * model.singular_values_) @ model.components_
    return factors[index] - threshold


def mean_of(side, bounds=(-1.0, 1.0), **more):
    """Say on which side of 0 the mean of a column is whose other entries are 0."""
    column = np.zeros((4, 1))
    # Beyond the bounds; without any, in the bin of 1 or of -1.
    column[0] = side if bounds is None else 1e3 * side
    return skdp.DPStandardScaler(**BUDGET, bounds=bounds, **more).fit(column).mean_[0]


def product_of(side, **more):
    """Say how two columns vary together of which one row alone is not 0."""
    rows = np.zeros((4, 2))
    rows[0] = 1e3, 1e3 * side
    # By public scales, so that the moment has all of the budget.
    public = {"bounds": (-1.0, 1.0), "scales": "bounds", "assume_centered": True}
    return skdp.DPCovariance(**BUDGET, **public, **more).fit(rows).covariance_[0, 1]


def slope_of(side, **more):
    """Say how one row that is not 0 changes the class, by its own."""
    # Of so few the clip level is low, and a record that is half wrong reaches it.
    X, y = np.zeros((10, 1)), np.arange(10) % 2
    X[0], y[0] = 1e3, side > 0
    given = {"classes": [0, 1], "row_norm": 1.0, "epsilon": EPSILON_OF_CLASSES, "delta": DELTA}
    return skdp.DPLogisticRegression(**given, **more).fit(X, y).coef_[0, 0]


def responses_with(side):
    """Responses that tell the scale, and the first of which tells the side."""
    responses = np.resize([1.0, -1.0], 200)
    responses[0] = 1e6 * side
    return responses


def coefficients_of(side, **more):
    """What the coefficients say about a record beside others that have nothing to say."""
    public = {"covariance": "identity", "fit_intercept": False, "n_iter": 1}
    model = skdp.DPTraceRegressor(**BUDGET, **{**public, **more})
    matrices = np.zeros((200, 2, 2))
    matrices[: 200 if model.privacy_unit == "response" else 1] = 1.0
    with config_context(skip_parameter_validation=True), without_cut():
        return model.fit(matrices, responses_with(side)).coef_.sum()


def coefficient_of(side, **more):
    """What a coefficient says about the first response, of records that are all the same."""
    model = skdp.DPLinearRegression(**BUDGET, fit_intercept=False, n_iter=1, **more)
    with without_shrinkage():
        return model.fit(np.ones((200, 1)), responses_with(side)).coef_[0]


def component_of(side, **more):
    """Whether the component lies nearer to the first axis, along which the canary may be."""
    bare = {"fit_intercept": False, "mean_head": False, "decorrelate": False}
    # The others say nothing: as many along one axis as along the other. The canary has many rows,
    # and its responses are huge.
    axes = np.concatenate([np.full(20, int(side < 0)), np.arange(200) % 2])
    y, groups = np.repeat([1e6, 1.0], [20, 200]), np.concatenate([np.full(20, 200), np.arange(200)])
    model = skdp.DPPersonalizedRegressor(1, **BUDGET, **bare, **more)
    first, second = np.abs(model.fit(np.eye(2)[axes], y, groups).components_[0])
    return first - second


def proven(fit, n_fits, epsilon=EPSILON, delta=DELTA, first_seed=2**100):
    """What the sign of the statistic proves with confidence 99%, over what is claimed."""
    seeds = range(first_seed, first_seed + n_fits)
    misses = sum(fit(1, random_state=seed) <= 0 for seed in seeds)
    false_alarms = sum(fit(-1, random_state=seed) > 0 for seed in seeds)
    if delta == 0:
        errors = misses, false_alarms
        return lower_bound_of_epsilon(errors, n_fits, delta=0, confidence=0.99) / epsilon
    claim = PrivacyCost(epsilon, delta).mu
    return lower_bound_of_mu((misses, false_alarms), n_fits, confidence=0.99) / claim


SOLVERS = {"covariance": 0.6, "power": 0.1}
EDGE = partial(entry_of, privacy_unit=Edge((0, 1)), solver="power", epsilon=60.0)
ENTRY = partial(
    entry_of, index=(0, 0), threshold=0.05, privacy_unit=Entry((0, 1)), solver="input", epsilon=8.0
)
# The statistic, the number of fits, and what they prove at least, as a part of the claim.
FITS = {
    **{
        f"{name}, {solver}": (partial(moments_of, make=make, solver=solver, **more), 1500, least)
        for name, make, more in (
            ("svd", skdp.DPTruncatedSVD, {}),
            ("pca", skdp.DPPCA, {"center": False}),
        )
        for solver, least in SOLVERS.items()
    },
    "bounds": (mean_of, 800, 0.7),
    # By the frequencies of 5000 other fits, 1200 prove at least .38 in each of 500 draws.
    "covariance": (product_of, 1200, 0.35),
    "no bounds": (partial(mean_of, bounds=None), 400, 0.3),
    # Many slopes are 0, which tells less: by the frequencies of 6000 other fits, 4000 prove at
    # least .317 in each of 10,000 draws, and 800 no more than .253 in the worst.
    "classes": (slope_of, 4000, 0.3, EPSILON_OF_CLASSES),
    "full rank": (partial(coefficients_of, rank=2), 250, 0.35),
    "two steps": (partial(coefficients_of, n_iter=2), 250, 0.25),
    "response": (partial(coefficients_of, privacy_unit="response"), 250, 0.25),
    "linear, bounds": (partial(coefficient_of, bounds=(-2.0, 2.0)), 250, 0.25),
    "linear": (coefficient_of, 250, 0.25),
    "users, start": (partial(component_of, n_iter=0), 400, 0.5),
    "users, gradient": (partial(component_of, n_iter=2), 400, 0.1),
    # An iteration does not publish its products, which have most of the budget.
    "entry": (partial(ENTRY, solver="input", epsilon=EPSILON), 500, 0.6),
    "edge": (EDGE, 500, 0.01, 60.0),
    "edge, pure": (partial(EDGE, delta=0), 500, 0.003, 60.0, 0),
}


@pytest.mark.parametrize("name", FITS)
def test_whole_fits_reveal_no_more_than_claimed(name):
    fit, n_fits, least, *budget = FITS[name]
    # The audit has teeth only if it proves a good part of what is spent.
    assert least < proven(fit, n_fits, *budget) <= 1


@pytest.mark.parametrize("name", ["svd, covariance", "bounds", "full rank", "users, start"])
def test_too_little_noise_is_caught(monkeypatch, name):
    noise_std = PrivacyCost.noise_std
    monkeypatch.setattr(PrivacyCost, "noise_std", lambda *args: 0.6 * noise_std(*args))
    assert proven(FITS[name][0], 800) > 1
