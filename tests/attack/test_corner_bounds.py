"""Bounds far apart, and whatever data, end no fit once something is released."""

import numpy as np
import pytest
from corner_cases import Corner, draw_corner, outcome
from scipy import sparse
from uncut import without_cut

from skdp import DPPCA, DPTraceRegressor, DPTruncatedSVD
from skdp.units import Entry

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

N_DRAWS, N_GROUPS = 500, 5
SECRET = 2**100


@pytest.mark.slow
@pytest.mark.parametrize("group", range(N_GROUPS))
def test_no_corner_ends_a_fit_after_a_release_or_leaves_a_number_that_is_not_finite(group):
    # A fault is drawn and fitted again by `outcome(draw_corner(seed))`.
    outcomes = {seed: outcome(draw_corner(seed)) for seed in range(group, N_DRAWS, N_GROUPS)}
    faults = {seed: found for seed, found in outcomes.items() if found not in ("fitted", "refused")}
    assert not faults
    # What is refused beforehand tells nothing about what comes after.
    assert list(outcomes.values()).count("fitted") > 0.9 * len(outcomes)


def rows(scale=1.0):
    return scale * np.random.default_rng(0).normal(size=(40, 6))


@pytest.mark.parametrize(
    ("solver", "row_norm", "mean_norm"),
    [("power", 1.0, 1e100), ("covariance", 1e-100, 1.0), ("covariance", 1e-60, 1e100)],
)
@pytest.mark.parametrize("center", ["private", "public"])
def test_sparse_rows_that_a_center_would_drown_are_refused(solver, row_norm, mean_norm, center):
    parameters = {"mean_norm": mean_norm}
    if center == "public":
        parameters = {"center": np.full(6, mean_norm)}
    pca = DPPCA(2, solver=solver, row_norm=row_norm, **parameters, random_state=SECRET)
    assert outcome(Corner(pca, (sparse.csr_array(rows()),))) == "refused"
    named = "mean_norm" if center == "private" else "center"
    with pytest.raises(ValueError, match=f"row_norm={row_norm}.*beside the norm .* of {named}"):
        pca.fit(sparse.csr_array(rows()))
    # Dense rows are centered one by one, and what is not centered needs no center.
    assert outcome(Corner(pca, (rows(),))) == "fitted"
    pca.set_params(center=False, mean_norm=None)
    assert outcome(Corner(pca, (sparse.csr_array(rows()),))) == "fitted"


@pytest.mark.parametrize("solver", ["covariance", "power"])
def test_a_private_center_may_be_long_beside_sparse_rows(solver):
    # Its length is not known beforehand: squares of noise scales would overflow.
    pca = DPPCA(2, solver=solver, row_norm=1e-100, epsilon=0.1, random_state=SECRET)
    assert outcome(Corner(pca, (sparse.csr_array(rows(1e12)),))) == "fitted"


@pytest.mark.covered
@pytest.mark.parametrize("make", [DPPCA, DPTruncatedSVD])
@pytest.mark.parametrize("solver", ["covariance", "power"])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("bound", [1e-100, 1e60, 1e100])
def test_spectra_neither_overflow_nor_leave_float32(make, solver, container, bound):
    estimator = make(
        2, solver=solver, row_norm=bound, mean_norm=bound, epsilon=3.0, random_state=SECRET
    )
    for dtype in (np.float32, np.float64):
        data = container(rows().astype(dtype))
        assert outcome(Corner(estimator, (data,))) == "fitted"
        assert estimator.singular_values_.dtype == dtype


@pytest.mark.parametrize("make", [DPPCA, DPTruncatedSVD])
def test_rows_that_nothing_bounds_do_not_overflow(make):
    X = rows()
    X[0] = 1e300
    assert outcome(Corner(make(2, epsilon=np.inf), (X,))) == "fitted"


def test_a_public_center_may_be_any_number_of_times_the_noise():
    pca = DPPCA(
        3,
        center=np.linspace(-3e98, 3e98, 6),
        privacy_unit=Entry((0.0, 1e-90)),
        solver="deflation",
        epsilon=50.0,
        random_state=SECRET,
    )
    assert outcome(Corner(pca, (rows(1e-90),))) == "fitted"


@pytest.mark.parametrize(
    "parameters",
    [
        pytest.param({"covariance": (None, [[1e-100]])}, id="too large for float32"),
        pytest.param({"covariance": (None, [[1e92]])}, id="too small for float32"),
    ],
)
def test_coefficients_beyond_the_range_of_float32_are_numbers(parameters):
    X, y = rows().astype(np.float32), 1e6 * rows()[:, 0]
    model = DPTraceRegressor(epsilon=100.0, random_state=SECRET, **parameters)
    # Reads the coefficients where the caller's own underflow would raise.
    with without_cut():
        assert outcome(Corner(model, (X, y))) == "fitted"
    assert model.coef_.dtype == np.float32
