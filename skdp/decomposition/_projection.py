"""Rows on released components, and back; nothing of a fit beside these is kept."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from skdp.data.containers import finite


class Projection(NamedTuple):
    """What is done to rows and to coordinates, as functions of arrays and of CSR matrices."""

    components: np.ndarray
    normalize: Callable[[Any], Any] | None = None  # as the unit has transformed the rows of a fit
    mean: np.ndarray | None = None
    stds: np.ndarray | None = None  # of the coordinates, where these are divided by them

    def apply(self, X: Any) -> np.ndarray:
        """Project rows; finite ones may overflow, and stay finite all the same."""
        with np.errstate(all="ignore"):
            rows = X if self.normalize is None else self.normalize(X)
            scores = np.asarray(rows @ self.components.T)
            if self.mean is not None:
                scores = scores - self.mean @ self.components.T
            return finite(scores if self.stds is None else scores / self.stds)

    def undo(self, scores: np.ndarray) -> np.ndarray:
        """Map coordinates back."""
        with np.errstate(all="ignore"):
            scores = scores if self.stds is None else scores * self.stds
            rows = np.asarray(scores @ self.components)
            return finite(rows if self.mean is None else rows + self.mean)
