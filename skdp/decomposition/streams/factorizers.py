"""Factorizations of a private matrix that arrives in updates, released once or repeatedly."""

import secrets
import warnings
from dataclasses import KW_ONLY
from numbers import Integral
from typing import Any, ClassVar, Self

from sklearn.utils._param_validation import Interval, StrOptions

from skdp._validation import with_parameters
from skdp.decomposition._matrix_estimator import LowRankFactors
from skdp.decomposition.streams.base import BaseStream, StreamShard, exclusive_write
from skdp.exceptions import shortened, shown, warn_of_privacy
from skdp.linalg.prefix_sums import prefix_noise
from skdp.privacy import Released
from skdp.units import ResolvedEntry, ResolvedFrobeniusChange, ResolvedUpdate


@with_parameters
class DPStreamingFactorizer(BaseStream):  # numpydoc ignore=PR02
    r"""Low-rank factorization with differential privacy of a matrix that arrives cell by cell.

    Stores two sketches of the matrix, which begin as noise, before the first update. Updates may
    arrive in any order and have any sign. `finalize` ends the stream and returns the factors.

    **A stream has one copy.** Two copies that both continue share their noise, and the difference
    of their releases shows the difference of their updates without noise. So a stream is neither
    copied nor pickled. `checkpoint` writes it to an encrypted file and ends it here; `resume`
    continues from the file, once. Nothing prevents a second `resume` from a copy of the file, so
    the file with its key is as secret as the updates. Delete it after `resume`.

    Parameters
    ----------
    n_components : int, default=2
        Rank, at most the smaller side of the matrix.
    shape : tuple of two ints
        Shape of the matrix, public.
    epsilon : float, default=1.0
        Privacy budget of the stream, dimensionless, ``0 < epsilon <= inf``. Smaller is more
        private; ``inf`` switches the noise off.
    delta : float, default=1e-6
        Probability with which the guarantee may fail, ``0 < delta < 1``, well below one over the
        number of units.
    privacy_unit : Update, Entry or FrobeniusChange
        What is protected. :class:`skdp.units.Update`: one update, enforced by clipping every value
        before those of a cell are added up. :class:`skdp.units.Entry`: the final value of a cell.
        :class:`skdp.units.FrobeniusChange`: a change of the final matrix. The last two are
        *promised by the caller*, as a stream cannot enforce them; where a cell has several updates,
        their values must be multiples of `value_unit_`.
    adjacency : {"replace", "zero_out"}, default="replace"
        Neighboring streams differ in one update or entry, which is exchanged for any other
        ("replace") or taken away ("zero_out"). Irrelevant to a promised change.
    sketch : {"auto", "haar", "countsketch"}, default="auto"
        ``"countsketch"`` adds an update to two numbers. ``"haar"`` adds it to a row of each sum,
        and needs dense sketches in memory besides the sums. ``"auto"`` is "countsketch" for updates
        and entries, where it needs the least noise, and "haar" for changes of the matrix, if the
        dense sketches fit into 1 GiB.
    n_sketch : int or None, default=None
        Dimensions to which the shorter side is reduced; ``None`` is six times `n_components`, and
        at least 60. More dimensions need more memory and are more accurate, up to about twelve
        times `n_components`.
    n_core : int or None, default=None
        Dimensions to which the longer side is reduced; ``None`` is four times `n_sketch`. No side
        is reduced to more dimensions than it has.
    sketch_sensitivity : {"auto", "worst_case", "high_probability"}, default="auto"
        How far a promised change of the matrix may move the sketches. ``"worst_case"`` assumes the
        largest possible movement. ``"high_probability"`` assumes a bound that nearly all sketches
        obey, which takes half of the noise or less, but is private only if nobody knows the sketch
        before the stream ends. ``"auto"`` is "high_probability" for changes of the matrix with
        sketch "haar" and ``random_state=None``.
    ledger : PrivacyLedger or None, default=None
        Where the whole cost is charged when the stream is made. ``None`` keeps no ledger.
    random_state : int, RandomState or Generator instance or None, default=None
        Draws the sketches, which are secret only with ``"high_probability"``. The noise always
        comes from the operating system, as it is drawn before any data arrive.

    Attributes
    ----------
    privacy_spent_ : PrivacySpent
        Record of both releases, charged when the stream is opened. Public.
    value_unit_ : float
        Values are rounded to multiples of this power of two. Public.

    See Also
    --------
    DPLowRankFactorizer : For a matrix in memory, with far less noise.

    Notes
    -----
    **Privacy.** Unit: `privacy_unit`. Adjacency: `adjacency`. Mechanism: Gaussian, accounted for
    exactly in Gaussian differential privacy. Released: both sketches with their noise, at
    `finalize`, and nothing before. Assumed public: the shape, the number of updates, and the
    parameters. Values are converted to float64, rounded to multiples of `value_unit_` and added up
    exactly: the order of updates makes no difference, nor do batches, shards and threads. With
    sketch "haar" `value_unit_` is at most 2 ** -20 of the noise, or of a sixteenth of the
    sensitivity; with "countsketch", 2 ** -40 instead of 2 ** -20. The sensitivity includes one
    rounding of each cell. A copy of the stream in a forked process refuses to go on. Sums of more
    than some 2 ** 22 times the noise, or 2 ** 19 times the sensitivity, wrap around, which is
    private but useless; a warning does not always say so. Not covered: what `transform` and `score`
    of the factors return, noise-free functions of other rows; shards, which are private data; and
    the running time.

    The sketches are from Upadhyay (2018, :arxiv:`1604.01429`), and the fit extends the estimator
    there; the accounting is another. Memory: m t + n v numbers for a matrix of m rows and n columns
    with m >= n, t = `n_sketch` and v = `n_core`. Time: O(1) an update with "countsketch", O(t + v)
    with "haar".

    Examples
    --------
    >>> from skdp import DPStreamingFactorizer
    >>> from skdp.units import Update
    >>> stream = DPStreamingFactorizer(shape=(100, 50), privacy_unit=Update(bound=1.0))
    >>> stream.update(3, 7, 0.5)
    >>> stream.update([3, 4], [7, 8], [-0.5, 1.0])
    >>> stream.finalize().reconstruct(rows=3).shape
    (50,)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseStream._parameter_constraints,
        "sketch_sensitivity": [StrOptions({"auto", "worst_case", "high_probability"})],
    }
    _units = (ResolvedUpdate, ResolvedEntry, ResolvedFrobeniusChange)

    n_components: int = 2
    _: KW_ONLY
    shape: tuple[int, int]
    epsilon: float = 1.0
    delta: float = 1e-6
    privacy_unit: Any
    adjacency: str = "replace"
    sketch: str = "auto"
    n_sketch: int | None = None
    n_core: int | None = None
    sketch_sensitivity: str = "auto"
    ledger: Any = None
    random_state: Any = None

    def __post_init__(self) -> None:
        self._validate_params()
        self._start(prefix_noise(1))
        self._id = secrets.token_hex(16)
        self._n_shards = 0
        self._merged: set[str] = set()

    def shard(self, *, allow_pickle: bool = False) -> StreamShard:
        """Make an empty part of the stream, which collects updates elsewhere.

        A shard has no noise: it is private data, like the updates. Make a shard for each worker.

        Parameters
        ----------
        allow_pickle : bool, default=False
            Whether the shard can be sent to another process. It contains the sketches, which are
            secret with ``sketch_sensitivity="high_probability"``.

        Returns
        -------
        StreamShard
            An object with an `update` method, which `merge` consumes.

        Raises
        ------
        ValueError
            If the stream has ended, or a shard that can be pickled would reveal a secret sketch.
        """
        with self._lock:
            state = self._open_state()
            if allow_pickle and self._sketches.is_secret:
                raise ValueError(
                    "allow_pickle=True would reveal the sketches, which must stay secret with "
                    "sketch_sensitivity='high_probability': pass sketch_sensitivity='worst_case' "
                    "to the stream."
                )
            self._n_shards += 1
            return StreamShard(state.shard(allow_pickle=allow_pickle), self._id)

    def merge(self, shard: StreamShard) -> Self:
        """Add the updates of a shard, and end the shard.

        Parameters
        ----------
        shard : StreamShard
            A shard of this stream.

        Returns
        -------
        Self
            The stream.

        Raises
        ------
        ValueError
            If `shard` is not a shard of this stream, was merged, or one of its updates was
            interrupted. Then the stream continues.
        """
        if not isinstance(shard, StreamShard) or shard._stream_id != self._id:
            raise ValueError(
                "shard must be made by shard() of this very stream: two streams do not merge."
            )
        with self._lock, shard._lock:
            self._open_state()
            if shard._id in self._merged:
                raise ValueError(
                    "shard has been merged already, or a copy of it has: its updates could count "
                    "twice. Make a shard for each worker."
                )
            # A closed shard is refused before the write: an error during the write would end the
            # stream.
            part = shard._open_state()
            with exclusive_write(self) as state:
                shard._close("it has been merged")
                self._merged.add(shard._id)
                state.right += part.right
                state.left += part.left
        return self

    def finalize(self) -> LowRankFactors:
        """End the stream, and factorize the released sketches.

        Returns
        -------
        LowRankFactors
            Factors of both sides. Further calls return the same factors, even after an interrupt.

        Raises
        ------
        ValueError
            If the stream was closed because an update was interrupted.
        """
        with self._lock:
            is_first = self._factors is None
            factors = self._factorize_once(
                lambda: self._end("finalize ended it, and its budget is spent")
            )
            n_left = self._n_shards - len(self._merged)
            if is_first and n_left:
                warnings.warn(
                    f"The factors lack the updates of {n_left} of {self._n_shards} shards, and can "
                    "no longer get them: in a new stream, merge all shards before finalize.",
                    stacklevel=2,
                )
        return factors


@with_parameters
class DPContinualFactorizer(BaseStream):  # numpydoc ignore=PR02
    r"""Low-rank factorization with differential privacy, published after any of many epochs.

    Updates belong to the open epoch. `release` closes the epoch, and factorizes the sum of all
    updates so far. One guarantee covers all releases together.

    **A stream has one copy.** Two copies that both continue share their noise, and the difference
    of their releases shows the difference of their updates without noise. So a stream is neither
    copied nor pickled. `checkpoint` writes it to an encrypted file and ends it here; `resume`
    continues from the file, once. Nothing prevents a second `resume` from a copy of the file, so
    the file with its key is as secret as the updates. Delete it after `resume`.

    Parameters
    ----------
    n_components : int, default=2
        Rank, at most the smaller side of the matrix.
    shape : tuple of two ints
        Shape of the matrix, public.
    horizon : int
        Largest number of epochs, public, at most 2 ** 40. The noise grows slowly with it: a horizon
        of 2 ** 20 has 1.6 times the noise of 2 ** 10.
    epsilon : float, default=1.0
        Privacy budget of all epochs together, dimensionless, ``0 < epsilon <= inf``. Smaller is
        more private; ``inf`` switches the noise off.
    delta : float, default=1e-6
        Probability with which the guarantee may fail, ``0 < delta < 1``, well below one over the
        number of units.
    privacy_unit : Update or FrobeniusChange
        What is protected. :class:`skdp.units.Update`: one update, enforced by clipping every value
        before those of a cell are added up. :class:`skdp.units.FrobeniusChange`: changes of the
        updates of all epochs, whose Frobenius norms add up to at most its `sensitivity`. This is
        *promised by the caller*; where a cell has several updates, their values must be multiples
        of `value_unit_`. There is no unit for the final value of a cell: a rating and its
        withdrawal, in two epochs, are two changes.
    adjacency : {"replace", "zero_out"}, default="replace"
        Neighboring streams differ in one update, which is exchanged for any other of the same epoch
        ("replace") or taken away ("zero_out"). Irrelevant to a promised change.
    sketch : {"auto", "haar", "countsketch"}, default="auto"
        As in :class:`DPStreamingFactorizer`.
    n_sketch, n_core : int or None, default=None
        As in :class:`DPStreamingFactorizer`.
    ledger : PrivacyLedger or None, default=None
        Where the whole cost is charged when the stream is made. ``None`` keeps no ledger.
    random_state : int, RandomState or Generator instance or None, default=None
        Draws the sketches. They are not secret: releases show them, and later updates may depend on
        the releases. The noise always comes from the operating system.

    Attributes
    ----------
    n_epochs_ : int
        Number of closed epochs. Public.
    value_unit_ : float
        Values are rounded to multiples of this power of two. Public.
    privacy_spent_ : PrivacySpent
        Record of both sequences of releases, each charged as a whole when the stream is opened. Its
        `noise_std` belongs to the independent noise that the noise of all sums is made of. Public.

    See Also
    --------
    DPStreamingFactorizer : Published once, with less noise.

    Notes
    -----
    **Privacy.** Unit: `privacy_unit`. Adjacency: `adjacency`. Mechanism: Gaussian noise of prefix
    sums, correlated over the epochs by a square root of the matrix of prefix sums. All epochs are
    one release, accounted for exactly in Gaussian differential privacy. Updates may depend on
    earlier releases. Released: both sketches of the sum of all updates, with their noise, at
    `release`, and nothing of an open epoch; windows are differences of released sketches, and spend
    nothing. Assumed public: the shape, the horizon, the number of updates in each epoch, when
    epochs are closed, and the parameters. Sensitivities hold in the
    worst case, even if everybody knows the sketches. Not covered: what `transform` and `score` of
    the factors return, noise-free functions of other rows; and the running time.

    The square root is from Fichtenberger, Henzinger and Upadhyay (2023, :arxiv:`2202.11205`),
    approximated by five decaying exponentials after Dvijotham et al. (2024, :arxiv:`2404.16706`),
    with normalized columns. At a horizon of 1024 the last sum has 2.63 times the noise of a single
    release; with the binary tree of Upadhyay (2018, :arxiv:`1604.01429`) it would have 10.5 times.
    Memory: six times m t + n v numbers for a matrix of m rows and n columns with m >= n,
    t = `n_sketch` and v = `n_core`.

    Examples
    --------
    >>> from skdp import DPContinualFactorizer
    >>> from skdp.units import Update
    >>> unit = Update(bound=1.0)
    >>> stream = DPContinualFactorizer(shape=(100, 50), horizon=12, privacy_unit=unit, epsilon=4.0)
    >>> for month in range(3):
    ...     stream.update([3, 4], [7, 8], [0.5, 1.0])
    ...     factors = stream.release()
    >>> stream.n_epochs_
    3
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseStream._parameter_constraints,
        "horizon": [Interval(Integral, 1, 2**40, closed="both")],
    }
    _units = (ResolvedUpdate, ResolvedFrobeniusChange)

    n_components: int = 2
    _: KW_ONLY
    shape: tuple[int, int]
    horizon: int
    epsilon: float = 1.0
    delta: float = 1e-6
    privacy_unit: Any
    adjacency: str = "replace"
    sketch: str = "auto"
    n_sketch: int | None = None
    n_core: int | None = None
    ledger: Any = None
    random_state: Any = None

    def __post_init__(self) -> None:
        self._validate_params()
        self._start(prefix_noise(int(self.horizon)))
        self._horizon = int(self.horizon)
        self.n_epochs_ = 0
        self._stored: dict[int, tuple[Released, Released]] = {}
        self._since: int | None = None
        self._stores = False

    def close_epoch(self) -> None:
        """Close the open epoch without a release, and open the next one.

        Raises
        ------
        ValueError
            If all epochs of the horizon are closed.
        """
        with self._lock, exclusive_write(self):
            self._open_next()

    def release(self, since: int | None = None, *, store: bool = False) -> LowRankFactors:
        """Close the open epoch, and factorize the sum of all updates so far, or of a window.

        If a call is interrupted, or raises a warning as an error, the next call returns the factors
        of that epoch and closes no further epoch. Updates in between belong to the next epoch.

        Parameters
        ----------
        since : int or None, default=None
            0 and ``None`` take all updates. Another number, a value of `n_epochs_` after a release
            with `store`, takes the updates after that epoch, by the difference of released sums,
            which spends nothing.
        store : bool, default=False
            Whether to store the released sums, as large as the sketches, for later windows.

        Returns
        -------
        LowRankFactors
            Factors of both sides.

        Raises
        ------
        ValueError
            If all epochs of the horizon are closed already, or no sums of `since` are stored.
        """
        with self._lock:
            self._check_stored("since", since, None, 0)
            self._since, self._stores = since, store
            factors = self._factorize_once(self._open_next)
            self._factors = None
        return factors

    def window(self, since: int, until: int) -> LowRankFactors:
        """Factorize the updates between two releases with stored sums.

        The result is a function of released sums, which spends nothing and closes no epoch; the
        stream may have ended.

        Parameters
        ----------
        since, until : int
            The epochs are `since` + 1 to `until`: 0, or values of `n_epochs_` after releases with
            `store`.

        Returns
        -------
        LowRankFactors
            Factors of both sides.

        Raises
        ------
        ValueError
            If the sums of these epochs are not stored, or `until` is not after `since`.
        """
        with self._lock:
            self._check_stored("since", since, 0)
            self._check_stored("until", until)
            if until <= since:
                raise ValueError(f"until={until} must be larger than since={since}.")
            values = self._window(self._stored[until], since, until)
        factors, warnings = super()._factorized(values)
        warn_of_privacy(*warnings)
        return factors

    def _check_stored(self, name: str, epoch: Any, *others: int | None) -> None:
        """Refuse an epoch without stored sums, unless it is one of `others`."""
        if epoch not in (*others, *self._stored) or isinstance(epoch, bool):
            stored = shortened([str(one) for one in self._stored]) or "none"
            also = "".join(f"{one} or " for one in others)
            raise ValueError(
                f"{name}={shown(epoch)} must be {also}the number of an epoch whose release had "
                f"store=True. Stored: {stored}."
            )

    def _factorized(self, values: tuple[Released, Released]) -> tuple[LowRankFactors, list[str]]:
        """Fit the released sums, or their difference from the sums at the start of a window."""
        if self._stores:
            self._stored[self.n_epochs_] = values
        return super()._factorized(self._window(values, self._since or 0, self.n_epochs_))

    def _window(self, values: tuple[Released, Released], since: int, until: int) -> Any:
        """Subtract the sums stored at `since` from `values`, the sums released at `until`."""
        if not since:
            return values
        std = prefix_noise(self._horizon).window_std(since, until)
        pairs = zip(values, self._stored[since], self.privacy_spent_.releases, strict=True)
        return tuple(
            Released(now.value - then.value, std * (release.noise_std or 0.0))
            for now, then, release in pairs
        )

    def _open_next(self) -> None:
        """Count the closed epoch, and add the noise of the next epoch, or end the stream."""
        self.n_epochs_ += 1
        if self.n_epochs_ < self._horizon:
            for counts in self._noisy_sums:
                counts.open_epoch()
            return
        self._end(
            f"all epochs of horizon={self._horizon} are closed. A new one, with a larger horizon, "
            "is empty at first and spends its own epsilon"
        )
