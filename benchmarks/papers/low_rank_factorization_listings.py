"""Ports of the listings of Upadhyay (2016), arXiv:1604.01429, tables 3 to 6 and 11: NOT private.

Literal, with what is odd in them; `low_rank_factorization.py` says what that is.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import svdvals

from benchmarks.papers.low_rank_factorization_sketches import factored
from benchmarks.papers.low_rank_factorization_tables import Row, Table
from skdp.privacy.gaussian_dp import epsilon_at

__all__ = ["Spec", "drawn_sketches", "epsilon_spent", "optima", "ported", "ported_rival", "spec_of"]

# Columns A F, rows P A, and the core S A T.
Sketches = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


@dataclass
class Spec:
    """A matrix with what a listing sets for it."""

    A: np.ndarray
    k: int
    # Columns of the first two sketches, and both sides of the third.
    t: int
    v: int
    # log(1 / delta), 0 in the listing without noise; epsilon is 1.
    log: float

    @property
    def sigma(self) -> float:
        return 4 * self.log * math.sqrt(self.t * self.log)

    @property
    def expected(self) -> float:
        """Return the additive error that the paper expects."""
        m, n = self.A.shape
        return self.sigma * math.sqrt(n) + math.sqrt(self.k * (m + n) * self.log)

    def padded(self) -> np.ndarray:
        return np.vstack([self.A, self.sigma * np.eye(self.A.shape[1])]) if self.log else self.A


def spec_of(origin: Table, row: Row, random: np.random.Generator) -> Spec:
    """Draw the matrix of a line as its listing does."""
    shape = (row.rows - row.n * origin.rows_with_padding, row.n)
    A = np.zeros(shape)
    if origin.only_k_columns:
        A[:, : row.k] = random.integers(origin.bound, size=(shape[0], row.k))
    elif row.data == "Uniform integers":
        A[:] = random.integers(1, origin.bound, size=shape)
    else:
        A[:] = random.uniform(0, origin.bound, size=shape)
    share = origin.size_factor * row.k
    log = math.log(1 / (1 / row.rows**origin.delta_power))
    return Spec(A, row.k, int(share / row.alpha), int(share / row.alpha**2), log)


def gaussian(random: np.random.Generator, rows: int, columns: int, variance: float) -> np.ndarray:
    """Draw noise as the listings do, for which a variance is a standard deviation."""
    return random.normal(0, variance, size=(rows, columns))


def drawn_sketches(spec: Spec, random: np.random.Generator) -> Sketches:
    m, n = spec.padded().shape
    t, v = spec.t, spec.v
    return (
        gaussian(random, n, t, 1 / t),
        gaussian(random, t, m, 1 / t),
        gaussian(random, v, m, 1 / v),
        gaussian(random, n, v, 1 / v),
    )


def ported(spec: Spec, sketches: Sketches, random: np.random.Generator) -> np.ndarray:
    """Approximate the padded matrix as printed: NOT private."""
    (F, P, S, T), padded = sketches, spec.padded()
    t, v = spec.t, spec.v
    columns = padded @ F + gaussian(random, len(padded), t, 2 * math.sqrt(spec.log))
    core = S @ padded @ T + gaussian(random, v, v, math.sqrt(6 * spec.log))
    return factored(columns, P @ padded, core, S, T, spec.k)


def epsilon_spent(spec: Spec, sketches: Sketches) -> float:
    """Return what the listing spends at its own delta, if A changes by at most 1.

    The sketches count as known but for the part of P on the padding, which is the noise of P A.
    """
    F, P, S, T = sketches
    m = len(spec.A)
    moved = (spectral(F), spectral(P[:, :m]), spectral(S[:, :m]) * spectral(T))
    root = math.sqrt(spec.log)
    noises = (2 * root, spec.sigma / spec.t, math.sqrt(6) * root)
    mu = math.hypot(*(by / noise for by, noise in zip(moved, noises, strict=True)))
    return epsilon_at(mu, math.exp(-spec.log))


def spectral(A: np.ndarray) -> float:
    return float(np.linalg.norm(A, 2))


def ported_rival(spec: Spec, random: np.random.Generator) -> np.ndarray:
    """Approximate A by the paper's listing of Hardt and Roth: NOT private, and of rank 2k."""
    A, k = spec.A, spec.k
    m, n = A.shape
    log = math.log(m)
    noise = gaussian(random, m, 2 * k, 32 * k * log)
    Q = np.linalg.qr(A @ gaussian(random, n, 2 * k, 1) + noise)[0]
    # With its sign, a reading chosen for being nearer to what is published in tables 5 and 6.
    largest = Q.max()
    variance = 32 * largest**2 * k * math.log(8 * k * m) * log
    return Q @ (Q.T @ A + gaussian(random, 2 * k, n, variance))


def optima(spec: Spec) -> Iterator[tuple[str, float]]:
    """Yield the errors of zero and of the best matrices, for the padded matrix and for A."""
    values = svdvals(spec.A)
    # Padding leaves the singular vectors on the right as they are.
    for prefix, tail in (("padded ", np.hypot(values, spec.sigma)), ("", values)):
        for name, rank in (("norm", 0), ("rank 1", 1), ("rank k", spec.k)):
            yield prefix + name, float(np.linalg.norm(tail[rank:]))
