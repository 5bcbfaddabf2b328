"""Threads that share the blocks of a source, and those that matrix products have meanwhile."""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any, TypeVar
from weakref import WeakSet

import numpy as np
import scipy.linalg  # noqa: F401 - for its BLAS to be there
from joblib import effective_n_jobs
from threadpoolctl import ThreadpoolController

__all__ = ["blas_threads", "one_blas_thread", "run_groups", "run_in_order"]

S = TypeVar("S")
T = TypeVar("T")


class _Guest:
    """Who asks for one thread, until it is gone."""


class _SharedLimit:
    """One thread for the products of all, as long as anybody asks for it.

    Nothing that interrupts leaves the limit for good: who is gone without leaving is forgotten,
    what limits were before is not, and the next one out restores them.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._inside: WeakSet[_Guest] = WeakSet()
        self._before: list[int] | None = None

    def enter(self, who: _Guest) -> None:
        """Limit, and remember the limits before, if nobody else has."""
        with self._lock:
            self._inside.add(who)
            libraries = _libraries(shared=True)
            if self._before is None:
                self._before = _limits(libraries)
                _set_limits(libraries, [1] * len(libraries))

    def leave(self, who: _Guest) -> None:
        """Restore these limits, if nobody else needs the one."""
        with self._lock:
            self._inside.discard(who)
            if not self._inside:
                self._restore()

    def after_fork(self) -> None:
        """Restore in a new process, which has none of the threads that would."""
        self._lock, self._inside = threading.RLock(), WeakSet()
        self._restore()

    def _restore(self) -> None:
        if self._before is not None:
            _set_limits(_libraries(shared=True), self._before)
            self._before = None


_SHARED_LIMIT = _SharedLimit()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_SHARED_LIMIT.after_fork)


def run_groups(source: Any, n_jobs: int | None, work: Callable[[range], T]) -> list[T]:
    """Run `work` on the groups of blocks of a source, one thread each, without warnings."""
    n_threads = effective_n_jobs(n_jobs)
    groups = source.groups(n_threads)

    def _work(group: range) -> T:
        # What overflows becomes null; a warning would tell of single rows.
        with _limited_to(n_threads), np.errstate(all="ignore"):
            return work(group)

    if n_threads == 1:
        return [_work(groups[0])]
    # Even for a single group: groups depend on the data, and how many threads a matrix product
    # has may change what a row gives. Plain threads: a pass may be shorter than what a pool
    # takes to notice its end.
    with _limited_to(n_threads), ThreadPoolExecutor(len(groups)) as threads:
        return list(threads.map(_work, groups))


def run_in_order(items: Sequence[S], n_jobs: int | None, work: Callable[[S], T]) -> Iterator[T]:
    """Yield what `work` gives for each item, in their order: bit by bit the same for any `n_jobs`.

    As many items as threads are worked on at a time, so that few results wait.
    """
    n_threads = effective_n_jobs(n_jobs)

    def _work(item: S) -> T:
        # The rounding of a matrix product may follow its threads.
        with one_blas_thread(), np.errstate(all="ignore"):
            return work(item)

    if n_threads == 1:
        yield from map(_work, items)
        return
    with ThreadPoolExecutor(n_threads) as threads:
        for first in range(0, len(items), n_threads):
            yield from threads.map(_work, items[first : first + n_threads])


def blas_threads(n_jobs: int | None) -> AbstractContextManager[None]:
    """Give matrix products one thread each if `n_jobs` asks for several others."""
    return _limited_to(effective_n_jobs(n_jobs))


def _limited_to(n_threads: int) -> AbstractContextManager[None]:
    return nullcontext() if n_threads == 1 else one_blas_thread()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Give matrix products one thread each."""
    own, who = _libraries(shared=False), _Guest()
    before = _limits(own)
    try:
        _set_limits(own, [1] * len(own))
        _SHARED_LIMIT.enter(who)
        yield
    finally:
        try:
            _SHARED_LIMIT.leave(who)
            _set_limits(own, before)
        finally:
            # Again, if the first time was interrupted.
            _SHARED_LIMIT.leave(who)
            _set_limits(own, before)


@cache
def _libraries(*, shared: bool) -> tuple[Any, ...]:
    """Return the libraries whose limit is one of the process, or else one of each thread."""
    # To look for them takes longer than many a pass.
    found = ThreadpoolController().select(user_api="blas").lib_controllers
    return tuple(library for library in found if _is_shared(library) == shared)


def _is_shared(library: Any) -> bool:
    is_openmp = getattr(library, "threading_layer", None) == "openmp"
    return bool(library.internal_api == "openblas" and not is_openmp)


def _limits(libraries: tuple[Any, ...]) -> list[int]:
    return [library.num_threads for library in libraries]


def _set_limits(libraries: tuple[Any, ...], limits: list[int]) -> None:
    for library, limit in zip(libraries, limits, strict=True):
        # Newer versions of threadpoolctl let one thread only set what all share.
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(force=True)
        library.set_num_threads(limit)
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(force=True)
