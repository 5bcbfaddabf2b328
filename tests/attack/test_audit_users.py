"""Audits of personal regressions: what whole fits reveal of one user."""

from functools import partial

import numpy as np
import pytest

from skdp import DPPersonalizedRegressor
from skdp.privacy import PrivacyBudget
from skdp.privacy.plan import PrivacyCost
from skdp.testing import lower_bound_of_mu

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")]

EPSILON, DELTA = 8.0, 1e-6
N_USERS = 200
BARE = {"fit_intercept": False, "mean_head": False, "decorrelate": False}
CLAIM = PrivacyBudget(EPSILON, DELTA, unit="user", adjacency="replace").cost.mu


def fit_of(axis, **parameters):
    """Whether the component lies nearer to the first axis, along which the canary may be."""
    # The others say nothing: as many along one axis as along the other.
    X = np.eye(2)[np.arange(N_USERS) % 2]
    groups = np.arange(N_USERS)
    # The canary has many rows, and its responses are huge.
    X = np.concatenate([np.tile(np.eye(2)[axis], (20, 1)), X])
    y = np.concatenate([np.full(20, 1e6), np.ones(N_USERS)])
    groups = np.concatenate([np.full(20, N_USERS), groups])
    model = DPPersonalizedRegressor(1, epsilon=EPSILON, delta=DELTA, **{**BARE, **parameters})
    first, second = np.abs(model.fit(X, y, groups).components_[0])
    return first - second


def mu_proved_by(fit, n_fits, first_seed=2**100):
    """What the sign of the statistic proves about mu, with confidence 99%."""
    seeds = range(first_seed, first_seed + n_fits)
    misses = sum(fit(0, random_state=seed) <= 0 for seed in seeds)
    false_alarms = sum(fit(1, random_state=seed) > 0 for seed in seeds)
    return lower_bound_of_mu((misses, false_alarms), n_fits, confidence=0.99)


@pytest.mark.parametrize(
    ("parameters", "least"), [({"n_iter": 0}, 0.5), ({"n_iter": 2}, 0.1)], ids=["start", "gradient"]
)
def test_whole_fits_reveal_no_more_than_claimed(parameters, least):
    proven = mu_proved_by(partial(fit_of, **parameters), 400)
    # The audit has teeth only if it proves a good part of what is spent.
    assert least * CLAIM < proven <= CLAIM


def test_too_little_noise_is_caught(monkeypatch):
    noise_std = PrivacyCost.noise_std
    monkeypatch.setattr(PrivacyCost, "noise_std", lambda *args: 0.6 * noise_std(*args))
    assert mu_proved_by(partial(fit_of, n_iter=0), 800) > CLAIM
