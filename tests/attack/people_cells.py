"""Fits that protect people with several rows, and people who break what is not careful."""

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
class Data:
    """Rows, and whose they are."""

    X: np.ndarray
    users: np.ndarray
    layout: str = "dense"

    @property
    def arguments(self):
        """What `fit` is given."""
        contain = {"csr": csr_array, "parts": in_parts}.get(self.layout, np.asarray)
        return contain(self.X), self.users

    def with_first(self, rows, generator):
        """Give the first person other rows, at any places; the others keep their order."""
        others = self.users != 0
        places = np.sort(generator.integers(0, others.sum() + 1, len(rows)))
        X = np.insert(self.X[others], places, rows, axis=0)
        return Data(X, np.insert(self.users[others], places, 0), self.layout)


def whose(n_people):
    """Draw whose each of a few more rows is, and what draws on."""
    generator = np.random.default_rng(4)
    n_rows = generator.integers(1, 5, n_people)
    return generator.permutation(np.repeat(np.arange(n_people), n_rows)), generator


def people(matrix, layout):
    """Give each row of a matrix to a person, with a few more that are like it."""
    users, generator = whose(len(matrix))
    signs = generator.choice([1.0, 1.0, -1.0], (len(users), 1))
    return Data(np.clip(signs * matrix[users], -1e308, 1e308), users, layout)


def datasets(cell):
    """Ordinary people."""
    return {"spiked": people(make_spiked(N_PEOPLE, D, k=2, random_state=0)[0], cell.layout)}


def strange(cell):
    """Finite numbers that are far from ordinary."""
    found = row_cells.strange(cell)
    return {name: people(matrix, cell.layout) for name, matrix in found.items()}


def groups(cell, data):
    """People in the place of the first one, with 1 to 300 rows."""
    fitted, _ = fit_with(cell(), data.arguments, RecordingBudget)
    generator = np.random.default_rng(0)
    rows = list(adversarial_rows(data.X, fitted.components_).values())
    rows += [scale * generator.normal(size=D) for scale in (0.1, 1.0, 10.0)]
    own = [row[np.newaxis] for row in rows]
    own += [
        np.repeat(row[np.newaxis], n, axis=0)
        for row, n in zip(rows, (2, 7, 50, 300) * 4, strict=False)
    ]
    own += [generator.choice([-1.0, 1.0], (300, 1)) * fitted.components_[0]]
    own += [10.0 ** generator.uniform(-3, 3, (50, 1)) * generator.normal(size=(50, D))]
    return groups_of(cell, data, own, generator)


def groups_of(cell, data, own, generator):
    """Give the first person each of these lists of rows."""
    found = [data, *(data.with_first(one, generator) for one in own)]
    # Last with rows at the same places, so that sums without these round alike.
    is_first = (data.users == 0)[:, np.newaxis]
    X = np.where(is_first, generator.normal(size=data.X.shape), data.X)
    found.append(Data(X, data.users, data.layout))
    return as_groups(cell, found, null_person)


def own_of(single, generator):
    """Give what a person may have: one of these alone or many times, and mixtures of all."""
    alone, often = [[one] for one in single[::2]], [[one] * 25 for one in single[1::2]]
    places = generator.integers(0, len(single), (4, 40))
    return [*alone, *often, *([single[place] for place in some] for some in places)]


def as_groups(cell, found, null):
    """Neighbors in the first person, who is null in the first of them where units may be."""
    arguments = [one.arguments for one in found]
    return [group(cell, arguments, arguments[0], lambda: null(0))]


def null_person(number):
    """Make all rows of a person null in every fit inside."""

    def forget(rows, spec):
        return without_row(rows, spec, np.flatnonzero(rows.people.codes == number))

    return altered(forget)


def strangers(cell, data):
    """Give rows with nothing in common but the number of people, even in their number."""
    n_people, n_features = len(set(data.users)), data.X.shape[1]
    many = np.repeat(np.arange(n_people), 20)
    other = -3 * np.random.default_rng(7).normal(size=(len(many), n_features)) + 1e4
    one_each = Data(np.zeros((n_people, n_features)), np.arange(n_people), data.layout)
    return [one.arguments for one in (one_each, Data(other, many, data.layout))]


# ------------------------------
# The scaler: people with several rows, in the places where rows break it.


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


def scaled_datasets(cell):
    """Columns of people."""
    found = scaler_cells.datasets(cell)
    return {name: people(scaler_cells.dense(X), cell.container) for name, X in found.items()}


def scaled_strange(cell):
    """Finite numbers that are far from ordinary."""
    found = scaler_cells.strange(cell)
    return {name: people(scaler_cells.dense(X), cell.container) for name, X in found.items()}


def scaled_groups(cell, data):
    """People in the place of the first one, with rows that break what is not careful."""
    generator = np.random.default_rng(0)
    rows = [scaler_cells.dense(X)[0] for X, *_ in _rows_of(cell, data)]
    return groups_of(cell, data, own_of(rows, generator), generator)


def _rows_of(cell, data):
    kind = covariance_cells if isinstance(cell, CovarianceCell) else scaler_cells
    (found,) = kind.groups(cell, cell.contain(data.X[:60]))
    return found.datasets


# ------------------------------
# Classifiers: people with several records, whose labels may differ.


@dataclass(frozen=True)
class ClassCell(OfPeople, class_cells.Cell):
    """One way to ask for a fit."""


CLASS_CELLS = tuple(ClassCell(*vars(cell).values()) for cell in class_cells.CELLS)


@dataclass(frozen=True)
class Records:
    """Records as they are before they come into a container, and whose they are."""

    data: class_cells.Data
    users: np.ndarray

    @property
    def arguments(self):
        """What `fit` is given."""
        return *self.data.arguments, self.users

    def with_first(self, rows, labels, generator):
        """Give the first person other records, at any places; the others keep their order."""
        others = self.users != 0
        places = np.sort(generator.integers(0, others.sum() + 1, len(rows)))
        data = replace(
            self.data,
            rows=np.insert(self.data.rows[others], places, rows, axis=0),
            labels=np.insert(self.data.labels[others], places, labels),
        )
        return Records(data, np.insert(self.users[others], places, 0))


def of_people(data):
    """Give each record to a person, with a few more that are like it."""
    users, _ = whose(len(data.rows))
    return Records(replace(data, rows=data.rows[users], labels=data.labels[users]), users)


def class_datasets(cell):
    """Ordinary records of people, and such as are all alike or far away."""
    return {name: of_people(data) for name, data in class_cells.datasets(cell).items()}


def class_strange(cell):
    """Data that numerical methods do not like, all finite."""
    return {name: of_people(data) for name, data in class_cells.strange(cell).items()}


def class_groups(cell, records):
    """People in the place of the first one: those of single records, and mixtures of these."""
    generator = np.random.default_rng(0)
    first = np.unique(records.users, return_index=True)[1]
    single = replace(records.data, rows=records.data.rows[first], labels=records.data.labels[first])
    single = replace(single, container=single.container.removesuffix("parts").strip() or "dense")
    plain = class_cells.Cell(**{**vars(cell), "container": single.container})
    (of_records,) = class_cells.groups(plain, single)
    rows = np.array([scaler_cells.dense(X)[0].ravel() for X, _ in of_records.datasets], np.float64)
    labels = np.array([y[0] for _, y in of_records.datasets])
    chosen = own_of(range(len(rows)), generator)
    found = [records, *(records.with_first(rows[i], labels[i], generator) for i in chosen)]
    is_first = (records.users == 0)[:, np.newaxis]
    other = np.where(is_first, generator.normal(size=records.data.rows.shape), records.data.rows)
    found.append(Records(replace(records.data, rows=other), records.users))
    return as_groups(cell, found, null_person)


def class_strangers(cell, records):
    """Give records with nothing in common but the number of people and the classes."""
    data, n_people = records.data, len(set(records.users))
    first = np.unique(records.users, return_index=True)[1]
    one_each = replace(data, rows=0 * data.rows[first], labels=data.labels[first])
    other = replace(data, rows=1e4 - 3 * data.rows[::-1], labels=data.labels[::-1])
    return [
        Records(one_each, np.arange(n_people)).arguments,
        Records(other, records.users).arguments,
    ]


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


@dataclass(frozen=True)
class TraceRecords:
    """Records as they are before they come into a container, and whose they are."""

    data: trace_cells.Data
    users: np.ndarray

    @property
    def arguments(self):
        """What `fit` is given."""
        lengths = (1, 0, len(self.users) - 1) if self.data.lengths else ()
        return *replace(self.data, lengths=lengths).arguments, self.users

    def with_first(self, own, generator):
        """Give the first person other records, at any places; the others keep their order."""
        others = self.users != 0
        places = np.sort(generator.integers(0, others.sum() + 1, len(own)))
        parts = tuple(
            np.insert(part[others], places, [one[0][number] for one in own], axis=0)
            for number, part in enumerate(self.data.parts)
        )
        responses = np.insert(self.data.responses[others], places, [one[1] for one in own])
        data = replace(self.data, parts=parts, responses=responses)
        return TraceRecords(data, np.insert(self.users[others], places, 0))


def records_of_people(data):
    """Give each record to a person, with a few more that are like it."""
    users, _ = whose(len(data.responses))
    parts = tuple(part[users] for part in data.parts)
    return TraceRecords(replace(data, parts=parts, responses=data.responses[users]), users)


def trace_datasets(cell):
    """Ordinary records of people."""
    return {name: records_of_people(data) for name, data in trace_cells.datasets(cell).items()}


def trace_strange(cell):
    """Data that numerical methods do not like, all finite."""
    return {name: records_of_people(data) for name, data in trace_cells.strange(cell).items()}


def trace_groups(cell, records):
    """People in the place of the first one: those of single records, and mixtures of these."""
    generator = np.random.default_rng(0)
    with watched_points() as points, watched_looks() as looks:
        record(cell, records.arguments)
    frames = trace_neighbors.frames(cell, records.data, points)
    single = trace_neighbors.candidates(cell, records.data, frames, looks)
    own = own_of(single, generator)
    found = [records, *(records.with_first(one, generator) for one in own)]
    # Last with other records at the same places, so that sums without these round alike.
    places = np.flatnonzero(records.users == 0)
    parts = tuple(exchanged(part, places, part[places[::-1] - 1]) for part in records.data.parts)
    found.append(TraceRecords(replace(records.data, parts=parts), records.users))
    return as_groups(cell, found, null_records)


def null_records(number):
    """Make all records of a person null in every fit inside."""

    def forget(records, spec):
        codes = records.design.people.codes
        return without_record(records, np.flatnonzero(codes == number), spec)

    return altered(forget)


def trace_strangers(cell, records):
    """Give records with nothing in common but the number of people."""
    data, n_people = records.data, len(set(records.users))
    first = np.unique(records.users, return_index=True)[1]
    nothing = tuple(np.zeros_like(part[first]) for part in data.parts)
    one_each = replace(data, parts=nothing, responses=0 * data.responses[first])
    parts = tuple(-3 * part[::-1] + 1e4 for part in data.parts)
    other = replace(data, parts=parts, responses=-3 * data.responses[::-1] + 1e4)
    return [
        TraceRecords(one_each, np.arange(n_people)).arguments,
        TraceRecords(other, records.users).arguments,
    ]
