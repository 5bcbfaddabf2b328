"""Base class of units that are objects: parameters, equality and checks."""

import math
from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, TypeVar

import numpy as np
from sklearn.base import BaseEstimator

from skdp._parameters import PlainParametersMixin
from skdp.privacy.clipping import SMALLEST_BOUND
from skdp.privacy.precision import plain
from skdp.units._resolved import ResolvedUnit

T = TypeVar("T", bound=ResolvedUnit)

# Names that may be passed by mistake, and the objects to pass instead.
_OBJECTS = {
    "entry": "Entry(bounds=(0, 1))",
    "edge": "Edge(bounds=(0, 1))",
    "interaction": "Interaction()",
    "frobenius": "FrobeniusChange(1.0)",
    "frobeniuschange": "FrobeniusChange(1.0)",
    "spectral": "SpectralChange()",
    "spectralchange": "SpectralChange()",
    "update": "Update(bound=1.0)",
    "sparserow": "SparseRow(max_entries=20, bounds=(0, 1))",
}


class Unit(PlainParametersMixin, BaseEstimator):
    """A privacy unit with its bounds, whose parameters can be set like those of an estimator."""

    #: Whether X has to be symmetric.
    is_pairwise: ClassVar[bool] = False

    def resolve(self, adjacency: str, epsilon: float) -> ResolvedUnit:
        """Check the bounds, and convert them to plain numbers.

        Parameters
        ----------
        adjacency : {"replace", "zero_out"}
            How neighboring datasets differ.
        epsilon : float
            Privacy budget; infinite bounds need ``inf``.

        Returns
        -------
        ResolvedUnit
            The unit as fits use it.

        Raises
        ------
        ValueError
            If a bound is not acceptable.
        """
        self._validate_params()
        return self._resolved(adjacency, epsilon)

    @abstractmethod
    def _resolved(self, adjacency: str, epsilon: float) -> ResolvedUnit:
        """Convert parameters, whose types have been checked, to plain numbers."""

    def key(self) -> tuple[Any, ...]:
        """Return nested tuples that are equal for equal units.

        Returns
        -------
        tuple
            Name of the class, and the parameters.
        """
        values = self.get_params(deep=False).items()
        return (type(self).__name__, *((name, _key_of(value)) for name, value in values))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unit) and self.key() == other.key()

    # Parameters can be set, but the hash of an object must not change: a unit has no hash.
    __hash__ = None  # type: ignore[assignment]


def _key_of(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return tuple(map(_key_of, value))
    return plain(value)


def resolved_unit(given: Any, adjacency: str, epsilon: float) -> ResolvedUnit:
    """Resolve a unit that is an object; refuse anything else, with an example to pass."""
    if isinstance(given, Unit):
        return given.resolve(adjacency, epsilon)
    example = _OBJECTS.get(str(given).replace("_", "").lower(), _OBJECTS["entry"])
    raise ValueError(
        f"privacy_unit={given!r} must be 'row' or an object of skdp.units, such as "
        f"privacy_unit=skdp.units.{example}."
    )


def supported_unit(
    given: Any, adjacency: str, epsilon: float, kinds: Iterable[type[T]], owner: str
) -> T:
    """Resolve a unit; refuse one that is not of these kinds."""
    unit, kinds = resolved_unit(given, adjacency, epsilon), tuple(kinds)
    # The exact type: ResolvedEdge is a subclass of ResolvedEntry, and must not pass for one.
    if isinstance(unit, kinds) and type(unit) in kinds:
        return unit
    names = ", ".join(kind.__name__.removeprefix("Resolved") for kind in kinds)
    raise ValueError(f"privacy_unit={given!r} is not for {owner}, which protects {names}.")


def checked_bounds(unit: Unit, bounds: Any, epsilon: float) -> tuple[float, float]:
    """Return the bounds of an entry as floats; refuse infinite ones unless `epsilon` is inf."""
    try:
        # Strings are refused, although numpy would read strings of digits as numbers.
        values = np.array([]) if np.asarray(bounds).dtype.kind in "US" else bounds
        values = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        values = np.array([])
    if values.shape != (2,) or not values[0] < values[1]:
        raise ValueError(
            f"bounds={bounds!r} of privacy_unit={unit!r} must be two ascending numbers: the "
            "smallest and the largest value that an entry of X can have, by public knowledge, "
            "such as (0, 1) for clicks or (1, 5) for stars."
        )
    lower, upper = values.tolist()
    check_size(unit, max(-lower, upper), epsilon)
    if math.isfinite(epsilon) and upper - lower < SMALLEST_BOUND:
        raise ValueError(
            f"bounds={bounds!r} of privacy_unit={unit!r} must be at least {SMALLEST_BOUND} apart."
        )
    return max(lower, -1 / SMALLEST_BOUND), min(upper, 1 / SMALLEST_BOUND)


def check_size(unit: Unit, size: float, epsilon: float) -> None:
    """Refuse bounds so large that no noise hides an entry."""
    if math.isfinite(epsilon) and not size <= 1 / SMALLEST_BOUND:
        raise ValueError(
            f"privacy_unit={unit!r} with epsilon={epsilon} gives no guarantee: its bounds must be "
            f"at most {1 / SMALLEST_BOUND} in size."
        )
