"""What `factorization.py` measures; each function yields ((row, column), value) for a seed.

A column is a way to factorize, with the error of its fit as a Frobenius norm; "zero" and "best",
what the zero matrix and the best matrix of that rank leave; or one of these with a suffix:
whether the fit warned, and the time and the memory that it took.
"""

import tracemalloc
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import svds

from benchmarks.data import file_at_hand
from benchmarks.report import Measured
from skdp import DPLowRankFactorizer, DPStreamingFactorizer
from skdp.decomposition import LowRankFactors
from skdp.units import Entry, FrobeniusChange

# Printed here, hence good for repeatable tables and for nothing else.
KEY = 0x3C1E90A7F25B4D68A1D7E4B60F9382C5
ZERO, BEST = "zero", "best"
WARNED, SECONDS, MEGABYTES = ", warned", ", s", ", MB"

Factors = DPLowRankFactorizer | LowRankFactors
# Of a matrix, its rank and a seed; epsilon and delta may be passed too.
Fit = Callable[..., Factors]


@dataclass(frozen=True)
class Spiked:
    """Random singular vectors of equally spaced values, and noise on all entries."""

    shape: tuple[int, int]
    rank: int
    values: tuple[float, float]
    tail: float

    def __str__(self) -> str:
        m, n = self.shape
        low, high = self.values
        return f"{m} x {n}, k {self.rank}, {low:g} to {high:g}, tail {self.tail:g}"

    def draw(self, seed: int) -> np.ndarray:
        random = np.random.default_rng([KEY, seed])
        left, right = (np.linalg.qr(random.normal(size=(n, self.rank)))[0] for n in self.shape)
        values = np.linspace(self.values[1], self.values[0], self.rank)
        return (left * values) @ right.T + self.tail * random.normal(size=self.shape)


USUAL = Spiked((2000, 500), 10, (900, 3000), 0.22)
MATRICES = [
    Spiked((300, 600), 5, (800, 2000), 0.41),
    USUAL,
    Spiked((2000, 500), 10, (9000, 30000), 0.447),
    Spiked((2000, 500), 10, (9000, 30000), 6.7),
    Spiked((2000, 2000), 10, (9000, 30000), 2.24),
]


def in_memory(solver: str) -> Fit:
    def fit(X: Any, k: int, seed: int, unit: Any = None, **settings: Any) -> Factors:
        return DPLowRankFactorizer(
            k,
            privacy_unit=unit or FrobeniusChange(1.0),
            solver=solver,
            random_state=KEY + seed,
            **settings,
        ).fit(X)

    return fit


def in_one_pass(unit: Any, **parameters: Any) -> Fit:
    """Read a matrix by and by; its seed draws nothing, and only the operating system does."""

    def fit(X: np.ndarray, k: int, seed: int, **settings: Any) -> Factors:
        stream = DPStreamingFactorizer(
            k, shape=X.shape, privacy_unit=unit, **parameters, **settings
        )
        for start in range(0, len(X), 100):
            stream.partial_fit(X[start : start + 100])
        return stream.finalize()

    return fit


SOLVERS = ("input", "alternating")
SECRET, WORST = "stream, secret sketch", "stream, worst case"
ONE_ENTRY = "stream, Entry"
METHODS: dict[str, Fit] = {
    **{solver: in_memory(solver) for solver in (*SOLVERS, "auto")},
    SECRET: in_one_pass(FrobeniusChange(1.0)),
    WORST: in_one_pass(FrobeniusChange(1.0), sketch_sensitivity="worst_case"),
    ONE_ENTRY: in_one_pass(Entry((0, 1))),
}


class Outcome(NamedTuple):
    error: float
    warned: bool
    seconds: float


def outcome(X: np.ndarray, fit: Callable[[], Factors]) -> Outcome:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = perf_counter()
        found = fit()
        seconds = perf_counter() - start
    said = any("stand out from the noise" in str(warning.message) for warning in caught)
    return Outcome(float(np.linalg.norm(X - found.reconstruct())), said, seconds)


def megabytes(fit: Callable[[], Factors]) -> float:
    """Trace what a fit takes at most, beside the matrix."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tracemalloc.start()
        fit()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak / 1e6


def references(row: str, X: Any, k: int) -> Measured:
    """Measure what the zero matrix and the best one of rank k leave."""
    squares = float(sparse.linalg.norm(X) if sparse.issparse(X) else np.linalg.norm(X)) ** 2
    values = svds(X, k, return_singular_vectors=False, v0=np.ones(min(X.shape)))
    yield (row, ZERO), squares**0.5
    yield (row, BEST), (squares - float(values @ values)) ** 0.5


def fits(row: str, X: np.ndarray, tasks: Mapping[str, Callable[[], Factors]]) -> Measured:
    for name, task in tasks.items():
        found = outcome(X, task)
        yield (row, name), found.error
        yield (row, name + WARNED), found.warned
        yield (row, name + SECONDS), found.seconds


def grid(seed: int, quick: bool) -> Measured:
    for matrix in MATRICES[:2] if quick else MATRICES:
        X, row = matrix.draw(seed), str(matrix)
        tasks = {name: partial(fit, X, matrix.rank, seed) for name, fit in METHODS.items()}
        yield from references(row, X, matrix.rank)
        yield from fits(row, X, tasks)
        if seed == 0:
            for name, task in tasks.items():
                yield (row, name + MEGABYTES), megabytes(task)


EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
EPSILON_NAMES = list(METHODS)


def epsilons(seed: int, quick: bool) -> Measured:
    X = USUAL.draw(seed)
    for epsilon in EPSILONS:
        row = f"{epsilon:g}"
        yield from references(row, X, USUAL.rank)
        yield from fits(
            row,
            X,
            {
                name: partial(METHODS[name], X, USUAL.rank, seed, epsilon=epsilon)
                for name in EPSILON_NAMES
            },
        )


FILE = "movielens_100k.npz"
RATING = Entry(bounds=(1, 5))
DELTA_OF_RATINGS = 1e-8
SHARE_WITHDRAWN = 0.1
RANKS = (1, 3)
EPSILONS_OF_RATINGS = (1.0, 2.0, 4.0, 8.0, 16.0)
STREAM, WIDE = "stream", "stream, n_sketch=120"
STREAMS: dict[str, dict[str, int]] = {STREAM: {}, WIDE: {"n_sketch": 120}}
RATING_NAMES = [*SOLVERS, "auto", *STREAMS]
SHARES = (0.25, 0.5, 0.75, 1.0)
EPSILON_IN_TIME = 8.0
TIME_NAMES = ["alternating", *STREAMS]


class Updates(NamedTuple):
    """Updates of a matrix, in their order."""

    shape: tuple[int, int]
    rows: np.ndarray
    columns: np.ndarray
    values: np.ndarray

    def first(self, share: float) -> "Updates":
        n = round(share * len(self.values))
        return Updates(self.shape, self.rows[:n], self.columns[:n], self.values[:n])

    def matrix(self) -> sparse.csr_array:
        X = sparse.coo_array((self.values, (self.rows, self.columns)), shape=self.shape).tocsr()
        X.eliminate_zeros()
        return X


@cache
def ratings() -> sparse.coo_array:
    file = file_at_hand(FILE)
    if file is None:
        raise FileNotFoundError(f"{FILE} is not in the folder that SKDP_DATA names.")
    return sparse.coo_array(sparse.load_npz(file)).astype(np.float64)


def ratings_withdrawn(seed: int) -> Updates:
    """Let ratings arrive in a random order, and some of them leave again at a random later time."""
    X, random = ratings(), np.random.default_rng([KEY, seed])
    times = random.random(X.nnz)
    gone = random.choice(X.nnz, int(SHARE_WITHDRAWN * X.nnz), replace=False)
    order = np.argsort(np.concatenate([times, random.uniform(times[gone], 1.0)]))
    which = np.concatenate([np.arange(X.nnz), gone])[order]
    values = np.concatenate([X.data, -X.data[gone]])[order]
    return Updates(X.shape, X.row[which], X.col[which], values)


def streamed(updates: Updates, k: int, **settings: Any) -> Factors:
    stream = DPStreamingFactorizer(k, shape=updates.shape, privacy_unit=RATING, **settings)
    stream.update(updates.rows, updates.columns, updates.values)
    return stream.finalize()


def rating_fits(
    row: str, updates: Updates, k: int, seed: int, epsilon: float, names: Sequence[str]
) -> Measured:
    """Factorize what the updates have come to, from memory and in one pass."""
    X = updates.matrix()
    settings = {"epsilon": epsilon, "delta": DELTA_OF_RATINGS}
    tasks: dict[str, Callable[[], Factors]] = {
        **{
            name: partial(in_memory(name), X, k, seed, RATING, **settings)
            for name in (*SOLVERS, "auto")
        },
        **{name: partial(streamed, updates, k, **settings, **STREAMS[name]) for name in STREAMS},
    }
    yield from references(row, X, k)
    yield from fits(row, X.toarray(), {name: tasks[name] for name in names})


def row_of_ratings(k: int, epsilon: float) -> str:
    return f"k {k}, epsilon {epsilon:g}"


def row_in_time(k: int, share: float) -> str:
    return f"k {k}, {share:.0%}"


def by_epsilon(seed: int, quick: bool) -> Measured:
    updates = ratings_withdrawn(seed)
    for k, epsilon in _pairs((*EPSILONS_OF_RATINGS, np.inf)):
        yield from rating_fits(row_of_ratings(k, epsilon), updates, k, seed, epsilon, RATING_NAMES)


def in_time(seed: int, quick: bool) -> Measured:
    updates = ratings_withdrawn(seed)
    for k, share in _pairs(SHARES):
        yield from rating_fits(
            row_in_time(k, share), updates.first(share), k, seed, EPSILON_IN_TIME, TIME_NAMES
        )


def _pairs(values: Sequence[float]) -> Iterator[tuple[int, float]]:
    return ((k, value) for k in RANKS for value in values)
