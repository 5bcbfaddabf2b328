"""Where passes run: in any number of threads, with the same bits; and what workers are sent."""

import os
import pickle
import threading
import warnings
from functools import partial

import numpy as np
import pytest
from joblib import Parallel, delayed
from scipy.sparse import csr_array

from skdp import DPPCA, RowBlocks
from skdp.data import dask_rows
from skdp.data.rows import RowCache, Rows
from skdp.data.sources import as_source

SEED = 2**90
D = 6
LENGTHS = [700, 0, 1, 5000, 1, 0, 300, 2, 1000]
ROWS = np.random.default_rng(0).normal(size=(sum(LENGTHS), D)) * np.logspace(-9, 0, D)
SECRET = "12345"
pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")


def parts_of(rows, lengths, load=np.copy):
    ends = np.cumsum(lengths)
    loaders = [partial(load, rows[end - n : end]) for n, end in zip(lengths, ends, strict=True)]
    return RowBlocks.from_partitions(loaders, lengths, rows.shape[1])


def sums(X, n_jobs):
    rows = Rows(as_source(X), n_jobs)
    found = rows.total()[0], rows.gram()[0], rows.clipped(0.5, np.reciprocal).gram()[0]
    return b"".join(one.tobytes() for one in (*found, rows.norms()))


def pca(solver="covariance", **parameters):
    # Noise repeats only if the sum under it does, to the last bit.
    return DPPCA(2, solver=solver, row_norm=3.0, epsilon=50, random_state=SEED, **parameters)


def bits(fitted):
    return fitted.components_.tobytes(), fitted.explained_variance_.tobytes()


SPLITS = {"parts": LENGTHS, "one part": [len(ROWS)]}
KINDS = {"dense": (ROWS, np.copy), "sparse": (csr_array(ROWS), csr_array)}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("split", SPLITS)
def test_bits_do_not_depend_on_who_sums(kind, split):
    rows, load = KINDS[kind]
    X = parts_of(rows, SPLITS[split], load)
    expected = sums(X, 1)
    if split == "one part":
        assert sums(rows, 1) == expected
    for n_jobs in (2, 3):
        assert sums(X, n_jobs) == expected


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["covariance", "power"])
def test_fits_in_processes_of_joblib_find_the_same_bits(solver):
    X = parts_of(ROWS, LENGTHS)
    nested = Parallel(2)(delayed(pca(solver, n_jobs=n).fit)(X) for n in (1, 2))
    assert [bits(one) for one in nested] == [bits(pca(solver, n_jobs=1).fit(X))] * 2


def test_a_machine_is_described_by_what_rounding_depends_on():
    machine = dask_rows._machine()
    assert machine["numpy"] == np.__version__
    assert machine == pickle.loads(pickle.dumps(machine))
    assert {name for name, facts in machine.items() if not facts} <= {"BLAS"}
    assert len(machine["CPU features"]) > 1
    assert os.sep not in str(machine)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ValueError(SECRET), (ValueError, SECRET)),  # skdp's own errors tell no value
        (MemoryError(SECRET), (MemoryError, SECRET)),
        (OSError(SECRET), (RuntimeError, "A worker has raised OSError")),
        (SystemExit(SECRET), (RuntimeError, "A worker has raised SystemExit")),
    ],
)
def test_an_error_of_a_worker_becomes_its_answer(error, expected):
    def call():
        raise error

    _, failure = pickle.loads(dask_rows.answer(lambda: call))
    assert type(failure) is expected[0]
    assert str(failure).startswith(expected[1])


def test_another_process_warns_of_nothing():
    def loud():
        warnings.warn(SECRET, stacklevel=1)
        return ROWS * 1e200 * 1e200

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, result = pickle.loads(dask_rows.answer(lambda: loud))
    assert np.isinf(result).all()


@pytest.mark.parametrize(
    "array",
    [
        np.arange(24.0).reshape(4, 6)[:, :1],
        np.arange(24.0).reshape(4, 6)[::2, ::-3],
        np.arange(24).reshape(4, 6).T,
        np.arange(4.0)[:, np.newaxis].T,
        np.broadcast_to(np.float32(7), (3, 2)),
        np.array(3.0),
    ],
)
def test_arrays_are_sent_with_their_strides(array):
    sent = pickle.loads(dask_rows.pickled(array)[0])
    assert (sent.strides, sent.dtype) == (array.strides, array.dtype)
    np.testing.assert_array_equal(sent, array)


def test_what_cannot_be_sent_is_refused():
    with pytest.raises(ValueError, match="cannot be sent to other processes: pickling raises"):
        dask_rows.pickled(threading.Lock())


def test_what_is_learned_on_the_way_is_not_sent():
    rows = Rows(as_source(ROWS), cache=RowCache(np.ones(len(ROWS))))
    assert pickle.loads(pickle.dumps(rows)).cache == RowCache()
