"""What private regressions share: how a fit is asked for, what it reads, and predictions."""

from functools import partial
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from skdp._estimator import (
    N_JOBS,
    Data,
    PrivateEstimator,
    check_finite_bound,
    check_not_pure,
    in_dtype,
)
from skdp._parameters import ANY_BOUND
from skdp._reading import check_features, check_like, check_rows_of
from skdp.data.design import Design
from skdp.data.digest import digests
from skdp.data.rank_one import RankOneMatrices
from skdp.data.sources import as_source
from skdp.linear_model._responses import r2_of
from skdp.linear_model._trace.descent import Estimate
from skdp.linear_model._trace.fit import solve_trace
from skdp.linear_model._trace.input import (
    as_rows,
    check_same_shape,
    checked_data,
    facts_of,
    source_of,
)
from skdp.linear_model._trace.plan import plan_trace
from skdp.linear_model._trace.problem import UNITS, TraceProblem
from skdp.linear_model._trace.records import Records
from skdp.linear_model._trace.warnings import warnings_for_size
from skdp.privacy.precision import plain


class PrivateRegressor(RegressorMixin, PrivateEstimator):
    """A linear regression of private records, by a descent with clipped gradients."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **PrivateEstimator._parameter_constraints,
        **N_JOBS,
        "response_bound": [*ANY_BOUND, None],
        "fit_intercept": ["boolean"],
        "n_iter": [Interval(Integral, 1, 10_000, closed="both")],
    }

    adjacency: str
    privacy_unit: str
    epsilon: float
    n_jobs: int | None
    coef_: np.ndarray
    _shape: tuple[int, ...] = ()  # of the matrices, if there are any
    _plan, _solve = staticmethod(plan_trace), staticmethod(solve_trace)
    _warnings = staticmethod(warnings_for_size)

    def predict(self, X: Any) -> np.ndarray:
        """Predict responses.

        The result is a noise-free function of the rows passed in, which the guarantee does not
        cover. It is the products with `coef_`, plus `intercept_`. Features are first clipped to
        `feature_bounds_`, as in the fit.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_records, ...)
            Records, in a layout that `fit` takes.

        Returns
        -------
        ndarray of shape (n_records,)
            Predictions.
        """
        check_is_fitted(self)
        rows, shape = self._read(X)
        check_same_shape(shape, self._shape, type(self).__name__)
        if isinstance(rows, RankOneMatrices):
            rows.check()
            check_features(rows, self)
            if len(rows) == 0:
                return np.zeros(0)
        else:
            rows = check_rows_of(rows, self)
            if self.feature_bounds_ is None:
                return np.asarray(rows @ self.coef_.ravel() + self.intercept_)
        return np.asarray((self._products(rows) + self.intercept_).astype(rows.dtype))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Compute the coefficient of determination of predictions.

        A noise-free function of the rows passed in, which the guarantee does not cover.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_records, ...)
            Records, in a layout that `fit` takes.
        y : array-like of shape (n_records,)
            Responses.
        sample_weight : array-like of shape (n_records,) or None, default=None
            Weights of the records.

        Returns
        -------
        float
            1 at best.
        """
        return r2_of(y, self.predict(X), sample_weight)

    def _products(self, rows: Any) -> np.ndarray:
        """Multiply features, clipped as those of the fit were, by the coefficients."""
        assert self.feature_bounds_ is not None
        design = Design(source_of(rows, None), (self.n_features_in_, 1), self.n_jobs)
        return design.clipped_inner(self.coef_.ravel(), self.feature_bounds_)

    def _read(self, X: Any) -> tuple[Any, tuple[int, int] | None]:
        """Return rows, and the shape of the matrices that they are, if X has matrices."""
        return as_rows(X, type(self).__name__)

    def _problem(self, X: Any, y: Any) -> tuple[TraceProblem, Data]:
        rows, given = self._read(X)
        checked, responses = checked_data(rows, y, type(self).__name__)
        n_records, n_features = checked.shape
        problem = self._problem_of(checked, n_records, n_features, given)
        check_features(rows, self, reset=True)
        source = source_of(checked, problem.factors)
        design = Design(source, problem.matrix_shape, self.n_jobs)
        records = Records(design, responses, float(problem.fit_intercept))
        hashed: tuple[Any, ...] = (source,)
        if isinstance(source, RankOneMatrices):
            hashed = as_source(source.left), as_source(source.right)
        return problem, (records, partial(digests, *hashed, responses))

    def _problem_like(self, n_samples: int, n_features: int, like: Any) -> TraceProblem:
        rows, given = self._read(like)
        check_like(rows, n_samples, n_features)
        return self._problem_of(rows, n_samples, n_features, given)

    def _problem_of(
        self, rows: Any, n_records: int, n_features: int, given: tuple[int, int] | None
    ) -> TraceProblem:
        check_not_pure(type(self).__name__, self._cost())
        asked = plain(getattr(self, "matrix_shape", None))
        facts = facts_of(rows, n_records, n_features, asked, given)
        unit = UNITS[self.privacy_unit](self.adjacency)
        problem = self._asked(TraceProblem, **facts, unit=unit, **self._more_facts(facts))
        check_finite_bound("response_bound", problem.response_bound, problem.cost)
        return problem

    def _more_facts(self, facts: dict[str, Any]) -> dict[str, Any]:
        """Return public facts that not all regressions have."""
        return {}

    def _set_attributes(self, result: Estimate, problem: TraceProblem) -> tuple[str, ...]:
        self.intercept_ = float(result.offset)
        bounds = None if result.bounds is None else in_dtype(result.bounds, problem.dtype)
        self.feature_bounds_: np.ndarray | None = bounds
        return result.warnings

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        # Few records are not enough for a good score.
        tags.regressor_tags.poor_score = bool(self.epsilon < 100)
        return tags
