"""What every unit of privacy that is an object shares: parameters, equality, checks."""

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

__all__ = ["Unit", "check_size", "checked_bounds", "resolved_unit", "supported_unit"]

T = TypeVar("T", bound=ResolvedUnit)

# Units that may be passed by their names, by mistake, and what to pass instead.
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
    """A unit of privacy with its bounds, and parameters as scikit-learn's kernels have them."""

    #: Whether X has to be symmetric.
    is_pairwise: ClassVar[bool] = False

    def resolve(self, adjacency: str, epsilon: float) -> ResolvedUnit:
        """Check the bounds, and turn them into plain numbers.

        Parameters
        ----------
        adjacency : {"replace", "zero_out"}
            How neighboring datasets differ.
        epsilon : float
            Privacy budget; infinite bounds need an infinite one.

        Returns
        -------
        ResolvedUnit
            What a fit computes with.

        Raises
        ------
        ValueError
            If a bound is not acceptable.
        """
        self._validate_params()
        return self._resolved(adjacency, epsilon)

    @abstractmethod
    def _resolved(self, adjacency: str, epsilon: float) -> ResolvedUnit:
        """Turn parameters of the right types into plain numbers."""

    def key(self) -> tuple[Any, ...]:
        """Return all that the unit is, as nested tuples: equal ones for equal units.

        Returns
        -------
        tuple
            Name of the class, and the parameters.
        """
        values = self.get_params(deep=False).items()
        return (type(self).__name__, *((name, _key_of(value)) for name, value in values))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unit) and self.key() == other.key()

    # Its parameters can be set, and a hash must not change.
    __hash__ = None  # type: ignore[assignment]


def _key_of(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return tuple(map(_key_of, value))
    return plain(value)


def resolved_unit(given: Any, adjacency: str, epsilon: float) -> ResolvedUnit:
    """Resolve a unit that is an object; of anything else, say how an object is passed."""
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
    """Resolve a unit, and refuse one that is not of these kinds."""
    unit, kinds = resolved_unit(given, adjacency, epsilon), tuple(kinds)
    # An edge is an entry, and not what is meant by one.
    if isinstance(unit, kinds) and type(unit) in kinds:
        return unit
    names = ", ".join(kind.__name__.removeprefix("Resolved") for kind in kinds)
    raise ValueError(f"privacy_unit={given!r} is not for {owner}, which protects {names}.")


def checked_bounds(unit: Unit, bounds: Any, epsilon: float) -> tuple[float, float]:
    """Return the bounds of an entry as floats; infinite ones at `epsilon` inf only."""
    try:
        # numpy would read strings of digits as numbers.
        values = np.array([]) if np.asarray(bounds).dtype.kind in "US" else bounds
        values = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        values = np.array([])
    if values.shape != (2,) or not values[0] < values[1]:
        raise ValueError(
            f"bounds={bounds!r} of privacy_unit={unit!r} must be two ascending numbers: the "
            "smallest and the largest value that an entry of X can have, as public knowledge says, "
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
    """Refuse an entry so large that no noise hides it."""
    if math.isfinite(epsilon) and not size <= 1 / SMALLEST_BOUND:
        raise ValueError(
            f"privacy_unit={unit!r} with epsilon={epsilon} gives no guarantee: its bounds must be "
            f"at most {1 / SMALLEST_BOUND} in size."
        )
