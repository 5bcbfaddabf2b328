"""Conversion of results to finite numbers where their computation has overflowed."""

from typing import Any

import numpy as np
from scipy.sparse import issparse

from skdp.data.sources import canonical_csr, float_dtype
from skdp.linalg.compressed import with_data

__all__ = ["finite"]


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
