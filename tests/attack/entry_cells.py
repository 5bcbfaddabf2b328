"""What can be asked of the estimators where a unit is less than a row, or another matrix."""

from contextlib import contextmanager
from dataclasses import dataclass, replace
from unittest.mock import patch

import numpy as np
from harness import NamedCell, Slip
from row_cells import RELEASED, RELEASED_OF_PCA

from skdp import DPPCA, DPTruncatedSVD
from skdp.linalg import denoising
from skdp.privacy import sensitivity
from skdp.units import Edge, Entry, Interaction, SparseRow, SpectralChange

N_ROWS, N_COLUMNS = 12, 9
N_ENTRIES = 3  # of a short row
CENTER = np.linspace(-1, 2, N_COLUMNS)
MODELS = {
    "svd": (DPTruncatedSVD, {}),
    "pca": (DPPCA, {}),
    "pca, public center": (DPPCA, {"center": CENTER}),
    "pca, not centered": (DPPCA, {"center": False}),
}
# Smallest and largest entry, and whether 0 is missing.
BOUNDS = {
    "clicks": (0.0, 1.0, True),
    "stars": (3.0, 5.0, True),
    "signed": (-1.0, 2.0, True),
    "away from 0": (3.0, 5.0, False),
}
ADJACENCIES = ("replace", "zero_out")
SQUARE_UNITS = ("edge", "spectral")


@dataclass(frozen=True)
class Cell(NamedCell):
    """One way to ask for a fit."""

    unit: str
    solver: str
    model: str
    adjacency: str = "replace"
    bounds: str | None = None
    is_pure: bool = False
    degree_floor: int = 1
    coherence_bound: float | None = None
    size: float | None = None

    def __call__(self, *, bounds=None, **more):
        """Make an estimator; `bounds` are other ones than those of the cell."""
        make, parameters = MODELS[self.model]
        return make(
            **{
                "n_components": 2,
                "privacy_unit": self._privacy_unit(bounds, more.get("epsilon", 1.0)),
                "n_iter": 2,
                "delta": 0 if self.is_pure else 1e-6,
                "adjacency": self.adjacency,
                "solver": self.solver,
                "coherence_bound": self.coherence_bound,
                **parameters,
                **more,
            }
        )

    def _privacy_unit(self, bounds, epsilon):
        if self.unit == "interaction":
            return Interaction(self.degree_floor)
        if self.unit == "spectral":
            # Without noise there is nothing to bound.
            largest = self.size or (1e6 if np.isfinite(epsilon) else np.inf)
            return SpectralChange(largest if bounds is None else max(map(abs, bounds)))
        *own, zero_is_missing = BOUNDS[self.bounds]
        bounds = tuple(own) if bounds is None else bounds
        if self.unit == "row":
            return SparseRow(N_ENTRIES, bounds)
        return (Edge if self.unit == "edge" else Entry)(bounds, zero_is_missing=zero_is_missing)

    @property
    def shape(self):
        return (N_COLUMNS, N_COLUMNS) if self.unit in SQUARE_UNITS else (N_ROWS, N_COLUMNS)

    @property
    def value_range(self):
        """Smallest and largest value of an entry, 0 included if it may be one."""
        lower, upper, zero_is_missing = BOUNDS[self.bounds]
        if zero_is_missing or self.adjacency == "zero_out" or self.unit == "row":
            return min(lower, 0.0), max(upper, 0.0)
        return lower, upper

    def data(self, generator):
        """Draw a matrix with entries at the bounds."""
        if self.unit == "interaction":
            return (generator.random(self.shape) < 0.5).astype(float)
        if self.unit == "spectral":
            half = generator.normal(size=self.shape)
            X = half + half.T
            return X if self.size is None else X * (self.size / (2 * np.abs(X).max()))
        lower, upper = self.value_range
        # What becomes null moves by its size.
        at_top = self.adjacency == "zero_out" or generator.random(self.shape) < 0.5
        X = np.where(at_top, upper, np.full(self.shape, lower))
        if self.unit == "row":
            # More entries than are kept.
            X[generator.random(self.shape) < 0.4] = 0.0
        return np.triu(X) + np.triu(X, 1).T if self.unit == "edge" else X


def _cells():
    for adjacency in ADJACENCIES:
        for bounds in BOUNDS:
            # The others add a center, which is public or released.
            models = ["svd", "pca"] if bounds in ("signed", "away from 0") else MODELS
            for model in models:
                ours = {"model": model, "adjacency": adjacency, "bounds": bounds}
                for solver in ("alternating", "deflation", "input"):
                    yield Cell("entry", solver, **ours)
                yield Cell("entry", "alternating", is_pure=True, **ours)
                yield Cell("edge", "alternating", **ours)
                yield Cell("edge", "alternating", is_pure=True, **ours)
                if BOUNDS[bounds][2]:
                    yield Cell("row", "alternating", **ours)
            for model in ("svd", "pca, not centered"):
                ours = {"model": model, "adjacency": adjacency, "bounds": bounds}
                yield Cell("edge", "power", **ours)
                yield Cell("edge", "deflation", **ours)
                yield Cell("edge", "power", is_pure=True, **ours)
    for model in ("svd", "pca, not centered"):
        for degree_floor in (1, 3):
            yield Cell("interaction", "power", model, degree_floor=degree_floor)
            yield Cell("interaction", "covariance", model, degree_floor=degree_floor)
    for model in ("svd", "pca, not centered"):
        for is_pure in (False, True):
            for size in (None, 1e9, 1e12):
                yield Cell("spectral", "power", model, is_pure=is_pure, size=size)
    # The iteration of the paper, with a bound that holds and one that does not.
    for coherence_bound in (1.0, 4.0, 100.0):
        ours = {"bounds": "clicks", "coherence_bound": coherence_bound}
        yield Cell("entry", "alternating", "svd", **ours)
        yield Cell("entry", "alternating", "pca", **ours)
        yield Cell("entry", "deflation", "svd", **ours)
        yield Cell("edge", "power", "svd", is_pure=True, **ours)
        yield Cell("edge", "deflation", "svd", **ours)


CELLS = tuple(_cells())


def strange(cell):
    """Matrices that numerical methods do not like, all finite."""
    n, d = cell.shape
    loop = np.zeros((n, d))
    loop[0, 0] = 2e6
    mixed = 10.0 ** np.random.default_rng(3).uniform(-300, 300, size=(n, d))
    alternating = (-1.0) ** np.add.outer(np.arange(n), np.arange(d))
    return {
        "zeros": np.zeros((n, d)),
        "one loop": loop,
        "huge": np.full((n, d), 1e300),
        "largest": alternating * np.finfo(float).max,
        "denormal": np.full((n, d), 5e-324),
        "mixed scales": np.triu(mixed) + np.triu(mixed, 1).T if n == d else mixed,
        "constant": np.ones((n, d)),
    }


def largest_norm(step, norms):
    return step * norms.max()


# Which function, what it might say, and of which cell.
MISTAKES = {
    "an edge moves one row": ("edge_product", largest_norm, Cell("edge", "power", "svd")),
    "an edge moves one row of the sums": (
        "edge_product_l1",
        lambda step, norms: sensitivity.edge_product(step, norms),
        Cell("edge", "power", "svd", is_pure=True),
    ),
    "an edge moves one entry of the core": (
        "symmetric_edge_core",
        lambda step, norms: step * np.prod(np.sort(norms)[-2:]),
        Cell("edge", "power", "svd"),
    ),
    "a short row is exchanged for nothing": (
        "short_row",
        lambda largest, step, n, adjacency: largest * np.sqrt(n),
        Cell("row", "alternating", "svd"),
    ),
    "a change of any rank is one of rank one": (
        "spectral_product",
        lambda norms: 1.0,
        Cell("spectral", "power", "svd"),
    ),
    "an interaction moves one row": (
        "interaction_product",
        lambda norms, floor: norms.max() / floor,
        Cell("interaction", "power", "svd", degree_floor=3),
    ),
}
SLIPS = {
    f"{name}, {bounds}": Slip(
        function, "", replace(cell, bounds=bounds), lambda _, wrong=wrong: wrong
    )
    for name, (function, wrong, cell) in MISTAKES.items()
    for bounds in ("clicks", "signed")
}
# Of the covered cells none attains it.
SLIPS["short_row_squares"] = Slip(
    "short_row_squares",
    "sum of squares",
    Cell("row", "alternating", "svd", adjacency="zero_out", bounds="clicks"),
)


def datasets(cell):
    """Matrices at the bounds, and others whose entries all differ."""
    return {"at the bounds": cell.data(np.random.default_rng(0)), "distinct": distinct(cell)}


def distinct(cell):
    """Give a matrix whose every entry is one of a kind."""
    lower, upper = cell.value_range if cell.bounds else (0.1, 2.0)
    X = np.random.default_rng(1).uniform(lower, upper, size=cell.shape)
    return np.triu(X) + np.triu(X, 1).T if cell.unit in SQUARE_UNITS else X


def released(cell):
    """Names of the attributes that come from released values."""
    names = RELEASED | (RELEASED_OF_PCA if cell.model.startswith("pca") else set())
    if cell.unit not in ("interaction", "row"):
        names = names | {"left_components_", "coherence_left_"}
    return names | {"coherence_right_", "failed_"}


@contextmanager
def setting(cell):
    """Shrink by a single step: privacy must not depend on post-processing, and this is fast."""
    with patch.object(denoising, "_N_STEPS", 1):
        yield


def is_reached(cell, worst):
    """Whether an attack got far."""
    if cell.unit in ("entry", "edge") and cell.adjacency == "replace" and not cell.coherence_bound:
        # The bound is attained: a larger one would waste noise.
        exact = [worst[name] for name in worst if "product" in name or name == "matrix"]
        return min(exact) > 0.999
    return max(worst.values()) > 0.7
