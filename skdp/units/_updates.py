"""Single updates of a stream."""

from dataclasses import dataclass
from typing import Any, ClassVar

from skdp._parameters import FINITE_BOUND
from skdp.privacy import sensitivity
from skdp.units._resolved import ResolvedUnit
from skdp.units._unit import Unit


@dataclass(frozen=True)
class ResolvedUpdate(ResolvedUnit):
    """One update of a cell, clipped to `bound`, whichever cell it goes to."""

    name: ClassVar[str] = "update"
    counted: ClassVar[str] = "cells"

    bound: float

    @property
    def step(self) -> float:
        """Largest change of the matrix: in one cell, or in two cells by half as much each."""
        return sensitivity.entry_step(-self.bound, self.bound, self.adjacency)


class Update(Unit):
    """One update of a stream: its cell and its value.

    Parameters
    ----------
    bound : float
        Values are clipped to this absolute value before those of one cell are added up. From 1e-100
        to 1e100, in the units of X.

    Notes
    -----
    **Privacy.** Unit: one update. Adjacency: ``"replace"`` exchanges it for any other
    update, of the same cell or another; ``"zero_out"`` makes its value 0. The bound is enforced by
    clipping. The number of updates is public: to hide that none took place, send an update of 0. A
    person with several updates is protected less: r updates cost as much as r units.

    Examples
    --------
    >>> from skdp.units import Update
    >>> Update(bound=1.0)
    Update(bound=1.0)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {"bound": [FINITE_BOUND]}

    def __init__(self, bound: float) -> None:
        self.bound = bound

    def _resolved(self, adjacency: str, epsilon: float) -> ResolvedUpdate:
        return ResolvedUpdate(adjacency, float(self.bound))
