"""What both kinds of streams share: parameters, sketches, sums that start from noise, the fit."""

import math
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from skdp._estimator import BudgetMixin, plan_of, warnings_for_delta
from skdp._parameters import without_secrets
from skdp.decomposition._low_rank_factors import LowRankFactors
from skdp.decomposition._sketches.fit import fit_sketches
from skdp.decomposition._sketches.plan import (
    PromisedEntry,
    Sketches,
    StreamProblem,
    StreamUnit,
    draw_sketches,
    plan_stream,
    sketch_sizes,
    tails_of,
)
from skdp.decomposition._sketches.state import StreamState
from skdp.decomposition._stream_updates import OwnProcess, TakesUpdates, Writing
from skdp.exceptions import warn_of_privacy
from skdp.linalg.prefix_sums import PrefixNoise
from skdp.linalg.subspace import deterministic_signs
from skdp.privacy import PrivacySpent, Released
from skdp.privacy.cost import PrivacyCost
from skdp.privacy.initial_noise import InitialNoiseSums, fixed_point_unit
from skdp.privacy.noise import algorithm_generator, draw_seed
from skdp.units._changes import DEFAULT_LARGEST, ResolvedFrobeniusChange
from skdp.units._entries import ResolvedEntry
from skdp.units._unit import Unit, supported_unit
from skdp.units._updates import ResolvedUpdate

__all__ = ["BaseStream"]

# A dense sketch takes memory of its own beside the sums: up to so many bytes of it.
_LARGEST_DENSE_SKETCH = 1 << 30  # not studied
# Sums that are that near to the end of the range may have wrapped around.
_LARGEST_COUNT = 2.0**60  # not tuned


class BaseStream(BudgetMixin, TakesUpdates):
    """A stream of updates of a private matrix, seen through two sketches."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BudgetMixin._parameter_constraints,
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "delta": [Interval(Real, 0, 1, closed="neither")],
        "sketch": [StrOptions({"auto", "haar", "countsketch"})],
        "n_sketch": [Interval(Integral, 1, None, closed="left"), None],
        "n_core": [Interval(Integral, 1, None, closed="left"), None],
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
    #: Units that streams of this kind protect.
    _units: ClassVar[tuple[type[StreamUnit], ...]]
    #: What to do instead of taking a second view of the state.
    _instead: ClassVar[str]
    _counts: tuple[InitialNoiseSums, ...]
    # What was paid for and not handed out: kept until it is, whatever interrupts.
    _released: tuple[Released, Released] | None = None
    _factors: LowRankFactors | None = None
    privacy_spent_: PrivacySpent
    value_unit_: float

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.n_components}, shape={self._shape}, "
            f"epsilon={self.epsilon}, delta={self.delta}, privacy_unit={self.privacy_unit!r})"
        )

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            if not self._is_over:
                raise TypeError(
                    "A stream that has not ended is neither copied nor pickled: two views of it "
                    f"would show what came in between. {self._instead}"
                )
            return without_secrets(super().__getstate__())

    def _start(self, correlation: PrefixNoise) -> None:
        """Check what is asked, draw the sketches, and spend the budget on noise."""
        TakesUpdates.__init__(self)
        self._shape = _checked_shape(self.shape, int(self.n_components))
        unit = self._resolved_unit()
        self._sketches = self._drawn(unit)
        # Reserved for sketches that lengthen more than they are trusted to.
        reserved = math.fsum(self._sketches.tails)
        cost = PrivacyCost(float(self.epsilon), float(self.delta), reserved)
        problem = StreamProblem(unit, self._sketches, correlation, cost)
        warn_of_privacy(*warnings_for_delta(cost, unit.counted, problem.n_units))
        exact = plan_of(problem, plan_stream(problem))
        count_unit = fixed_point_unit(exact.releases)
        plan = plan_of(problem, plan_stream(problem, count_unit))
        what = f"{type(self).__name__}, {self._shape[0]} x {self._shape[1]}"
        budget = self._open_budget(plan, what)
        self._process = OwnProcess()
        self._is_over = False
        right, left = self._counts = tuple(
            budget.sums_with_initial_noise(one, unit=count_unit, correlation=correlation)
            for one in plan.parts
        )
        self._state = StreamState(
            right.counts,
            left.counts,
            self._sketches,
            unit=count_unit,
            bound=unit.bound if isinstance(unit, ResolvedUpdate) else math.inf,
        )
        self.value_unit_ = self._state.value_unit
        self.privacy_spent_ = budget.spent()

    def _end(self, reason: str) -> None:
        self._close(reason)
        self._counts, self._is_over = (), True

    @property
    def _shape_of_cells(self) -> tuple[int, int]:
        return self._shape

    def _live_state(self) -> StreamState:
        state = super()._live_state()
        self._process.check()
        return state

    def _resolved_unit(self) -> StreamUnit:
        given = self.privacy_unit
        if not isinstance(given, Unit):
            raise ValueError(
                f"privacy_unit={given!r} must be an object of skdp.units, such as "
                "privacy_unit=skdp.units.Update(bound=1.0)."
            )
        unit = supported_unit(
            given, self.adjacency, float(self.epsilon), self._units, type(self).__name__
        )
        if isinstance(unit, ResolvedFrobeniusChange) and unit.size != DEFAULT_LARGEST:
            raise ValueError(
                f"largest={unit.size:g} of privacy_unit={given!r} is for matrices in memory: the "
                f"sums of a stream do not round. Leave it at {DEFAULT_LARGEST:g}."
            )
        return PromisedEntry(**vars(unit)) if isinstance(unit, ResolvedEntry) else unit

    def _drawn(self, unit: StreamUnit) -> Sketches:
        """Draw both sketches, as public facts decide."""
        n_components, kind = int(self.n_components), self.sketch
        for name in ("n_sketch", "n_core"):
            size = getattr(self, name)
            if size is not None and size < n_components:
                raise ValueError(f"{name}={size} must be at least n_components={n_components}.")
        sizes = sketch_sizes(self._shape, n_components, self.n_sketch, self.n_core)
        is_promise = isinstance(unit, ResolvedFrobeniusChange)
        if kind == "auto":
            n_bytes = 8 * (self._shape[1] * sizes[0] + self._shape[0] * sizes[1])
            kind = "haar" if is_promise and n_bytes <= _LARGEST_DENSE_SKETCH else "countsketch"
        is_unknown = is_promise and kind == "haar" and self.random_state is None
        is_secret = self._keeps_secret(kind, is_unknown=is_unknown)
        tails = tails_of(self._shape, sizes, float(self.delta)) if is_secret else (0.0, 0.0)
        generator = algorithm_generator(draw_seed(self.random_state))
        return Sketches(*draw_sketches(kind, self._shape, sizes, generator), tails)

    def _keeps_secret(self, kind: str, *, is_unknown: bool) -> bool:
        """Tell whether nobody gets to know the sketch, or what comes of it, before the end."""
        return False

    def _factors_of_sums(self, end: Callable[[], None]) -> LowRankFactors:
        """Read the sums, call `end`, and factorize them.

        Each happens once: after an interruption the sums, or the factors, are still there.
        """
        if self._factors is None:
            if self._released is None:
                with Writing(self):
                    right, left = self._counts
                    self._released = right.read(), left.read()
                    end()
            self._factors, warnings = self._factorized(self._released)
            self._released = None
            warn_of_privacy(*warnings)
        return self._factors

    def _factorized(self, values: tuple[Released, Released]) -> tuple[LowRankFactors, list[str]]:
        """Fit the released sketches; return what these say against the factors, too."""
        n_components = int(self.n_components)
        # Released values, of which no warning would tell more than they do.
        with np.errstate(all="ignore"):
            found = fit_sketches(values, self._sketches, n_components)
        signs = deterministic_signs(found.right.T)
        factors = LowRankFactors(
            components_=found.right.T * signs[:, np.newaxis],
            singular_values_=found.singular_values,
            left_components_=found.left * signs,
            privacy_spent_=self.privacy_spent_,
        )
        return factors, self._warnings(values, found.rank)

    def _warnings(self, values: tuple[Released, Released], rank: int) -> list[str]:
        """Say what released values tell against the factors."""
        warnings, n_components = [], int(self.n_components)
        if values[0].noise_std > 0 and rank < n_components:
            fewer = "Ask for fewer components, or use " if rank else "Use "
            warnings.append(
                f"Only {rank} of {n_components} components stand out from the noise and the error "
                f"of the sketch. {fewer}a larger epsilon or a larger n_sketch; of privacy_unit="
                "Update(bound) a bound that cuts fewer values, too."
            )
        count_unit = self.value_unit_ * self._sketches.right.unit
        if max(np.abs(one.value).max() for one in values) > _LARGEST_COUNT * count_unit:
            warnings.append(
                "Sums are near the end of their range, or have wrapped around: values are too "
                "large beside the noise for the factors to mean anything."
            )
        return warnings


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
