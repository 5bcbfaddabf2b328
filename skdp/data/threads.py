"""Threads that share a pass over rows, and those that matrix products have meanwhile."""

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar
from weakref import WeakSet

import numpy as np
import scipy.linalg  # noqa: F401 - for its BLAS to be there
from joblib import effective_n_jobs
from threadpoolctl import ThreadpoolController

__all__ = ["one_blas_thread", "run_in_threads", "thread_count"]

S = TypeVar("S")
T = TypeVar("T")


class _Guest:
    """One request for a single thread; it ends when the object dies."""


class _Limit:
    """One thread for the products of some libraries, as long as anybody asks for it.

    An interrupt cannot leave the limit in place: a guest that vanished is forgotten, and the next
    one to leave restores what was before.
    """

    def __init__(self, *, shared: bool) -> None:
        self._shared = shared
        self._lock = threading.RLock()
        self._inside: WeakSet[_Guest] = WeakSet()
        self._before: list[int] | None = None

    def enter(self, who: _Guest) -> None:
        """Limit, and remember the limits before, if nobody else has."""
        with self._lock:
            self._inside.add(who)
            if self._before is None:
                self._before = self.before()
                _set_limits(_libraries(shared=self._shared), [1] * len(self._before))

    def leave(self, who: _Guest) -> None:
        """Restore these limits, if nobody else needs the one."""
        with self._lock:
            self._inside.discard(who)
            if not self._inside:
                self._restore()

    def before(self) -> list[int]:
        """Return what the limits are when nobody asks."""
        with self._lock:
            if self._before is not None:
                return self._before
            return [library.num_threads for library in _libraries(shared=self._shared)]

    def after_fork(self) -> None:
        """Restore in a new process, which has none of the threads that would."""
        self._lock, self._inside = threading.RLock(), WeakSet()
        self._restore()

    def _restore(self) -> None:
        if self._before is not None:
            _set_limits(_libraries(shared=self._shared), self._before)
            self._before = None


class _LimitOfThread(_Limit, threading.local):
    """The same for libraries that have a limit in every thread."""


_LIMITS = _Limit(shared=True), _LimitOfThread(shared=False)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_LIMITS[0].after_fork)


def thread_count(n_jobs: int | None) -> int:
    """Tell how many threads share a pass: for ``None`` as many as a matrix product would have."""
    found = effective_n_jobs(n_jobs)
    if n_jobs is not None or found != 1:
        return found
    return max((n for limit in _LIMITS for n in limit.before()), default=1)


def run_in_threads(work: Callable[[S], T], items: Iterable[S], n_threads: int) -> list[T]:
    """Run `work` for each item, with one BLAS thread in every thread and without warnings."""

    def _work(item: S) -> T:
        # What overflows becomes null; a warning would tell of single rows.
        with one_blas_thread(), np.errstate(all="ignore"):
            return work(item)

    if n_threads == 1:
        return list(map(_work, items))
    # Plain threads: a pass may be shorter than what a pool takes to notice its end.
    with one_blas_thread(), ThreadPoolExecutor(n_threads) as threads:
        return list(threads.map(_work, items))


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Give matrix products one thread: how many they have may change what a row gives."""
    who = _Guest()
    try:
        for limit in _LIMITS:
            limit.enter(who)
        yield
    finally:
        try:
            for limit in _LIMITS:
                limit.leave(who)
        finally:
            # Again, if the first time was interrupted.
            for limit in _LIMITS:
                limit.leave(who)


@cache
def _libraries(*, shared: bool) -> tuple[Any, ...]:
    """Return the libraries whose limit is one of the process, or else one of each thread."""
    # To look for them takes longer than many a pass.
    found = ThreadpoolController().select(user_api="blas").lib_controllers
    return tuple(library for library in found if _is_shared(library) == shared)


def _is_shared(library: Any) -> bool:
    is_openmp = getattr(library, "threading_layer", None) == "openmp"
    return bool(library.internal_api == "openblas" and not is_openmp)


def _set_limits(libraries: tuple[Any, ...], limits: list[int]) -> None:
    for library, limit in zip(libraries, limits, strict=True):
        # Newer versions of threadpoolctl let one thread only set what all share.
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(force=True)
        library.set_num_threads(limit)
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(force=True)
