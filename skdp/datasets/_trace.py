"""Measurements of a low-rank matrix."""

from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions, validate_params

from skdp.data.containers import checked_shape
from skdp.data.matrices import RankOneMatrices
from skdp.datasets._shared import checked_singular_values, correlated
from skdp.linalg.spectrum import orthonormal_basis


@validate_params(
    {
        "n_samples": [Interval(Integral, 1, None, closed="left")],
        "shape": [tuple, list],
        "rank": [Interval(Integral, 1, None, closed="left")],
        "norm": [Interval(Real, 0, None, closed="left")],
        "singular_values": ["array-like", None],
        "design": [StrOptions({"gaussian", "completion", "tasks"})],
        "column_correlation": [Interval(Real, -1, 1, closed="neither")],
        "noise": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state"],
    },
    prefer_skip_nested_validation=True,
)
def make_trace_regression(
    n_samples: int = 1000,
    shape: tuple[int, int] = (12, 12),
    *,
    rank: int = 2,
    norm: float = 1.8,
    singular_values: Any = None,
    design: str = "gaussian",
    column_correlation: float = 0.0,
    noise: float = 0.5,
    random_state: Any = None,
) -> tuple[np.ndarray | RankOneMatrices, np.ndarray, np.ndarray]:
    r"""Make noisy measurements of a matrix of low rank.

    The i-th response is :math:`y_i = \langle X_i, M\rangle + s z_i`, where
    :math:`\langle X_i, M\rangle` is the sum of the products of their entries, s the `noise` and
    :math:`z_i` standard normal. The singular vectors of M are uniformly random.

    Parameters
    ----------
    n_samples : int, default=1000
        Number of measurements.
    shape : tuple of two ints, default=(12, 12)
        Number of rows d1 and of columns d2 of M.
    rank : int, default=2
        Rank of M, at most the smaller number in `shape`. Not used if `singular_values` are given.
    norm : float, default=1.8
        Frobenius norm of M. Its singular values are then equispaced, and the first is twice the
        last. Not used if `singular_values` are given.
    singular_values : array-like of shape (rank,) or None, default=None
        Singular values of M, in any order.
    design : {"gaussian", "completion", "tasks"}, default="gaussian"
        How the :math:`X_i` are drawn, see Notes.
    column_correlation : float, default=0.0
        Correlation, between -1 and 1, of neighboring entries in a row of a Gaussian :math:`X_i`.
        Entries k columns apart have the k-th power of it as their correlation. Other designs take
        only 0.
    noise : float, default=0.5
        Standard deviation of the noise.
    random_state : int, RandomState instance or None, default=None
        Seed of M and of the measurements.

    Returns
    -------
    X : ndarray of shape (n_samples, d1, d2) or RankOneMatrices
        The measurement matrices, an array for the Gaussian design.
    y : ndarray of shape (n_samples,)
        The responses.
    M : ndarray of shape (d1, d2)
        The measured matrix.

    Raises
    ------
    ValueError
        If `shape` is not a pair of positive integers, `rank` is too large, there are too many or
        negative `singular_values`, or `column_correlation` is given for a design without it.

    Notes
    -----
    The entries of :math:`X_i` have mean square 1 in every design, and those of different places
    have mean product 0 if `column_correlation` is 0. Then :math:`\langle X_i, M\rangle` has mean
    square :math:`\lVert M\rVert_F^2`.

    - "gaussian": all entries are standard normal.
    - "completion": a uniformly random entry is :math:`\sqrt{d_1 d_2}`, the others are zero. So y
      is the observed entry of M times this number, plus noise.
    - "tasks": a uniformly random column, the task, is :math:`\sqrt{d_2}` times a standard normal
      vector, the others are zero. The columns of M are the coefficients of the tasks.

    A measurement takes :math:`8 d_1 d_2` bytes in the first design, 32 in the second and
    :math:`8 d_1 + 16` in the third.

    Examples
    --------
    >>> from skdp.datasets import make_trace_regression
    >>> X, y, M = make_trace_regression(100, (8, 5), random_state=0)
    >>> X.shape, y.shape, M.shape
    ((100, 8, 5), (100,), (8, 5))
    >>> X, y, M = make_trace_regression(100, (8, 5), design="completion", random_state=0)
    >>> X
    RankOneMatrices(shape=(100, 40), matrix_shape=(8, 5), dtype=float64)
    """
    checked_shape(shape)
    if column_correlation != 0 and design != "gaussian":
        raise ValueError(
            f"column_correlation={column_correlation} must be 0 unless design='gaussian', got "
            f"design={design!r}."
        )
    values = _values_of_matrix(singular_values, rank, norm, min(shape))
    random = check_random_state(random_state)
    left, right = (orthonormal_basis(random.normal(size=(size, len(values)))) for size in shape)
    X: np.ndarray | RankOneMatrices
    if design == "gaussian":
        X = correlated(random.normal(size=(n_samples, *shape)), column_correlation)
    elif design == "completion":
        X = _single_cells(n_samples, *shape, random)
    else:
        X = _task_rows(n_samples, *shape, random)
    M = (left * values) @ right.T
    y = _inner_products(X, left * values, right) + noise * random.normal(size=n_samples)
    return X, y, M


def _values_of_matrix(singular_values: Any, rank: int, norm: float, n_most: int) -> np.ndarray:
    """Return the singular values; refuse unacceptable ones."""
    if singular_values is not None:
        return checked_singular_values(singular_values, n_most, "the smaller number in shape")
    if rank > n_most:
        raise ValueError(f"rank={rank} must be at most {n_most}, the smaller number in shape.")
    values = np.linspace(2, 1, rank)
    return norm / np.linalg.norm(values) * values


def _single_cells(
    n_samples: int, n_rows: int, n_columns: int, random: np.random.RandomState
) -> RankOneMatrices:
    rows = random.randint(n_rows, size=n_samples)
    columns = random.randint(n_columns, size=n_samples)
    cells = RankOneMatrices.from_indices(rows, columns, (n_rows, n_columns))
    return RankOneMatrices(np.sqrt(n_rows * n_columns) * cells.left, cells.right)


def _task_rows(
    n_samples: int, n_features: int, n_tasks: int, random: np.random.RandomState
) -> RankOneMatrices:
    X = np.sqrt(n_tasks) * random.normal(size=(n_samples, n_features))
    return RankOneMatrices.from_tasks(X, random.randint(n_tasks, size=n_samples), n_tasks)


def _inner_products(
    X: np.ndarray | RankOneMatrices, left: np.ndarray, right: np.ndarray
) -> np.ndarray:
    """Compute the inner products of matrices with ``left @ right.T``."""
    if isinstance(X, RankOneMatrices):
        return np.einsum("ij,ij->i", X.left @ left, X.right @ right)
    return X.reshape(len(X), -1) @ (left @ right.T).ravel()
