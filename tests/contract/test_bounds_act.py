"""A bound that is given acts on the fit, or is refused: none is taken and then ignored.

A fit is recorded with the bound and without it, both with the noise of one seed. Nothing but the
bound differs, so that whatever differs in the records comes from it.
"""

import dataclasses
from functools import cache

import numpy as np
import pytest
from covers import pairwise_cover, slow_outside
from trace_cells import Cell

from skdp import DPPCA, DPTruncatedSVD
from skdp.testing._recording import RecordingBudget, fit_with
from skdp.units import Edge, Entry, Interaction, SparseRow, SpectralChange

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")


def recorded(estimator, data):
    """All that a fit releases and keeps, or the message of its refusal."""
    try:
        _, budget = fit_with(estimator, data, RecordingBudget)
    except ValueError as refusal:
        assert not hasattr(estimator, "privacy_spent_")
        return str(refusal)
    names = [name for name in vars(estimator) if name.endswith("_") and name[0] != "_"]
    kept = {name: getattr(estimator, name) for name in names if name != "privacy_spent_"}
    return budget.spent().releases, budget.values, kept


def is_the_same(one, other):
    """Whether two fits released and kept the same to the last bit."""
    releases, values, kept = zip(one, other, strict=True)
    if releases[0] != releases[1] or kept[0].keys() != kept[1].keys():
        return False
    pairs = [*zip(*values, strict=True), *((kept[0][name], kept[1][name]) for name in kept[0])]
    return all(map(np.array_equal, *zip(*pairs, strict=True)))


# Decompositions

UNITS = {
    "row": "row",
    "entry": Entry((-1, 1)),
    "edge": Edge((-1, 1)),
    "interaction": Interaction(2),
    "sparse row": SparseRow(4, (-1, 1)),
    "spectral": SpectralChange(2.0),
}
SOLVERS = {
    "row": ("auto", "covariance", "power"),
    "entry": ("auto", "alternating", "deflation", "input"),
    "edge": ("auto", "power", "deflation", "alternating"),
    "interaction": ("auto", "power", "covariance"),
    "sparse row": ("auto", "alternating"),
    "spectral": ("auto", "power"),
}
PURE_SOLVERS = {
    "entry": ("auto", "alternating"),
    "edge": ("auto", "power", "alternating"),
    "spectral": ("auto", "power"),
}
# So small that "auto" perturbs all entries, and so large that it iterates.
SMALL, LARGE = 10, 130
MODELS = {
    "svd": lambda n: (DPTruncatedSVD, {}),
    "pca": lambda n: (DPPCA, {}),
    "pca, public center": lambda n: (DPPCA, {"center": np.linspace(-0.5, 1, n)}),
    "pca, not centered": lambda n: (DPPCA, {"center": False}),
}
# Two values of each bound, that no matrix below is within.
BOUNDS = {"row_norm": (0.5, 0.25), "mean_norm": (0.5, 0.25), "coherence_bound": (1.05, 30.0)}


@dataclasses.dataclass(frozen=True)
class Fit:
    """One way to ask for a decomposition."""

    model: str
    unit: str
    solver: str
    size: int
    is_pure: bool = False

    @cache  # noqa: B019 - the fits are few, and end with the tests
    def recorded(self, **bounds):
        make, parameters = MODELS[self.model](self.size)
        parameters |= {"privacy_unit": UNITS[self.unit], "solver": self.solver, "n_iter": 2}
        delta = 0 if self.is_pure else 1e-6
        estimator = make(n_components=2, delta=delta, epsilon=20.0, **parameters, **bounds)
        return recorded(estimator, matrix(self.size))

    def __str__(self):
        return ", ".join(
            [self.model, self.unit, self.solver, str(self.size)] + ["pure"] * self.is_pure
        )

    def refuses(self, bound):
        """Whether the bound has nothing to bound here."""
        if bound == "row_norm":
            return self.unit != "row"
        if bound == "mean_norm":
            return self.unit != "row" or self.model in ("pca, public center", "pca, not centered")
        return self.unit not in ("entry", "edge") or self.takes_input

    @property
    def takes_input(self):
        is_small = self.unit == "entry" and self.size == SMALL and not self.is_pure
        return self.solver == "input" or (self.solver == "auto" and is_small)


@cache
def matrix(size):
    """A symmetric matrix with entries of all signs, so that it goes with every unit."""
    half = np.random.default_rng(0).uniform(-1, 1, size=(size, size))
    half[0] = 1.0
    half[np.random.default_rng(1).random(half.shape) < 0.3] = 0.0
    return np.triu(half) + np.triu(half, 1).T


def is_centered(model):
    return model in ("pca", "pca, public center")


def _fits():
    for model in MODELS:
        for unit, size in ((unit, size) for unit in UNITS for size in (SMALL, LARGE)):
            if is_centered(model) and unit in ("interaction", "spectral"):
                continue
            pure = [(solver, True) for solver in PURE_SOLVERS.get(unit, ())]
            for solver, is_pure in [*((solver, False) for solver in SOLVERS[unit]), *pure]:
                # A centered graph is not symmetric.
                is_symmetric = unit == "edge" and solver in ("power", "deflation")
                if not (is_centered(model) and is_symmetric):
                    yield Fit(model, unit, solver, size, is_pure)


FITS = tuple(_fits())


def each(cells):
    """Parametrise a test by all cells, of which those outside a pairwise cover are slow."""
    marked = slow_outside(pairwise_cover, cells)
    return [pytest.param(cell, id=str(cell), marks=marks) for cell, marks in marked]


@pytest.mark.covered
@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("fit", each(FITS))
def test_a_bound_of_a_decomposition_acts_or_is_refused(fit, bound):
    without = fit.recorded()
    assert not isinstance(without, str), without
    first, second = (fit.recorded(**{bound: value}) for value in BOUNDS[bound])
    if fit.refuses(bound):
        assert isinstance(first, str)
        assert bound in first
        assert isinstance(second, str)
    else:
        assert not isinstance(first, str), first
        assert not is_the_same(without, first)
        assert not is_the_same(first, second)


# Trace regression

LAYOUTS = ("matrices", "flat", "vectors", "row vectors", "outer", "one-hot", "sparse vectors")
REGRESSIONS = [
    Cell(layout, init, unit, fit_intercept=fit_intercept)
    for layout in LAYOUTS
    for unit in ("record", "response")
    for init, fit_intercept in (("random", True), ("random", False), ("spectral", True))
]


def covariances(shape):
    """Everything that a covariance may be, but for the default."""
    rows, columns = (np.diag(np.linspace(1, 2, n) * 1.5) for n in shape)
    return "identity", (rows, None), (None, columns), (rows, columns)


def values_of(cell, bound):
    """Values of a bound that matter to the data."""
    if bound == "covariance":
        return covariances(cell.shape)
    largest = np.abs(cell.data().responses).max()
    return largest / 2, largest / 4


@cache
def recorded_without_bounds(cell):
    return recorded(cell(), cell.data().arguments)


@pytest.mark.covered
@pytest.mark.parametrize("bound", ["response_bound", "covariance"])
@pytest.mark.parametrize("cell", each(REGRESSIONS))
def test_a_bound_of_a_regression_acts_or_is_refused(cell, bound):
    data, without = cell.data().arguments, recorded_without_bounds(cell)
    assert not isinstance(without, str), without
    found = [recorded(cell(**{bound: value}), data) for value in values_of(cell, bound)]
    assert not any(isinstance(told, str) for told in found)
    fits = [without, *found]
    for index, one in enumerate(fits):
        assert not any(is_the_same(one, other) for other in fits[index + 1 :]), index
