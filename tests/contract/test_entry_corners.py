"""What fits that protect less than a row publish, spend, and do with degenerate matrices."""

import warnings
from functools import partial

import numpy as np
import pytest
from covers import each
from entry_cells import CELLS, Cell

from skdp import DPPCA, DPTruncatedSVD, PrivacyWarning
from skdp.units import Edge, Entry, Interaction, SparseRow, SpectralChange

pytestmark = pytest.mark.usefixtures("_quick_post_processing")
ignore_warnings = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")


@pytest.fixture
def _quick_post_processing(monkeypatch):
    monkeypatch.setattr("skdp.linalg.denoising._N_STEPS", 2)


def small_matrices(cell):
    """Matrices with hardly any rows or columns."""
    n, d = cell.shape
    shapes = {"one entry": np.ones((1, 1)), "one huge entry": np.full((1, 1), -1e300)}
    if n == d:
        return {**shapes, "two nodes": np.ones((2, 2))}
    return {**shapes, "one row": np.ones((1, d)), "one column": np.arange(n, dtype=float)[:, None]}


@pytest.mark.covered
@each(CELLS)
def test_small_matrices_raise_nothing_and_warn_of_nothing(cell):
    for name, X in small_matrices(cell).items():
        parameters = {"n_components": min(2, *X.shape)}
        if cell.model == "pca, public center":
            parameters["center"] = np.ones(X.shape[1])
        with warnings.catch_warnings(), np.errstate(all="raise"):
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", PrivacyWarning)
            fitted = cell(**parameters).fit(X)
        for attribute, value in vars(fitted).items():
            if attribute.endswith("_") and attribute != "privacy_spent_":
                assert np.isfinite(value).all(), (name, attribute)
        shares = [release.share for release in fitted.privacy_spent_.releases]
        assert sum(shares) == pytest.approx(1, abs=1e-12)


ANYTHING = (-np.inf, np.inf)
UNBOUNDED = {
    "entry": Entry(ANYTHING),
    "edge": Edge(ANYTHING),
    "row": SparseRow(3, ANYTHING),
    "spectral": SpectralChange(np.inf),
    "interaction": Interaction(),
}


@pytest.mark.covered
@ignore_warnings
@pytest.mark.parametrize("make", [DPTruncatedSVD, partial(DPPCA, center=False)])
@pytest.mark.parametrize("unit", UNBOUNDED)
@pytest.mark.parametrize("scale", [1.0, 1e300])
def test_fits_without_noise_and_bounds_raise_nothing(make, unit, scale):
    half = np.random.default_rng(4).uniform(-1, 1, size=(9, 9)) * scale
    fitted = make(2, epsilon=np.inf, privacy_unit=UNBOUNDED[unit]).fit(half / 2 + half.T / 2)
    assert np.isfinite(fitted.components_).all()


CLICKS = {"model": "svd", "bounds": "clicks", "adjacency": "replace", "coherence_bound": None}


@ignore_warnings
@pytest.mark.covered
@each(CELLS, unit=("entry", "edge"), **CLICKS)
@pytest.mark.parametrize("upper", [1e-100, 1e100])
@pytest.mark.parametrize("epsilon", [1e-3, 1e6])
def test_extreme_bounds_and_budgets_raise_nothing(cell, upper, epsilon):
    X = upper * cell.data(np.random.default_rng(5))
    more = {} if cell.is_pure else {"delta": 1e-12}
    fitted = cell(bounds=(0, upper), epsilon=epsilon, **more).fit(X)
    for name in ("components_", "singular_values_", "left_components_"):
        assert np.isfinite(getattr(fitted, name)).all(), name


@pytest.mark.parametrize("solver", ["power", "deflation", "alternating"])
def test_whether_a_graph_is_refused_does_not_depend_on_another_edge(solver):
    # Otherwise neighbors, one of them refused, could be told apart for certain.
    X = np.random.default_rng(6).uniform(size=(9, 9))
    neighbor = X.copy()
    neighbor[0, 0] = 1e300
    assert was_refused(solver, X) == was_refused(solver, neighbor)


def was_refused(solver, X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        try:
            Cell("edge", solver, "svd", bounds="clicks")().fit(X)
        except ValueError:
            return True
    return False
