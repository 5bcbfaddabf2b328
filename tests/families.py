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
    arguments: Callable[[Any], tuple] = lambda data: (data,)
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


FAMILIES = (
    Family(
        name="rows",
        cells=row_cells.CELLS,
        datasets=row_cells.datasets,
        strange=row_cells.strange_datasets,
        groups=row_cells.groups,
        strangers=row_cells.strangers,
        released=row_cells.released,
        public=row_cells.public,
        recorded=lambda cell: ("row", True),
        is_reached=row_cells.is_reached,
        slips=row_cells.SLIPS,
        setting=row_cells.setting,
    ),
    Family(
        name="people",
        cells=people_cells.CELLS,
        datasets=people_cells.datasets,
        strange=people_cells.strange_datasets,
        groups=people_cells.groups,
        strangers=people_cells.strangers,
        released=row_cells.released,
        public=row_cells.public,
        recorded=lambda cell: ("user", True),
        is_reached=people_cells.is_reached,
        setting=people_cells.setting,
        arguments=lambda data: data.arguments,
        n_units=lambda arguments: len(set(arguments[1])),
        cover=people_cells.cover,
    ),
    Family(
        name="columns of people",
        cells=people_cells.SCALER_CELLS,
        datasets=people_cells.scaled_datasets,
        strange=people_cells.scaled_strange_datasets,
        groups=people_cells.scaled_groups,
        strangers=people_cells.strangers,
        released=lambda cell: scaler_cells.RELEASED,
        public=lambda cell: scaler_cells.PUBLIC,
        recorded=lambda cell: ("user", True),
        is_reached=scaler_cells.is_reached,
        arguments=lambda data: data.arguments,
        n_units=lambda arguments: len(set(arguments[1])),
        cover=single_cover,
    ),
    Family(
        name="covariances of people",
        cells=people_cells.COVARIANCE_CELLS,
        datasets=people_cells.scaled_datasets,
        strange=people_cells.scaled_strange_datasets,
        groups=people_cells.scaled_groups,
        strangers=people_cells.strangers,
        released=covariance_cells.released,
        public=covariance_cells.public,
        recorded=lambda cell: ("user", True),
        is_reached=covariance_cells.is_reached,
        arguments=lambda data: data.arguments,
        n_units=lambda arguments: len(set(arguments[1])),
        cover=single_cover,
        exempt={"rows_are_transformed_one_by_one": "covariances transform nothing"},
    ),
    Family(
        name="classes of people",
        cells=people_cells.CLASS_CELLS,
        datasets=people_cells.class_datasets,
        strange=people_cells.class_strange_data,
        groups=people_cells.class_groups,
        strangers=people_cells.class_strangers,
        released=class_cells.released,
        public=class_cells.public,
        recorded=lambda cell: ("user", True),
        is_reached=class_cells.is_reached,
        setting=class_cells.setting,
        arguments=lambda data: data.arguments,
        n_units=lambda arguments: len(set(arguments[-1])),
        cover=single_cover,
        exempt={"rows_are_transformed_one_by_one": "a classifier predicts, and has no transform"},
    ),
    Family(
        name="records of people",
        cells=people_cells.TRACE_CELLS,
        datasets=people_cells.trace_datasets,
        strange=people_cells.trace_strange_data,
        groups=people_cells.trace_groups,
        strangers=people_cells.trace_strangers,
        released=trace_cells.released,
        public=trace_cells.public,
        recorded=lambda cell: ("user", True),
        is_reached=trace_cells.is_reached,
        arguments=lambda data: data.arguments,
        n_units=lambda arguments: len(set(arguments[-1])),
        cover=trace_cells.cover,
        exempt={"rows_are_transformed_one_by_one": "a regression predicts, and has no transform"},
    ),
    Family(
        name="least squares",
        cells=least_squares_cells.CELLS,
        datasets=least_squares_cells.datasets,
        strange=least_squares_cells.strange_data,
        groups=least_squares_cells.groups,
        strangers=least_squares_cells.strangers,
        released=lambda cell: least_squares_cells.RELEASED,
        public=lambda cell: {"n_features_in_", "privacy_spent_"},
        recorded=lambda cell: ("record", True),
        is_reached=least_squares_cells.is_reached,
        arguments=lambda data: data.arguments,
        cover=single_cover,
        exempt={"rows_are_transformed_one_by_one": "a regression predicts, and has no transform"},
    ),
    Family(
        name="least squares of people",
        cells=least_squares_cells.PEOPLE_CELLS,
        datasets=least_squares_cells.people_datasets,
        strange=least_squares_cells.people_strange_data,
        groups=least_squares_cells.people_groups,
        strangers=least_squares_cells.people_strangers,
        released=lambda cell: least_squares_cells.RELEASED,
        public=lambda cell: {"n_features_in_", "privacy_spent_"},
        recorded=lambda cell: ("user", True),
        is_reached=least_squares_cells.is_reached,
        arguments=lambda data: data.arguments,
        n_units=lambda arguments: len(set(arguments[-1])),
        cover=single_cover,
        exempt={"rows_are_transformed_one_by_one": "a regression predicts, and has no transform"},
    ),
    Family(
        name="entries",
        cells=entry_cells.CELLS,
        datasets=entry_cells.datasets,
        strange=entry_cells.strange_matrices,
        groups=entry_neighbors.groups,
        strangers=row_cells.strangers,
        released=entry_cells.released,
        public=row_cells.public,
        recorded=lambda cell: (cell.unit, cell.unit != "spectral"),
        is_reached=entry_cells.is_reached,
        slips=entry_cells.SLIPS,
        setting=entry_cells.setting,
        # A short row of zeros is null.
        has_null=lambda cell: cell.adjacency == "zero_out" and cell.unit != "row",
        is_seeded_by_clipped_data=True,
        per_unit=("left_components_",),
    ),
    Family(
        name="records",
        cells=trace_cells.CELLS,
        datasets=trace_cells.datasets,
        strange=trace_cells.strange_data,
        groups=trace_neighbors.groups,
        strangers=trace_neighbors.strangers,
        released=trace_cells.released,
        public=trace_cells.public,
        recorded=lambda cell: (cell.unit, True),
        is_reached=trace_cells.is_reached,
        arguments=lambda data: data.arguments,
        cover=trace_cells.cover,
        exempt={"rows_are_transformed_one_by_one": "a regression predicts, and has no transform"},
    ),
    Family(
        name="classes",
        cells=class_cells.CELLS,
        datasets=class_cells.datasets,
        strange=class_cells.strange_data,
        groups=class_cells.groups,
        strangers=class_cells.strangers,
        released=class_cells.released,
        public=class_cells.public,
        recorded=lambda cell: ("record", True),
        is_reached=class_cells.is_reached,
        setting=class_cells.setting,
        arguments=lambda data: data.arguments,
        cover=single_cover,
        exempt={"rows_are_transformed_one_by_one": "a classifier predicts, and has no transform"},
    ),
    Family(
        name="factors",
        cells=factor_cells.CELLS,
        datasets=factor_cells.datasets,
        strange=factor_cells.strange_datasets,
        groups=factor_cells.groups,
        strangers=row_cells.strangers,
        released=factor_cells.released,
        public=factor_cells.public,
        recorded=lambda cell: (cell.unit, cell.unit != "frobenius"),
        is_reached=factor_cells.is_reached,
        setting=factor_cells.setting,
        has_null=lambda cell: cell.adjacency == "zero_out" and cell.unit != "frobenius",
        is_seeded_by_clipped_data=True,
        per_unit=("left_components_",),
    ),
    Family(
        name="users",
        cells=user_cells.CELLS,
        datasets=user_cells.datasets,
        strange=user_cells.strange_data,
        groups=user_cells.groups,
        strangers=user_cells.strangers,
        released=user_cells.released,
        public=user_cells.public,
        recorded=lambda cell: ("user", True),
        is_reached=user_cells.is_reached,
        arguments=lambda data: data.arguments,
        n_units=lambda arguments: len(set(arguments[2])),
        cover=single_cover,
    ),
    Family(
        name="columns",
        cells=scaler_cells.CELLS,
        datasets=scaler_cells.datasets,
        strange=scaler_cells.strange_datasets,
        groups=scaler_cells.groups,
        strangers=scaler_cells.strangers,
        released=lambda cell: scaler_cells.RELEASED,
        public=lambda cell: scaler_cells.PUBLIC,
        recorded=lambda cell: ("row", True),
        is_reached=scaler_cells.is_reached,
        slips=scaler_cells.SLIPS,
    ),
    Family(
        name="covariances",
        cells=covariance_cells.CELLS,
        datasets=covariance_cells.datasets,
        strange=covariance_cells.strange_datasets,
        groups=covariance_cells.groups,
        strangers=covariance_cells.strangers,
        released=covariance_cells.released,
        public=covariance_cells.public,
        recorded=lambda cell: ("row", True),
        is_reached=covariance_cells.is_reached,
        slips=covariance_cells.SLIPS,
        exempt={"rows_are_transformed_one_by_one": "covariances transform nothing"},
    ),
    Family(
        name="streams",
        cells=fed_streams.CELLS,
        datasets=fed_streams.datasets,
        strange=fed_streams.strange_datasets,
        groups=fed_streams.groups,
        strangers=fed_streams.strangers,
        released=lambda cell: fed_streams.RELEASED,
        public=fed_streams.public,
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
            "rows_are_transformed_one_by_one": "a stream transforms nothing; what it publishes "
            "does, which holds nothing else",
        },
    ),
    Family(
        name="toy",
        cells=toy.CELLS,
        datasets=toy.datasets,
        strange=toy.strange_datasets,
        groups=toy.groups,
        strangers=toy.strangers,
        released=lambda cell: {"mean_"},
        public=lambda cell: {"n_features_in_", "privacy_spent_"},
        recorded=lambda cell: ("row", True),
        is_reached=lambda cell, worst: min(worst.values()) > 0.7,
    ),
)
