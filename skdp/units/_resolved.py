"""What a fit computes with: a unit whose bounds are checked, and how far it reaches."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from skdp.data.rows import Rows

__all__ = [
    "MatrixUnit",
    "ResolvedUnit",
]


@dataclass(frozen=True)
class ResolvedUnit:
    """A unit with checked bounds as plain numbers, and how neighbors differ in it."""

    #: Name in the record.
    name: ClassVar[str]
    #: What is counted to know how many units there are, in the plural.
    counted: ClassVar[str] = "rows"
    is_enforced: ClassVar[bool] = True
    #: Whether a record is protected as a whole, and not its response alone.
    is_whole: ClassVar[bool] = True
    is_symmetric: ClassVar[bool] = False
    #: Whether what is decomposed is the second moment of the rows.
    is_second_moment: ClassVar[bool] = False
    #: Whether clipping leaves few entries of a matrix.
    is_sparse: ClassVar[bool] = False
    #: What helps if noise hides what is sought.
    remedy: ClassVar[str] = "a larger epsilon"

    adjacency: str

    @property
    def admits_zero(self) -> bool:
        """Whether 0 is within the bounds of an entry, or stays as it is."""
        return True

    def clipped(self, block: Any) -> Any:
        """Bring rows within the bounds that the sensitivities need."""
        return block

    def normalize(self, X: Any) -> Any:
        """Bring rows as they are given into the form whose components are found."""
        return X


@dataclass(frozen=True)
class MatrixUnit(ResolvedUnit, ABC):
    """Sensitivities of what is computed from a matrix A, given the row norms of public bases.

    With `by_rows` they are sums of row norms, for noise that is independent from row to row. That
    makes sense where a unit changes few rows (`is_local`). `largest` bounds the size of an entry,
    for rounding errors.
    """

    is_local: ClassVar[bool] = False
    # Whether the noise of a product follows the rows of the basis.
    follows_rows: ClassVar[bool] = True
    # Whether the means of the columns, and the sum of squares, can be released.
    has_totals: ClassVar[bool] = True
    # Where whole rows are protected, a row of left factors is not: it tells of one of them.
    has_left_factors: ClassVar[bool] = False
    remedy: ClassVar[str] = (
        "a larger epsilon, narrower bounds of the unit or, for many more rows than columns, "
        "privacy_unit='row', which protects more"
    )

    @property
    @abstractmethod
    def largest(self) -> float:
        """Largest size of an entry."""

    def weighted(self, rows: Rows) -> Rows:
        """Return the rows of the matrix that is decomposed."""
        return rows

    @abstractmethod
    def product(self, norms: np.ndarray, *, by_rows: bool = False) -> float:
        """Sensitivity of A Z."""

    def rmatmul(self, norms: np.ndarray, *, by_rows: bool = False) -> float:
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
        """Bound the rounding error of A Z where a unit can change it, in errors of one row."""
        # An edge changes two rows of the product, and all others keep every bit.
        return 2.0

    def entry_errors(self, shape: tuple[int, int]) -> float:
        """Bound how far entries are from those that the unit is about, in Frobenius norm."""
        # Entries are clipped after they are rounded.
        return 0.0

    def whole(self, shape: tuple[int, int]) -> float:
        """Sensitivity of the matrix itself."""
        return self.product(np.ones(1)) + 2 * self.entry_errors(shape)
