"""The attacks on rows, records and columns, with chunks of dask in place of what is fitted."""

import warnings
from itertools import pairwise

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from attack_laws import attack_laws_for
from covers import single_cover
from dask.diagnostics import Callback
from dask.highlevelgraph import HighLevelGraph
from families import FAMILIES
from scipy import sparse
from sklearn.base import clone

from skdp import DPPCA, DPLinearRegression
from skdp._validation import in_parts
from skdp.data.dask_rows import sum_in_graph
from skdp.data.parts import RowParts
from skdp.testing._checks import ROUNDING
from skdp.testing._recording import farthest, fit_with, record, scripted_budget

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

FAMILY = {family.name: family for family in FAMILIES}
LAYOUTS = ("vectors", "narrow vectors", "flat", "sparse vectors")


def taken(name, cell):
    """Whether chunks hold what a cell is fitted to."""
    if name == "records":
        return cell.layout in LAYOUTS and cell.unit == "record"
    if name == "factors":
        return cell.unit == "row"
    return not getattr(cell, "container", "").endswith(("parts", "matrices"))


CELLS = [
    (name, cell)
    for name in ("rows", "factors", "records", "classes", "columns")
    # From the door on they are parts, which the families have in every cell.
    for cell in single_cover(tuple(one for one in FAMILY[name].cells if taken(name, one)))
]


def array_of(loaders, lengths, width, meta):
    """Make an array of functions that load its chunks."""
    name = f"loaded-{dask.base.tokenize(object())}"
    keys = [(name, i, *(0 for _ in width)) for i in range(len(loaders))]
    graph = {key: (loader,) for key, loader in zip(keys, loaders, strict=True)}
    chunks = (tuple(lengths), *((n,) for n in width))
    return da.Array(HighLevelGraph.from_collections(name, graph), name, chunks, meta=meta)


def meta_of(X):
    return (
        sparse.csr_array((0, 0), dtype=X.dtype) if sparse.issparse(X) else np.empty((0, 0), X.dtype)
    )


def in_chunks(X, y=None):
    """Return what is fitted as chunks: the first row is one, and the last has most rows."""
    ranges = list(pairwise((0, 1, 1, 8, X.shape[0])))
    loaders = [X[a:b].copy for a, b in ranges]
    lengths = [b - a for a, b in ranges]
    rows = array_of(loaders, lengths, X.shape[1:], meta_of(X))
    return (rows,) if y is None else (rows, da.from_array(np.asarray(y), chunks=(tuple(lengths),)))


def at_the_door(fitted):
    """Make what takes the place of the entry of all fits, and count the fits to chunks."""

    def _in_parts(X, y=None):
        is_matrix = isinstance(X, np.ndarray) or sparse.issparse(X)
        if is_matrix and X.ndim == 2 and X.shape[0] > 8:
            X, y = in_parts(*in_chunks(X.tocsr() if sparse.issparse(X) else X, y))
            assert isinstance(X, RowParts)
            assert X.pass_over is sum_in_graph
            fitted.append(X)
        return X, y

    return _in_parts


@pytest.mark.slow
@pytest.mark.parametrize(("name", "cell"), CELLS, ids=lambda one: str(one))
def test_laws_of_attacks_hold_for_chunks(name, cell, monkeypatch):
    fitted = []
    monkeypatch.setattr("skdp._validation.in_parts", at_the_door(fitted))
    with dask.config.set(scheduler="synchronous"), FAMILY[name].setting(cell):
        for law in attack_laws_for(FAMILY[name], cell):
            law(FAMILY[name], cell)
    assert fitted


def odd(value, shape):
    rows = np.ones(shape)
    rows[-1] = value
    return rows


# What a chunk may become in a later pass.
LATER = {
    "not a number": lambda shape: odd(np.nan, shape),
    "infinite": lambda shape: odd(-np.inf, shape),
    "huge": lambda shape: odd(1e300, shape),
}


@pytest.mark.covered(at_most=3)
@pytest.mark.parametrize("later", LATER)
@pytest.mark.parametrize(
    "estimator", [DPPCA(2), DPLinearRegression(n_iter=2)], ids=["rows", "records"]
)
def test_rows_that_change_between_passes_are_bounded_like_any(estimator, later, monkeypatch):
    monkeypatch.setattr("skdp.data.sources.CACHE_BYTES", 0)
    estimator.set_params(epsilon=200.0)
    X = np.random.default_rng(0).normal(size=(40, 4))
    y, loads = X @ [1.0, 2.0, 0.0, -1.0], []

    def loaded(is_spoiled):
        loads.append(is_spoiled)
        return LATER[later]((10, 4)) if is_spoiled and len(loads) > 1 else X[:10]

    def chunks(*, is_spoiled):
        loads.clear()
        loaders = [lambda: loaded(is_spoiled), lambda: X[10:]]
        rows = array_of(loaders, (10, 30), (4,), np.empty((0, 0)))
        is_supervised = isinstance(estimator, DPLinearRegression)
        return (rows, da.from_array(y, chunks=((10, 30),))) if is_supervised else (rows,)

    with dask.config.set(scheduler="synchronous"):
        first = record(lambda: clone(estimator), chunks(is_spoiled=False))
        again = scripted_budget(first.released)
        _, second = fit_with(clone(estimator), chunks(is_spoiled=True), again)
    assert len(loads) > 3
    # As many rows have changed.
    assert max(farthest([second], first).values()) <= 10 * ROUNDING


@pytest.mark.parametrize("moved", ["rows", "targets"])
def test_an_index_of_its_own_brings_no_target_to_the_row_of_another(moved, ledger):
    # Pandas joins columns by index. If each row names its own, a row would decide on two records.
    generator, ids = np.random.default_rng(0), list("ab")
    frame = pd.DataFrame(generator.normal(size=(40, 2)), columns=ids).assign(
        y=lambda one: one["a"], own=generator.permutation(40)
    )

    def indexed(frame):
        other = frame.map_partitions(lambda part: part.set_index("own"))
        one, two = (other, frame) if moved == "rows" else (frame, other)
        return one[ids], two["y"]

    with dask.config.set(scheduler="synchronous"):
        for pieces in (1, 3):
            whole = dd.from_pandas(frame, npartitions=pieces)
            with pytest.raises(ValueError, match=r"another index.*frame\['label'\]"):
                DPLinearRegression(n_iter=2, ledger=ledger).fit(*indexed(whole))
    assert ledger.entries() == []


def test_no_warning_of_a_chunk_is_heard(recwarn):
    def warned(made):
        warnings.warn(f"a secret number: {made.ravel()[0]}", stacklevel=1)
        return made

    X, ids = np.arange(80.0).reshape(40, 2), np.arange(40)
    rows, users = (da.from_array(one, chunks=(10, *one.shape[1:])) for one in (X, ids))
    frame = dd.from_pandas(pd.DataFrame(X, columns=["a", "y"]), npartitions=2)
    frame = frame.map_partitions(lambda part: part + 0 * warned(part.to_numpy()), meta=frame)
    with dask.config.set(scheduler="threads"):
        rows, users = (one.map_blocks(warned, meta=one._meta) for one in (rows, users))
        DPPCA(1, privacy_unit="user").fit(rows, users=users)
        DPLinearRegression(n_iter=1).fit(frame[["a"]], frame["y"])
    assert not [one for one in recwarn if "secret" in str(one.message)]


@pytest.mark.parametrize("told", ["warning", "error"])
@pytest.mark.parametrize("prepared", ["set_index", "repartition"])
def test_nothing_of_a_chunk_is_heard_where_dask_divides_rows(told, prepared, recwarn):
    # Dask reads partitions to divide them, before a fit asks for a sum.
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 3)), columns=list("abc"))

    def load(number):
        text = f"a secret number: {frame['a'][20 * number]}"
        if told == "error":
            raise ValueError(text)
        warnings.warn(text, stacklevel=1)
        return frame[20 * number :][:20]

    X, error = dd.from_map(load, [0, 1], meta=frame[:0]), ""
    X = X.set_index("a") if prepared == "set_index" else X.repartition(partition_size="1kB")
    with dask.config.set(scheduler="synchronous"):
        try:
            DPPCA(1).fit(X)
        except RuntimeError as raised:
            error = str(raised)
    assert error.startswith("Dask has raised" if told == "error" else "")
    assert "secret" not in " ".join([error, *(str(one.message) for one in recwarn)])


def test_no_task_of_a_fit_raises_whatever_rows_hold():
    # Schedulers tell of tasks that raise: where a row is odd would be known.
    spoiled = {
        "not a number": np.full((10, 4), np.nan),
        "another shape": np.ones((9, 4)),
        "texts": np.full((10, 4), "a"),
        "objects": np.full((10, 4), None, dtype=object),
        "sparse": sparse.csr_array(np.ones((10, 4))),
        "masked": np.ma.ones((10, 4)),
        "nothing": None,
    }
    for name, chunk in spoiled.items():
        ended = []
        loaders = [lambda chunk=chunk: chunk, lambda: np.ones((5, 4))]
        rows = array_of(loaders, (10, 5), (4,), np.empty((0, 0)))
        with (
            dask.config.set(scheduler="synchronous"),
            Callback(posttask=lambda key, *_, ended=ended: ended.append(key)),
            pytest.raises(ValueError, match=r"NaN|Part 0"),
        ):
            DPPCA(2).fit(rows)
        # Two chunks and their sums, one addition, and what all share.
        assert len(ended) == 6, name
