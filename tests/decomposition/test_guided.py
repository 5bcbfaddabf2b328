"""Rows of tables without negative entries: the gate, the mean that guides, and both ways on."""

import math
import warnings

import numpy as np
import pytest

from skdp import DPPCA, DPTruncatedSVD, PrivacyWarning
from skdp.data.rows import Rows
from skdp.data.sources import as_source
from skdp.datasets import make_interactions
from skdp.decomposition.rows.moments import decompose_guided
from skdp.linalg.norms import GridCounts

pytestmark = pytest.mark.filterwarnings("ignore:Only .* stand:skdp.PrivacyWarning")
# Good for repeatable tests, and for nothing else.
KEY = 0x5B1E7C20D94F4A6A8E33C7A1F06D2B98


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
    assert names(strong)[:3] == [GATE, GUIDES[0], "second moment"]
    for other in (X.toarray() - X.mean(axis=0), -X):
        shut = DPTruncatedSVD(3, row_norm=4.0, random_state=KEY).fit(other)
        assert names(shut)[:3] == [GATE, "mean", "second moment"]


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
    svd = DPTruncatedSVD(3, row_norm=4.0, solver="covariance", random_state=KEY).fit(X)
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


def test_the_gate_counts_each_row_by_itself():
    X = np.abs(np.random.default_rng(0).normal(size=(100, 4)))
    X[:49] *= -1
    X[49] = 0
    counts = []
    for row in (X[99].copy(), -X[99], np.full(4, 1e300), np.zeros(4), [1e300, -1e300, 1, 0]):
        X[99] = row
        counts.append(Rows(as_source(X)).count_mostly_positive())
    assert counts == [50, 49, 50, 49, 49]


def test_a_bound_that_ends_at_its_least_is_doubted():
    X = table().toarray()
    X[10:] = 0.0
    with pytest.warns(PrivacyWarning, match="row norm: the search ended at 1e-12"):
        DPTruncatedSVD(2, random_state=KEY).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "Only .* stand", PrivacyWarning)
        DPTruncatedSVD(2, row_norm=4.0, random_state=KEY).fit(X)


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


@pytest.mark.parametrize("epsilon", [0.5, 4.0, 64.0])
def test_rows_of_zeros_do_not_decide_the_norm(epsilon):
    """Most of the rows may be such, whichever quantile is sought."""
    random = np.random.default_rng(0)
    X = random.normal(size=(3000, 60))
    norms = []
    for fraction in (0.0, 0.3, 0.45, 0.7):
        kept = X * (random.random((3000, 1)) >= fraction)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyWarning)
            fit = DPTruncatedSVD(2, epsilon=epsilon, random_state=KEY).fit(kept)
        norms.append(fit.row_norm_)
    assert 0.5 * norms[0] < min(norms) <= max(norms) < 1.5 * norms[0]


def test_long_rows_are_no_rows_of_zeros():
    X = np.random.default_rng(0).normal(size=(5000, 8))
    X[:3000] *= 1e10
    fit = DPTruncatedSVD(2, epsilon=4.0, random_state=KEY).fit(X)
    assert fit.row_norm_ > 1e10


def test_rows_of_zeros_are_no_long_rows():
    random = np.random.default_rng(0)
    X = random.random((3000, 20)) * (random.random((3000, 20)) < 0.05)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", PrivacyWarning)
        for seed in range(5):
            DPTruncatedSVD(2, epsilon=1.0, random_state=KEY + seed).fit(X)
    assert not [warning for warning in caught if "leaves out" in str(warning.message)]


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


def giant_rows(shape, part, length, seed=0):
    """Draw rows in one ball, and a part of them as one number in all columns."""
    random = np.random.default_rng(seed)
    X = random.normal(size=shape) * np.linspace(3, 1, shape[1])
    X[random.random(len(X)) < part] = -length
    return X


@pytest.mark.parametrize("estimator", [DPPCA, DPTruncatedSVD])
def test_giant_rows_are_warned_of_beyond_the_bound_and_within(estimator):
    beyond = giant_rows((20_000, 50), 0.03, 1e6)
    with pytest.warns(PrivacyWarning, match="row_norm: clipping at .* leaves out .*, such as -999"):
        fit = estimator(2, epsilon=1.0, random_state=KEY).fit(beyond)
    assert fit.row_norm_ < 100
    within = giant_rows((20_000, 5), 0.03, 1e6)
    with pytest.warns(PrivacyWarning, match=r"row_norm: [23]\..% of the rows are .* times as"):
        fit = estimator(2, epsilon=4.0, random_state=KEY).fit(within)
    assert fit.row_norm_ > 1e6


@pytest.mark.parametrize("part", [0.0, 0.6])
def test_rows_of_zeros_and_rows_of_like_length_have_no_giants(part):
    X = giant_rows((20_000, 5), part, 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for epsilon in (1.0, 64.0):
            DPTruncatedSVD(2, epsilon=epsilon, random_state=KEY).fit(X)


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
        # Of the last ones it is true that a part of them is far longer than all others.
        warnings.filterwarnings(
            "ignore", "row_norm: .* times as long as all others", PrivacyWarning
        )
        for seed in range(5):
            DPTruncatedSVD(1, epsilon=8.0, random_state=KEY + seed).fit(X)


def test_norms_beyond_the_grid_are_not_called_small():
    X = 1e14 * np.random.default_rng(0).normal(size=(1000, 10))
    with pytest.warns(PrivacyWarning, match="probably 0, or beyond 1e|are probably larger"):
        DPTruncatedSVD(2, random_state=KEY).fit(X)
