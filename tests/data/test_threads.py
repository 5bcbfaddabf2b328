"""Threads of matrix products: one for each beside threads of our own, and as before afterwards."""

import linecache
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy import sparse
from threadpoolctl import threadpool_info, threadpool_limits

from skdp import DPPCA, RowBlocks
from skdp.data import threads
from skdp.data.sources import as_source
from skdp.data.threads import blas_threads, run_groups

SEED = 2**90
pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")


def limits():
    return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def two_threads():
    with threadpool_limits(2, "blas"):
        yield
        assert limits() == {2}


def test_all_groups_have_one_thread_each():
    # How the rows are shared out depends on the data, and a BLAS thread more may change the last
    # bit of a row.
    X = np.zeros((8200, 5))
    uneven = sparse.csr_array(([1.0], ([0], [0])), shape=X.shape)
    for data in (sparse.csr_array(X.shape), uneven, X):
        seen = run_groups(as_source(data), 2, lambda group: limits())
        assert seen == [{1}] * len(seen)
    assert run_groups(as_source(X), 1, lambda group: limits()) == [{2}]


@pytest.mark.parametrize("error", [None, MemoryError])
def test_the_last_one_out_restores_the_limits(error):
    entered, left, seen = threading.Event(), threading.Event(), []

    def first():
        with blas_threads(2):
            entered.set()
            assert inside.wait(60)
            if error:
                raise error

    def second():
        assert entered.wait(60)
        with blas_threads(2):
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


def bits_of_fit(_=None):
    # So large that two threads share the products, and round otherwise than one.
    X = np.random.default_rng(0).normal(size=(600, 300))
    parameters = {"row_norm": 30.0, "epsilon": 50, "random_state": SEED, "n_jobs": 2}
    return DPPCA(30, solver="power", **parameters).fit(X).components_.tobytes()


def test_fits_beside_each_other_have_the_bits_they_have_alone():
    alone = bits_of_fit()
    assert limits() == {2}
    with ThreadPoolExecutor(3) as pool:
        assert set(pool.map(bits_of_fit, range(3))) == {alone}
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
        if frame.f_code.co_filename != threads.__file__:
            return None
        # Where a lock is taken or given back, nothing interrupts.
        if event == "line" and "_lock:" not in linecache.getline(threads.__file__, frame.f_lineno):
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


def test_no_interruption_leaves_a_limit_for_good():
    def limited():
        with blas_threads(2):
            pass

    number = 1
    while points_of(limited, number):
        limited()
        assert limits() == {2}, number
        number += 1
    assert number > 20


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_has_the_limits_from_before():
    with blas_threads(2):
        child = os.fork()
        if child == 0:
            os._exit(limits() != {2})
        assert os.waitpid(child, 0)[1] == 0
        assert limits() == {1}
