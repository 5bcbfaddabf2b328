"""Clipping that holds in floating point: no norm overflows, no clipped norm exceeds its bound."""

import numpy as np

from skdp.linalg.norms import row_norms

__all__ = ["SMALLEST_BOUND", "SMALLEST_WEIGHT", "clip_rows", "clip_weights"]

# Squares of bounds, and what is computed from them, must stay normal floating-point numbers.
SMALLEST_BOUND = 1e-100

# A smaller weight is taken for 0: products of weights and entries then neither overflow nor lose
# digits, in whatever order they are formed.
SMALLEST_WEIGHT = 2.0**-500

_EPS = np.finfo(np.float64).eps


def clip_weights(norms: np.ndarray, bound: float, n_features: int) -> np.ndarray:
    """Compute factors that bring vectors of the given norms to norm at most `bound`.

    Parameters
    ----------
    norms : ndarray of shape (n,)
        Norms, or upper bounds of them, as computed in float64. NaN stands for a null row.
    bound : float
        Largest norm allowed.
    n_features : int
        Length of the vectors, for the rounding error of a norm.

    Returns
    -------
    ndarray of shape (n,)
        Weights in [0, 1]: 1 within the bound, 0 for null rows and for vectors so long that their
        weight would be below `SMALLEST_WEIGHT`.
    """
    shrunk = bound * (1 - (n_features + 4) * _EPS)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        weights = np.minimum(shrunk / norms, 1.0)
    weights[~(weights >= SMALLEST_WEIGHT)] = 0.0
    return weights


def clip_rows(values: np.ndarray, bound: float) -> np.ndarray:
    """Clip the rows of `values` to norm at most `bound`, in place; a non-finite row becomes 0.

    Callers silence the warnings of overflow.
    """
    weights = clip_weights(row_norms(values), bound, values.shape[1])
    values *= weights[:, None]
    values[weights == 0] = 0.0
    return values
