"""Audits of the scaler, of covariances and of the classifier: what fits reveal of one record."""

from functools import partial

import numpy as np
import pytest

from skdp import DPCovariance, DPLogisticRegression, DPStandardScaler
from skdp.privacy import PrivacyBudget
from skdp.privacy.plan import PrivacyCost
from skdp.testing import lower_bound_of_mu

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")]

# The classifier draws to 0 what noise may have made up: of less it tells next to nothing.
EPSILON, EPSILON_OF_CLASSES, DELTA = 8.0, 40.0, 1e-6
# Of so few the clip level is low, and a record that is half wrong reaches it.
N_RECORDS = 10


def mean_of(side, bounds=(-1.0, 1.0), **parameters):
    """Say on which side of 0 the mean of a column is whose other entries are 0."""
    column = np.zeros((4, 1))
    # Beyond the bounds; without any, in the bin of 1 or of -1.
    column[0] = side if bounds is None else 1e3 * side
    scaler = DPStandardScaler(epsilon=EPSILON, delta=DELTA, bounds=bounds, **parameters)
    return scaler.fit(column).mean_[0]


def product_of(side, **parameters):
    """Say how two columns vary together of which one row alone is not 0."""
    rows = np.zeros((4, 2))
    rows[0] = 1e3, 1e3 * side
    given = {"epsilon": EPSILON, "delta": DELTA, "bounds": (-1.0, 1.0), "assume_centered": True}
    return DPCovariance(**given, **parameters).fit(rows).covariance_[0, 1]


def slope_of(side, **parameters):
    """Say how one row that is not 0 changes the class, by its own."""
    X, y = np.zeros((N_RECORDS, 1)), np.arange(N_RECORDS) % 2
    X[0], y[0] = 1e3, side > 0
    given = {"classes": [0, 1], "row_norm": 1.0, "epsilon": EPSILON_OF_CLASSES, "delta": DELTA}
    return DPLogisticRegression(**given, **parameters).fit(X, y).coef_[0, 0]


def claimed(epsilon):
    """Return the mu of a fit."""
    return PrivacyBudget(epsilon, DELTA, unit="row", adjacency="replace").cost.mu


def mu_proved_by(fit, n_fits, first_seed=2**100):
    """What the sign of the statistic proves about mu, with confidence 99%."""
    seeds = range(first_seed, first_seed + n_fits)
    misses = sum(fit(1, random_state=seed) <= 0 for seed in seeds)
    false_alarms = sum(fit(-1, random_state=seed) > 0 for seed in seeds)
    return lower_bound_of_mu((misses, false_alarms), n_fits, confidence=0.99)


@pytest.mark.parametrize(
    ("fit", "n_fits", "epsilon", "least"),
    [
        (mean_of, 800, EPSILON, 0.7),
        (product_of, 800, EPSILON, 0.5),
        (partial(mean_of, bounds=None), 400, EPSILON, 0.3),
        # Many slopes are 0, which tells less: by the frequencies of 6000 other fits, 4000 prove at
        # least .317 in each of 10,000 draws, and 800 no more than .253 in the worst.
        (slope_of, 4000, EPSILON_OF_CLASSES, 0.3),
    ],
    ids=["bounds", "covariance", "no bounds", "classes"],
)
def test_whole_fits_reveal_no_more_than_claimed(fit, n_fits, epsilon, least):
    # The audit has teeth only if it proves a good part of what is spent.
    assert least * claimed(epsilon) < mu_proved_by(fit, n_fits) <= claimed(epsilon)


def test_too_little_noise_is_caught(monkeypatch):
    noise_std = PrivacyCost.noise_std
    monkeypatch.setattr(PrivacyCost, "noise_std", lambda *args: 0.7 * noise_std(*args))
    assert mu_proved_by(mean_of, 800) > claimed(EPSILON)
