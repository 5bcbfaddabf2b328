"""Low-rank factorization of a private matrix, published again and again while it changes."""

from numbers import Integral
from typing import Any, ClassVar

from sklearn.utils._param_validation import Interval

from skdp.decomposition._low_rank_factors import LowRankFactors
from skdp.decomposition._stream_base import BaseStream
from skdp.decomposition._stream_updates import ExclusiveWrite
from skdp.linalg.prefix_sums import prefix_noise
from skdp.units import ResolvedFrobeniusChange, ResolvedUpdate


class DPContinualFactorizer(BaseStream):
    r"""Low-rank factorization with differential privacy, published after any of many epochs.

    Updates belong to the epoch that is open. `release` closes it, and factorizes the sum of all
    updates so far. One guarantee covers all releases together.

    Parameters
    ----------
    n_components : int, default=2
        Rank, at most the smaller side of the matrix.
    shape : tuple of two ints
        Shape of the matrix, public.
    horizon : int
        Largest number of epochs, public, at most 2 ** 40. The noise grows slowly with it: a horizon
        of 2 ** 20 has 1.7 times that of 2 ** 10.
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
        ("replace") or taken away ("zero_out"). Makes no difference to a promised change.
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
        How many epochs have been closed. Public.
    value_unit_ : float
        Values are rounded to multiples of this power of two. Public.
    privacy_spent_ : PrivacySpent
        Record of both sequences of releases, each charged as a whole when the stream is opened. Its
        noise std is that of the independent noise, of which the noise in a sum is made. Public.

    See Also
    --------
    DPStreamingFactorizer : Published once, with less noise.

    Notes
    -----
    **Privacy.** Unit: `privacy_unit`. Adjacency: `adjacency`. Mechanism: Gaussian noise of prefix
    sums, correlated over the epochs by a square root of the matrix of prefix sums. All epochs are
    one release, accounted for exactly in Gaussian differential privacy. Updates may depend on
    earlier releases. Released: both sketches of the sum of all updates, with their noise, at
    `release`, and nothing of an open epoch. Assumed public: the shape, the horizon, the number of
    updates in each epoch, when epochs are closed, and the parameters. Sensitivities hold in the
    worst case, even if everybody knows the sketches. Not covered: what `transform` and `score` of
    the factors return, noise-free functions of other rows; and the running time.

    The square root is that of Fichtenberger, Henzinger and Upadhyay (2023, :arxiv:`2202.11205`),
    approximated by five decaying exponentials after Dvijotham et al. (2024, :arxiv:`2404.16706`).
    At a horizon of 1024 the noise of the last sum is 3.27 times that of a single release; with the
    binary tree of Upadhyay (2018, :arxiv:`1604.01429`) it would be 10.5 times. Memory: six times
    m t + n v numbers for a matrix of m rows and n columns with m >= n, t = `n_sketch` and
    v = `n_core`.

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
    _copy_advice = "Releases show all that there is to see."

    def __init__(
        self,
        n_components: int = 2,
        *,
        shape: tuple[int, int],
        horizon: int,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        privacy_unit: Any,
        adjacency: str = "replace",
        sketch: str = "auto",
        n_sketch: int | None = None,
        n_core: int | None = None,
        ledger: Any = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.shape = shape
        self.horizon = horizon
        self.epsilon = epsilon
        self.delta = delta
        self.privacy_unit = privacy_unit
        self.adjacency = adjacency
        self.sketch = sketch
        self.n_sketch = n_sketch
        self.n_core = n_core
        self.ledger = ledger
        self.random_state = random_state
        self._validate_params()
        self._start(prefix_noise(int(horizon)))
        self._horizon = int(horizon)
        self.n_epochs_ = 0

    def close_epoch(self) -> None:
        """Close the open epoch without a release, and open the next one.

        Raises
        ------
        ValueError
            If all epochs of the horizon are closed.
        """
        with self._lock, ExclusiveWrite(self):
            self._open_next()

    def release(self) -> LowRankFactors:
        """Close the open epoch, and factorize the sum of all updates so far.

        If a call is interrupted, or raises a warning as an error, the next call returns the factors
        of that epoch and closes no further epoch. Updates in between belong to the next epoch.

        Returns
        -------
        LowRankFactors
            Factors of both sides.

        Raises
        ------
        ValueError
            If all epochs of the horizon are closed.
        """
        with self._lock:
            factors = self._factorize_once(self._open_next)
            self._factors = None
        return factors

    def _open_next(self) -> None:
        """Add the noise of the next epoch before its updates, or end the stream."""
        self.n_epochs_ += 1
        if self.n_epochs_ < self._horizon:
            for counts in self._noisy_sums:
                counts.open_epoch()
            return
        self._end(f"all epochs of horizon={self._horizon} are closed")
