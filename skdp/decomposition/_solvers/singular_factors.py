"""What the solvers for entries, edges and the like give back."""

from dataclasses import dataclass

import numpy as np

__all__ = ["SingularFactors"]


@dataclass(frozen=True)
class SingularFactors:  # numpydoc ignore=PR02
    """Released singular value decomposition of a matrix.

    Parameters
    ----------
    left : ndarray of shape (n_rows, size)
        Left singular vectors; of a symmetric matrix the eigenvectors with the signs of the
        eigenvalues.
    singular_values : ndarray of shape (size,)
        Descending and not negative.
    right : ndarray of shape (n_columns, size)
        Right singular vectors.
    noise_scale : float
        Standard deviation of the noise in a singular value.
    n_above_noise : int
        How many components stand out from what noise alone would give.
    failed : bool, default=False
        Whether a basis exceeded the coherence bound, so that the iteration ended early.
    """

    left: np.ndarray
    singular_values: np.ndarray
    right: np.ndarray
    noise_scale: float
    n_above_noise: int
    failed: bool = False
