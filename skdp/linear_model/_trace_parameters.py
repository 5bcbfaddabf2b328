"""What the parameters of the trace regression mean for given data, and which are refused."""

import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_array
from sklearn.utils._param_validation import Interval, Options, StrOptions
from sklearn.utils.validation import check_consistent_length, column_or_1d

from skdp._estimator import check_finite_bound, check_rows, quiet_check
from skdp.exceptions import warn_of_privacy
from skdp.linalg.fixed_rank import tangent_dimension
from skdp.linalg.rank_one import RankOneMatrices
from skdp.linalg.sources import RowBlocks, Source, as_source
from skdp.linear_model._solvers.initial import INITIALIZERS
from skdp.linear_model._solvers.standardization import plan_standardization
from skdp.linear_model._transform import Transform
from skdp.privacy.clipping import SMALLEST_BOUND

__all__ = [
    "TRACE_CONSTRAINTS",
    "CheckedInput",
    "as_rows",
    "check_input",
    "check_parameters",
    "doubts_of_cells",
    "signal_strength",
    "warn_of_noise",
    "warn_of_result",
]

_BOUND = [
    Interval(Real, SMALLEST_BOUND, 1 / SMALLEST_BOUND, closed="both"),
    Options(Real, {np.inf}),
    None,
]
TRACE_CONSTRAINTS: dict[str, Any] = {
    "rank": [Interval(Integral, 1, None, closed="left")],
    "matrix_shape": [tuple, list, None],
    "privacy_unit": [StrOptions({"record", "response"})],
    "response_bound": _BOUND,
    "row_norm": _BOUND,
    "coef_bound": _BOUND,
    "isotropic": ["boolean"],
    "fit_intercept": ["boolean"],
    "solver": [StrOptions({"rgrad", "iht", "gd", "adassp"})],
    "init": [StrOptions({"random", *INITIALIZERS})],
    "n_iter": [Interval(Integral, 1, 10_000, closed="both")],
    "step_size": [Interval(Real, 0, 2, closed="neither")],
    "clip_quantile": [Interval(Real, 0.01, 0.99, closed="both"), StrOptions({"auto"})],
    "scale": [StrOptions({"private"}), None],
    "row_cov": ["array-like", None],
    "col_cov": ["array-like", None],
    "noise_cut": ["boolean"],
}
# Sparse vectors of at most so many entries are written out piece by piece, so that each feature has
# a centre and a scale of its own.
_LONGEST_WRITTEN_OUT = 64
# Below so many times the noise in all directions together, a fit is no better than none.
_LEAST_SIGNAL = 2.0
# The same for matrices of rank one, which tell of few directions each, and for single cells, in
# units of the noise in one direction: below, half of the coefficients or more are wrong.
_LEAST_SIGNAL_OF_OUTER, _LEAST_SIGNAL_OF_CELLS = 5.0, 7.0


@dataclass(frozen=True)
class CheckedInput:
    """Matrices and responses that are acceptable.

    Attributes
    ----------
    source : Source or RankOneMatrices
        Where the matrices come from.
    responses : ndarray of shape (n_records,)
        Responses in float64.
    matrix_shape : tuple of two ints
        Shape of a matrix.
    coef_shape : tuple of ints
        Shape of the coefficients, as the matrices were laid out.
    dtype : dtype
        Type of the results.
    is_dense : bool
        Whether the matrices are a dense array, or sparse and so short that they are written out.
    """

    source: Source | RankOneMatrices
    responses: np.ndarray
    matrix_shape: tuple[int, int]
    coef_shape: tuple[int, ...]
    dtype: np.dtype
    is_dense: bool


def as_rows(X: Any) -> tuple[Any, tuple[int, int] | None]:
    """Lay 3-D matrices out as rows; return also their shape, None for what has none."""
    if isinstance(X, RowBlocks):
        raise ValueError(
            "X is a RowBlocks, which DPTraceRegressor does not take: pass an array, a memory map, "
            "a sparse matrix or RankOneMatrices."
        )
    if isinstance(X, RankOneMatrices):
        return X, X.matrix_shape
    if issparse(X) or getattr(X, "ndim", None) == 2:
        return X, None
    if not hasattr(X, "ndim") and np.ndim(_first(X)) != 2:
        return X, None
    array = np.asarray(X)
    if array.ndim != 3:
        return X, None
    n_records, n_rows, n_columns = array.shape
    return array.reshape(n_records, n_rows * n_columns), (n_rows, n_columns)


def check_input(X: Any, y: Any, estimator: Any) -> CheckedInput:
    """Refuse bad data, naming no value."""
    rows, found = as_rows(X)
    if isinstance(rows, RankOneMatrices):
        _check_rank_one(rows)
    else:
        rows = check_rows(rows, estimator)
    responses = _check_responses(y, estimator)
    check_consistent_length(rows, responses)
    shape = _matrix_shape(estimator.matrix_shape, found, rows.shape[1])
    is_3d = found is not None and not isinstance(rows, RankOneMatrices)
    return CheckedInput(
        source=_source(rows, shape),
        responses=responses,
        matrix_shape=shape,
        coef_shape=shape if is_3d else (rows.shape[1],),
        dtype=np.dtype(rows.dtype),
        is_dense=isinstance(rows, np.ndarray) or _is_written_out(rows),
    )


def check_parameters(estimator: Any, checked: CheckedInput) -> None:
    """Refuse parameters that contradict each other or the shape of the data."""
    n_rows, n_columns = checked.matrix_shape
    effective_n_jobs(estimator.n_jobs)
    if estimator.rank > min(checked.matrix_shape):
        raise ValueError(
            f"rank={estimator.rank} exceeds the smaller side of the matrices, whose shape is "
            f"{checked.matrix_shape}. Pass a smaller rank, or matrix_shape=(n_rows, n_columns): "
            "without it 2-D X has matrices of shape (n_features, 1). Cells of a table, given by "
            "their rows and columns, are RankOneMatrices.from_indices(rows, columns, shape)."
        )
    for name in ("response_bound", "row_norm", "coef_bound"):
        check_finite_bound(name, getattr(estimator, name), estimator.epsilon)
    if estimator.row_norm is not None and estimator.solver != "adassp":
        raise ValueError(
            f"row_norm={estimator.row_norm:g} is for solver='adassp' only, and solver="
            f"{estimator.solver!r} would not use it. Pass row_norm=None, or solver='adassp'."
        )
    for name, size in (("row_cov", n_rows), ("col_cov", n_columns)):
        _check_covariance(name, getattr(estimator, name), size)
    if math.isfinite(estimator.epsilon) and estimator.delta == 0:
        raise ValueError(
            "delta=0 asks for pure differential privacy, which the Gaussian noise of "
            "DPTraceRegressor does not give; pass a positive delta."
        )


def warn_of_noise(estimator: Any, checked: CheckedInput, mu: float) -> None:
    """Warn where the noise is larger than any signal, from public facts only."""
    n_records = len(checked.responses)
    strength = signal_strength(estimator, n_records, checked.matrix_shape, mu)
    n_free = _n_free(estimator, checked.matrix_shape)
    least = _least_signal(estimator, checked)
    if strength < least:
        reason = "what each of them tells of so few of these is easily lost in the noise"
        if strength < _LEAST_SIGNAL:
            reason = "the noise is as large as any signal"
        warn_of_privacy(
            f"{n_records} records with epsilon={estimator.epsilon:g} are too few for "
            f"{n_free} coefficients: {reason}. Some "
            f"{least / strength:.2g} times as many records, a larger epsilon, or a smaller "
            "rank or matrix_shape would do."
        )
    is_vector = checked.is_dense and min(checked.matrix_shape) == 1
    finds_scales = estimator.scale is not None and estimator.privacy_unit == "record"
    is_known = estimator.isotropic or not (estimator.row_cov is None and estimator.col_cov is None)
    if not (is_vector and finds_scales and not is_known):
        return
    n_features = math.prod(checked.matrix_shape)
    centered = estimator.fit_intercept
    if plan_standardization(n_features, n_records, mu, centered=centered) is None:
        warn_of_privacy(
            f"{n_records} records with epsilon={estimator.epsilon:g} are too few to scale "
            f"{n_features} features one by one: all share one scale. If their units differ, centre "
            "and divide them by public guesses of their means and spreads."
        )


def doubts_of_cells(
    estimator: Any, checked: CheckedInput, transform: Transform, mu: float
) -> tuple[str, ...]:
    """Doubt coefficients for cells some of which are seen too rarely, by released variances."""
    rows, columns = transform.row_map, transform.column_map
    if rows is None or columns is None or not _are_cells(checked) or math.isinf(mu):
        return ()
    unevenness = math.sqrt(_unevenness(rows) * _unevenness(columns))
    strength = signal_strength(estimator, len(checked.responses), checked.matrix_shape, mu)
    least = _least_signal(estimator, checked)
    if not least <= strength < least * unevenness:
        return ()
    return (
        "Some rows or columns are observed so much more rarely than others that their cells are "
        "mostly noise. Pass a smaller rank, a larger epsilon, or more records, or leave rarely "
        "observed rows and columns out.",
    )


def _unevenness(roots: np.ndarray) -> float:
    """Compare the mean variance of rows with the harmonic one, from their inverse roots."""
    if roots.ndim > 1:
        return 1.0
    inverses = np.square(roots)
    return float(np.mean(inverses) * np.mean(1 / inverses))


def warn_of_result(doubts: tuple[str, ...], n_cut: int, n_values: int) -> None:
    """Warn of what released values say against a fit."""
    for doubt in doubts:
        warn_of_privacy(doubt)
    if n_cut:
        warn_of_privacy(
            f"{n_cut} of {n_values} singular values of the coefficients do not stand out from the "
            "noise and are 0. Pass a smaller rank, a larger epsilon, or more records."
        )


def signal_strength(
    estimator: Any, n_records: int, matrix_shape: tuple[int, int], mu: float
) -> float:
    """Compare the records with the noise of all directions together, from public facts only."""
    n_steps = 1 if estimator.solver == "adassp" else estimator.n_iter
    return n_records * mu / (_n_free(estimator, matrix_shape) * math.sqrt(n_steps))


def _least_signal(estimator: Any, checked: CheckedInput) -> float:
    """Return the signal strength that a fit needs, from public facts only.

    What each singular vector has to stand out from is the noise in its own direction, which is
    weaker the more of them the noise is shared by: for matrices of rank one, the signal of which
    is rare, that is what decides.
    """
    shape = checked.matrix_shape
    if not isinstance(checked.source, RankOneMatrices) or min(shape) == 1:
        return _LEAST_SIGNAL
    least = _LEAST_SIGNAL_OF_CELLS if _are_cells(checked) else _LEAST_SIGNAL_OF_OUTER
    return max(_LEAST_SIGNAL, least / math.sqrt(_n_free(estimator, shape) / sum(shape)))


def _are_cells(checked: CheckedInput) -> bool:
    """Whether both factors are sparse, as those of single cells are."""
    source = checked.source
    if not isinstance(source, RankOneMatrices) or min(checked.matrix_shape) == 1:
        return False
    return issparse(source.left) and issparse(source.right)


def _n_free(estimator: Any, matrix_shape: tuple[int, int]) -> int:
    """Count the coefficients that noise is added to."""
    n_free = math.prod(matrix_shape)
    if estimator.solver == "rgrad":
        n_free = tangent_dimension(matrix_shape, estimator.rank)
    return n_free + estimator.fit_intercept


def _first(X: Any) -> Any:
    return X[0] if isinstance(X, list | tuple) and len(X) else None


def _check_rank_one(X: RankOneMatrices) -> None:
    if len(X) == 0:
        raise ValueError("X has 0 sample(s), while a minimum of 1 is required.")
    X.check()


def _check_responses(y: Any, estimator: BaseEstimator) -> np.ndarray:
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None."
        )

    def _check() -> Any:
        _refuse_columns(y, type(estimator).__name__)
        raveled = column_or_1d(y, warn=True)
        return check_array(raveled, ensure_2d=False, dtype=np.float64, input_name="y")

    return np.asarray(quiet_check(_check))


def _refuse_columns(y: Any, name: str) -> None:
    """Refuse several responses of a record, and say how they are fitted."""
    shape = getattr(y, "shape", None) or (1, np.size(_first(y)))
    if len(shape) == 2 and shape[1] > 1:
        raise ValueError(
            f"y should be a 1d array, got {shape[1]} columns: {name} fits one response. "
            "sklearn.multioutput.MultiOutputRegressor fits each column by itself, and every one of "
            "these fits spends epsilon. Related columns are tasks, to be fitted together: "
            "RankOneMatrices.from_tasks(X, tasks, n_tasks), where a row has one response."
        )


def _matrix_shape(asked: Any, found: tuple[int, int] | None, n_features: int) -> tuple[int, int]:
    if asked is None:
        return found or (n_features, 1)
    is_pair = len(asked) == 2 and all(isinstance(n, Integral) and int(n) > 0 for n in asked)
    if not is_pair or math.prod(asked) != n_features or found not in (None, tuple(asked)):
        expected = f"{found}" if found else f"two positive integers with the product {n_features}"
        raise ValueError(f"matrix_shape={asked!r} does not fit X: it should be {expected}.")
    return int(asked[0]), int(asked[1])


def _is_written_out(rows: Any) -> bool:
    """Whether rows are sparse, but too short for that to matter."""
    return bool(issparse(rows) and rows.shape[1] <= _LONGEST_WRITTEN_OUT)


def _source(rows: Any, shape: tuple[int, int]) -> Source | RankOneMatrices:
    """Choose the source; long sparse vectors are outer products with the number 1."""
    if isinstance(rows, RankOneMatrices):
        return rows
    if issparse(rows) and shape[1] == 1 and not _is_written_out(rows):
        return RankOneMatrices(rows, np.ones((rows.shape[0], 1), rows.dtype))
    return as_source(rows)


def _check_covariance(name: str, covariance: Any, size: int) -> None:
    if covariance is None:
        return
    matrix = check_array(covariance, dtype=np.float64, input_name=name)
    if matrix.shape != (size, size) or not np.allclose(matrix, matrix.T):
        raise ValueError(
            f"{name} must be a symmetric matrix of shape {(size, size)}, got shape {matrix.shape}."
        )
    if np.linalg.eigvalsh(matrix)[0] <= 1e-12 * np.abs(matrix).max():
        raise ValueError(f"{name} must be positive definite; its smallest eigenvalue is not.")
