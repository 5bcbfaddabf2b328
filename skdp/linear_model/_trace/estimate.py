"""What every solver of the regression gives back."""

from dataclasses import dataclass

import numpy as np

from skdp.linalg.fixed_rank import FixedRank

__all__ = ["Estimate"]


@dataclass(frozen=True)
class Estimate:
    """A released matrix and intercept, and what released values say against them.

    `n_cut` is the number of singular values that noise has taken. Features are clipped to their
    `bounds`, of shape (2, n_entries), if there are any.
    """

    point: FixedRank
    offset: float
    n_cut: int = 0
    warnings: tuple[str, ...] = ()
    bounds: np.ndarray | None = None
