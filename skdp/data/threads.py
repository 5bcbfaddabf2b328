"""Threads that share the blocks of a source."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
from joblib import effective_n_jobs
from threadpoolctl import threadpool_limits

__all__ = ["run_groups"]

T = TypeVar("T")


def run_groups(source: Any, n_jobs: int | None, work: Callable[[range], T]) -> list[T]:
    """Run `work` on the groups of blocks of a source, one thread each, without warnings."""

    def _quiet_work(group: range) -> T:
        # What overflows becomes null; a warning would tell of single rows.
        with np.errstate(all="ignore"):
            return work(group)

    n_threads = effective_n_jobs(n_jobs)
    groups = source.groups(n_threads)
    if n_threads == 1:
        return [_quiet_work(groups[0])]
    # Even for a single group: groups depend on the data, and how many threads a matrix product
    # has may change what a row gives. Plain threads: a pass may be shorter than what a pool
    # takes to notice its end.
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(len(groups)) as threads:
        return list(threads.map(_quiet_work, groups))
