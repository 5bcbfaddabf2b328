"""Entries and edges: what is charged, which solver is taken, and what is found without noise."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_array

from skdp import DPPCA, DPLowRankFactorizer, DPTruncatedSVD, units
from skdp.datasets import make_block_graph, make_low_rank
from skdp.decomposition.entries import solvers as entries_solvers
from skdp.linalg.norms import row_norms

# Which of the noisy components stand out is up to the draw.
pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

KEY = 2**100 + 23
ENTRY = {"privacy_unit": units.Entry((-1, 1), zero_is_missing=False)}


def test_the_largest_row_alone_is_too_little_for_an_edge():
    change = np.zeros((4, 4))
    change[0, 1] = change[1, 0] = 1.0
    Z = np.full((4, 1), 0.5)
    moved = np.linalg.norm(change @ Z)
    single, pair = (
        kind("replace", 0.0, 1.0, False).product(row_norms(Z))
        for kind in (units.ResolvedEntry, units.ResolvedEdge)
    )
    assert moved > 1.4 * single
    assert_allclose(moved, pair)


def test_noise_follows_the_released_basis(monkeypatch):
    monkeypatch.setattr(entries_solvers, "BASIS_CUT", 2.0)
    X = make_low_rank(400, 500, singular_values=(60.0, 20.0), coherence=1, random_state=0)[0]
    svd = DPTruncatedSVD(1, random_state=KEY, n_oversamples=0, epsilon=4.0, **ENTRY)
    products = [r for r in svd.fit(X).privacy_spent_.releases if "right product" in r.name]
    # A step of 2, and rows of norm 1 / sqrt(500) if all were alike.
    sensitivities = np.array([release.sensitivity for release in products]) * np.sqrt(500) / 2
    assert np.all(sensitivities > 1)
    assert np.all(sensitivities <= np.sqrt(2) * 1.001)


@pytest.mark.parametrize("n_iter", ["auto", 60])
@pytest.mark.parametrize("make", [DPTruncatedSVD, DPPCA])
def test_edges_and_entries_are_exact_without_noise(make, n_iter):
    X = make_block_graph(60, random_state=0)[0].toarray()
    for unit in (units.Entry((0, 1)), units.Edge((0, 1))):
        fit = make(2, epsilon=math.inf, privacy_unit=unit, n_iter=n_iter, random_state=0).fit(X)
        centered = X - X.mean(axis=0) if make is DPPCA else X
        exact = np.linalg.svd(centered, compute_uv=False)[:2]
        assert_allclose(fit.singular_values_, exact, rtol=1e-6)


ANY_ENTRY = units.Entry((-math.inf, math.inf))
EXACT = {
    "entries": (DPTruncatedSVD, "auto", ANY_ENTRY),
    "entries, one by one": (DPTruncatedSVD, "deflation", ANY_ENTRY),
    "centered entries": (DPPCA, "alternating", ANY_ENTRY),
    "edges": (DPTruncatedSVD, "auto", units.Edge((-math.inf, math.inf))),
    "edges, one by one": (DPTruncatedSVD, "deflation", units.Edge((-math.inf, math.inf))),
    "spectral changes": (DPTruncatedSVD, "auto", units.SpectralChange(math.inf)),
    "promised changes": (DPLowRankFactorizer, "alternating", units.FrobeniusChange(1, math.inf)),
}


@pytest.mark.covered
@pytest.mark.parametrize("contain", [np.asarray, csr_array])
@pytest.mark.parametrize("shape", [(90, 90), (90, 70), (70, 90)], ids=str)
@pytest.mark.parametrize(("make", "solver", "unit"), EXACT.values(), ids=EXACT)
def test_values_that_hardly_differ_are_exact_without_noise(make, solver, unit, shape, contain):
    generator = np.random.default_rng(0)
    X = generator.normal(size=shape) + 0.1
    is_symmetric = make is DPTruncatedSVD and not isinstance(unit, units.Entry)
    if is_symmetric or isinstance(unit, units.Edge):
        # Eigenvalues in pairs of both signs.
        X = np.block([[np.zeros((45, 45)), X[:45, :45]], [X[:45, :45].T, np.zeros((45, 45))]])
    fit = make(8, epsilon=math.inf, privacy_unit=unit, solver=solver).fit(contain(X))
    centered = X - X.mean(axis=0) if make is DPPCA else X
    _, values, right = np.linalg.svd(centered)
    assert_allclose(fit.singular_values_, values[:8], rtol=1e-9)
    assert_allclose(np.linalg.norm(fit.components_ @ right[:8].T, axis=1), 1, rtol=1e-9)


def chosen(svd, side):
    """Solver that is taken for a square matrix."""
    return svd._spec_like(side, side, None).solver


@pytest.mark.parametrize(
    ("side", "n_components", "solver"),
    [
        (24, 1, "input"),
        (32, 1, "alternating"),
        (48, 1, "alternating"),
        (32, 5, "input"),
        (48, 2, "alternating"),
        (64, 5, "alternating"),
    ],
)
def test_auto_takes_what_was_measured_to_be_better(side, n_components, solver):
    assert chosen(DPTruncatedSVD(n_components, **ENTRY), side) == solver
