"""The door of regressions and classifiers, which turns X and y into rows and targets."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from scipy.sparse import issparse
from sklearn.base import _fit_context
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from skdp._checks import (
    check_features,
    check_rows_of,
    check_rows_or_blocks,
    redact_errors,
    refuse_stream,
    targets_of,
)
from skdp._estimator import Data, PrivateEstimator
from skdp.data.containers import refuse_masked
from skdp.data.matrices import RankOneMatrices
from skdp.data.parts import RowBlocks, RowParts, Targets
from skdp.data.people import People, people_of
from skdp.data.sources import held

#: Shape of the matrices that are the rows; None if rows have features.
Shape = tuple[int, int] | None


class SupervisedEstimator(PrivateEstimator):
    """An estimator of private records, each of which has a target."""

    privacy_unit: str
    adjacency: str
    epsilon: float
    n_jobs: int | None
    coef_: np.ndarray
    #: Returns responses or labels as a 1-D array; refuses bad ones, and names none.
    _checked: Callable[[Any], np.ndarray]
    _shape: tuple[int, ...] = ()  # of the matrices of the fit, if there are any

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, *, users: Any = None) -> Self:
        """Fit the coefficients, spending the whole budget.

        Parameters
        ----------
        X : {array-like, sparse matrix, RowBlocks, dask collection} of shape \
                (n_records, n_features), array-like of shape (n_records, d1, d2), or RankOneMatrices
            Rows of features, or matrices, of the records, in a layout that the class takes. A
            `RowBlocks` has to be in parts, which bring their targets along.
        y : array-like of shape (n_records,) or None, default=None
            Responses, or labels, which are whole numbers or strings; for a dask collection in the
            same chunks, for rows in parts None.
        users : {array-like, dask collection} of shape (n_records,), list of arrays or None, \
                default=None
            Whose each record is, for ``privacy_unit="user"`` of a class that takes it: ids of one
            kind, integers or strings; of rows in parts also a list with an array for each part.

        Returns
        -------
        Self
            The fitted estimator.

        Raises
        ------
        ValueError
            If X, y, `users` or a parameter is not acceptable; nothing has been spent then.
        """
        return self._fit(X, y, users=users)

    def _read(self, X: Any) -> tuple[Any, Shape]:
        """Return the rows of X, and the shape of the matrices in X."""
        return as_rows(X)

    def _rows_of(self, X: Any) -> Any:
        """Check X for a fitted estimator, and return its rows; reading checks blocks."""
        check_is_fitted(self)
        rows, shape = self._read(X)
        if shape not in (None, self._shape):
            raise ValueError(
                f"X has matrices of shape {shape}, but {type(self).__name__} was fitted with "
                f"{self._shape}."
            )
        if not isinstance(rows, RankOneMatrices):
            return check_rows_of(rows, self)
        rows.check()
        check_features(rows, self)
        return rows

    def _problem(self, X: Any, y: Any, users: Any = None) -> tuple[Any, Data]:
        name, (rows, shape) = type(self).__name__, self._read(X)
        refuse_stream(rows, name)
        is_factored = isinstance(rows, RankOneMatrices)
        checked = checked_factors(rows) if is_factored else held(check_rows_or_blocks(rows, name))
        targets = self._targets(checked, y)
        check_consistent_length(checked, targets)
        people = people_of(users, checked, self.privacy_unit)
        opened = self._opened(checked, shape, targets, people)
        check_features(rows, self, reset=True)
        return opened

    def _targets(self, X: Any, y: Any) -> Targets:
        """Return the targets of rows in parts, or else y, checked."""
        given = targets_of(X, y, type(self).__name__)
        if not isinstance(X, RowParts):
            return Targets.of(self._checked(given))
        return given.held() if X.is_held else given

    def _problem_like(self, n_samples: int, n_features: int, like: Any) -> Any:
        rows, shape = self._read(like)
        refuse_stream(rows, type(self).__name__)
        return self._problem_of(rows, (n_samples, n_features), shape)

    @abstractmethod
    def _opened(
        self, rows: Any, shape: Shape, targets: Targets, people: People | None
    ) -> tuple[Any, Data]:
        """Read rows in parts, and targets, and refuse bad ones; return the problem and the data."""

    @abstractmethod
    def _problem_of(self, rows: Any, size: tuple[int, int], shape: Shape) -> Any:
        """Return the problem of a fit to so many rows and features, or to matrices of a shape."""


def as_rows(X: Any) -> tuple[Any, Shape]:
    """Reshape 3-D matrices to rows; return also their shape, None for 2-D X."""
    if isinstance(X, RowBlocks):
        return X, None
    if isinstance(X, RankOneMatrices):
        return X, X.matrix_shape
    refuse_masked(X)
    if issparse(X) or getattr(X, "ndim", None) == 2:
        return X, None
    first = X[0] if isinstance(X, list | tuple) and len(X) else None
    if not hasattr(X, "ndim") and redact_errors(np.ndim)(first) != 2:
        return X, None
    array = redact_errors(np.asarray)(X)
    if array.ndim != 3:
        return X, None
    n_records, n_rows, n_columns = array.shape
    return array.reshape(n_records, n_rows * n_columns), (n_rows, n_columns)


def checked_factors(X: RankOneMatrices) -> RankOneMatrices:
    """Refuse matrices of rank one that no estimator can be fitted to."""
    X.check()
    if len(X) == 0:
        raise ValueError("X has 0 sample(s), while a minimum of 1 is required.")
    return X
