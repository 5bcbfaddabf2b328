"""What a stream has come to: exact sums of its updates on both sides."""

import math
from typing import Any

import numpy as np
from scipy.sparse import issparse

from skdp.decomposition._sketches.plan import Sketches
from skdp.linalg.sketch import add_updates
from skdp.privacy.noise_first import to_counts

__all__ = ["StreamState"]

# Cells that are read at a time.
_CHUNK = 1 << 20
# Beyond, a quotient may not be the integer that it stands for.
_EXACT = 2.0**53


class StreamState:
    """Integer sums of the updates of a stream, seen through two sketches.

    Parameters
    ----------
    right, left : ndarray of int64
        Sums for the rows and for the columns of the matrix, noise included if they have any.
    sketches : Sketches
        Public sketches.
    unit : float
        What one count of the sums stands for.
    bound : float
        Values are clipped to it; inf clips nothing.
    """

    def __init__(
        self,
        right: np.ndarray,
        left: np.ndarray,
        sketches: Sketches,
        *,
        unit: float,
        bound: float,
        may_leave: bool = False,
    ) -> None:
        self.right, self.left = right, left
        self.sketches = sketches
        self.unit = unit
        #: What values are rounded to multiples of.
        self.value_unit = unit / sketches.right.unit
        # Rounding must not lift a value above the bound.
        self.bound = (
            math.floor(bound / self.value_unit) * self.value_unit if bound < math.inf else bound
        )
        self.may_leave = may_leave

    def add(self, rows: np.ndarray, columns: np.ndarray, values: np.ndarray) -> None:
        """Add updates, every one clipped on its own."""
        for start in range(0, len(values), _CHUNK):
            part = slice(start, start + _CHUNK)
            counts = self._counts(values[part])
            add_updates(
                (self.right, self.left),
                (self.sketches.right, self.sketches.left),
                rows[part],
                columns[part],
                counts,
            )

    def add_one(self, row: int, column: int, value: float) -> None:
        """Add one update."""
        clipped = min(max(value, -self.bound), self.bound)
        if abs(clipped) < self.value_unit * _EXACT:
            count = round(clipped / self.value_unit)
        else:
            count = int(to_counts(np.array([clipped]), self.value_unit)[0])
        self.sketches.right.add_one(self.right, row, column, count)
        self.sketches.left.add_one(self.left, column, row, count)

    def add_rows(self, first: int, X: Any) -> None:
        """Add the entries of rows that follow each other."""
        if issparse(X):
            entries = X.tocoo()
            self.add(
                entries.row.astype(np.int64) + first, entries.col.astype(np.int64), entries.data
            )
            return
        step = max(_CHUNK // X.shape[1], 1)
        for start in range(0, len(X), step):
            rows, columns = np.nonzero(X[start : start + step])
            self.add(rows + first + start, columns, X[start : start + step][rows, columns])

    def absorb(self, other: "StreamState") -> None:
        """Add the sums of another state with the same sketches."""
        self.right += other.right
        self.left += other.left

    def shard(self, *, may_leave: bool) -> "StreamState":
        """Make an empty state with the same sketches."""
        return StreamState(
            np.zeros_like(self.right),
            np.zeros_like(self.left),
            self.sketches,
            unit=self.unit,
            bound=self.bound,
            may_leave=may_leave,
        )

    def __getstate__(self) -> dict[str, Any]:
        if not self.may_leave:
            raise TypeError(
                "The state of a stream is neither copied nor pickled: two views of it show what "
                "came in between. Call finalize first, or pickle a shard(allow_pickle=True)."
            )
        return self.__dict__

    def _counts(self, values: np.ndarray) -> np.ndarray:
        values = np.clip(np.asarray(values, dtype=np.float64), -self.bound, self.bound)
        return to_counts(values, self.value_unit)
