"""What a stream has come to: exact sums of its updates on both sides."""

import math
from typing import Any

import numpy as np
from scipy.sparse import issparse

from skdp.decomposition._sketches.plan import Sketches
from skdp.privacy.initial_noise import EXACT, to_counts

__all__ = ["StreamState"]

# Cells that are read at a time.
_CHUNK = 1 << 20  # not studied


class StreamState:
    """Integer sums of the updates of a stream, seen through two sketches.

    `right` and `left` are for the rows and for the columns of the matrix, in `unit`, and hold noise
    if there is any. Without noise that two views would share, a state may be sent to another
    process (`allow_pickle`). Values are clipped to `bound`.
    """

    def __init__(
        self,
        right: np.ndarray,
        left: np.ndarray,
        sketches: Sketches,
        *,
        unit: float,
        bound: float,
        allow_pickle: bool = False,
    ) -> None:
        self.right, self.left = right, left
        self.sketches = sketches
        self.unit = unit
        #: What values are rounded to multiples of.
        self.value_unit = unit / sketches.right.unit
        # Rounding must not lift a value above the bound.
        is_bounded = math.isfinite(bound)
        self.bound = math.floor(bound / self.value_unit) * self.value_unit if is_bounded else bound
        self.allow_pickle = allow_pickle

    def add(self, rows: np.ndarray, columns: np.ndarray, values: np.ndarray) -> None:
        """Add updates, every one clipped on its own."""
        sums, (right, left) = (self.right, self.left), (self.sketches.right, self.sketches.left)
        for start in range(0, len(values), _CHUNK):
            part = slice(start, start + _CHUNK)
            clipped = np.clip(np.asarray(values[part], dtype=np.float64), -self.bound, self.bound)
            # What changes after it was checked must not get past the bound.
            clipped[~np.isfinite(clipped)] = 0.0
            counts = to_counts(clipped, self.value_unit)
            right.add_both(left, sums, rows[part], columns[part], counts)

    def add_one(self, row: int, column: int, value: float) -> None:
        """Add one update."""
        clipped = min(max(value, -self.bound), self.bound)
        if abs(clipped) < self.value_unit * EXACT:
            count = round(clipped / self.value_unit)
        else:
            count = int(to_counts(np.array([clipped]), self.value_unit)[0])
        self.sketches.right.add_one(self.right, row, column, count)
        self.sketches.left.add_one(self.left, column, row, count)

    def add_rows(self, first: int, X: Any) -> None:
        """Add the entries of rows that follow each other."""
        if issparse(X):
            entries = X.tocoo()
            rows, columns = entries.row.astype(np.int64), entries.col.astype(np.int64)
            self.add(rows + first, columns, entries.data)
            return
        step = max(_CHUNK // X.shape[1], 1)
        for start in range(0, len(X), step):
            block = X[start : start + step]
            rows, columns = np.nonzero(block)
            self.add(rows + first + start, columns, block[rows, columns])

    def absorb(self, other: "StreamState") -> None:
        """Add the sums of another state with the same sketches."""
        self.right += other.right
        self.left += other.left

    def shard(self, *, allow_pickle: bool) -> "StreamState":
        """Make an empty state with the same sketches."""
        return StreamState(
            np.zeros_like(self.right),
            np.zeros_like(self.left),
            self.sketches,
            unit=self.unit,
            bound=self.bound,
            allow_pickle=allow_pickle,
        )

    def __getstate__(self) -> dict[str, Any]:
        if not self.allow_pickle:
            raise TypeError(
                "The state of a stream is neither copied nor pickled: two views of it would show "
                "what came in between."
            )
        return self.__dict__
