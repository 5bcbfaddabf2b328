import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from planned import budget_for, problem_of

from skdp.data.matrices import Design
from skdp.data.parts import Targets
from skdp.data.sources import as_source
from skdp.datasets import make_trace_regression
from skdp.linear_model._trace_descent import random_start, release_start
from skdp.linear_model._trace_plan import START_SHARE, plan_trace
from skdp.linear_model._trace_records import Records

SHAPE, RANK = (6, 5), 2


def start_with(plan, budget, n_records, *, spread, seed=0):
    X, y, M = make_trace_regression(n_records, SHAPE, rank=RANK, random_state=seed)
    records = Records(Design(as_source(X.reshape(n_records, -1)), SHAPE), Targets.of(y), 0.0)
    start = random_start(SHAPE, RANK, np.random.default_rng(seed))
    return start, release_start(plan, records, start, spread, budget), M


def planned(epsilon, n_records, seed=0):
    """Plan a start, and open a budget for it."""
    problem = problem_of(n_records, SHAPE, rank=RANK, init="spectral", epsilon=epsilon)
    start = plan_trace(problem).ways.ways[0].start
    return start, budget_for(problem, start, seed=seed)


def test_a_random_start_is_zero_with_random_directions():
    starts = [random_start(SHAPE, RANK, np.random.default_rng(seed)) for seed in (0, 0, 1)]
    for start in starts:
        assert start.shape == SHAPE
        assert_array_equal(start.matrix, 0)
        for basis in (start.left, start.right):
            assert_allclose(basis.T @ basis, np.eye(RANK), atol=1e-12)
    assert_array_equal(starts[0].left, starts[1].left)
    assert not np.allclose(starts[0].left, starts[2].left)


def test_starts_are_close_to_the_matrix_without_noise():
    for spread in (np.inf, 2.0):
        _, found, M = start_with(*planned(math.inf, 5000), 5000, spread=spread)
        # Sampling alone makes it .1 with any of 50 seeds, and clipping some .18.
        assert np.linalg.norm(found.matrix - M) < 0.3 * np.linalg.norm(M)
        for basis in (found.left, found.right):
            assert_allclose(basis.T @ basis, np.eye(RANK), atol=1e-12)
        assert np.all(np.diff(found.values) <= 0)


def test_a_spectral_start_without_a_gap_is_random():
    for seed in range(20):
        plan, budget = planned(1.0, 50, seed)
        start, found, _ = start_with(plan, budget, 50, spread=2.0, seed=seed)
        assert found is start
        releases = budget.spent().releases
        # What is not needed is skip.
        assert [release.name for release in releases] == ["start gap", "skipped", "skipped"]
        assert math.fsum(release.share for release in releases) == pytest.approx(START_SHARE)


def test_a_spectral_start_relies_on_a_lower_bound_of_the_gap():
    # The sensitivity of the subspaces follows the released gap, not the one of the data.
    releases = []
    for seed in range(2):
        plan, budget = planned(20.0, 20_000, seed)
        start_with(plan, budget, 20_000, spread=2.0)
        releases.append(budget.spent().releases)
    names = [release.name for release in releases[0]]
    assert names == ["start gap", "start subspaces", "start core"]
    assert releases[0][0] == releases[1][0]
    assert releases[0][1].sensitivity != releases[1][1].sensitivity
    for run in releases:
        assert run[1].sensitivity <= 2 * math.sqrt(RANK)
