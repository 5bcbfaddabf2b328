"""What can be asked of factorizations of both sides, and neighbors of their data."""

import itertools
from contextlib import contextmanager
from dataclasses import dataclass, replace
from unittest.mock import patch

import entry_cells
import entry_neighbors
import numpy as np
import row_cells
from harness import NamedCell, watched_bases

from skdp import DPLowRankFactorizer
from skdp.decomposition.streams import sketches
from skdp.linalg.sketches import HaarSketch
from skdp.privacy.noise import algorithm_generator
from skdp.testing._recording import RecordingBudget, current_seed, fit_with, record
from skdp.units import Entry, FrobeniusChange

ADJACENCIES = ("replace", "zero_out")
BOUNDS = ("clicks", "signed", "away from 0")
# And whether with pure differential privacy.
SOLVERS = (("alternating", False), ("alternating", True), ("input", False), ("two_sketch", False))
SKETCH_SIZES = (4, 8)
#: Largest change of a matrix, where it is promised.
CHANGE = 1.5


@dataclass(frozen=True)
class Cell(NamedCell):
    """One way to ask for a fit."""

    unit: str
    solver: str
    adjacency: str = "replace"
    # Those of the entries, or how the norm of a row is found.
    bounds: str | None = None
    is_pure: bool = False
    missing: str = "zero"

    def __call__(self, **more):
        """Make an estimator."""
        parameters = {"privacy_unit": self._privacy_unit()}
        if self.unit == "row":
            parameters["row_norm"] = 1.0 if self.bounds == "given" else None
        return DPLowRankFactorizer(
            **{
                "n_components": 2,
                "solver": self.solver,
                "adjacency": self.adjacency,
                "delta": 0 if self.is_pure else 1e-6,
                "missing": self.missing,
                **parameters,
                **more,
            }
        )

    def _privacy_unit(self):
        if self.unit == "entry":
            *bounds, zero_is_missing = entry_cells.BOUNDS[self.bounds]
            return Entry(tuple(bounds), zero_is_missing=zero_is_missing)
        return FrobeniusChange(CHANGE) if self.unit == "frobenius" else self.unit

    @property
    def entries(self):
        """The cell of a truncated SVD with the same unit."""
        # Around the middle of its bounds no value is farther from a missing one than from another.
        bounds = "away from 0" if self.missing == "middle" else self.bounds
        return entry_cells.Cell("entry", self.solver, "svd", self.adjacency, bounds)


CELLS = (
    *(
        Cell("row", "projection", adjacency, norms)
        for adjacency, norms in itertools.product(ADJACENCIES, ("given", "private"))
    ),
    *(
        Cell("entry", solver, adjacency, bounds, is_pure)
        for solver, is_pure in SOLVERS
        for adjacency, bounds in itertools.product(ADJACENCIES, BOUNDS)
    ),
    *(
        Cell("entry", solver, adjacency, "stars", is_pure, "middle")
        for solver, is_pure in SOLVERS
        for adjacency in ADJACENCIES
    ),
    *(
        Cell("frobenius", solver, adjacency, is_pure=is_pure)
        for solver, is_pure in SOLVERS
        for adjacency in ADJACENCIES
    ),
)


def datasets(cell):
    """Those of the units elsewhere; where nothing bounds a matrix, any will do."""
    if cell.unit == "row":
        return row_cells.datasets()
    if cell.unit == "entry":
        return entry_cells.datasets(cell.entries)
    X = np.random.default_rng(0).normal(size=(entry_cells.N_ROWS, entry_cells.N_COLUMNS))
    return {"normal": X, "zeros": np.zeros_like(X), "beyond the largest entry": 1e8 * X}


def strange(cell):
    """Finite numbers that are far from ordinary."""
    return row_cells.strange(cell)


def groups(cell, X):
    """Neighbors of X."""
    if cell.unit == "row":
        return row_groups(cell, X)
    if cell.unit == "entry":
        return entry_neighbors.groups(cell.entries, X, make=cell)
    return entry_neighbors.beside(X, [X + change for change in changes(cell, X)])


def row_groups(cell, X):
    """Those of other fits to rows, and rows along the components that are about to be released."""
    components = fit_with(cell(), X, RecordingBudget)[0].components_
    along = [(row_cells.with_row(X, 0, sign * 10 * components[0]),) for sign in (1, -1)]
    return [
        replace(group, datasets=[*group.datasets, *along]) for group in row_cells.groups(cell, X)
    ]


def changes(cell, X):
    """Changes of the promised norm: along the bases of either side, and any other."""
    with watched_bases() as (right, left):
        record(cell, X)
    generator = np.random.default_rng(0)
    m, n = X.shape
    if cell.solver == "two_sketch":
        # Of the sketches that the fit draws.
        public = algorithm_generator(current_seed())
        right = [stretched(n, SKETCH_SIZES[0], public)]
        left = [stretched(m, SKETCH_SIZES[1], public)]
    directions = [
        (left[-1][:, 0] if left else generator.normal(size=m)),
        (right[-1][:, 0] if right else generator.normal(size=n)),
    ]
    found = [np.outer(*directions), generator.normal(size=X.shape), np.eye(m, n)]
    found += [np.outer(directions[0], generator.normal(size=n))]
    found += [np.outer(basis[:, 0], directions[1]) for basis in left]
    found += [np.outer(directions[0], basis[:, -1]) for basis in right]
    found += [np.eye(1, m * n).reshape(m, n)]
    return [CHANGE * change / np.linalg.norm(change) for change in found] + [
        np.full((m, n), 5e-324)
    ]


def stretched(side, size, generator):
    """Return the direction that a sketch lengthens most."""
    return np.linalg.svd(HaarSketch(side, size, generator).integers)[0][:, :1]


@contextmanager
def setting(cell):
    """Let sketches of so small a matrix leave dimensions out."""
    with (
        patch.object(sketches, "_LEAST_SIZE", SKETCH_SIZES[0]),
        patch.object(sketches, "_SIZE_PER_COMPONENT", 1),
        patch.object(sketches, "_CORE_PER_SIZE", SKETCH_SIZES[1] // SKETCH_SIZES[0]),
    ):
        yield


def released(cell):
    """Names of the attributes that come from released values."""
    names = {"components_", "singular_values_", "left_components_"}
    return names | {"row_norm_"} if cell.unit == "row" else names


def public(cell):
    """Names of those that are public."""
    return row_cells.PUBLIC | ({"middle_"} if cell.missing == "middle" else set())


def is_reached(cell, worst):
    """Whether an attack got far; a count moves by 1 whatever is tried."""
    if cell.unit == "row":
        return worst["projected rows"] > 0.9
    if cell.unit == "frobenius" or cell.solver == "two_sketch":
        return min(worst.values()) > 0.9
    return entry_cells.is_reached(cell.entries, worst)
