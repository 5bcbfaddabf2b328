"""Changes of a whole matrix that the caller promises."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from skdp._parameters import ANY_BOUND, FINITE_BOUND
from skdp.linalg.norms import UNIT_ROUNDOFF
from skdp.privacy import sensitivity
from skdp.privacy.clipping import SMALLEST_BOUND, clip_entries
from skdp.units._resolved import MatrixUnit
from skdp.units._unit import Unit, check_size

#: Default of the largest absolute value of an entry.
DEFAULT_LARGEST = 1e6  # not tuned


@dataclass(frozen=True)
class ResolvedChange(MatrixUnit):
    """A change of the whole matrix that the caller promises; entries are clipped to `size`."""

    is_enforced: ClassVar[bool] = False
    remedy: ClassVar[str] = "a larger epsilon or, for a large X, a smaller largest of the unit"
    has_left_factors: ClassVar[bool] = True
    has_totals: ClassVar[bool] = False

    size: float

    @property
    def largest(self) -> float:
        return self.size

    def clipped(self, block: Any) -> Any:
        return clip_entries(block, lower=-self.size, upper=self.size, keep_zeros=True)

    def row_errors(self, n_rows: int) -> float:
        r"""Bound the rounding error of A Z, in errors of one row: :math:`\sqrt n`.

        All n rows may change. An entry of the product is a sum of m terms. Its error is at most
        :math:`(m + 1) u \sum_k |a_{ik}| |z_{kj}|` in any order of summation, where u is the unit
        roundoff and :math:`2 m^2 u < 1`. One more u is for entries that were rounded to float64
        after the promise was made. So the error of row i is a vector of norm at most
        :math:`\rho = (m + 2) u b \sum_k \|z_k\|`, where b is the largest size of an entry, and the
        error of n rows has norm at most :math:`\sqrt n \rho`. In :math:`Y^T A Z` the error of row i
        is multiplied by :math:`y_i`, and n more terms are added:
        :math:`(m + n + 2) u b \sum_i \|y_i\| \sum_k \|z_k\|`, whichever rows change.
        """
        return math.sqrt(n_rows)

    def entry_errors(self, shape: tuple[int, int]) -> float:
        """Bound the change by rounding to float64: the promise is about entries before rounding."""
        return UNIT_ROUNDOFF * self.size * math.sqrt(math.prod(shape))

    # The promise bounds neither of these sensitivities, and neither statistic is released.
    def mean(self, n_rows: int, *, by_rows: bool = False) -> float:
        return math.inf

    def squares(self, point: np.ndarray) -> float:
        return math.inf


@dataclass(frozen=True)
class ResolvedSpectralChange(ResolvedChange):
    """A symmetric change whose spectral norm is at most 1.

    The promise is about matrices whose entries are at most `size` in absolute value. If larger
    entries are clipped, the change may grow by a factor of up to the square root of the order.
    """

    name: ClassVar[str] = "spectral"
    is_symmetric: ClassVar[bool] = True

    def product(self, norms: np.ndarray, *, by_rows: bool = False) -> float:
        return sensitivity.spectral_product(norms)


@dataclass(frozen=True)
class ResolvedFrobeniusChange(ResolvedChange):
    """A change of Frobenius norm at most `change`, for bases of spectral norm at most 1."""

    name: ClassVar[str] = "frobenius"
    follows_rows: ClassVar[bool] = False

    change: float

    def product(self, norms: np.ndarray, *, by_rows: bool = False) -> float:
        return sensitivity.frobenius_product(self.change)


class SpectralChange(Unit):
    r"""A change of a symmetric X of spectral norm at most 1, *promised by the caller*.

    Nothing enforces the promise, and the record says so. An entry, a row or a person is protected
    only if it is known to change X by no more than that.

    Parameters
    ----------
    largest : float, default=1e6
        Largest absolute value of an entry, in all matrices that the promise is about; larger
        entries are clipped to it. For a large X the noise grows with it, to cover the rounding of
        products. From 1e-100 to 1e100, or ``inf`` with ``epsilon=inf``.

    Notes
    -----
    **Privacy.** Unit: a symmetric change C with :math:`\|C\|_2 \le 1`, in both adjacencies.
    Promised by the caller, not enforced: matrices that differ by more have no guarantee. X is
    checked to be symmetric. Assumed public: the order of X.

    Examples
    --------
    >>> from skdp import DPTruncatedSVD
    >>> from skdp.units import SpectralChange
    >>> DPTruncatedSVD(privacy_unit=SpectralChange(largest=10.0))
    DPTruncatedSVD(privacy_unit=SpectralChange(largest=10.0))
    """

    is_pairwise: ClassVar[bool] = True
    _parameter_constraints: ClassVar[dict[str, Any]] = {"largest": [*ANY_BOUND]}

    def __init__(self, largest: float = DEFAULT_LARGEST) -> None:
        self.largest = largest

    def _resolved(self, adjacency: str, epsilon: float) -> ResolvedSpectralChange:
        largest = float(self.largest)
        check_size(self, largest, epsilon)
        return ResolvedSpectralChange(adjacency, min(largest, 1 / SMALLEST_BOUND))


class FrobeniusChange(Unit):
    r"""A change of X of Frobenius norm at most `sensitivity`, *promised by the caller*.

    Nothing enforces the promise, and the record says so. It covers every change whose squared
    differences add up to at most the square of `sensitivity`: of some entries, of one row, or a
    small change of many rows. A change of rank one would cost the same, so that there is no
    separate unit for it.

    Parameters
    ----------
    sensitivity : float
        Largest Frobenius norm of a change, in the units of X, from 1e-100 to 1e100.
    largest : float, default=1e6
        Largest absolute value of an entry; larger entries are clipped to it, which makes no change
        larger. For a large X the noise grows with it, to cover the rounding of products. From
        1e-100 to 1e100, or ``inf`` with ``epsilon=inf``.

    Notes
    -----
    **Privacy.** Unit: a change C with :math:`\|C\|_F \le` `sensitivity`, in both adjacencies.
    Promised by the caller, not enforced: matrices that differ by more have no guarantee. Assumed
    public: the shape of X.

    Examples
    --------
    >>> from skdp import DPLowRankFactorizer
    >>> from skdp.units import FrobeniusChange
    >>> DPLowRankFactorizer(privacy_unit=FrobeniusChange(0.5))
    DPLowRankFactorizer(privacy_unit=FrobeniusChange(sensitivity=0.5))
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "sensitivity": [FINITE_BOUND],
        "largest": [*ANY_BOUND],
    }

    def __init__(self, sensitivity: float, largest: float = DEFAULT_LARGEST) -> None:
        self.sensitivity = sensitivity
        self.largest = largest

    def _resolved(self, adjacency: str, epsilon: float) -> ResolvedFrobeniusChange:
        largest = float(self.largest)
        check_size(self, largest, epsilon)
        size = min(largest, 1 / SMALLEST_BOUND)
        return ResolvedFrobeniusChange(adjacency, size, float(self.sensitivity))
