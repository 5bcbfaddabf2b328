"""Updates of a matrix, for a stream or for a part of it."""

import math
import os
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from skdp.decomposition._sketches.state import StreamState

__all__ = ["StreamShard", "TakesUpdates"]


class TakesUpdates:
    """What takes updates: a stream, or a part of it that is gathered elsewhere."""

    _state: StreamState | None
    # Why there are no more updates.
    _closed = ""

    def __init__(self) -> None:
        # Two threads must not lose each other's sums: the noise may be among them.
        self._lock = threading.RLock()

    def update(self, rows: Any, columns: Any, values: Any) -> None:
        """Add values to cells of the matrix; those of one cell add up.

        Parameters
        ----------
        rows, columns : int or array-like of int of shape (n_updates,)
            Cells.
        values : float or array-like of shape (n_updates,)
            What is added, of any sign.

        Raises
        ------
        ValueError
            If there is no such cell, a value is not a finite number, or no more updates are taken;
            nothing has been added then.
        """
        with self._lock:
            state = self._live_state()
            if type(rows) is type(columns) is int and isinstance(values, float):
                _check_cell(rows, columns, values, state.sketches.shape)
                with self._writing():
                    state.add_one(rows, columns, values)
                return
            checked = _checked_updates(rows, columns, values, state.sketches.shape)
            with self._writing():
                state.add(*checked)

    def _live_state(self) -> StreamState:
        """Return the state, as long as it takes updates."""
        if self._state is None:
            raise ValueError(f"This {type(self).__name__} takes no more updates: {self._closed}.")
        return self._state

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Close what is left half written: whoever tries again would add the other half twice."""
        try:
            yield
        except BaseException:
            self._close("an interrupted update may have been added in part")
            raise

    def _close(self, reason: str) -> None:
        self._state, self._closed = None, reason


class StreamShard(TakesUpdates):  # numpydoc ignore=PR01
    """Updates of a stream that are gathered elsewhere, without noise: private data.

    Made by :meth:`DPStreamingFactorizer.shard`, and consumed by its `merge`.

    Notes
    -----
    **Privacy.** Not covered: a shard holds exact sums of the updates that it was given, and the
    sketches. It is to be kept like these updates, and may be merged once.
    """

    def __init__(self, state: StreamState, stream_id: str) -> None:
        super().__init__()
        self._state = state
        self._stream_id = stream_id
        self._id = secrets.token_hex(16)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __copy__(self) -> "StreamShard":
        raise TypeError("A shard is not copied: it may be merged once.")

    def __deepcopy__(self, memo: Any) -> "StreamShard":
        return self.__copy__()

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__init__()
        vars(self).update(state)


class OwnProcess:
    """Remembers the process that drew the noise: a copy of it elsewhere would be a second view."""

    def __init__(self) -> None:
        self._process = os.getpid()

    def check(self) -> None:
        """Refuse to go on in a process that was forked from it."""
        if os.getpid() != self._process:
            raise ValueError(
                "This stream was opened in another process: two that go on with it would show what "
                "differs between them. Send shards."
            )


def _check_cell(row: int, column: int, value: float, shape: tuple[int, int]) -> None:
    if not (0 <= row < shape[0] and 0 <= column < shape[1]):
        raise ValueError(_NO_SUCH_CELL.format(shape))
    if not math.isfinite(value):
        raise ValueError("values must be finite.")


_NO_SUCH_CELL = "rows and columns must be integers, indices of a matrix of shape {} from 0."


def _checked_updates(
    rows: Any, columns: Any, values: Any, shape: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Refuse cells that are not there and values that are not finite; name none of them."""
    places = [np.atleast_1d(np.asarray(each)) for each in (rows, columns)]
    numbers = np.atleast_1d(np.asarray(values))
    if not len({each.shape for each in (*places, numbers)}) == 1 == numbers.ndim:
        raise ValueError("rows, columns and values must be of one length, in one dimension.")
    if numbers.dtype.kind not in "iufb":
        raise ValueError("values must be real numbers.")
    for each, side in zip(places, shape, strict=True):
        if each.size and (each.dtype.kind not in "iu" or each.min() < 0 or each.max() >= side):
            raise ValueError(_NO_SUCH_CELL.format(shape))
    with np.errstate(all="ignore"):
        numbers = numbers.astype(np.float64)
    if not np.isfinite(numbers).all():
        raise ValueError("values must be finite.")
    return places[0].astype(np.int64), places[1].astype(np.int64), numbers
