"""What fits that protect less than a row publish, spend, and do with degenerate matrices."""

import warnings
from functools import partial

import numpy as np
import pytest
from entry_cells import Cell, each
from harness import RecordingBudget, ReplayBudget, fit_with

from skdp import DPPCA, DPTruncatedSVD, PrivacyWarning
from skdp.units import Edge, Entry, Interaction, SparseRow, SpectralChange

pytestmark = pytest.mark.usefixtures("_quick_post_processing")
ignore_warnings = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")


@pytest.fixture
def _quick_post_processing(monkeypatch):
    monkeypatch.setattr("skdp.linalg.shrinkage._N_STEPS", 2)


def warnings_of(fit):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = fit()
    return result, [str(warning.message) for warning in caught]


@each()
def test_public_attributes_and_warnings_are_functions_of_the_releases_alone(cell):
    X = cell.data(np.random.default_rng(0))
    (original, budget), told = warnings_of(lambda: fit_with(cell(), X, RecordingBudget))
    make_budget = type("ScriptedBudget", (ReplayBudget,), {"script": budget.released})
    for other in (np.zeros(X.shape), -3 * X[::-1, ::-1] + 1e4):
        (again, _), told_again = warnings_of(lambda: fit_with(cell(), other, make_budget))  # noqa: B023
        assert told_again == told
        for name, value in vars(original).items():
            if name.endswith("_") and name != "privacy_spent_":
                np.testing.assert_array_equal(getattr(again, name), value, err_msg=name)
        assert again.privacy_spent_.releases == original.privacy_spent_.releases
        assert vars(again).keys() == vars(original).keys()


@ignore_warnings
@each()
def test_the_whole_budget_is_spent_and_no_more(cell):
    fitted = cell(epsilon=0.8).fit(cell.data(np.random.default_rng(1)))
    spent = fitted.privacy_spent_
    assert sum(release.share for release in spent.releases) == pytest.approx(1, abs=1e-12)
    assert spent.epsilon_at(cell().delta) == pytest.approx(0.8, rel=1e-6)
    mechanisms = {release.mechanism for release in spent.releases}
    if cell.is_pure:
        assert mechanisms <= {"laplace", "spherical"}
        assert spent.epsilon == 0.8
        assert spent.delta == 0
    else:
        assert mechanisms == {"gaussian"}
    assert spent.unit == cell.unit
    assert spent.enforced == (cell.unit != "spectral")


@ignore_warnings
@pytest.mark.parametrize("solver", ["alternating", "deflation"])
def test_an_iteration_that_fails_says_so_and_has_spent_everything(solver):
    cell = Cell("entry", solver, "svd", bounds="clicks", coherence_bound=1.0)
    fitted = cell().fit(cell.data(np.random.default_rng(2)))
    assert fitted.failed_
    assert sum(r.share for r in fitted.privacy_spent_.releases) == pytest.approx(1, abs=1e-12)
    assert any(release.name == "not used" for release in fitted.privacy_spent_.releases)
    generous = Cell("entry", solver, "svd", bounds="clicks", coherence_bound=100.0)
    assert not generous().fit(cell.data(np.random.default_rng(2))).failed_


def degenerate_matrices(cell):
    """Matrices that numerical methods do not like, all finite."""
    n, d = cell.shape
    is_square = n == d
    loop = np.zeros((n, d))
    loop[0, 0] = 2e6
    generator = np.random.default_rng(3)
    mixed = 10.0 ** generator.uniform(-300, 300, size=(n, d))
    alternating = (-1.0) ** np.add.outer(np.arange(n), np.arange(d))
    shapes = {
        "zeros": np.zeros((n, d)),
        "one loop": loop,
        "huge": np.full((n, d), 1e300),
        "largest": alternating * np.finfo(float).max,
        "denormal": np.full((n, d), 5e-324),
        "mixed scales": np.triu(mixed) + np.triu(mixed, 1).T if is_square else mixed,
        "constant": np.ones((n, d)),
        "one entry": np.ones((1, 1)),
        "one huge entry": np.full((1, 1), -1e300),
    }
    if is_square:
        return {**shapes, "two nodes": np.ones((2, 2))}
    return {**shapes, "one row": np.ones((1, d)), "one column": np.arange(n, dtype=float)[:, None]}


@each()
def test_degenerate_matrices_raise_nothing_and_warn_of_nothing(cell):
    for name, X in degenerate_matrices(cell).items():
        parameters = {"n_components": min(2, *X.shape)}
        if cell.model == "pca, public centre":
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


@ignore_warnings
@pytest.mark.parametrize("make", [DPTruncatedSVD, partial(DPPCA, center=False)])
@pytest.mark.parametrize("unit", UNBOUNDED)
@pytest.mark.parametrize("scale", [1.0, 1e300])
def test_fits_without_noise_and_bounds_raise_nothing(make, unit, scale):
    half = np.random.default_rng(4).uniform(-1, 1, size=(9, 9)) * scale
    fitted = make(2, epsilon=np.inf, privacy_unit=UNBOUNDED[unit]).fit(half / 2 + half.T / 2)
    assert np.isfinite(fitted.components_).all()


@ignore_warnings
def test_the_smallest_basis_cut_raises_nothing():
    cell = Cell("entry", "alternating", "svd", bounds="clicks")
    assert np.isfinite(cell(basis_cut=0.01).fit(np.ones(cell.shape)).components_).all()


@ignore_warnings
@each("entry", "edge", model="svd", bounds="clicks", adjacency="replace", coherence_bound=None)
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
    # Otherwise neighbours, one of them refused, could be told apart for certain.
    X = np.random.default_rng(6).uniform(size=(9, 9))
    neighbour = X.copy()
    neighbour[0, 0] = 1e300
    assert was_refused(solver, X) == was_refused(solver, neighbour)


def was_refused(solver, X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        try:
            Cell("edge", solver, "svd", bounds="clicks")().fit(X)
        except ValueError:
            return True
    return False
