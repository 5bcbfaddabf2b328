"""Threads that share a pass over rows, and settings of the whole process during a pass."""

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, TypeVar
from weakref import WeakSet

import numpy as np
from joblib import effective_n_jobs
from threadpoolctl import ThreadpoolController

from skdp.exceptions import PrivacyWarning, warning_filters

# ------------------------------
# Settings of the whole process, which hold while any thread asks for them.

T = TypeVar("T")


class _Request:
    """A request of a thread for a setting; the request ends when this object is deleted."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()


class _Setting:
    """A setting of the whole process, which holds while any thread requests it.

    An interrupt may stop a thread before it ends its request. Such a request does not count, as no
    reference to it is left, and the end of the next request calls `stop`. So `start` and `stop`
    must do no harm if they are called twice.
    """

    def __init__(self, start: Callable[[], None], stop: Callable[[], None]) -> None:
        self._start, self._stop = start, stop
        self._lock, self.requests = threading.RLock(), WeakSet[_Request]()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Request the setting; each request calls `start`, as other code may have undone it."""
        request = _Request()
        try:
            with self._lock:
                self.requests.add(request)
                self._start()
            yield
        finally:
            with self._lock:
                self.requests.discard(request)
                if not self.requests:
                    self._stop()

    def _after_fork(self) -> None:
        # A forked process has only the thread that forked: other requests would never end.
        own = (one for one in [*self.requests] if one.thread == threading.get_ident())
        self._lock, self.requests = threading.RLock(), WeakSet(own)
        if not self.requests:
            self._stop()


# ------------------------------
# Warnings of functions that load or make rows may show values: they are silenced.


class _WhileRequested(type):
    """Makes its class a base class of all warnings but `PrivacyWarning`, during a request."""

    def __subclasscheck__(cls, category: type) -> bool:
        return bool(without_warnings.requests) and not issubclass(category, PrivacyWarning)


class _Silenced(metaclass=_WhileRequested):
    """Category of silenced warnings, empty unless a thread requests silence."""


_FILTER: Any = ("ignore", None, _Silenced, None, 0)  # 0 stands for any line; not tuned


def _silence() -> None:
    """Put `_FILTER` first, even if it already stands behind filters of other code."""
    if (filters := warning_filters())[:1] != [_FILTER]:
        filters.insert(0, _FILTER)


def _unsilence() -> None:
    while _FILTER in (filters := warning_filters()):
        filters.remove(_FILTER)


#: Silences warnings while rows are loaded or made, as these warnings may show values.
#: `catch_warnings` would not do: all threads share the filters, and two threads that restore them
#: could leave wrong ones.
without_warnings = _Setting(_silence, _unsilence)


# ------------------------------
# Matrix products use one thread, as with more threads results may round differently.


@cache
def _libraries(*, shared: bool) -> tuple[Any, ...]:
    """Return the BLAS libraries whose limit all threads share, or those with a limit per thread."""

    def _is_shared(library: Any) -> bool:
        # OpenBLAS has one limit for all threads, unless it uses the threads of OpenMP.
        is_of_openmp = getattr(library, "threading_layer", None) == "openmp"
        return library.internal_api == "openblas" and not is_of_openmp

    # The result is cached, as finding libraries takes longer than many passes.
    libraries = ThreadpoolController().select(user_api="blas").lib_controllers
    return tuple(library for library in libraries if _is_shared(library) == shared)


class _Limit:
    """Limits BLAS libraries to one thread; `stop` restores the limits, which are in `before`."""

    def __init__(self, *, shared: bool) -> None:
        self.is_shared, self.before = shared, tuple[int, ...]()

    def current(self) -> tuple[int, ...]:
        return tuple(library.num_threads for library in _libraries(shared=self.is_shared))

    def start(self) -> None:
        """Limit the libraries to one thread, unless they are limited already."""
        self.before = self.before or self.current()
        self._set((1,) * len(self.before))

    def stop(self) -> None:
        self._set(self.before)
        self.before = ()

    def _set(self, limits: tuple[int, ...]) -> None:
        for library, limit in zip(_libraries(shared=self.is_shared), limits, strict=False):
            if limit != library.num_threads:
                # In newer versions of threadpoolctl a shared limit belongs to the thread that set
                # the limit. No other thread can set the limit before that thread is forgotten.
                clear = getattr(library, "clear_controlling_thread", lambda **_: None)
                clear(force=True)
                library.set_num_threads(limit)
                clear(force=True)


class _LimitOfThread(_Limit, threading.local):
    """A `_Limit` for libraries with a limit per thread: each thread has its own `before`."""


_SHARED, _OWN = _Limit(shared=True), _LimitOfThread(shared=False)
_ONE_THREAD = _Setting(_SHARED.start, _SHARED.stop)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit matrix products to one thread, while the context lasts."""
    with _ONE_THREAD():
        is_outermost = not _OWN.before
        try:
            _OWN.start()
            yield
        finally:
            if is_outermost:
                _OWN.stop()


# ------------------------------
# Threads that share a pass over rows.


def thread_count(n_jobs: int | None) -> int:
    """Return the number of threads of a pass; ``None`` means as many as BLAS has."""
    n_threads = effective_n_jobs(n_jobs)
    # With n_jobs=None, a `joblib.parallel_config` of the caller decides. Without one, the limits of
    # BLAS decide: if a pass is running, the limits before the pass.
    if n_jobs is not None or n_threads != 1:
        return n_threads
    return max(1, *(_SHARED.before or _SHARED.current()), *(_OWN.before or _OWN.current()))


def run_in_threads(calls: Iterable[Callable[[], T]], n_threads: int) -> Generator[T, None, None]:
    """Call functions without arguments in threads; yield their results in order."""
    if n_threads == 1:
        yield from map(on_one_thread, calls)
        return
    # No pool of threads is used. A pool of joblib may notice late that a pass has ended, and at
    # exit Python would wait for the threads of a `ThreadPoolExecutor`, even if one loads forever.
    tasks = deque((call, Future[T]()) for call in calls)
    futures = deque(future for _, future in tasks)

    def _work() -> None:
        while tasks:
            with suppress(IndexError):  # raised if another thread took the last task
                call, future = tasks.popleft()
                try:
                    future.set_result(on_one_thread(call))
                except BaseException as error:
                    future.set_exception(error)

    threads = [threading.Thread(target=_work, daemon=True) for _ in range(n_threads)]
    with one_blas_thread():
        try:
            for thread in threads:
                thread.start()
            while futures:
                yield futures.popleft().result()
        finally:
            tasks.clear()
            # After an error, wait for threads that are still loading: warnings are silenced only
            # until the pass ends. After an interrupt, which is no Exception, do not wait.
            for thread in threads if isinstance(sys.exception(), Exception) else ():
                thread.join()


def on_one_thread(call: Callable[[], T]) -> T:
    """Call a function with one BLAS thread and without warnings of numpy."""
    # Rows that overflow become null, and a warning of numpy would reveal that there are some.
    with one_blas_thread(), np.errstate(all="ignore"):
        return call()
