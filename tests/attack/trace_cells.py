"""What can be asked of the trace regression, and the data that it is asked for."""

import dataclasses
from dataclasses import dataclass

import numpy as np
from covers import single_cover
from harness import NamedCell, strange_numbers
from in_parts import in_parts
from scipy import sparse

from skdp import DPTraceRegressor, RankOneMatrices

N_RECORDS = 40
# Shape of a matrix; whether it is written out.
LAYOUTS = {
    "matrices": ((3, 4), True),
    "float32": ((3, 4), True),
    "flat": ((3, 4), True),
    # So far from 0 that a first mean shows it.
    "far matrices": ((3, 4), True),
    "vectors": ((5, 1), True),
    "row vectors": ((1, 5), True),
    "few vectors": ((5, 1), True),
    # So far from 0 beside their width that where they lie takes two looks.
    "narrow vectors": ((5, 1), True),
    "numbers": ((1, 1), True),
    "outer": ((3, 4), False),
    "one-hot": ((4, 3), False),
    "tasks": ((4, 3), False),
    "sparse vectors": ((5, 1), False),
    # Not written out piece by piece.
    "long sparse vectors": ((260, 1), False),
}
ROW_COV = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.2], [0.0, 0.2, 0.5]])
COL_COV = 0.25 * np.eye(4) + 0.1
SCALES = {
    "private": {},
    "given": {"covariance": "identity"},
    # Lists and arrays are both accepted.
    "covariances": {"covariance": (ROW_COV.tolist(), COL_COV)},
    "row covariance": {"covariance": (ROW_COV, None)},
    # No product of two: rows are of unlike variance in each column.
    "covariance of entries": {
        "covariance": np.kron(ROW_COV, COL_COV) + np.diag(np.linspace(0.0, 2.0, 12))
    },
}


@dataclass(frozen=True)
class Data:
    """Records: matrices, or the factors of those of rank one, and responses."""

    layout: str
    parts: tuple
    responses: np.ndarray
    # How long the parts are that the records come in; none for those in memory.
    lengths: tuple = ()

    @property
    def arguments(self):
        """What `fit` is given."""
        if self.lengths:
            return (in_parts(self._container(), lengths=self.lengths, y=self.responses),)
        return self._container(), self.responses

    def _container(self):
        if self.layout.endswith("sparse vectors"):
            rows = np.clip(self.parts[0], -1e300, 1e300) * np.clip(self.parts[1], -1e8, 1e8)
            return sparse.csr_array(rows)
        if self.layout == "outer":
            return RankOneMatrices(*self.parts)
        if self.layout == "one-hot":
            return RankOneMatrices(*map(sparse.csr_array, self.parts))
        if self.layout == "tasks":
            return RankOneMatrices(self.parts[0], sparse.csr_array(self.parts[1]))
        (matrices,) = self.parts
        if self.layout == "float32":
            return np.clip(matrices, -3e38, 3e38).astype(np.float32)
        return matrices if self.layout.endswith("matrices") else matrices.reshape(len(matrices), -1)

    def with_record(self, index, parts, response):
        """Exchange a record, or, if `parts` is None, its response."""
        parts = [part[index] for part in self.parts] if parts is None else parts
        pairs = zip(self.parts, parts, strict=True)
        return dataclasses.replace(
            self,
            parts=tuple(exchanged(ours, index, part) for ours, part in pairs),
            responses=exchanged(self.responses, index, response),
        )


def exchanged(values, index, value):
    values = values.copy()
    values[index] = value
    return values


@dataclass(frozen=True)
class Cell(NamedCell):
    """One way to ask for a fit."""

    layout: str
    init: str = "random"
    unit: str = "record"
    adjacency: str = "replace"
    scale: str = "private"
    response_bound: float | None = None
    fit_intercept: bool = True
    rank: int = 1
    n_iter: int = 2
    # Noise has to leave scales at which something can be attacked.
    epsilon: float = 200.0
    # How long the parts are that records come in: `test_attack_parts.py` has them.
    lengths: tuple = ()

    def __call__(self, **more):
        """Make an estimator."""
        shape = LAYOUTS[self.layout][0]
        is_flat = self.layout in ("flat", "row vectors")
        return DPTraceRegressor(
            **{
                "rank": self.rank,
                "matrix_shape": shape if is_flat else None,
                "epsilon": self.epsilon,
                "privacy_unit": self.unit,
                "adjacency": self.adjacency,
                "response_bound": self.response_bound,
                "fit_intercept": self.fit_intercept,
                "init": self.init,
                "n_iter": self.n_iter,
                **SCALES[self.scale],
                **more,
            }
        )

    @property
    def shape(self):
        return LAYOUTS[self.layout][0]

    @property
    def is_written_out(self):
        return LAYOUTS[self.layout][1]

    def data(self, seed=0, n_records=N_RECORDS):
        """Draw records, as the layout has them."""
        if self.layout == "few vectors":
            # Too few to find the scales of all features: that of the norms has to do.
            n_records = min(n_records, 10)
        generator = np.random.default_rng(seed)
        n_rows, n_columns = self.shape
        left = generator.normal(size=(n_records, n_rows))
        right = generator.normal(size=(n_records, n_columns))
        if self.layout == "one-hot":
            left = np.eye(n_rows)[generator.integers(n_rows, size=n_records)]
        if self.layout in ("one-hot", "tasks"):
            right = np.eye(n_columns)[generator.integers(n_columns, size=n_records)]
        if self.layout.endswith("sparse vectors"):
            left, right = left * (generator.random(left.shape) < 0.4), np.ones_like(right)
        matrices = generator.normal(size=(n_records, n_rows, n_columns))
        if self.layout == "narrow vectors":
            matrices += 2.0**26
        if self.layout == "far matrices":
            matrices += 50
        measured = matrices if self.is_written_out else left[:, :, None] * right[:, None, :]
        truth = np.outer(np.arange(1.0, n_rows + 1), np.ones(n_columns))
        responses = np.tensordot(measured, truth, 2) / np.linalg.norm(truth)
        responses += 0.3 * generator.normal(size=n_records) + 1
        return self._data(left, right, responses, matrices)

    def _data(self, left, right, responses, matrices):
        parts = (matrices,) if self.is_written_out else (left, right)
        return Data(self.layout, parts, responses, self.lengths)


def _cells():
    for adjacency in ("replace", "zero_out"):
        is_other = adjacency == "zero_out"
        others = ("float32", "row vectors", "tasks") if is_other else ("flat", "few vectors")
        for layout in ("matrices", "vectors", "outer", "one-hot", "sparse vectors", *others):
            yield Cell(layout, adjacency=adjacency)
        for layout in ("matrices", "outer"):
            yield Cell(layout, unit="response", adjacency=adjacency)
            yield Cell(layout, init="spectral", adjacency=adjacency, rank=2)
            yield Cell(layout, init="spectral", n_iter=0, adjacency=adjacency)
            yield Cell(layout, scale="covariances", adjacency=adjacency)
        for layout in ("vectors", "one-hot"):
            yield Cell(layout, unit="response", adjacency=adjacency, response_bound=4.0)
        for layout in ("vectors", "sparse vectors", "tasks"):
            yield Cell(layout, unit="response", adjacency=adjacency)
        yield Cell("matrices", unit="response", adjacency=adjacency, response_bound=1e-3)
        yield Cell("long sparse vectors", adjacency=adjacency)
        yield Cell("narrow vectors", adjacency=adjacency)
        yield Cell("far matrices", adjacency=adjacency, epsilon=2e3)
        # So little that fits are calibrated.
        yield Cell("matrices", adjacency=adjacency, epsilon=15.0)
        # So much that searches close in on the centers.
        yield Cell("vectors", adjacency=adjacency, epsilon=2e4)
        yield Cell("numbers", adjacency=adjacency, fit_intercept=False)
    yield Cell("matrices", init="auto", response_bound=2.0, fit_intercept=False)
    yield Cell("matrices", scale="given", fit_intercept=False)
    yield Cell("matrices", scale="covariance of entries")
    yield Cell("flat", scale="covariance of entries", unit="response", init="spectral", rank=2)
    yield Cell("matrices", unit="response", response_bound=2.0, fit_intercept=False)
    yield Cell("vectors", scale="given", adjacency="zero_out", fit_intercept=False)
    yield Cell("vectors", fit_intercept=False)
    yield Cell("matrices", init="spectral", unit="response", adjacency="zero_out")
    yield Cell("outer", init="spectral", unit="response", response_bound=2.0)
    yield Cell("outer", init="spectral", scale="row covariance", response_bound=5.0)
    yield Cell("tasks", init="spectral", scale="given", fit_intercept=False)
    yield Cell("sparse vectors", response_bound=2.0, adjacency="zero_out")


CELLS = tuple(_cells())


def cover(cells):
    """Choose cells with every value, and the one in which attacks move variances far."""
    reached = next(cell for cell in cells if str(cell) == "one-hot, zero_out")
    return tuple(dict.fromkeys((*single_cover(cells), reached)))


def degenerate_data(cell):
    """Records that are all the same, or nothing, or everything."""
    data = cell.data()
    responses = data.responses

    def of(change, responses=responses):
        return dataclasses.replace(data, parts=tuple(map(change, data.parts)), responses=responses)

    return {
        "zeros": of(np.zeros_like, 0 * responses),
        "duplicates": of(lambda part: np.repeat(part[:1], len(part), 0), 0 * responses + 2),
        "far from the origin": of(lambda part: part + 1e8, responses + 1e9),
        "huge": of(lambda part: 1e90 * part, 1e300 * responses),
        "tiny": of(lambda part: 1e-160 * part, 1e-300 * responses),
    }


def strange(cell):
    """Data that numerical methods do not like, all finite; public matrices stay as they are."""
    data = cell.data()

    def of(parts, responses):
        parts = data.parts if cell.unit == "response" else tuple(parts)
        return dataclasses.replace(data, parts=parts, responses=responses)

    parts = [strange_numbers(part.shape) for part in data.parts]
    responses = strange_numbers(data.responses.shape)
    first = tuple(part[:1] for part in data.parts)
    return {
        **{name: of((one[name] for one in parts), each) for name, each in responses.items()},
        "constant": of(map(np.ones_like, data.parts), np.ones_like(data.responses)),
        "far from the origin": of((part + 1e8 for part in data.parts), data.responses + 1e12),
        "one record": dataclasses.replace(data, parts=first, responses=data.responses[:1]),
    }


# Which function declares too little, where that is to be seen, and of which cell.

SUMS = ("gradient 1", "start", "column moments", "closer places")


def datasets(cell):
    """Ordinary records; degenerate ones are attacked in a test of their own."""
    return {"drawn": cell.data()}


def released(cell):
    """Names of the attributes that come from released values."""
    factors = {"left_components_", "singular_values_", "right_components_"}
    return factors | {"intercept_", "feature_bounds_", "start_ratios_"}


def public(cell):
    """Names of those that are public."""
    return {"n_features_in_", "privacy_spent_", "_shape", "_coef_shape"}


def is_reached(cell, worst):
    """Whether an attack got far: a huge response moves sums as far as anything can."""
    if cell.unit == "record":
        sums = {name: ratio for name, ratio in worst.items() if name.startswith(SUMS)}
        # Few of the rows of sparse cells are opposite in every column.
        moments = sums.pop("column moments", 1.0)
        return min(sums.values()) > 0.99 and moments > 0.9
    sums = [worst[name] for name in worst if name.startswith(("gradient", "start"))]
    return max(sums) > 0.4
