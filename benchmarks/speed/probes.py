"""Where the time and the memory of a fit go, and what the machine could do at best."""

import threading
import time
import timeit
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from inspect import isfunction
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

from skdp import PrivacyWarning
from skdp.data.rows import Rows
from skdp.decomposition._matrix_estimator import MatrixEstimator
from skdp.decomposition.entries import solvers as entries_solvers
from skdp.decomposition.rows import solvers as rows_solvers
from skdp.privacy import PrivacyBudget

# What solvers import from here is about eigenvalues and orthonormal bases.
DECOMPOSITIONS = ("scipy.", "skdp.linalg.spectrum")

PROCESS_STATUS = Path("/proc/self/status")


class Stopwatch:
    """Seconds and CPU seconds under each heading; what runs within a timed call is part of it."""

    def __init__(self) -> None:
        self.spent: dict[str, np.ndarray] = defaultdict(lambda: np.zeros(2))
        self._runs = False

    def timed(self, heading: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def _timed(*args: Any, **kwargs: Any) -> Any:
            if self._runs:
                return function(*args, **kwargs)
            self._runs, start = True, _clocks()
            try:
                return function(*args, **kwargs)
            finally:
                self.spent[heading] += _clocks() - start
                self._runs = False

        return _timed


def parts_of_fit(estimator: Any, X: Any) -> dict[str, np.ndarray]:
    """Fit once and return (seconds, CPU seconds) of each part, in the order they came up."""
    watch = Stopwatch()
    with ExitStack() as patches:
        for heading, owner, name in _parts():
            timed = watch.timed(heading, getattr(owner, name))
            patches.enter_context(patch.object(owner, name, timed))
        start = _clocks()
        estimator.fit(X)
        whole = _clocks() - start
    return {**watch.spent, "rest": whole - sum(watch.spent.values(), np.zeros(2))}


def _parts() -> Iterator[tuple[str, Any, str]]:
    """Yield heading, owner and name of the functions to time."""
    yield "checks and first reading", MatrixEstimator, "_validate"
    for name in _public_functions(Rows):
        yield f"Rows.{name}", Rows, name
    for name in _public_functions(PrivacyBudget):
        yield "noise", PrivacyBudget, name
    yield "eigenvalues and bases", np.linalg, "svd"
    for solver in (rows_solvers, entries_solvers):
        for name, function in vars(solver).items():
            if isfunction(function) and function.__module__.startswith(DECOMPOSITIONS):
                yield "eigenvalues and bases", solver, name


def _public_functions(owner: type) -> list[str]:
    return [name for name, f in vars(owner).items() if isfunction(f) and not name.startswith("_")]


def machine_limits() -> list[str]:
    """Rates of what all dense products are made of, in float64."""
    rng = np.random.default_rng(0)
    square, tall = rng.normal(size=(2000, 2000)), rng.normal(size=(20_000, 2000))
    long = tall.reshape(-1)
    product, syrk = best_seconds(lambda: square @ square), best_seconds(lambda: tall.T @ tall)
    return [
        _rate("product 2000 x 2000 x 2000", product, 2 * 2000**3),
        _rate("second moment 20,000 x 2000, one triangle", syrk, 20_000 * 2000**2),
        f"{'reading':<44}{long.nbytes / best_seconds(lambda: long @ long) / 1e9:9.1f} GB/s",
    ]


def matrix_limits(X: Any, n_columns: int) -> list[str]:
    """Rates of numpy's and scipy's own products with `X`, each as one call, in its dtype."""
    rng = np.random.default_rng(0)
    right = rng.normal(size=(X.shape[1], n_columns)).astype(X.dtype)
    left = rng.normal(size=(X.shape[0], n_columns)).astype(X.dtype)
    is_sparse = sparse.issparse(X)
    size = X.nnz if is_sparse else X.size
    note = ", one thread" if is_sparse else ""
    calls = [(f"X @ V, {n_columns} columns{note}", lambda: X @ right, 2 * size * n_columns)]
    if is_sparse:
        calls.append((f"X.T @ Y, as many{note}", lambda: X.T @ left, 2 * size * n_columns))
    else:
        calls.append(("Y.T @ X, as many", lambda: left.T @ X, 2 * size * n_columns))
        calls.append(("X.T @ X, one triangle", lambda: X.T @ X, size * X.shape[1]))
    return [_rate(name, best_seconds(call), work) for name, call, work in calls]


def extra_memory(estimator: Any, X: np.memmap, n_threads: int) -> float:
    """MB of anonymous memory that a fit to a memory map adds, in a process of its own.

    Not the peak of the resident set, which counts the pages of the file as well.
    """
    arguments = (estimator, X.filename, X.dtype, X.shape, n_threads)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(_growth_in_fit, *arguments).result()


def best_seconds(call: Callable[[], Any]) -> float:
    return min(timeit.repeat(call, number=1, repeat=3))


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


def _clocks() -> np.ndarray:
    return np.array([time.perf_counter(), time.process_time()])


def _rate(name: str, seconds: float, work: float) -> str:
    return f"{name:<44}{work / seconds / 1e9:9.1f} GFlop/s{seconds:9.3f} s"
