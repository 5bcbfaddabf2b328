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
    steps = {name for name in shares[3] if name.split()[0] in ("gradient", "clip", "curvature")}
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
