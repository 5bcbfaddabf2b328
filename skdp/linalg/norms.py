"""Row norms that neither overflow nor underflow."""

import numpy as np
from scipy.sparse import csr_array

# Exponents of scale factors are clipped to this range, in which 2 ** exponent is a normal
# floating-point number. Beyond it, squares of scaled entries are safe as they are.
_EXPONENT_RANGE = (-1000, 1000)  # not tuned
UNIT_ROUNDOFF = 2.0**-53  # not tuned
# Least relative rounding that every sensitivity includes. It leaves room for what bounds leave out:
# a basis, for example, is orthonormal only up to rounding.
LEAST_ROUNDING = 1e-5  # not tuned
# Within these limits, sums of squares have neither overflowed nor underflowed.
_SAFE_SQUARES = (1e-200, 1e200)  # not tuned


def row_norms(values: np.ndarray) -> np.ndarray:
    """Compute the norms of the rows; inf or NaN for rows that are not finite."""
    squares = row_squares(values)
    norms = np.sqrt(squares)
    extreme = ~((squares > _SAFE_SQUARES[0]) & (squares < _SAFE_SQUARES[1]))
    if extreme.any():
        norms[extreme] = _scaled_norms(values[extreme])
    return norms


def row_products(values: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Compute the inner product of each row with that row of `others`, or with its only row.

    If BLAS computed the products, the rounding of a row would depend on its place among the rows.
    """
    if len(values) == 1:
        return row_products(np.repeat(values, 2, axis=0), others)[:1]
    return np.asarray(np.einsum("ij,ij->i", np.ascontiguousarray(values), others))


def row_squares(values: np.ndarray) -> np.ndarray:
    """Add up the squares of each row in double precision, in one order for any number of rows."""
    if len(values) == 1:
        # numpy adds up a single long row in another order than several.
        return row_squares(np.repeat(values, 2, axis=0))[:1]
    return np.asarray(np.einsum("ij,ij->i", values, values, dtype=np.float64))


def _scaled_norms(values: np.ndarray) -> np.ndarray:
    """Compute the norms of rows whose squares may overflow or underflow."""
    exponents = _exponents(np.abs(values).max(axis=1))
    scaled = values * np.ldexp(1.0, -exponents)[:, None]
    return np.ldexp(np.sqrt(row_squares(scaled)), exponents)


def sparse_row_norms(rows: csr_array) -> np.ndarray:
    """Compute the Euclidean norms of the rows of a CSR array without duplicate entries."""
    exponents = _exponents(_reduce_rows(np.maximum, np.abs(rows.data), rows.indptr))
    scaled = rows.data * np.repeat(np.ldexp(1.0, -exponents), np.diff(rows.indptr))
    scaled *= scaled
    return np.ldexp(np.sqrt(_reduce_rows(np.add, scaled, rows.indptr)), exponents)


def centered_sparse_norms(rows: csr_array, center: np.ndarray) -> np.ndarray:
    r"""Bound the norms of the rows minus `center` from above, without making them dense.

    :math:`\|x\|^2 - 2 x \cdot m + \|m\|^2` cancels if a row is close to a long center. So a bound
    on its rounding error, :math:`8 d u (\|x\| + \|m\|)^2`, is added to it.
    """
    n_features = rows.shape[1]
    norms = sparse_row_norms(rows)
    center_norm = row_norms(center[None])[0]
    scale = np.maximum(norms, center_norm)
    scale[scale == 0] = 1.0
    lengths = np.diff(rows.indptr)
    # Each entry is divided by the scale of its row before it meets the center.
    scaled = rows.data / np.repeat(scale, lengths)
    relative_center = center / (center_norm or 1.0)
    products = _reduce_rows(np.add, scaled * relative_center[rows.indices], rows.indptr)
    center_norms = center_norm / scale
    lengths_squared = (norms / scale) ** 2 - 2 * products * center_norms + center_norms**2
    margin = 8 * (n_features + 4) * UNIT_ROUNDOFF * (norms / scale + center_norms) ** 2
    bounds = scale * np.sqrt(np.maximum(lengths_squared, 0) + margin)
    return np.where(np.isinf(norms), np.inf, bounds)


def _exponents(peaks: np.ndarray) -> np.ndarray:
    return np.clip(np.frexp(peaks)[1], *_EXPONENT_RANGE)


def _reduce_rows(ufunc: np.ufunc, values: np.ndarray, indptr: np.ndarray) -> np.ndarray:
    """Reduce `values` over the segments of `indptr`; an empty segment gives 0."""
    out = np.zeros(len(indptr) - 1)
    filled = np.diff(indptr) > 0
    if values.size:
        out[filled] = ufunc.reduceat(values, indptr[:-1][filled])
    return out
