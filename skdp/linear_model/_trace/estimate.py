"""What every solver of the regression returns."""

from dataclasses import dataclass

import numpy as np

from skdp.linalg.fixed_rank import FixedRank

__all__ = ["Estimate"]


@dataclass(frozen=True)
class Estimate:
    """Released coefficients, of a matrix and an intercept, and warnings about them.

    `n_cut` singular values were set to 0, as noise hides them. Features are clipped to `bounds`, of
    shape (2, n_entries), if there are any.
    """

    point: FixedRank
    offset: float
    n_cut: int = 0
    warnings: tuple[str, ...] = ()
    bounds: np.ndarray | None = None
