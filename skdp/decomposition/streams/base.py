"""The base of streams: updates, sketches, sums with initial noise, checkpoints, and the fit."""

import copy
import math
import os
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar, Self
from weakref import WeakSet

import numpy as np
from scipy.sparse import coo_array
from sklearn.utils import check_array
from sklearn.utils._param_validation import StrOptions

from skdp import _validation as checks
from skdp import units
from skdp._estimator import BudgetMixin, plan_of
from skdp.data.containers import checked_container, checked_shape, hide_error_text
from skdp.decomposition._matrix_estimator import LowRankFactors
from skdp.decomposition.streams import sketches
from skdp.exceptions import counted, named, shown, warn_of_privacy
from skdp.ledger._database import checked_key, take_once, write_once
from skdp.linalg.prefix_sums import PrefixNoise
from skdp.privacy import Released
from skdp.privacy.budget import InitialNoiseSums, fixed_point_unit
from skdp.privacy.noise import algorithm_generator, draw_seed
from skdp.privacy.plan import PrivacyCost

# ------------------------------
# Updates of a matrix, for a stream or a shard.

_NO_SUCH_CELL = (
    "rows and columns must be integers, indices from 0 of a matrix of shape {}. Subtract 1 from "
    "ids that begin at 1; or is shape the other way round? Of any ids, "
    "pandas.Index(known_ids).get_indexer(ids) makes such integers."
)
_NOT_FINITE = "values must be finite."
_BUSY = (
    "an update or a release was interrupted, or has not finished, and another call could add the "
    "same values twice: begin a new stream"
)


class UpdateReceiver:
    """A stream, or a shard of it, to which updates are added."""

    _shape: tuple[int, int]
    # None during a write, and after the end; `_closed_reason` then says why.
    _state: sketches.StreamState | None
    _closed_reason = ""

    def __init__(self) -> None:
        # One thread at a time: an update that overwrote another could erase noise.
        self._lock = threading.RLock()
        _ALIVE.add(self)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        UpdateReceiver.__init__(self)
        vars(self).update(state)

    @named
    def update(self, rows: Any, columns: Any, values: Any) -> None:
        """Add values to cells of the matrix; several values of a cell add up.

        Parameters
        ----------
        rows, columns : int or array-like of int of shape (n_updates,)
            Cells.
        values : float or array-like of shape (n_updates,)
            Values to add, of any sign, converted to float64. If an error other than a ValueError
            ends the call, the values may have been added: do not repeat the call.

        Raises
        ------
        ValueError
            If a cell does not exist, a value is not finite, or the stream takes no more updates.
            Then nothing has been added.
        """
        shape = self._shape
        # One number of each plain type is added without arrays. A subclass of float is no such
        # number, as it could define comparisons that evade the bound.
        if type(rows) is type(columns) is int and type(values) is float:
            if not (0 <= rows < shape[0] and 0 <= columns < shape[1]):
                raise ValueError(_NO_SUCH_CELL.format(shape))
            if not math.isfinite(values):
                raise ValueError(_NOT_FINITE)
            with self._lock, exclusive_write(self) as state:
                state.add_one(rows, columns, values)
            return
        # Arrays are converted before the lock is taken: the conversion may wait for other threads,
        # which may need the lock.
        checked = _checked_updates(rows, columns, values, shape)
        with self._lock, exclusive_write(self) as state:
            state.add(*checked)

    def _open_state(self) -> sketches.StreamState:
        """Return the state; refuse if no more updates are accepted."""
        if self._state is None:
            raise ValueError(
                f"This {type(self).__name__} takes no more updates: {self._closed_reason}."
            )
        return self._state

    def _close(self, reason: str) -> None:
        self._state, self._closed_reason = None, reason


@contextmanager
def exclusive_write(
    owner: UpdateReceiver, *, only_reads: bool = False
) -> Iterator[sketches.StreamState]:
    """Take the state from its owner for a write; return it unless the write closes the owner.

    So code that interrupts the write, such as a signal handler, finds no state: with the state it
    could erase noise, or repeat half an update. If a write fails, the state is lost, unless
    `only_reads` says that nothing can have changed.
    """
    state, is_whole = owner._open_state(), only_reads
    owner._close(_BUSY)
    try:
        yield state
        is_whole = True
    finally:
        if is_whole and owner._closed_reason is _BUSY:
            owner._state = state


class StreamShard(UpdateReceiver):  # numpydoc ignore=PR01
    """Updates of a stream that another worker collects, without noise: private data.

    Made by :meth:`DPStreamingFactorizer.shard`, and consumed by its `merge`.

    Notes
    -----
    **Privacy.** Not covered: a shard holds exact sums of its updates, and the sketches. Keep it as
    safe as the updates themselves. It may be merged once.
    """

    def __init__(self, state: sketches.StreamState, stream_id: str) -> None:
        super().__init__()
        self._state, self._shape = state, state.sketches.shape
        self._stream_id = stream_id
        self._id = secrets.token_hex(16)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __copy__(self, memo: Any = None) -> "StreamShard":
        raise TypeError("A shard is not copied: it may be merged once.")

    __deepcopy__ = __copy__

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            attributes = super().__getstate__()
            if self._state is not None and self._state.allow_pickle:
                # A copy, as another thread may add to the state during the pickling.
                attributes["_state"] = copy.deepcopy(self._state)
            return attributes


# A random name of this process, which a fork replaces. The id of a process does not suffice: two
# processes may have one id, in two namespaces or one after the other.
_token = secrets.token_hex(16)
_ALIVE: WeakSet[UpdateReceiver] = WeakSet()


def _current_process() -> tuple[str, int]:
    """Return the random name and the id of this process."""
    return _token, os.getpid()


def _after_fork() -> None:
    global _token
    _token = secrets.token_hex(16)
    # The thread that held a lock does not exist in the fork, and cannot release the lock.
    for each in list(_ALIVE):
        each._lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _checked_updates(
    rows: Any, columns: Any, values: Any, shape: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return arrays of rows, columns and values; refuse unknown cells and values not finite."""
    # Errors quote no value. Arrays are copied, as they could change between their check and their
    # use.
    *cells, numbers = (
        hide_error_text(np.array, checked_container(given), ndmin=1)
        for given in (rows, columns, values)
    )
    if numbers.ndim != 1 or any(indices.shape != numbers.shape for indices in cells):
        raise ValueError("rows, columns and values must be one-dimensional and of the same length.")
    if numbers.dtype.kind not in "iufb":
        raise ValueError("values must be real numbers.")
    for axis, length in enumerate(shape):
        indices = cells[axis]
        if indices.size and indices.dtype.kind not in "iu":
            kind = indices.dtype.type.__name__
            raise ValueError(f"{_NO_SUCH_CELL.format(shape)} These are of type {kind}.")
        # Unsigned integers beyond int64 become negative, and are then refused.
        cells[axis] = indices = indices.astype(np.int64, copy=False)
        if indices.min(initial=0) < 0 or indices.max(initial=0) >= length:
            raise ValueError(_NO_SUCH_CELL.format(shape))
    with np.errstate(all="ignore"):
        numbers = numbers.astype(np.float64, copy=False)
    if not np.isfinite(numbers).all():
        raise ValueError(_NOT_FINITE)
    return cells[0], cells[1], numbers


# ------------------------------
# The stream: parameters, sketches, sums with initial noise, and the fit.

# Largest number of bytes that dense sketches may take with sketch="auto".
_LARGEST_DENSE_SKETCH = 1 << 30  # not studied
# Number of the file format: files of a version with another number are refused.
_FORMAT = 6  # not tuned
# If a released count exceeds this number, counts may have exceeded the largest int64, 2 ** 63 - 1,
# and wrapped around.
_LARGEST_COUNT = 2.0**60  # not tuned


class BaseStream(BudgetMixin, UpdateReceiver):
    """A stream of updates of a private matrix, of which two sketches are stored."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BudgetMixin._parameter_constraints,
        "n_components": [checks.AT_LEAST_ONE],
        "delta": checks.BUDGET["delta"],
        "sketch": [StrOptions({"auto", "haar", "countsketch"})],
        "n_sketch": [checks.AT_LEAST_ONE, None],
        "n_core": [checks.AT_LEAST_ONE, None],
    }

    n_components: int
    shape: Any
    epsilon: float
    delta: float
    privacy_unit: Any
    adjacency: str
    sketch: str
    n_sketch: int | None
    n_core: int | None
    random_state: Any
    #: A parameter of classes whose sketches may be secret.
    sketch_sensitivity: str = "worst_case"
    #: Units that streams of this kind protect.
    _units: ClassVar[tuple[type[sketches.StreamUnit], ...]]
    _noisy_sums: tuple[InitialNoiseSums, ...]
    _n_rows_seen: int
    # Released sums that are not yet factorized: an interruption must not lose a release that has
    # been paid for.
    _released_sums: tuple[Released, Released] | None = None
    _factors: LowRankFactors | None = None

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.n_components}, shape={self._shape}, "
            f"epsilon={self.epsilon}, delta={self.delta}, privacy_unit={self.privacy_unit!r})"
        )

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            if not self._has_ended:
                raise TypeError(
                    "A stream that has not ended is neither copied nor pickled: the difference of "
                    "two copies would show the updates in between. End the stream first, or send "
                    "shards; checkpoint writes it to a file, from which one process continues."
                )
            return self._attributes()

    def _attributes(self) -> dict[str, Any]:
        return checks.without_secrets(super().__getstate__())

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Add the next rows of the matrix: an update for every stored entry that is not 0.

        Repeated entries of a cell of a sparse X are separate updates.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_columns)
            Rows that follow those of earlier calls.
        y : None
            Ignored.

        Returns
        -------
        Self
            The stream.

        Raises
        ------
        ValueError
            If the matrix has fewer rows left, or X is not acceptable. Then nothing has been added.
        """
        n_rows, n_columns = self._shape
        # X is checked before the lock is taken, as the check may wait for other threads. In a COO
        # matrix the entries of one cell are not summed, so that each entry is clipped by itself.
        X = checks.redact_errors(check_array)(
            X, accept_sparse="coo", dtype=checks.INPUT["dtype"], input_name="X"
        )
        if X.shape[1] != n_columns:
            raise ValueError(
                f"X has {X.shape[1]} columns, but shape={self._shape} has {n_columns}: pass whole "
                "rows here, and single cells to update(rows, columns, values)."
            )
        entries = coo_array(X)
        columns = entries.col.astype(np.int64)
        with self._lock:
            self._open_state()
            first = self._n_rows_seen
            if first + X.shape[0] > n_rows:
                raise ValueError(
                    f"X has {X.shape[0]} rows after {first} others, but shape={self._shape} has "
                    f"{n_rows}."
                )
            with exclusive_write(self) as state:
                self._n_rows_seen = first + X.shape[0]
                state.add(entries.row.astype(np.int64) + first, columns, entries.data)
        return self

    def checkpoint(self, path: str | os.PathLike[str], key: bytes) -> None:
        """Write the stream to a new file, for `resume`, and end it in this process.

        Parameters
        ----------
        path : str or path-like
            Where to write. No file may exist there. The file has the size of the stream in memory,
            and only its user may read it.
        key : bytes of length 32
            Secret by which the file is encrypted, such as ``secrets.token_bytes(32)``. Keep it, in
            another place than the file.

        Raises
        ------
        ValueError
            If the key is not of this kind, or the stream takes no more updates. Then nothing has
            been written.
        OSError
            If the file exists or cannot be written. Then the stream continues. Only after an error
            in the very last step, perhaps neither the stream nor the file is usable.

        Notes
        -----
        **Privacy.** Nothing is released, and nothing spent. Whoever has the file and the key can
        read all that the process had: sums with noise, the noise of later epochs, and sketches.
        File and key together are as secret as the updates. The file has the epochs and the merged
        shards, but neither seed nor ledger, which are no longer needed. Before a checkpoint, merge
        shards that cannot be pickled, since another process would lack them.

        Examples
        --------
        >>> import os, secrets, tempfile
        >>> from skdp import DPStreamingFactorizer
        >>> from skdp.units import Update
        >>> stream = DPStreamingFactorizer(shape=(100, 50), privacy_unit=Update(bound=1.0))
        >>> stream.update(3, 7, 0.5)
        >>> path = os.path.join(tempfile.mkdtemp(), "stream.skdp")
        >>> key = secrets.token_bytes(32)
        >>> stream.checkpoint(path, key)
        >>> stream = DPStreamingFactorizer.resume(path, key)  # in any process, once
        >>> stream.update(3, 7, -0.5)
        """
        checked_key(key)
        with self._lock, exclusive_write(self, only_reads=True) as state:
            # The state refuses to be pickled, but its attributes do not.
            write_once(path, self._kind(), key, (self._attributes(), vars(state)), self._drop_state)

    @classmethod
    def resume(cls, path: str | os.PathLike[str], key: bytes) -> Self:
        """Continue a stream that `checkpoint` has written; this works once for each file.

        Before the stream is returned, the file is marked, and its data can no longer be decrypted.
        An interrupted call may lose the stream.

        Parameters
        ----------
        path : str or path-like
            The file. Delete it afterwards, and all copies of it.
        key : bytes of length 32
            The key of `checkpoint`.

        Returns
        -------
        Self
            The stream, with its epochs, shards and record, but without `ledger` and `random_state`,
            which were needed only when it was opened.

        Raises
        ------
        ValueError
            If the file was resumed before, is incomplete, damaged, or from another class or
            version, the key is a different one, or the mark cannot be written.

        Notes
        -----
        **Privacy.** Nothing is charged: the budget was spent when the stream was opened. The mark
        is in this file, but not in copies of the file: two streams from two copies share their
        noise, and the difference of their releases shows the difference of their updates without
        noise. Unpickling runs code that anybody with the key may have written to the file.

        Examples
        --------
        >>> import os, secrets, tempfile
        >>> from skdp import DPContinualFactorizer
        >>> from skdp.units import Update
        >>> path = os.path.join(tempfile.mkdtemp(), "stream.skdp")
        >>> key = secrets.token_bytes(32)
        >>> unit = Update(bound=1.0)
        >>> stream = DPContinualFactorizer(shape=(100, 50), horizon=12, privacy_unit=unit)
        >>> stream.close_epoch()
        >>> stream.checkpoint(path, key)
        >>> DPContinualFactorizer.resume(path, key).n_epochs_
        1
        >>> DPContinualFactorizer.resume(path, key)
        Traceback (most recent call last):
            ...
        ValueError: path=... cannot be resumed: it was resumed before, which happens once.
        """
        # The process is noted before the file is read: a fork in between may not own the stream.
        process = _current_process()
        attributes, sums = take_once(path, cls._kind(), key)
        stream, state = cls.__new__(cls), sketches.StreamState.__new__(sketches.StreamState)
        vars(state).update(sums)
        stream.__setstate__({**attributes, "_process": process, "_state": state})
        return stream

    @classmethod
    def _kind(cls) -> str:
        return f"{cls.__name__}, version {_FORMAT}"

    def _drop_state(self) -> None:
        """Close the stream in this process, and drop its state, which is now in the file."""
        self._check_process()
        self._close("checkpoint has written it to a file, with which resume goes on")
        self._noisy_sums, self._released_sums, self._factors = (), None, None

    def _start(self, correlation: PrefixNoise) -> None:
        """Check the parameters, draw the sketches, and spend the budget on noise."""
        UpdateReceiver.__init__(self)
        self._shape = checked_shape(self.shape)
        if self.n_components > min(self._shape):
            raise ValueError(
                f"n_components={self.n_components} must be at most the smaller side of "
                f"shape={self.shape!r}."
            )
        unit = self._resolved_unit()
        self._sketches = self._draw_sketches(unit)
        # `delta_tail`: the probability that a sketch lengthens a change beyond its bound.
        cost = PrivacyCost(self.epsilon, self.delta, math.fsum(self._sketches.tails))
        spec = sketches.StreamSpec(unit, self._sketches, correlation, cost)
        warn_of_privacy(*checks.warnings_for_settings(cost, unit.counted, spec.n_units))
        # The unit of counts follows from the noise, but rounding to the unit raises sensitivities,
        # and so the noise. So a first plan, without rounding, gives the unit of the second plan.
        unrounded = plan_of(spec, sketches.plan_stream(spec))
        count_unit = fixed_point_unit(unrounded.releases)
        plan = plan_of(spec, sketches.plan_stream(spec, count_unit))
        title = f"{type(self).__name__}, {self._shape[0]} x {self._shape[1]}"
        budget = self._open_budget(plan, title)
        self._process, self._n_rows_seen = _current_process(), 0
        self._has_ended = False
        right, left = self._noisy_sums = tuple(
            budget.sums_with_initial_noise(release, unit=count_unit, correlation=correlation)
            for release in plan.parts
        )
        self.value_unit_ = count_unit / self._sketches.right.unit
        bound = unit.bound if isinstance(unit, units.ResolvedUpdate) else math.inf
        self._state = sketches.StreamState(
            right.counts, left.counts, self._sketches, self.value_unit_, bound
        )
        self.privacy_spent_ = budget.spent()

    def _end(self, reason: str) -> None:
        self._close(reason)
        self._noisy_sums, self._has_ended = (), True

    def _open_state(self) -> sketches.StreamState:
        state = super()._open_state()
        self._check_process()
        return state

    def _check_process(self) -> None:
        """Refuse to continue in a forked process, which has a second copy of the stream."""
        if _current_process() != self._process:
            raise ValueError(
                "This stream was opened in another process. Two processes with one stream would "
                "share its noise, and show how their updates differ: use the stream in the process "
                "that opened it."
            )

    def _resolved_unit(self) -> sketches.StreamUnit:
        given = self.privacy_unit
        if not isinstance(given, units.Unit):
            raise ValueError(
                f"privacy_unit={shown(given)} must be an object of skdp.units, such as "
                "skdp.units.Update(bound=1.0); to protect a person, add up its updates to one."
            )
        unit = units.supported_unit(
            given, self.adjacency, float(self.epsilon), self._units, type(self).__name__
        )
        if isinstance(unit, units.ResolvedFrobeniusChange) and unit.size != units.DEFAULT_LARGEST:
            raise ValueError(
                f"largest={unit.size:g} of privacy_unit={given!r} is for matrices in memory: the "
                f"sums of a stream are exact. Leave it at {units.DEFAULT_LARGEST:g}."
            )
        if isinstance(unit, units.ResolvedEntry):
            # A stream cannot clip the final value of a cell: the caller promises its bounds.
            return replace(unit, is_enforced=False)
        return unit

    def _draw_sketches(self, unit: sketches.StreamUnit) -> sketches.Sketches:
        """Draw both sketches; their kind and their sizes follow from public facts."""
        n_components, kind = int(self.n_components), self.sketch
        for name in ("n_sketch", "n_core"):
            size = getattr(self, name)
            if size is not None and size < n_components:
                raise ValueError(f"{name}={size} must be at least n_components={n_components}.")
        sizes = sketches.sketch_sizes(self._shape, n_components, self.n_sketch, self.n_core)
        is_promise = isinstance(unit, units.ResolvedFrobeniusChange)
        if kind == "auto":
            n_bytes = 8 * (self._shape[1] * sizes[0] + self._shape[0] * sizes[1])
            kind = "haar" if is_promise and n_bytes <= _LARGEST_DENSE_SKETCH else "countsketch"
        may_be_secret = is_promise and kind == "haar" and self.random_state is None
        if self.sketch_sensitivity == "high_probability" and not may_be_secret:
            raise ValueError(
                "sketch_sensitivity='high_probability' needs a FrobeniusChange, sketch='haar' and "
                f"random_state=None, got privacy_unit={self.privacy_unit!r}, sketch={kind!r} and "
                f"random_state={'None' if self.random_state is None else 'given'}; pass "
                "sketch_sensitivity='worst_case'."
            )
        tails = (0.0, 0.0)
        if may_be_secret and self.sketch_sensitivity != "worst_case":
            tails = sketches.tail_probabilities(self._shape, sizes, float(self.delta))
        generator = algorithm_generator(draw_seed(self.random_state))
        return sketches.draw_sketches(kind, self._shape, sizes, generator, tails)

    def _factorize_once(self, end: Callable[[], None]) -> LowRankFactors:
        """Release the sums, call `end`, which closes the epoch or stream, and factorize the sums.

        Each step happens once: after an interruption, the next call does the remaining steps.
        """
        if self._factors is None:
            if self._released_sums is None:
                with exclusive_write(self):
                    right, left = self._noisy_sums
                    self._released_sums = right.read(), left.read()
                    end()
            self._factors, warnings = self._factorized(self._released_sums)
            self._released_sums = None
            warn_of_privacy(*warnings)
        return self._factors

    def _factorized(self, values: tuple[Released, Released]) -> tuple[LowRankFactors, list[str]]:
        """Fit the released sketches; return the factors, and warnings about them."""
        n_components = int(self.n_components)
        # Warnings of numpy about released values would not help the user.
        with np.errstate(all="ignore"):
            fit, rank = sketches.fit_sketches(values, self._sketches, n_components)
        return LowRankFactors._of(fit, self.privacy_spent_), self._warnings(values, rank)

    def _warnings(self, values: tuple[Released, Released], rank: int) -> list[str]:
        """Warn of components that noise hides, and of sums that may have wrapped around."""
        warnings, n_components = [], int(self.n_components)
        if values[0].noise_std > 0 and rank < n_components:
            fewer = "Ask for fewer components, or use " if rank else "Use "
            warnings.append(
                f"Only {rank} of {counted(n_components, 'component')} stand out from the noise and "
                f"the error of the sketch. {fewer}a larger epsilon or a larger n_sketch; if the "
                "unit is Update(bound), a bound that clips fewer values may help, too."
            )
        count_unit = self.value_unit_ * self._sketches.right.unit
        if max(np.abs(released.value).max() for released in values) > _LARGEST_COUNT * count_unit:
            warnings.append(
                "The factors are useless: sums of values, as integers in units far below the "
                "noise, are near the largest int64, or exceed it. In a new stream, divide values "
                "by a large public number, but leave the bound in privacy_unit as it is."
            )
        return warnings
