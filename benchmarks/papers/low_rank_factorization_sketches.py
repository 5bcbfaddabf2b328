"""What papers on private low-rank factorization offer beside noise on the matrix: for comparison.

All methods are calibrated, by Gaussian differential privacy, to a change of at most 1 in
Frobenius norm, promised and not enforced. They are NOT for private matrices: the noise is
numpy's, and floating-point rounding is not accounted for. Sketches have orthonormal columns or
rows, so that a sketch moves by 1 at most.

noise on A       A plus noise, cut to rank k
two passes       the range finder of [1]_: 2k columns A W, noise; their basis Q, and Q' A, noise
three sketches   columns A F, rows P A and a core S A T of [2]_, each with noise of its own, and
                 without the padding, which is but another noise on a sketch
... secret       the same with less noise: a change that was fixed before the sketch was drawn, at
                 random and in secret, moves it by less, up to a probability that delta pays for.
                 With a sketch that is seeded, reused or read too early it is not private
... of A noised  three sketches of A plus noise: private with any sketch

The binary tree [3]_ is what [2]_ takes to release sketches of a stream, over and over.

.. [1] M. Hardt, A. Roth (2012). "Beating randomized response on incoherent matrices". STOC.
   arXiv:1111.0623
.. [2] J. Upadhyay (2016). "The price of differential privacy for low-rank factorization".
   arXiv:1604.01429
.. [3] T.-H. H. Chan, E. Shi, D. Song (2011). "Private and continual release of statistics". ACM
   Transactions on Information and System Security 14(3). doi:10.1145/2043621.2043626
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import svd, svdvals
from scipy.optimize import brentq

from benchmarks.report import Measured, Values, table
from skdp.privacy.gaussian_dp import mu_from_epsilon_delta

__all__ = [
    "CASES",
    "DELTA",
    "EPSILON",
    "Case",
    "errors_of",
    "factored",
    "sketch_table",
    "square_root_factor",
    "tree_factors",
    "tree_table",
]

EPSILON, DELTA = 1.0, 1e-6
HORIZONS = (7, 63, 64, 127, 1024)
OPTIMUM, PRIVATE = "best of rank k", "ours (private)"


@dataclass(frozen=True)
class Case:
    """A matrix of rank k, plus noise whose rows have norm `tail` on the longer side."""

    name: str
    shape: tuple[int, int]
    # Singular values, evenly spaced from the first to the last.
    first: float
    last: float
    k: int
    tail: float
    # Columns and rows of the first two sketches; the core is core_size x core_size.
    size: int
    core_size: int


@dataclass
class Spec:
    """A matrix, and the sizes of its sketches."""

    A: np.ndarray
    case: Case
    random: np.random.Generator

    def noise(self, *shape: int) -> np.ndarray:
        return self.random.normal(size=shape)

    def frame(self, dimension: int, size: int) -> np.ndarray:
        """Return orthonormal columns, any as likely as any other but for signs."""
        return np.linalg.qr(self.noise(dimension, size))[0]


def truncated(A: np.ndarray, k: int) -> np.ndarray:
    left, values, right = svd(A, full_matrices=False)
    return (left[:, :k] * values[:k]) @ right[:k]


def factored(
    columns: np.ndarray, rows: np.ndarray, core: np.ndarray, S: np.ndarray, T: np.ndarray, k: int
) -> np.ndarray:
    """Return the matrix within the spans of the sketches whose core is nearest: figure 2 of [2]_.

    It is cut to rank k before the inverse is applied, as printed.
    """
    U, V = np.linalg.qr(columns)[0], np.linalg.qr(rows.T)[0].T
    left, left_values, left_right = svd(S @ U, full_matrices=False)
    right_left, right_values, right = svd(V @ T, full_matrices=False)
    middle = truncated(left.T @ core @ right.T, k) / np.outer(left_values, right_values)
    return U @ (left_right.T @ middle @ right_left.T) @ V


def noise_on_the_matrix(spec: Spec) -> np.ndarray:
    mu = mu_from_epsilon_delta(EPSILON, DELTA)
    return truncated(spec.A + spec.noise(*spec.A.shape) / mu, spec.case.k)


def two_passes(spec: Spec) -> np.ndarray:
    A, k = spec.A, spec.case.k
    noise = math.sqrt(2) / mu_from_epsilon_delta(EPSILON, DELTA)
    W = spec.frame(A.shape[1], 2 * k)
    Q = np.linalg.qr(A @ W + noise * spec.noise(len(A), 2 * k))[0]
    return Q @ truncated(Q.T @ A + noise * spec.noise(2 * k, A.shape[1]), k)


def three_sketches(spec: Spec) -> np.ndarray:
    noise = math.sqrt(3) / mu_from_epsilon_delta(EPSILON, DELTA)
    return sketched(spec, spec.A, (noise, noise, noise))


def three_secret_sketches(spec: Spec) -> np.ndarray:
    """Half of delta is for the event that one of four factors stretches the change by more."""
    case, (m, n) = spec.case, spec.A.shape
    noise = math.sqrt(3) / mu_from_epsilon_delta(EPSILON, DELTA, DELTA / 2)
    size, core = (stretch(s, DELTA / 2 / 4) for s in (case.size, case.core_size))
    columns, rows = (size * math.sqrt(case.size / d) for d in (n, m))
    middle = core**2 * case.core_size / math.sqrt(m * n)
    return sketched(
        spec, spec.A, (noise * min(columns, 1), noise * min(rows, 1), noise * min(middle, 1))
    )


def sketches_of_noised(spec: Spec) -> np.ndarray:
    mu = mu_from_epsilon_delta(EPSILON, DELTA)
    return sketched(spec, spec.A + spec.noise(*spec.A.shape) / mu, (0.0, 0.0, 0.0))


def sketched(spec: Spec, A: np.ndarray, noises: tuple[float, float, float]) -> np.ndarray:
    (m, n), size, core_size = A.shape, spec.case.size, spec.case.core_size
    F, P = spec.frame(n, size), spec.frame(m, size).T
    S, T = spec.frame(m, core_size).T, spec.frame(n, core_size)
    for_columns, for_rows, for_core = noises
    columns = A @ F + for_columns * spec.noise(m, size)
    rows = P @ A + for_rows * spec.noise(size, n)
    core = S @ A @ T + for_core * spec.noise(core_size, core_size)
    return factored(columns, rows, core, S, T, spec.case.k)


def stretch(size: int, delta: float) -> float:
    """Bound the norm of a fixed matrix of norm 1 in a sketch that keeps squares in the mean.

    A square above q has probability at most (q e^(1 - q))^(size / 2), which is delta.
    """
    target = 2 * math.log(1 / delta) / size
    return math.sqrt(brentq(lambda q: q - 1 - math.log(q) - target, 1, 10 + 3 * target))


METHODS: dict[str, Callable[[Spec], np.ndarray]] = {
    "noise on A": noise_on_the_matrix,
    "two passes": two_passes,
    "three sketches": three_sketches,
    "... secret": three_secret_sketches,
    "... of A noised": sketches_of_noised,
}
CASES = [
    Case("300 x 600, k 5", (300, 600), 2000.0, 800.0, 5, 10.0, 30, 90),
    Case("2000 x 500, k 10", (2000, 500), 3000.0, 900.0, 10, 10.0, 40, 160),
    Case("2000 x 500, k 10, strong", (2000, 500), 30_000.0, 9_000.0, 10, 300.0, 100, 200),
    Case("2000 x 2000, k 10", (2000, 2000), 30_000.0, 9_000.0, 10, 100.0, 40, 160),
]


def matrix_of(case: Case, random: np.random.Generator) -> np.ndarray:
    (m, n), values = case.shape, np.linspace(case.first, case.last, case.k)
    left, right = (np.linalg.qr(random.normal(size=(d, case.k)))[0] for d in (m, n))
    return (left * values) @ right.T + case.tail / math.sqrt(max(m, n)) * random.normal(size=(m, n))


def errors_of(
    case: Case, random: np.random.Generator, private_error: Callable[..., float]
) -> Measured:
    """Yield the errors, with that of `private_error`."""
    A = matrix_of(case, random)
    yield (case.name, OPTIMUM), float(np.linalg.norm(svdvals(A)[case.k :]))
    for name, method in METHODS.items():
        error = np.linalg.norm(A - method(Spec(A, case, random)))
        yield (case.name, name), float(error)
    yield (case.name, PRIVATE), private_error(A, case.k)
    yield (case.name, "norm of A"), float(np.linalg.norm(A))


def sketch_table(values: Values) -> str:
    columns = [OPTIMUM, *METHODS, PRIVATE, "norm of A"]
    rows = [
        [case.name, *(f"{np.median(values[case.name, name]):.0f}" for name in columns)]
        for case in CASES
    ]
    return table(["matrix", *columns], rows)


def tree_factors(horizon: int) -> tuple[float, float]:
    """Return the noise of a sum in the worst step and in the mean square, for an event of size 1.

    A node is noised when it closes: at step t, over as many of the last steps as the lowest bit of
    t says. An event lies in all nodes that close over it; a sum has as many as t has bits.
    """
    steps = np.arange(1, horizon + 1)
    starts = steps - (steps & -steps)
    per_event = ((starts < steps[:, None]) & (steps[:, None] <= steps)).sum(axis=1).max()
    per_sum = np.array([int(step).bit_count() for step in steps])
    return math.sqrt(per_event * per_sum.max()), math.sqrt(per_event * per_sum.mean())


def square_root_factor(horizon: int) -> float:
    """Return the same for noise that is correlated by the square root of the matrix of sums.

    Its entries are binom(2 i, i) / 4^i on the i-th diagonal; the last sum is the worst.
    """
    ratios = 1 - 1 / (2 * np.arange(1, horizon))
    return float(np.square(np.cumprod([1.0, *ratios])).sum())


def tree_table() -> str:
    rows = []
    for horizon in HORIZONS:
        worst, typical = tree_factors(horizon)
        square_root = square_root_factor(horizon)
        cells = (worst, typical, square_root, worst / square_root)
        rows.append([horizon, *(f"{value:.2f}" for value in cells)])
    return table(["steps", "tree, worst", "tree, rms", "square root, worst", "ratio"], rows)
