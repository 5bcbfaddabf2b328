"""A pass over chunks of dask: its graph, its bits, and what a task gives back."""

import pickle
from collections import Counter
from functools import partial

import dask
import dask.array as da
import numpy as np
import pytest
from dask.diagnostics import Callback
from dask.utils import key_split
from in_parts import in_chunks, in_parts
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.preprocessing import FunctionTransformer

import skdp
from skdp.data import dask_rows
from skdp.data.dask_rows import rows_in_parts
from skdp.data.reduce import map_sum, on_block, tree_sum
from skdp.data.rows import Rows
from skdp.data.sources import as_source

SEED, D = 2**90, 6
LENGTHS = [300, 0, 1, 2500, 1, 0, 200, 2, 400]
GENERATOR = np.random.default_rng(0)
ROWS = GENERATOR.normal(size=(sum(LENGTHS), D)) * np.arange(1, D + 1)
NUMBERS = ROWS @ np.ones(D) + GENERATOR.normal(size=len(ROWS))
LABELS = np.where(NUMBERS > 0, "yes", "no")
pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

CLASSES = ["no", "yes"]
CASES = {
    "PCA": (skdp.DPPCA(2, row_norm=9.0), None),
    "PCA in steps": (skdp.DPPCA(2, solver="power"), None),
    "SVD": (skdp.DPTruncatedSVD(2), None),
    "scaler": (skdp.DPStandardScaler(), None),
    "factorizer": (skdp.DPLowRankFactorizer(2, epsilon=100.0), None),
    "linear": (skdp.DPLinearRegression(epsilon=10.0, n_iter=3), NUMBERS),
    "trace": (skdp.DPTraceRegressor(1, matrix_shape=(2, 3), epsilon=50.0, n_iter=2), NUMBERS),
    "logistic": (skdp.DPLogisticRegression(classes=CLASSES), LABELS),
    "classes of y": (skdp.DPLogisticRegression(), LABELS),
    "matrices": (skdp.DPTraceClassifier(1, matrix_shape=(2, 3), classes=CLASSES), LABELS),
    "pipeline": (
        skdp.DPPipeline(
            [
                ("scale", skdp.DPStandardScaler()),
                ("fit", skdp.DPLogisticRegression(classes=CLASSES)),
            ]
        ),
        LABELS,
    ),
}


def bits(fitted):
    """Return all that a fit publishes, as bytes."""
    fitted = getattr(fitted, "pipeline_", [fitted])
    return [
        np.asarray(value).tobytes()
        for step in fitted
        for name, value in sorted(vars(step).items())
        if name.endswith("_") and isinstance(value, np.ndarray | float)
    ]


@pytest.mark.covered(at_most=4)
@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
@pytest.mark.parametrize("case", CASES)
def test_a_seeded_fit_has_the_bits_of_the_same_parts(case, scheduler):
    estimator, y = CASES[case]
    estimator = clone(estimator).set_params(random_state=SEED)
    expected = bits(clone(estimator).fit(in_parts(ROWS, y, lengths=LENGTHS)))
    assert expected
    with dask.config.set(scheduler=scheduler):
        assert bits(estimator.fit(*in_chunks(ROWS, y, lengths=LENGTHS))) == expected


KINDS = {
    "dense": ROWS,
    "columns": np.asfortranarray(ROWS),
    "single": ROWS.astype(np.float32),
    "integers": ROWS.astype(np.int16),
    "booleans": ROWS > 0,
    "sparse": csr_array(ROWS * (ROWS > 1)),
}


@pytest.mark.covered
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lengths", [LENGTHS, [len(ROWS)]], ids=["parts", "one part"])
def test_sums_have_the_bits_of_the_same_parts(kind, lengths):
    parts = in_parts(KINDS[kind], lengths=lengths)
    chunks = rows_in_parts(*in_chunks(KINDS[kind], lengths=lengths))
    assert (chunks.dtype, chunks.is_sparse) == (parts.dtype, parts.is_sparse)
    for one in (lambda rows: rows.gram(), lambda rows: rows.clipped(2.0, np.reciprocal).total()):
        (expected, _), (found, _) = (one(Rows(as_source(X), 2)) for X in (parts, chunks))
        assert found.tobytes() == expected.tobytes()


def total(rows):
    return rows.sum(axis=0)


def doubled(block):
    return 2 * block


def made(number):
    return np.full((10, D), number, float)


SOURCES = {
    "random": lambda: da.random.default_rng(0).normal(size=(90, D), chunks=(10, D)),
    "mapped": lambda: (
        da.random.default_rng(0).normal(size=(90, D), chunks=(10, D)).map_blocks(doubled)
    ),
    "delayed": lambda: da.concatenate(
        [da.from_delayed(dask.delayed(made)(i), (10, D), float) for i in range(9)]
    ),
}


class Seen(Callback):
    """Sees the results of all tasks."""

    def __init__(self):
        super().__init__(posttask=self.saw)
        self.results = {}

    def saw(self, key, result, graph, state, worker):
        if isinstance(result, bytes):
            self.results[key] = result


@pytest.mark.parametrize("source", SOURCES)
def test_one_task_sums_a_chunk(source):
    X = SOURCES[source]()
    with dask.config.set(scheduler="synchronous"), Seen() as seen:
        found = map_sum(as_source(rows_in_parts(X)), on_block(total), D)
    names = Counter(map(key_split, seen.results))
    # Additions of eight and of two sums, and what all share.
    assert names == {"skdp-sum": 9, "skdp-add": 2, "skdp-shared": 1}
    np.testing.assert_allclose(found, X.compute().sum(axis=0))


# What is no sum of d x d matrices: the counts by which a response is clipped, at 2^14 public
# levels, and the left factors, which are of rows.
MORE = {"linear": 1 << 14, "trace": 1 << 14, "factorizer": 2 * len(ROWS)}


@pytest.mark.covered(at_most=4)
@pytest.mark.parametrize("case", CASES)
def test_no_task_gives_back_more_than_a_sum(case):
    estimator, y = CASES[case]
    with Seen() as seen:
        clone(estimator).fit(*in_chunks(ROWS, y, lengths=LENGTHS))
    # What all tasks are given, and rows that workers store, are no sums; nor is a sample of rows.
    others = ("skdp-shared", "skdp-rows")
    sizes = [len(one) for key, one in seen.results.items() if key_split(key) not in others]
    assert len(sizes) > 9
    assert max(sizes) <= 8 * (max(max(D + 1, 255) * D, MORE.get(case, 0)) + 2000)


def refusing(rows, block):
    """Fail for one block."""
    if rows.start == 300:
        raise ValueError("this block")
    return block.sum(axis=0)


def test_a_kernel_that_fails_gives_a_status_and_raises_in_no_task():
    source = as_source(rows_in_parts(*in_chunks(ROWS, lengths=LENGTHS)))
    with Seen() as seen, pytest.raises(ValueError, match="this block"):
        map_sum(source, refusing, D)
    results = [
        pickle.loads(result)[1]
        for key, result in seen.results.items()
        if key_split(key) in ("skdp-sum", "skdp-add")
    ]
    # All tasks ran to their end.
    assert len(results) == 7 + 1
    assert any(isinstance(result, ValueError) for result in results)


def test_workers_that_are_not_alike_are_refused(monkeypatch):
    kinds = iter(range(99))
    monkeypatch.setattr(dask_rows, "_machine", lambda: {"numpy": next(kinds) == 3})
    with (
        dask.config.set(scheduler="synchronous"),
        pytest.raises(RuntimeError, match=r"workers are not alike.*numpy"),
    ):
        skdp.DPPCA(2).fit(*in_chunks(ROWS, lengths=LENGTHS))


@pytest.mark.slow
def test_chunks_are_left_as_they_are():
    for rows in (np.ascontiguousarray(ROWS), np.asfortranarray(ROWS)):
        X, y = (one.persist() for one in in_chunks(rows, NUMBERS, lengths=LENGTHS))
        for case in ("PCA", "PCA in steps", "scaler", "linear", "trace"):
            estimator, target = CASES[case]
            clone(estimator).fit(X, *([] if target is None else [y]))
        np.testing.assert_array_equal(X.compute(), rows)
        np.testing.assert_array_equal(y.compute(), NUMBERS)


def secret_chunk(number, n):
    if number == 1:
        raise ValueError("the secret is 12345")
    return np.ones((n, D))


@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
def test_an_error_of_a_chunk_loses_its_text(scheduler):
    blocks = [da.from_delayed(dask.delayed(secret_chunk)(i, 10), (10, D), float) for i in range(3)]
    estimator = skdp.DPPCA(2)
    with (
        dask.config.set(scheduler=scheduler),
        pytest.raises(RuntimeError, match="ValueError") as got,
    ):
        estimator.fit(da.concatenate(blocks))
    assert "12345" not in str(got.value)
    assert got.value.__context__ is None
    assert got.value.__cause__ is None
    assert not hasattr(estimator, "components_")


def test_lengths_of_parts_that_change_are_refused():
    X = da.from_delayed(dask.delayed(partial(np.ones, (9, D)))(), (10, D), float)
    with pytest.raises(ValueError, match=r"Part 0 must have shape \(10, 6\)"):
        skdp.DPPCA(2).fit(X)


def test_blocks_of_a_task_are_gone_when_it_ends(monkeypatch):
    monkeypatch.setattr("skdp.data.sources.CACHE_BYTES", 0)
    # Circles of references would keep them until the garbage is collected.
    import gc
    import weakref

    alive = []

    class Watched(np.ndarray):
        pass

    def load(number):
        rows = np.ones((10, D)).view(Watched)
        alive.append(weakref.ref(rows))
        return rows

    X = da.concatenate([da.from_delayed(dask.delayed(load)(i), (10, D), float) for i in range(5)])
    gc.disable()
    try:
        with dask.config.set(scheduler="synchronous"):
            skdp.DPPCA(2).fit(X)
        assert len(alive) > 5
        assert not any(one() is not None for one in alive)
    finally:
        gc.enable()


@pytest.mark.parametrize("limit", [0, 1 << 30])
def test_small_collections_are_read_once_for_all_passes(limit, monkeypatch):
    monkeypatch.setattr("skdp.data.sources.CACHE_BYTES", limit)
    loads = []

    def load(number):
        loads.append(number)
        return np.random.default_rng(number).normal(size=(10, D))

    chunks = [da.from_delayed(dask.delayed(load)(i), (10, D), float) for i in range(3)]
    X = da.concatenate(chunks)
    with dask.config.set(scheduler="synchronous"):
        pca = skdp.DPPCA(2, random_state=2**99).fit(X)
        assert len(loads) == 3 if limit else len(loads) > 6
        expected = skdp.DPPCA(2, random_state=2**99).fit(X.persist())
    np.testing.assert_array_equal(pca.components_, expected.components_)


N_DOUBLED = []


def doubled_and_counted(rows):
    N_DOUBLED.append(len(rows))
    return 2 * rows


def test_a_public_function_is_applied_once_for_all_steps_of_a_regression():
    step = FunctionTransformer(doubled_and_counted)
    model = skdp.make_dp_pipeline(step, skdp.DPLinearRegression(), random_state=SEED)
    with dask.config.set(scheduler="synchronous"):
        fitted = clone(model).fit(*in_chunks(ROWS, NUMBERS, lengths=LENGTHS))
    # Beside some made-up rows, each row is mapped once: the workers store the result.
    assert sum(N_DOUBLED) // len(ROWS) == 1
    assert bits(fitted) == bits(model.fit(in_parts(ROWS, NUMBERS, lengths=LENGTHS)))


@pytest.mark.parametrize("n", [*range(1, 20), 63, 64, 65, 511, 513])
def test_additions_of_eight_are_the_one_tree(n):
    generator = np.random.default_rng(n)
    values = [generator.normal(size=3) * 10.0 ** generator.integers(-8, 8) for _ in range(n)]
    graph = {("value", i): pickle.dumps(({}, value)) for i, value in enumerate(values)}
    top = dask_rows.in_tree(graph, list(graph), "add")
    _, found = pickle.loads(dask.get(graph, top))
    assert found.tobytes() == tree_sum(value.copy() for value in values).tobytes()


def test_a_worker_does_not_take_targets_for_those_of_another_fit():
    # Workers remember what the tasks of a pass share, and with it the targets of a part.
    fits, lengths = [], [1, 0, 7, 92]
    with dask.config.set(scheduler="synchronous"):
        for y in (NUMBERS[:100], -NUMBERS[:100]):
            model = skdp.DPLinearRegression(n_iter=2, random_state=SEED)
            fits.append(bits(model.fit(*in_chunks(ROWS[:100], y, lengths=lengths))))
    expected = skdp.DPLinearRegression(n_iter=2, random_state=SEED)
    assert fits[1] == bits(expected.fit(in_parts(ROWS[:100], -NUMBERS[:100], lengths=lengths)))
    assert len({dask_rows.Chunks(X).name for X in in_chunks(ROWS, NUMBERS) for _ in range(2)}) == 4


class Unpicklable:
    def __reduce__(self):
        raise RuntimeError("the secret is 12345")


def test_what_cannot_be_pickled_is_refused_without_its_text():
    rows = rows_in_parts(*in_chunks(ROWS, lengths=LENGTHS))
    held = Unpicklable()
    with pytest.raises(ValueError, match="pickling raises RuntimeError") as caught:
        map_sum(as_source(rows), lambda rows, block: held, 1)
    assert "12345" not in str(caught.value)
    assert caught.value.__context__ is None
