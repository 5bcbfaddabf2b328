"""Threads of matrix products: one for each beside threads of our own, and as before afterwards."""

import linecache
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from skdp import DPPCA, RowBlocks
from skdp.data import workers
from skdp.data.workers import one_blas_thread, run_in_threads, thread_count

SEED = 2**90
pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")


def limits():
    return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def two_threads():
    with threadpool_limits(2, "blas"):
        yield
        assert limits() == {2}


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_products_have_one_thread_in_every_thread_of_a_pass(n_threads):
    # One more may change the last bit of what a row gives.
    assert list(run_in_threads([limits] * 5, n_threads)) == [{1}] * 5


def test_a_pass_has_the_threads_that_a_product_would_have():
    assert (thread_count(None), thread_count(1), thread_count(3)) == (2, 1, 3)
    with one_blas_thread():
        assert thread_count(None) == 2
        with one_blas_thread():
            assert thread_count(None) == 2
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(thread_count, None).result(60) == 2
    with threadpool_limits(3, "blas"):
        assert thread_count(None) == 3


class OfThread(threading.local):
    """A library that has a limit in every thread."""

    num_threads = 5

    def set_num_threads(self, number):
        self.num_threads = number


def test_limits_of_single_threads_are_those_of_before_afterwards(monkeypatch):
    library = OfThread()
    monkeypatch.setattr(workers, "_libraries", lambda shared: () if shared else (library,))
    with one_blas_thread():
        with one_blas_thread():
            assert (library.num_threads, thread_count(None)) == (1, 5)
            with ThreadPoolExecutor(1) as pool:
                assert pool.submit(lambda: library.num_threads).result(60) == 5
        assert (library.num_threads, thread_count(None)) == (1, 5)
    assert library.num_threads == 5
    assert list(run_in_threads([lambda: library.num_threads] * 5, 2)) == [1] * 5


@pytest.mark.parametrize("error", [None, MemoryError])
def test_the_last_one_out_restores_the_limits(error):
    entered, left, seen = threading.Event(), threading.Event(), []

    def first():
        with one_blas_thread():
            entered.set()
            assert inside.wait(60)
            if error:
                raise error

    def second():
        assert entered.wait(60)
        with one_blas_thread():
            inside.set()
            assert left.wait(60)
            seen.append(limits())

    inside = threading.Event()
    with ThreadPoolExecutor(2) as pool:
        one, other = pool.submit(first), pool.submit(second)
        raised = one.exception(60)
        left.set()
        other.result(60)
    assert (type(raised), seen) == (error or type(None), [{1}])
    assert limits() == {2}


def bits_of_fit(n_jobs=2, solver="power"):
    # So large that two threads share the products, and round otherwise than one.
    X = np.random.default_rng(0).normal(size=(4200, 300))
    parameters = {"row_norm": 30.0, "epsilon": 50, "random_state": SEED, "n_jobs": n_jobs}
    return DPPCA(10, solver=solver, **parameters).fit(X).components_.tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["power", "covariance"])
def test_a_seed_repeats_a_fit_with_any_number_of_threads(solver):
    found = {bits_of_fit(n_jobs, solver) for n_jobs in (1, 2, 3, None)}
    with threadpool_limits(1, "blas"):
        found.add(bits_of_fit(None, solver))
    assert len(found) == 1


def test_fits_beside_each_other_have_the_bits_they_have_alone():
    alone = bits_of_fit()
    assert limits() == {2}
    with ThreadPoolExecutor(3) as pool:
        assert set(pool.map(bits_of_fit, (2, None, 1))) == {alone}
    assert limits() == {2}


def test_a_fit_that_raises_restores_the_limits():
    def broken():
        yield np.ones((50, 3))
        raise MemoryError

    with pytest.raises(MemoryError):
        DPPCA(1, row_norm=1.0, center=False, n_jobs=2).fit(RowBlocks(broken, (100, 3)))
    with pytest.raises(ValueError, match="n_jobs == 0"):
        DPPCA(1, n_jobs=0).fit(np.ones((50, 3)))
    assert limits() == {2}


def points_of(function, number):
    """Call a function, with Ctrl-C before a line of the limits; tell whether there is such one."""
    seen = []

    def trace(frame, event, _):
        if frame.f_code.co_filename != workers.__file__:
            return None
        # Where a lock is taken or given back, nothing interrupts.
        if event == "line" and "_lock:" not in linecache.getline(workers.__file__, frame.f_lineno):
            seen.append(frame.f_lineno)
            if len(seen) == number:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    return len(seen) >= number


def locks_are_free():
    """Whether another thread can have the lock of the limit that threads share."""
    with ThreadPoolExecutor(1) as other:
        lock = workers._ONE_THREAD._lock
        is_free = other.submit(lock.acquire, timeout=10).result()
        if is_free:
            other.submit(lock.release).result()
        return is_free


def test_no_interruption_leaves_a_limit_for_good():
    def limited():
        with one_blas_thread():
            pass

    number = 1
    while points_of(limited, number):
        assert locks_are_free(), number
        limited()
        assert limits() == {2}, number
        number += 1
    assert number > 20


# Two threads: one part is loaded at once, and nobody ever lets the other one go.
BLOCKED = """
import os
import signal
import threading
import numpy as np
from skdp import DPTruncatedSVD, RowBlocks

# What a shell starts in the background ignores Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)

def blocked():
    os.write(1, b"loading\\n")
    threading.Event().wait()

loaders = [lambda: np.ones((50, 3)), blocked, blocked, blocked]
rows = RowBlocks.from_partitions(loaders, [50] * 4, 3)
try:
    DPTruncatedSVD(1, row_norm=1.0, n_jobs=2).fit(rows)
finally:
    print("interrupted", flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="there is no signal of Ctrl-C to send")
def test_an_interrupted_process_does_not_wait_for_a_part_that_is_being_loaded():
    arguments = [sys.executable, "-W", "ignore", "-c", BLOCKED]
    pipe = subprocess.PIPE
    with subprocess.Popen(arguments, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            assert process.stdout.readline() == "loading\n"
            process.send_signal(signal.SIGINT)
            output, errors = process.communicate(timeout=120)
        finally:
            process.kill()
    # A part that a thread has taken already may begin to load after that, and print in between.
    assert "interrupted" in output
    assert errors.splitlines()[-1] == "KeyboardInterrupt"
    assert process.returncode == -signal.SIGINT


def test_a_pass_that_is_refused_ends_with_its_threads():
    # Until then warnings of what loads rows are silenced.
    waits, ended = threading.Event(), []

    def refused():
        waits.wait()
        raise ValueError("no rows")

    def slow():
        waits.set()
        ended.append(threading.get_ident())

    with pytest.raises(ValueError, match="no rows"):
        list(run_in_threads([refused, slow, *[slow] * 50], 3))
    assert not set(ended) & {thread.ident for thread in threading.enumerate()}


def test_results_come_in_order_and_calls_that_nobody_waits_for_are_dropped():
    goes_on, called = threading.Event(), []

    def call(number):
        called.append(number)
        if number:
            goes_on.wait(60)
        return number

    before = {*threading.enumerate()}
    results = run_in_threads([lambda number=number: call(number) for number in range(50)], 2)
    assert next(results) == 0
    results.close()
    goes_on.set()
    for thread in {*threading.enumerate()} - before:
        thread.join(60)  # the limit on BLAS holds until the last call ends
    assert len(called) <= 3
    assert list(run_in_threads([lambda i=i: i for i in range(50)], 3)) == list(range(50))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_has_the_limit_of_its_own_thread_only():
    begun, may_end = threading.Event(), threading.Event()

    def limited():
        with one_blas_thread():
            begun.set()
            may_end.wait(60)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(limited)
        assert begun.wait(60)
        child = os.fork()
        if child == 0:
            found = [limits()]
            with one_blas_thread():
                found.append(limits())
                if (grandchild := os.fork()) == 0:
                    os._exit(limits() != {1})
                found.append(os.waitpid(grandchild, 0)[1])
            os._exit([*found, limits()] != [{2}, {1}, 0, {2}])
        assert limits() == {1}
        may_end.set()
    assert os.waitpid(child, 0)[1] == 0
