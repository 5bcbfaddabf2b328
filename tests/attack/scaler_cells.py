"""What can be asked of a scaler, and neighbors of its data."""

import itertools
from dataclasses import dataclass

import numpy as np
from harness import NamedCell, Slip, group, null_row, strange_numbers
from in_parts import in_parts, stacked
from row_cells import with_row
from scipy.sparse import csr_array, issparse

from skdp import DPStandardScaler, RowBlocks

N, D = 60, 3
LOW, HIGH = np.array([-2.0, -4.0, 0.0]), np.array([2.0, 2.0, 3.0])
# Within wide bounds noise hides the spread of all columns, which is searched for.
BOUNDS = {"none": None, "given": (LOW, HIGH), "wide": (1000 * LOW, 1000 * HIGH)}
ADJACENCIES = ("replace", "zero_out")
# Which entries of a neighbor are missing.
GAPS = np.array([[1, 0, 0], [0, 1, 1], [1, 1, 1]], dtype=bool)
RELEASED = {"mean_", "var_", "scale_", "mean_std_error_", "scale_std_error_"}
PUBLIC = {"n_features_in_", "clip_", "n_samples_seen_", "privacy_spent_"}


@dataclass(frozen=True)
class Cell(NamedCell):
    """One way to ask for scales."""

    bounds: str = "none"
    adjacency: str = "replace"
    container: str = "dense"
    # Whether a column is narrow beside its distance from 0.
    is_narrow: bool = True
    has_gaps: bool = False

    def __call__(self, **more):
        """Make a scaler; noise has to leave something that can be attacked."""
        given = {
            "epsilon": 1e4,
            "adjacency": self.adjacency,
            "bounds": BOUNDS[self.bounds],
            "with_mean": self.container != "csr",
            "missing": "mean" if self.has_gaps else "refuse",
        }
        return DPStandardScaler(**{**given, **more})

    def contain(self, X):
        """Put dense rows into a container."""
        return {"dense": np.asarray, "csr": csr_array, "parts": in_parts}[self.container](X)


CONTAINERS = ("dense", "csr", "parts")
CELLS = tuple(
    itertools.starmap(Cell, itertools.product(BOUNDS, ADJACENCIES, CONTAINERS, (True, False)))
) + tuple(
    Cell(bounds, adjacency, is_narrow=bounds != "given", has_gaps=True)
    for bounds, adjacency in itertools.product(BOUNDS, ADJACENCIES)
)


def datasets(cell):
    """Columns around 0, of zeros and positive, and far from 0 if asked for."""
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(N, D))
    rows[:, 1] = np.where(generator.random(N) < 0.5, 0.0, 3 * rows[:, 1])
    rows[:, 2] = 2000 + rows[:, 2] if cell.is_narrow else np.abs(rows[:, 2])
    if cell.has_gaps:
        rows[generator.random(rows.shape) < 0.3] = np.nan
    return {
        "ordinary": cell.contain(rows),
        "constant columns": cell.contain(np.tile([1.0, 0.0, 2000.0], (N, 1))),
        "zeros": cell.contain(np.zeros((N, D))),
        "long tails": cell.contain(generator.standard_cauchy(size=(N, D))),
    }


def strange(cell):
    """Finite numbers that are far from ordinary."""
    return {name: cell.contain(X) for name, X in strange_numbers((N, D)).items()}


def strangers(cell, X):
    """Rows that have nothing but their number in common with X."""
    rows = dense(X)
    return [(cell.contain(np.zeros(X.shape)),), (cell.contain(1e4 - 3 * rows[::-1, ::-1]),)]


def groups(cell, X):
    """Rows in the place of the first one: at either end of all intervals, beyond, and nowhere."""
    first, signs = dense(X)[0], np.array([1.0, -1.0, 1.0])
    rows = [first, np.zeros(D), LOW, HIGH, (LOW + HIGH) / 2, first / 2, 2 * first]
    rows += list(BOUNDS["wide"])
    rows += [scale * side for scale in (5e-324, 1.0, 1e9, 1e300) for side in (1, -1, signs, -signs)]
    rows += [np.array([0.3, -0.5, end]) for end in (1024, 1500, 2047)]
    # Closer looks count nothing outside of their intervals, which are where other rows lie: within
    # the given bounds, at an end.
    rows += [*dense(X)[1:6], *(np.array([0.3, -0.5, HIGH[2] - 2.0**k]) for k in (-14, -27, -40))]
    if cell.has_gaps:
        rows += [np.where(gaps, np.nan, row) for row in rows[:16] for gaps in GAPS]
    found = [(cell.contain(with_row(dense(X), 0, row)),) for row in rows]
    return [group(cell, found, (X,), lambda: null_row(0))]


def dense(X):
    """Copy rows out of their container."""
    return X.toarray() if issparse(X) else stacked(X) if isinstance(X, RowBlocks) else X.copy()


def moments_in_intervals(right):
    """Forget that a half is taken from the squares, or that a row in its place may be opposite."""

    def wrong(n_columns, adjacency, *more):
        return right(n_columns, "zero_out", *more) * (0.9 if adjacency == "zero_out" else 1.0)

    return wrong


SLIPS = {
    f"moments, {adjacency}, subtly": Slip(
        "column_moments", "column moments", Cell("given", adjacency), moments_in_intervals
    )
    for adjacency in ADJACENCIES
}


def is_reached(cell, worst):
    """Every release of a scaler can be moved as far as declared.

    Where the last look has the end of the given bounds alone, a row may only leave it: a change of
    one, not of two.
    """
    least = {"closer places in intervals 4": 0.7} if cell.bounds == "given" else {}
    return all(ratio > least.get(name, 0.95) for name, ratio in worst.items())
