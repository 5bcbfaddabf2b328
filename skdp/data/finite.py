"""Numbers that are finite, whatever overflowed on the way to them."""

from typing import Any

import numpy as np
from scipy.sparse import issparse

__all__ = ["finite"]


def finite(rows: Any) -> Any:
    """Make numbers of rows finite, each by itself: NaN becomes 0, the infinite large.

    Parameters
    ----------
    rows : ndarray, sparse matrix or data frame
        Rows; what holds no floating-point numbers is left as it is.

    Returns
    -------
    ndarray, sparse matrix or data frame
        The same object if all is finite.
    """
    if issparse(rows):
        if np.isfinite(rows.data).all():
            return rows
        rows = rows.copy()
        rows.data = finite(rows.data)
        return rows
    if hasattr(rows, "fillna"):
        return rows.fillna(0).clip(-_largest(np.float32), _largest(np.float32))
    is_plain = isinstance(rows, np.ndarray) and rows.dtype.kind == "f"
    if not is_plain or np.isfinite(rows).all():
        return rows
    largest = _largest(rows.dtype)
    return np.nan_to_num(rows, nan=0.0, posinf=largest, neginf=-largest)


def _largest(dtype: Any) -> float:
    return float(np.finfo(dtype).max) / 2
