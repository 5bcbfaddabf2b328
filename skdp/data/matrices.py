"""Measurement matrices of a regression, of rank one or dense, which are transformed when read."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise, starmap
from operator import methodcaller
from typing import Any, NoReturn

import numpy as np
from scipy import sparse
from scipy.sparse import issparse

from skdp.data import containers
from skdp.data.people import Agreed, People, UnitView, sample_weight_of
from skdp.data.reduce import on_block, rounding_of_depth
from skdp.data.sources import Source, block_starts
from skdp.exceptions import named
from skdp.linalg.matrices import (
    DenseMatrices,
    FixedRank,
    Matrices,
    OuterMatrices,
    one_by_one,
)
from skdp.linalg.norms import as_dense


class RankOneMatrices(containers.SkdpContainer):
    """Matrices of rank one, one for each record, stored as left and right factors.

    The i-th matrix is X_i = u_i v_i', for the i-th rows u_i of `left` and v_i of `right`.
    Measurements of a matrix M are then y_i = <X_i, M> = u_i' M v_i: a cell of M in matrix
    completion, or a linear prediction for one of many tasks in multi-task regression. Splitting,
    resampling and searching in scikit-learn accept these matrices like an array with a row for
    each matrix.

    Parameters
    ----------
    left : array-like or sparse matrix of shape (n_matrices, n_rows)
        Left factors. A dense array of float32 or float64 is not copied. Sparse matrices become CSR
        arrays, and other numbers become float64.
    right : array-like or sparse matrix of shape (n_matrices, n_columns)
        Right factors, stored in the same way.

    Attributes
    ----------
    left : ndarray or sparse array of shape (n_matrices, n_rows)
        Left factors.
    right : ndarray or sparse array of shape (n_matrices, n_columns)
        Right factors.

    Raises
    ------
    ValueError
        If `left` or `right` is not 2-D, has no column or other entries than numbers, or if
        lengths differ.

    Notes
    -----
    **Privacy.** Nothing is released here. An estimator that takes these matrices protects one
    record, which is u_i, v_i and the response y_i. In matrix completion a record is one observed
    cell with its row, its column and its value. All cells of a row, which may be those of one
    person, are protected together with ``privacy_unit="user"`` only.

    Only the two factors take memory. The factors of `from_indices` take 32 bytes a record, or 24
    with ``dtype=numpy.float32``, whatever the shape of the matrices. A slice ``X[a:b]`` is a view
    and shares memory with X; a mask or a list of rows copies the rows.

    As with a sparse matrix, and unlike an array, a single row ``X[i]`` is still 2-D: a
    `RankOneMatrices` of length 1. `numpy.asarray` is refused, since it would write out all entries;
    `toarray` does that.

    Examples
    --------
    Three cells are observed of a matrix of two rows and four columns:

    >>> from skdp import RankOneMatrices
    >>> rows, columns, values = [0, 0, 1], [1, 3, 2], [4.0, 3.5, 5.0]
    >>> X = RankOneMatrices.from_indices(rows, columns, shape=(2, 4))
    >>> X
    RankOneMatrices(shape=(3, 8), matrix_shape=(2, 4), dtype=float64)
    >>> X[1].toarray().reshape(2, 4)
    array([[0., 0., 0., 1.],
           [0., 0., 0., 0.]])

    Matrices split like the rows of an array:

    >>> from sklearn.model_selection import train_test_split
    >>> X_train, X_test, y_train, y_test = train_test_split(X, values, test_size=1)
    >>> len(X_train), len(X_test)
    (2, 1)
    """

    ndim = 2

    def __init__(self, left: Any, right: Any) -> None:
        self.left: containers.RawBlock = _checked_part(left, "left")
        self.right: containers.RawBlock = _checked_part(right, "right")
        _check_same_length(left=self.left, right=self.right)

    @classmethod
    @named
    def from_indices(
        cls, rows: Any, columns: Any, shape: tuple[int, int], dtype: Any = np.float64
    ) -> "RankOneMatrices":
        """Make matrices that are 1 in one cell and 0 elsewhere, as for matrix completion.

        Parameters
        ----------
        rows : array-like of shape (n_matrices,)
            Row of each cell, counted from 0.
        columns : array-like of shape (n_matrices,)
            Column of each cell, counted from 0.
        shape : tuple of two ints
            Number of rows and of columns of the matrices, both public.
        dtype : dtype, default=numpy.float64
            Floating-point type of the factors.

        Returns
        -------
        RankOneMatrices
            One matrix for each cell.

        Raises
        ------
        ValueError
            If `rows` or `columns` are not 1-D integers within `shape` or differ in length, `shape`
            is not a pair of positive integers, or `dtype` neither float32 nor float64.
        """
        n_rows, n_columns = containers.checked_shape(shape)
        dtype = containers.checked_dtype(dtype)
        left = _one_hot(rows, n_rows, dtype, "rows")
        right = _one_hot(columns, n_columns, dtype, "columns")
        _check_same_length(rows=left, columns=right)
        return cls._of_parts(left, right)

    @classmethod
    def from_tasks(cls, X: Any, tasks: Any, n_tasks: int) -> "RankOneMatrices":
        """Make matrices with a row of `X` in the column of its task, and 0 elsewhere.

        The measured matrix then has a column of coefficients for each task.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_matrices, n_features)
            Rows of all tasks.
        tasks : array-like of shape (n_matrices,)
            Task of each row, counted from 0.
        n_tasks : int
            Number of tasks, public.

        Returns
        -------
        RankOneMatrices
            One matrix for each row, of shape (n_features, n_tasks).

        Raises
        ------
        ValueError
            If `X` is not 2-D, has no column or other entries than numbers, `n_tasks` is not a
            positive integer, or `tasks` are not 1-D integers below it, one for each row.
        """
        left = _checked_part(X, "X")
        _, n_tasks = containers.checked_shape((left.shape[1], n_tasks))
        right = _one_hot(tasks, n_tasks, left.dtype, "tasks")
        _check_same_length(X=left, tasks=right)
        return cls._of_parts(left, right)

    @classmethod
    def _of_parts(cls, left: containers.RawBlock, right: containers.RawBlock) -> "RankOneMatrices":
        """Make matrices from factors that have been checked."""
        matrices = cls.__new__(cls)
        matrices.left, matrices.right = left, right
        return matrices

    @property
    def shape(self) -> tuple[int, int]:
        """Number of matrices, and of entries of each matrix."""
        return len(self), self.left.shape[1] * self.right.shape[1]

    @property
    def matrix_shape(self) -> tuple[int, int]:
        """Number of rows and of columns of each matrix."""
        return self.left.shape[1], self.right.shape[1]

    @property
    def dtype(self) -> np.dtype:
        """Floating-point type of the entries: float32 if both factors have it, else float64."""
        return np.result_type(self.left.dtype, self.right.dtype)

    @property
    def block_starts(self) -> np.ndarray:
        """Index of the first matrix of each block, and the number of matrices; public facts."""
        return block_starts(len(self), self.dense_width, is_sparse=self.is_sparse)

    @property
    def is_sparse(self) -> bool:
        """Whether both factors are sparse."""
        return self.dense_width == 0

    @property
    def dense_width(self) -> int:
        """Number of columns of the dense factors, which determines the length of blocks."""
        parts = (self.left, self.right)
        return sum(part.shape[1] for part in parts if not sparse.issparse(part))

    def __len__(self) -> int:
        return int(self.left.shape[0])

    def __repr__(self) -> str:
        return (
            f"RankOneMatrices(shape={self.shape}, matrix_shape={self.matrix_shape}, "
            f"dtype={self.dtype})"
        )

    def __getitem__(self, key: Any) -> "RankOneMatrices":
        rows = _chosen_rows(key, len(self))
        return self._of_parts(*(containers.taken(part, rows) for part in (self.left, self.right)))

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(
            "RankOneMatrices are not converted to an array implicitly, since an array takes memory "
            "for every entry of every matrix; call toarray() for an array."
        )

    def toarray(self) -> np.ndarray:
        """Return dense matrices, each as a row, for small cases.

        Returns
        -------
        ndarray of shape (n_matrices, n_rows * n_columns)
            Entries in C order.
        """
        left, right = as_dense(self.left), as_dense(self.right)
        return (left[:, :, None] * right[:, None, :]).reshape(self.shape)

    def check(self) -> None:
        """Refuse factors that no estimator can use.

        Raises
        ------
        ValueError
            If `left` or `right` contains NaN, infinity, or indices out of range.
        """
        # The container is checked again, as the user may have changed its indices.
        for part in (self.left, self.right):
            if containers.not_finite_rows(containers.checked_container(part)).any():
                raise ValueError("Input X contains NaN or infinity.")

    def blocks(self, group: range) -> Iterator[tuple[slice, "RankOneMatrices"]]:
        """Yield the blocks with the given numbers.

        Parameters
        ----------
        group : range
            Numbers of the blocks, below ``len(block_starts) - 1``.

        Yields
        ------
        tuple of slice and RankOneMatrices
            The row numbers of a block, and its matrices, which share memory with these.
        """
        for rows in starmap(slice, pairwise(self.block_starts[group.start : group.stop + 1])):
            yield rows, self[rows]


def _checked_part(values: Any, name: str) -> containers.RawBlock:
    """Convert a factor to an array or a CSR array of floating-point numbers."""
    values = containers.checked_container(values)
    part = values if sparse.issparse(values) else containers.hide_error_text(np.asarray, values)
    if part.ndim != 2 or part.shape[1] == 0:
        raise ValueError(f"{name} must be 2-D with at least one column, got shape {part.shape}.")
    if not np.can_cast(part.dtype, np.float64):
        # The error names the type only: a dtype of texts would show how long the longest text is.
        kind = part.dtype.type.__name__
        raise ValueError(f"{name} must have real numbers of at most 64 bits, got dtype {kind}.")
    if sparse.issparse(part):
        part = containers.as_canonical(part)
    return part if part.dtype in (np.float32, np.float64) else part.astype(np.float64)


_PLACES = " pandas.Index(known_ids).get_indexer(ids) makes such integers of any ids."


def _one_hot(indices: Any, size: int, dtype: Any, name: str) -> sparse.csr_array:
    """Make rows of length `size` that are 1 at the given indices."""
    indices = containers.hide_error_text(np.asarray, containers.checked_container(indices))
    if indices.ndim != 1 or indices.dtype.kind not in "iu":
        kind = indices.dtype.type.__name__
        raise ValueError(
            f"{name} must be 1-D integers, got dtype {kind} and shape {indices.shape}.{_PLACES}"
        )
    # The error shows no index, as indices may be private.
    if np.any((indices < 0) | (indices >= size)):
        raise ValueError(
            f"{name} must be integers from 0 to {size - 1}, but some are negative or larger. "
            f"Subtract 1 from ids that begin at 1; or is shape the other way round?{_PLACES}"
        )
    index_dtype = np.int32 if max(len(indices), size) < 2**31 else np.int64
    indptr = np.arange(len(indices) + 1, dtype=index_dtype)
    parts = np.ones(len(indices), dtype=dtype), indices.astype(index_dtype), indptr
    return sparse.csr_array(parts, shape=(len(indices), size))


def _check_same_length(**parts: containers.RawBlock) -> None:
    first, second = (part.shape[0] for part in parts.values())
    if first != second:
        raise ValueError(f"{' and '.join(parts)} must have one length, got {first} and {second}.")


def _chosen_rows(key: Any, n_rows: int) -> slice | np.ndarray:
    """Read a key as numpy does; return a slice of step 1, or an array of integers."""
    if isinstance(key, tuple) and key[1:] == (Ellipsis,):
        key = key[0]  # scikit-learn indexes containers by ``X[rows, ...]``
    if isinstance(key, slice) and key.step in (None, 1):
        start, stop, _ = key.indices(n_rows)
        return slice(start, max(start, stop))
    if not isinstance(key, slice | tuple) and key is not Ellipsis:
        key = containers.hide_error_text(np.asarray, containers.checked_container(key))
        key = key if key.size else key.astype(np.intp)  # numpy makes floats of an empty list
    rows = np.atleast_1d(np.arange(n_rows)[key])
    if rows.ndim > 1:
        raise IndexError(f"rows are chosen by one dimension, got a key of {rows.ndim}.")
    return rows


# ------------------------------
# Measurement matrices that are read block by block, and transformed in each pass.

# Number of entries of a piece of a block; a piece stays in cache while its products are computed.
_PIECE_ENTRIES = 1 << 18  # not studied
_PIECE_ROWS = (32, 8192)  # fewest and most matrices of a piece; not studied
#: numpy starts a loop for each row, which is slow for rows of at most this many entries.
SHORT_ROW = 32  # not studied


@dataclass(eq=False)
class Design(UnitView):  # numpydoc ignore=PR02
    r"""Matrices :math:`A\,((X_i - C) \circ S)\,B` for public A, B, C and S, computed when read.

    Sums are computed block by block in float64. Blocks depend only on the shape and the lengths of
    parts, which are public.

    Parameters
    ----------
    source : Source or RankOneMatrices
        Source of the matrices, each of which is a row.
    matrix_shape : tuple of two ints
        Number of rows and of columns of each matrix.
    n_jobs : int or None, default=None
        Threads that share the blocks, as in :func:`skdp.data.reduce.map_sum`.
    multiplier : float or ndarray, default=1.0
        S, a number or, for stored matrices, an array with a number for each entry.
    center : ndarray or None, default=None
        C, only for stored matrices: `source` has their entries, and not two factors.
    largest : ndarray or None, default=None
        Absolute values to which the entries of :math:`(X_i - C) \circ S` are clipped, only for
        stored matrices.
    row_map : ndarray or None, default=None
        A, only for stored matrices; factors are multiplied by A in advance, by `mapped`.
    column_map : ndarray or None, default=None
        B, only for stored matrices.
    writes_factors_out : bool, default=False
        Whether to compute the outer products of factors, and treat them as stored matrices.
    people : People or None, default=None
        The person to whom each matrix belongs, if users are protected. Then each person counts once
        in every sum.
    agreed : Agreed or None, default=None
        Facts that all owners of a federated fit agree on, if these are the matrices of one owner.
    """

    source: Source | RankOneMatrices
    matrix_shape: tuple[int, int]
    n_jobs: int | None = None
    multiplier: Any = 1.0
    center: np.ndarray | None = None
    largest: np.ndarray | None = None
    row_map: np.ndarray | None = None
    column_map: np.ndarray | None = None
    writes_factors_out: bool = False
    people: People | None = None
    agreed: Agreed | None = None

    in_pieces = True

    def blocks(self, group: range) -> Iterator[tuple[slice, Iterator[tuple[slice, Matrices]]]]:
        """Yield the blocks, each as an iterator over pieces that stay in cache."""
        is_scaled = self.center is not None or isinstance(self.multiplier, np.ndarray)
        scaling = self._scaling_arrays() if is_scaled else None
        blocks = self.source.blocks(group)
        return ((rows, self._pieces(rows, block, scaling)) for rows, block in blocks)

    def _scaling_arrays(self) -> list[np.ndarray]:
        """Return arrays of centers, scales and results for the rows of a piece.

        Centers and scales of short rows are repeated, so that one loop of numpy takes all rows.
        """
        length = min(self._piece_length, int(np.diff(self.block_starts).max()))
        n_times = length if self.n_entries <= SHORT_ROW else 1
        center = 0.0 if self.center is None else self.center.ravel()
        shape = n_times, self.n_entries
        arrays = (np.full(shape, one) for one in (center, np.ravel(self.multiplier)))
        # One array serves all pieces, as the operating system takes time to clear a new array.
        return [*arrays, np.empty((length, self.n_entries))]

    @property
    def stores_entries(self) -> bool:
        """Whether blocks have all entries of matrices, rather than two factors."""
        return self.writes_factors_out or not isinstance(self.source, RankOneMatrices)

    n_records = UnitView.n_units

    @property
    def n_entries(self) -> int:
        """Number of entries of a matrix."""
        return math.prod(self.matrix_shape)

    def is_sparse(self, side: int) -> bool:
        """Return whether the left factors (side 0) or the right ones (side 1) are sparse."""
        if not isinstance(self.source, RankOneMatrices):
            return False
        return bool(issparse((self.source.left, self.source.right)[side]))

    def mapped(self, row_map: np.ndarray | None, column_map: np.ndarray | None) -> "Design":
        """Multiply matrices by symmetric matrices from both sides.

        A vector means a diagonal matrix, with which sparse factors stay sparse.
        """
        if not isinstance(self.source, RankOneMatrices):
            return replace(self, row_map=row_map, column_map=column_map)
        times = partial(_times, separately=self.people is not None)
        parts = times(self.source.left, row_map), times(self.source.right, column_map)
        return replace(self, source=RankOneMatrices(*parts))

    @property
    def rounding(self) -> float:
        """Bound on the rounding error of a sum, in units of the largest contribution."""
        # The contribution of one matrix is itself a sum, whose additions count, too.
        depth = self.depth + terms_within(self.matrix_shape)
        return rounding_of_depth(depth, self.n_records)

    def norms(self) -> np.ndarray:
        """Compute the norm of each matrix, or an upper bound on it."""
        return self.map_rows(on_block(methodcaller("norms")))

    def inner(self, point: FixedRank) -> np.ndarray:
        """Compute the inner product of each matrix with the matrix `point`."""
        return self.map_rows(on_block(lambda matrices: matrices.tangent(point, 0.0)[1]))

    def clipped_inner(self, point: np.ndarray, bounds: np.ndarray) -> np.ndarray:
        """Clip the entries of each matrix to bounds; compute its inner product with `point`."""
        kernel = on_block(lambda matrices: np.clip(entries_of(matrices), *bounds) @ point)
        return replace(self, writes_factors_out=True).map_rows(kernel)

    @property
    def _piece_length(self) -> int:
        fewest, most = _PIECE_ROWS
        return min(max(_PIECE_ENTRIES // self.n_entries, fewest), most)

    def _pieces(
        self, rows: slice, block: Any, scaling: list[np.ndarray] | None
    ) -> Iterator[tuple[slice, Matrices]]:
        """Cut a block of stored matrices into pieces that stay in cache; factors are one piece."""
        sample_weight = sample_weight_of(self.people, rows)
        if not self.stores_entries:
            yield rows, OuterMatrices(block.left, block.right, self.multiplier, sample_weight)
            return
        # Pieces are about equally long, so that no piece has a single matrix, unless its block has:
        # the product of a single matrix may round differently.
        n_rows = block.shape[0]
        n_pieces = -(-n_rows // self._piece_length)
        for start, stop in pairwise(n_rows * piece // n_pieces for piece in range(n_pieces + 1)):
            piece = slice(rows.start + start, rows.start + stop)
            yield piece, self._dense(block[start:stop], piece, scaling)

    def _dense(self, block: Any, piece: slice, scaling: list[np.ndarray] | None) -> DenseMatrices:
        """Return dense, centered, scaled matrices, whose products apply the maps of both sides."""
        rows = block if isinstance(block, np.ndarray) else block.toarray()
        scale = self.multiplier
        if scaling is None:
            rows = rows.astype(np.float64, copy=False)
        else:
            center, multiplier, values = (one[: len(rows)] for one in scaling)
            np.subtract(rows, center, out=values)
            values *= multiplier
            if self.largest is not None:
                largest = self.largest.ravel()
                # Clipping takes longer than this comparison, which rarely shows that any entry is
                # too large. "not" includes blocks with NaN: all comparisons with NaN are false.
                if not max(values.max(), -values.min()) <= largest.min():
                    np.clip(values, -largest, largest, out=values)
            rows, scale = values, 1.0
        sample_weight = sample_weight_of(self.people, piece)
        if sample_weight is not None:
            # In Fortran order or another dtype, a row's product may depend on the row's position.
            rows = np.ascontiguousarray(rows, np.float64)
        values = rows.reshape(-1, *self.matrix_shape)
        return DenseMatrices(values, scale, self.row_map, self.column_map, sample_weight)


def terms_within(matrix_shape: tuple[int, int]) -> int:
    """Bound the number of products that one matrix adds to an entry of a second moment."""
    return max(matrix_shape) if min(matrix_shape) > 1 else 0


def entries_of(matrices: Matrices) -> np.ndarray:
    """Return the entries of stored matrices, with a row for each matrix."""
    assert isinstance(matrices, DenseMatrices)
    return matrices.values.reshape(len(matrices), -1)


def _times(factors: Any, symmetric: np.ndarray | None, *, separately: bool) -> Any:
    """Multiply factors by a symmetric matrix or a diagonal; rows that overflow become null.

    `separately` keeps the rounding of each factor independent of other factors.
    """
    if symmetric is None:
        return factors
    if symmetric.ndim == 1 and issparse(factors):
        scaled = factors.multiply(symmetric).tocsr()
        scaled.data[~np.isfinite(scaled.data)] = 0.0
        return scaled
    if symmetric.ndim == 1:
        mapped = factors * symmetric
    else:
        mapped = one_by_one(factors, symmetric) if separately else factors @ symmetric
    mapped[~np.isfinite(mapped).all(axis=1)] = 0.0
    # In Fortran order, later passes multiply the factors without a copy.
    return np.asarray(mapped, order="F") if separately else mapped
