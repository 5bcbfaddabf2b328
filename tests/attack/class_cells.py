"""What can be asked of classifiers, the data for them, and their neighbors."""

import dataclasses
from dataclasses import dataclass
from functools import partial
from unittest.mock import patch

import numpy as np
from harness import NamedCell, group, null_row, strange_numbers
from in_parts import in_parts
from scipy.sparse import csr_array

from skdp import DPLogisticRegression, DPTraceClassifier
from skdp.linear_model.logistic import plan as logistic_plan

N_RECORDS, N_FEATURES, N_STEPS = 20, 6, 4
# Of the matrices that rows of the last two containers are.
SHAPE = (2, 3)
LARGEST = np.finfo(float).max


@dataclass(frozen=True)
class Data:
    """Rows, as they are before they come into a container, and labels."""

    container: str
    rows: np.ndarray
    labels: np.ndarray

    @property
    def arguments(self):
        """What `fit` is given."""
        rows = csr_array(self.rows) if self.container.startswith("csr") else self.rows
        if self.container.endswith("parts"):
            return (in_parts(rows, self.labels),)
        if self.container == "float32":
            rows = np.clip(rows, -3e38, 3e38).astype(np.float32)
        if self.container == "matrices":
            rows = rows.reshape(-1, *SHAPE)
        return rows, self.labels

    def with_record(self, row, label):
        """Exchange the first record."""
        rows, labels = self.rows.copy(), self.labels.copy()
        rows[0], labels[0] = row, label
        return dataclasses.replace(self, rows=rows, labels=labels)


@dataclass(frozen=True)
class Cell(NamedCell):
    """One way to ask for a fit."""

    adjacency: str = "replace"
    n_classes: int = 2
    container: str = "dense"
    row_norm: float | None = None
    # Whether the last class has no records.
    lacks_class: bool = False
    # Noise has to leave something that can be attacked.
    epsilon: float = 100.0
    # How long the weights of the prior are.
    prior: float | None = None

    def __call__(self, **more):
        """Make an estimator."""
        classes = list(range(self.n_classes))
        given = {"epsilon": self.epsilon, "adjacency": self.adjacency, "row_norm": self.row_norm}
        given = {"classes": classes, **given, **more}
        if self.prior is not None:
            n_columns = 1 if self.n_classes == 2 else self.n_classes
            coef = self.prior * np.linspace(-1, 1, n_columns * N_FEATURES)
            given["prior"] = coef.reshape(n_columns, N_FEATURES), np.ones(n_columns)
        if not self.has_matrices:
            return DPLogisticRegression(**given)
        shape = None if self.container == "matrices" else SHAPE
        return DPTraceClassifier(**{"rank": 1, "matrix_shape": shape, **given})

    @property
    def has_matrices(self):
        """Whether the records are matrices."""
        return self.container in ("flat", "flat parts", "matrices")

    def data(self):
        """Draw records."""
        generator = np.random.default_rng(0)
        n_found = self.n_classes - self.lacks_class
        labels = np.arange(N_RECORDS) % n_found
        centers = 2 * generator.normal(size=(n_found, N_FEATURES))
        rows = generator.normal(size=(N_RECORDS, N_FEATURES)) + centers[labels] + 0.5
        if self.container.startswith("csr"):
            rows *= generator.random(rows.shape) < 0.6
        return Data(self.container, rows, labels)


def _cells():
    for adjacency in ("replace", "zero_out"):
        for n_classes in (2, 3):
            for container in ("dense", "csr"):
                yield Cell(adjacency, n_classes, container)
                yield Cell(adjacency, n_classes, container, row_norm=3.0)
        yield Cell(adjacency, container="float32")
        yield Cell(adjacency, 3, "float32", row_norm=3.0)
        yield Cell(adjacency, 3, lacks_class=True)
        yield Cell(adjacency, 2, "csr", lacks_class=True, row_norm=3.0)
        yield Cell(adjacency, prior=1.0)
        yield Cell(adjacency, 3, "csr", prior=-1.0)
        yield Cell(adjacency, 3, "parts", row_norm=3.0, prior=1.0)
        # Too few records for the norm of the rows, so that classes are counted by themselves.
        yield Cell(adjacency, epsilon=5.0)
        yield Cell(adjacency, 3, "csr parts", row_norm=3.0, lacks_class=True, epsilon=5.0)
        yield Cell(adjacency, 2, "matrices")
        yield Cell(adjacency, 2, "matrices", row_norm=3.0)
        yield Cell(adjacency, 2, "flat", lacks_class=True)
        yield Cell(adjacency, container="parts")
        yield Cell(adjacency, 3, "csr parts", row_norm=3.0)
        yield Cell(adjacency, container="flat parts")
        yield Cell(adjacency, 2, "flat parts", row_norm=3.0)
    yield Cell(prior=1e300)


CELLS = tuple(_cells())


def setting(cell=None):
    """Let fits take few steps: all are declared and clipped alike, however many there are."""
    return patch.object(logistic_plan, "_STEP_LIMITS", (N_STEPS, N_STEPS))


def datasets(cell):
    """Ordinary records, and such as are all alike or far away."""
    data = cell.data()
    ones = np.ones_like(data.rows)
    return {
        "drawn": data,
        "duplicates": dataclasses.replace(data, rows=ones),
        "far from the origin": dataclasses.replace(data, rows=data.rows + 1e6),
    }


def strange(cell):
    """Data that numerical methods do not like, all finite."""
    data = cell.data()
    found = {**strange_numbers(data.rows.shape), "far from the origin": data.rows + 1e12}
    return {name: dataclasses.replace(data, rows=rows) for name, rows in found.items()}


def groups(cell, data):
    """Records in the place of the first: long and short, along, across and opposite, any class."""
    last = cell.n_classes - 1
    others = np.linalg.svd(data.rows - data.rows.mean(axis=0))[2]
    rows = [scale * one for one in (others[0], others[-1]) for scale in (-1e9, 1e9)]
    # Losses of long scores weigh less with the right label, of which those of usual ones are large.
    rows += [data.rows.mean(axis=0) + scale * others[0] for scale in (-3, 3)]
    rows += [2 * row for row in data.rows[:4]]
    found = [data.with_record(row, label).arguments for row in rows for label in (0, last)]
    odd = [np.full(N_FEATURES, 5e-324), -LARGEST * np.sign(others[1]), 1e300 * others[2]]
    odd += [10.0 ** np.linspace(-300, 300, N_FEATURES), data.rows[0], 0 * others[0]]
    found += [data.with_record(row, last).arguments for row in odd]
    return [group(cell, found, data.arguments, null_record)]


#: Makes the first record null in every fit inside; its label is any.
null_record = partial(null_row, 0)


def strangers(cell, data):
    """Records without anything in common but the classes that there are."""
    zeros = dataclasses.replace(data, rows=0 * data.rows)
    other = dataclasses.replace(data, rows=1e4 - 3 * data.rows[::-1], labels=data.labels[::-1])
    return [zeros.arguments, other.arguments]


def released(cell):
    """Names of the attributes that released values make."""
    return {"coef_", "intercept_", "_is_sure", "score_bounds_"} | (
        {"prior_weight_", "_std_errors"} if not cell.has_matrices else set()
    )


def public(cell):
    """Names of the attributes that are public."""
    return {"n_features_in_", "privacy_spent_", "classes_"}


def is_reached(cell, worst):
    """Whether an attack got far: long rows of either class do, as all gradients are clipped."""
    if cell.has_matrices:
        return min(worst.values()) > 0.7
    # A prior that is far too long counts as one without slopes.
    if abs(cell.prior or 1e300) < 1e300 and worst["prior agreement"] < 0.6:
        return False
    gradients = [ratio for name, ratio in worst.items() if name.startswith("whitened gradient")]
    # Beside a class without records, residuals of the others are short: what is left are opposite
    # rows of that class. Of three classes, no two residuals need be opposite.
    is_simple = cell.n_classes == 2 and not cell.lacks_class
    least, norm = 0.9 if is_simple else 0.7, worst.get("clip norm", 1.0)
    return min(worst["class moment"], norm) > 0.9 and max(gradients) > least
