"""Audit of whole pipelines: what an attacker can tell from all steps stays below the claim."""

from contextlib import nullcontext

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from watched import null_in_every_step

from skdp import DPLogisticRegression, DPStandardScaler, DPTruncatedSVD, make_dp_pipeline
from skdp.privacy import PrivacyBudget
from skdp.privacy.plan import PrivacyCost
from skdp.testing import lower_bound_of_mu

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")]

EPSILON, DELTA = 6.0, 1e-6
N_FITS = 500
SCALER = DPStandardScaler(bounds=(-1.0, 1.0))
CLASSIFIER = DPLogisticRegression(classes=[0, 1], row_norm=2.0)
STEPS = {
    "two": ((SCALER, CLASSIFIER), {"dpstandardscaler": 0.6}),
    "three": (
        (SCALER, DPTruncatedSVD(1, row_norm=2.0), CLASSIFIER),
        {"dpstandardscaler": 0.6, "dptruncatedsvd": 0.2},
    ),
}
REST = np.array([[0.2, -0.2], [-0.2, 0.2], [0.1, 0.1]]), np.array([0, 1, 0])


def released(steps, shares, adjacency, seed, row):
    """Everything that the attacker sees of the steps, as numbers."""
    steps = [clone(step).set_params(adjacency=adjacency) for step in steps]
    pipeline = make_dp_pipeline(
        *steps, epsilon=EPSILON, delta=DELTA, shares=shares, random_state=seed
    )
    rows, labels = np.vstack([np.ones(2) if row is None else row, REST[0]]), np.r_[1, REST[1]]
    if row is not None:
        labels[0] = int(row[0] > 0)
    with null_in_every_step(0) if row is None else nullcontext():
        pipeline.fit(rows, labels)
    names = ("mean_", "var_", "coef_", "intercept_", "singular_values_")
    seen = [getattr(step, name, []) for step in pipeline.pipeline_ for name in names]
    return np.concatenate([np.ravel(one) for one in seen])


def mu_proved_by(name, adjacency):
    """What the best linear statistic proves about mu, with confidence 99%."""
    other = -np.ones(2) if adjacency == "replace" else None
    sides = [
        np.array([released(*STEPS[name], adjacency, 2**100 + seed, row) for seed in range(N_FITS)])
        for row in (np.ones(2), other)
    ]
    half = N_FITS // 2
    guess = LinearDiscriminantAnalysis().fit(
        np.vstack([side[:half] for side in sides]), np.repeat([0, 1], half)
    )
    errors = [np.sum(guess.predict(side[half:]) != kind) for kind, side in enumerate(sides)]
    return lower_bound_of_mu(errors, half, confidence=0.99)


@pytest.mark.parametrize(("name", "adjacency"), [("two", "replace"), ("three", "zero_out")])
def test_whole_pipelines_reveal_no_more_than_claimed(name, adjacency):
    claim = PrivacyBudget(EPSILON, DELTA, unit="record", adjacency=adjacency).cost.mu
    proven = mu_proved_by(name, adjacency)
    # The audit has teeth only if it proves a good part of what is spent.
    assert 0.15 * claim < proven <= claim


def test_too_little_noise_is_caught(monkeypatch):
    noise_std = PrivacyCost.noise_std
    claim = PrivacyBudget(EPSILON, DELTA, unit="record", adjacency="replace").cost.mu
    monkeypatch.setattr(PrivacyCost, "noise_std", lambda *given: 0.25 * noise_std(*given))
    assert mu_proved_by("two", "replace") > claim
