"""Low-rank factorization of a private matrix that arrives as a stream of updates."""

import math
import secrets
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from skdp._estimator import check_rows
from skdp._parameters import PlainParametersMixin
from skdp.decomposition._low_rank_factors import LowRankFactors
from skdp.decomposition._sketches.fit import fit_sketches
from skdp.decomposition._sketches.plan import (
    Sketches,
    StreamUnit,
    is_random,
    plan_stream,
    sketch_sizes,
)
from skdp.decomposition._sketches.state import StreamState
from skdp.decomposition._stream_updates import StreamShard, TakesUpdates
from skdp.exceptions import warn_of_privacy
from skdp.linalg.sketch import draw_sketch
from skdp.linalg.subspace import deterministic_signs
from skdp.privacy import Plan, PrivacyBudget, PrivacySpent
from skdp.privacy.adjacency import ADJACENCIES
from skdp.privacy.noise import algorithm_generator, draw_seed
from skdp.privacy.noise_first import NoisyCounts, fixed_point_unit
from skdp.units._changes import ResolvedFrobeniusChange
from skdp.units._entries import ResolvedEntry
from skdp.units._unit import resolved_unit
from skdp.units._updates import ResolvedUpdate

__all__ = ["DPStreamingFactorizer"]

_UNITS = (ResolvedUpdate, ResolvedEntry, ResolvedFrobeniusChange)
# A dense sketch takes memory of its own beside the sums: up to so many bytes of it.
_LARGEST_DENSE_SKETCH = 1 << 30


class DPStreamingFactorizer(PlainParametersMixin, TakesUpdates):
    r"""Low-rank factorization with differential privacy of a matrix that arrives cell by cell.

    Keeps two sketches of the matrix, to which noise was added before the first update. Updates may
    come in any order and have any sign. `finalize` gives the factors, once.

    Parameters
    ----------
    shape : tuple of two ints
        Shape of the matrix, public.
    n_components : int, default=2
        Rank, at most the smaller side.
    epsilon : float, default=1.0
        Privacy budget of the stream, dimensionless, ``0 < epsilon <= inf``. Smaller is more
        private; ``inf`` switches the noise off.
    delta : float, default=1e-6
        Probability with which the guarantee may fail, ``0 < delta < 1``, well below one over the
        number of units.
    privacy_unit : Update, Entry or FrobeniusChange
        What is protected. :class:`skdp.units.Update`: one update, enforced by clipping every value
        before those of a cell are added up. :class:`skdp.units.Entry`: what a cell finally holds,
        and :class:`skdp.units.FrobeniusChange`: a change of the final matrix. Both are *promised by
        the caller*, of values as they are rounded here (Notes), for a stream cannot enforce them.
    adjacency : {"replace", "zero_out"}, default="replace"
        Neighbouring streams differ by exchanging one update or entry for any other, or by one that
        is taken away. Of no matter to a promised change of the matrix.
    sketch : {"auto", "haar", "countsketch"}, default="auto"
        ``"countsketch"`` touches two numbers an update. ``"haar"`` touches a row of each sketch,
        and needs the dense sketches beside the sums. ``"auto"`` is "countsketch" for updates and
        entries, whose noise it makes smallest, and "haar" for changes of the matrix, if the dense
        sketches fit 1 GiB.
    n_sketch : int or None, default=None
        Dimensions that are kept of the shorter side; ``None`` is six times `n_components`.
    n_core : int or None, default=None
        Those of the longer side; ``None`` is four times `n_sketch`. Both are at most the side.
    sketch_sensitivity : {"auto", "worst_case", "high_probability"}, default="auto"
        How far a promised change of the matrix moves its sketches: as far as it can, or as far as
        it does for nearly all sketches, which takes a third of the noise. The latter is private
        only if nobody knows the sketch before the stream ends. ``"auto"`` takes it for changes of
        the matrix with sketch "haar" and ``random_state=None``.
    random_state : int, RandomState or Generator instance or None, default=None
        Draws the sketches, which are no secret but for ``"high_probability"``. The noise comes from
        the operating system always: it is drawn before there are data that it could depend on.

    Attributes
    ----------
    privacy_spent_ : PrivacySpent
        Record of both releases, booked when the stream is opened. Public.

    See Also
    --------
    DPLowRankFactorizer : For a matrix in memory, with far less noise.

    Notes
    -----
    **Privacy.** Unit: `privacy_unit`. Adjacency: `adjacency`. Mechanism: Gaussian, accounted for
    exactly in Gaussian differential privacy. Released: both sketches with their noise, at
    `finalize`, and nothing before. Assumed public: the shape, the number of updates, and the
    parameters. Values are rounded to multiples of a power of two, at most 2 ** -20 of the noise
    with sketch "haar" and 2 ** -40 with "countsketch", and added up exactly: the order of updates
    makes no difference, nor do batches and shards. Sums of more than some 2 ** 22 times the noise
    wrap around, which is private and useless. Not covered: what `transform` and `score` of the
    factors return, noise-free functions of other rows; shards, which are private data; and the
    running time.

    The sketches and the published estimator, of which the fit is an extension, are those of
    Upadhyay (2018, :arxiv:`1604.01429`), the accounting is not. Memory: m t + n v numbers for a
    matrix of m rows and n columns with m >= n, t = `n_sketch` and v = `n_core`. Time: O(1) an
    update with "countsketch", O(t + v) with "haar".

    Examples
    --------
    >>> from skdp import DPStreamingFactorizer
    >>> from skdp.units import Update
    >>> stream = DPStreamingFactorizer((100, 50), privacy_unit=Update(bound=1.0))
    >>> stream.update(3, 7, 0.5)
    >>> stream.update([3, 4], [7, 8], [-0.5, 1.0])
    >>> stream.finalize().reconstruct(rows=3).shape
    (50,)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "epsilon": [Interval(Real, 0, None, closed="right")],
        "delta": [Interval(Real, 0, 1, closed="neither")],
        "adjacency": [StrOptions(set(ADJACENCIES))],
        "sketch": [StrOptions({"auto", "haar", "countsketch"})],
        "n_sketch": [Interval(Integral, 1, None, closed="left"), None],
        "n_core": [Interval(Integral, 1, None, closed="left"), None],
        "sketch_sensitivity": [StrOptions({"auto", "worst_case", "high_probability"})],
        "random_state": [
            Interval(Integral, 0, None, closed="left"),
            np.random.RandomState,
            np.random.Generator,
            None,
        ],
    }

    _counts: tuple[NoisyCounts, ...]
    _factors: LowRankFactors | None

    def __init__(
        self,
        shape: tuple[int, int],
        n_components: int = 2,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        privacy_unit: Any,
        adjacency: str = "replace",
        sketch: str = "auto",
        n_sketch: int | None = None,
        n_core: int | None = None,
        sketch_sensitivity: str = "auto",
        random_state: Any = None,
    ) -> None:
        self.shape = shape
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.privacy_unit = privacy_unit
        self.adjacency = adjacency
        self.sketch = sketch
        self.n_sketch = n_sketch
        self.n_core = n_core
        self.sketch_sensitivity = sketch_sensitivity
        self.random_state = random_state
        self._open()

    def partial_fit(self, X: Any, y: Any = None) -> "DPStreamingFactorizer":
        """Add the next rows of the matrix: an update for every entry that is not 0.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_columns)
            Rows that follow those of the calls before.
        y : None
            Ignored.

        Returns
        -------
        DPStreamingFactorizer
            The stream.

        Raises
        ------
        ValueError
            If there are not so many rows left, or X is not acceptable; nothing has been added then.
        """
        state, (n_rows, n_columns) = self._open_state(), self._shape
        X = check_rows(X, type(self).__name__)
        if X.shape[1] != n_columns:
            raise ValueError(
                f"X has {X.shape[1]} columns, but shape={self._shape} has {n_columns}."
            )
        if self._n_rows_seen + X.shape[0] > n_rows:
            raise ValueError(
                f"X has {X.shape[0]} rows after {self._n_rows_seen} others, but "
                f"shape={self._shape} has {n_rows}."
            )
        state.add_rows(self._n_rows_seen, X)
        self._n_rows_seen += X.shape[0]
        return self

    def shard(self, *, allow_pickle: bool = False) -> StreamShard:
        """Make an empty part of the stream, to gather updates elsewhere.

        A shard has no noise: it is private data, like the updates themselves.

        Parameters
        ----------
        allow_pickle : bool, default=False
            Whether it can be sent to another process. With it goes the sketch, which
            ``sketch_sensitivity="high_probability"`` must keep to itself.

        Returns
        -------
        StreamShard
            What takes updates, and is consumed by `merge`.

        Raises
        ------
        ValueError
            If the stream has ended, or a shard that can be pickled would give a secret sketch away.
        """
        state = self._open_state()
        if allow_pickle and state.sketches.is_secret:
            raise ValueError(
                "allow_pickle=True would hand out a sketch that sketch_sensitivity="
                "'high_probability' keeps secret: pass sketch_sensitivity='worst_case' to the "
                "stream."
            )
        return StreamShard(state.shard(may_leave=allow_pickle), self._own)

    def merge(self, shard: StreamShard) -> "DPStreamingFactorizer":
        """Take over the updates of a shard, which ends with that.

        Parameters
        ----------
        shard : StreamShard
            A shard of this stream.

        Returns
        -------
        DPStreamingFactorizer
            The stream.

        Raises
        ------
        ValueError
            If it is no shard of this stream, or has been merged.
        """
        state = self._open_state()
        if not isinstance(shard, StreamShard) or shard._stream != self._own:
            raise ValueError(
                "shard must be one that shard() of this very stream gave: two streams do not merge."
            )
        if shard._own in self._merged:
            raise ValueError("shard has been merged already: its updates would count twice.")
        state.absorb(shard._open_state())
        self._merged.add(shard._own)
        shard._state = None
        return self

    def finalize(self) -> LowRankFactors:
        """End the stream, and factorize what was released.

        Returns
        -------
        LowRankFactors
            Factors of both sides; the same ones whenever it is called again.
        """
        if self._factors is None:
            sketches = self._open_state().sketches
            right, left = self._counts
            values = right.read(), left.read()
            self._state, self._counts = None, ()
            self._factors = self._factorized(values, sketches)
        return self._factors

    @property
    def privacy_spent_(self) -> PrivacySpent:
        """Record of both releases, booked when the stream is opened."""
        return self._spent

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self._shape}, {self.n_components}, epsilon={self.epsilon}, "
            f"delta={self.delta}, privacy_unit={self.privacy_unit!r})"
        )

    def __getstate__(self) -> dict[str, Any]:
        if self._state is not None:
            raise TypeError(
                "A stream that has not ended is neither copied nor pickled: two views of it would "
                "show what came in between. Call finalize first, or send shards."
            )
        return self.__dict__

    @property
    def _closed(self) -> str:
        return "finalize ended it, and its budget is spent"

    def _open(self) -> None:
        """Check what is asked, draw the sketches, and spend the budget on noise."""
        self._validate_params()
        self._shape = _checked_shape(self.shape, int(self.n_components))
        unit = self._resolved_unit()
        sketches = self._sketches(unit)
        plan = plan_stream(sketches, unit, epsilon=float(self.epsilon), delta=float(self.delta))
        self._warn_of_delta(unit)
        budget = self._open_budget(plan)
        right, left = self._counts = _noisy_counts(plan, budget)
        self._state = StreamState(
            right.counts,
            left.counts,
            sketches,
            unit=right.unit,
            bound=unit.bound if isinstance(unit, ResolvedUpdate) else math.inf,
        )
        self._spent = budget.spent()
        self._factors = None
        self._n_rows_seen = 0
        self._own = secrets.token_hex(16)
        self._merged: set[str] = set()

    def _open_budget(self, plan: Plan) -> PrivacyBudget:
        return PrivacyBudget.of(plan)

    def _resolved_unit(self) -> StreamUnit:
        unit = resolved_unit(self.privacy_unit, self.adjacency, float(self.epsilon))
        if type(unit) not in _UNITS:
            raise ValueError(
                f"privacy_unit={self.privacy_unit!r} is not for {type(self).__name__}, which "
                f"protects {', '.join(one.name for one in _UNITS)}."
            )
        return unit  # type: ignore[return-value]

    def _sketches(self, unit: StreamUnit) -> Sketches:
        """Draw both sketches, as public facts decide."""
        sizes = sketch_sizes(self._shape, int(self.n_components), self.n_sketch, self.n_core)
        kind, is_promise = self.sketch, isinstance(unit, ResolvedFrobeniusChange)
        if kind == "auto":
            n_bytes = 8 * (self._shape[1] * sizes[0] + self._shape[0] * sizes[1])
            kind = "haar" if is_promise and n_bytes <= _LARGEST_DENSE_SKETCH else "countsketch"
        can_be_secret = is_promise and kind == "haar" and self.random_state is None
        if self.sketch_sensitivity == "high_probability" and not can_be_secret:
            raise ValueError(
                "sketch_sensitivity='high_probability' needs a FrobeniusChange, sketch='haar' and "
                f"random_state=None, got privacy_unit={self.privacy_unit!r}, sketch={kind!r} and "
                f"random_state={'None' if self.random_state is None else 'given'}; pass "
                "sketch_sensitivity='worst_case'."
            )
        is_secret = can_be_secret and self.sketch_sensitivity != "worst_case"
        generator = algorithm_generator(draw_seed(self.random_state))
        n_rows, n_columns = self._shape
        right = draw_sketch(kind, n_columns, sizes[0], generator)
        left = draw_sketch(kind, n_rows, sizes[1], generator)
        return Sketches(right, left, is_secret and (is_random(right) or is_random(left)))

    def _warn_of_delta(self, unit: StreamUnit) -> None:
        n_units = self._shape[0] if unit.counted == "rows" else math.prod(self._shape)
        if math.isfinite(self.epsilon) and self.delta > 1 / n_units:
            warn_of_privacy(
                f"delta={self.delta} exceeds one over the number of {unit.counted}, {n_units}: the "
                "guarantee would allow some of them to be published outright. Pass a smaller "
                f"delta, such as {0.1 / n_units:.0e}."
            )

    def _factorized(self, values: Any, sketches: Sketches) -> LowRankFactors:
        """Fit the released sketches, and say so if not all components stand out."""
        scales = [release.noise_scale for release in self._spent.releases]
        n_components = int(self.n_components)
        with np.errstate(all="ignore"):
            found = fit_sketches(
                values, (sketches.right, sketches.left), (scales[0], scales[1]), n_components
            )
        signs = deterministic_signs(found.right.T)
        if scales[0] > 0 and found.rank < n_components:
            warn_of_privacy(
                f"Only {found.rank} of {n_components} components stand out from the noise. Ask for "
                "fewer components, or use a larger epsilon."
            )
        return LowRankFactors(
            components_=found.right.T * signs[:, np.newaxis],
            singular_values_=found.singular_values,
            left_components_=found.left * signs,
            privacy_spent_=self._spent,
        )


def _noisy_counts(plan: Plan, budget: PrivacyBudget) -> tuple[NoisyCounts, ...]:
    """Spend the budget on sums of one unit."""
    unit = fixed_point_unit(
        [line.noise_scale or 0.0 for line in plan.releases],
        [line.sensitivity or 0.0 for line in plan.releases],
    )
    return tuple(
        budget.noise_first(line.name, line.shape, sensitivity=line.sensitivity or 0.0, unit=unit)
        for line in plan.releases
    )


def _checked_shape(shape: Any, n_components: int) -> tuple[int, int]:
    """Refuse what is no shape of a matrix with that many components."""
    is_pair = isinstance(shape, tuple | list) and len(shape) == 2
    if not is_pair or not all(isinstance(n, Integral) and int(n) >= 1 for n in shape):
        raise ValueError(f"shape={shape!r} must be two positive ints, those of the matrix.")
    if n_components > min(shape):
        raise ValueError(
            f"n_components={n_components} must be at most the smaller side of shape={shape!r}."
        )
    return int(shape[0]), int(shape[1])
