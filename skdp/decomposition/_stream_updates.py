"""Updates of a matrix: how a stream, or a shard of it, takes them safely."""

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

_NO_SUCH_CELL = "rows and columns must be integers, indices of a matrix of shape {} from 0."
_BUSY = (
    "an update or a release of it is not finished, and may have been interrupted, so that another "
    "one could add the same twice"
)


class UpdateReceiver:
    """A stream, or a shard of it, to which updates are added."""

    _shape: tuple[int, int]
    # None while an update is written, and once no more updates are taken, for the reason below.
    _state: StreamState | None
    _closed_reason = ""

    def __init__(self) -> None:
        # One thread at a time: if one update overwrote another, noise could be lost with it.
        self._lock = threading.RLock()
        _ALIVE.add(self)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        UpdateReceiver.__init__(self)
        vars(self).update(state)

    def update(self, rows: Any, columns: Any, values: Any) -> None:
        """Add values to cells of the matrix; those of one cell add up.

        Parameters
        ----------
        rows, columns : int or array-like of int of shape (n_updates,)
            Cells.
        values : float or array-like of shape (n_updates,)
            Values to add, of any sign, converted to float64. If any other error than those below
            interrupts an update, it may have been added: do not repeat it.

        Raises
        ------
        ValueError
            If there is no such cell, a value is not a finite number, or no more updates are taken.
            Then nothing has been added.
        """
        shape = self._shape
        # Not isinstance: an instance of a subclass may compare as it likes, and get past the bound.
        if type(rows) is type(columns) is int and type(values) is float:
            _check_cell(rows, columns, values, shape)
            with self._lock, ExclusiveWrite(self) as state:
                state.add_one(rows, columns, values)
            return
        # Converts before it takes the lock: the conversion may wait for threads that need the lock.
        checked = _checked_updates(rows, columns, values, shape)
        with self._lock, ExclusiveWrite(self) as state:
            state.add(*checked)

    def _open_state(self) -> StreamState:
        """Return the state; refuse if no more updates are taken."""
        if self._state is None:
            raise ValueError(
                f"This {type(self).__name__} takes no more updates: {self._closed_reason}."
            )
        return self._state

    def _close(self, reason: str) -> None:
        self._state, self._closed_reason = None, reason


class ExclusiveWrite:
    """Takes the state away from its owner while it is written, and gives it back as the last act.

    Code that interrupts the writing, such as a signal handler, finds no state. With a state it
    could erase noise, or repeat an update that is half written. If the writing fails, the state is
    lost.
    """

    def __init__(self, owner: UpdateReceiver) -> None:
        self._owner = owner

    def __enter__(self) -> StreamState:
        self._state = self._owner._open_state()
        self._owner._close(_BUSY)
        return self._state

    def __exit__(self, kind: type | None, *_: object) -> None:
        if kind is None and self._owner._closed_reason is _BUSY:
            self._owner._state = self._state


class StreamShard(UpdateReceiver):  # numpydoc ignore=PR01
    """Updates of a stream that another worker gathers, without noise: private data.

    Made by :meth:`DPStreamingFactorizer.shard`, and consumed by its `merge`.

    Notes
    -----
    **Privacy.** Not covered: a shard holds exact sums of its updates, and the sketches. Keep it as
    safe as the updates themselves. It may be merged once.
    """

    def __init__(self, state: StreamState, stream_id: str) -> None:
        super().__init__()
        self._state, self._shape = state, state.sketches.shape
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
                # A copy: another thread may add to the state while it is being pickled.
                kept["_state"] = copy.deepcopy(self._state)
            return kept


class ForkGuard:
    """Keeps a stream to the process that drew its noise: a fork of it would be a second copy."""

    def __init__(self) -> None:
        self._fork_guard = _current_process()

    def check(self) -> None:
        """Refuse to go on in a fork."""
        if _current_process() != self._fork_guard:
            raise ValueError(
                "This stream was opened in another process. Two processes that go on with it would "
                "share its noise, and show how their updates differ. Update it where it was opened."
            )


# Renewed in every fork: process ids alone may be the same in two namespaces, or be used again.
_token = secrets.token_hex(16)
_ALIVE: WeakSet[UpdateReceiver] = WeakSet()


def _current_process() -> tuple[str, int]:
    return _token, os.getpid()


def _after_fork() -> None:
    global _token
    _token = secrets.token_hex(16)
    # The thread that held a lock does not exist in the fork, and could not free it.
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
    """Refuse cells outside the matrix and values that are not finite; name none of them."""
    # Plain copies: nobody can change them between the check and their use.
    *places, numbers = (
        hide_error_text(np.array, checked_container(given), ndmin=1)
        for given in (rows, columns, values)
    )
    if not len({each.shape for each in (*places, numbers)}) == 1 == numbers.ndim:
        raise ValueError("rows, columns and values must be one-dimensional and of the same length.")
    if numbers.dtype.kind not in "iufb":
        raise ValueError("values must be real numbers.")
    for number, (each, side) in enumerate(zip(places, shape, strict=True)):
        if each.size and each.dtype.kind not in "iu":
            raise ValueError(_NO_SUCH_CELL.format(shape))
        # Unsigned integers beyond int64 become negative, and are refused as such.
        places[number] = each = each.astype(np.int64, copy=False)
        if each.size and (each.min() < 0 or each.max() >= side):
            raise ValueError(_NO_SUCH_CELL.format(shape))
    with np.errstate(all="ignore"):
        numbers = numbers.astype(np.float64, copy=False)
    if not np.isfinite(numbers).all():
        raise ValueError("values must be finite.")
    return places[0], places[1], numbers
