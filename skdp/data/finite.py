"""Numbers that are finite, whatever overflowed on the way to them."""

from typing import Any

import numpy as np
from scipy.sparse import issparse

from skdp.data.sources import canonical_csr

__all__ = ["finite"]


def finite(rows: Any) -> Any:
    """Make numbers of rows finite, each by itself: NaN becomes 0, the infinite large.

    Parameters
    ----------
    rows : array-like, sparse matrix or data frame
        Rows.

    Returns
    -------
    ndarray, CSR matrix or data frame
        In float32 or float64; whole numbers, and what holds no numbers, are left as they are.
    """
    if issparse(rows):
        return _finite_sparse(canonical_csr(rows))
    if hasattr(rows, "select_dtypes"):
        return _finite_frame(rows)
    array = np.asarray(rows)
    if array.dtype.kind in "iub":
        return array
    if array.dtype not in (np.float32, np.float64):
        try:
            with np.errstate(all="ignore"):
                array = array.astype(np.float64)
        except Exception:
            # Texts, for a step that takes these, or what will not be a number.
            return rows
    if np.isfinite(array).all():
        return array
    # Half of the largest: what is computed from factors may round up.
    largest = float(np.finfo(array.dtype).max) / 2
    return np.nan_to_num(array, nan=0.0, posinf=largest, neginf=-largest)


def _finite_sparse(rows: Any) -> Any:
    if np.isfinite(rows.data).all():
        return rows
    rows = rows.copy()
    rows.data = finite(rows.data)
    return rows


def _finite_frame(frame: Any) -> Any:
    columns = frame.select_dtypes("floating").columns
    if len(columns):
        frame = frame.copy()
        frame[columns] = finite(frame[columns].to_numpy(dtype=np.float64))
    return frame
