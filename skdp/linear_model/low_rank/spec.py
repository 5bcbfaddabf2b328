"""The spec of a trace regression: checked parameters, and public facts of the matrices."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils._param_validation import Interval, StrOptions

from skdp._validation import AT_LEAST_ONE, check_numbers
from skdp.data.containers import float_dtype
from skdp.data.matrices import RankOneMatrices, terms_within
from skdp.data.people import depth_of
from skdp.data.reduce import rounding_of_depth
from skdp.data.sources import Source, as_source, holds_sparse
from skdp.exceptions import shown
from skdp.linalg.matrices import tangent_dimension
from skdp.linear_model._supervised import UNITS, Shape
from skdp.privacy.plan import PrivacyCost
from skdp.units import ResolvedUnit

TRACE_CONSTRAINTS: dict[str, Any] = {  # not tuned
    "rank": [AT_LEAST_ONE],
    "matrix_shape": [tuple, list, None],
    "privacy_unit": [StrOptions(set(UNITS))],
    # `checked_covariance` checks the covariance, with the shape of the matrices.
    "covariance": "no_validation",
    "clip_quantile": [Interval(Real, 0.01, 0.99, closed="both"), StrOptions({"auto"})],
    "init": [StrOptions({"auto", "random", "spectral"})],
}
# `is_weak` fits, with a smaller `signal_strength`, are calibrated:
# benchmarks/least_squares/least_squares.md.
_WEAK = 12.0
# The default number of steps for matrices is within `_STEPS`, and at least `_LEAST_OF_RESPONSES` if
# matrices are public and dense. It exceeds 10 from `_STRONG` units times mu per free coefficient
# on: benchmarks/trace_regression/errors.md and starts.md. Without noise, random starts may need
# more: benchmarks/trace_regression/ratings.md.
_STEPS, _LEAST_OF_RESPONSES, _STRONG = (10, 40), 20, 100.0
_STEPS_WITHOUT_NOISE = 100
# A name; or public covariances of the rows and of the columns of matrices, None for the identity;
# or one public covariance of all entries in C order.
Covariance = str | tuple[np.ndarray | None, ...]


@dataclass(frozen=True)
class TraceSpec:
    """Parameters of a trace regression as plain values, and public facts of the matrices."""

    cost: PrivacyCost
    unit: ResolvedUnit
    n_units: int
    matrix_shape: tuple[int, int]
    coef_shape: tuple[int, ...]  # shape of one sample of X
    dtype: np.dtype
    # For matrices of rank one, whether left and right factors are sparse; None for others.
    factors: tuple[bool, bool] | None
    is_dense: bool  # whether the fit stores all entries of a matrix
    rounding: float  # bound on the rounding of a sum, if no record adds more than 1
    response_bound: float  # inf for none
    fit_intercept: bool
    n_iter: int
    covariance: Covariance
    rank: int
    clip_quantile: float | str
    init: str

    @property
    def n_free(self) -> int:
        """Number of free coefficients, each of which gets noise."""
        return tangent_dimension(self.matrix_shape, self.rank) + self.fit_intercept

    @property
    def usual_steps(self) -> int:
        """Default number of steps; for matrices, more with a stronger signal."""
        strength = self.n_units * self.cost.mu / self.n_free
        if not self.cost.is_private:
            return _STEPS_WITHOUT_NOISE
        if min(self.matrix_shape) == 1:
            return _STEPS[0]
        least, most = _STEPS
        wanted = least * math.sqrt(strength / _STRONG)
        if self.factors is None and not self.unit.is_whole:
            least = _LEAST_OF_RESPONSES
        return int(np.clip(wanted, least, most))

    @property
    def signal_strength(self) -> float:
        """Largest possible signal, relative to the norm of the noise of all coefficients."""
        # Without steps, only a released start has noise, in all entries.
        n_noisy = self.n_free * self.n_iter if self.n_iter else self.n_entries
        return self.n_units * self.cost.mu / math.sqrt(self.n_free * n_noisy)

    @property
    def is_weak(self) -> bool:
        """Whether the fit calibrates its predictions, because the signal is weak."""
        is_usual = self.unit.is_whole and self.n_iter > 0 and not self.has_margins
        return self.cost.is_private and is_usual and self.signal_strength < _WEAK

    @property
    def n_entries(self) -> int:
        """Number of entries of a matrix."""
        return math.prod(self.matrix_shape)

    @property
    def is_vector(self) -> bool:
        """Whether X has rows of features, which can be scaled one by one, instead of matrices."""
        return self.is_dense and min(self.matrix_shape) == 1

    @property
    def is_centered(self) -> bool:
        """Whether the mean matrix is subtracted: from dense matrices, if there is an intercept."""
        return self.is_dense and not self.is_vector and self.fit_intercept

    @property
    def has_margins(self) -> bool:
        """Whether means of rows and columns are fitted first: for cells of tables."""
        return self.has_private_scales and self.are_cells and self.fit_intercept

    @property
    def has_private_scales(self) -> bool:
        """Whether the scales of the matrices are private, and released."""
        return self.covariance == "private" and self.unit.is_whole

    @property
    def has_curvatures(self) -> bool:
        """Whether the curvature along each step is private, and released."""
        return min(self.matrix_shape) > 1 and self.unit.is_whole

    @property
    def are_cells(self) -> bool:
        """Whether matrices stand for cells of a table: both of their factors are sparse."""
        return self.factors == (True, True) and min(self.matrix_shape) > 1


def smaller(rank: int) -> str:
    """Name the parameters to reduce for fewer free coefficients."""
    return "a smaller rank or matrix_shape" if rank > 1 else "a smaller matrix_shape"


def check_rank(rank: int, shape: tuple[int, int]) -> None:
    """Refuse a rank that matrices of this shape cannot have."""
    if rank > min(shape):
        raise ValueError(
            f"rank={rank} exceeds the smaller side of the matrices, whose shape is {shape}. Pass a "
            "smaller rank, or matrix_shape=(n_rows, n_columns): without it 2-D X has matrices of "
            "shape (n_features, 1). Of ids, as of users and items, pass "
            "RankOneMatrices.from_indices(users, items, shape=(n_users, n_items))."
        )


def checked_covariance(given: Any, facts: dict[str, Any]) -> Covariance:
    """Check the parameter `covariance`: a name, a pair of matrices, or one matrix of all entries.

    `facts` has the fields of the spec that X decides.
    """
    if isinstance(given, str) and given in ("private", "identity"):
        return given
    shape, is_pair = facts["matrix_shape"], isinstance(given, tuple | list)
    if not is_pair and np.ndim(given) == 2 and facts["factors"] is None:
        whole = _checked_matrix("covariance", given, math.prod(shape))
        if min(shape) > 1:
            return (whole,)
        # A vector has only one side longer than 1.
        return (whole, None) if shape[1] == 1 else (None, whole)
    sides: Sequence[Any] = given if is_pair else ()
    if len(sides) != 2 or (sides[0] is None and sides[1] is None):
        kind = repr(given) if isinstance(given, str) else type(given).__name__
        raise ValueError(
            "covariance must be 'private', 'identity', or a pair (row_cov, col_cov) with one None "
            "at most, as (cov, None) for vectors. For X in dense arrays it may be an array of "
            f"shape {(math.prod(shape),) * 2}, of all entries in C order. Got {kind}."
        )
    names = ("row_cov of covariance", "col_cov of covariance")
    return tuple(
        None if side is None else _checked_matrix(name, side, size)
        for name, side, size in zip(names, sides, shape, strict=True)
    )


def _checked_matrix(name: str, covariance: Any, size: int) -> np.ndarray:
    """Return a covariance as an array; refuse one that is not positive definite."""
    try:
        matrix = check_numbers(covariance, name)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} is no matrix: {error}") from error
    is_symmetric = matrix.shape == (size, size) and np.allclose(matrix, matrix.T)
    if not is_symmetric or np.linalg.eigvalsh(matrix)[0] <= 1e-12 * np.abs(matrix).max():
        raise ValueError(
            f"{name} must be a symmetric and positive definite matrix of shape {(size, size)}, "
            f"got shape {matrix.shape}."
        )
    return matrix


# ------------------------------
# Public facts about matrices.

#: Sparse rows of at most this many features become dense, block by block, so that each feature can
#: be centered and scaled; not studied.
LONGEST_WRITTEN_OUT = 64


def facts_of(
    rows: Any, size: tuple[int, int], asked: Any, given: Shape, *, of_people: bool
) -> dict[str, Any]:
    """Return the fields of a spec that X decides.

    Matrices have the shape `asked`, a parameter, or `given`, the shape of a sample of X.
    """
    n_units, n_features = size
    shape = matrix_shape_of(asked, given, n_features)
    is_sparse, is_short = holds_sparse(rows), n_features <= LONGEST_WRITTEN_OUT
    factors = None
    if isinstance(rows, RankOneMatrices):
        factors = issparse(rows.left), issparse(rows.right)
    elif is_sparse and shape[1] == 1 and not is_short:
        factors = True, False
    dense_width = None
    if factors is not None:
        # The columns of dense factors alone decide how many rows a block has.
        sides = zip(shape, factors, strict=True)
        dense_width = sum(length for length, is_sparse in sides if not is_sparse)
    stays_sparse = is_sparse if dense_width is None else dense_width == 0
    depth = depth_of(rows, size, is_sparse=stays_sparse, are_people=of_people, width=dense_width)
    return {
        "n_units": n_units,
        "matrix_shape": shape,
        "coef_shape": (n_features,) if given is None or factors is not None else shape,
        "dtype": float_dtype(rows),
        "rounding": rounding_of_depth(depth + terms_within(shape), n_units),
        "factors": factors,
        "is_dense": factors is None and (is_short or not is_sparse),
    }


def source_of(rows: Any, factors: tuple[bool, bool] | None) -> Source | RankOneMatrices:
    """Return the source of rows; long sparse rows become matrices with one column, in factors."""
    if isinstance(rows, RankOneMatrices):
        return rows
    if factors is not None:
        return RankOneMatrices(rows, np.ones((rows.shape[0], 1), rows.dtype))
    return as_source(rows)


def matrix_shape_of(asked: Any, given: Shape, n_features: int) -> tuple[int, int]:
    """Return the shape of matrices, `asked` by a parameter or else `given` by X, if it fits X."""
    if asked is None:
        return given or (n_features, 1)
    is_pair = len(asked) == 2 and all(isinstance(n, Integral) and int(n) > 0 for n in asked)
    if not is_pair or math.prod(asked) != n_features or given not in (None, tuple(asked)):
        expected = f"{given}" if given else f"two positive integers with the product {n_features}"
        has = "" if given else ", the number of columns of X"
        raise ValueError(
            f"matrix_shape={shown(asked)} does not fit X: it should be {expected}{has}."
        )
    return int(asked[0]), int(asked[1])
