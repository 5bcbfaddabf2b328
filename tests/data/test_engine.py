"""Where passes run: in threads or in other processes, with the same bits, and no more is told."""

import os
import pickle
import signal
import threading
import traceback
import warnings
from functools import partial
from itertools import cycle

import numpy as np
import pytest
from joblib import Parallel, delayed, parallel_config, register_parallel_backend
from joblib.parallel import ThreadingBackend
from scipy.sparse import csr_array

from skdp import DPPCA, RowBlocks
from skdp.data import workers
from skdp.data.parts import Targets
from skdp.data.reduce import PerRow, map_sum
from skdp.data.rows import RowCache, Rows
from skdp.data.sources import as_source

SEED = 2**90
D = 6
LENGTHS = [700, 0, 1, 5000, 1, 0, 300, 2, 1000]
ROWS = np.random.default_rng(0).normal(size=(sum(LENGTHS), D)) * np.logspace(-9, 0, D)
SECRET = "12345"
pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")


class Elsewhere(ThreadingBackend):
    """A backend that is sent pickled tasks, although its workers are threads of this process."""

    uses_threads = False


register_parallel_backend("elsewhere", Elsewhere)


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
        for backend in ("elsewhere", "threading"):
            with parallel_config(backend):
                assert sums(X, n_jobs) == expected


def processes(X):
    """Tell which processes compute the sums over rows."""
    found = map_sum(as_source(X), lambda *_: PerRow(np.array([os.getpid()])), 0, 2)
    return set(found.tolist())


@pytest.mark.parametrize("n_jobs", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_other_processes_find_the_same_bits(n_jobs):
    # One test for all of it: to start processes takes longer.
    dense, sparse = (parts_of(rows, LENGTHS, load) for rows, load in KINDS.values())
    fits = [bits(pca(solver, n_jobs=1).fit(dense)) for solver in ("covariance", "power")]
    assert processes(dense) == {os.getpid()}
    with parallel_config("loky"):
        for X in (dense, sparse):
            assert sums(X, n_jobs) == sums(X, 1)
        assert os.getpid() not in processes(dense)
        # In memory, or a single part.
        assert processes(ROWS) == processes(parts_of(ROWS, [len(ROWS)])) == {os.getpid()}
        found = [pca(solver, n_jobs=n_jobs).fit(dense) for solver in ("covariance", "power")]
        assert [bits(one) for one in found] == fits
        # Within a process of joblib a fit keeps to threads.
        nested = Parallel(n_jobs)(
            delayed(pca(solver, n_jobs=2).fit)(dense) for solver in ("covariance", "power")
        )
    assert [bits(one) for one in nested] == fits
    with parallel_config("loky", n_jobs=1):
        assert [bits(pca(solver).fit(dense)) for solver in ("covariance", "power")] == fits


# By default a scheduler that is closed ends a fit: test_cluster.py.
@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no process is killed like this here")
def test_a_worker_that_is_killed_ends_a_fit_that_was_charged_once(tmp_path, ledger):
    loads, client = tmp_path / "loads", os.getpid()

    def killing(rows):
        # A file in append mode: each pass adds one byte.
        with loads.open("ab") as file:
            file.write(b".")
        if loads.stat().st_size == 5 and os.getpid() != client:
            os.kill(os.getpid(), signal.SIGKILL)
        return rows

    X = parts_of(ROWS, LENGTHS)
    load = X.parts[2].loader
    X.parts[2] = X.parts[2]._replace(loader=lambda: killing(load()))
    estimator = pca("power", n_jobs=2, ledger=ledger)
    before = dict(vars(estimator))
    with parallel_config("loky"), pytest.raises(RuntimeError, match="A worker of joblib") as caught:
        estimator.fit(X)
    assert loads.stat().st_size == 5
    assert caught.value.__cause__ is caught.value.__context__ is None
    assert vars(estimator) == before
    assert len(ledger.entries()) == 1
    assert bits(estimator.fit(X)) == bits(pca("power").fit(parts_of(ROWS, LENGTHS)))


def test_mixed_workers_are_refused_before_a_charge(monkeypatch, ledger):
    here = workers._machine()
    kinds = [here, {**here, "numpy": frozenset(["0.1"])}]
    X = parts_of(ROWS, LENGTHS)
    with parallel_config("elsewhere", n_jobs=2):
        for machines in (kinds, kinds[::-1]):
            machine = cycle(machines).__next__
            monkeypatch.setattr(workers, "_machine", machine)
            with pytest.raises(RuntimeError, match=rf"numpy \(0.1, {np.__version__}\)\. Sums may"):
                pca(ledger=ledger).fit(X)
    assert ledger.entries() == []


def test_a_machine_is_described_by_what_rounding_depends_on():
    machine = workers._machine()
    assert machine["numpy"] == {np.__version__}
    assert machine == pickle.loads(pickle.dumps(machine))
    assert {name for name, facts in machine.items() if not facts} <= {"BLAS"}
    assert len(machine["CPU features"]) > 1
    assert not any(os.sep in fact for facts in machine.values() for fact in facts)


def fails(rows, error):
    if len(rows) == 300:
        raise error
    return rows


@pytest.mark.parametrize("returns_generator", [True, False])
@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ValueError(SECRET), (ValueError, "Part 6: The data cannot be read")),
        (MemoryError(SECRET), (MemoryError, "Part 6: The data cannot be read")),
        (UnicodeDecodeError("ascii", SECRET.encode(), 0, 1, SECRET), (ValueError, "Part 6: The")),
        (SystemExit(SECRET), (RuntimeError, "A worker has raised SystemExit")),
    ],
)
def test_an_error_of_a_worker_tells_the_part_and_no_value(
    error, expected, returns_generator, monkeypatch, ledger
):
    monkeypatch.setattr(Elsewhere, "supports_return_generator", returns_generator)
    X = parts_of(ROWS, LENGTHS, partial(fails, error=error))
    with warnings.catch_warnings(), parallel_config("elsewhere", n_jobs=2):
        warnings.simplefilter("error")
        with pytest.raises(expected[0], match=expected[1]) as caught:
            pca(ledger=ledger).fit(X)
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert ledger.entries() == []


def loud(rows):
    warnings.warn(SECRET, stacklevel=1)
    return rows * 1e200 * 1e200


def test_another_process_warns_of_nothing():
    (common, _), (own, _) = workers.pickled((ROWS,)), workers.pickled((loud, {}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, result = pickle.loads(workers._run(common, own, ("client", 0)))
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
    sent = pickle.loads(workers.pickled(array)[0])
    assert (sent.strides, sent.dtype) == (array.strides, array.dtype)
    np.testing.assert_array_equal(sent, array)


def test_what_cannot_be_sent_is_refused():
    lock = threading.Lock()
    X = parts_of(ROWS, LENGTHS, lambda rows: rows if lock else None)
    with (
        parallel_config("elsewhere", n_jobs=2),
        pytest.raises(ValueError, match="cannot be sent to other processes: pickling raises"),
    ):
        pca().fit(X)


def test_a_worker_is_sent_its_own_parts_only():
    X = RowBlocks.from_partitions(
        [partial(np.asarray, ROWS[:3000]), partial(np.asarray, ROWS[3000:])],
        [3000, len(ROWS) - 3000],
        D,
        y=[np.arange(3000.0), np.arange(3000.0, len(ROWS))],
    )
    shared = as_source(X), partial(weighted, targets=X.y)
    tasks = workers._tasks([weighted_sums] * 2, shared, [range(1), range(1, 2)])
    sizes = [sum(map(len, arguments)) for _, arguments, _ in tasks]
    assert sum(sizes) < 1.2 * (ROWS.nbytes + 8 * len(ROWS))
    assert max(sizes) < 0.7 * ROWS.nbytes
    for targets in (X.y, Targets.of(np.arange(float(len(ROWS))))):
        with parallel_config("elsewhere", n_jobs=2):
            found = map_sum(shared[0], partial(weighted, targets=targets), D)
        np.testing.assert_allclose(found, np.arange(len(ROWS)) @ ROWS)
    assert pickle.loads(pickle.dumps(Rows(shared[0], cache=RowCache(found)))).cache == RowCache()


def weighted(rows, block, targets):
    return targets[rows] @ block


def weighted_sums(source, kernel):
    return None
