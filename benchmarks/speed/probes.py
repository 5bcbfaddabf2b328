"""How much memory a fit adds."""

import threading
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from skdp import PrivacyWarning

PROCESS_STATUS = Path("/proc/self/status")


def extra_memory(estimator: Any, X: np.memmap, n_threads: int) -> float:
    """MB of anonymous memory that a fit to a memory map adds, in a process of its own.

    Not the peak of the resident set, which counts the pages of the file as well.
    """
    arguments = (estimator, X.filename, X.dtype, X.shape, n_threads)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(_growth_in_fit, *arguments).result()


def _growth_in_fit(
    estimator: Any, filename: str, dtype: np.dtype, shape: tuple[int, ...], n_threads: int
) -> float:
    warnings.simplefilter("ignore", PrivacyWarning)
    X = np.memmap(filename, dtype, "r", shape=shape)
    seen, fitted = [_anonymous_memory()], threading.Event()

    def _watch() -> None:
        while not fitted.wait(0.001):
            seen.append(_anonymous_memory())

    watcher = threading.Thread(target=_watch)
    watcher.start()
    try:
        with threadpool_limits(n_threads):
            estimator.fit(X)
    finally:
        fitted.set()
        watcher.join()
    return max(seen) - seen[0]


def _anonymous_memory() -> float:
    """MB of this process that no file stands behind; Linux only."""
    for line in PROCESS_STATUS.read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    raise OSError(f"{PROCESS_STATUS} has no RssAnon")
