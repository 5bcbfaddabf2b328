"""Row norms that neither overflow nor underflow."""

import numpy as np
from scipy.sparse import csr_array

__all__ = ["centered_sparse_norms", "row_norms", "sparse_row_norms"]

# Beyond these exponents squares of scaled entries are safe without scaling further, and within
# them 2 ** exponent is a normal floating-point number.
_EXPONENT_RANGE = (-1000, 1000)
_UNIT_ROUNDOFF = 2.0**-53
_CACHED_ENTRIES = 1 << 15


def row_norms(values: np.ndarray, center: np.ndarray | None = None) -> np.ndarray:
    """Euclidean norms of the rows, minus `center`; inf or NaN for rows that are not finite."""
    out = np.empty(values.shape[0])
    # A few rows at a time, so that the passes over them stay in the processor's cache.
    size = max(1, _CACHED_ENTRIES // values.shape[1])
    for start in range(0, values.shape[0], size):
        part = values[start : start + size]
        if center is not None:
            part = part - center
        exponents = _exponents(np.abs(part).max(axis=1))
        scaled = part * np.ldexp(1.0, -exponents)[:, None]
        squares = np.einsum("ij,ij->i", scaled, scaled)
        out[start : start + size] = np.ldexp(np.sqrt(squares), exponents)
    return out


def sparse_row_norms(rows: csr_array) -> np.ndarray:
    """Euclidean norms of the rows of a CSR array without duplicate entries."""
    exponents = _exponents(_reduce_rows(np.maximum, np.abs(rows.data), rows.indptr))
    scaled = rows.data * np.repeat(np.ldexp(1.0, -exponents), np.diff(rows.indptr))
    scaled *= scaled
    return np.ldexp(np.sqrt(_reduce_rows(np.add, scaled, rows.indptr)), exponents)


def centered_sparse_norms(rows: csr_array, center: np.ndarray) -> np.ndarray:
    r"""Upper bounds of the norms of the rows minus `center`, without making them dense.

    :math:`\|x\|^2 - 2 x \cdot m + \|m\|^2` cancels when a row lies close to a long centre, so the
    rounding error it can have, at most :math:`8 d u (\|x\| + \|m\|)^2`, is added to it.
    """
    n_features = rows.shape[1]
    norms = sparse_row_norms(rows)
    center_norm = row_norms(center[None])[0]
    scale = np.maximum(norms, center_norm)
    scale[scale == 0] = 1.0
    lengths = np.diff(rows.indptr)
    # Each entry is divided by the scale of its row before it meets the centre.
    scaled = rows.data / np.repeat(scale, lengths)
    relative_center = center / (center_norm or 1.0)
    products = _reduce_rows(np.add, scaled * relative_center[rows.indices], rows.indptr)
    center_norms = center_norm / scale
    lengths_squared = (norms / scale) ** 2 - 2 * products * center_norms + center_norms**2
    margin = 8 * (n_features + 4) * _UNIT_ROUNDOFF * (norms / scale + center_norms) ** 2
    return scale * np.sqrt(np.maximum(lengths_squared, 0) + margin)


def _exponents(peaks: np.ndarray) -> np.ndarray:
    return np.clip(np.frexp(peaks)[1], *_EXPONENT_RANGE)


def _reduce_rows(ufunc: np.ufunc, values: np.ndarray, indptr: np.ndarray) -> np.ndarray:
    """Reduce `values` over the segments of `indptr`; an empty segment gives 0."""
    out = np.zeros(len(indptr) - 1)
    filled = np.diff(indptr) > 0
    if values.size:
        out[filled] = ufunc.reduceat(values, indptr[:-1][filled])
    return out
