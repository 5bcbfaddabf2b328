"""What `errors.py` measures; each function yields ((row, column), value) for a seed."""

import math
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy.linalg import toeplitz

from benchmarks.report import Measured
from skdp import DPTraceRegressor
from skdp.datasets import make_trace_regression
from skdp.linear_model import _descent
from skdp.linear_model.low_rank import descent as trace_descent
from skdp.linear_model.low_rank import plan as trace_plan
from skdp.linear_model.low_rank import records as trace_records
from skdp.linear_model.low_rank.descent import Estimate

Data = tuple[Any, np.ndarray, np.ndarray]

# Of no tuning: the defaults of the estimator were chosen with other seeds.
FIRST_FRESH_SEED = 1000
# Printed here, hence good for repeatable tables and for nothing else.
KEY = 0x6E1D07B95CA8F2430D9B36E2F17A8C54

IDENTITY = {"covariance": "identity", "fit_intercept": False}
LARGE_DELTA = {**IDENTITY, "delta": 1e-5}
EPSILONS = (0.15, 0.3, 0.6, 1.2, 2.4, 4.8, 10.0)
SIZES = (8_000, 16_000, 32_000, 64_000)
SIDES = (6, 12, 18, 24)
RANKS = (1, 2, 3, 4)
VALUES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
NOISES = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0)
METHODS = ("skdp", "constant clipping", "no privacy")
INITS = ("random", "spectral")
QUANTILES = (0.5, 0.7, 0.9, 0.97)
UNITS = ("record", "response")

# Number of records, side, rank, epsilon.
ERRORS = ((16_000, 12, 2, 1.0), (8_000, 20, 2, 0.5), (8_000, 20, 2, 1.0), (8_000, 20, 2, 2.0))
FEASIBLE = [(n, 20, 2, e) for n in (2_000, 8_000, 20_000) for e in (0.5, 1.0, 2.0, 8.0)]


def setting(n: int, side: int, rank: int, epsilon: float) -> str:
    return f"n {n}, d {side}, r {rank}, ε {epsilon:g}"


def made(n: int, side: int, seed: int, **parameters: Any) -> Data:
    return make_trace_regression(
        n, (side, side), **parameters, random_state=FIRST_FRESH_SEED + seed
    )


def of_rank(rank: int) -> tuple[float, ...]:
    return (1.5, 1.0) if rank == 2 else (1.0,)


def error(data: Data, rank: int, seed: int, **parameters: Any) -> float:
    """Return the Frobenius norm of what is released less what is sought."""
    X, y, M = data
    fit = DPTraceRegressor(rank, random_state=KEY + seed, **parameters).fit(X, y)
    return float(np.linalg.norm(fit.coef_matrix_ - M))


def constant_clipping(
    data: Data, rank: int, seed: int, *, noise: float = 0.5, **parameters: Any
) -> float:
    """Return the error with one level for all steps, at the exact spread of the responses.

    Residuals are clipped at the spread, as if it were known, so that next to nothing is spent on
    it; the other shares and the accounting are those of the estimator.
    """
    spread = trace_records.Spread(math.hypot(noise, float(np.linalg.norm(data[2]))))
    release_spread, plan_spread = trace_records.release_spread, trace_plan._plan_spread

    def know_spread(*arguments: Any) -> trace_records.Spread:
        release_spread(*arguments)
        return spread

    def plan_nothing(spec: Any) -> Any:
        return replace(plan_spread(spec), share=1e-6)

    with ExitStack() as changes:
        changes.enter_context(patch.object(_descent, "_LEVEL_RATE", 0.0))
        changes.enter_context(patch.object(trace_records, "release_spread", know_spread))
        changes.enter_context(patch.object(trace_plan, "_plan_spread", plan_nothing))
        # Such that the level is 1 spread.
        return error(data, rank, seed, clip_quantile=0.6827, **parameters)


def without_cut() -> Any:
    """Leave the singular values of noise in."""
    return patch.object(trace_descent, "cut", lambda point, offset, *_: Estimate(point, offset))


def exact(data: Data, rank: int, seed: int) -> float:
    """Return the error without noise and clipping, in steps enough to converge."""
    return error(data, rank, seed, **IDENTITY, epsilon=math.inf, n_iter=25)


def compared(
    row: str, data: Data, rank: int, seed: int, *, noise: float = 0.5, **parameters: Any
) -> Measured:
    yield (row, "skdp"), error(data, rank, seed, **IDENTITY, **parameters)
    fixed = constant_clipping(data, rank, seed, noise=noise, **IDENTITY, **parameters)
    yield (row, "constant clipping"), fixed
    yield (row, "no privacy"), exact(data, rank, seed)


def errors(seed: int) -> Measured:
    for n, side, rank, epsilon in ERRORS:
        row = setting(n, side, rank, epsilon)
        measure = partial(
            error, made(n, side, seed, singular_values=of_rank(rank)), rank, seed, epsilon=epsilon
        )
        yield (row, "identity"), measure(**LARGE_DELTA)
        yield (row, "private scale"), measure(fit_intercept=False, delta=1e-5)
        yield (row, "defaults"), measure()


def without_privacy(seed: int) -> Measured:
    for n in (400, 800, 1600, 4000):
        data = made(n, 20, seed, rank=2)
        parameters = {**IDENTITY, "epsilon": math.inf, "n_iter": 50}
        yield (str(n), "skdp, ε inf"), error(data, 2, seed, **parameters)
        yield (str(n), "reference"), 0.5 * math.sqrt(2 * 38 / n)


def epsilons(seed: int) -> Measured:
    data = made(32_000, 12, seed, singular_values=[1.0])
    for epsilon in EPSILONS:
        yield from compared(f"{epsilon:g}", data, 1, seed, epsilon=epsilon)


def sizes(noise: float, epsilon: float, seed: int) -> Measured:
    for n in SIZES:
        data = made(n, 12, seed, singular_values=[1.0], noise=noise)
        yield from compared(str(n), data, 1, seed, noise=noise, epsilon=epsilon)


def sides(seed: int) -> Measured:
    for side in SIDES:
        data = made(24_000, side, seed, singular_values=[1.0])
        yield from compared(str(side), data, 1, seed, epsilon=0.5)


def ranks(seed: int) -> Measured:
    for rank in RANKS:
        data = made(32_000, 16, seed, singular_values=np.ones(rank))
        yield from compared(str(rank), data, rank, seed)


def values(seed: int) -> Measured:
    for value in VALUES:
        data = made(32_000, 12, seed, singular_values=[value])
        yield from compared(f"{value:g}", data, 1, seed)


def noises(seed: int) -> Measured:
    for noise in NOISES:
        data = made(32_000, 12, seed, singular_values=[1.0], noise=noise)
        yield from compared(f"{noise:g}", data, 1, seed, noise=noise)


STARTS = {
    "n 8000, d 20, r 2": (8_000, 20, (1.5, 1.0)),
    "n 16000, d 16, r 3, σ 10 to 1": (16_000, 16, (10.0, 5.5, 1.0)),
    "n 3000, d 20, r 2": (3_000, 20, (1.5, 1.0)),
}


def starts(seed: int) -> Measured:
    for row, (n, side, sought) in STARTS.items():
        data = made(n, side, seed, singular_values=sought)
        size = float(np.linalg.norm(sought))
        for init in INITS:
            found = error(data, len(sought), seed, **LARGE_DELTA, init=init)
            yield (row, init), found / size


def feasible(seed: int) -> Measured:
    for n, side, rank, epsilon in FEASIBLE:
        data = made(n, side, seed, singular_values=of_rank(rank))
        found = error(data, rank, seed, **LARGE_DELTA, epsilon=epsilon)
        yield (str(n), f"ε {epsilon:g}"), found


FITTED_RANKS = (1, 2, 4)


def misspecified(seed: int) -> Measured:
    for n in (700, 8_000):
        data = made(n, 16, seed, rank=1, norm=1.0)
        # The worst case is that of few records.
        for rank in FITTED_RANKS if n == 700 or seed < 5 else ():
            row = f"n {n}, rank {rank}"
            yield (row, "with the cut"), error(data, rank, seed, **LARGE_DELTA)
            with without_cut():
                yield (row, "without"), error(data, rank, seed, **LARGE_DELTA)
            yield (row, "defaults"), error(data, rank, seed)


DESIGNS = ("gaussian", "completion", "tasks")
CORRELATED = "gaussian, correlation .6"


def designs(seed: int) -> Measured:
    no_intercept = {"fit_intercept": False, "delta": 1e-5}
    for design in (*DESIGNS, CORRELATED):
        change = {"design": design}
        if design == CORRELATED:
            change = {"column_correlation": 0.6}
        data = made(16_000, 16, seed, singular_values=of_rank(2), **change)
        measure = partial(error, data, 2, seed)
        size = float(np.linalg.norm(of_rank(2)))
        if design == CORRELATED:
            covariance = toeplitz(0.6 ** np.arange(16))
            yield (design, "known"), measure(**no_intercept, covariance=(None, covariance)) / size
        else:
            yield (design, "known"), measure(**LARGE_DELTA) / size
            for quantile in QUANTILES:
                found = measure(**LARGE_DELTA, clip_quantile=quantile)
                yield (design, f"quantile {quantile:g}"), found / size
        yield (design, "private scale"), measure(**no_intercept) / size
        yield (design, "defaults"), measure() / size


def units(seed: int) -> Measured:
    data = made(8_000, 20, seed, singular_values=of_rank(2))
    for epsilon in (0.5, 1.0):
        for unit in UNITS:
            found = error(data, 2, seed, **LARGE_DELTA, epsilon=epsilon, privacy_unit=unit)
            yield (f"{epsilon:g}", unit), found
