"""Units that are single entries of a matrix, or rows of few of them."""

from numbers import Integral
from typing import Any, ClassVar

from sklearn.utils._param_validation import Interval

from skdp.units._resolved import ResolvedEdge, ResolvedEntry, ResolvedSparseRow
from skdp.units._unit import Unit, checked_bounds

__all__ = ["Edge", "Entry", "SparseRow"]


class Entry(Unit):
    """One entry of X: a rating, a click, a measurement.

    Not a person: whoever has many entries is protected far less than each of them. If a person is a
    row, that is to be the unit.

    Parameters
    ----------
    bounds : pair of floats
        Smallest and largest value that an entry can have, in the units of X, as public knowledge
        says, such as (0, 1) for clicks; entries are clipped to them. Up to 1e100 in size and 1e-100
        apart; infinite ones with ``epsilon=inf`` only.
    zero_is_missing : bool, default=True
        Whether a 0 stands for a missing entry and stays 0 even outside the bounds. Whether an entry
        is missing is then protected like its value.

    See Also
    --------
    SparseRow : Whole rows of few entries.

    Notes
    -----
    **Privacy.** Unit: one entry. Adjacency: exchanged for any other value within the bounds, or
    missing; with "zero_out" for 0 only. The bounds are enforced by clipping. Assumed public: the
    shape of X.

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

    Not a node: whoever has many edges is protected far less than each of them.

    Parameters
    ----------
    bounds : pair of floats
        Smallest and largest value that an entry can have, as those of :class:`Entry`.
    zero_is_missing : bool, default=True
        Whether a 0 stands for a missing edge and stays 0 even outside the bounds. Whether there is
        an edge is then protected like its value.

    Notes
    -----
    **Privacy.** Unit: one pair of nodes, a node with itself included. Adjacency: its value is
    exchanged for any other within the bounds, or missing; with "zero_out" for 0 only. The bounds
    are enforced by clipping; that X is symmetric is checked. Assumed public: the number of nodes.

    Examples
    --------
    >>> from skdp import DPTruncatedSVD
    >>> from skdp.units import Edge
    >>> DPTruncatedSVD(privacy_unit=Edge((0, 1)), delta=0.0).get_params()["privacy_unit__bounds"]
    (0, 1)
    """

    is_pairwise: ClassVar[bool] = True
    _resolved_type: ClassVar[type[ResolvedEntry]] = ResolvedEdge


class SparseRow(Unit):
    """One row of X, of which the largest entries are kept: a person with few items, say.

    It protects as much as ``privacy_unit="row"``, and is recorded as that, with noise that follows
    the released bases as it does for entries. Rows bounded by `row_norm` are mostly better.

    Parameters
    ----------
    max_entries : int
        How many entries of a row are kept, those largest in size; at least 1.
    bounds : pair of floats
        Smallest and largest value that an entry can have, as those of :class:`Entry`; a 0 stays 0.

    See Also
    --------
    Entry : Single entries.

    Notes
    -----
    **Privacy.** Unit: one row. Adjacency: exchanged for any other row, or for one of zeros with
    "zero_out". The bounds and the number of entries are enforced by clipping. Assumed public: the
    shape of X.

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
