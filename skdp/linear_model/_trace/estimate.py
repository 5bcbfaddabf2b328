"""What every solver of the regression gives back."""

from dataclasses import dataclass

import numpy as np

from skdp.linalg.fixed_rank import FixedRank

__all__ = ["Estimate"]


@dataclass(frozen=True)
class Estimate:
    """A released matrix and intercept.

    Attributes
    ----------
    point : FixedRank
        The matrix.
    offset : float
        The intercept.
    n_cut : int
        How many singular values noise has taken.
    doubts : tuple of str
        What released values say against it.
    bounds : ndarray of shape (2, n_entries) or None
        The smallest and the largest value of each feature, others being clipped to them.
    """

    point: FixedRank
    offset: float
    n_cut: int = 0
    doubts: tuple[str, ...] = ()
    bounds: np.ndarray | None = None
