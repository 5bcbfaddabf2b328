"""Updates of a matrix, for a stream or for a part of it."""

import copy
import math
import os
import secrets
import threading
from typing import Any
from weakref import WeakSet

import numpy as np

from skdp.data.containers import checked_container, hide_error_text
from skdp.decomposition._sketches.state import StreamState

__all__ = ["OwnProcess", "StreamShard", "TakesUpdates", "Writing"]

_NO_SUCH_CELL = "rows and columns must be integers, indices of a matrix of shape {} from 0."
_BUSY = (
    "an update or a release of it is not finished, and may have been interrupted, so that another "
    "one could add the same twice"
)


class TakesUpdates:
    """What takes updates: a stream, or a part of it that is gathered elsewhere."""

    _state: StreamState | None
    # Why there are no more updates.
    _closed = ""

    def __init__(self) -> None:
        # Two threads must not lose each other's sums: the noise may be among them.
        self._lock = threading.RLock()
        _ALIVE.add(self)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        TakesUpdates.__init__(self)
        vars(self).update(state)

    def update(self, rows: Any, columns: Any, values: Any) -> None:
        """Add values to cells of the matrix; those of one cell add up.

        Parameters
        ----------
        rows, columns : int or array-like of int of shape (n_updates,)
            Cells.
        values : float or array-like of shape (n_updates,)
            What is added, of any sign, as float64. An update that was interrupted by another error
            than those below may have been added: do not repeat it.

        Raises
        ------
        ValueError
            If there is no such cell, a value is not a finite number, or no more updates are taken;
            nothing has been added then.
        """
        shape = self._shape_of_cells
        # Exactly: a subclass may compare as it likes, and get past the bound.
        if type(rows) is type(columns) is int and type(values) is float:
            _check_cell(rows, columns, values, shape)
            with self._lock, Writing(self) as state:
                state.add_one(rows, columns, values)
            return
        # Before the lock: what is converted may be computed by other threads.
        checked = _checked_updates(rows, columns, values, shape)
        with self._lock, Writing(self) as state:
            state.add(*checked)

    @property
    def _shape_of_cells(self) -> tuple[int, int]:
        raise NotImplementedError

    def _live_state(self) -> StreamState:
        """Return the state, as long as it takes updates."""
        if self._state is None:
            raise ValueError(f"This {type(self).__name__} takes no more updates: {self._closed}.")
        return self._state

    def _close(self, reason: str) -> None:
        self._state, self._closed = None, reason


class Writing:
    """Takes the state out while it is written to, and puts it back as the last act.

    Whatever comes in between, such as a signal or an exception, finds none: it could erase noise,
    or add a half that was written once more. If the writing does not end, the state is lost.
    """

    def __init__(self, owner: TakesUpdates) -> None:
        self._owner = owner

    def __enter__(self) -> StreamState:
        self._state = self._owner._live_state()
        self._owner._close(_BUSY)
        return self._state

    def __exit__(self, kind: type | None, *_: object) -> None:
        if kind is None and self._owner._closed is _BUSY:
            self._owner._state = self._state


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
            kept = super().__getstate__()
            if self._state is not None and self._state.allow_pickle:
                # Another thread may add to it while it is written out.
                kept["_state"] = copy.deepcopy(self._state)
            return kept

    @property
    def _shape_of_cells(self) -> tuple[int, int]:
        state = self._state
        return self._live_state().sketches.shape if state is None else state.sketches.shape


class OwnProcess:
    """Remembers the process that drew the noise: a copy of it elsewhere would be a second view."""

    def __init__(self) -> None:
        self._process = _this_process()

    def check(self) -> None:
        """Refuse to go on in a process that was forked from it."""
        if _this_process() != self._process:
            raise ValueError(
                "This stream was opened in another process: two that go on with it would show what "
                "differs between them. Send shards."
            )


# Renewed in every fork: numbers of processes may be the same in two namespaces, or come again.
_token = secrets.token_hex(16)
_ALIVE: WeakSet[TakesUpdates] = WeakSet()


def _this_process() -> tuple[str, int]:
    return _token, os.getpid()


def _after_fork() -> None:
    global _token
    _token = secrets.token_hex(16)
    # A thread that held a lock is not there any more.
    for each in list(_ALIVE):
        each._lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _check_cell(row: int, column: int, value: float, shape: tuple[int, int]) -> None:
    if not (0 <= row < shape[0] and 0 <= column < shape[1]):
        raise ValueError(_NO_SUCH_CELL.format(shape))
    if not math.isfinite(value):
        raise ValueError("values must be finite.")


def _checked_updates(
    rows: Any, columns: Any, values: Any, shape: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Refuse cells that are not there and values that are not finite; name none of them."""
    # Copies, and no subclasses: what is checked is what is used.
    *places, numbers = (
        hide_error_text(np.array, checked_container(one), ndmin=1)
        for one in (rows, columns, values)
    )
    if not len({each.shape for each in (*places, numbers)}) == 1 == numbers.ndim:
        raise ValueError("rows, columns and values must be of one length, in one dimension.")
    if numbers.dtype.kind not in "iufb":
        raise ValueError("values must be real numbers.")
    for number, (each, side) in enumerate(zip(places, shape, strict=True)):
        if each.size and each.dtype.kind not in "iu":
            raise ValueError(_NO_SUCH_CELL.format(shape))
        # Beyond int64 they become negative.
        places[number] = each = each.astype(np.int64, copy=False)
        if each.size and (each.min() < 0 or each.max() >= side):
            raise ValueError(_NO_SUCH_CELL.format(shape))
    with np.errstate(all="ignore"):
        numbers = numbers.astype(np.float64, copy=False)
    if not np.isfinite(numbers).all():
        raise ValueError("values must be finite.")
    return places[0], places[1], numbers
