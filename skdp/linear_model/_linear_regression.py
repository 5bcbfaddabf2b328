"""Linear regression on private rows of features."""

from functools import partial
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import RegressorMixin, _fit_context
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from skdp._estimator import N_JOBS, Data, PrivateEstimator, check_not_pure, in_dtype
from skdp._reading import check_features, check_like, check_rows_of
from skdp._scales.bounds import checked_interval
from skdp.data.design import Design
from skdp.data.digest import digests
from skdp.data.rank_one import RankOneMatrices
from skdp.data.sources import as_source
from skdp.linear_model._responses import r2_of
from skdp.linear_model._trace.estimate import Estimate
from skdp.linear_model._trace.fit import solve_trace
from skdp.linear_model._trace.input import as_rows, checked_data, facts_of, source_of
from skdp.linear_model._trace.plan import plan_trace
from skdp.linear_model._trace.problem import TRACE_CONSTRAINTS, UNITS, TraceProblem, checked_problem
from skdp.linear_model._trace.records import Records
from skdp.linear_model._trace.warnings import warnings_for_size

__all__ = ["DPLinearRegression"]


class DPLinearRegression(RegressorMixin, PrivateEstimator):
    r"""Linear regression on rows of features with differential privacy.

    Features may be in any units: the fit finds their centers, scales and covariance privately, and
    descends from 0 with clipped gradients.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget of one fit, dimensionless, ``0 < epsilon <= inf``. Smaller is more private;
        ``inf`` switches the noise and the clipping off.
    delta : float, default=1e-6
        Probability with which the guarantee may fail, ``0 < delta < 1``, well below one over the
        number of units.
    adjacency : {"replace", "zero_out"}, default="replace"
        Neighboring datasets differ by exchanging one unit for any other, or by one that is null,
        which takes less noise and promises less: :doc:`/user_guide/what_is_protected`.
    bounds : pair of floats or arrays of shape (n_features,), or None, default=None
        Public ends ``(low, high)`` of every feature, in its units, between which features are
        clipped for their means and variances. They must be known without looking at X: its
        smallest and largest entries are **not** public. Sizes are at most 1e100, and the ends at
        least 1e-100 apart. ``None`` finds intervals privately, for up to a tenth of the budget.
    response_bound : float or None, default=None
        Public bound on the size of a response, in the units of y; larger responses are clipped to
        it, which saves noise. ``None`` bounds nothing: what responses contribute is clipped anyway.
        From 1e-100 to 1e100, or ``inf`` with ``epsilon=inf``.
    fit_intercept : bool, default=True
        Whether to fit an intercept. The responses are then centered by a private median.
    n_iter : int, default=10
        Number of gradient steps, 1 to 10,000. More steps split the budget further.
    ledger : PrivacyLedger or None, default=None
        Where the whole cost of a fit is charged before its first release. ``None`` keeps no ledger.
    n_jobs : int or None, default=None
        Threads that share the data; no number depends on it. ``None``: those of matrix products.
    random_state : int, RandomState or Generator instance or None, default=None
        ``None`` takes fresh noise in every fit, as the guarantee assumes. A secret int, such as
        ``secrets.randbits(128)``, repeats a fit in the same container on the same kind of machine;
        one that can be guessed voids the guarantee.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Coefficients. Covered by the guarantee.
    intercept_ : float
        Intercept. Covered by the guarantee.
    feature_bounds_ : ndarray of shape (2, n_features) or None
        Smallest and largest value of each feature, to which `fit` and `predict` clip others. None
        where features are not scaled one by one. Covered by the guarantee.
    privacy_spent_ : PrivacySpent
        Record of every release. Public.
    n_features_in_ : int
        Number of features. Public.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if X has names that are strings. Public.

    See Also
    --------
    sklearn.linear_model.LinearRegression : The same without privacy.
    DPTraceRegressor : Matrices, with coefficients of low rank, and public rows.

    Notes
    -----
    **Privacy.** Unit: a record, that is a row with its response. Adjacency: `adjacency`.
    Mechanism: Gaussian, accounted for exactly in Gaussian differential privacy. Released: counts
    for the median of the responses and for their sizes; without `bounds` counts of the entries of
    each feature by sign and power of two and, of features that may be narrow beside their distance
    from 0, by place; the mean of each feature and of its square; a second moment; and in each step
    the sum of the gradients, each clipped in norm, and the number of those that were not. `plan`
    lists every release before a fit, `privacy_spent_` afterwards. Assumed public: the shape of X,
    its dtype, whether it is dense or sparse, feature names, and parameters. NaN and infinity are
    refused, which tells that there are none. Not covered: what `predict` and `score` return,
    noise-free functions of the rows passed in; and the running time. No assumption about the data
    is made.

    Sparse rows of more than 64 features are not centered, and scaled by their variances alone:
    `bounds` is refused with them. Readings of X: two for scales, one with `bounds`; up to two more
    for narrow features; one for the covariance; and one a step. Mathematics and proofs:
    :doc:`/trace_regression` and :doc:`/scaling`.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import DPLinearRegression
    >>> generator = np.random.default_rng(0)
    >>> X = generator.normal(size=(8000, 3)) * [1, 100, 0.01]
    >>> y = X @ [2, 0.01, -300] + generator.normal(size=8000)
    >>> model = DPLinearRegression(epsilon=1.0).fit(X, y)
    >>> model.coef_.shape
    (3,)
    >>> model.score(X, y) > 0.9
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **PrivateEstimator._parameter_constraints,
        **N_JOBS,
        # `checked_interval` checks it.
        "bounds": "no_validation",
        **{name: TRACE_CONSTRAINTS[name] for name in ("response_bound", "fit_intercept")},
        "n_iter": [Interval(Integral, 1, 10_000, closed="both")],
    }

    #: The only unit, as other estimators name it.
    privacy_unit: ClassVar[str] = "record"

    _plan, _solve = staticmethod(plan_trace), staticmethod(solve_trace)
    _warnings = staticmethod(warnings_for_size)

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        adjacency: str = "replace",
        bounds: Any = None,
        response_bound: float | None = None,
        fit_intercept: bool = True,
        n_iter: int = 10,
        ledger: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.bounds = bounds
        self.response_bound = response_bound
        self.fit_intercept = fit_intercept
        self.n_iter = n_iter
        self.ledger = ledger
        self.n_jobs = n_jobs
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Fit the coefficients, spending the whole budget.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows of the records.
        y : array-like of shape (n_samples,)
            Responses.

        Returns
        -------
        Self
            The fitted estimator.

        Raises
        ------
        ValueError
            If X, y or a parameter is not acceptable; nothing has been spent then.
        """
        self._fit(X, y)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Predict responses.

        The result is a noise-free function of the rows passed in, which the guarantee does not
        cover. It is the products with `coef_`, plus `intercept_`. Features are first clipped to
        `feature_bounds_`, as in the fit.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            Predictions.
        """
        check_is_fitted(self)
        rows = check_rows_of(self._as_rows(X), self)
        if self.feature_bounds_ is None:
            return np.asarray(rows @ self.coef_ + self.intercept_)
        design = Design(as_source(rows), (self.n_features_in_, 1), self.n_jobs)
        products = design.clipped_inner(self.coef_, self.feature_bounds_)
        return np.asarray((products + self.intercept_).astype(rows.dtype))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Compute the coefficient of determination of predictions.

        A noise-free function of the rows passed in, which the guarantee does not cover.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Responses.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights of the rows.

        Returns
        -------
        float
            1 at best.
        """
        return r2_of(y, self.predict(X), sample_weight)

    def _as_rows(self, X: Any) -> Any:
        """Refuse matrices, and name what takes them."""
        rows, shape = as_rows(X)
        if shape is not None or isinstance(rows, RankOneMatrices):
            raise ValueError(
                f"X has matrices, but {type(self).__name__} takes rows of features: use "
                "DPTraceRegressor."
            )
        return rows

    def _problem(self, X: Any, y: Any) -> tuple[TraceProblem, Data]:
        checked, responses = checked_data(self._as_rows(X), y, type(self).__name__)
        problem = self._problem_of(checked, *checked.shape)
        check_features(X, self, reset=True)
        source = source_of(checked, problem.factors)
        design = Design(source, problem.matrix_shape, self.n_jobs)
        records = Records(design, responses, float(problem.fit_intercept))
        hashed: tuple[Any, ...] = (source,)
        if isinstance(source, RankOneMatrices):
            hashed = as_source(source.left), as_source(source.right)
        return problem, (records, partial(digests, *hashed, responses))

    def _problem_like(self, n_samples: int, n_features: int, like: Any) -> TraceProblem:
        check_like(like, n_samples, n_features)
        return self._problem_of(self._as_rows(like), n_samples, n_features)

    def _problem_of(self, rows: Any, n_samples: int, n_features: int) -> TraceProblem:
        check_not_pure(type(self).__name__, self._cost())
        facts = facts_of(rows, n_samples, n_features, None, None)
        interval = None if self.bounds is None else checked_interval(self.bounds, n_features)
        if interval is not None and not facts["is_dense"]:
            raise ValueError(
                "bounds are for dense rows, or sparse ones of at most 64 features: others are not "
                "centered. Pass bounds=None, or a dense X."
            )
        problem = self._asked(
            TraceProblem,
            **facts,
            unit=UNITS[self.privacy_unit](self.adjacency),
            covariance="private",
            interval=interval,
            rank=1,
            solver="rgrad",
            clip_quantile="auto",
            init="random",
            row_norm=None,
        )
        return checked_problem(problem)

    def _set_attributes(self, result: Estimate, problem: TraceProblem) -> tuple[str, ...]:
        self.coef_: np.ndarray = in_dtype(result.point.matrix.ravel(), problem.dtype)
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
