"""Single entries of a matrix, and entries with their mirror image."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from skdp.privacy import sensitivity
from skdp.privacy.clipping import clip_entries
from skdp.units._resolved import MatrixUnit
from skdp.units._unit import Unit, checked_bounds


@dataclass(frozen=True)
class ResolvedEntry(MatrixUnit):
    """One entry, clipped to the bounds; with `keep_zeros` a 0 is a missing entry and stays 0."""

    name: ClassVar[str] = "entry"
    counted: ClassVar[str] = "entries"
    is_local: ClassVar[bool] = True
    has_left_factors: ClassVar[bool] = True

    lower: float
    upper: float
    keep_zeros: bool

    @property
    def value_range(self) -> tuple[float, float]:
        """All values that an entry can take, 0 included if it may be missing or null."""
        if self.keep_zeros or self.adjacency == "zero_out":
            return min(self.lower, 0.0), max(self.upper, 0.0)
        return self.lower, self.upper

    @property
    def admits_zero(self) -> bool:
        """Whether 0 is within the bounds of an entry, or stays as it is."""
        return self.keep_zeros or self.lower <= 0 <= self.upper

    @property
    def step(self) -> float:
        """Largest change of an entry."""
        return sensitivity.entry_step(*self.value_range, self.adjacency)

    @property
    def largest(self) -> float:
        return max(map(abs, self.value_range))

    def clipped(self, block: Any) -> Any:
        return clip_entries(block, lower=self.lower, upper=self.upper, keep_zeros=self.keep_zeros)

    def product(self, norms: np.ndarray, *, by_rows: bool = False) -> float:
        return sensitivity.entry_product(self.step, norms)

    def core(self, left_norms: np.ndarray, right_norms: np.ndarray) -> float:
        return sensitivity.entry_core(self.step, left_norms, right_norms)

    def mean(self, n_rows: int, *, by_rows: bool = False) -> float:
        return sensitivity.entry_mean(self.step, n_rows)

    def squares(self, point: np.ndarray) -> float:
        return sensitivity.entry_squares(*self.value_range, point)


@dataclass(frozen=True)
class ResolvedEdge(ResolvedEntry):
    """One entry of a symmetric matrix and its mirror image."""

    name: ClassVar[str] = "edge"
    counted: ClassVar[str] = "pairs of nodes"
    remedy: ClassVar[str] = "a larger epsilon or narrower bounds of the unit"
    is_symmetric: ClassVar[bool] = True

    def product(self, norms: np.ndarray, *, by_rows: bool = False) -> float:
        sensitivity_of = sensitivity.edge_product_l1 if by_rows else sensitivity.edge_product
        return sensitivity_of(self.step, norms)

    def core(self, left_norms: np.ndarray, right_norms: np.ndarray) -> float:
        return sensitivity.edge_core(self.step, left_norms, right_norms)

    def symmetric_core(self, norms: np.ndarray) -> float:
        return sensitivity.symmetric_edge_core(self.step, norms)

    def mean(self, n_rows: int, *, by_rows: bool = False) -> float:
        sensitivity_of = sensitivity.edge_mean_l1 if by_rows else sensitivity.edge_mean
        return sensitivity_of(self.step, n_rows)

    def squares(self, point: np.ndarray) -> float:
        return sensitivity.edge_squares(*self.value_range, point)


class Entry(Unit):
    """One entry of X: a rating, a click, a measurement.

    Not a person: a person with many entries is protected far less than each of these. If a row is a
    person, the row should be the unit.

    Parameters
    ----------
    bounds : pair of floats
        Smallest and largest value that an entry can have, in the units of X, by public knowledge,
        such as (0, 1) for clicks; entries are clipped to them. At most 1e100 in absolute value and
        at least 1e-100 apart. Infinite bounds need ``epsilon=inf``.
    zero_is_missing : bool, default=True
        Whether a 0 is a missing entry, and stays 0 even outside the bounds. Whether an entry is
        missing is then protected like its value.

    See Also
    --------
    SparseRow : Whole rows of few entries.

    Notes
    -----
    **Privacy.** Unit: one entry. Adjacency: with "replace" its value becomes any other within the
    bounds, or missing; with "zero_out" it becomes 0. The bounds are enforced by clipping. Assumed
    public: the shape of X.

    Examples
    --------
    >>> from skdp import DPTruncatedSVD
    >>> from skdp.units import Entry
    >>> DPTruncatedSVD(privacy_unit=Entry(bounds=(1, 5)))
    DPTruncatedSVD(privacy_unit=Entry(bounds=(1, 5)))
    """

    _resolved_type: ClassVar[type[ResolvedEntry]] = ResolvedEntry
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "bounds": "no_validation",
        "zero_is_missing": ["boolean"],
    }

    def __init__(self, bounds: Any, zero_is_missing: bool = True) -> None:
        self.bounds = bounds
        self.zero_is_missing = zero_is_missing

    def _resolved(self, adjacency: str, epsilon: float) -> ResolvedEntry:
        lower, upper = checked_bounds(self, self.bounds, epsilon)
        return self._resolved_type(adjacency, lower, upper, bool(self.zero_is_missing))


class Edge(Entry):  # numpydoc ignore=PR02
    """One entry of a symmetric X with its mirror image: an edge of a graph, and its weight.

    Not a node: a node with many edges is protected far less than each of these.

    Parameters
    ----------
    bounds : pair of floats
        Smallest and largest value that an entry can have, as in :class:`Entry`.
    zero_is_missing : bool, default=True
        Whether a 0 is a missing edge, and stays 0 even outside the bounds. Whether there is an edge
        is then protected like its value.

    Notes
    -----
    **Privacy.** Unit: one pair of nodes, which may be the same node. Adjacency: with "replace" its
    value becomes any other within the bounds, or missing; with "zero_out" it becomes 0. The bounds
    are enforced by clipping, and X is checked to be symmetric. Assumed public: the number of nodes.

    Examples
    --------
    >>> from skdp import DPTruncatedSVD
    >>> from skdp.units import Edge
    >>> DPTruncatedSVD(privacy_unit=Edge((0, 1)), delta=0.0).get_params()["privacy_unit__bounds"]
    (0, 1)
    """

    is_pairwise: ClassVar[bool] = True
    _resolved_type: ClassVar[type[ResolvedEntry]] = ResolvedEdge
