"""What can be asked of covariances, and neighbors of their data: those of scales, and more."""

import itertools
from dataclasses import dataclass, replace

import numpy as np
import scaler_cells
from harness import Slip, group, null_row
from row_cells import with_row
from scaler_cells import ADJACENCIES, BOUNDS, GAPS, D, dense, strange, strangers

from skdp import DPCovariance

__all__ = ["CELLS", "SLIPS", "datasets", "strange", "strangers"]

RELEASED = {"location_", "covariance_", "correlation_", "scale_"}
RELEASED |= {
    "is_located_",
    "location_noise_std_",
    "noise_std_",
    "noise_metric_",
    "_weight_noise_std",
    "presence_",
    "unclipped_",
    "left_",
    "_is_scaled",
    "feature_bounds_",
    "prior_weight_",
}
PUBLIC = {"n_features_in_", "n_samples_seen_", "privacy_spent_"}
# How far rows reach follows the budget.
EPSILONS = (1e4, 4.0)


@dataclass(frozen=True)
class Cell(scaler_cells.Cell):
    """One way to ask for covariances."""

    epsilon: float = 1e4
    is_centered: bool = False
    has_marginals: bool = False
    has_prior: bool = False
    in_bounds: bool = False

    def __call__(self, **more):
        """Make an estimator."""
        given = {
            "epsilon": self.epsilon,
            "adjacency": self.adjacency,
            "bounds": BOUNDS[self.bounds],
            "assume_centered": self.is_centered,
            "scales": "bounds" if self.in_bounds else None,
            "missing": "mean" if self.has_gaps else "refuse",
            "marginals": self.has_marginals,
            "prior": (np.zeros(D), np.eye(D)) if self.has_prior else None,
        }
        return DPCovariance(**{**given, **more})


CELLS = tuple(
    itertools.starmap(
        Cell, itertools.product(BOUNDS, ADJACENCIES, ("dense", "parts"), (False,), (False,))
    )
)
CELLS += tuple(replace(cell, epsilon=4.0, is_centered=True) for cell in CELLS)
CELLS += tuple(
    Cell(bounds, adjacency, has_gaps=True, is_narrow=bounds == "none", epsilon=epsilon)
    for bounds, adjacency, epsilon in itertools.product(BOUNDS, ADJACENCIES, EPSILONS)
)
CELLS += tuple(
    Cell("given", adjacency, container, has_marginals=True, has_gaps=has_gaps, is_narrow=False)
    for adjacency in ADJACENCIES
    for container, has_gaps in (("dense", False), ("dense", True), ("parts", False))
)
CELLS += tuple(
    Cell("given", adjacency, epsilon=4.0, is_centered=is_centered, has_prior=True)
    for adjacency, is_centered in itertools.product(ADJACENCIES, (False, True))
)
CELLS += tuple(
    Cell("given", adjacency, container, is_centered=is_centered, in_bounds=True)
    for adjacency in ADJACENCIES
    for container, is_centered in (("dense", False), ("parts", True))
)


def released(cell):
    """Name the attributes that are released."""
    return RELEASED | ({"marginals_"} if cell.has_marginals else set())


def public(cell):
    """Name the attributes that follow from public facts."""
    return PUBLIC | ({"dtypes_", "marginals_noise_std_"} if cell.has_marginals else set())


def datasets(cell):
    """Columns of a scaler, and rows all of which are long in one direction."""
    found = scaler_cells.datasets(cell)
    line = np.outer(np.linspace(-1, 1, scaler_cells.N), [1.0, -2.0, 3.0])
    return {**found, "line": cell.contain(line)}


def groups(cell, X):
    """Rows in the place of the first one: long ones along columns, and across each other."""
    first, big = dense(X)[0], 1e9
    (of_scales,) = scaler_cells.groups(replace(cell, adjacency="replace"), X)
    rows = [dense(one)[0] for (one,) in of_scales.datasets]
    rows += [np.where(np.arange(D) == j, side, first) for j in range(D) for side in (big, -big)]
    if cell.has_gaps:
        rows += [np.where(gaps, np.nan, big) for gaps in GAPS]
    found = [(cell.contain(with_row(dense(X), 0, row)),) for row in rows]
    return [group(cell, found, (X,), lambda: null_row(0))]


def orthogonal(right):
    """Forget that a row in its place may be orthogonal."""

    def wrong(row_norm, adjacency, *more):
        return right(row_norm, "zero_out", *more) * (0.9 if adjacency == "zero_out" else 1.0)

    return wrong


MOMENT = "scaled second moment"
SLIPS = {
    f"second moment, {adjacency}, subtly": Slip(
        "second_moment", MOMENT, Cell("given", adjacency, is_narrow=False), orthogonal
    )
    for adjacency in ADJACENCIES
}


is_reached = scaler_cells.is_reached
