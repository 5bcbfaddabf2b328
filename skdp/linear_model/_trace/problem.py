"""Parameters of a trace regression and public facts of its data, checked."""

import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from skdp._checks import check_numbers
from skdp.privacy.plan import PrivacyCost
from skdp.units import ResolvedRecord, ResolvedResponse, ResolvedUnit

#: Units by the value of `privacy_unit`.
UNITS: dict[str, type[ResolvedUnit]] = {"record": ResolvedRecord, "response": ResolvedResponse}
#: Part of delta for the failure of the test of a spectral start; not studied.
DELTA_TAIL = 0.1
TRACE_CONSTRAINTS: dict[str, Any] = {
    "rank": [Interval(Integral, 1, None, closed="left")],
    "matrix_shape": [tuple, list, None],
    "privacy_unit": [StrOptions(set(UNITS))],
    # Checked with the shape of the matrices.
    "covariance": "no_validation",
    "clip_quantile": [Interval(Real, 0.01, 0.99, closed="both"), StrOptions({"auto"})],
    "init": [StrOptions({"random", "spectral"})],
}
# Covariances of rows and of columns.
Covariance = str | tuple[np.ndarray | None, np.ndarray | None]


@dataclass(frozen=True)
class TraceProblem:
    """Parameters of a trace regression as plain values, and public facts of the matrices.

    `coef_shape` is the layout of a matrix in X. For matrices of rank one, `factors` tells whether
    the left and the right factors are sparse. For other matrices it is None; `is_sparse` then tells
    whether X is sparse, and `is_dense` whether the fit writes the matrices out.
    """

    cost: PrivacyCost
    unit: ResolvedUnit
    n_units: int
    matrix_shape: tuple[int, int]
    coef_shape: tuple[int, ...]
    dtype: np.dtype
    is_sparse: bool
    factors: tuple[bool, bool] | None
    is_dense: bool
    # Bound of the rounding error of a sum, in units of the largest contribution.
    rounding: float
    response_bound: float | None
    fit_intercept: bool
    n_iter: int
    # What follows is as it stands for rows of features.
    covariance: Covariance = "private"
    rank: int = 1
    clip_quantile: float | str = "auto"
    init: str = "random"
    interval: tuple[np.ndarray, np.ndarray] | None = None  # public ends of features, or None

    @property
    def protects_matrices(self) -> bool:
        """Whether the matrices are private, and not the responses alone."""
        return self.unit.is_whole

    @property
    def largest_response(self) -> float:
        """Public bound of the size of a response; inf for none."""
        return math.inf if self.response_bound is None else self.response_bound

    @property
    def n_entries(self) -> int:
        """Number of entries of a matrix."""
        return math.prod(self.matrix_shape)

    @property
    def is_vector(self) -> bool:
        """Whether features can be scaled one by one."""
        return self.is_dense and min(self.matrix_shape) == 1

    @property
    def are_cells(self) -> bool:
        """Whether matrices are like cells of a table: both factors are sparse."""
        return self.factors == (True, True) and min(self.matrix_shape) > 1


def check_rank(rank: int, shape: tuple[int, int], hint: str = "") -> None:
    """Refuse a rank that matrices of that shape cannot have."""
    if rank > min(shape):
        raise ValueError(
            f"rank={rank} exceeds the smaller side of the matrices, whose shape is {shape}. Pass a "
            "smaller rank, or matrix_shape=(n_rows, n_columns): without it 2-D X has matrices of "
            f"shape (n_features, 1).{hint}"
        )


def checked_covariance(given: Any, matrix_shape: tuple[int, int]) -> Covariance:
    """Refuse anything but a name or a pair of covariances, of which one may be None."""
    if isinstance(given, str) and given in ("private", "identity"):
        return given
    sides = given if isinstance(given, tuple | list) else ()
    if len(sides) != 2 or (sides[0] is None and sides[1] is None):
        kind = repr(given) if isinstance(given, str) else type(given).__name__
        raise ValueError(
            f"covariance, got {kind}, must be 'private', 'identity' or a pair (row_cov, col_cov), "
            "one of them None at most: (cov, None) for rows of features."
        )
    names = ("row_cov", "col_cov")
    checked = [_checked_side(*side) for side in zip(names, given, matrix_shape, strict=True)]
    return checked[0], checked[1]


def _checked_side(name: str, covariance: Any, size: int) -> np.ndarray | None:
    if covariance is None:
        return None
    try:
        matrix = check_numbers(covariance, name)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} of covariance is no matrix: {error}") from error
    if matrix.shape != (size, size) or not np.allclose(matrix, matrix.T):
        raise ValueError(
            f"{name} of covariance must be a symmetric matrix of shape {(size, size)}, got shape "
            f"{matrix.shape}."
        )
    if np.linalg.eigvalsh(matrix)[0] <= 1e-12 * np.abs(matrix).max():
        raise ValueError(
            f"{name} of covariance must be positive definite; its smallest eigenvalue is not."
        )
    return matrix
