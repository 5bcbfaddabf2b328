"""How often a fit reads the rows of an array."""

from unittest.mock import patch

import numpy as np
import pytest
from in_parts import in_parts

from skdp import DPPCA, DPLowRankFactorizer, DPStandardScaler, DPTruncatedSVD
from skdp.data.sources import Source
from skdp.decomposition.rows import solvers as rows_solvers
from skdp.decomposition.rows.plan import PROBE_LEVELS
from skdp.privacy import Released

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
        (DPLowRankFactorizer(2, row_norm=9.0), 3),
        (DPStandardScaler(bounds=(-9, 9)), 3),
        (DPStandardScaler(), 3),
    ],
    ids=str,
)
def test_rows_in_parts_are_read_so_often(estimator, n_readings, seed):
    estimator.set_params(random_state=seed)
    assert readings(estimator, in_parts) == n_readings


@pytest.mark.covered
@pytest.mark.parametrize(
    ("estimator", "n_readings"),
    [
        (DPPCA(2, solver="covariance", **GIVEN), 2),
        (DPPCA(2, solver="covariance"), 4),
        (DPPCA(2, solver="power", n_iter=N_ITER, **GIVEN), N_ITER + 2),
        (DPPCA(2, solver="covariance", center=[1.0] * 5, row_norm=9.0), 2),
        (DPTruncatedSVD(2, solver="covariance", row_norm=9.0, mean_norm=9.0), 2),
        (DPTruncatedSVD(2, solver="covariance"), 3),
        (DPTruncatedSVD(2, solver="power", n_iter=N_ITER, row_norm=9.0), N_ITER + 2),
    ],
    ids=str,
)
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_rows_are_read_so_often(estimator, n_readings, n_jobs):
    assert readings(estimator.set_params(n_jobs=n_jobs)) == n_readings


@pytest.mark.parametrize(("is_refined", "n_readings"), [(True, 4), (False, 2)])
def test_rows_are_read_twice_more_to_refine(is_refined, n_readings, monkeypatch):
    monkeypatch.setattr(rows_solvers, "_choose_level", lambda *_: PROBE_LEVELS[1])
    monkeypatch.setattr(rows_solvers, "_can_be_refined", lambda *_: is_refined)
    assert readings(DPPCA(2, solver="adaptive", **GIVEN)) == n_readings


@pytest.mark.parametrize(("loss", "is_refined"), [(0.0035, False), (0.02, True)])
def test_a_matrix_that_noise_costs_little_is_not_refined(loss, is_refined):
    """Clipping the projections may cost a hundredth of the captured variance."""
    values, n_features, first = np.array([1.0, 0.8]), 500, 0.3
    noise_std = np.sqrt(2 * loss * values.sum() / (first * n_features * np.sum(1 / values)))
    estimate = Released(np.eye(n_features), noise_std)
    assert rows_solvers._can_be_refined(values, estimate) == is_refined
