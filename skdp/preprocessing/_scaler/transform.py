"""Rows in the units of released scales, and back; sparse rows stay sparse."""

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

from skdp.data.containers import finite, float_dtype
from skdp.linalg.norms import with_data


class Scaling(NamedTuple):
    """What is done to each column, as functions of arrays and of CSR matrices."""

    center: np.ndarray
    scale: np.ndarray
    is_centered: bool
    clip: float | None

    def apply(self, X: Any) -> Any:
        """Scale rows; not centered ones are clipped around the center too, but a 0 stays 0."""
        return _by_column(X, self._scaled)

    def undo(self, X: Any) -> Any:
        """Take rows back to the units of the data."""
        return _by_column(X, self._restored)

    def _scaled(self, values: np.ndarray, columns: np.ndarray) -> np.ndarray:
        center, scale = self.center[columns], self.scale[columns]
        if self.is_centered:
            values, center = values - center, np.zeros(len(center))
        if self.clip is not None:
            reach = self.clip * scale
            low, high = np.minimum(center - reach, 0.0), np.maximum(center + reach, 0.0)
            values = np.clip(values, low, high)
        return np.asarray(values / scale)

    def _restored(self, values: np.ndarray, columns: np.ndarray) -> np.ndarray:
        restored = values * self.scale[columns]
        return restored + self.center[columns] if self.is_centered else restored


def _by_column(X: Any, change: Any) -> Any:
    """Change stored entries by a function of them and of their columns, in double precision."""
    dtype = float_dtype(X)
    with np.errstate(all="ignore"):
        if issparse(X):
            changed = change(X.data.astype(np.float64), X.indices)
            return with_data(X, finite(changed.astype(dtype)))
        changed = change(np.asarray(X, np.float64), np.arange(X.shape[1]))
        return finite(changed.astype(dtype))
