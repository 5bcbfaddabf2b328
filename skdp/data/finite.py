"""Numbers that are finite, whatever overflowed on the way to them."""

from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from skdp.data.sources import canonical_csr

__all__ = ["finite"]


def finite(rows: Any) -> Any:
    """Make numbers of rows finite, each by itself: NaN becomes 0, the infinite large.

    Parameters
    ----------
    rows : ndarray or sparse matrix of floating-point numbers, or data frame
        Rows.

    Returns
    -------
    ndarray, CSR matrix or data frame
        In float32 or float64; what else a data frame holds is left as it is.
    """
    if issparse(rows):
        rows = canonical_csr(rows)
        return csr_array((finite(rows.data), rows.indices, rows.indptr), shape=rows.shape)
    if hasattr(rows, "select_dtypes"):
        columns = rows.select_dtypes("floating").columns
        if len(columns):
            rows = rows.copy()
            rows[columns] = finite(rows[columns].to_numpy(dtype=np.float64))
        return rows
    with np.errstate(all="ignore"):
        kind = np.float32 if rows.dtype == np.float32 else np.float64
        array: np.ndarray = np.asarray(rows, dtype=kind)
    if np.isfinite(array).all():
        return array
    # Half of the largest: what is computed from factors may round up.
    largest = float(np.finfo(array.dtype).max) / 2
    return np.nan_to_num(array, nan=0.0, posinf=largest, neginf=-largest)
