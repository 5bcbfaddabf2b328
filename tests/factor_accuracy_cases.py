"""Utility of factorizations of both sides; joined to `accuracy_cases.py`.

Unless a case says otherwise: 2000 x 500 with singular values from 3000 to 900 and normal entries of
scale .22 besides, rank 10, changes of at most 1, epsilon 1 and delta 1e-6. The best approximation
has an error of 220, the zero matrix one of 6,500. Entries of a stream are promised, not clipped.
Its noise cannot be repeated.
"""

import warnings
from functools import partial

import numpy as np
from utility import KEY, Case

from skdp import DPLowRankFactorizer, DPStreamingFactorizer, PrivacyWarning
from skdp.linalg.spectrum import random_basis
from skdp.units import Entry, FrobeniusChange

CHANGE, ENTRY = FrobeniusChange(1.0), Entry((0, 1))
SMALL = {"shape": (300, 600), "rank": 5, "values": (2000, 800), "tail": 0.4}
LARGE_VALUES = {"values": (30_000, 9_000), "tail": 0.447}


def spiked(seed, shape=(2000, 500), rank=10, values=(3000, 900), tail=0.22):
    """Draw a matrix with evenly spaced singular values beside noise."""
    generator = np.random.default_rng(seed)
    left, right = (random_basis(side, rank, generator) for side in shape)
    return (left * np.linspace(*values, rank)) @ right.T + tail * generator.normal(size=shape)


def in_memory(X, rank, seed, **parameters):
    parameters = {"privacy_unit": CHANGE, **parameters}
    return DPLowRankFactorizer(rank, random_state=KEY + seed, **parameters).fit(X)


def stream(X, rank, seed, **parameters):
    parameters = {"privacy_unit": CHANGE, **parameters}
    return DPStreamingFactorizer(rank, shape=X.shape, **parameters).partial_fit(X).finalize()


def mean_error(fit, seed, *, n_seeds=10, relative=False, matrix=None, **parameters):
    """Average the error of the reconstruction, or the one relative to the zero matrix."""
    errors = []
    for number in range(n_seeds):
        X = spiked(n_seeds * seed + number, **(matrix or {}))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyWarning)
            factors = fit(X, (matrix or {}).get("rank", 10), seed * n_seeds + number, **parameters)
        error = np.linalg.norm(X - factors.reconstruct())
        errors.append(error / np.linalg.norm(X) if relative else error)
    return float(np.mean(errors))


def beyond_zero(seed):
    """Find the largest mean error, relative to that of the zero matrix, at any epsilon."""
    fits = [(in_memory, {"solver": solver}) for solver in ("input", "alternating", "two_sketch")]
    fits += [(in_memory, {"privacy_unit": ENTRY}), (in_memory, {"privacy_unit": "row"})]
    fits += [(stream, {}), (stream, {"privacy_unit": ENTRY})]
    return max(
        mean_error(
            fit, seed, n_seeds=3, relative=True, matrix=SMALL, **{**more, "epsilon": epsilon}
        )
        for epsilon in (0.01, 0.1, 0.25, 0.5, 1.0, 2.0, 8.0)
        for fit, more in fits
    )


def beside_best(seed, **matrix):
    """Compare the error of "auto" with that of the best solver."""
    errors = {
        solver: mean_error(in_memory, seed, n_seeds=3, solver=solver, matrix=matrix)
        for solver in ("auto", "input", "alternating", "two_sketch")
    }
    return errors.pop("auto") / min(errors.values())


FACTOR_CASES = [
    Case("factors, input, mean of 10", partial(mean_error, in_memory), at_most=720),
    Case(
        "factors, alternating, mean of 10",
        partial(mean_error, in_memory, solver="alternating"),
        at_most=1100,
    ),
    Case("factors, stream of a change, mean of 10", partial(mean_error, stream), at_most=1550),
    Case(
        "factors, stream of entries, mean of 10",
        partial(mean_error, stream, privacy_unit=ENTRY),
        at_most=1050,
    ),
    Case("factors, beyond zero, any epsilon", beyond_zero, at_most=1.15),
    Case("factors, auto / best", beside_best, at_most=1.05),
    Case("factors, auto / best, small", partial(beside_best, **SMALL), at_most=1.05),
    Case("factors, auto / best, large values", partial(beside_best, **LARGE_VALUES), at_most=1.05),
]
