r"""Random maps to few dimensions, of numbers that fixed-point sums hold exactly.

A sketch of n dimensions is a public matrix :math:`\Phi` of shape (n, t) with
:math:`E \|\Phi^T x\|^2 = \|x\|^2`. The columns are orthogonal.

References
----------
.. [1] K. L. Clarkson, D. P. Woodruff (2017). "Low-rank approximation and regression in input
   sparsity time". Journal of the ACM 63(6). :doi:`10.1145/3019134`
.. [2] M. Charikar, K. Chen, M. Farach-Colton (2004). "Finding frequent items in data streams".
   Theoretical Computer Science 312(1). :doi:`10.1016/S0304-3975(03)00400-6`
"""

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from scipy.sparse import coo_array

from skdp.linalg.subspace import random_basis

__all__ = [
    "CountSketch",
    "HaarSketch",
    "Sketch",
    "add_updates",
    "dense_norm",
    "dense_rounding",
    "draw_sketch",
    "tail_factor",
]

# Norms of a realised sketch are computed in floating point.
_NORM_MARGIN = 1 + 1e-9
# Entries of a dense sketch are multiples of 2 to the power of minus so many.
_HAAR_BITS = 20
_EXACT = 2.0**53

Index = slice | np.ndarray


class Sketch(ABC):
    """A public matrix with orthogonal columns, whose entries are integers times `unit`.

    Attributes
    ----------
    shape : tuple of two ints
        Dimensions, and those that are left.
    unit : float
        What the integers stand for, a power of two.
    row_norm, spectral_norm : float
        Bounds of the longest row and of the largest singular value.
    column_norms : ndarray of shape (t,)
        Norms of the columns.
    """

    shape: tuple[int, int]
    unit: float
    row_norm: float
    spectral_norm: float
    column_norms: np.ndarray

    @abstractmethod
    def add_one(self, sums: np.ndarray, row: int, cell: int, count: int) -> None:
        """Do what `add` does for one update, without the cost of arrays."""

    @property
    @abstractmethod
    def matrix(self) -> Any:
        """The sketch as an array, of shape (n, t), sparse if most of it is 0."""

    @abstractmethod
    def project(self, values: np.ndarray) -> np.ndarray:
        """Multiply the transposed sketch by `values`, of shape (n, k)."""

    @abstractmethod
    def lift(self, values: np.ndarray) -> np.ndarray:
        """Multiply the sketch by `values`, of shape (t, k)."""


class CountSketch(Sketch):
    """Every dimension goes to one of the buckets, with a random sign; buckets are equally full."""

    def __init__(self, n: int, t: int, generator: np.random.Generator) -> None:
        self.shape, self.unit, self.row_norm = (n, t), 1.0, 1.0
        self.buckets = generator.permutation(n) % t
        self.signs = generator.choice(np.array([-1, 1]), size=n)
        self.column_norms = np.sqrt(np.bincount(self.buckets, minlength=t))
        self.spectral_norm = float(self.column_norms.max()) * _NORM_MARGIN

    def add(
        self, sums: np.ndarray, rows: np.ndarray, cells: np.ndarray, counts: np.ndarray
    ) -> None:
        """Add integers times rows of the sketch to rows of sums."""
        places = rows * self.shape[1]
        places += self.buckets[cells]
        np.add.at(sums.reshape(-1), places, counts * self.signs[cells])

    def add_one(self, sums: np.ndarray, row: int, cell: int, count: int) -> None:
        """Add one integer times one row."""
        bucket = self.buckets[cell]
        # As integers of any size: a single number of int64 would warn of its overflow.
        total = int(sums[row, bucket]) + count * int(self.signs[cell])
        sums[row, bucket] = (total + 2**63) % 2**64 - 2**63

    def project(self, values: np.ndarray) -> np.ndarray:
        """Multiply the transposed sketch by `values`."""
        return np.asarray(self.matrix.T @ values)

    def lift(self, values: np.ndarray) -> np.ndarray:
        """Multiply the sketch by `values`."""
        return np.asarray(values[self.buckets] * self.signs[:, np.newaxis])

    @property
    def matrix(self) -> Any:
        """The sketch, in CSR format."""
        n = self.shape[0]
        entries = self.signs.astype(np.float64), (np.arange(n), self.buckets)
        return coo_array(entries, shape=self.shape).tocsr()


class HaarSketch(Sketch):
    """A uniformly random subspace: orthonormal columns, scaled, rounded to multiples of 2^-20."""

    def __init__(self, n: int, t: int, generator: np.random.Generator) -> None:
        self.shape, self.unit = (n, t), 2.0**-_HAAR_BITS
        # Where all dimensions are left, they are exact, and without a tail.
        basis = np.eye(n) if t == n else random_basis(n, t, generator) * math.sqrt(n / t)
        self.counts = np.rint(basis / self.unit)
        values = self.counts * self.unit
        self.column_norms = np.sqrt(np.einsum("ij,ij->j", values, values))
        self.row_norm = math.sqrt(np.einsum("ij,ij->i", values, values).max()) * _NORM_MARGIN
        self.spectral_norm = float(np.linalg.norm(values, 2)) * _NORM_MARGIN

    def add(self, sums: np.ndarray, matrix: Any, rows: Index, cells: Index) -> None:
        """Add a sparse matrix of integers times rows of the sketch to rows of sums.

        Parameters
        ----------
        sums : ndarray of shape (n_rows, t), of int64
            What is added to, modulo 2 ** 64.
        matrix : sparse array of int64
            Updates of these rows and cells.
        rows, cells : slice or ndarray
            Which of the sums, and which rows of the sketch.
        """
        sums[rows] += self._exact_product(matrix, self.counts[cells])

    def _exact_product(self, matrix: Any, counts: np.ndarray) -> np.ndarray:
        """Multiply in floating point where no bit is lost, which is three times as fast."""
        largest = np.abs(matrix.data, dtype=np.float64).max(initial=0.0) * np.abs(counts).max(initial=0.0)
        if largest * len(counts) < _EXACT:
            return np.asarray(matrix.astype(np.float64) @ counts).astype(np.int64)
        return np.asarray(matrix @ counts.astype(np.int64))

    def add_one(self, sums: np.ndarray, row: int, cell: int, count: int) -> None:
        """Add one integer times one row."""
        sums[row] += np.int64(count) * self.counts[cell].astype(np.int64)

    def project(self, values: np.ndarray) -> np.ndarray:
        """Multiply the transposed sketch by `values`."""
        return np.asarray(self.matrix.T @ values)

    def lift(self, values: np.ndarray) -> np.ndarray:
        """Multiply the sketch by `values`."""
        return np.asarray(self.matrix @ values)

    @property
    def matrix(self) -> Any:
        """The sketch, dense."""
        return self.counts * self.unit


def add_updates(
    sums: tuple[np.ndarray, np.ndarray],
    sketches: tuple[Sketch, Sketch],
    rows: np.ndarray,
    columns: np.ndarray,
    counts: np.ndarray,
) -> None:
    """Add updates of a matrix to the sums of both of its sketches, modulo 2 ** 64.

    Parameters
    ----------
    sums : tuple of ndarray of int64
        The matrix times the right sketch, and its transpose times the left one.
    sketches : tuple of Sketch
        Both of one kind.
    rows, columns : ndarray of shape (n_updates,)
        Cells.
    counts : ndarray of shape (n_updates,), of int64
        What is added to them.
    """
    right, left = sketches
    if isinstance(right, CountSketch) and isinstance(left, CountSketch):
        right.add(sums[0], rows, columns, counts)
        left.add(sums[1], columns, rows, counts)
    if isinstance(right, HaarSketch) and isinstance(left, HaarSketch):
        some_rows, rows, n_rows = _touched(rows, left.shape[0])
        some_columns, columns, n_columns = _touched(columns, right.shape[0])
        matrix = coo_array((counts, (rows, columns)), shape=(n_rows, n_columns)).tocsr()
        right.add(sums[0], matrix, some_rows, some_columns)
        left.add(sums[1], matrix.T, some_columns, some_rows)


def _touched(places: np.ndarray, side: int) -> tuple[Index, np.ndarray, int]:
    """Find which places of a side are touched at all, and count from these."""
    if len(places) >= side:
        return slice(None), places, side
    touched, places = np.unique(places, return_inverse=True)
    return touched, places, len(touched)


def draw_sketch(kind: str, n: int, t: int, generator: np.random.Generator) -> Sketch:
    """Draw a sketch of `kind`, "haar" or "countsketch", from n to t dimensions."""
    return (HaarSketch if kind == "haar" else CountSketch)(n, t, generator)


def dense_rounding(n: int, t: int) -> float:
    """Bound the spectral norm of what rounding the entries of a Haar sketch changes."""
    return 2.0 ** -(_HAAR_BITS + 1) * math.sqrt(n * t)


def dense_norm(n: int, t: int) -> float:
    """Bound the largest singular value of every Haar sketch."""
    return (math.sqrt(n / t) + dense_rounding(n, t)) * _NORM_MARGIN


def tail_factor(t: int, probability: float) -> float:
    r"""Bound how much longer a sketch makes a fixed matrix, but for that probability.

    For every fixed E, :math:`\|E \Phi\|_F > \sqrt q \|E\|_F` has at most the probability
    :math:`(q e^{1 - q})^{t / 2}` over a :math:`\Phi` with Gaussian entries of variance 1/t: the
    square is an average of chi-squared variables over t, weighted by squared singular values, and
    by convexity no weights have a heavier moment generating function than a single one. Given the
    span of the columns of such a :math:`\Phi`, the expectation of :math:`\|E \Phi\|_F^2` is what an
    orthonormal frame of the span times :math:`\sqrt{n / t}` gives, so that by convexity again that
    of Haar sketches is no heavier. Returns :math:`\sqrt q`.

    Parameters
    ----------
    t : int
        Dimensions that are left.
    probability : float
        That of the bound to fail, in (0, 1).

    Returns
    -------
    float
        The factor, above 1.
    """
    goal = 2 * math.log(1 / probability) / t
    # Convex and increasing above 1, so that Newton's method from the right never overshoots.
    q = 2 * (1 + goal) + math.sqrt(goal)
    for _ in range(60):
        q -= (q - 1 - math.log(q) - goal) / (1 - 1 / q)
    return math.sqrt(q) * _NORM_MARGIN
