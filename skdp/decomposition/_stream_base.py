"""What both kinds of streams share: parameters, sketches, sums that start from noise, the fit."""

import math
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from skdp._parameters import PlainParametersMixin
from skdp.decomposition._low_rank_factors import LowRankFactors
from skdp.decomposition._sketches.fit import fit_sketches
from skdp.decomposition._sketches.plan import (
    Sketches,
    StreamUnit,
    plan_stream,
    sketch_sizes,
    tail_of,
)
from skdp.decomposition._sketches.state import StreamState
from skdp.decomposition._stream_updates import TakesUpdates
from skdp.exceptions import warn_of_privacy
from skdp.linalg.prefix_sums import PrefixNoise
from skdp.linalg.sketch import draw_sketch
from skdp.linalg.subspace import deterministic_signs
from skdp.privacy import Plan, PrivacyBudget, PrivacySpent
from skdp.privacy.adjacency import ADJACENCIES
from skdp.privacy.noise import algorithm_generator, draw_seed
from skdp.privacy.noise_first import NoisyCounts, fixed_point_unit
from skdp.units._changes import ResolvedFrobeniusChange
from skdp.units._unit import Unit
from skdp.units._updates import ResolvedUpdate

__all__ = ["BaseStream"]

# A dense sketch takes memory of its own beside the sums: up to so many bytes of it.
_LARGEST_DENSE_SKETCH = 1 << 30
# Noise that follows earlier noise is off by some 1e-13 of its scale, of which the change that one
# unit makes may be a small part.
_NOISE_MARGIN = 1 + 1e-6
_DEFAULT_LARGEST = 1e6


class BaseStream(PlainParametersMixin, TakesUpdates):
    """A stream of updates of a private matrix, seen through two sketches."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "epsilon": [Interval(Real, 0, None, closed="right")],
        "delta": [Interval(Real, 0, 1, closed="neither")],
        "adjacency": [StrOptions(set(ADJACENCIES))],
        "sketch": [StrOptions({"auto", "haar", "countsketch"})],
        "n_sketch": [Interval(Integral, 1, None, closed="left"), None],
        "n_core": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": [
            Interval(Integral, 0, None, closed="left"),
            np.random.RandomState,
            np.random.Generator,
            None,
        ],
    }

    shape: Any
    n_components: int
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
    _counts: tuple[NoisyCounts, ...]

    @property
    def privacy_spent_(self) -> PrivacySpent:
        """Record of the releases, booked when the stream is opened."""
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

    def _open(self, correlation: PrefixNoise | None = None, n_epochs: int = 1) -> None:
        """Check what is asked, draw the sketches, and spend the budget on noise."""
        self._shape = _checked_shape(self.shape, int(self.n_components))
        unit = self._resolved_unit()
        sketches = self._sketches(unit)
        plan = plan_stream(
            sketches,
            unit,
            epsilon=float(self.epsilon),
            delta=float(self.delta),
            column_norm=1.0 if correlation is None else correlation.column_norm * _NOISE_MARGIN,
            n_epochs=n_epochs,
        )
        self._warn_of_delta(unit)
        budget = self._open_budget(plan)
        right, left = self._counts = _noisy_counts(plan, budget, correlation, n_epochs)
        self._state = StreamState(
            right.counts,
            left.counts,
            sketches,
            unit=right.unit,
            bound=unit.bound if isinstance(unit, ResolvedUpdate) else math.inf,
        )
        self._spent = budget.spent()

    def _open_budget(self, plan: Plan) -> PrivacyBudget:
        return PrivacyBudget.of(plan)

    def _resolved_unit(self) -> StreamUnit:
        given = self.privacy_unit
        if not isinstance(given, Unit):
            raise ValueError(
                f"privacy_unit={given!r} must be an object of skdp.units, such as "
                "privacy_unit=skdp.units.Update(bound=1.0)."
            )
        unit = given.resolve(self.adjacency, float(self.epsilon))
        if isinstance(unit, ResolvedFrobeniusChange) and unit.size != _DEFAULT_LARGEST:
            raise ValueError(
                f"largest={unit.size:g} of privacy_unit={given!r} is for matrices in memory: the "
                f"sums of a stream do not round. Leave it at {_DEFAULT_LARGEST:g}."
            )
        if type(unit) not in self._units:
            raise ValueError(
                f"privacy_unit={self.privacy_unit!r} is not for {type(self).__name__}, which "
                f"protects {', '.join(one.name for one in self._units)}."
            )
        return unit  # type: ignore[return-value]

    def _sketches(self, unit: StreamUnit) -> Sketches:
        """Draw both sketches, as public facts decide."""
        sizes = sketch_sizes(self._shape, int(self.n_components), self.n_sketch, self.n_core)
        (n_rows, n_columns), kind = self._shape, self.sketch
        is_promise = isinstance(unit, ResolvedFrobeniusChange)
        if kind == "auto":
            n_bytes = 8 * (n_columns * sizes[0] + n_rows * sizes[1])
            kind = "haar" if is_promise and n_bytes <= _LARGEST_DENSE_SKETCH else "countsketch"
        is_unknown = is_promise and kind == "haar" and self.random_state is None
        is_secret = self._keeps_secret(kind, is_unknown=is_unknown)
        generator = algorithm_generator(draw_seed(self.random_state))
        right = draw_sketch(kind, n_columns, sizes[0], generator)
        left = draw_sketch(kind, n_rows, sizes[1], generator)
        tails = [tail_of(*sketch.shape, float(self.delta)) for sketch in (right, left)]
        return Sketches(right, left, is_secret and any(tails))

    def _keeps_secret(self, kind: str, *, is_unknown: bool) -> bool:
        """Tell whether nobody gets to know the sketch, or what comes of it, before the end."""
        return False

    def _warn_of_delta(self, unit: StreamUnit) -> None:
        n_units = self._shape[0] if unit.counted == "rows" else math.prod(self._shape)
        if math.isfinite(self.epsilon) and self.delta > 1 / n_units:
            warn_of_privacy(
                f"delta={self.delta} exceeds one over the number of {unit.counted}, {n_units}: the "
                "guarantee would allow some of them to be published outright. Pass a smaller "
                f"delta, such as {0.1 / n_units:.0e}."
            )

    def _factorized(
        self, values: tuple[np.ndarray, np.ndarray], sketches: Sketches, noise_factor: float = 1.0
    ) -> LowRankFactors:
        """Fit the released sketches, and say so if not all components stand out."""
        scales = [release.noise_scale * noise_factor for release in self._spent.releases]
        n_components = int(self.n_components)
        with np.errstate(all="ignore"):
            found = fit_sketches(
                values, (sketches.right, sketches.left), (scales[0], scales[1]), n_components
            )
        signs = deterministic_signs(found.right.T)
        if scales[0] > 0 and found.rank < n_components:
            warn_of_privacy(
                f"Only {found.rank} of {n_components} components stand out from the noise. Ask for "
                "fewer components, or use a larger epsilon, a larger n_sketch or, where it cuts "
                "most values, another bound."
            )
        return LowRankFactors(
            components_=found.right.T * signs[:, np.newaxis],
            singular_values_=found.singular_values,
            left_components_=found.left * signs,
            privacy_spent_=self._spent,
        )


def _noisy_counts(
    plan: Plan, budget: PrivacyBudget, correlation: PrefixNoise | None, n_epochs: int
) -> tuple[NoisyCounts, ...]:
    """Spend the budget on sums of one unit."""
    unit = fixed_point_unit(
        [line.noise_scale or 0.0 for line in plan.releases],
        [line.sensitivity or 0.0 for line in plan.releases],
    )
    return tuple(
        budget.noise_first(
            line.name,
            line.shape[-2:],
            sensitivity=line.sensitivity or 0.0,
            unit=unit,
            correlation=correlation,
            n_epochs=n_epochs,
        )
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
