"""All families of estimators: a new one takes every test of the contract and every attack by a row.

The tests stand in `attack_laws.py` and `contract_laws.py`, one function a law.
"""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import entry_cells
import entry_neighbours
import numpy as np
import pytest
import row_cells
import toy
import trace_cells
import trace_neighbours
from harness import Group

from skdp.linalg import shrinkage

__all__ = ["FAMILIES", "Family", "Slip", "every_cell", "every_family"]


@dataclass(frozen=True)
class Slip:
    """A mistake in a sensitivity, and where it is to be seen."""

    function: str
    release: str
    cell: Any
    wrong: Callable = lambda right: lambda *arguments: 0.6 * right(*arguments)


@dataclass(frozen=True)
class Family:
    """Estimators that are fitted in one way.

    A cell is one way to ask for a fit: called, it makes an estimator with other parameters still to
    be given; printed, it names itself; `adjacency` is its own.

    Attributes
    ----------
    name : str
        Name of the family.
    cells : tuple
        All that is attacked: every model, solver, unit and adjacency.
    datasets, strange : callable
        Give data for a cell by name: those that are attacked, the first being ordinary; and others
        of the same shape that a fit has to take without a warning.
    groups : callable
        Gives neighbours of data, and which unit is null for "zero_out".
    unlike : callable
        Gives the arguments of fits to data that have only public facts in common with these.
    released, public : callable
        Name the attributes that a fit sets from released values, and from public facts.
    reaches : callable
        Tells whether an attack on ordinary data got as far as it should, by the largest movement of
        every release.
    slips : dict
        Mistakes that the attacks have to notice.
    arguments : callable
        Turns data into the arguments of `fit`.
    setting : callable
        Gives a context in which a cell is fitted.
    per_unit : tuple of str
        Released attributes with a number for every unit.
    """

    name: str
    cells: tuple
    datasets: Callable[[Any], dict[str, Any]]
    strange: Callable[[Any], dict[str, Any]]
    groups: Callable[[Any, Any], Iterable[Group]]
    unlike: Callable[[Any, Any], list[tuple]]
    released: Callable[[Any], set[str]]
    public: Callable[[Any], set[str]]
    reaches: Callable[[Any, dict[str, float]], bool]
    slips: dict[str, Slip]
    arguments: Callable[[Any], tuple] = lambda data: (data,)
    setting: Callable[[Any], AbstractContextManager] = lambda cell: nullcontext()
    per_unit: tuple[str, ...] = ()

    def ordinary(self, cell):
        """Give the data that a cell is made for."""
        return next(iter(self.datasets(cell).values()))


def other_matrices(cell, X):
    """Matrices that have nothing but their shape in common with X."""
    return [(np.zeros(X.shape),), (-3 * X[::-1, ::-1] + 1e4,)]


COMPONENTS = {
    "components_",
    "explained_variance_",
    "explained_variance_ratio_",
    "singular_values_",
}
OF_PCA = {"mean_", "noise_variance_", "n_components_"}
# What is public stays without a name of its own.
OF_FITS = {"n_features_in_", "privacy_spent_", "_unit"}


def of_rows(cell):
    own = OF_PCA if cell.model.startswith("pca") else set()
    return {*COMPONENTS, *own, "row_norm_"}


def of_entries(cell):
    own = OF_PCA if cell.model.startswith("pca") else set()
    if cell.unit not in ("interaction", "row"):
        own = {*own, "left_components_", "coherence_left_"}
    return {*COMPONENTS, *own, "coherence_right_", "failed_"}


def public_of_decompositions(cell):
    return OF_FITS | ({"n_samples_"} if cell.model.startswith("pca") else set())


@contextmanager
def quick_post_processing(cell):
    """Whatever is done with releases, the next one has to be private."""
    with patch.object(shrinkage, "_N_STEPS", 1):
        yield


def entries_are_reached(cell, worst):
    if cell.unit in ("entry", "edge") and cell.adjacency == "replace" and not cell.coherence_bound:
        # More noise than that would be wasted.
        exact = [worst[name] for name in worst if "product" in name or name == "matrix"]
        return min(exact) > 0.999
    return max(worst.values()) > 0.7


def records_are_reached(cell, worst):
    if ("start, subspaces" in worst) != cell.has_gap:
        return False
    if cell.unit == "record":
        # What a huge response moves as far as anything can.
        sums = ("gradient 1", "products", "start 1", "start, core")
        return min(worst[name] for name in worst if name.startswith(sums)) > 0.99
    sums = ("gradient", "products")
    is_random = cell.init == "random"
    return not is_random or max(worst[name] for name in worst if name.startswith(sums)) > 0.4


FAMILIES = (
    Family(
        name="rows",
        cells=row_cells.CELLS,
        datasets=lambda cell: row_cells.datasets(),
        strange=lambda cell: row_cells.strange_datasets(),
        groups=row_cells.groups,
        unlike=other_matrices,
        released=of_rows,
        public=public_of_decompositions,
        reaches=lambda cell, worst: max(worst.values()) > 0.4,
        slips={name: Slip(*slip) for name, slip in row_cells.SLIPS.items()},
        setting=row_cells.setting,
    ),
    Family(
        name="entries",
        cells=entry_cells.CELLS,
        datasets=lambda cell: {"at the bounds": cell.data(np.random.default_rng(0))},
        strange=entry_cells.strange_matrices,
        groups=entry_neighbours.groups,
        unlike=other_matrices,
        released=of_entries,
        public=public_of_decompositions,
        reaches=entries_are_reached,
        slips={name: Slip(*slip) for name, slip in entry_cells.SLIPS.items()},
        setting=quick_post_processing,
        per_unit=("left_components_",),
    ),
    Family(
        name="records",
        cells=trace_cells.CELLS,
        datasets=lambda cell: {"drawn": cell.data()},
        strange=trace_cells.strange_data,
        groups=trace_neighbours.groups,
        unlike=trace_neighbours.unlike,
        released=lambda cell: {
            "left_components_",
            "singular_values_",
            "right_components_",
            "intercept_",
        },
        public=lambda cell: {"n_features_in_", "privacy_spent_", "_shape", "_coef_shape"},
        reaches=records_are_reached,
        slips={name: Slip(*slip) for name, slip in trace_cells.SLIPS.items()},
        arguments=lambda data: data.arguments,
    ),
    Family(
        name="toy",
        cells=toy.CELLS,
        datasets=toy.datasets,
        strange=toy.strange_datasets,
        groups=toy.groups,
        unlike=other_matrices,
        released=lambda cell: {"mean_"},
        public=lambda cell: {"n_features_in_", "privacy_spent_"},
        reaches=lambda cell, worst: worst["mean"] > 0.99,
        slips={"sum": Slip("row_sum", "mean", toy.Cell("replace"))},
    ),
)

every_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
every_cell = pytest.mark.parametrize(
    ("family", "cell"),
    [
        pytest.param(family, cell, id=f"{family.name}: {cell}")
        for family in FAMILIES
        for cell in family.cells
    ],
)
