"""skdp's own contract for entries, edges and the other units beside whole rows."""

import warnings

import numpy as np
import pytest
from containers import fits_in_all
from refusals import refusal_of
from scipy import sparse
from sklearn.base import clone
from sklearn.decomposition import PCA, TruncatedSVD

from skdp import DPPCA, DPTruncatedSVD, PrivacyWarning, RowBlocks
from skdp.datasets import make_block_graph, make_low_rank
from skdp.units import Edge, Entry, Interaction, SparseRow, SpectralChange

SECRET = 0xD1CE << 100
TABLE = np.clip(make_low_rank(80, 60, singular_values=(30, 20), random_state=0)[0], -1, 1)
GRAPH = make_block_graph(70, p_within=0.5, p_between=0.1, random_state=0)[0].toarray()
BOUNDS = (-1.0, 1.0)
CELLS = {
    "entry, alternating": {"privacy_unit": Entry(BOUNDS), "solver": "alternating"},
    "entry, deflation": {"privacy_unit": Entry(BOUNDS), "solver": "deflation"},
    "entry, input": {"privacy_unit": Entry(BOUNDS), "solver": "input"},
    "entry, pure": {"privacy_unit": Entry(BOUNDS), "delta": 0.0},
    "edge, power": {"privacy_unit": Edge(BOUNDS), "solver": "power"},
    "edge, deflation": {"privacy_unit": Edge(BOUNDS), "solver": "deflation"},
    "edge, alternating": {"privacy_unit": Edge(BOUNDS), "solver": "alternating"},
    "edge, pure": {"privacy_unit": Edge(BOUNDS), "delta": 0.0},
    "interaction, power": {"privacy_unit": Interaction(degree_floor=5), "solver": "power"},
    "interaction, covariance": {"privacy_unit": Interaction(5), "solver": "covariance"},
    "spectral": {"privacy_unit": SpectralChange()},
    "spectral, pure": {"privacy_unit": SpectralChange(), "delta": 0.0},
    "short rows": {"privacy_unit": SparseRow(10, BOUNDS)},
}
RESULTS = ["components_", "explained_variance_", "explained_variance_ratio_", "singular_values_"]

every_estimator = pytest.mark.parametrize("make", [DPPCA, DPTruncatedSVD])
every_cell = pytest.mark.parametrize("cell", CELLS)
quiet = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
pytestmark = quiet


def estimator_of(make, cell, **more):
    parameters = {"n_components": 2, **CELLS[cell], **more}
    if make is DPPCA and cell not in ("entry, alternating", "entry, pure"):
        parameters["center"] = False
    return make(**parameters)


def data_of(cell):
    if cell.startswith(("edge", "spectral")):
        return GRAPH
    return (TABLE > 0.3).astype(float) if cell.startswith("interaction") else TABLE


@pytest.mark.covered(at_most=1)
@every_estimator
@every_cell
def test_containers_give_the_same_fit(make, cell):
    X = data_of(cell).astype(np.float32).astype(np.float64)
    containers = {
        "F order": np.asfortranarray(X),
        "csr": sparse.csr_array(X),
        "csc": sparse.csc_matrix(X),
        "float32": X.astype(np.float32),
    }
    if not cell.startswith(("edge", "spectral")):
        containers["blocks"] = RowBlocks(lambda: np.array_split(X, 7), X.shape)
        containers["sparse blocks"] = RowBlocks(
            lambda: map(sparse.csr_array, np.array_split(X, 7)), X.shape
        )
    estimator = estimator_of(make, cell, epsilon=np.inf, random_state=SECRET)
    assert list(fits_in_all(estimator, containers, clone(estimator).fit(X), RESULTS))


@pytest.mark.covered(at_most=4)
@every_estimator
# Of short rows others are decomposed than those passed in.
@pytest.mark.parametrize("cell", [cell for cell in CELLS if cell != "short rows"])
def test_without_noise_the_components_are_the_best_ones(make, cell):
    estimator = estimator_of(make, cell, epsilon=np.inf, n_iter=60).fit(data_of(cell))
    X = data_of(cell)
    if cell.startswith("interaction"):
        X = X / np.sqrt(np.maximum(X.sum(axis=1, keepdims=True), 5))
    exact = TruncatedSVD(2, algorithm="arpack")
    if make is DPPCA and estimator.center is not False:
        exact = PCA(2)
    exact.fit(X)
    cosines = np.abs(np.sum(estimator.components_ * exact.components_, axis=1))
    np.testing.assert_allclose(cosines, 1, atol=1e-6)
    np.testing.assert_allclose(estimator.singular_values_, exact.singular_values_, rtol=1e-6)
    if not cell.startswith("spectral"):
        ratios = exact.explained_variance_ratio_
        if make is DPPCA and estimator.center is False:
            ratios = exact.singular_values_**2 / np.sum(X**2)
        np.testing.assert_allclose(estimator.explained_variance_ratio_, ratios, rtol=1e-5)
    if hasattr(estimator, "left_components_"):
        centered = X - (X.mean(axis=0) if isinstance(exact, PCA) else 0)
        triplets = estimator.left_components_ * estimator.singular_values_
        np.testing.assert_allclose(triplets, centered @ estimator.components_.T, atol=1e-4)


def test_whole_spectrum_by_input_perturbation():
    pca = DPPCA(privacy_unit=Entry((-np.inf, np.inf)), epsilon=np.inf).fit(TABLE)
    exact = PCA().fit(TABLE)
    np.testing.assert_allclose(
        pca.explained_variance_[:50], exact.explained_variance_[:50], rtol=1e-8
    )


@every_estimator
def test_square_units_are_pairwise(make):
    units = {"row": False, "entry": False, "edge": True, "spectral": True}
    for name, expected in units.items():
        unit = CELLS[f"{name}, pure"]["privacy_unit"] if name != "row" else "row"
        assert make(privacy_unit=unit).__sklearn_tags__().input_tags.pairwise is expected


@every_estimator
def test_the_published_mode_ends_early_and_keeps_nothing_back(make):
    estimator = estimator_of(make, "entry, alternating", coherence_bound=1.0)
    with pytest.warns(PrivacyWarning, match=r"exceeded coherence_bound=1\.0"):
        estimator.fit(TABLE)
    assert estimator.failed_
    shares = [release.share for release in estimator.privacy_spent_.releases]
    assert sum(shares) == pytest.approx(1)
    # No coherence exceeds the number of rows, and no int is too large for a bound.
    generous = estimator_of(make, "entry, alternating", coherence_bound=10**400, epsilon=50)
    generous.fit(TABLE)
    assert not generous.failed_
    steps = [r for r in generous.privacy_spent_.releases if r.name.startswith("right product")]
    # Capped: no row of an orthonormal basis is longer than 1.
    assert {round(release.sensitivity, 3) for release in steps} == {2.0}


# Bad input

BAD = {
    "privacy_unit=Entry(None)": "bounds=None of privacy_unit=.*the smallest and the largest value",
    "privacy_unit=SpectralChange(float('inf')), center=False": "gives no guarantee",
    "privacy_unit=Entry((0, float('inf')))": "gives no guarantee",
    "privacy_unit=SparseRow(3, (float('-inf'), 1))": "gives no guarantee",
    "privacy_unit=Entry(BOUNDS), solver='power'": "choose 'auto' or one of",
    "privacy_unit=Edge(BOUNDS), solver='input'": "choose 'auto' or one of",
    "privacy_unit=Interaction(), solver='alternating', center=False": "choose 'auto' or one of",
    "privacy_unit=SpectralChange(), solver='deflation', center=False": "choose 'auto' or one of",
    "privacy_unit=SparseRow(3, BOUNDS), solver='covariance'": "choose 'auto' or one of",
    "solver='alternating'": "choose 'auto' or one of",
    "coherence_bound=4": "coherence_bound",
    "privacy_unit=Entry(BOUNDS), delta=0, solver='deflation'": "the Gaussian noise of solver=",
    "privacy_unit=Entry(BOUNDS), delta=0, solver='input'": "the Gaussian noise of solver=",
    "privacy_unit=Edge(BOUNDS), delta=0, solver='deflation', center=False": "noise of solver=",
    "privacy_unit=Interaction(), delta=0, center=False": "the Gaussian noise of privacy_unit=",
    "privacy_unit=SparseRow(3, BOUNDS), delta=0": "the Gaussian noise of privacy_unit=",
    "privacy_unit=Entry(BOUNDS), n_components=71": "n_components=71",
    "privacy_unit=Entry(BOUNDS), coherence_bound=0.5": "coherence_bound",
    "privacy_unit=Entry(BOUNDS), coherence_bound=4, solver='input'": "coherence_bound",
    "privacy_unit=SpectralChange(), coherence_bound=4, center=False": "coherence_bound",
    # Bounds of another unit, or of another solver.
    "privacy_unit=Entry(BOUNDS), row_norm=1.0": "row_norm",
    "privacy_unit=Edge(BOUNDS), mean_norm=1.0": "mean_norm",
    "privacy_unit=SparseRow(3, BOUNDS), row_norm=1.0": "row_norm",
    "privacy_unit=Interaction(), mean_norm=1.0, center=False": "mean_norm",
    "privacy_unit=SpectralChange(), row_norm=1.0, center=False": "row_norm",
    "privacy_unit=SparseRow(3, BOUNDS), coherence_bound=4": "coherence_bound",
    "privacy_unit=Interaction(), coherence_bound=4, center=False": "coherence_bound",
}
BAD_PCA = {
    "privacy_unit=SpectralChange()": "takes no center: pass center=False",
    "privacy_unit=Edge(BOUNDS), solver='power'": "center=False or solver='alternating'",
    "privacy_unit=Entry(BOUNDS), n_components=0.5": "pass an int",
    "privacy_unit=Edge(BOUNDS), n_components=None": "pass an int",
    "privacy_unit=Entry(BOUNDS), n_components=None, solver='alternating'": "pass an int",
    "privacy_unit=Interaction(), center=[0.0] * 70": "takes no center",
    "privacy_unit=Interaction()": "takes no center",
    "mean_norm=1.0, center=False": "mean_norm",
    "mean_norm=1.0, center=[0.0] * 70": "mean_norm",
}


@pytest.mark.parametrize(
    ("make", "bad", "message"),
    [
        *((make, bad, message) for make in (DPPCA, DPTruncatedSVD) for bad, message in BAD.items()),
        *((DPPCA, bad, message) for bad, message in BAD_PCA.items()),
    ],
)
def test_bad_parameters_are_refused_before_anything_is_spent(make, bad, message):
    parameters = {"n_components": 2, **eval(f"dict({bad})")}
    if make is DPTruncatedSVD:
        parameters.pop("center", None)
    assert refusal_of(make(**parameters), GRAPH).match(message)


@every_estimator
@pytest.mark.parametrize("unit", [Edge(BOUNDS), SpectralChange(1.0)], ids=["edge", "spectral"])
def test_asymmetric_input_is_refused(make, unit):
    estimator = make(1, privacy_unit=unit)
    if make is DPPCA:
        estimator.set_params(center=False)
    asymmetric = GRAPH.copy()
    asymmetric[3, 4] += 1
    for X in (asymmetric, sparse.csr_array(asymmetric), TABLE):
        assert refusal_of(clone(estimator), X).match("symmetric")
    assert refusal_of(estimator, RowBlocks(lambda: [GRAPH], GRAPH.shape)).match("RowBlocks")


@every_estimator
def test_sparse_zeros_outside_the_bounds_are_refused(make):
    estimator = make(1, privacy_unit=Entry((1, 5), zero_is_missing=False))
    ratings = sparse.csr_array(np.maximum(TABLE, 0) * 5)
    assert refusal_of(estimator, ratings).match("zero_is_missing=True")


def test_missing_stars_are_protected_as_such():
    ratings = np.where(TABLE > 0.2, 4.0, 0.0)
    for missing, step in ((True, 5.0), (False, 4.0)):
        unit = Entry((1, 5), zero_is_missing=missing)
        svd = DPTruncatedSVD(1, privacy_unit=unit, solver="input").fit(ratings)
        assert svd.privacy_spent_.releases[-1].sensitivity == pytest.approx(step, rel=1e-4)


@every_estimator
def test_warnings(make):
    entry = {"privacy_unit": Entry(BOUNDS)}
    with pytest.warns(PrivacyWarning, match=r"delta=0\.001 exceeds one over .* entries, 4800"):
        make(1, delta=1e-3, **entry).fit(TABLE)
    with pytest.warns(PrivacyWarning, match="of 2 components .* narrower bounds"):
        make(2, epsilon=0.01, **entry).fit(TABLE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make(1, delta=0, epsilon=500, **entry).fit(TABLE)


# What comes out


@pytest.mark.parametrize("solver", ["power", "deflation", "alternating"])
def test_indefinite_matrices_keep_their_signs(solver):
    X, _, _ = make_low_rank(
        200, 200, singular_values=(50.0, -30.0, 18.0), symmetric=True, random_state=1
    )
    svd = DPTruncatedSVD(
        3,
        privacy_unit=Edge((float(X.min()), float(X.max()))),
        solver=solver,
        epsilon=1000.0,
        random_state=SECRET,
    ).fit(X)
    restored = (svd.left_components_ * svd.singular_values_) @ svd.components_
    signs = np.sign(np.sum(svd.left_components_ * svd.components_.T, axis=0))
    np.testing.assert_array_equal(signs, [1, -1, 1])
    # Of 50 other seeds the largest is 4.9; with a wrong sign it would be 36 or more.
    assert np.linalg.norm(X - restored, 2) < 8


@every_estimator
@pytest.mark.parametrize("contain", [np.asarray, sparse.csr_array])
def test_interactions_are_transformed_as_they_are_decomposed(make, contain):
    table = (TABLE > 0.3).astype(float)
    center = {"center": False} if make is DPPCA else {}
    fitted = make(2, privacy_unit=Interaction(degree_floor=5), epsilon=np.inf, **center)
    fitted.fit(table)
    rows = table / np.sqrt(np.maximum(table.sum(axis=1, keepdims=True), 5))
    expected = rows @ fitted.components_.T
    np.testing.assert_allclose(fitted.transform(contain(7 * table)), expected, atol=1e-12)
    blocks = RowBlocks(lambda: [contain(table[:33]), contain(table[33:])], table.shape)
    np.testing.assert_allclose(np.vstack(list(fitted.transform(blocks))), expected, atol=1e-12)
    if make is DPPCA:
        likelihoods = fitted.score_samples(3 * table)
        np.testing.assert_allclose(likelihoods, fitted.score_samples(table))
