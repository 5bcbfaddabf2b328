r"""Random maps to few dimensions, whose entries fixed-point sums represent exactly.

A sketch of n dimensions is a public matrix :math:`\Phi` of shape (n, t) with orthogonal columns and
:math:`E \|\Phi^T x\|^2 = \|x\|^2`. Its entries are integers times a power of two.
"""

import math
from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from scipy.special import lambertw

#: Room for rounding, where norms of a drawn sketch are computed in floating point.
NORM_MARGIN = 1 + 1e-9  # not tuned


class Sketch(ABC):
    """A public matrix with orthogonal columns."""

    shape: tuple[int, int]
    unit: float  # the sketch is `unit * integers`; a power of two
    integers: Any  # (n, t), of float64, dense or in CSR format
    row_norm: float  # bounds the longest row
    spectral_norm: float  # bounds the largest singular value
    column_norms: np.ndarray

    def project(self, values: np.ndarray) -> np.ndarray:
        """Multiply the transposed sketch by `values`, of shape (n, k)."""
        return np.asarray(self.integers.T @ values) * self.unit

    def lift(self, values: np.ndarray) -> np.ndarray:
        """Multiply the sketch by `values`, of shape (t, k)."""
        return np.asarray(self.integers @ values) * self.unit

    @abstractmethod
    def add_both(
        self,
        left: Self,
        sums: tuple[np.ndarray, np.ndarray],
        rows: np.ndarray,
        columns: np.ndarray,
        counts: np.ndarray,
    ) -> None:
        """Add counts in cells of a matrix to both of its sums, modulo 2 ** 64.

        This is the sketch of the columns, and `left`, of the same kind, that of the rows. The sums
        are the matrix times this sketch, and the transposed matrix times `left`.
        """

    @abstractmethod
    def add_one(self, sums: np.ndarray, place: int, cell: int, count: int) -> None:
        """Add `count` times a row of the sketch to a row of sums, modulo 2 ** 64."""


def tail_factor(t: int, probability: float) -> float:
    r"""Bound how much longer a sketch makes a fixed matrix, with probability 1 - `probability`.

    For every fixed E, :math:`\|E \Phi\|_F > \sqrt q \|E\|_F` has at most the probability
    :math:`(q e^{1 - q})^{t / 2}` over a :math:`\Phi` with Gaussian entries of variance 1/t: the
    square is an average of chi-squared variables divided by t, weighted by squared singular values.
    By convexity, no weights give a larger moment generating function than all weight on one
    variable. Given the span of the columns of such a :math:`\Phi`, the expectation of
    :math:`\|E \Phi\|_F^2` is what an orthonormal frame of the span times :math:`\sqrt{n / t}`
    gives. So, again by convexity, Haar sketches have no larger moment generating function. The
    function returns :math:`\sqrt q`.
    """
    goal = 2 * math.log(1 / probability) / t
    q = -float(lambertw(-math.exp(-1 - goal), -1).real)
    return math.sqrt(q) * NORM_MARGIN
