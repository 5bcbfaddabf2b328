"""Rows of tables without negative entries: the gate, the mean that guides, and both ways on."""

import itertools
import math
import warnings

import numpy as np
import pytest
from scipy.special import ndtri

from skdp import DPPCA, DPTruncatedSVD, PrivacyWarning
from skdp.data.rows import Rows
from skdp.data.sources import as_source
from skdp.datasets import make_interactions, make_spiked
from skdp.decomposition.rows.moments import decompose, decompose_guided
from skdp.decomposition.rows.plan import norm_quantile
from skdp.decomposition.rows.solvers import PositiveMean, _groups
from skdp.linalg.norms import GridCounts, unclipped_squares
from skdp.privacy import gaussian_dp

pytestmark = pytest.mark.filterwarnings("ignore:Only .* stand:skdp.PrivacyWarning")
# Good for repeatable tests, and for nothing else.
KEY = 0x5B1E7C20D94F4A6A8E33C7A1F06D2B98
ADJACENCIES = ("replace", "zero_out")


GATE, GUIDES = "positive rows", ("guiding mean 1", "guiding mean 2")


def table(n_people=2000, n_items=500, seed=0):
    return make_interactions(
        n_people, n_items, n_interactions=20 * n_people, n_tastes=3, random_state=seed
    )


def names(estimator):
    return [release.name for release in estimator.privacy_spent_.releases]


def axis_of(X):
    mean = X.mean(axis=0)
    return mean / np.linalg.norm(mean)


def test_which_way_is_taken_follows_the_rows_and_the_noise():
    X = table()
    guided = DPTruncatedSVD(10, epsilon=0.3, row_norm=4.0, random_state=KEY).fit(X)
    assert names(guided)[:3] == [GATE, *GUIDES]
    assert names(guided)[-2:] == ["step 4", "projected second moment"]
    strong = DPTruncatedSVD(3, epsilon=50.0, row_norm=4.0, random_state=KEY).fit(X)
    assert names(strong)[:3] == [GATE, GUIDES[0], "second moment 1"]
    for other in (X.toarray() - X.mean(axis=0), -X):
        shut = DPTruncatedSVD(3, row_norm=4.0, random_state=KEY).fit(other)
        assert names(shut)[:3] == [GATE, "mean", "second moment 1"]


@pytest.mark.parametrize(
    ("make", "settings"),
    [
        (DPTruncatedSVD, {"solver": "power", "n_iter": 3}),
        (DPTruncatedSVD, {"solver": "power", "n_oversamples": 2}),
        (DPTruncatedSVD, {"epsilon": math.inf}),
        (DPPCA, {"mean_norm": 4.0}),
        (DPPCA, {"center": False}),
    ],
)
def test_what_is_asked_for_otherwise_has_no_gate(make, settings):
    plan = make(2, row_norm=4.0, **settings).plan(2000, 500)
    assert plan.parts.positivity is None
    assert len(plan.parts.branches.branches) == 1


def test_an_explicit_solver_is_taken():
    X = table()
    for solver in ("covariance", "adaptive"):
        svd = DPTruncatedSVD(3, row_norm=4.0, solver=solver, random_state=KEY).fit(X)
        assert names(svd)[1] == GUIDES[0]
        assert not any("step" in name for name in names(svd))
    svd = DPTruncatedSVD(3, epsilon=50.0, row_norm=4.0, solver="power", random_state=KEY).fit(X)
    assert "step 4" in names(svd)


@pytest.mark.covered
@pytest.mark.parametrize("n_features", [2, 3, 399, 400, 2001])
@pytest.mark.parametrize("solver", ["auto", "covariance", "power"])
@pytest.mark.parametrize("row_norm", [None, 1.0])
def test_every_way_of_a_plan_spends_everything_and_differs_by_its_names(
    n_features, solver, row_norm
):
    plan = DPTruncatedSVD(2, solver=solver, row_norm=row_norm).plan(5000, n_features)
    told = set()
    for path in plan.branches:
        assert math.fsum(line.share for line in path) == pytest.approx(1, abs=1e-12)
        told.add(tuple(line.name for line in path))
    assert len(told) == len(plan.branches)
    iterates = any(GUIDES[1] in path for path in told)
    assert (len(plan.branches) > 1) == (n_features >= 3)
    fewest = {"auto": 400, "covariance": math.inf, "power": 3}[solver]
    assert iterates == (n_features >= fewest)


@pytest.mark.parametrize(("spread", "iterates"), [(0.2, True), (0.9, False), (3.0, True)])
def test_the_part_that_the_mean_holds_decides_between_the_matrix_and_the_iteration(
    spread, iterates
):
    """It holds 1 / (1 + spread^2) of rows that are of norm 1 and have no negative entries."""
    X = np.full((2000, 400), 1.0)
    # In each row a few entries of the same size hold all that is spread.
    n_kept = round(400 / (1 + spread**2))
    X *= np.argsort(np.random.default_rng(0).random(X.shape), axis=1) < n_kept
    svd = DPTruncatedSVD(3, row_norm=np.sqrt(n_kept), random_state=KEY).fit(X)
    assert names(svd)[:2] == [GATE, GUIDES[0]]
    assert ("step 1" in names(svd)) == iterates


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize(
    ("n_features", "rank", "least"),
    [(399, 2, 0), (400, 2, 4000), (1000, 2, 10_000), (400, 1, 2000)],
)
def test_beside_the_mean_the_strength_decides_whether_to_iterate(
    adjacency, n_features, rank, least
):
    for factor, iterates in ((0.9, True), (1.1, False)):
        mu = gaussian_dp.mu_from_epsilon_delta(1.0, 1e-6)
        n_rows = round(factor * max(least, 100) / mu)
        plan = DPTruncatedSVD(rank, adjacency=adjacency).plan(n_rows, n_features)
        iterated = [any(line.name == GUIDES[1] for line in path) for path in plan.branches[1:]]
        assert any(iterated) == (iterates and least > 0)
        # Rows that turn out not to be positive have the solver that they always have.
        assert not any(line.name == GUIDES[1] for line in plan.branches[0])


def test_the_gate_counts_each_row_by_itself():
    X = np.abs(np.random.default_rng(0).normal(size=(100, 4)))
    X[:49] *= -1
    X[49] = 0
    counts = []
    for row in (X[99].copy(), -X[99], np.full(4, 1e300), np.zeros(4), [1e300, -1e300, 1, 0]):
        X[99] = row
        counts.append(Rows(as_source(X)).count_mostly_positive())
    assert counts == [50, 49, 50, 49, 49]


@pytest.mark.parametrize(
    ("n_rows", "n_steps", "n_columns"), [(20_000, 4, 4), (60_000, 5, 6), (10**9, 5, 6)]
)
def test_more_is_sought_where_the_signal_is_strong(n_rows, n_steps, n_columns):
    # At epsilon=1 the signal is 200 from some 51,000 rows on.
    path = DPTruncatedSVD(3, solver="power", row_norm=1.0).plan(n_rows, 900).branches[-1]
    steps = [line for line in path if line.name.startswith("step")]
    assert [line.shape for line in steps] == [(900, n_columns)] * n_steps
    ratios = [after.share / before.share for before, after in itertools.pairwise(steps)]
    np.testing.assert_allclose(ratios, 3.0 if n_steps == 4 else 2.0)


def test_groups_of_features_double_in_the_order_of_the_mean():
    axis = np.random.default_rng(0).permutation(np.arange(200.0))
    groups = _groups(axis)
    assert [len(group) for group in groups] == [16, 32, 64, 88]
    np.testing.assert_array_equal(axis[np.concatenate(groups)], np.arange(200)[::-1])


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_the_weaker_the_signal_the_more_goes_to_the_means(adjacency):
    def shares(n_rows):
        svd = DPTruncatedSVD(3, row_norm=1.0, adjacency=adjacency, solver="power")
        path = svd.plan(n_rows, 900).branches[-1]
        first, again = (line.share for line in path if line.name in GUIDES)
        return first, first + again

    mu = gaussian_dp.mu_from_epsilon_delta(1.0, 1e-6)
    at = 1000 / (2 if adjacency == "replace" else 1) * mu / 30
    between = min(0.7, 1.5 / math.sqrt(at))
    assert shares(1000) == pytest.approx((min(0.05, 0.2 / math.sqrt(at)), between))
    assert shares(10) == pytest.approx((0.05, 0.7))
    assert shares(10**9) == pytest.approx((0.02, 0.07))


def test_a_guide_stands_out_if_noise_would_not_be_as_long():
    noise = np.random.default_rng(0).normal(size=(200, 400))
    stand_out = [PositiveMean(2.0 * row, 2.0, 0.1).excess > 0 for row in noise]
    assert sum(stand_out) <= 2
    assert all(PositiveMean(2.0 * (row + 0.7), 2.0, 0.1).excess > 0 for row in noise)


def test_a_bound_that_ends_at_its_least_is_doubted():
    X = table().toarray()
    X[100:] = 0.0
    with pytest.warns(PrivacyWarning, match="row norm: the search ended at 1e-12"):
        DPTruncatedSVD(2, random_state=KEY).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "Only .* stand", PrivacyWarning)
        DPTruncatedSVD(2, row_norm=4.0, random_state=KEY).fit(X)


def test_averaged_guides_have_the_noise_of_both_shares():
    one = PositiveMean(np.array([1.0, 0.0]), 3.0, 0.1)
    other = PositiveMean(np.array([0.0, 1.0]), 1.0, 0.9)
    both = one.averaged(other)
    np.testing.assert_allclose(both.mean, [0.1, 0.9])
    assert both.share == 1.0
    assert both.noise_std == pytest.approx(np.sqrt(0.01 * 9 + 0.81))


@pytest.mark.parametrize("unit", [1e-50, 1.0, 1e50])
def test_beside_the_mean_the_matrix_is_decomposed_exactly_if_noise_is_little(unit):
    X = unit * np.abs(np.random.default_rng(0).normal(size=(400, 30)) + 1)
    moment = X.T @ X
    squared = float(np.trace(moment))
    factors = decompose_guided(moment / squared, 1e-12, axis_of(X), squared_bound=squared)
    exact = decompose(moment / squared, 0.0, squared)
    # Beside the leading vector the mean is deflated to second order.
    np.testing.assert_allclose(factors.eigenvalues[0], exact.eigenvalues[0], rtol=1e-3)
    assert abs(factors.components[0] @ exact.components[0]) > 1 - 1e-6
    np.testing.assert_allclose(factors.components @ factors.components.T, np.eye(30), atol=1e-10)
    assert factors.total == pytest.approx(squared)


@pytest.mark.parametrize("scale", [1e-6, 0.003, 0.02, 10.0])
def test_factors_beside_the_mean_are_in_order_and_orthonormal(scale):
    generator = np.random.default_rng(1)
    X = table().toarray()[:, :120]
    moment = X.T @ X / np.square(X).sum()
    noise = generator.normal(size=moment.shape) * scale
    factors = decompose_guided(moment + (noise + noise.T) / 2, scale, axis_of(X))
    np.testing.assert_allclose(factors.components @ factors.components.T, np.eye(120), atol=1e-10)
    assert (factors.eigenvalues >= 0).all()
    assert (np.diff(factors.eigenvalues) <= 1e-12).all()
    assert factors.n_above_noise >= (scale < 1)


def test_beside_a_mean_that_says_nothing_the_matrix_speaks_alone():
    X = make_spiked(500, 40, k=2, random_state=0)[0]
    moment = X.T @ X
    axis = np.linalg.eigh(moment)[1][:, 0]
    ours, plain = decompose_guided(moment, 1e-3, axis), decompose(moment, 1e-3)
    np.testing.assert_allclose(
        np.abs(np.sum(ours.components * plain.components, axis=1)), 1.0, rtol=1e-9
    )
    np.testing.assert_allclose(ours.eigenvalues, plain.eigenvalues, rtol=1e-9)


def quantile_of(estimator, name, *shape):
    """Return which quantile a fit to that many rows and features seeks as a norm."""
    spec = estimator._spec_like(*shape, None)
    return norm_quantile(getattr(estimator._plan(spec), name), spec)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_the_quantile_sought_goes_from_20_to_100(adjacency):
    def sought(n_rows, n_features, epsilon, name="row_norm"):
        svd = DPTruncatedSVD(2, epsilon=epsilon, adjacency=adjacency)
        return quantile_of(svd, name, n_rows, n_features)

    # There counts are noisy, and the quantile is between the lowest and the median.
    assert 0.2 < sought(943, 1682, 1.0) <= 0.5
    assert sought(20_000, 100_000, 1.0) == 0.2
    assert 0.95 < sought(100_000, 20, 8.0) < 1
    # With the budget it goes to 1, until the noise of the counts ends that.
    beyond = [1 - sought(100_000, 20, epsilon) for epsilon in (0.5, 4.0, 32.0, 256.0)]
    assert beyond == sorted(beyond, reverse=True)
    assert 0 < beyond[-1] < 1e-3
    found = [sought(29858, 1000, epsilon) for epsilon in (0.5, 1.0, 2.0, 4.0, 8.0)]
    sizes = 2 if adjacency == "replace" else 1
    mus = [gaussian_dp.mu_from_epsilon_delta(epsilon, 1e-6) for epsilon in (0.5, 1.0, 2.0, 4.0)]
    signals = np.array([29858 * mu / (sizes * math.sqrt(1000)) for mu in mus])
    is_strong = signals > 120
    assert is_strong.sum() >= 2
    highest = 50 * math.exp(0.45 / 0.18)
    expected = np.clip(0.5 + 0.18 * np.log(signals / 50), 0.5, 0.95)
    expected = 1 - (1 - expected) * (highest / np.maximum(signals, highest)) ** 1.5
    np.testing.assert_allclose(np.array(found[:4])[is_strong], expected[is_strong], rtol=1e-9)
    assert found == sorted(found)
    assert 0.2 <= found[0] < 0.66
    # Few rows blur counts, whatever their signal.
    assert sought(300, 3, 1.0) == 0.5
    centered = DPPCA(2, adjacency=adjacency)
    assert quantile_of(centered, "mean_norm", 100_000, 5000) == 0.95
    # Of centered rows the quantile is the lower, the more components are sought.
    found = [
        quantile_of(DPPCA(k, adjacency=adjacency), "row_norm", 14_000 * sizes, 1000)
        for k in (1, 2, 3, 5, None)
    ]
    assert found[0] == found[1] > found[2] > found[3] == found[4]


def test_the_mean_of_centered_rows_has_a_larger_share_at_little_budget():
    shares = [DPPCA(2).plan(n, 64).parts.center.share for n in (200, 1300, 100_000)]
    assert shares[0] == 0.25 > shares[1] > shares[2] == 0.15


@pytest.mark.parametrize("epsilon", [0.5, 4.0, 64.0])
def test_rows_of_zeros_do_not_decide_the_norm(epsilon):
    """Up to nearly half of the rows may be such, whichever quantile is sought."""
    random = np.random.default_rng(0)
    X = random.normal(size=(3000, 60))
    norms = []
    for fraction in (0.0, 0.3, 0.45):
        kept = X * (random.random((3000, 1)) >= fraction)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyWarning)
            fit = DPTruncatedSVD(2, epsilon=epsilon, random_state=KEY).fit(kept)
        norms.append(fit.row_norm_)
    assert min(norms) > 0.5 * norms[0]


def test_counts_with_zeros_last_move_by_one_at_most():
    grid, values = np.array([1.0, 2.0, 4.0]), np.array([0.5, 0.5, 1.5, 3.0, 9.0])
    whole = GridCounts.in_all(grid, values, 5).zeros_last()
    assert whole.grid.tolist() == [2.0, 4.0, 1.0]
    assert whole.up_to_points.tolist() == [1, 2, 4]
    for new in (0.0, 1.0, 1.7, 4.0, 100.0, np.nan):
        for place in range(5):
            other = values.copy()
            other[place] = new
            moved = GridCounts.in_all(grid, other, 5).zeros_last().up_to_points
            assert np.abs(moved - whole.up_to_points).max() <= 1


def test_rows_of_unlike_length_are_warned_of():
    random = np.random.default_rng(0)
    X = np.exp(random.normal(size=(3000, 5)) @ random.normal(size=(5, 60)) / 2)
    with pytest.warns(PrivacyWarning, match="row_norm: clipping at .* leaves out ..% of the sum"):
        DPTruncatedSVD(3, epsilon=8.0, random_state=KEY).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        along = X[:, :1] * np.ones(60)  # long rows have the one direction of all
        for alike in (
            along + random.normal(size=X.shape) / 10,
            X / np.linalg.norm(X, axis=1, keepdims=True),
            random.normal(size=X.shape),
        ):
            DPTruncatedSVD(1, epsilon=8.0, random_state=KEY).fit(alike)


def test_the_part_of_squares_that_clipping_leaves_is_that_of_log_normal_norms():
    for spread, q in ((0.1, 0.9), (0.5, 0.7), (1.0, 0.5)):
        norms = np.exp(spread * ndtri((np.arange(200_000) + 0.5) / 200_000))
        bound, *points = np.quantile(norms, [q, 0.93, 0.96])
        expected = np.sum(np.minimum(norms, bound) ** 2) / np.sum(norms**2)
        found = unclipped_squares(bound, q, np.array(points), np.array([0.93, 0.96]))
        assert found == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize(
    "norms",
    [
        lambda u: np.where(u < 0.55, 0.3, 1.2),
        lambda u: u**4,
        lambda u: u**8,
        lambda u: 0.01 + (u > 0.7),
    ],
)
def test_rows_of_bounded_norms_are_not_warned_of(norms):
    random = np.random.default_rng(0)
    X = random.normal(size=(5000, 8))
    X *= (norms(random.random(5000)) / np.linalg.norm(X, axis=1))[:, np.newaxis]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for seed in range(5):
            DPTruncatedSVD(1, epsilon=8.0, random_state=KEY + seed).fit(X)


def test_norms_beyond_the_grid_are_not_called_small():
    X = 1e14 * np.random.default_rng(0).normal(size=(1000, 10))
    with pytest.warns(PrivacyWarning, match="probably 0, or beyond 1e|are probably larger"):
        DPTruncatedSVD(2, random_state=KEY).fit(X)
