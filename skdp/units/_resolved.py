"""Units as fits use them: with checked bounds, and the sensitivities of matrix products."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from skdp.data.rows import Rows


@dataclass(frozen=True)
class ResolvedUnit:
    """A unit with its adjacency; its bounds have been checked, and are plain numbers."""

    #: Name in the record.
    name: ClassVar[str]
    #: What is counted, one for each unit; a plural noun.
    counted: ClassVar[str] = "rows"
    is_enforced: ClassVar[bool] = True
    #: Whether a record is protected as a whole, not only its response.
    is_whole: ClassVar[bool] = True
    is_symmetric: ClassVar[bool] = False
    #: Whether the second moment of the rows is decomposed, and not the matrix.
    is_second_moment: ClassVar[bool] = False
    #: Whether clipping leaves few entries of a matrix.
    is_sparse: ClassVar[bool] = False
    #: What a user may do if noise hides the signal.
    remedy: ClassVar[str] = "a larger epsilon"

    adjacency: str

    @property
    def admits_zero(self) -> bool:
        """Whether 0 is within the bounds of an entry, or stays as it is."""
        return True

    def clipped(self, block: Any) -> Any:
        """Clip rows to the bounds that the sensitivities assume."""
        return block

    def normalize(self, X: Any) -> Any:
        """Transform given rows into the form whose components are computed."""
        return X


@dataclass(frozen=True)
class MatrixUnit(ResolvedUnit, ABC):
    """Sensitivities of products of a matrix A with public bases, given the row norms of these.

    With `by_rows` a sensitivity is a sum of row norms, for noise that is independent from row to
    row. That makes sense if a unit changes few rows (`is_local`). `largest` bounds the absolute
    value of an entry, for rounding errors.
    """

    is_local: ClassVar[bool] = False
    # Whether the sensitivity of a product depends on the row norms of the basis.
    follows_rows: ClassVar[bool] = True
    # Whether the means of the columns and the sum of squares have a bounded sensitivity.
    has_totals: ClassVar[bool] = True
    # Whether left factors are released. Not if rows are protected: a row of the left factors tells
    # about a single row of the matrix.
    has_left_factors: ClassVar[bool] = False
    remedy: ClassVar[str] = (
        "a larger epsilon, narrower bounds of the unit or, for many more rows than columns, "
        "privacy_unit='row', which protects more"
    )

    @property
    @abstractmethod
    def largest(self) -> float:
        """Largest absolute value of an entry."""

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
        """Bound the rounding error of A Z in rows that a unit can change, in errors of one row."""
        # An edge changes two rows of the product; all other rows keep every bit.
        return 2.0

    def entry_errors(self, shape: tuple[int, int]) -> float:
        """Bound, in Frobenius norm, how far rounding moves the entries that the unit is about."""
        # Entries are clipped after they are rounded, so that the bounds hold for rounded ones.
        return 0.0

    def whole(self, shape: tuple[int, int]) -> float:
        """Sensitivity of the matrix itself."""
        return self.product(np.ones(1)) + 2 * self.entry_errors(shape)
