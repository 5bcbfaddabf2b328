"""Compressed sparse arrays that share memory with others."""

from typing import Any

import numpy as np
from scipy.sparse import csc_array, csr_array


def with_data(rows: csr_array, data: np.ndarray) -> csr_array:
    """Make an array with the same sparsity pattern and other data."""
    return csr_array((data, rows.indices, rows.indptr), shape=rows.shape)


def rows_of(X: csr_array, rows: slice) -> csr_array:
    """View consecutive rows."""
    start, stop = X.indptr[rows.start], X.indptr[rows.stop]
    indptr = X.indptr[rows.start : rows.stop + 1] - start
    shape = rows.stop - rows.start, X.shape[1]
    return _view(csr_array, shape, X.data[start:stop], X.indices[start:stop], indptr)


def transposed(rows: csr_array) -> csc_array:
    """View the transpose."""
    return _view(csc_array, rows.shape[::-1], rows.data, rows.indices, rows.indptr)


def _view(kind: Any, shape: tuple[int, int], data: np.ndarray, *places: np.ndarray) -> Any:
    view = kind(shape, dtype=data.dtype)
    # Set afterwards: the constructor, and the attribute T, copy data that are less than half of
    # their base array.
    view.data, (view.indices, view.indptr) = data, places
    return view
