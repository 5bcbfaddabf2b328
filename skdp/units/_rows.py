"""Whole rows: bounded in norm, or of few entries."""

from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_array
from sklearn.utils._param_validation import Interval

from skdp.privacy import sensitivity
from skdp.privacy.clipping import keep_largest
from skdp.units._entries import ResolvedEntry
from skdp.units._resolved import ResolvedUnit
from skdp.units._unit import Unit, checked_bounds


@dataclass(frozen=True)
class ResolvedRow(ResolvedUnit):
    """One row, clipped in norm."""

    name: ClassVar[str] = "row"
    remedy: ClassVar[str] = "more rows, a larger epsilon or a tighter row_norm"


@dataclass(frozen=True)
class ResolvedSparseRow(ResolvedEntry):
    """One row, of which the `n_entries` largest entries are kept."""

    name: ClassVar[str] = "row"
    counted: ClassVar[str] = "rows"
    is_local: ClassVar[bool] = False
    has_left_factors: ClassVar[bool] = False
    is_sparse: ClassVar[bool] = True
    remedy: ClassVar[str] = "more rows, a larger epsilon, or privacy_unit='row' with a row_norm"

    n_entries: int

    @property
    def value_range(self) -> tuple[float, float]:
        """All values that an entry can take, with 0 for entries that are not kept."""
        return min(self.lower, 0.0), max(self.upper, 0.0)

    def clipped(self, block: Any) -> Any:
        rows = csr_array(super().clipped(block))
        # A public random order, so that among equal entries the first columns do not always win.
        priority = np.random.default_rng(0).permutation(rows.shape[1])
        return keep_largest(rows, n_entries=self.n_entries, priority=priority)

    def product(self, norms: np.ndarray, *, by_rows: bool = False) -> float:
        return sensitivity.short_row_product(
            self.largest, self.step, self.n_entries, self.adjacency, norms
        )

    def rmatmul(self, norms: np.ndarray, *, by_rows: bool = False) -> float:
        return sensitivity.short_row_rmatmul(
            self.largest, self.step, self.n_entries, self.adjacency, norms
        )

    def core(self, left_norms: np.ndarray, right_norms: np.ndarray) -> float:
        return float(left_norms.max()) * self.product(right_norms)

    def mean(self, n_rows: int, *, by_rows: bool = False) -> float:
        change = sensitivity.short_row(self.largest, self.step, self.n_entries, self.adjacency)
        return change / n_rows

    def squares(self, point: np.ndarray) -> float:
        return sensitivity.short_row_squares(
            *self.value_range, self.n_entries, self.adjacency, point
        )


class SparseRow(Unit):
    """One row of X, whose largest entries are kept: a person with few items, say.

    It protects as much as ``privacy_unit="row"``, and is recorded as that. The noise adapts to the
    released bases as it does for entries. In most cases ``"row"`` with a `row_norm` is better.

    Parameters
    ----------
    max_entries : int
        How many entries of a row are kept, the largest in absolute value; at least 1.
    bounds : pair of floats
        Smallest and largest value that an entry can have, as in :class:`Entry`; a 0 stays 0.

    See Also
    --------
    Entry : Single entries.

    Notes
    -----
    **Privacy.** Unit: one row. Adjacency: with "replace" it becomes any other row, with
    "zero_out" a row of zeros. The bounds and the number of entries are enforced by clipping.
    Assumed public: the shape of X.

    Examples
    --------
    >>> from skdp import DPTruncatedSVD
    >>> from skdp.units import SparseRow
    >>> DPTruncatedSVD(privacy_unit=SparseRow(max_entries=20, bounds=(0, 1)))
    DPTruncatedSVD(privacy_unit=SparseRow(bounds=(0, 1), max_entries=20))
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "max_entries": [Interval(Integral, 1, None, closed="left")],
        "bounds": "no_validation",
    }

    def __init__(self, max_entries: int, bounds: Any) -> None:
        self.max_entries = max_entries
        self.bounds = bounds

    def _resolved(self, adjacency: str, epsilon: float) -> ResolvedSparseRow:
        lower, upper = checked_bounds(self, self.bounds, epsilon)
        return ResolvedSparseRow(
            adjacency, lower, upper, keep_zeros=True, n_entries=int(self.max_entries)
        )
