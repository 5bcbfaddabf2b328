"""Updates of a matrix, for a stream or for a part of it."""

import math
import secrets
from typing import Any

import numpy as np

from skdp.decomposition._sketches.state import StreamState

__all__ = ["StreamShard", "TakesUpdates"]


class TakesUpdates:
    """What takes updates: a stream, or a part of it that is gathered elsewhere."""

    _state: StreamState | None

    def update(self, rows: Any, cols: Any, values: Any) -> None:
        """Add values to cells of the matrix; those of one cell add up.

        Parameters
        ----------
        rows, cols : int or array-like of int of shape (n_updates,)
            Cells.
        values : float or array-like of shape (n_updates,)
            What is added, of any sign.

        Raises
        ------
        ValueError
            If there is no such cell, a value is not a finite number, or no more updates are taken;
            nothing has been added then.
        """
        state = self._open_state()
        if type(rows) is type(cols) is int and isinstance(values, float):
            _check_cell(rows, cols, values, state.sketches.shape)
            state.add_one(rows, cols, values)
            return
        state.add(*_checked_updates(rows, cols, values, state.sketches.shape))

    def _open_state(self) -> StreamState:
        if self._state is None:
            raise ValueError(f"This {type(self).__name__} takes no more updates: {self._closed}.")
        return self._state

    @property
    def _closed(self) -> str:
        raise NotImplementedError


class StreamShard(TakesUpdates):
    """Updates of a stream that are gathered elsewhere, without noise: private data.

    Made by :meth:`DPStreamingFactorizer.shard`, and consumed by its `merge`.
    """

    def __init__(self, state: StreamState, stream: str) -> None:
        self._state = state
        self._stream = stream
        self._own = secrets.token_hex(16)

    def __copy__(self) -> "StreamShard":
        raise TypeError("A shard is not copied: it may be merged once.")

    def __deepcopy__(self, memo: Any) -> "StreamShard":
        return self.__copy__()

    @property
    def _closed(self) -> str:
        return "it has been merged"


def _check_cell(row: int, column: int, value: float, shape: tuple[int, int]) -> None:
    if not (0 <= row < shape[0] and 0 <= column < shape[1]):
        raise ValueError(f"rows and cols must be indices of a matrix of shape {shape}, from 0.")
    if not math.isfinite(value):
        raise ValueError("values must be finite.")


def _checked_updates(
    rows: Any, columns: Any, values: Any, shape: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Refuse cells that are not there and values that are not finite; name none of them."""
    places = [np.atleast_1d(np.asarray(each)) for each in (rows, columns)]
    numbers = np.atleast_1d(np.asarray(values))
    if not len({each.shape for each in (*places, numbers)}) == 1 == numbers.ndim:
        raise ValueError("rows, cols and values must be of one length, in one dimension.")
    if numbers.dtype.kind not in "iufb":
        raise ValueError("values must be real numbers.")
    for each, side in zip(places, shape, strict=True):
        if each.size and (each.dtype.kind not in "iu" or each.min() < 0 or each.max() >= side):
            raise ValueError(f"rows and cols must be indices of a matrix of shape {shape}, from 0.")
    numbers = numbers.astype(np.float64)
    if not np.isfinite(numbers).all():
        raise ValueError("values must be finite.")
    return places[0].astype(np.int64), places[1].astype(np.int64), numbers
