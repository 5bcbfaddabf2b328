"""All families of estimators: a new one takes every test of the contract and every attack by a row.

The tests stand in `attack_laws.py` and `contract_laws.py`, one function a law.
"""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import class_cells
import covariance_cells
import entry_cells
import entry_neighbors
import factor_cells
import fed_streams
import least_squares_cells
import people_cells
import row_cells
import scaler_cells
import toy
import trace_cells
import trace_neighbors
import user_cells
from covers import pairwise_cover, single_cover
from harness import Slip

from skdp.testing._recording import Group

__all__ = ["FAMILIES", "Family"]


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
        Gives neighbors of data, and which unit is null for "zero_out".
    strangers : callable
        Gives the arguments of fits to data that have only public facts in common with these.
    released, public : callable
        Name the attributes that a fit sets from released values, and from public facts.
    recorded : callable
        Gives the unit that the record names, and whether the promise is enforced.
    is_reached : callable
        Tells whether an attack on ordinary data got as far as it should, by the largest movement of
        every release.
    slips : dict
        Mistakes that the attacks have to notice, beside too little of each sensitivity and release.
    arguments : callable
        Turns data into the arguments of `fit`.
    setting : callable
        Gives a context in which a cell is fitted.
    has_null : callable
        Tells whether a null unit is more than other data: by default for "zero_out".
    n_units : callable
        Counts the units in the arguments of `fit`, which are its rows by default.
    is_seeded_by_clipped_data : bool
        Whether data that are the same once they are clipped are the same for a seed.
    per_unit : tuple of str
        Released attributes with a number for every unit.
    cover : callable
        Chooses the cells in which the law of neighbors runs by default: with every pair of values,
        or with every value if each cell takes long.
    exempt : dict
        Names of laws that say nothing of these estimators, each with the reason.
    """

    name: str
    cells: tuple
    datasets: Callable[[Any], dict[str, Any]]
    strange: Callable[[Any], dict[str, Any]]
    groups: Callable[[Any, Any], Iterable[Group]]
    strangers: Callable[[Any, Any], list[tuple]]
    released: Callable[[Any], set[str]]
    public: Callable[[Any], set[str]]
    recorded: Callable[[Any], tuple[str, bool]]
    is_reached: Callable[[Any, dict[str, float]], bool]
    arguments: Callable[[Any], tuple] = lambda data: getattr(data, "arguments", (data,))
    setting: Callable[[Any], AbstractContextManager] = lambda cell: nullcontext()
    has_null: Callable[[Any], bool] = lambda cell: cell.adjacency == "zero_out"
    n_units: Callable[[tuple], int] = lambda arguments: arguments[0].shape[0]
    is_seeded_by_clipped_data: bool = False
    per_unit: tuple[str, ...] = ()
    cover: Callable[[tuple], tuple] = pairwise_cover
    slips: dict[str, Slip] = field(default_factory=dict)
    exempt: dict[str, str] = field(default_factory=dict)

    def keeps(self, law):
        """Whether a law says something of these estimators."""
        return law.__name__ not in self.exempt

    def ordinary(self, cell):
        """Give the data that a cell is made for."""
        return next(iter(self.datasets(cell).values()))


# What a module has of a family is named as the field is.
OWN = ("datasets", "strange", "groups", "strangers", "released", "public", "is_reached", "setting")
NO_TRANSFORM = {"rows_are_transformed_one_by_one": "these estimators have no transform"}


def family_of(name, unit, module, prefix="", **more):
    """Make a family of the functions of a module, whose names may begin with a prefix."""
    own = {key: getattr(module, prefix + key) for key in OWN if hasattr(module, prefix + key)}
    own |= {"cells": module.CELLS, "slips": getattr(module, "SLIPS", {})}
    own["recorded"] = lambda cell: (unit, True)
    if unit == "user":
        own["n_units"] = lambda arguments: len(set(arguments[-1]))
    return Family(name, **own | more)


def of_people(name, prefix, cells, module, **more):
    """Make a family of people, of whose records a module has what is not theirs."""
    own = {key: getattr(module, key) for key in OWN[4:] if hasattr(module, key)}
    given = {"cells": cells, "exempt": NO_TRANSFORM, "cover": single_cover, **own, **more}
    return family_of(name, "user", people_cells, prefix, strangers=people_cells.strangers, **given)


OF_SCALES = {
    "released": lambda cell: scaler_cells.RELEASED,
    "public": lambda cell: scaler_cells.PUBLIC,
}
OF_LEAST_SQUARES = {
    "released": lambda cell: least_squares_cells.RELEASED,
    "public": lambda cell: {"n_features_in_", "privacy_spent_"},
    "cover": single_cover,
    "exempt": NO_TRANSFORM,
}
OF_MATRICES = {
    "strangers": row_cells.strangers,
    "is_seeded_by_clipped_data": True,
    "per_unit": ("left_components_",),
}
FAMILIES = (
    family_of("rows", "row", row_cells),
    family_of(
        "people",
        "user",
        people_cells,
        released=row_cells.released,
        public=row_cells.public,
        cover=people_cells.cover,
    ),
    of_people(
        "columns of people",
        "scaled_",
        people_cells.SCALER_CELLS,
        scaler_cells,
        exempt={},
        **OF_SCALES,
    ),
    of_people(
        "covariances of people",
        "scaled_",
        people_cells.COVARIANCE_CELLS,
        covariance_cells,
    ),
    of_people("classes of people", "class_", people_cells.CLASS_CELLS, class_cells),
    of_people(
        "records of people",
        "trace_",
        people_cells.TRACE_CELLS,
        trace_cells,
        cover=trace_cells.cover,
    ),
    family_of("least squares", "record", least_squares_cells, **OF_LEAST_SQUARES),
    family_of(
        "least squares of people",
        "user",
        least_squares_cells,
        "people_",
        cells=least_squares_cells.PEOPLE_CELLS,
        strangers=people_cells.strangers,
        is_reached=least_squares_cells.is_reached,
        **OF_LEAST_SQUARES,
    ),
    family_of(
        "entries",
        "entry",
        entry_cells,
        groups=entry_neighbors.groups,
        public=row_cells.public,
        recorded=lambda cell: (cell.unit, cell.unit != "spectral"),
        # A short row of zeros is null.
        has_null=lambda cell: cell.adjacency == "zero_out" and cell.unit != "row",
        **OF_MATRICES,
    ),
    family_of(
        "records",
        "record",
        trace_cells,
        groups=trace_neighbors.groups,
        strangers=trace_neighbors.strangers,
        recorded=lambda cell: (cell.unit, True),
        cover=trace_cells.cover,
        exempt=NO_TRANSFORM,
    ),
    family_of("classes", "record", class_cells, cover=single_cover, exempt=NO_TRANSFORM),
    family_of(
        "factors",
        "entry",
        factor_cells,
        recorded=lambda cell: (cell.unit, cell.unit != "frobenius"),
        has_null=lambda cell: cell.adjacency == "zero_out" and cell.unit != "frobenius",
        **OF_MATRICES,
    ),
    family_of("users", "user", user_cells, cover=single_cover),
    family_of("columns", "row", scaler_cells, **OF_SCALES),
    family_of("covariances", "row", covariance_cells, exempt=NO_TRANSFORM),
    family_of(
        "streams",
        "update",
        fed_streams,
        released=lambda cell: fed_streams.RELEASED,
        recorded=lambda cell: (cell.unit, cell.unit == "update"),
        is_reached=lambda cell, worst: min(worst.values()) > 0.99,
        arguments=lambda data: data,
        # A null update is one of 0, and a null entry is 0: data like any others.
        has_null=lambda cell: False,
        n_units=lambda arguments: len(arguments[-1]),
        exempt={
            "a_seed_repeats_a_fit": "noise that is drawn before the data cannot be keyed by them, "
            "so that it is fresh whatever the seed, which draws the sketches alone",
            "a_second_fit_does_not_depend_on_the_first": "a stream opens when it is made, once",
            "bad_data_are_refused_before_anything_is_spent": "all is spent before there are data; "
            "that bad updates change nothing is to be seen in tests/decomposition/test_streams.py",
            "the_record_is_what_was_planned": "a stream has no plan to be looked at: making it is "
            "what spends the budget",
            **NO_TRANSFORM,  # what a stream publishes has one, and holds nothing else
        },
    ),
    family_of(
        "toy",
        "row",
        toy,
        released=lambda cell: {"mean_"},
        public=lambda cell: {"n_features_in_", "privacy_spent_"},
        is_reached=lambda cell, worst: min(worst.values()) > 0.7,
    ),
)
