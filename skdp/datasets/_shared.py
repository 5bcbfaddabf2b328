"""What several makers of data share: checks of singular values, and correlated features."""

from typing import Any

import numpy as np
from sklearn.utils import check_array


def checked_singular_values(
    given: Any, n_most: int, limit: str, *, may_be_negative: bool = False
) -> np.ndarray:
    """Convert singular values to an array; refuse negative ones and more than `n_most`."""
    values: np.ndarray = check_array(
        given, dtype=np.float64, ensure_2d=False, input_name="singular_values"
    )
    if values.ndim != 1 or len(values) > n_most:
        raise ValueError(
            f"singular_values has shape {values.shape}, but must have one dimension and at most "
            f"{n_most} entries, {limit}."
        )
    if not may_be_negative and values.min() < 0:
        raise ValueError(f"singular_values holds {values.min()}, but must not be negative.")
    return values


def correlated(X: np.ndarray, correlation: float) -> np.ndarray:
    """Turn independent entries along the last axis into autoregressive series; X is overwritten.

    Entries k apart then have the k-th power of the correlation; variances stay as they are.
    """
    fresh_part = np.sqrt(1 - correlation**2)
    for column in range(1, X.shape[-1] if correlation != 0 else 1):
        X[..., column] *= fresh_part
        X[..., column] += correlation * X[..., column - 1]
    return X
