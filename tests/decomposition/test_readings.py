"""How often a fit reads the rows of an array, beside the check of its input."""

from unittest.mock import patch

import numpy as np
import pytest

from skdp import DPPCA, DPTruncatedSVD
from skdp.data.sources import ArraySource

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

N_ROWS, N_ITER = 70_000, 3
GIVEN = {"row_norm": 9.0, "mean_norm": 9.0}


def readings(estimator):
    """Passes over all rows; the few that levels are told by are left out."""
    X, read = np.random.default_rng(0).normal(size=(N_ROWS, 5)) + 1.0, []
    blocks = ArraySource.blocks

    def counted(source, group):
        for rows, block in blocks(source, group):
            read.append(len(block) * (source.shape[0] == N_ROWS))
            yield rows, block

    with patch.object(ArraySource, "blocks", counted):
        estimator.fit(X)
    return sum(read) / N_ROWS


@pytest.mark.parametrize(
    ("estimator", "n_readings"),
    [
        (DPPCA(2, solver="covariance", **GIVEN), 2),
        (DPPCA(2, solver="covariance"), 4),
        (DPPCA(2, solver="power", n_iter=N_ITER, **GIVEN), N_ITER + 3),
        (DPTruncatedSVD(2, solver="covariance", row_norm=9.0, mean_norm=9.0), 3),
        (DPTruncatedSVD(2, solver="power", n_iter=N_ITER, row_norm=9.0), N_ITER + 3),
    ],
    ids=str,
)
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_rows_are_read_so_often(estimator, n_readings, n_jobs):
    assert readings(estimator.set_params(n_jobs=n_jobs)) == n_readings
