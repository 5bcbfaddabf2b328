"""How often a fit reads the rows of an array."""

from unittest.mock import patch

import numpy as np
import pytest
from in_parts import in_parts

from skdp import DPPCA, DPLowRankFactorizer, DPStandardScaler, DPTruncatedSVD
from skdp.data.sources import Source

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

N_ROWS, N_ITER = 70_000, 3
GIVEN = {"row_norm": 9.0, "mean_norm": 9.0}


def readings(estimator, contain=np.asarray):
    """Passes over all rows; the few that levels are told by are left out."""
    X, read = np.random.default_rng(0).normal(size=(N_ROWS, 5)) + 1.0, []
    blocks = Source.blocks

    def counted(source, group):
        for rows, block in blocks(source, group):
            read.append(len(block) * (source.shape[0] == N_ROWS))
            yield rows, block

    with patch.object(Source, "blocks", counted):
        estimator.fit(contain(X))
    return sum(read) / N_ROWS


@pytest.mark.covered(at_most=7)
@pytest.mark.parametrize("seed", [None, 2**100])
@pytest.mark.parametrize(
    ("estimator", "n_readings"),
    [
        (DPPCA(2, solver="covariance", **GIVEN), 2),
        (DPPCA(2, solver="covariance"), 4),
        (DPTruncatedSVD(2, solver="covariance"), 3),
        (DPTruncatedSVD(2, solver="power", n_iter=N_ITER, row_norm=9.0), N_ITER + 2),
        (DPLowRankFactorizer(2, row_norm=9.0), 4),
        (DPStandardScaler(bounds=(-9, 9)), 3),
        (DPStandardScaler(), 3),
    ],
    ids=str,
)
def test_rows_in_parts_are_read_so_often(estimator, n_readings, seed):
    estimator.set_params(random_state=seed)
    assert readings(estimator, in_parts) == n_readings
