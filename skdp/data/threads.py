"""Threads that share a pass over rows, and the threads of matrix products meanwhile."""

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar
from weakref import WeakSet

import numpy as np
import scipy.linalg  # noqa: F401 - loads its BLAS, to be found below
from joblib import effective_n_jobs
from threadpoolctl import ThreadpoolController

T = TypeVar("T")


class _Request:
    """One request for a single thread; it ends when the object is gone."""


class _BlasLimit:
    """Limits the matrix products of some libraries to one thread while anybody requests it.

    An interrupt cannot leave the limit in place: a request whose object is gone is forgotten, and
    the next one that ends restores the limits from before.
    """

    def __init__(self, *, shared: bool) -> None:
        self._shared = shared
        self._lock = threading.RLock()
        self._requests: WeakSet[_Request] = WeakSet()
        self._original: list[int] | None = None

    def enter(self, request: _Request) -> None:
        """Set the limit, and remember those from before, if no other request has."""
        with self._lock:
            self._requests.add(request)
            if self._original is None:
                libraries = _libraries(shared=self._shared)
                self._original = _limits_of(libraries)
                _set_limits(libraries, [1] * len(libraries))

    def leave(self, request: _Request) -> None:
        """End a request; the last one restores the limits from before."""
        with self._lock:
            self._requests.discard(request)
            if not self._requests and self._original is not None:
                _set_limits(_libraries(shared=self._shared), self._original)
                self._original = None

    def original(self) -> list[int]:
        """Return what the limits are without any request."""
        with self._lock:
            return self._original or _limits_of(_libraries(shared=self._shared))

    def after_fork(self) -> None:
        """Restore the limits in a new process, which has none of the threads that requested one."""
        self._lock, self._requests = threading.RLock(), WeakSet()
        self.leave(_Request())


class _BlasLimitOfThread(_BlasLimit, threading.local):
    """The same for libraries that have a limit in every thread."""


_LIMITS = _BlasLimit(shared=True), _BlasLimitOfThread(shared=False)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_LIMITS[0].after_fork)


def thread_count(n_jobs: int | None) -> int:
    """Tell how many threads share a pass: for ``None`` as many as a matrix product would have."""
    n_threads = effective_n_jobs(n_jobs)
    # If n_jobs is None, the caller may have set this number by joblib.
    if n_jobs is not None or n_threads != 1:
        return n_threads
    return max((n for limit in _LIMITS for n in limit.original()), default=1)


def run_in_threads(calls: Iterable[Callable[[], T]], n_threads: int) -> Iterator[T]:
    """Yield what functions without arguments return, in their order; threads share the calls."""
    if n_threads == 1:
        yield from map(quietly, calls)
        return
    # These threads are our own: joblib's pool may take longer to notice the end of a pass than the
    # pass itself takes. The limit that all threads share is set once, around all of them.
    with one_blas_thread(), ThreadPoolExecutor(n_threads) as threads:
        yield from threads.map(quietly, calls)


def quietly(call: Callable[[], T]) -> T:
    """Call a function with one BLAS thread and without warnings of numpy."""
    # What overflows becomes null: a warning of numpy would tell of single rows.
    with one_blas_thread(), np.errstate(all="ignore"):
        return call()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Give matrix products one thread: with another number of them, results may round otherwise."""
    request = _Request()
    try:
        for limit in _LIMITS:
            limit.enter(request)
        yield
    finally:
        try:
            for limit in _LIMITS:
                limit.leave(request)
        finally:
            # Leave again, in case the first attempt was interrupted.
            for limit in _LIMITS:
                limit.leave(request)


@cache
def _libraries(*, shared: bool) -> tuple[Any, ...]:
    """Find the BLAS libraries whose limit all threads share, or those with one for each thread."""
    # The result is cached: looking for the libraries takes longer than many a pass.
    libraries = ThreadpoolController().select(user_api="blas").lib_controllers
    return tuple(library for library in libraries if _is_shared(library) == shared)


def _is_shared(library: Any) -> bool:
    # Only OpenBLAS with threads of its own keeps one limit for the whole process.
    is_openmp = getattr(library, "threading_layer", None) == "openmp"
    return bool(library.internal_api == "openblas" and not is_openmp)


def _limits_of(libraries: tuple[Any, ...]) -> list[int]:
    # A function of its own: `enter` would hold its lock for good if a signal interrupted a
    # comprehension within its `with`.
    return [library.num_threads for library in libraries]


def _set_limits(libraries: tuple[Any, ...], limits: list[int]) -> None:
    for library, limit in zip(libraries, limits, strict=True):
        # Newer versions of threadpoolctl let only one thread set a limit that all threads share.
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(force=True)
        library.set_num_threads(limit)
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(force=True)
