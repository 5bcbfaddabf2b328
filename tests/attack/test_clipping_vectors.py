"""Matrices of one column, which a map may make so short that products underflow."""

import numpy as np

from skdp.data.matrices import Design
from skdp.data.parts import Targets
from skdp.data.sources import as_source
from skdp.linalg.matrices import FixedRank
from skdp.linear_model.low_rank.descent import RecordClipping
from skdp.linear_model.low_rank.records import Records


def test_tiny_vectors_are_clipped_beside_huge_responses():
    # Products with the map underflow, and the response would make them long again.
    X = np.full((4, 3), 1e-310)
    y = np.array([1e99, -1e99, 1e99, np.nan])
    records = Records(Design(as_source(X), (3, 1), row_map=1e-15 * np.eye(3)), Targets.of(y), 0.0)
    point = FixedRank(np.eye(3)[:, :1], np.ones(1), np.ones((1, 1)))
    found = RecordClipping(records).gradient(point, 0.0, 1e-100)
    assert np.linalg.norm(found.total) <= 3e-100 * (1 + 1e-12)
