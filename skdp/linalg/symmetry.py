"""Whether a matrix is symmetric up to rounding."""

from typing import Any

import numpy as np
from scipy.sparse import issparse

_TOLERANCE = 1e-10  # not tuned


def is_symmetric(X: Any) -> bool:
    """Compare each pair of entries of a square matrix relative to its own size, not to others."""
    with np.errstate(all="ignore"):
        difference, size = abs(X - X.T), abs(X)
        size = size.maximum(size.T) if issparse(X) else np.maximum(size, size.T)
        too_large = difference > _TOLERANCE * size
        return bool(too_large.nnz == 0 if issparse(X) else not too_large.any())
