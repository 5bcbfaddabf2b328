"""Classifiers of rows in parts: the fits of arrays, in few readings, with nothing kept of rows."""

import itertools
from functools import partial

import numpy as np
import pytest
from class_cells import SHAPE, Cell
from harness import altered, null_row
from in_parts import in_parts
from scipy.sparse import csr_array

from skdp import DPLogisticRegression, DPTraceClassifier, RowBlocks
from skdp.data.people import depth_of
from skdp.data.reduce import PerRow, rounding_of_depth
from skdp.linear_model._supervised import given_classes, known_codes
from skdp.testing._recording import Group, farthest_of, fit_with, record, replay, scripted_budget

pytestmark = [
    pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning"),
    pytest.mark.usefixtures("few_steps"),
]
SEED = 2**100 + 3
# Of several blocks.
N = 8400
DRAWN = np.random.default_rng(0)
X = DRAWN.normal(size=(N, 6)) + 0.5
Y = (X[:, 0] + DRAWN.normal(size=N) > 0.5).astype(int)
CUTS = (3000, 3001, 3001, 6000)
KINDS = {
    "dense": (DPLogisticRegression, np.asarray),
    "csr": (DPLogisticRegression, csr_array),
    "float32": (DPLogisticRegression, np.float32),
    "matrices": (partial(DPTraceClassifier, 1, matrix_shape=SHAPE), np.asarray),
}


def private(kind, **more):
    return KINDS[kind][0](**{"classes": [0, 1], "epsilon": 0.4, "random_state": SEED, **more})


def in_container(kind, rows=X):
    return KINDS[kind][1](rows)


@pytest.mark.parametrize("row_norm", [None, 2.0])
@pytest.mark.parametrize("kind", KINDS)
def test_a_fit_of_one_part_is_that_of_the_array(kind, row_norm):
    rows = in_container(kind)
    fits = [private(kind, row_norm=row_norm).fit(rows, Y)]
    fits.append(private(kind, row_norm=row_norm).fit(in_parts(rows, Y, ())))
    for name in ("coef_", "intercept_", "classes_"):
        one, other = (getattr(fit, name) for fit in fits)
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype


def test_without_noise_it_is_the_same_optimum():
    model = DPLogisticRegression(classes=[0, 1], epsilon=np.inf)
    coef = model.fit(X, Y).coef_
    np.testing.assert_allclose(model.fit(in_parts(X, Y, CUTS)).coef_, coef, rtol=1e-3, atol=1e-4)


def counted_parts(kind):
    """Give rows in three parts, and the list of the numbers of those that are loaded."""
    edges, loads = [0, 2000, 2001, N], []
    parts = [in_container(kind, X[a:b]) for a, b in itertools.pairwise(edges)]
    loaders = [lambda one=one: (loads.append(one), parts[one])[1] for one in range(3)]
    labels = [Y[a:b] for a, b in itertools.pairwise(edges)]
    return RowBlocks.from_partitions(loaders, np.diff(edges).tolist(), 6, y=labels), loads


@pytest.fixture(autouse=True)
def _loaded_in_every_pass(monkeypatch):
    """Treat these few rows as if they were too many to be kept."""
    monkeypatch.setattr("skdp.data.sources.CACHE_BYTES", 0)


@pytest.mark.covered
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("seed", [None, SEED])
@pytest.mark.parametrize(
    ("kind", "row_norm", "n_more"),
    [("dense", None, 3), ("csr", 2.0, 3), ("matrices", 2.0, 6), ("matrices", None, 7)],
)
def test_parts_are_read_so_often(kind, row_norm, n_more, seed, n_jobs):
    """Passes over the labels alone are no readings; the first part is looked at once more."""
    rows, loads = counted_parts(kind)
    model = private(kind, row_norm=row_norm, random_state=seed, n_jobs=n_jobs).fit(rows)
    n_steps = sum("gradient" in one.name for one in model.privacy_spent_.releases)
    assert [loads.count(number) for number in range(3)] == [n_steps + n_more + i for i in (1, 0, 0)]


@pytest.mark.parametrize(("kind", "row_norm"), [("dense", None), ("float32", 2.0), ("csr", None)])
def test_parts_that_are_kept_give_the_same_fit(kind, row_norm, monkeypatch):
    (rows, loads), fits = counted_parts(kind), []
    for limit in (0, 1 << 30):
        monkeypatch.setattr("skdp.data.sources.CACHE_BYTES", limit)
        loads.clear()
        fits.append(private(kind, row_norm=row_norm, random_state=SEED).fit(rows))
    assert loads.count(2) == 1
    np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)


@pytest.mark.parametrize("kind", KINDS)
def test_no_pass_brings_back_numbers_of_rows(kind, monkeypatch):
    sizes = []

    def kept(self, block):
        self.blocks = [block]
        sizes.append(block.size)

    monkeypatch.setattr(PerRow, "__init__", kept)
    private(kind, classes=None).fit(in_parts(in_container(kind), Y, CUTS))
    # Digests of blocks, and labels of parts.
    assert 0 < max(sizes) < 600


@pytest.mark.parametrize("kind", ["dense", "matrices"])
def test_the_rounding_of_many_parts_is_theirs(kind):
    """Of so many rows that it matters."""
    n, model = 10**9, private(kind, row_norm=1.0)
    load = partial(np.broadcast_to, np.zeros(6), (10**6, 6))
    rows = RowBlocks.from_partitions([load] * 1000, [10**6] * 1000, 6)
    spec = model._spec_like(n, 6, rows)
    assert spec.rounding == rounding_of_depth(depth_of(rows, (n, 6), is_sparse=False), n)
    assert spec.depth == depth_of(rows, (n, 6), is_sparse=False)
    assert spec.depth != model._spec_like(n, 6, None).depth
    plans = [model.plan(n, 6, like=like).releases[0].sensitivity for like in (rows, None)]
    assert plans[0] != plans[1]


# What is refused.


def bad_labels():
    yield "NaN", np.where(np.arange(N) == 7, np.nan, Y)
    yield "continuous", np.where(np.arange(N) == N - 1, 0.5, Y)
    yield "unknown", np.where(np.arange(N) == 7, None, Y.astype(object))
    yield "mixed", np.where(np.arange(N) == 7, "secret", Y.astype(object))
    yield "no class", np.where(np.arange(N) == 7, 12345, Y)
    yield "strings for numbers", np.array(["ash", "birch"])[Y]
    yield "one class alone", 0 * Y


@pytest.mark.covered
@pytest.mark.parametrize("classes", [[0, 1], None])
@pytest.mark.parametrize(("name", "labels"), [*bad_labels()], ids=lambda one: str(one)[:12])
def test_labels_are_refused_in_the_words_that_arrays_get(ledger, name, labels, classes):
    is_fine = {"no class": classes is None, "strings for numbers": classes is None}
    if is_fine.get(name, name == "one class alone" and classes is not None):
        return
    model, told = private("dense", classes=classes, ledger=ledger), []
    for data in ((X, labels), (in_parts(X, labels, CUTS),)):
        with pytest.raises(ValueError, match=r"label|NaN") as refused:
            model.fit(*data)
        assert refused.value.__cause__ is refused.value.__context__ is None
        told.append(str(refused.value))
    assert told[0] == told[1]
    assert not any(secret in told[0] for secret in ("12345", "secret"))
    assert ledger.entries() == []
    assert not hasattr(model, "n_features_in_")


def test_parts_with_labels_of_two_kinds_are_refused():
    labels = [Y[:4000], np.array(["a", "b"])[Y[4000:]]]
    loaders = [partial(np.copy, X[:4000]), partial(np.copy, X[4000:])]
    rows = RowBlocks.from_partitions(loaders, [4000, N - 4000], 6, y=labels)
    with pytest.raises(ValueError, match="Unknown label type: mixed"):
        private("dense", classes=None).fit(rows)


@pytest.mark.parametrize("kind", ["dense", "matrices"])
def test_targets_are_those_of_the_parts(kind):
    rows, model = in_parts(X, Y, CUTS), private(kind)
    assert private(kind).fit(X, rows.y).score(X, rows.y) == private(kind).fit(X, Y).score(X, Y)
    for data, error in (
        ((rows, Y), "leave out the y"),
        ((in_parts(X, None, CUTS),), r"pass y to RowBlocks\.from_partitions"),
    ):
        for read in (model.fit, private(kind).fit(X, Y).score):
            with pytest.raises(ValueError, match=error):
                read(*data)
    stream = RowBlocks(lambda: [X], X.shape)
    for refused in (partial(model.fit, stream, Y), partial(model.plan, N, 6, like=stream)):
        with pytest.raises(ValueError, match=r"one stream.*RowBlocks.from_partitions"):
            refused()
    with pytest.raises(TypeError, match="Sparse data was passed"):
        private("matrices").fit(in_parts(csr_array(X), Y, CUTS))


# What is null in a later pass.


class Late:
    """Loads other parts from the first release on."""

    is_late = False

    def load(self, before, after):
        return after if self.is_late else before

    def rows(self, changed, labels):
        """Return the first 20 rows, which change with their labels when it is late."""
        parts = [slice(0, 9), slice(9, 20)]
        return RowBlocks.from_partitions(
            [partial(self.load, X[one], changed[one]) for one in parts],
            [9, 11],
            6,
            y=[partial(self.load, Y[one], labels[one]) for one in parts],
        )

    def __call__(self, view, _):
        self.is_late = True
        return view


def late_values(cell, script, changed, labels):
    """Values of all releases where data change after the check, each pass loading them anew."""
    late = Late()
    with altered(late):
        fit = fit_with(cell(n_jobs=2), (late.rows(changed, labels),), scripted_budget(script))
    return fit[1].values


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize("cell", [Cell(), Cell(container="flat"), Cell(row_norm=2.0)], ids=str)
def test_what_is_no_record_later_is_null(cell):
    """A row with NaN, an unknown label and a label of NaN are the same: no record at all."""
    script = record(cell, (X[:20], Y[:20])).released
    spoiled, unknown = X.copy(), Y.copy()
    spoiled[3] = np.nan
    unknown[3] = 7
    branches = [
        (spoiled, Y),
        (X, unknown),
        (X, np.where(unknown == 7, np.nan, Y)),
        (spoiled, unknown.astype(object)),
        (X, np.where(unknown == 7, None, Y.astype(object))),
    ]
    all_values = [late_values(cell, script, *way) for way in branches]
    for values in all_values[1:]:
        for one, other in zip(all_values[0], values, strict=True):
            np.testing.assert_array_equal(one, other)
    whole = replay(cell, (in_parts(X[:20], Y[:20], (9,)),), script).values
    # The norms are counted by the check.
    first = int(cell.row_norm is None)
    assert all(map(np.array_equal, all_values[0][:first], whole[:first]))
    assert not any(map(np.array_equal, all_values[0][first:], whole[first:]))
    if not cell.has_matrices:
        moment, of_all = (next(one for one in of if one.ndim == 2) for of in (all_values[0], whole))
        assert moment[6, 6] / of_all[6, 6] == pytest.approx(19 / 20)


LAYOUTS = [(), (7,), (8,), (7, 8), (7, 7, 8, 8), (6, 8), (1, 19), (5, 6, 7, 8, 9, 10)]


@pytest.mark.covered(at_most=2)
@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
@pytest.mark.parametrize("container", ["dense", "csr", "flat"])
@pytest.mark.parametrize("cuts", LAYOUTS, ids=str)
def test_a_record_moves_no_release_too_far_wherever_parts_end(cuts, container, adjacency):
    """It is the one of number 7."""
    cell = Cell(adjacency, container=container, row_norm=3.0 if container == "csr" else None)
    found = []
    for row, label in ((1e9 * X[1], 0), (-1e9 * X[1], 1), (0 * X[0], 1), (X[0], 0)):
        rows, labels = X[:20].copy(), Y[:20].copy()
        rows[7], labels[7] = row, label
        rows = csr_array(rows) if container == "csr" else rows
        found.append((in_parts(rows, labels, cuts),))
    group = Group(found)
    if adjacency == "zero_out":
        group = Group(found, found[0], partial(null_row, 7))
    worst = farthest_of(partial(cell, n_jobs=1), [group])
    assert 0.7 < max(worst.values()) <= 1 + 1e-12


# Labels and results.


def as_python_finds(labels, classes):
    """Places as Python finds them; among numbers a string is the number that it is the text of."""
    places = {label: place for place, label in enumerate(classes.tolist())}
    if not isinstance(classes[0], str):
        places |= {"0": places.get(0, -1)}
    return [places.get(label, -1) for label in labels.tolist()]


LABELS = [
    np.array([0.0, -0.0, 1, 2, np.nan, np.inf, 0.5, 1e300]),
    np.array([0, 1, 2, -1, 2**53, 2**53 + 1, 2**62]),
    np.array([0, 2**63, 2**63 + 1], dtype=np.uint64),
    np.array([1, 0, 7], dtype=np.int8),
    np.array([1, 0, 7], dtype=np.float16),
    np.array([True, False]),
    np.array(["0", "ash", "as", "ash ", "", "birch", "zzz"]),
    np.array(["0", "ash", 1, 0.0, True, None, 2**70], dtype=object),
]
CLASSES = [
    [0, 1],
    [-0.0, 1.0, 2.0],
    [False, True],
    [0, 2**53 - 1],
    ["ash", "birch"],
    np.array(["ash", "birch"], dtype=object),
    ["0", "1", "2"],
]


@pytest.mark.parametrize("classes", CLASSES, ids=str)
def test_labels_have_the_places_that_python_finds(classes):
    classes = given_classes(classes)
    for labels in LABELS:
        found = known_codes(labels, classes)
        assert found.tolist() == as_python_finds(labels, classes)
        assert found.dtype == np.intp


class Foreign(str):
    """A label with code of its own, whose errors may tell it."""

    def __hash__(self):
        raise ValueError(f"this is {self!r}")


def test_in_a_later_pass_a_label_says_nothing_of_others():
    classes = np.array(["ash", "birch"])
    labels = np.array(["birch", Foreign("secret"), [], None, "ash"], dtype=object)
    assert known_codes(labels, classes).tolist() == [1, -1, -1, -1, 0]
    # One string makes strings of a whole list, and only a list of numbers is one of numbers.
    assert known_codes(np.array([0, "ash", 1.0]), np.array([0, 1])).tolist() == [0, -1, 1]
    assert known_codes(np.array([0, 1]), classes).tolist() == [-1, -1]


@pytest.mark.parametrize(
    "labels",
    [Y, Y.astype(np.int8), Y > 0, Y.astype(np.float32), np.array(["b", "a"])[Y]],
    ids=lambda labels: str(labels.dtype),
)
def test_classes_are_the_labels_of_all_parts(labels):
    fits = [private("dense", classes=None).fit(*data) for data in ((X, labels),)]
    fits.append(private("dense", classes=None).fit(in_parts(X, labels, ())))
    fits.append(private("dense", classes=None).fit(in_parts(X, labels, (1, 4000))))
    for fit in fits[1:]:
        np.testing.assert_array_equal(fit.classes_, fits[0].classes_)
        assert fit.classes_.dtype == fits[0].classes_.dtype
        assert not fit.privacy_spent_.enforced
    np.testing.assert_array_equal(fits[1].coef_, fits[0].coef_)


METHODS = ("predict", "predict_proba", "predict_log_proba", "decision_function")


@pytest.mark.covered
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_results_come_a_part_at_a_time(tmp_path, kind, n_classes):
    if kind == "matrices" and n_classes > 2:
        return
    rows, labels = in_container(kind), Y + (X[:, 1] > 2) * (n_classes > 2)
    model = private(kind, classes=list(range(n_classes))).fit(rows, labels)
    parts = in_parts(rows, labels, CUTS)
    for name in METHODS:
        expected, found = getattr(model, name)(rows), getattr(model, name)(parts)
        assert found.shape == expected.shape
        assert found.dtype == expected.dtype
        assert [len(one) for one in found] == [3000, 1, 2999, 2400]
        np.testing.assert_allclose(np.concatenate(list(found)), expected, rtol=1e-4, atol=1e-5)
        found.to_npy(tmp_path / f"{name}.npy")
        np.testing.assert_array_equal(np.load(tmp_path / f"{name}.npy"), np.concatenate([*found]))
        if kind != "csr":
            stream = getattr(model, name)(RowBlocks(lambda: [rows[:9], rows[9:]], X.shape))
            np.testing.assert_allclose(np.concatenate([*stream]), expected, rtol=1e-4, atol=1e-5)
    assert model.score(parts) == model.score(rows, labels)
    weights = np.arange(N, dtype=np.float64)
    expected = model.score(rows, labels, weights)
    assert model.score(parts, sample_weight=weights) == pytest.approx(expected, rel=1e-12)


def test_results_of_bad_parts_are_refused():
    model = private("dense").fit(X, Y)
    with pytest.raises(ValueError, match="X has 5 features"):
        model.predict(in_parts(X[:, 1:], Y))
    spoiled = X.copy()
    spoiled[4000] = np.nan
    with pytest.raises(ValueError, match="contains NaN"):
        list(model.predict(in_parts(spoiled, Y)))
    with pytest.raises(ValueError, match=r"contains NaN|cannot be read"):
        model.score(in_parts(X, np.where(Y, np.nan, 0)))
