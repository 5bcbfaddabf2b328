"""Units that are changes of a matrix of products, or of a whole matrix."""

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, Options

from skdp.privacy.clipping import SMALLEST_BOUND
from skdp.units._resolved import ResolvedInteraction, ResolvedSpectralChange
from skdp.units._unit import Unit, check_size

__all__ = ["Interaction", "SpectralChange"]


class Interaction(Unit):
    """One entry of the 0/1 table of where X is not 0: that a person used an item.

    Not a person. How often an item was used has no influence at all. Rows of the table are divided
    by the roots of their sums, and what is decomposed is the second moment of these; `transform`
    does the same.

    Parameters
    ----------
    degree_floor : int, default=1
        Sums of rows below it count as it; at least 1. A larger floor needs less noise, and gives
        people with few items less weight.

    See Also
    --------
    Entry : Entries with values.

    Notes
    -----
    **Privacy.** Unit: one entry of the table. Adjacency: it becomes 1 or 0, in both adjacencies.
    What X holds is turned into 0 and 1. Assumed public: the shape of X.

    Examples
    --------
    >>> from skdp import DPTruncatedSVD
    >>> from skdp.units import Interaction
    >>> DPTruncatedSVD(privacy_unit=Interaction(degree_floor=5))
    DPTruncatedSVD(privacy_unit=Interaction(degree_floor=5))
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "degree_floor": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(self, degree_floor: int = 1) -> None:
        self.degree_floor = degree_floor

    def _resolved(self, adjacency: str, epsilon: float) -> ResolvedInteraction:
        return ResolvedInteraction(adjacency, int(self.degree_floor))


class SpectralChange(Unit):
    r"""A change of a symmetric X of spectral norm at most 1, *promised by the caller*.

    Nothing enforces the promise, and the record says so. Not an entry, a row or a person, but where
    their changes are known to be that small.

    Parameters
    ----------
    largest : float, default=1e6
        Largest size of an entry, of all matrices that the promise is about; larger entries are
        clipped to it. The noise grows with it, for the rounding of products, where X is large. From
        1e-100 to 1e100, or ``inf`` with ``epsilon=inf``.

    Notes
    -----
    **Privacy.** Unit: a symmetric change C with :math:`\|C\|_2 \le 1`, in both adjacencies.
    Promised by the caller, not enforced: of matrices that differ by more nothing is promised. That
    X is symmetric is checked. Assumed public: the order of X.

    Examples
    --------
    >>> from skdp import DPTruncatedSVD
    >>> from skdp.units import SpectralChange
    >>> DPTruncatedSVD(privacy_unit=SpectralChange(largest=10.0))
    DPTruncatedSVD(privacy_unit=SpectralChange(largest=10.0))
    """

    is_pairwise: ClassVar[bool] = True
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "largest": [
            Interval(Real, SMALLEST_BOUND, 1 / SMALLEST_BOUND, closed="both"),
            Options(Real, {np.inf}),
        ],
    }

    def __init__(self, largest: float = 1e6) -> None:
        self.largest = largest

    def _resolved(self, adjacency: str, epsilon: float) -> ResolvedSpectralChange:
        largest = float(self.largest)
        check_size(self, largest, epsilon)
        return ResolvedSpectralChange(adjacency, min(largest, 1 / SMALLEST_BOUND))
