"""The state of a stream: exact sums of its updates, in both sketches."""

import math
from typing import Any

import numpy as np
from scipy.sparse import issparse

from skdp.decomposition._sketches.plan import Sketches
from skdp.privacy.budget import EXACT, to_counts

# Cells that are added at a time.
_CHUNK = 1 << 20  # not studied


class StreamState:
    """Integer sums of the updates of a stream, in two sketches.

    `right` has a row for each row of the matrix and `left` one for each column, both as counts of
    `count_unit`, and with the noise of the stream. Values are clipped to `bound`. The state of a
    shard has no noise that two copies could share: it may be sent to another process if
    `allow_pickle`.
    """

    def __init__(
        self,
        right: np.ndarray,
        left: np.ndarray,
        sketches: Sketches,
        *,
        count_unit: float,
        bound: float,
        allow_pickle: bool = False,
    ) -> None:
        self.right, self.left = right, left
        self.sketches = sketches
        self.count_unit = count_unit
        #: Values are rounded to multiples of this.
        self.value_step = count_unit / sketches.right.unit
        # Rounding must not lift a value above the bound.
        is_bounded = math.isfinite(bound)
        self.bound = math.floor(bound / self.value_step) * self.value_step if is_bounded else bound
        self.allow_pickle = allow_pickle

    def add(self, rows: np.ndarray, columns: np.ndarray, values: np.ndarray) -> None:
        """Add updates, each of them clipped."""
        sums, (right, left) = (self.right, self.left), (self.sketches.right, self.sketches.left)
        for start in range(0, len(values), _CHUNK):
            part = slice(start, start + _CHUNK)
            clipped = np.clip(np.asarray(values[part], dtype=np.float64), -self.bound, self.bound)
            # NaN gets past the clipping: data may change after they were checked.
            clipped[~np.isfinite(clipped)] = 0.0
            counts = to_counts(clipped, self.value_step)
            right.add_both(left, sums, rows[part], columns[part], counts)

    def add_one(self, row: int, column: int, value: float) -> None:
        """Add one update."""
        clipped = min(max(value, -self.bound), self.bound)
        # Where the quotient is exact to a unit, Python rounds as `to_counts` does, and faster.
        if abs(clipped) < self.value_step * EXACT:
            count = round(clipped / self.value_step)
        else:
            count = int(to_counts(np.array([clipped]), self.value_step)[0])
        self.sketches.right.add_one(self.right, row, column, count)
        self.sketches.left.add_one(self.left, column, row, count)

    def add_rows(self, first: int, X: Any) -> None:
        """Add the entries of consecutive rows."""
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
            count_unit=self.count_unit,
            bound=self.bound,
            allow_pickle=allow_pickle,
        )

    def __getstate__(self) -> dict[str, Any]:
        if not self.allow_pickle:
            raise TypeError(
                "The state of a stream is neither copied nor pickled: two copies of it would show "
                "the updates in between."
            )
        return self.__dict__
