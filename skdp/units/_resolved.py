"""What may change between neighbouring matrices, how it is enforced, and how far it reaches."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_array, issparse

from skdp.data.rows import Rows
from skdp.privacy import sensitivity
from skdp.privacy.clipping import binarize, clip_entries, keep_largest

__all__ = [
    "MatrixUnit",
    "ResolvedEdge",
    "ResolvedEntry",
    "ResolvedInteraction",
    "ResolvedRecord",
    "ResolvedResponse",
    "ResolvedRow",
    "ResolvedSparseRow",
    "ResolvedSpectralChange",
    "ResolvedUnit",
]


@dataclass(frozen=True)
class ResolvedUnit:
    """A unit whose bounds are checked and plain numbers, and how neighbours differ in it."""

    #: Name in the record.
    name: ClassVar[str]
    #: Of what there are as many as units, in the plural.
    counted: ClassVar[str] = "rows"
    is_enforced: ClassVar[bool] = True
    #: Whether a record is protected as a whole, and not its response alone.
    is_whole: ClassVar[bool] = True
    is_symmetric: ClassVar[bool] = False
    #: Whether what is decomposed is the second moment of the rows.
    is_second_moment: ClassVar[bool] = False
    #: Whether few entries of a matrix are left.
    is_sparse: ClassVar[bool] = False
    #: What helps if noise hides what is sought.
    remedy: ClassVar[str] = "a larger epsilon"

    adjacency: str

    @property
    def admits_zero(self) -> bool:
        """Whether 0 is within the bounds of an entry, or stays as it is."""
        return True

    def restrict(self, block: Any) -> Any:
        """Bring rows within the bounds that the sensitivities need."""
        return block

    def normalize(self, X: Any) -> Any:
        """Bring rows as they are given into the form whose components are found."""
        return X


@dataclass(frozen=True)
class ResolvedRow(ResolvedUnit):
    """One row, clipped in norm."""

    name: ClassVar[str] = "row"
    remedy: ClassVar[str] = "more rows, a larger epsilon or a tighter row_norm"


@dataclass(frozen=True)
class ResolvedRecord(ResolvedUnit):
    """One matrix with its response."""

    name: ClassVar[str] = "record"
    counted: ClassVar[str] = "records"


@dataclass(frozen=True)
class ResolvedResponse(ResolvedUnit):
    """One response, its matrix being public."""

    name: ClassVar[str] = "response"
    counted: ClassVar[str] = "responses"
    is_whole: ClassVar[bool] = False


@dataclass(frozen=True)
class MatrixUnit(ResolvedUnit, ABC):
    """Sensitivities of what is computed from a matrix A, given the row norms of public bases.

    With `by_rows` they are sums of row norms, for noise that is independent from row to row, which
    makes sense where a unit changes few rows (`is_local`). `largest` bounds the size of an entry,
    for rounding errors.
    """

    is_local: ClassVar[bool] = False
    # Whether the means of the columns, and the sum of squares, can be released.
    has_totals: ClassVar[bool] = True
    # A row of them says nothing about a whole row that is protected, or there are none.
    has_left_factors: ClassVar[bool] = False
    remedy: ClassVar[str] = (
        "a larger epsilon, narrower bounds of the unit or, for many more rows than columns, "
        "privacy_unit='row', which protects more"
    )

    @property
    @abstractmethod
    def largest(self) -> float:
        """Largest size of an entry."""

    def weigh(self, rows: Rows) -> Rows:
        """Return the rows of the matrix that is decomposed."""
        return rows

    @abstractmethod
    def product(self, norms: np.ndarray, *, by_rows: bool = False) -> float:
        """Sensitivity of A Z."""

    def adjoint(self, norms: np.ndarray, *, by_rows: bool = False) -> float:
        """Sensitivity of A' Y."""
        return self.product(norms, by_rows=by_rows)

    def core(self, left_norms: np.ndarray, right_norms: np.ndarray) -> float:
        """Sensitivity of Y' A Z."""
        # Multiplying by an orthonormal basis does not lengthen the change.
        return self.product(right_norms)

    def symmetric_core(self, norms: np.ndarray) -> float:
        """Sensitivity of Z' A Z for a symmetric A."""
        return self.core(norms, norms)

    @abstractmethod
    def mean(self, n_rows: int, *, by_rows: bool = False) -> float:
        """Sensitivity of the means of the columns."""

    @abstractmethod
    def squares(self, point: np.ndarray) -> float:
        """Sensitivity of the sum of the squared distances of the rows from a public point."""

    def row_errors(self, n_rows: int) -> float:
        """Bound the rounding error of A Z where a unit can change it, in those of one row."""
        # An edge changes two rows; all others keep every bit.
        return 2.0


@dataclass(frozen=True)
class ResolvedEntry(MatrixUnit):
    """One entry, clipped to the bounds.

    With `keep_zeros`, 0 stands for a missing entry and stays 0.
    """

    name: ClassVar[str] = "entry"
    counted: ClassVar[str] = "entries"
    is_local: ClassVar[bool] = True
    has_left_factors: ClassVar[bool] = True

    lower: float
    upper: float
    keep_zeros: bool

    @property
    def hull(self) -> tuple[float, float]:
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
        return sensitivity.entry_step(*self.hull, self.adjacency)

    @property
    def largest(self) -> float:
        return max(map(abs, self.hull))

    def restrict(self, block: Any) -> Any:
        return clip_entries(block, lower=self.lower, upper=self.upper, keep_zeros=self.keep_zeros)

    def product(self, norms: np.ndarray, *, by_rows: bool = False) -> float:
        return sensitivity.entry_product(self.step, norms)

    def core(self, left_norms: np.ndarray, right_norms: np.ndarray) -> float:
        return sensitivity.entry_core(self.step, left_norms, right_norms)

    def mean(self, n_rows: int, *, by_rows: bool = False) -> float:
        return sensitivity.entry_mean(self.step, n_rows)

    def squares(self, point: np.ndarray) -> float:
        return sensitivity.entry_squares(*self.hull, point)


@dataclass(frozen=True)
class ResolvedEdge(ResolvedEntry):
    """One entry of a symmetric matrix and its mirror image."""

    name: ClassVar[str] = "edge"
    counted: ClassVar[str] = "pairs of nodes"
    remedy: ClassVar[str] = "a larger epsilon or narrower bounds of the unit"
    is_symmetric: ClassVar[bool] = True

    def product(self, norms: np.ndarray, *, by_rows: bool = False) -> float:
        bound = sensitivity.edge_product_l1 if by_rows else sensitivity.edge_product
        return bound(self.step, norms)

    def core(self, left_norms: np.ndarray, right_norms: np.ndarray) -> float:
        return sensitivity.edge_core(self.step, left_norms, right_norms)

    def symmetric_core(self, norms: np.ndarray) -> float:
        return sensitivity.symmetric_edge_core(self.step, norms)

    def mean(self, n_rows: int, *, by_rows: bool = False) -> float:
        bound = sensitivity.edge_mean_l1 if by_rows else sensitivity.edge_mean
        return bound(self.step, n_rows)

    def squares(self, point: np.ndarray) -> float:
        return sensitivity.edge_squares(*self.hull, point)


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
    def hull(self) -> tuple[float, float]:
        """All values that an entry can take, 0 for those that are not kept."""
        return min(self.lower, 0.0), max(self.upper, 0.0)

    def restrict(self, block: Any) -> Any:
        rows = csr_array(super().restrict(block))
        # Which of two equal entries stays must not favour the first columns.
        priority = np.random.default_rng(0).permutation(rows.shape[1])
        return keep_largest(rows, n_entries=self.n_entries, priority=priority)

    def product(self, norms: np.ndarray, *, by_rows: bool = False) -> float:
        return sensitivity.short_row_product(
            self.largest, self.step, self.n_entries, self.adjacency, norms
        )

    def adjoint(self, norms: np.ndarray, *, by_rows: bool = False) -> float:
        return sensitivity.short_row_adjoint(
            self.largest, self.step, self.n_entries, self.adjacency, norms
        )

    def core(self, left_norms: np.ndarray, right_norms: np.ndarray) -> float:
        return float(left_norms.max()) * self.product(right_norms)

    def mean(self, n_rows: int, *, by_rows: bool = False) -> float:
        change = sensitivity.short_row(self.largest, self.step, self.n_entries, self.adjacency)
        return change / n_rows

    def squares(self, point: np.ndarray) -> float:
        return sensitivity.short_row_squares(*self.hull, self.n_entries, self.adjacency, point)


@dataclass(frozen=True)
class ResolvedInteraction(MatrixUnit):
    """One entry of a 0/1 table, whose rows are divided by the roots of their sums.

    Sums below `degree_floor` count as that. The matrix is the second moment of the rows.
    """

    name: ClassVar[str] = "interaction"
    counted: ClassVar[str] = "entries"
    is_second_moment: ClassVar[bool] = True
    remedy: ClassVar[str] = "more rows or a larger epsilon"

    degree_floor: int

    @property
    def largest(self) -> float:
        return 1.0

    def restrict(self, block: Any) -> Any:
        return binarize(block)

    def normalize(self, X: Any) -> Any:
        table = binarize(X)
        sums = np.asarray(table.sum(axis=1)).ravel()
        weights = (1 / np.sqrt(np.maximum(sums, self.degree_floor))).astype(X.dtype)
        return table.multiply(weights[:, None]).tocsr() if issparse(X) else table * weights[:, None]

    def weigh(self, rows: Rows) -> Rows:
        return rows.clipped(1.0, lambda norms: 1 / np.maximum(norms, np.sqrt(self.degree_floor)))

    def product(self, norms: np.ndarray, *, by_rows: bool = False) -> float:
        return sensitivity.interaction_product(norms, self.degree_floor)

    def mean(self, n_rows: int, *, by_rows: bool = False) -> float:
        return sensitivity.interaction_mean(self.degree_floor, n_rows)

    def squares(self, point: np.ndarray) -> float:
        return sensitivity.interaction_squares(self.degree_floor)


@dataclass(frozen=True)
class ResolvedSpectralChange(MatrixUnit):
    """A change whose spectral norm is at most 1, as promised by the caller.

    The promise is about matrices whose entries are at most `size` in size: what is cut may change
    further, by up to the root of its order.
    """

    name: ClassVar[str] = "spectral"
    is_symmetric: ClassVar[bool] = True
    is_enforced: ClassVar[bool] = False
    remedy: ClassVar[str] = "a larger epsilon or, for a large X, a smaller largest of the unit"
    has_left_factors: ClassVar[bool] = True
    has_totals: ClassVar[bool] = False

    size: float

    @property
    def largest(self) -> float:
        return self.size

    def restrict(self, block: Any) -> Any:
        return clip_entries(block, lower=-self.size, upper=self.size, keep_zeros=True)

    def product(self, norms: np.ndarray, *, by_rows: bool = False) -> float:
        return sensitivity.spectral_product(norms)

    def row_errors(self, n_rows: int) -> float:
        r"""Bound the rounding error of A Z, in those of a row: :math:`\sqrt n`.

        All n rows may change. An entry of the product is a sum of m terms, whose error in any order
        is at most :math:`(m + 1) u \sum_k |a_{ik}| |z_{kj}|`, with u the unit roundoff and
        :math:`2 m^2 u < 1`. One more u is for entries that were rounded to float64 after the
        promise was made. So the error of row i is a vector no longer than
        :math:`\rho = (m + 2) u b \sum_k \|z_k\|`, with b the largest size of an entry, and that of
        n rows than :math:`\sqrt n \rho`. In :math:`Y^T A Z` it meets :math:`y_i`, and n more terms
        are added up: :math:`(m + n + 2) u b \sum_i \|y_i\| \sum_k \|z_k\|`, whichever rows change.
        """
        return math.sqrt(n_rows)

    # The promise bounds neither of these, and neither is released.
    def mean(self, n_rows: int, *, by_rows: bool = False) -> float:
        return math.inf

    def squares(self, point: np.ndarray) -> float:
        return math.inf
