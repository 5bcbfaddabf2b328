"""What private regressions share: how a fit is asked for, what it reads, and predictions."""

from functools import partial
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from skdp._checks import (
    ANY_BOUND,
    by_chunks,
    check_features,
    check_given,
    check_like,
    check_rows,
    check_rows_of,
    in_parts,
    targets_of,
)
from skdp._estimator import (
    N_JOBS,
    Data,
    PrivateEstimator,
    check_finite_bound,
    check_not_pure,
    in_dtype,
)
from skdp.data.matrices import Design, RankOneMatrices
from skdp.data.parts import PartResults, RowBlocks, RowParts, Targets
from skdp.data.rows import checked_digest
from skdp.data.sources import as_source, digests
from skdp.linear_model._descent import n_votes
from skdp.linear_model._responses import as_numbers, as_numbers_later, r2_of, r2_of_parts
from skdp.linear_model._trace.descent import Estimate
from skdp.linear_model._trace.fit import solve_trace
from skdp.linear_model._trace.input import (
    as_rows,
    check_blocks,
    check_same_shape,
    checked_data,
    facts_of,
    source_of,
)
from skdp.linear_model._trace.plan import plan_trace
from skdp.linear_model._trace.problem import UNITS, TraceProblem
from skdp.linear_model._trace.records import Records
from skdp.linear_model._trace.warnings import warnings_for_size
from skdp.privacy import Plan
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

    @by_chunks
    def predict(self, X: Any) -> Any:
        """Predict responses.

        The result is a noise-free function of the rows passed in, which the guarantee does not
        cover. It is the products with `coef_`, plus `intercept_`. Features are first clipped to
        `feature_bounds_`, as in the fit.

        Parameters
        ----------
        X : {array-like, sparse matrix, RowBlocks, dask collection} of shape (n_records, ...)
            Records, in a layout that `fit` takes.

        Returns
        -------
        ndarray, PartResults or dask array of shape (n_records,)
            Predictions. Those of a dask collection are computed when they are asked for, those of a
            `RowBlocks` a block or a part at a time: iterate
            over them, or write them to a file by ``to_npy(path)``.
        """
        check_is_fitted(self)
        rows, shape = self._read(X)
        check_same_shape(shape, self._shape, type(self).__name__)
        if isinstance(rows, RowBlocks):
            check_features(rows, self)
            of_block = partial(self._predicted_block, dtype=rows.dtype)
            return PartResults(rows, of_block, rows.shape[:1], rows.dtype)
        if isinstance(rows, RankOneMatrices):
            rows.check()
            check_features(rows, self)
            if len(rows) == 0:
                return np.zeros(0)
            return self._predicted(rows)
        return self._predicted(check_rows_of(rows, self))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Compute the coefficient of determination of predictions.

        A noise-free function of the rows passed in, which the guarantee does not cover.

        Parameters
        ----------
        X : {array-like, sparse matrix, RowBlocks, dask collection} of shape (n_records, ...)
            Records, in a layout that `fit` takes.
        y : array-like of shape (n_records,) or None, default=None
            Responses, for a dask collection in the same chunks; None for rows in parts, which bring
            theirs along.
        sample_weight : array-like of shape (n_records,) or None, default=None
            Weights of the records.

        Returns
        -------
        float
            1 at best.
        """
        X, y = in_parts(X, y)
        if isinstance(X, RowParts):
            responses = targets_of(X, y, type(self).__name__).mapped(as_numbers)
            return r2_of_parts(responses, self.predict(X), sample_weight, self.n_jobs)
        predictions = self.predict(X)
        check_given(y, type(self).__name__)
        if isinstance(X, RowBlocks):
            predictions = np.concatenate(list(predictions))
        return r2_of(y, predictions, sample_weight)

    def _predicted(self, rows: Any) -> np.ndarray:
        if self.feature_bounds_ is None and not isinstance(rows, RankOneMatrices):
            return np.asarray(rows @ self.coef_.ravel() + self.intercept_)
        return np.asarray((self._products(rows) + self.intercept_).astype(rows.dtype))

    def _predicted_block(self, block: Any, dtype: np.dtype) -> np.ndarray:
        if block.shape[0] == 0:
            return np.zeros(0, dtype)
        return self._predicted(check_rows(block, type(self).__name__)).astype(dtype)

    def _products(self, rows: Any) -> np.ndarray:
        """Multiply features, clipped as those of the fit were, by the coefficients."""
        assert self.feature_bounds_ is not None
        design = Design(source_of(rows, None), (self.n_features_in_, 1), self.n_jobs)
        return design.clipped_inner(self.coef_.ravel(), self.feature_bounds_)

    def _read(self, X: Any) -> tuple[Any, tuple[int, int] | None]:
        """Return rows, and the shape of the matrices that they are, if X has matrices."""
        return as_rows(X)

    def _problem(self, X: Any, y: Any) -> tuple[TraceProblem, Data]:
        rows, given = self._read(X)
        if isinstance(rows, RowBlocks):
            return self._problem_of_parts(rows, y)
        checked, responses = checked_data(rows, y, type(self).__name__)
        n_records, n_features = checked.shape
        problem = self._problem_of(checked, n_records, n_features, given)
        check_features(rows, self, reset=True)
        source = source_of(checked, problem.factors)
        design = Design(source, problem.matrix_shape, self.n_jobs)
        records = Records(design, Targets.of(responses), float(problem.fit_intercept))
        hashed: tuple[Any, ...] = (source,)
        if isinstance(source, RankOneMatrices):
            hashed = as_source(source.left), as_source(source.right)
        return problem, (records, partial(digests, *hashed, responses))

    def _problem_of_parts(self, X: Any, y: Any) -> tuple[TraceProblem, Data]:
        """Do the same for rows in parts, which are read once, and nothing else is read of them."""
        problem = self._problem_of(X, X.shape[0], X.shape[1], None)
        responses = targets_of(X, y, type(self).__name__)
        check_features(X, self, reset=True)
        source, numbers = as_source(X), responses.mapped(as_numbers)
        checked = partial(checked_digest, n_jobs=self.n_jobs, is_keyed=self._is_keyed)
        of_responses, of_rows = checked(numbers, name="y"), checked(source)
        design = Design(source, problem.matrix_shape, self.n_jobs)
        later = responses.mapped(as_numbers_later)
        records = Records(design, later, float(problem.fit_intercept))
        return problem, (records, lambda: (of_rows(), of_responses()))

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
        check_blocks(rows, facts["factors"], self.privacy_unit, type(self).__name__)
        unit = UNITS[self.privacy_unit](self.adjacency)
        problem = self._asked(TraceProblem, **facts, unit=unit, **self._more_facts(facts))
        check_finite_bound("response_bound", problem.response_bound, problem.cost)
        return problem

    def _n_passes(self, plan: Plan) -> int | None:
        most = super()._n_passes(plan)
        return None if most is None else most - n_votes(plan)

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
