import math

import numpy as np
import pytest

from skdp import DPTraceRegressor, RankOneMatrices
from skdp.datasets import make_trace_regression

SHAPE, RANK, SECRET = (6, 5), 2, 7 << 100


def test_a_start_alone_takes_the_budget_of_all_steps():
    X, y, M = make_trace_regression(20_000, SHAPE, rank=RANK, random_state=0)
    shares, errors = {}, {}
    for n_iter in (0, 3):
        model = DPTraceRegressor(RANK, init="spectral", n_iter=n_iter, random_state=SECRET)
        fitted = model.fit(X, y)
        shares[n_iter] = {line.name: line.share for line in fitted.privacy_spent_.releases}
        errors[n_iter] = np.linalg.norm(fitted.coef_matrix_ - M) / np.linalg.norm(M)
    steps = {
        name
        for name in shares[3]
        if name.split()[0] in ("gradient", "clip", "curvature", "residual")
    }
    assert steps == shares[3].keys() - shares[0].keys()
    of_steps = math.fsum(shares[3][name] for name in steps)
    assert shares[0]["start"] == pytest.approx(shares[3]["start"] + of_steps)
    # Clipped products are shorter than others.
    assert errors[3] < errors[0] < 0.3


@pytest.mark.parametrize(("n_records", "epsilon"), [(40, 1.0), (1000, 1.0), (5000, 0.1)])
def test_a_start_of_cells_leaves_steps_their_part(n_records, epsilon):
    cells = RankOneMatrices.from_indices(np.arange(8) % 4, np.arange(8) // 4, (20, 20))
    model = DPTraceRegressor(2, init="spectral", epsilon=epsilon, n_iter=2)
    for plan in model.plan(n_records, 400, like=cells).parts.branches.branches:
        assert 0 < plan.start.share <= sum(step.gradient.share for step in plan.steps) * (1 + 1e-9)


@pytest.mark.parametrize("name", ["random", "auto"])
def test_a_start_from_data_takes_the_records_that_it_needs(name):
    shares = []
    for n_records in (500, 20_000, 10_000_000):
        plan = DPTraceRegressor(RANK, init=name).plan((n_records, *SHAPE))
        starts = [fit.start for fit in plan.parts.branches.branches]
        shares.append({None if start is None else start.share for start in starts})
    assert shares == ([{None}] * 3 if name == "random" else [{None}, {max(shares[1])}, {0.01}])
    assert name == "random" or 0.01 < max(shares[1]) <= 0.1


@pytest.mark.slow
def test_entries_of_unlike_variance_have_no_local_minimum_from_a_start_from_data():
    random = np.random.default_rng(1)
    X = random.normal(size=(6000, 8, 8)) * 10 ** random.uniform(-1, 1, size=(8, 8))
    y = np.tensordot(X, np.outer(random.normal(size=8), random.normal(size=8)))
    y = y / y.std() + 0.2 * random.normal(size=len(y))
    train, test = slice(0, 4000), slice(4000, None)
    lowest = {}
    for init in ("random", "auto"):
        asked = [
            DPTraceRegressor(init=init, epsilon=32.0, random_state=(7 + s) << 70) for s in range(6)
        ]
        fits = [one.fit(X[train], y[train]) for one in asked]
        lowest[init] = min(fit.score(X[test], y[test]) for fit in fits)
    # Five of eight other fits from random directions end below .9, and of 56 from data, on seven
    # such tables, none below .95.
    assert lowest["random"] < 0.9
    assert lowest["auto"] > 0.94


def test_a_fit_without_steps_needs_a_start():
    with pytest.raises(ValueError, match="n_iter=0 is for init='spectral'"):
        DPTraceRegressor(n_iter=0).plan((100, 3, 2))


@pytest.mark.covered(at_most=1)
@pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
@pytest.mark.parametrize("rank", [0, 1, 2])
def test_a_start_shows_which_rank_to_take(rank):
    X, y, _ = make_trace_regression(20_000, SHAPE, rank=max(rank, 1), random_state=0)
    y = y if rank else np.random.default_rng(1).normal(size=len(y))
    model = DPTraceRegressor(1, init="spectral", n_iter=0, random_state=SECRET).fit(X, y)
    assert np.count_nonzero(model.start_ratios_ > 1) == rank
    assert np.all(np.diff(model.start_ratios_) <= 0)
    assert model.set_params(init="random", n_iter=1).fit(X, y).start_ratios_ is None
