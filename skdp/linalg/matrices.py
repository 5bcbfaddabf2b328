"""Matrices of fixed rank, blocks of measurement matrices, and sums over these blocks."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from scipy.sparse import issparse

from skdp.linalg.norms import (
    UNIT_ROUNDOFF,
    aligned,
    as_dense,
    never_single,
    row_norms,
    row_products,
    sparse_row_norms,
)

# ------------------------------
# Matrices of fixed rank: factors, tangent vectors, and the retraction to the same rank.


@dataclass(frozen=True)
class FixedRank:
    """The matrix ``left @ diag(values) @ right.T``; its factors need not be orthonormal."""

    left: np.ndarray  # (n_rows, rank)
    values: np.ndarray
    right: np.ndarray  # (n_columns, rank)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return len(self.left), len(self.right)

    @property
    def rank(self) -> int:
        """Number of outer products."""
        return len(self.values)

    @cached_property
    def matrix(self) -> np.ndarray:
        """The matrix as a dense array."""
        return np.asarray((self.left * self.values) @ self.right.T)

    def with_values(self, values: np.ndarray) -> "FixedRank":
        """Return the same factors with other values."""
        return FixedRank(self.left, values, self.right)

    def minus(self, other: "FixedRank") -> "FixedRank":
        """Return the difference to another matrix; its rank is the sum of both ranks."""
        return FixedRank(
            np.hstack([self.left, other.left]),
            np.concatenate([self.values, -other.values]),
            np.hstack([self.right, other.right]),
        )

    def inner(self, other: "FixedRank") -> float:
        """Compute the Frobenius inner product with another matrix from the factors of both."""
        overlaps = (self.left.T @ other.left) * (self.right.T @ other.right)
        return float(self.values @ overlaps @ other.values)

    def orthonormal(self) -> "FixedRank":
        """Return the same matrix with singular vectors as factors, which are orthonormal."""
        if 1 in self.shape:
            return truncate(self.matrix, self.rank)
        left, left_triangle = np.linalg.qr(self.left)
        right, right_triangle = np.linalg.qr(self.right)
        core = (left_triangle * self.values) @ right_triangle.T
        inner_left, values, inner_right = np.linalg.svd(core, full_matrices=False)
        return FixedRank(left @ inner_left, values, right @ inner_right.T)

    def leading(self, rank: int) -> "FixedRank":
        """Return the first `rank` outer products."""
        return FixedRank(self.left[:, :rank], self.values[:rank], self.right[:, :rank])


def tangent_dimension(shape: tuple[int, int], rank: int) -> int:
    """Return the dimension of the space of tangent vectors at a matrix of the given rank."""
    return rank * (sum(shape) - rank)


def project_coordinates(point: FixedRank, coordinates: np.ndarray) -> np.ndarray:
    r"""Project any vector to the coordinates of a tangent vector at an orthonormal point.

    At :math:`M = U \operatorname{diag}(s) V^T`, with U and V orthonormal, the projection of a
    matrix Z to the tangent space is :math:`P(Z) = U U^T Z + Z V V^T - U U^T Z V V^T` (B.
    Vandereycken, 2013, :doi:`10.1137/110845768`). The *coordinates* of P(Z) are :math:`Z V` and
    :math:`B = U^T Z - (U^T Z V) V^T`, so that :math:`P(Z) = (Z V) V^T + U B`.

    The two parts are orthogonal, so that the map from coordinates to tangent vectors preserves
    Euclidean lengths. Independent noise on all coordinates is therefore isotropic in the tangent
    space, once this function has subtracted the part of B in the span of V.
    """
    size = point.left.size
    beside = coordinates[size:].reshape(point.rank, -1)
    beside = beside - (beside @ point.right) @ point.right.T
    return np.concatenate([coordinates[:size], beside.ravel()])


def tangent_vector(point: FixedRank, coordinates: np.ndarray) -> FixedRank:
    """Return the tangent vector with the given coordinates; its rank is 2 * rank."""
    size = point.left.size
    return FixedRank(
        np.hstack([coordinates[:size].reshape(point.left.shape), point.left]),
        np.ones(2 * point.rank),
        np.hstack([point.right, coordinates[size:].reshape(point.rank, -1).T]),
    )


def retract(point: FixedRank, coordinates: np.ndarray, step: float) -> FixedRank:
    """Add `step` times a tangent vector, and truncate to the rank of the point."""
    tangent, rank = tangent_vector(point, coordinates), point.rank
    # M + step P = [Z V, U] [step V, V diag(s) + step B'].T, with two blocks in each factor.
    along, beside = tangent.right[:, :rank], tangent.right[:, rank:]
    right = np.hstack([step * along, step * beside + point.right * point.values])
    return FixedRank(tangent.left, tangent.values, right).orthonormal().leading(rank)


def truncate(matrix: np.ndarray, rank: int) -> FixedRank:
    """Return the nearest matrix of a rank, with orthonormal factors and descending values."""
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    return FixedRank(left[:, :rank], values[:rank], right[:rank].T)


# ------------------------------
# Blocks of measurement matrices, and the sums over blocks that a fit needs.

# A matrix is null if one of its factors is longer than this number, or shorter than its inverse. So
# no product of the norms of two factors overflows or is subnormal.
_LONGEST = 1e100  # not tuned
# Bound on the rounding error of the squared sine of a vector with a subspace, for each feature.
_MARGIN = 8 * UNIT_ROUNDOFF  # not tuned


class SampleWeighted:
    """Base of blocks whose rows may have a `sample_weight`: 1 / m for each of m rows of a user.

    An additional row of one user moves rows of other users to other positions, where a product of
    many rows may round differently. So weighted matrices are multiplied one by one, or by whole
    columns.
    """

    #: Factor of the clipped term of each row in a sum; None if all factors are 1.
    sample_weight: np.ndarray | None = None

    def times_sample_weight(self, values: np.ndarray, *, twice: bool = False) -> np.ndarray:
        """Multiply the terms of a sum, one for each row, by `sample_weight`.

        With `twice`, `values` are a factor that each term has twice, as in a square: this factor is
        multiplied by the root of `sample_weight`.
        """
        weights = self.sample_weight
        if weights is None:
            return values
        factors = np.sqrt(weights) if twice else weights
        return factors.reshape(-1, *[1] * (values.ndim - 1)) * values


#: One vector for each matrix of a block: its tangent coordinates, or all of its entries. A fit
#: needs the norms of these vectors, and their weighted sum.
Coordinates: TypeAlias = "DenseCoordinates | LazyCoordinates"
#: A block of matrices.
Matrices: TypeAlias = "DenseMatrices | OuterMatrices"


class DenseCoordinates:
    """Vectors with all entries in memory."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values
        self.size = values.shape[1]

    def multiply(self, factors: np.ndarray) -> None:
        """Multiply each vector by a factor; vectors that are not finite become null."""
        self.values *= factors[:, np.newaxis]

    def norms(self) -> np.ndarray:
        """Compute the norms, which may be inf or NaN."""
        return row_norms(self.values)

    def weighted_sum(self, weights: np.ndarray) -> np.ndarray:
        """Return the weighted sum of the vectors; null vectors have weight 0."""
        self.values[weights == 0] = 0.0
        return np.asarray(weights @ self.values)


@dataclass(eq=False)
class DenseMatrices(SampleWeighted):
    """Matrices `scale * row_map @ X_i @ column_map`, with symmetric maps and dense X_i.

    Products apply the scale and the maps to their thin factors, so that no X_i is copied.
    """

    values: np.ndarray
    scale: float = 1.0
    row_map: np.ndarray | None = None
    column_map: np.ndarray | None = None
    sample_weight: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.values)

    def norms(self) -> np.ndarray:
        """Compute the Frobenius norms."""
        return self.scale * row_norms(self._mapped().reshape(len(self), -1))

    def second_moment(self, side: int, weights: np.ndarray) -> np.ndarray:
        """Sum X X' (side 0) or X'X (side 1), X times its weight; null matrices have weight 0."""
        values, factors = self._mapped(), self.scale * weights
        if not (factors == 1).all():
            values = values * factors[:, np.newaxis, np.newaxis]
            values[weights == 0] = 0.0
        values = values.transpose(0, 2, 1) if side == 0 else values
        # Rows of all matrices are summed in groups, which makes chains of additions shorter.
        vectors = values.reshape(values.shape[1], -1, values.shape[2])
        return np.asarray((vectors.transpose(0, 2, 1) @ vectors).sum(axis=0))

    def entries(self) -> Coordinates:
        """Return all entries."""
        return DenseCoordinates(self.scale * self._mapped().reshape(len(self), -1))

    def tangent(self, point: FixedRank, intercept: float) -> tuple[Coordinates, np.ndarray]:
        """Return tangent coordinates, the intercept last, and the inner products with the point.

        Callers have to project the sum of the coordinates by `project_coordinates`.
        """
        values = self.values
        if self.sample_weight is not None:
            values = aligned(values.reshape(len(self), -1)).reshape(values.shape)
        along = self._times(values, self.scale * _mapped(point.right, self.column_map))
        along = along if self.row_map is None else self._from_left(self.row_map, along)
        left = self.scale * _mapped(point.left, self.row_map)
        beside = self._from_left(left.T, values)
        beside = beside if self.column_map is None else beside @ self.column_map
        core = self._times(beside, point.right)
        beside -= self._times(core, point.right.T)
        inner = np.einsum("ijj,j->i", core, point.values)
        parts = [along.reshape(len(self), -1), beside.reshape(len(self), -1)]
        if intercept > 0:
            parts.append(np.full((len(self), 1), intercept))
        return DenseCoordinates(np.hstack(parts)), inner

    def _times(self, values: np.ndarray, right: np.ndarray) -> np.ndarray:
        if self.sample_weight is not None and values.shape[2] > 1:
            # The memory layout affects rounding, and may differ in other processes.
            return np.asarray(values @ np.ascontiguousarray(right))
        # One product for all matrices is faster. It may be used for weighted matrices of one
        # column: the entries of their products are no sums, so that no position affects the
        # rounding.
        return (values.reshape(-1, values.shape[2]) @ right).reshape(*values.shape[:2], -1)

    def _mapped(self) -> np.ndarray:
        """Apply `row_map` and `column_map` to the matrices, but not `scale`."""
        values = self.values
        values = values if self.row_map is None else self._from_left(self.row_map, values)
        return values if self.column_map is None else values @ self.column_map

    def _from_left(self, left: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Multiply each of `values` by `left`; in one product if the matrices have one column."""
        if self.values.shape[2] > 1:
            return np.asarray(left @ values)
        rows, right = values[:, :, 0], np.ascontiguousarray(left.T)
        products = rows @ right if self.sample_weight is None else one_by_one(rows, right)
        return np.asarray(products[:, :, np.newaxis])


@dataclass(eq=False)
class LazyCoordinates:
    """Vectors that are never stored: only norms and weighted sums are computed.

    A positive `intercept` is the last coordinate of each vector. `total` maps weights to the
    weighted sum of the other coordinates. `lengths` are upper bounds of the norms of all
    coordinates.
    """

    lengths: np.ndarray
    total: Callable[[np.ndarray], np.ndarray]
    size: int  # including the intercept
    intercept: float = 0.0
    _factors: np.ndarray | float = field(default=1.0, init=False)

    def multiply(self, factors: np.ndarray) -> None:
        """Multiply each vector by a factor; vectors that are not finite become null."""
        self._factors = np.where(np.abs(factors) <= _LONGEST, factors, np.nan)

    def norms(self) -> np.ndarray:
        """Return upper bounds of the norms; NaN for null vectors."""
        return np.asarray(np.abs(self._factors) * self.lengths)

    def weighted_sum(self, weights: np.ndarray) -> np.ndarray:
        """Return the weighted sum of the vectors; null vectors have weight 0."""
        weights = np.where(weights == 0, 0.0, weights * self._factors)
        total = self.total(weights)
        return np.append(total, self.intercept * weights.sum()) if self.intercept > 0 else total


class OuterMatrices(SampleWeighted):
    """Outer products of the rows of `left` and `right`, arrays or CSR arrays, times `scale`.

    A product is null if one of its factors is so long or so short that the norm of the product
    could overflow or underflow.
    """

    def __init__(
        self, left: Any, right: Any, scale: float = 1.0, sample_weight: np.ndarray | None = None
    ) -> None:
        if sample_weight is not None:
            # NumPy sums other dtypes than float64 in chunks, which may begin in the middle of a
            # row.
            left, right = (
                one if issparse(one) else np.asarray(one, np.float64) for one in (left, right)
            )
        self.left, self.right, self.scale, self.sample_weight = left, right, scale, sample_weight
        self._left_norms, self._right_norms = _factor_norms(left), _factor_norms(right)
        self._is_null = (self._left_norms == 0) | (self._right_norms == 0)

    def __len__(self) -> int:
        return self.left.shape[0]

    def norms(self) -> np.ndarray:
        """Compute the Frobenius norms."""
        return self.scale * self._left_norms * self._right_norms

    def second_moment(self, side: int, weights: np.ndarray) -> np.ndarray:
        """Sum X X' (side 0) or X'X (side 1), X times its weight; if sparse, only the diagonal."""
        sides = [(self.left, self._right_norms), (self.right, self._left_norms)]
        factors, lengths = sides[side]
        if issparse(factors):
            lengths = np.where(self._is_null, 0.0, self.scale * weights * lengths)
            squares = factors.multiply(lengths[:, np.newaxis]).tocsr().power(2)
            return np.asarray(squares.sum(axis=0)).ravel()
        scaled = factors * (self.scale * weights * lengths)[:, np.newaxis]
        scaled[self._is_null] = 0.0
        return np.asarray(scaled.T @ scaled)

    def entries(self) -> Coordinates:
        """Return all entries."""

        def _weighted_sum(weights: np.ndarray) -> np.ndarray:
            """Sum the matrices by weights, without forming any matrix."""
            factors = np.where(self._is_null, 0.0, self.scale * weights)[:, np.newaxis]
            scaled = self.right.multiply(factors) if issparse(self.right) else self.right * factors
            total = self.left.T @ (scaled.tocsr() if issparse(scaled) else scaled)
            return as_dense(total).ravel()

        size = self.left.shape[1] * self.right.shape[1]
        return LazyCoordinates(self.norms(), _weighted_sum, size)

    def tangent(self, point: FixedRank, intercept: float) -> tuple[Coordinates, np.ndarray]:
        r"""Return tangent coordinates, the intercept last, and the inner products with the point.

        The two parts of the coordinates of :math:`u v^T` are :math:`u (V^T v)^T` and
        :math:`(U^T u) q^T`, with q the part of v outside the span of V. The sums use v instead of
        q, and callers project them by `project_coordinates`. A term with v, of norm
        :math:`\|U^T u\| \|v\|`, is no longer than the vector of all coordinates, so that the bound
        on the rounding error of that vector holds for the term, too.
        """
        along, across = self._times(self.right, point.right), self._times(self.left, point.left)
        along_norms, across_norms = row_norms(along), row_norms(across)
        # The norm of q follows from the norms of v and of V'v, by Pythagoras.
        lengths = np.where(self._right_norms > 0, self._right_norms, 1.0)
        squares = np.maximum(1 - (along_norms / lengths) ** 2, 0.0)
        outside = self._right_norms * np.sqrt(squares + _MARGIN * (self.right.shape[1] + 4))
        norms = self.scale * np.hypot(self._left_norms * along_norms, across_norms * outside)

        def _weighted_sum(weights: np.ndarray) -> np.ndarray:
            factors = self.scale * weights[:, np.newaxis]
            parts = self.left.T @ (factors * along), (self.right.T @ (factors * across)).T
            return np.concatenate([part.ravel() for part in parts])

        inner = self.scale * np.einsum("ij,ij,j->i", across, along, point.values)
        size = point.left.size + point.right.size + (intercept > 0)
        return LazyCoordinates(np.hypot(norms, intercept), _weighted_sum, size, intercept), inner

    def _times(self, factors: Any, basis: np.ndarray) -> np.ndarray:
        """Multiply `factors` by a basis; products of null matrices are 0."""
        if self.sample_weight is None:
            products = factors @ basis
        elif issparse(factors):
            products = one_by_one(factors, basis)
        else:
            # einsum adds multiples of whole columns, so that a row rounds alike wherever it stands.
            # `never_single` doubles a single row; the second copy is removed again.
            columns = laid_out(never_single(factors)).T
            products = np.einsum("ji,jk->ki", columns, np.ascontiguousarray(basis)).T
            products = products[: len(factors)]
        products[self._is_null] = 0.0
        return np.asarray(products)


def _mapped(values: np.ndarray, symmetric: np.ndarray | None) -> np.ndarray:
    return values if symmetric is None else symmetric @ values


def one_by_one(factors: Any, right: np.ndarray) -> np.ndarray:
    """Multiply each row of `factors` by `right` alone, so that its position affects no product."""
    if issparse(factors):
        return np.asarray(factors @ np.ascontiguousarray(right))
    # The order of a sum may depend on the memory layout, and numpy casts other dtypes in chunks,
    # which may cut a row in two.
    rows, columns = np.ascontiguousarray(factors, np.float64), np.ascontiguousarray(right.T)
    if len(columns) == 1:
        return row_products(rows, columns)[:, np.newaxis]
    return np.asarray((columns @ rows[:, :, np.newaxis])[:, :, 0])


def laid_out(factors: Any) -> Any:
    """Return dense factors with contiguous columns of doubles, copied if needed."""
    # Contiguous columns may be parts of longer columns.
    is_double = factors.dtype == np.float64
    if is_double and factors.itemsize == factors.strides[0] < factors.strides[1]:
        return factors
    return np.asarray(factors, np.float64, order="F")


def _factor_norms(factors: Any) -> np.ndarray:
    norms = sparse_row_norms(factors) if issparse(factors) else row_norms(factors)
    return np.where((norms >= 1 / _LONGEST) & (norms <= _LONGEST), norms, 0.0)
