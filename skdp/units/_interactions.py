"""Entries of a 0/1 table of who used what, whose rows are normalized."""

from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import issparse
from sklearn.utils._param_validation import Interval

from skdp.data.rows import Rows
from skdp.privacy import sensitivity
from skdp.privacy.clipping import binarize
from skdp.units._resolved import MatrixUnit
from skdp.units._unit import Unit


@dataclass(frozen=True)
class ResolvedInteraction(MatrixUnit):
    """One entry of a 0/1 table, whose rows are divided by the square roots of their sums.

    A sum below `degree_floor` counts as `degree_floor`. The second moment of the rows is
    decomposed.
    """

    name: ClassVar[str] = "interaction"
    counted: ClassVar[str] = "entries"
    is_second_moment: ClassVar[bool] = True
    remedy: ClassVar[str] = "more rows or a larger epsilon"

    degree_floor: int

    @property
    def largest(self) -> float:
        return 1.0

    def clipped(self, block: Any) -> Any:
        return binarize(block)

    def normalize(self, X: Any) -> Any:
        table = binarize(X)
        sums = np.asarray(table.sum(axis=1)).ravel()
        weights = (1 / np.sqrt(np.maximum(sums, self.degree_floor))).astype(X.dtype)
        return table.multiply(weights[:, None]).tocsr() if issparse(X) else table * weights[:, None]

    def weighted(self, rows: Rows) -> Rows:
        return rows.clipped(1.0, lambda norms: 1 / np.maximum(norms, np.sqrt(self.degree_floor)))

    def product(self, norms: np.ndarray, *, by_rows: bool = False) -> float:
        return sensitivity.interaction_product(norms, self.degree_floor)

    def mean(self, n_rows: int, *, by_rows: bool = False) -> float:
        return sensitivity.interaction_mean(self.degree_floor, n_rows)

    def squares(self, point: np.ndarray) -> float:
        return sensitivity.interaction_squares(self.degree_floor)


class Interaction(Unit):
    """One entry of a 0/1 table that is 1 where X is not 0: whether a person used an item.

    The unit is not a person. How often a person used an item has no influence. The rows of the
    table are divided by the square roots of their sums, also in `transform`, and their second
    moment is decomposed.

    Parameters
    ----------
    degree_floor : int, default=1
        A row sum below it counts as `degree_floor`; at least 1. A larger floor needs less noise,
        and gives people with few items less weight.

    See Also
    --------
    Entry : Entries with values.

    Notes
    -----
    **Privacy.** Unit: one entry of the table, which becomes 1 or 0 in both adjacencies. Values of X
    other than 0 are turned into 1. Assumed public: the shape of X.

    Examples
    --------
    >>> from skdp import DPTruncatedSVD
    >>> from skdp.units import Interaction
    >>> DPTruncatedSVD(privacy_unit=Interaction(degree_floor=5))
    DPTruncatedSVD(privacy_unit=Interaction(degree_floor=5))
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "degree_floor": [Interval(Integral, 1, None, closed="left")]
    }

    def __init__(self, degree_floor: int = 1) -> None:
        self.degree_floor = degree_floor

    def _resolved(self, adjacency: str, epsilon: float) -> ResolvedInteraction:
        return ResolvedInteraction(adjacency, int(self.degree_floor))
