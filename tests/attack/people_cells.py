"""Fits that protect people with several rows, and people who break what is not careful."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import class_cells
import covariance_cells
import numpy as np
import row_cells
import scaler_cells
import trace_cells
import trace_neighbors
from covers import combined, least_cover
from harness import altered, group, watched_looks, watched_points, without_record, without_row
from in_parts import in_parts
from row_cells import D, adversarial_rows, is_reached, setting
from scipy.sparse import csr_array
from trace_cells import exchanged

import skdp
from skdp.datasets import make_spiked
from skdp.testing._recording import RecordingBudget, fit_with, record

__all__ = ["CELLS", "is_reached", "setting"]

N_PEOPLE = 40


class ByPlace:
    """Takes users by their place, too: last, behind the labels or responses that parts bring."""

    def fit(self, X, *more):
        *y, users = more
        return super().fit(X, *y, users=users)


def by_place(kind):
    """Make a class of an estimator that takes users by their place, which pickles find here."""
    name = f"{kind.__name__}OfPeople"
    own = {"__doc__": kind.__doc__, "__module__": __name__}
    return globals().setdefault(name, type(name, (ByPlace, kind), own))


BY_PLACE = {
    kind: by_place(kind)
    for kind in (
        *(skdp.DPTruncatedSVD, skdp.DPPCA, skdp.DPStandardScaler, skdp.DPCovariance),
        *(skdp.DPLogisticRegression, skdp.DPTraceClassifier),
        *(skdp.DPLinearRegression, skdp.DPTraceRegressor),
    )
}


class OfPeople:
    """Cells that make estimators of people."""

    def __call__(self, **more):
        """Make an estimator."""
        made = super().__call__(privacy_unit="user", **more)
        return BY_PLACE[type(made)](**made.get_params(deep=False))


@dataclass(frozen=True)
class Cell(OfPeople, row_cells.Cell):
    """One way to ask for a fit."""

    layout: str = "dense"


def _cells():
    for number, cell in enumerate(row_cells.CELLS):
        layout = "csr" if number % 3 == 0 and cell.model != "pca, public center" else "dense"
        if number % 4 == 1 and cell.adjacency == "replace":
            layout = "parts"
        yield Cell(*vars(cell).values(), layout)


CELLS = tuple(_cells())


def cover(cells):
    """Choose cells with every value, and with all releases that each solver makes.

    Rows have all pairs of values; here users are what differs.
    """

    def wanted(cell):
        norm_of_means = (cell.model, cell.solver, cell.norms) == ("pca", "covariance", "private")
        branches = {(cell.solver, cell.norms), (cell.solver, cell.model == "svd"), norm_of_means}
        return combined(vars(cell), 1) | branches

    return tuple(cells[number] for number in least_cover([wanted(cell) for cell in cells]))


@dataclass(frozen=True)
class People:
    """Arrays with a row or a number for each record, whose these are, and what contains them."""

    arrays: tuple
    users: np.ndarray
    contain: Callable

    @property
    def arguments(self):
        """What `fit` is given."""
        return *self.contain(*self.arrays), self.users

    def with_first(self, own, generator):
        """Give the first person other records, at any places; the others keep their order."""
        others = self.users != 0
        places = np.sort(generator.integers(0, others.sum() + 1, len(own)))
        pairs = zip(self.arrays, zip(*own, strict=True), strict=True)
        arrays = tuple(np.insert(one[others], places, new, axis=0) for one, new in pairs)
        users = np.insert(self.users[others], places, 0)
        return replace(self, arrays=arrays, users=users)

    def with_mixed_up_first(self):
        """Give the first person other records at the same places: sums without these round alike.

        What of a record is not a number comes from another one.
        """
        places = np.flatnonzero(self.users == 0)
        mixed = (exchanged(one, places, one[places[::-1] - 1]) for one in self.arrays)
        return replace(self, arrays=tuple(mixed))


def whose(n_people):
    """Draw whose each of a few more rows is, and what draws on."""
    generator = np.random.default_rng(4)
    n_rows = generator.integers(1, 5, n_people)
    return generator.permutation(np.repeat(np.arange(n_people), n_rows)), generator


def of_people(arrays, contain):
    """Give each record to a person, with a few more that are like it."""
    users, _ = whose(len(arrays[0]))
    return People(tuple(one[users] for one in arrays), users, contain)


def own_of(single, generator):
    """Give what a person may have: one of these alone or many times, and mixtures of all."""
    alone, often = [[one] for one in single[::2]], [[one] * 25 for one in single[1::2]]
    places = generator.integers(0, len(single), (4, 40))
    return [*alone, *often, *([single[place] for place in some] for some in places)]


def groups_of(cell, people, own, null, generator):
    """Neighbors in the first person, who is null in the first of them where units may be."""
    found = [people, *(people.with_first(one, generator) for one in own)]
    arguments = [one.arguments for one in [*found, people.with_mixed_up_first()]]
    return [group(cell, arguments, arguments[0], lambda: null(0))]


def null_person(number):
    """Make all rows of a person null in every fit inside."""

    def forget(rows, spec):
        return without_row(rows, spec, np.flatnonzero(rows.people.codes == number))

    return altered(forget)


def strangers(cell, people):
    """Give records with nothing in common but the number of people, even in their number."""
    first = np.unique(people.users, return_index=True)[1]
    is_label = [one.dtype.kind == "i" for one in people.arrays]
    pairs = list(zip(people.arrays, is_label, strict=True))
    none = tuple(one[first] if is_kept else 0 * one[first] for one, is_kept in pairs)
    far = (one[::-1] if is_kept else 1e4 - 3 * one[::-1] for one, is_kept in pairs)
    many = tuple(np.repeat(one, 5, axis=0) for one in far)
    one_each = replace(people, arrays=none, users=np.arange(len(first)))
    other = replace(people, arrays=many, users=np.repeat(people.users, 5))
    return [one_each.arguments, other.arguments]


# ------------------------------
# Rows.


def rows_of_people(matrix, layout):
    """Give each row of a matrix to a person, with a few more that are like it."""
    users, generator = whose(len(matrix))
    signs = generator.choice([1.0, 1.0, -1.0], (len(users), 1))
    contain = {"csr": csr_array, "parts": in_parts}.get(layout, np.asarray)
    rows = np.clip(signs * matrix[users], -1e308, 1e308)
    return People((rows,), users, lambda X: (contain(X),))


def datasets(cell):
    """Ordinary people."""
    rows = make_spiked(N_PEOPLE, D, k=2, random_state=0)[0]
    return {"spiked": rows_of_people(rows, cell.layout)}


def strange(cell):
    """Finite numbers that are far from ordinary."""
    return {name: rows_of_people(X, cell.layout) for name, X in row_cells.strange(cell).items()}


def groups(cell, people):
    """People in the place of the first one, with 1 to 300 rows."""
    fitted, _ = fit_with(cell(), people.arguments, RecordingBudget)
    generator = np.random.default_rng(0)
    rows = list(adversarial_rows(people.arrays[0], fitted.components_).values())
    rows += [scale * generator.normal(size=D) for scale in (0.1, 1.0, 10.0)]
    own = [[row] for row in rows]
    own += [[row] * n for row, n in zip(rows, (2, 7, 50, 300) * 4, strict=False)]
    own += [generator.choice([-1.0, 1.0], (300, 1)) * fitted.components_[0]]
    own += [10.0 ** generator.uniform(-3, 3, (50, 1)) * generator.normal(size=(50, D))]
    own = [[(row,) for row in one] for one in own]
    return groups_of(cell, people, own, null_person, generator)


# ------------------------------
# The scaler and covariances: people with several rows, in the places where rows break them.


@dataclass(frozen=True)
class ScalerCell(OfPeople, scaler_cells.Cell):
    """One way to ask for scales."""


SCALER_CELLS = tuple(
    ScalerCell(*vars(cell).values()) for cell in scaler_cells.CELLS if cell.container != "parts"
)


@dataclass(frozen=True)
class CovarianceCell(OfPeople, covariance_cells.Cell):
    """One way to ask for covariances."""


COVARIANCE_CELLS = tuple(
    CovarianceCell(*vars(cell).values())
    for cell in covariance_cells.CELLS
    if cell.container == "dense"
)


def scaled_datasets(cell, of=scaler_cells.datasets):
    """Columns of people."""
    found = {name: scaler_cells.dense(X) for name, X in of(cell).items()}
    return {name: rows_of_people(X, cell.container) for name, X in found.items()}


def scaled_strange(cell):
    """Finite numbers that are far from ordinary."""
    return scaled_datasets(cell, scaler_cells.strange)


def scaled_groups(cell, people):
    """People in the place of the first one, with rows that break what is not careful."""
    generator = np.random.default_rng(0)
    kind = covariance_cells if isinstance(cell, CovarianceCell) else scaler_cells
    (of_rows,) = kind.groups(cell, cell.contain(people.arrays[0][:60]))
    rows = [(scaler_cells.dense(X)[0],) for X, *_ in of_rows.datasets]
    return groups_of(cell, people, own_of(rows, generator), null_person, generator)


# ------------------------------
# Classifiers: people with several records, whose labels may differ.


@dataclass(frozen=True)
class ClassCell(OfPeople, class_cells.Cell):
    """One way to ask for a fit."""


CLASS_CELLS = tuple(ClassCell(*vars(cell).values()) for cell in class_cells.CELLS)


def class_datasets(cell, of=class_cells.datasets):
    """Ordinary records of people, and such as are all alike or far away."""

    def contain(rows, labels):
        return class_cells.Data(cell.container, rows, labels).arguments

    return {name: of_people((one.rows, one.labels), contain) for name, one in of(cell).items()}


def class_strange(cell):
    """Data that numerical methods do not like, all finite."""
    return class_datasets(cell, class_cells.strange)


def class_groups(cell, people):
    """People in the place of the first one: those of single records, and mixtures of these."""
    generator = np.random.default_rng(0)
    first = np.unique(people.users, return_index=True)[1]
    container = cell.container.removesuffix("parts").strip() or "dense"
    single = class_cells.Data(container, *(one[first] for one in people.arrays))
    plain = class_cells.Cell(**{**vars(cell), "container": container})
    (of_records,) = class_cells.groups(plain, single)
    found = [
        (np.array(scaler_cells.dense(X)[0].ravel(), np.float64), y[0])
        for X, y in of_records.datasets
    ]
    return groups_of(cell, people, own_of(found, generator), null_person, generator)


# ------------------------------
# Regressions: people with several records, rows or matrices.


@dataclass(frozen=True)
class TraceCell(OfPeople, trace_cells.Cell):
    """One way to ask for a fit."""


def _trace_cells():
    in_parts_are = ("flat", "vectors", "row vectors", "narrow vectors", "sparse vectors")
    # Layouts that only records tell from others.
    known = ("row vectors", "numbers", "float32", "tasks")
    of_records = [
        cell for cell in trace_cells.CELLS if cell.unit == "record" and cell.layout not in known
    ]
    for number, cell in enumerate(of_records):
        parts = number % 2 == 1 and cell.layout in in_parts_are
        # How long they are follows from the people.
        yield TraceCell(**{**vars(cell), "lengths": (1,) * parts})


TRACE_CELLS = tuple(_trace_cells())


def trace_datasets(cell, of=trace_cells.datasets):
    """Ordinary records of people."""

    def contain(*arrays):
        *parts, responses = arrays
        lengths = (1, 0, len(responses) - 1) if cell.lengths else ()
        return trace_cells.Data(cell.layout, tuple(parts), responses, lengths).arguments

    return {name: of_people((*one.parts, one.responses), contain) for name, one in of(cell).items()}


def trace_strange(cell):
    """Data that numerical methods do not like, all finite."""
    return trace_datasets(cell, trace_cells.strange)


def trace_groups(cell, people):
    """People in the place of the first one: those of single records, and mixtures of these."""
    generator = np.random.default_rng(0)
    with watched_points() as points, watched_looks() as looks:
        record(cell, people.arguments)
    data = trace_cells.Data(cell.layout, people.arrays[:-1], people.arrays[-1])
    frames = trace_neighbors.frames(cell, data, points)
    single = trace_neighbors.candidates(cell, data, frames, looks)
    own = own_of([(*parts, response) for parts, response in single], generator)
    return groups_of(cell, people, own, null_records, generator)


def null_records(number):
    """Make all records of a person null in every fit inside."""

    def forget(records, spec):
        codes = records.design.people.codes
        return without_record(records, np.flatnonzero(codes == number), spec)

    return altered(forget)
