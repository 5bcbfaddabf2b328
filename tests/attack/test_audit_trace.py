"""Audits of the trace regression: what one release and whole fits reveal."""

import numpy as np
import pytest

from skdp import DPTraceRegressor
from skdp.data.matrices import Design
from skdp.data.parts import Targets
from skdp.data.sources import as_source
from skdp.linear_model.low_rank.descent import RecordClipping, random_start
from skdp.linear_model.low_rank.records import Records
from skdp.privacy import PrivacyBudget, sensitivity
from skdp.testing import audit

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")]

EPSILON, DELTA = 8.0, 1e-6
N_RECORDS = 200
CLAIM = PrivacyBudget(EPSILON, DELTA, unit="record", adjacency="replace").cost.mu


def records_with(response, shape=(2, 2), intercept=0.0):
    """Records that have nothing to say but for one, and responses that tell the scale."""
    matrices = np.zeros((N_RECORDS, *shape))
    matrices[0] = np.ones(shape)
    responses = np.resize([1.0, -1.0], N_RECORDS)
    responses[0] = response
    design = Design(as_source(matrices.reshape(N_RECORDS, -1)), shape)
    return Records(design, Targets.of(responses), intercept)


def open_budget():
    return PrivacyBudget(EPSILON, DELTA, unit="record", adjacency="replace")


N_DRAWS = 20_000


def test_one_gradient_reveals_what_is_claimed_and_no_more():
    point = random_start((2, 2), 1, np.random.default_rng(0)).point
    clipped = [
        RecordClipping(records_with(response)).gradient(point, 0.0, 1.0) for response in (1e6, -1e6)
    ]
    change = clipped[0].total - clipped[1].total
    direction = change / np.linalg.norm(change)
    projections = [
        direction
        @ open_budget()
        .gaussian(
            # As many releases of the same sum.
            "gradients",
            np.repeat(each.total[:, None], N_DRAWS, axis=1),
            sensitivity=sensitivity.row_sum(*each.facts, "replace"),
            share=1.0,
        )
        .value
        for each in clipped
    ]
    distance = projections[0].mean() - projections[1].mean()
    found = distance / np.sqrt((projections[0].var() + projections[1].var()) / 2)
    assert 0.94 * CLAIM < found < 1.03 * CLAIM


def test_a_whole_fit_reveals_something_and_no_more_than_is_claimed():
    def fit(response, seed):
        matrices = np.zeros((N_RECORDS, 2, 2))
        matrices[0] = 1.0
        responses = np.resize([1.0, -1.0], N_RECORDS)
        responses[0] = response
        parameters = {"covariance": "identity", "fit_intercept": False, "n_iter": 2}
        return DPTraceRegressor(1, epsilon=EPSILON, random_state=seed, **parameters).fit(
            matrices, responses
        )

    found = audit(fit, 1e6, -1e6, n_fits=600, confidence=0.999, random_state=0)
    assert 0.05 < found.mu <= CLAIM
