"""Privacy units: objects that users pass, with bounds, and the resolved units that fits use."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, ClassVar, TypeVar, cast

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.base import BaseEstimator

from skdp import _validation as checks
from skdp.data.rows import Rows
from skdp.exceptions import shown
from skdp.linalg.norms import UNIT_ROUNDOFF
from skdp.privacy import clipping, sensitivity
from skdp.privacy.precision import as_python

__all__ = [
    "Edge",
    "Entry",
    "FrobeniusChange",
    "Interaction",
    "SparseRow",
    "SpectralChange",
    "Update",
]

# ------------------------------
# Units in the form that fits use: with checked bounds, and sensitivities of matrix products.


@dataclass(frozen=True)
class ResolvedUnit:
    """A unit with its adjacency and its checked bounds."""

    #: Name in the record.
    name: ClassVar[str]
    #: Plural noun for units in messages.
    counted: ClassVar[str] = "rows"
    #: Whether a record is protected as a whole, not only its response.
    is_whole: ClassVar[bool] = True
    is_symmetric: ClassVar[bool] = False
    #: Whether the second moment of the rows is decomposed, instead of the matrix.
    is_second_moment: ClassVar[bool] = False
    #: Whether clipping removes most entries: the clipped matrix is then stored as a sparse one.
    is_sparse: ClassVar[bool] = False
    #: How to get a better result if noise hides the signal, for warnings.
    remedy: ClassVar[str] = "a larger epsilon"

    adjacency: str
    #: False if the guarantee needs a promise of the caller, on the size of changes or on classes.
    is_enforced: bool = field(default=True, kw_only=True)

    def clipped(self, block: Any) -> Any:
        """Clip entries or rows to the bounds that the sensitivities assume."""
        return block

    def normalize(self, X: Any) -> Any:
        """Return the rows whose components are computed: most units do not change rows."""
        return X


@dataclass(frozen=True)
class MatrixUnit(ResolvedUnit, ABC):
    """Sensitivities of products of a matrix A with public bases, from the row norms of the bases.

    A sensitivity bounds the Frobenius norm of a change. If `is_laplace`, it bounds the sum of the
    norms of the rows of the change, as Laplace noise is drawn row by row.
    """

    # Whether a unit changes so few rows of a product that Laplace noise is useful.
    is_local: ClassVar[bool] = False
    # Whether the sensitivity of a product depends on the row norms of the basis.
    follows_rows: ClassVar[bool] = True
    # Whether the column means and the sum of squares have finite sensitivities.
    has_totals: ClassVar[bool] = True
    # Whether left factors are released. They are not if the unit is a row, as each row of the left
    # factors belongs to one row of the matrix.
    has_left_factors: ClassVar[bool] = False
    remedy: ClassVar[str] = (
        "a larger epsilon, narrower bounds of the unit or, for many more rows than columns, "
        "privacy_unit='row', which protects more"
    )

    @property
    @abstractmethod
    def largest_entry(self) -> float:
        """Largest absolute value of an entry."""

    def weighted(self, rows: Rows) -> Rows:
        """Return a view of the rows with the weights that the decomposition gives them."""
        return rows

    @abstractmethod
    def product(self, norms: np.ndarray, *, is_laplace: bool = False) -> float:
        """Sensitivity of A Z, from the norms of the rows of the basis Z."""

    def rmatmul(self, norms: np.ndarray, *, is_laplace: bool = False) -> float:
        """Sensitivity of A' Y, from the norms of the rows of the basis Y."""
        return self.product(norms, is_laplace=is_laplace)

    def core(self, left_norms: np.ndarray, right_norms: np.ndarray) -> float:
        """Sensitivity of Y' A Z, from the norms of the rows of both bases."""
        # Multiplication by an orthonormal basis does not lengthen a change.
        return self.product(right_norms)

    def symmetric_core(self, norms: np.ndarray) -> float:
        """Sensitivity of Z' A Z for a symmetric A."""
        return self.core(norms, norms)

    def mean(self, n_rows: int, *, is_laplace: bool = False) -> float:
        """Sensitivity of the column means, in the 1-norm if `is_laplace`, else in the 2-norm."""
        return math.inf

    def squares(self, point: np.ndarray) -> float:
        """Sensitivity of the sum of the squared distances of the rows from a public point."""
        return math.inf

    def row_errors(self, n_rows: int) -> float:
        """Bound how far the rounding error of A Z moves with one unit, in errors of one row."""
        # A unit changes at most two rows of the product; no bit of other rows changes.
        return 2.0

    def whole(self, shape: tuple[int, int]) -> float:
        """Sensitivity of the whole matrix."""
        # No rounding is added: entries are rounded before they are clipped.
        return self.product(np.ones(1))


# ------------------------------
# Base of units that users pass: parameters, equality and checks.

T = TypeVar("T", bound=ResolvedUnit)


class Unit(checks.PlainParametersMixin, BaseEstimator):
    """A privacy unit with bounds; parameters are set like those of an estimator."""

    #: Whether X has to be symmetric.
    is_pairwise: ClassVar[bool] = False

    def resolve(self, adjacency: str, epsilon: float) -> ResolvedUnit:
        """Check the bounds, and return the unit that fits use.

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
        """Return the unit that fits use, from checked parameters."""

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

    # No hash, as parameters may change.
    __hash__ = None  # type: ignore[assignment]


def _key_of(value: Any) -> Any:
    """Return a value as nested tuples of Python numbers, which can be compared."""
    if np.iterable(value) and not isinstance(value, str | bytes):
        return tuple(map(_key_of, value))
    return as_python(value)


#: Advice for estimators that cannot protect users with several rows.
ONE_ROW_EACH = (
    "make one row for each person first, such as the mean of its rows, and pass privacy_unit='row'"
)


def supported_unit(
    given: Any, adjacency: str, epsilon: float, kinds: Iterable[type[T]], owner: str
) -> T:
    """Resolve a given unit for a fit; refuse kinds of units that the estimator cannot protect."""
    if isinstance(given, str) and given == "user":
        raise ValueError(f"privacy_unit='user' is not for {owner}: {ONE_ROW_EACH}.")
    if not isinstance(given, Unit):
        raise ValueError(
            f"privacy_unit={shown(given)} must be 'row', 'user' for a class that takes it, or an "
            "object of skdp.units, such as Entry(bounds=(1, 5)) for ratings or Interaction()."
        )
    unit, kinds = given.resolve(adjacency, epsilon), [*kinds]
    # Subclasses are refused: ResolvedEdge is a subclass of ResolvedEntry, but an edge is no entry.
    if type(unit) in kinds:
        return cast(T, unit)
    names = ", ".join(kind.__name__.removeprefix("Resolved") for kind in kinds)
    raise ValueError(f"privacy_unit={given!r} is not for {owner}, which protects {names}.")


def checked_bounds(unit: Any, epsilon: float) -> tuple[float, float]:
    """Return the bounds of an entry as floats; refuse infinite ones, unless `epsilon` is inf."""
    bounds = unit.bounds
    are_two = np.shape(bounds) == (2,) and all(isinstance(one, Real) for one in bounds)
    lower, upper = map(float, bounds) if are_two else (math.nan, math.nan)
    if not lower < upper:
        raise ValueError(
            f"bounds={shown(bounds)} of privacy_unit={shown(unit)} must be two ascending numbers: "
            "the smallest and the largest value that an entry of X can have, by public knowledge, "
            "such as (0, 1) for clicks or (1, 5) for stars."
        )
    checked_size(unit, max(-lower, upper), epsilon)
    if math.isfinite(epsilon) and upper - lower < clipping.SMALLEST_BOUND:
        raise ValueError(
            f"bounds={shown(bounds)} of privacy_unit={shown(unit)} must be at least "
            f"{clipping.SMALLEST_BOUND} apart."
        )
    return max(lower, -clipping.NO_CLIPPING), min(upper, clipping.NO_CLIPPING)


def checked_size(unit: Unit, size: float, epsilon: float) -> float:
    """Return the largest size of an entry as a float; refuse more than 1e100 if noise is added."""
    if math.isfinite(epsilon) and not size <= clipping.NO_CLIPPING:
        raise ValueError(
            f"privacy_unit={unit!r} with epsilon={epsilon} gives no guarantee: bounds must have "
            f"absolute values of at most {clipping.NO_CLIPPING}."
        )
    return min(float(size), clipping.NO_CLIPPING)


# ------------------------------
# Single entries of a matrix, and entries with their mirror image.


@dataclass(frozen=True)
class ResolvedEntry(MatrixUnit):
    """One entry, clipped to bounds; with `keep_zeros`, a 0 is a missing entry and stays 0.

    Before clipping, `shift` is subtracted from all entries that are not 0.
    """

    name: ClassVar[str] = "entry"
    counted: ClassVar[str] = "entries"
    is_local: ClassVar[bool] = True
    has_left_factors: ClassVar[bool] = True

    lower: float
    upper: float
    keep_zeros: bool
    shift: float = field(default=0.0, kw_only=True)

    @property
    def value_range(self) -> tuple[float, float]:
        """Smallest and largest entry in any dataset; they include 0 if entries may become 0."""
        if self.keep_zeros or self.adjacency == "zero_out":
            return min(self.lower, 0.0), max(self.upper, 0.0)
        return self.lower, self.upper

    @property
    def step(self) -> float:
        """Largest change of an entry."""
        return sensitivity.entry_step(*self.value_range, self.adjacency)

    @property
    def largest_entry(self) -> float:
        return max(map(abs, self.value_range))

    def clipped(self, block: Any) -> Any:
        # Clipping comes after the shift, so that no rounding of shifted entries exceeds a bound.
        shifted = clipping.shift_entries(block, self.shift)
        return clipping.clip_entries(
            shifted, lower=self.lower, upper=self.upper, keep_zeros=self.keep_zeros
        )

    # One entry changes one row of a product, and one column mean: the Frobenius norm of the change
    # equals the sum of the norms of its rows, which Laplace noise needs.
    def product(self, norms: np.ndarray, *, is_laplace: bool = False) -> float:
        return sensitivity.entry_product(self.step, norms)

    def core(self, left_norms: np.ndarray, right_norms: np.ndarray) -> float:
        return sensitivity.entry_core(self.step, left_norms, right_norms)

    def mean(self, n_rows: int, *, is_laplace: bool = False) -> float:
        return sensitivity.entry_mean(self.step, n_rows)

    def squares(self, point: np.ndarray) -> float:
        return sensitivity.entry_squares(*self.value_range, point)


@dataclass(frozen=True)
class ResolvedEdge(ResolvedEntry):
    """One entry of a symmetric matrix, together with its mirror image."""

    name: ClassVar[str] = "edge"
    counted: ClassVar[str] = "pairs of nodes"
    remedy: ClassVar[str] = "a larger epsilon or narrower bounds of the unit"
    is_symmetric: ClassVar[bool] = True

    def product(self, norms: np.ndarray, *, is_laplace: bool = False) -> float:
        sensitivity_of = sensitivity.edge_product_l1 if is_laplace else sensitivity.edge_product
        return sensitivity_of(self.step, norms)

    def core(self, left_norms: np.ndarray, right_norms: np.ndarray) -> float:
        return sensitivity.edge_core(self.step, left_norms, right_norms)

    def symmetric_core(self, norms: np.ndarray) -> float:
        return sensitivity.symmetric_edge_core(self.step, norms)

    def mean(self, n_rows: int, *, is_laplace: bool = False) -> float:
        sensitivity_of = sensitivity.edge_mean_l1 if is_laplace else sensitivity.edge_mean
        return sensitivity_of(self.step, n_rows)

    def squares(self, point: np.ndarray) -> float:
        return sensitivity.edge_squares(*self.value_range, point)


@checks.with_parameters
class Entry(Unit):  # numpydoc ignore=PR02
    """One entry of X: a rating, a click, a measurement.

    A person with many entries is protected far less than each single entry. If each row is a
    person, protect rows.

    Parameters
    ----------
    bounds : pair of floats
        Smallest and largest value that an entry can have, in the units of X, by public knowledge,
        such as (0, 1) for clicks; entries are clipped to these bounds. At most 1e100 in absolute
        value and at least 1e-100 apart. Infinite bounds need ``epsilon=inf``.
    zero_is_missing : bool, default=True
        Whether a 0 means a missing entry, and stays 0 even if the bounds exclude 0. Then the
        guarantee also hides whether an entry is missing.

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

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "bounds": "no_validation",
        "zero_is_missing": ["boolean"],
    }

    bounds: Any
    zero_is_missing: bool = field(default=True, kw_only=True)

    def _resolved(self, adjacency: str, epsilon: float) -> ResolvedEntry:
        kind = ResolvedEdge if self.is_pairwise else ResolvedEntry
        return kind(adjacency, *checked_bounds(self, epsilon), bool(self.zero_is_missing))


class Edge(Entry):  # numpydoc ignore=PR02
    """One entry of a symmetric X with its mirror image: an edge of a graph, and its weight.

    A node with many edges is protected far less than each single edge.

    Parameters
    ----------
    bounds : pair of floats
        Smallest and largest value that an entry can have, as in :class:`Entry`.
    zero_is_missing : bool, default=True
        Whether a 0 means that there is no edge, and stays 0 even if the bounds exclude 0. Then the
        guarantee also hides whether there is an edge.

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


# ------------------------------
# Whole rows, bounded in norm or in the number of entries.


@dataclass(frozen=True)
class ResolvedRow(ResolvedUnit):
    """One row, clipped in norm."""

    name: ClassVar[str] = "row"
    remedy: ClassVar[str] = "more rows, a larger epsilon or a tighter row_norm"


@dataclass(frozen=True)
class ResolvedSparseRow(ResolvedEntry):
    """One row, of which only the `n_entries` largest entries count."""

    name: ClassVar[str] = "row"
    counted: ClassVar[str] = "rows"
    is_local: ClassVar[bool] = False
    has_left_factors: ClassVar[bool] = False
    is_sparse: ClassVar[bool] = True
    remedy: ClassVar[str] = "more rows, a larger epsilon, or privacy_unit='row' with a row_norm"

    n_entries: int

    @property
    def _change(self) -> tuple[float, float, int, str]:
        """The first arguments of all functions for the sensitivity of short rows."""
        return self.largest_entry, self.step, self.n_entries, self.adjacency

    def clipped(self, block: Any) -> Any:
        rows = csr_array(super().clipped(block))
        # Of equal entries, those stay that come first in a public random order of the columns.
        priority = np.random.default_rng(0).permutation(rows.shape[1])
        return clipping.keep_largest(rows, n_entries=self.n_entries, priority=priority)

    def product(self, norms: np.ndarray, *, is_laplace: bool = False) -> float:
        return sensitivity.short_row_product(*self._change, norms)

    def rmatmul(self, norms: np.ndarray, *, is_laplace: bool = False) -> float:
        return sensitivity.short_row_rmatmul(*self._change, norms)

    def core(self, left_norms: np.ndarray, right_norms: np.ndarray) -> float:
        return float(left_norms.max()) * self.product(right_norms)

    def mean(self, n_rows: int, *, is_laplace: bool = False) -> float:
        return sensitivity.short_row(*self._change) / n_rows

    def squares(self, point: np.ndarray) -> float:
        return sensitivity.short_row_squares(
            *self.value_range, self.n_entries, self.adjacency, point
        )


@checks.with_parameters
class SparseRow(Unit):  # numpydoc ignore=PR02
    """One row of X, cut to its largest entries: a person with few items, say.

    This unit protects as much as ``privacy_unit="row"``, and the record says "row". The noise
    depends on the row norms of released bases, as with :class:`Entry`. In most cases ``"row"`` with
    a `row_norm` is better.

    Parameters
    ----------
    max_entries : int
        Largest number of entries of a row that stay, the largest in absolute value; at least 1.
    bounds : pair of floats
        Smallest and largest value that an entry can have, as in :class:`Entry`; a 0 stays 0.

    See Also
    --------
    Entry : Single entries.

    Notes
    -----
    **Privacy.** Unit: one row. Adjacency: with "replace" the row becomes any other row, with
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
        "max_entries": [checks.AT_LEAST_ONE],
        "bounds": "no_validation",
    }

    max_entries: int
    bounds: Any

    def _resolved(self, adjacency: str, epsilon: float) -> ResolvedSparseRow:
        bounds, n_entries = checked_bounds(self, epsilon), int(self.max_entries)
        # Entries that are removed become 0, and so must be able to stay 0.
        return ResolvedSparseRow(adjacency, *bounds, keep_zeros=True, n_entries=n_entries)


# ------------------------------
# Units that are one entry of a 0/1 table: whether a person used an item.


@dataclass(frozen=True)
class ResolvedInteraction(MatrixUnit):
    """One entry of a 0/1 table whose rows are divided by the square roots of their sums.

    Sums below `degree_floor` count as `degree_floor`. The second moment of the rows is decomposed.
    """

    name: ClassVar[str] = "interaction"
    counted: ClassVar[str] = "entries"
    is_second_moment: ClassVar[bool] = True
    remedy: ClassVar[str] = "more rows or a larger epsilon"

    degree_floor: int

    @property
    def largest_entry(self) -> float:
        return 1.0

    def clipped(self, block: Any) -> Any:
        return clipping.binarize(block)

    def normalize(self, X: Any) -> Any:
        """Return the 0/1 table, each row divided by the root of its sum or of a larger floor."""
        table = clipping.binarize(X)
        sums = np.asarray(table.sum(axis=1)).ravel()
        weights = (1 / np.sqrt(np.maximum(sums, self.degree_floor))).astype(X.dtype)
        return table.multiply(weights[:, None]).tocsr() if issparse(X) else table * weights[:, None]

    def weighted(self, rows: Rows) -> Rows:
        """Divide each row by its norm, the root of its sum, or by the root of a larger floor."""
        return rows.clipped(1.0, lambda norms: 1 / np.maximum(norms, np.sqrt(self.degree_floor)))

    def product(self, norms: np.ndarray, *, is_laplace: bool = False) -> float:
        return sensitivity.interaction_product(norms, self.degree_floor)

    def mean(self, n_rows: int, *, is_laplace: bool = False) -> float:
        return sensitivity.interaction_mean(self.degree_floor, n_rows)

    def squares(self, point: np.ndarray) -> float:
        return sensitivity.interaction_squares(self.degree_floor)


@checks.with_parameters
class Interaction(Unit):  # numpydoc ignore=PR02
    """One entry of a 0/1 table that is 1 where X is not 0: whether a person used an item.

    The unit is one entry, not all entries of a person. How often a person used an item does not
    matter. The rows of the table are divided by the square roots of their sums, also in
    `transform`, and their second moment is decomposed.

    Parameters
    ----------
    degree_floor : int, default=1
        Row sums below `degree_floor` count as `degree_floor`; at least 1. A larger floor needs less
        noise, and gives people with few items less weight.

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

    _parameter_constraints: ClassVar[dict[str, Any]] = {"degree_floor": [checks.AT_LEAST_ONE]}

    degree_floor: int = 1

    def _resolved(self, adjacency: str, epsilon: float) -> ResolvedInteraction:
        return ResolvedInteraction(adjacency, int(self.degree_floor))


# ------------------------------
# Changes of a whole matrix that the caller promises.

#: Default of the largest absolute value of an entry.
DEFAULT_LARGEST = 1e6  # not tuned


@dataclass(frozen=True)
class ResolvedChange(MatrixUnit):
    """A change of the whole matrix that the caller promises; entries are clipped to `size`."""

    remedy: ClassVar[str] = "a larger epsilon or, for a large X, a smaller largest of the unit"
    has_left_factors: ClassVar[bool] = True
    # The promise bounds neither the means nor the sum of squares, so that neither is released.
    has_totals: ClassVar[bool] = False

    size: float
    is_enforced: bool = field(default=False, kw_only=True)

    @property
    def largest_entry(self) -> float:
        return self.size

    def clipped(self, block: Any) -> Any:
        return clipping.clip_entries(block, lower=-self.size, upper=self.size, keep_zeros=True)

    def row_errors(self, n_rows: int) -> float:
        r"""Bound the rounding error of A Z, in errors of one row: :math:`\sqrt n`.

        All n rows may change. An entry of the product is a sum of m terms. Its error is at most
        :math:`(m + 1) u \sum_k |a_{ik}| |z_{kj}|` in any order of summation, where u is the unit
        roundoff and :math:`2 m^2 u < 1`. One more u is for entries that were rounded to float64
        after the promise was made. So the error of row i is a vector of norm at most
        :math:`\rho = (m + 2) u b \sum_k \|z_k\|`, where b is the largest size of an entry, and the
        error of n rows has norm at most :math:`\sqrt n \rho`. In :math:`Y^T A Z` the error of row i
        is multiplied by :math:`y_i`, and n more terms are added: the error is at most
        :math:`(m + n + 2) u b \sum_i \|y_i\| \sum_k \|z_k\|`, whichever rows change.
        """
        return math.sqrt(n_rows)

    def whole(self, shape: tuple[int, int]) -> float:
        """Sensitivity of the matrix itself, which is rounded after the promise was made."""
        rounding = UNIT_ROUNDOFF * self.size * math.sqrt(math.prod(shape))
        return super().whole(shape) + 2 * rounding


@dataclass(frozen=True)
class ResolvedSpectralChange(ResolvedChange):
    """A symmetric change of the whole matrix with spectral norm at most 1.

    The promise concerns matrices of entries that are at most `size` in absolute value: clipping
    larger entries may multiply the spectral norm by up to the square root of the order.
    """

    name: ClassVar[str] = "spectral"
    is_symmetric: ClassVar[bool] = True

    def product(self, norms: np.ndarray, *, is_laplace: bool = False) -> float:
        return sensitivity.spectral_product(norms)


@dataclass(frozen=True)
class ResolvedFrobeniusChange(ResolvedChange):
    """A change of Frobenius norm at most `change`, which orthonormal bases do not lengthen."""

    name: ClassVar[str] = "frobenius"
    follows_rows: ClassVar[bool] = False

    change: float

    def product(self, norms: np.ndarray, *, is_laplace: bool = False) -> float:
        return sensitivity.frobenius_product(self.change)


@checks.with_parameters
class SpectralChange(Unit):  # numpydoc ignore=PR02
    r"""A change of a symmetric X of spectral norm at most 1, *promised by the caller*.

    Nothing enforces the promise: ``privacy_spent_.enforced`` is False. An entry, a row or a person
    is protected only if its change of X is known to have a spectral norm of at most 1.

    Parameters
    ----------
    largest : float, default=1e6
        Largest absolute value of an entry in all matrices of the promise; larger entries are
        clipped. For a large X the noise grows with `largest`, to cover the rounding of products.
        From 1e-100 to 1e100, or ``inf`` with ``epsilon=inf``.

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
    _parameter_constraints: ClassVar[dict[str, Any]] = {"largest": [*checks.ANY_BOUND]}

    largest: float = DEFAULT_LARGEST

    def _resolved(self, adjacency: str, epsilon: float) -> ResolvedSpectralChange:
        return ResolvedSpectralChange(adjacency, checked_size(self, self.largest, epsilon))


@checks.with_parameters
class FrobeniusChange(Unit):  # numpydoc ignore=PR02
    r"""A change of X of Frobenius norm at most `sensitivity`, *promised by the caller*.

    Nothing enforces the promise: ``privacy_spent_.enforced`` is False. The unit is any change of X,
    in some entries, one row or many rows, whose squared differences sum to at most
    ``sensitivity ** 2``. Changes of rank one would need the same noise, and have no unit of their
    own.

    Parameters
    ----------
    sensitivity : float
        Largest Frobenius norm of a change, in the units of X, from 1e-100 to 1e100.
    largest : float, default=1e6
        Largest absolute value of an entry; larger entries are clipped, which increases no change.
        For a large X the noise grows with `largest`, to cover the rounding of products. From 1e-100
        to 1e100, or ``inf`` with ``epsilon=inf``.

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
        "sensitivity": [checks.FINITE_BOUND],
        "largest": [*checks.ANY_BOUND],
    }

    sensitivity: float
    largest: float = DEFAULT_LARGEST

    def _resolved(self, adjacency: str, epsilon: float) -> ResolvedFrobeniusChange:
        size = checked_size(self, self.largest, epsilon)
        return ResolvedFrobeniusChange(adjacency, size, float(self.sensitivity))


# ------------------------------
# Units of regressions and classifiers: a record, that is a row or matrix with its response, or the
# response alone.


@dataclass(frozen=True)
class ResolvedRecord(ResolvedUnit):
    """One matrix or row with its response."""

    name: ClassVar[str] = "record"
    counted: ClassVar[str] = "records"


@dataclass(frozen=True)
class ResolvedResponse(ResolvedUnit):
    """One response, whose matrix is public."""

    name: ClassVar[str] = "response"
    counted: ClassVar[str] = "responses"
    is_whole: ClassVar[bool] = False


# ------------------------------
# Updates of a stream, and users.


@dataclass(frozen=True)
class ResolvedUpdate(ResolvedUnit):
    """One update of a stream: a cell, and a value clipped to `bound`."""

    name: ClassVar[str] = "update"
    counted: ClassVar[str] = "cells"

    bound: float

    @property
    def step(self) -> float:
        """Largest change of a cell; if two cells change, each changes by at most half of this."""
        return sensitivity.entry_step(-self.bound, self.bound, self.adjacency)


@checks.with_parameters
class Update(Unit):  # numpydoc ignore=PR02
    """One update of a stream: its cell and its value.

    Parameters
    ----------
    bound : float
        Values are clipped to this absolute value, before values of the same cell are summed. From
        1e-100 to 1e100, in the units of X.

    Notes
    -----
    **Privacy.** Unit: one update. Adjacency: ``"replace"`` exchanges it for any other
    update, of the same cell or another; ``"zero_out"`` makes its value 0. The bound is enforced by
    clipping. The number of updates is public: to hide that nothing happened, send an update of 0. A
    person with several updates is protected less: r updates cost as much as r units.

    Examples
    --------
    >>> from skdp.units import Update
    >>> Update(bound=1.0)
    Update(bound=1.0)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {"bound": [checks.FINITE_BOUND]}

    bound: float

    def _resolved(self, adjacency: str, epsilon: float) -> ResolvedUpdate:
        return ResolvedUpdate(adjacency, float(self.bound))


@dataclass(frozen=True)
class ResolvedUser(ResolvedUnit):
    """All rows of a user with their responses, however many there are."""

    name: ClassVar[str] = "user"
    counted: ClassVar[str] = "users"
    remedy: ClassVar[str] = "more users, a larger epsilon or a tighter row_norm"
