"""Random maps to few dimensions: dense maps, and sparse maps with buckets and signs."""

import math
from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy.sparse import coo_array, csr_array, issparse
from scipy.special import lambertw

from skdp.linalg.norms import EXACT, row_norms
from skdp.linalg.spectrum import random_basis

#: Factor for the norms of a drawn sketch, which covers their rounding errors.
NORM_MARGIN = 1 + 1e-9  # not tuned


#: Two arrays: one for each side of a matrix.
Pair = tuple[np.ndarray, np.ndarray]


class Sketch(ABC):
    r"""A public random matrix :math:`\Phi` of shape (n, t), with orthogonal columns.

    The matrix maps n dimensions to t, with :math:`E \|\Phi^T x\|^2 = \|x\|^2`. Its entries are
    multiples of a power of two, so that fixed-point sums represent them exactly.
    """

    shape: tuple[int, int]
    unit: float  # the sketch is `unit * integers`; a power of two
    integers: Any  # (n, t), of float64, dense or in CSR format
    row_norm: float  # bounds the norms of the rows
    spectral_norm: float  # bounds the largest singular value
    column_norms: np.ndarray

    def project(self, values: np.ndarray) -> np.ndarray:
        """Multiply the transposed sketch by `values`, of shape (n, k)."""
        return np.asarray(self.integers.T @ values) * self.unit

    def lift(self, values: np.ndarray) -> np.ndarray:
        """Multiply the sketch by `values`, of shape (t, k)."""
        return np.asarray(self.integers @ values) * self.unit

    @abstractmethod
    def add_both(self, left: Self, sums: Pair, cells: Pair, counts: np.ndarray) -> None:
        """Add counts in cells of a matrix to two sums, modulo 2 ** 64.

        The sums are the matrix times `self`, which is the sketch of its columns, and the transposed
        matrix times `left`, the sketch of its rows. `cells` are the rows and the columns of the
        counts.
        """

    @abstractmethod
    def add_one(self, sums: np.ndarray, place: int, cell: int, count: int) -> None:
        """Add `count` times row `cell` of the sketch to row `place` of the sums, modulo 2 ** 64."""


def tail_factor(t: int, probability: float) -> float:
    r"""Bound the factor by which a sketch lengthens a fixed matrix, except with a `probability`.

    For every fixed E, :math:`\|E \Phi\|_F > \sqrt q \|E\|_F` has at most the probability :math:`(q
    e^{1 - q})^{t / 2}` over a :math:`\Phi` with Gaussian entries of variance 1/t: the square is an
    average of chi-squared variables divided by t, weighted by squared singular values. By
    convexity, the moment generating function is largest with all weight on one variable. For a
    given span of the columns of :math:`\Phi`, the expectation of :math:`\|E \Phi\|_F^2` is
    :math:`\|E F\|_F^2`, where F is an orthonormal frame of the span times :math:`\sqrt{n / t}`. So,
    again by convexity, Haar sketches have no larger moment generating function. The factor is
    :math:`\sqrt q` for the q that makes the bound equal to `probability`.
    """
    goal = 2 * math.log(1 / probability) / t
    q = -float(lambertw(-math.exp(-1 - goal), -1).real)
    return math.sqrt(q) * NORM_MARGIN


# ------------------------------
# Sparse sketches: one nonzero entry in each row.


class CountSketch(Sketch):
    """Adds each dimension, with a random sign, to one of t buckets of equal size.

    Sketches of this kind are from M. Charikar, K. Chen, M. Farach-Colton (2004,
    :doi:`10.1016/S0304-3975(03)00400-6`). K. L. Clarkson and D. P. Woodruff (2017,
    :doi:`10.1145/3019134`) use them for low-rank approximation.
    """

    def __init__(self, n: int, t: int, generator: np.random.Generator) -> None:
        self.shape, self.unit, self.row_norm = (n, t), 1.0, 1.0
        self._buckets = generator.permutation(n) % t
        self._signs = generator.choice(np.array([-1, 1]), size=n)
        self.column_norms = np.sqrt(np.bincount(self._buckets, minlength=t))
        self.spectral_norm = float(self.column_norms.max()) * NORM_MARGIN

    @cached_property
    def integers(self) -> csr_array:
        """The sketch, in CSR format."""
        starts = np.arange(self.shape[0] + 1)
        return csr_array((self._signs.astype(np.float64), self._buckets, starts), shape=self.shape)

    def add_both(self, left: "CountSketch", sums: Pair, cells: Pair, counts: np.ndarray) -> None:
        """Add counts to both sums; each count changes one number of each sum."""
        rows, columns = cells
        self._add(sums[0], rows, columns, counts)
        left._add(sums[1], columns, rows, counts)

    def add_one(self, sums: np.ndarray, place: int, cell: int, count: int) -> None:
        """Add `count` times row `cell`, which has one number, to row `place` of the sums."""
        bucket = self._buckets[cell]
        # These are Python integers, as NumPy warns if a single int64 overflows.
        total = int(sums[place, bucket]) + count * int(self._signs[cell])
        sums[place, bucket] = (total + 2**63) % 2**64 - 2**63

    def _add(
        self, sums: np.ndarray, places: np.ndarray, cells: np.ndarray, counts: np.ndarray
    ) -> None:
        entries = places * self.shape[1]
        entries += self._buckets[cells]
        np.add.at(sums.reshape(-1), entries, counts * self._signs[cells])


# ------------------------------
# Dense sketches: an orthonormal basis of a uniformly random subspace.

# Entries are multiples of 2 ** -_BITS.
_BITS = 20  # not tuned
# Counts become a dense matrix if it has at most this many cells for each count, and if floats have
# the sums of counts exactly.
_LEAST_FILLING = 16  # not studied

Index = slice | np.ndarray


class HaarSketch(Sketch):
    """Orthonormal columns of a random subspace, scaled, rounded to multiples of 2^-20."""

    def __init__(self, n: int, t: int, generator: np.random.Generator) -> None:
        self.shape, self.unit = (n, t), 2.0**-_BITS
        # With t = n, the sketch is the identity, which is exact.
        basis = np.eye(n) if t == n else random_basis(n, t, generator) * math.sqrt(n / t)
        self.integers = np.rint(basis / self.unit)
        self._largest = float(np.abs(self.integers).max())
        values = self.integers * self.unit
        self.column_norms = np.sqrt(np.einsum("ij,ij->j", values, values))
        self.row_norm = float(row_norms(values).max()) * NORM_MARGIN
        self.spectral_norm = float(np.linalg.norm(values, 2)) * NORM_MARGIN

    def add_both(self, left: "HaarSketch", sums: Pair, cells: Pair, counts: np.ndarray) -> None:
        """Add counts in cells to both sums, by two matrix products."""
        if not len(counts):
            return
        some_rows, rows, n_rows = _touched(cells[0], left.shape[0])
        some_columns, columns, n_columns = _touched(cells[1], self.shape[0])
        # Counts of the same cell are added up first: in a dense matrix of floats where their sums
        # are exact, else in a sparse matrix of integers.
        largest = float(np.abs(counts, dtype=np.float64).max())
        if n_rows * n_columns <= _LEAST_FILLING * len(counts) and largest * len(counts) < EXACT:
            block = np.bincount(rows * n_columns + columns, counts, n_rows * n_columns)
            block = block.reshape(n_rows, n_columns)
        else:
            block = coo_array((counts, (rows, columns)), shape=(n_rows, n_columns)).tocsr()
        sums[0][some_rows] += self._exact_product(block, some_columns)
        sums[1][some_columns] += left._exact_product(block.T, some_rows)

    def add_one(self, sums: np.ndarray, place: int, cell: int, count: int) -> None:
        """Add `count` times row `cell` of the sketch to row `place` of the sums."""
        sums[place] += np.int64(count) * self.integers[cell].astype(np.int64)

    def _exact_product(self, block: Any, cells: Index) -> np.ndarray:
        """Multiply in floating point, which is far faster, if this is exact; else in integers."""
        integers = self.integers[cells]
        entries = block.data if issparse(block) else block
        largest = float(np.abs(entries, dtype=np.float64).max()) * self._largest
        if largest * len(integers) < EXACT:
            return np.asarray(block.astype(np.float64, copy=False) @ integers).astype(np.int64)
        return np.asarray(block.astype(np.int64, copy=False) @ integers.astype(np.int64))


def haar_rounding(n: int, t: int) -> float:
    """Bound the spectral norm of the rounding errors of the entries of a Haar sketch (n, t)."""
    return 2.0 ** -(_BITS + 1) * math.sqrt(n * t)


def haar_norm(n: int, t: int, tail: float = 0.0) -> float:
    """Bound the factor by which a Haar sketch (n, t) lengthens a matrix, except with `tail`.

    A longer result has at most the probability `tail` over the random sketch. If `tail` is 0, the
    bound holds for the largest singular value of any sketch that may be drawn.
    """
    if tail > 0:
        return tail_factor(t, tail) + haar_rounding(n, t)
    return (math.sqrt(n / t) + haar_rounding(n, t)) * NORM_MARGIN


def _touched(places: np.ndarray, side: int) -> tuple[Index, np.ndarray, int]:
    """Return the distinct places, the index of each place among these, and their number.

    If there are at least `side` places, all indices below `side` stand for the distinct ones.
    """
    if len(places) >= side:
        return slice(None), places, side
    distinct, indices = np.unique(places, return_inverse=True)
    return distinct, indices, len(distinct)
