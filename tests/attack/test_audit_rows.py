"""Audit of whole fits: what an attacker can tell from attributes stays below the claim."""

from functools import partial

import numpy as np
import pytest

from skdp import DPPCA, DPTruncatedSVD
from skdp.privacy import PrivacyBudget
from skdp.privacy.plan import PrivacyCost
from skdp.testing import lower_bound_of_mu

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")]

EPSILON, DELTA = 8.0, 1e-6
N_FITS = 1500
ROWS = {"present": np.array([[1.0, 0.0]]), "exchanged": np.array([[0.0, 1.0]])}


def difference_of_moments(estimator):
    """First less second diagonal entry of the second moment that the attributes describe."""
    signs = np.array([1.0, -1.0])
    return estimator.singular_values_**2 @ (estimator.components_**2 @ signs)


def mu_proved_by(make_estimator, first_seed=2**100):
    """What the statistic proves about mu, with confidence 99%."""
    rest = np.zeros((3, 2))
    statistics = {
        name: np.array(
            [
                difference_of_moments(
                    make_estimator(random_state=first_seed + i).fit(np.vstack([row, rest]))
                )
                for i in range(N_FITS)
            ]
        )
        for name, row in ROWS.items()
    }
    # Guess "present" if the statistic is positive; upper confidence bounds of both errors.
    errors = [(statistics["present"] <= 0).sum(), (statistics["exchanged"] > 0).sum()]
    return lower_bound_of_mu(errors, N_FITS, confidence=0.99)


def svd(**parameters):
    return DPTruncatedSVD(2, epsilon=EPSILON, delta=DELTA, row_norm=1.0, **parameters)


def pca(**parameters):
    return DPPCA(2, epsilon=EPSILON, delta=DELTA, row_norm=1.0, center=False, **parameters)


@pytest.mark.parametrize("make", [svd, pca])
@pytest.mark.parametrize("solver", ["covariance", "adaptive", "power"])
def test_whole_fits_reveal_no_more_than_claimed(make, solver):
    claim = PrivacyBudget(EPSILON, DELTA, unit="row", adjacency="replace").cost.mu
    proven = mu_proved_by(partial(make, solver=solver))
    # The audit has teeth only if it proves a good part of what is spent.
    assert (0.1 if solver == "power" else 0.6) * claim < proven <= claim


def test_too_little_noise_is_caught(monkeypatch):
    noise_std = PrivacyCost.noise_std

    def too_small_a_scale(*arguments):
        return 0.7 * noise_std(*arguments)

    claim = PrivacyBudget(EPSILON, DELTA, unit="row", adjacency="replace").cost.mu
    monkeypatch.setattr(PrivacyCost, "noise_std", too_small_a_scale)
    assert mu_proved_by(partial(svd, solver="covariance")) > claim
