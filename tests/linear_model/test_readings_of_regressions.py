"""How often a fit goes through its records or its users, beside the check of its input."""

from unittest.mock import patch

import numpy as np
import pytest

from skdp import DPPersonalizedRegressor, DPTraceRegressor, RankOneMatrices
from skdp.data import reduce
from skdp.data.reduce import PerRow
from skdp.data.sources import Source
from skdp.data.users import Users
from skdp.linear_model.personal import plan as personal_plan

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

N, N_ITER = 9000, 3
DRAWN = np.random.default_rng(0)
X, y = DRAWN.normal(size=(N, 6)), DRAWN.normal(size=N)
CONTAINERS = {"matrices": X, "vectors": X, "rank one": RankOneMatrices(X[:, :3], X[:, :2])}
GROUPS = np.repeat(np.arange(N // 2), 2)


def numbers_in(value):
    """Numbers that are added up, beside what is joined of rows."""
    if isinstance(value, tuple):
        return sum(map(numbers_in, value))
    return 0 if isinstance(value, PerRow) else value.size


def readings(estimator, kind, n, *data, **groups):
    """Passes over all blocks of a kind of source; the sizes of all sums have to be right."""
    blocks, map_sum, read = kind.blocks, reduce.map_sum, []

    def counted(source, group):
        for rows, block in blocks(source, group):
            read.append((rows.stop - rows.start) * (source.block_starts[-1] == n))
            yield rows, block

    def watched(source, kernel, size, n_jobs=None):
        def sized(rows, block):
            values = kernel(rows, block)
            assert numbers_in(values) == size
            return values

        return map_sum(source, sized, size, n_jobs)

    with (
        patch.object(kind, "blocks", counted),
        patch.object(RankOneMatrices, "check"),
        patch.object(reduce, "map_sum", watched),
        patch.object(personal_plan, "map_sum", watched),
    ):
        estimator.fit(*data, **groups)
    return sum(read) / n


@pytest.mark.covered(at_most=10)
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("init", ["random", "spectral"])
@pytest.mark.parametrize(
    ("container", "unit", "n_readings"),
    [
        # The norm of the matrices, their mean, covariances, residuals, and two a step.
        ("matrices", "record", 2 * N_ITER + 4),
        ("matrices", "response", 3 * N_ITER + 8),
        ("rank one", "record", 2 * N_ITER + 3),
        ("rank one", "response", 3 * N_ITER + 4),
        ("vectors", "record", N_ITER + 3),
        ("vectors", "response", 2 * N_ITER + 3),
    ],
)
def test_records_are_read_so_often(container, unit, init, n_readings, n_jobs):
    parameters = {"privacy_unit": unit, "init": init, "n_iter": N_ITER}
    shape = (3, 2) if container == "matrices" else None
    estimator = DPTraceRegressor(1, epsilon=5.0, matrix_shape=shape, n_jobs=n_jobs, **parameters)
    kind = RankOneMatrices if container == "rank one" else Source
    n_readings += init == "spectral"
    assert readings(estimator, kind, N, CONTAINERS[container], y) == n_readings


PLAIN = {"fit_intercept": False, "mean_head": False, "decorrelate": False}


@pytest.mark.covered(at_most=2)
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize(
    ("parameters", "n_readings"),
    [
        ({}, N_ITER + 12),
        ({"solver": "altmin"}, N_ITER + 13),
        ({"solver": "exponential", **PLAIN}, 3),
        ({"n_components": 0}, 6),
    ],
    ids=str,
)
def test_users_are_read_so_often(parameters, n_readings, n_jobs):
    asked = {"n_components": 1, "n_iter": N_ITER, "n_jobs": n_jobs, **parameters}
    estimator = DPPersonalizedRegressor(**asked)
    found = readings(estimator, Users, N // 2, X[:, :3], y, groups=GROUPS)
    assert found == n_readings
