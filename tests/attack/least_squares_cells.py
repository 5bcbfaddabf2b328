"""What can be asked of linear regressions, the data for them, and neighbors; people, too."""

import dataclasses
from dataclasses import dataclass

import numpy as np
from harness import NamedCell, altered, group, strange_numbers, without_row
from in_parts import in_parts
from people_cells import OfPeople, groups_of, of_people, own_of
from scipy.sparse import csr_array

from skdp import DPLinearRegression
from skdp.data.parts import Targets

N_RECORDS, N_FEATURES, N_LONG = 40, 5, 70
LARGEST = np.finfo(float).max
# Beyond any clip level, and yet no product of it overflows.
HUGE = 1e50
RESPONSES = (HUGE, -HUGE, 0.0, -0.0, 5e-324, -1e200, 1e300, -LARGEST)


@dataclass(frozen=True)
class Data:
    """Rows before they come into a container, and responses."""

    container: str
    rows: np.ndarray
    responses: np.ndarray

    @property
    def arguments(self):
        """What `fit` is given."""
        rows = self.rows
        if "csr" in self.container:
            rows = csr_array(np.clip(rows, -1e300, 1e300))
        if self.container == "float32":
            rows = np.clip(rows, -3e38, 3e38).astype(np.float32)
        if self.container.endswith("parts"):
            return (in_parts(rows, self.responses),)
        return rows, self.responses

    def with_record(self, row, response):
        """Exchange the first record."""
        rows, responses = self.rows.copy(), self.responses.copy()
        rows[0], responses[0] = row, response
        return dataclasses.replace(self, rows=rows, responses=responses)


@dataclass(frozen=True)
class Cell(NamedCell):
    """One way to ask for a fit."""

    container: str = "dense"
    adjacency: str = "replace"
    bounds: tuple | None = None
    response_bound: float | None = None
    fit_intercept: bool = True
    # How far columns are from 0.
    offset: float = 0.0
    # Noise has to leave something that can be attacked.
    epsilon: float = 200.0
    # How much the prior exceeds the coefficients that responses follow.
    prior: float | None = None

    def __call__(self, **more):
        """Make an estimator."""
        given = {
            "epsilon": self.epsilon,
            "adjacency": self.adjacency,
            "bounds": self.bounds,
            "response_bound": self.response_bound,
            "fit_intercept": self.fit_intercept,
            "n_iter": 4,
        }
        if self.prior is not None:
            n_features = N_LONG if self.container.startswith("long") else N_FEATURES
            given["prior"] = self.prior * np.linspace(-1, 1, n_features), 1.0
        return DPLinearRegression(**{**given, **more})

    @property
    def is_weak(self):
        """Whether a fit is calibrated."""
        return self.epsilon < 20

    def data(self):
        """Draw records."""
        generator = np.random.default_rng(0)
        n_features = N_LONG if self.container.startswith("long") else N_FEATURES
        rows = generator.normal(size=(N_RECORDS, n_features)) + self.offset
        if "csr" in self.container:
            rows *= generator.random(rows.shape) < 0.4
        responses = (rows - self.offset) @ np.linspace(-1, 1, n_features)
        return Data(self.container, rows, responses + 0.3 * generator.normal(size=N_RECORDS) + 1)


def _cells():
    for adjacency in ("replace", "zero_out"):
        for container in ("dense", "csr", "parts"):
            yield Cell(container, adjacency)
        yield Cell("long csr", adjacency)
        yield Cell("dense", adjacency, bounds=(-2.0, 3.0))
        # So far from 0 that where columns lie takes two looks.
        yield Cell("dense", adjacency, offset=2.0**26)
        # So little that fits are calibrated, and still less, so that nothing but a center is found.
        yield Cell("dense", adjacency, epsilon=15.0)
        yield Cell("dense", adjacency, epsilon=1.0)
        yield Cell("dense", adjacency, response_bound=4.0, fit_intercept=False, epsilon=1e3)
        yield Cell("dense", adjacency, prior=1.0)
        yield Cell("csr", adjacency, prior=-1.0, epsilon=15.0)
        yield Cell("parts", adjacency, prior=1.0, epsilon=1.0)
    yield Cell("long csr", prior=1e300)
    yield Cell("float32")
    yield Cell("csr parts", "zero_out", response_bound=4.0)
    yield Cell("long csr parts", fit_intercept=False)
    yield Cell("parts", fit_intercept=False, epsilon=1.0)
    yield Cell("dense", "zero_out", bounds=(-100.0, 100.0), epsilon=15.0)


CELLS = tuple(_cells())


def datasets(cell):
    """Ordinary records, and such as are all alike or far away."""
    data = cell.data()
    same = dataclasses.replace(data, rows=np.ones_like(data.rows), responses=0 * data.responses + 2)
    far = dataclasses.replace(data, rows=data.rows + 1e8, responses=data.responses + 1e9)
    return {"drawn": data, "duplicates": same, "far from the origin": far}


def strange(cell):
    """Data that numerical methods do not like, all finite."""
    data = cell.data()
    rows, responses = map(strange_numbers, (data.rows.shape, data.responses.shape))
    rows["far"], responses["far"] = data.rows + 1e12, data.responses + 1e12
    return {
        name: dataclasses.replace(data, rows=rows[name], responses=responses[name]) for name in rows
    }


def candidates(cell, data):
    """Records of one that breaks what is not careful: a row and a response."""
    size = data.rows.shape[1]
    others = np.linalg.svd(data.rows - data.rows.mean(axis=0))[2]
    along, signs = np.linspace(-1, 1, size), (-1.0) ** np.arange(size)
    rows = [scale * one for one in (along, signs, others[-1]) for scale in (-1e9, 1e9)]
    found = [(row, response) for row in rows for response in (HUGE, -HUGE)]
    found += [(data.rows[1], response) for response in RESPONSES]
    found += [(cell.offset + scale * along, y) for scale in (0.1, 3, -3) for y in (HUGE, -HUGE, 1)]
    odd = [np.full(size, 5e-324), -LARGEST * signs, 1e300 * others[0], 0 * along]
    odd += [10.0 ** np.linspace(-300, 300, size), -1e300 * np.ones(size), 1e-170 * along]
    return [*found, *zip(odd, RESPONSES, strict=False)]


def groups(cell, data):
    """Records in the place of the first."""
    found = [data, *(data.with_record(*one) for one in candidates(cell, data))]
    arguments = [one.arguments for one in found]
    return [group(cell, arguments, data.arguments, lambda: null_records([0]))]


def null_records(places):
    """Make records null in every fit inside: rows and responses are not finite."""
    return altered(lambda view, spec: without_records(view, spec, places))


def without_records(view, spec, places):
    """Read records again, some of which are not finite now."""
    later, targets = without_row(view, spec, places), view.responses
    columns = [one[:, 0] for _, one in targets.blocks(range(len(targets.block_starts) - 1))]
    responses = np.concatenate(columns)
    responses[places] = np.nan
    later.responses = Targets.of(responses)
    return later


def strangers(cell, data):
    """Records without anything in common."""
    zeros = dataclasses.replace(data, rows=0 * data.rows, responses=0 * data.responses)
    rows, responses = 1e4 - 3 * data.rows[::-1], 1e4 - 3 * data.responses[::-1]
    other = dataclasses.replace(data, rows=rows, responses=responses)
    return [zeros.arguments, other.arguments]


RELEASED = {
    "coef_",
    "_noise_stds",
    "intercept_",
    "feature_bounds_",
    "prior_weight_",
    "_whole",
    "_ends",
}


def is_reached(cell, worst):
    """Whether an attack got far: a huge response moves gradients as far as anything can."""
    if cell.prior is not None and worst["prior agreement"] < 0.6:
        return False
    if cell.epsilon == 1:
        return max(worst.values()) > 0.9
    steps = ("whitened gradient", "collinear gradient")
    gradients = [ratio for name, ratio in worst.items() if name.startswith(steps)]
    calibrated = worst.get("calibration sums", 1.0)
    # Responses within a bound may be too small for the first level.
    least = 0.9 if cell.response_bound is None else 0.8
    return min(gradients) > least and worst["response moment"] > 0.6 and calibrated > 0.4


# ------------------------------
# People with several records.


@dataclass(frozen=True)
class PeopleCell(OfPeople, Cell):
    """One way to ask for a fit."""


# Without the containers that only records tell from others.
PEOPLE_CELLS = tuple(
    PeopleCell(**vars(cell))
    for cell in CELLS
    if cell.container not in ("float32", "csr parts", "long csr")
)


def people_datasets(cell, of=datasets):
    """Ordinary records of people, and such as are all alike or far away."""

    def contain(rows, responses):
        return Data(cell.container, rows, responses).arguments

    return {name: of_people((one.rows, one.responses), contain) for name, one in of(cell).items()}


def people_strange(cell):
    """Data that numerical methods do not like, all finite."""
    return people_datasets(cell, strange)


def people_groups(cell, people):
    """People in the place of the first one: those of single records, and mixtures of these."""
    generator = np.random.default_rng(0)
    single = candidates(cell, Data(cell.container, *people.arrays))
    return groups_of(cell, people, own_of(single, generator), null_person, generator)


def null_person(number):
    """Make all records of a person null in every fit inside."""

    def forget(view, spec):
        return without_records(view, spec, np.flatnonzero(view.people.codes == number))

    return altered(forget)
