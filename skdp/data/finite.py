"""Conversion of results to finite numbers where their computation has overflowed."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import issparse

from skdp.data.conversion import canonical_csr, float_dtype
from skdp.linalg.norms import with_data


def finite(rows: Any) -> Any:
    """Make the numbers of rows finite, each by itself: NaN becomes 0, infinity a large number.

    Parameters
    ----------
    rows : ndarray or sparse matrix of floating-point numbers, or data frame
        Rows.

    Returns
    -------
    ndarray, CSR matrix or data frame
        The rows in float32 or float64. Other columns of a data frame are left as they are.
    """
    if issparse(rows):
        rows = canonical_csr(rows)
        return with_data(rows, finite(rows.data))
    if hasattr(rows, "select_dtypes"):
        columns = rows.select_dtypes("floating").columns
        if len(columns):
            rows = rows.copy()
            rows[columns] = finite(rows[columns].to_numpy(dtype=np.float64))
        return rows
    with np.errstate(all="ignore"):
        array: np.ndarray = np.asarray(rows, dtype=float_dtype(rows))
    if np.isfinite(array).all():
        return array
    # Half of the largest number leaves room for what is computed from it to round up.
    largest = float(np.finfo(array.dtype).max) / 2
    return np.nan_to_num(array, nan=0.0, posinf=largest, neginf=-largest)


def of_finite(rows: Any, function: Callable[[Any], Any], dtype: np.dtype) -> Any:
    """Apply a function that takes each row by itself; rows that are not finite become NaN.

    Parameters
    ----------
    rows : ndarray or CSR matrix
        Rows.
    function : callable
        Makes finite rows of finite rows.
    dtype : dtype
        Floating-point type of what it is given, and of the result.

    Returns
    -------
    ndarray or CSR matrix
        The result.
    """
    with np.errstate(all="ignore"):
        made = function(rows.astype(dtype, copy=False)).astype(dtype, copy=False)
    return with_nan(made, not_finite_rows(rows))


def not_finite_rows(rows: Any) -> np.ndarray:
    """Tell which rows, dense or CSR, have an entry that is not finite."""
    is_finite = np.isfinite(rows.data if issparse(rows) else rows)
    if is_finite.all():
        return np.zeros(rows.shape[0], dtype=bool)
    if not issparse(rows):
        return np.asarray(~is_finite.all(axis=1))
    ends = np.concatenate([[0], np.cumsum(~is_finite)])[rows.indptr]
    return np.asarray(np.diff(ends) > 0)


def with_nan(rows: Any, is_null: np.ndarray) -> Any:
    """Set all, or all stored, entries of some rows to NaN."""
    if not is_null.any():
        return rows
    values = rows.data.copy() if issparse(rows) else rows.copy()
    values[np.repeat(is_null, np.diff(rows.indptr)) if issparse(rows) else is_null] = np.nan
    return with_data(rows, values) if issparse(rows) else values
