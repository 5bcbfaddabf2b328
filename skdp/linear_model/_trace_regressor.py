"""Private linear regressions: their base class, and the regression on matrices."""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import KW_ONLY, replace
from functools import partial
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils._param_validation import Interval, StrOptions

from skdp._estimator import Data, check_finite_bound, check_not_pure, in_dtype
from skdp._validation import ANY_BOUND, by_chunks, in_parts, results_of, with_parameters
from skdp.data.matrices import Design, RankOneMatrices
from skdp.data.parts import RowParts, Targets
from skdp.data.people import People, keyed_by_people
from skdp.data.rows import checked_digest
from skdp.data.sources import as_source
from skdp.linalg.matrices import FixedRank
from skdp.linear_model import _supervised as supervised
from skdp.linear_model._descent import VOTE
from skdp.linear_model._supervised import Shape, SupervisedEstimator
from skdp.linear_model.low_rank import spec as trace_spec
from skdp.linear_model.low_rank.descent import Estimate
from skdp.linear_model.low_rank.fit import solve_trace, warnings_for_size
from skdp.linear_model.low_rank.plan import plan_trace
from skdp.linear_model.low_rank.records import Records
from skdp.linear_model.low_rank.spec import TraceSpec
from skdp.privacy import Plan
from skdp.privacy.precision import as_python


class PrivateRegressor(RegressorMixin, SupervisedEstimator):
    """Base of linear regressions of private records."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **SupervisedEstimator._parameter_constraints,
        "response_bound": [*ANY_BOUND, None],
        "fit_intercept": ["boolean"],
        "n_iter": [Interval(Integral, 1, 10_000, closed="both"), StrOptions({"auto"})],
    }

    response_bound: float | None
    _checked = staticmethod(supervised.checked_responses)

    @by_chunks
    def predict(self, X: Any) -> Any:
        """Predict responses.

        The result is a noise-free function of the rows passed in, which the guarantee does not
        cover: products with `coef_`, plus `intercept_`. Features are first clipped to
        `feature_bounds_`, as in the fit.

        Parameters
        ----------
        X : {array-like, sparse matrix, RowBlocks, dask collection} of shape (n_records, ...)
            Records, in a layout that `fit` takes.

        Returns
        -------
        ndarray, PartResults or dask array of shape (n_records,)
            Predictions. Those of a dask collection are computed on request, those of a `RowBlocks`
            one block or part at a time: iterate over them, or write them to a file by
            ``to_npy(path)``.
        """
        return results_of(self._rows_of(X), self._predicted)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Compute the coefficient of determination of predictions.

        A noise-free function of the rows passed in, which the guarantee does not cover.

        Parameters
        ----------
        X : {array-like, sparse matrix, RowBlocks, dask collection} of shape (n_records, ...)
            Records, in a layout that `fit` takes.
        y : array-like of shape (n_records,) or None, default=None
            Responses, for a dask collection in the same chunks; None for rows in parts, which
            contain theirs.
        sample_weight : array-like of shape (n_records,) or None, default=None
            Weights of the records.

        Returns
        -------
        float
            1 at best.
        """
        X, y = in_parts(X, y)
        predictions, responses = self.predict(X), self._targets(X, y).mapped(supervised.as_numbers)
        return supervised.r2_of(responses, predictions, sample_weight, self.n_jobs)

    def _public_bound(self) -> float:
        """Return the public bound on the size of a response; inf if there is none."""
        check_finite_bound("response_bound", self.response_bound, self._cost())
        return math.inf if self.response_bound is None else float(self.response_bound)

    def _opened(
        self, rows: Any, spec_of: Callable[..., Any], targets: Targets, people: People | None
    ) -> tuple[Any, Data]:
        spec = spec_of()
        source, view = self._view(spec, rows, targets.mapped(supervised.as_numbers_or_nan), people)
        sides = [source]
        if isinstance(source, RankOneMatrices):
            sides = [as_source(source.left), as_source(source.right)]
        checked = partial(checked_digest, n_jobs=self.n_jobs, is_seeded=self._is_seeded)
        digests = [*map(checked, sides), checked(targets.mapped(supervised.as_numbers), name="y")]
        return spec, (view, keyed_by_people(lambda: tuple(one() for one in digests), people))

    @abstractmethod
    def _view(
        self, spec: Any, rows: Any, responses: Targets, people: People | None
    ) -> tuple[Any, Any]:
        """Return the rows as a source, and the view of records that the fit reads."""

    @abstractmethod
    def _predicted(self, rows: Any) -> np.ndarray:
        """Predict the responses of checked rows."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.three_d_array = self._takes_matrices
        # scikit-learn's checks fit few records, too few for a good score.
        tags.regressor_tags.poor_score = bool(self.epsilon < 100)
        return tags


@with_parameters
class DPTraceRegressor(PrivateRegressor):  # numpydoc ignore=PR02
    r"""Linear regression on matrices, with coefficients of low rank and differential privacy.

    The model is :math:`y_i = \langle X_i, M \rangle + b` plus noise, for matrices :math:`X_i` of
    shape (d1, d2) and coefficients M of rank at most `rank`; :math:`\langle X, M \rangle` is the
    sum of the products of their entries. Rows of features count as matrices of one column; for
    these, :class:`DPLinearRegression` also takes public bounds. For matrix completion and
    multi-task regression, pass matrices of rank one: :class:`skdp.RankOneMatrices`. For cells of a
    table, with an intercept and a private covariance, M also has means of rows and of columns.

    Parameters
    ----------
    rank : int, default=1
        Largest rank of the coefficients, at most the smaller side of the matrices. The noise grows
        with rank * (d1 + d2 - rank), the number of free coefficients.
    matrix_shape : tuple of two ints or None, default=None
        Shape (d1, d2) of the matrices that are the rows of a 2-D X, in C order. ``None`` takes the
        shape of 3-D X or of `RankOneMatrices`; 2-D X then has matrices of shape (n_features, 1).
    epsilon : float, default=1.0
        Privacy budget of one fit, dimensionless, ``0 < epsilon <= inf``. Smaller is more private;
        ``inf`` switches the noise and the clipping off.
    delta : float, default=1e-6
        Probability with which the guarantee may fail, ``0 < delta < 1``, well below one over the
        number of units.
    privacy_unit : {"record", "response", "user"}, default="record"
        What is protected: one record, that is a matrix with its response; or one response, while
        the matrices are public (and matrices much longer than nearly all others are left out); or
        a user with all of its records, each user counting once. `fit` takes `users` then.
    adjacency : {"replace", "zero_out"}, default="replace"
        Neighboring datasets differ by exchanging one unit for any other, or by one that is null,
        which takes less noise and promises less: :doc:`/user_guide/what_is_protected`.
    response_bound : float or None, default=None
        Public bound on the size of a response, in the units of y; larger responses are clipped to
        it, which saves noise. ``None`` sets no bound: contributions of records are clipped anyway.
        From 1e-100 to 1e100, or ``inf`` with ``epsilon=inf``.
    covariance : {"private", "identity"}, pair of array-like, or ndarray, default="private"
        Covariances by which the matrices are whitened. ``"private"`` releases a scale, and the
        covariances of rows and columns. ``"identity"``: you promise uncorrelated entries with mean
        0 and variance 1. ``(row_cov, col_cov)``: public covariances of the entries of a column, of
        shape (d1, d1), and of a row, of shape (d2, d2); one may be None. An array of shape
        (d1 * d2, d1 * d2): the covariance of all entries, unless X is `RankOneMatrices`. All but
        the first need means of 0, and spend nothing: :doc:`/user_guide/low_rank_regression`.
    fit_intercept : bool, default=True
        Whether to fit an intercept. The responses are then centered by a private median.
    n_iter : int or "auto", default="auto"
        Number of gradient steps, 0 to 10,000. More steps split the budget further. ``"auto"`` is 10
        to 40, by public facts, and 100 with ``epsilon=inf``. 0 is for ``init="spectral"`` alone.
    clip_quantile : float or "auto", default="auto"
        Wanted fraction of gradients that are not clipped, .01 to .99. ``"auto"`` is .5 for most
        dense X, up to .9 for others, more if most responses are the same, and rises with budget.
    init : {"auto", "random", "spectral"}, default="auto"
        The start. ``"random"`` is 0, in random directions, and free; some fits end in a local
        minimum. ``"spectral"`` is the mean of the products of responses and matrices, truncated to
        `rank`, for .25 of the budget, or for all that is left with ``n_iter=0``. ``"auto"`` is 0 in
        the directions of that mean, for .01 to .1, or random if records are few or of rank one.
    ledger : PrivacyLedger or None, default=None
        Where the whole cost of a fit is charged before its first release. ``None`` keeps no ledger.
    n_jobs : int or None, default=None
        Threads that share the data; no number depends on it. ``None`` uses the threads of BLAS.
    random_state : int, RandomState or Generator instance or None, default=None
        ``None`` takes fresh noise in every fit, as the guarantee assumes. A secret int, such as
        ``secrets.randbits(128)``, repeats a fit in the same container on the same kind of machine;
        an int that can be guessed voids the guarantee.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (d1, d2)
        Coefficients, in the layout of X. Covered by the guarantee.
    coef_matrix_ : ndarray of shape (d1, d2)
        Coefficients as a matrix. Covered by the guarantee.
    intercept_ : float
        Intercept. Covered by the guarantee.
    singular_values_ : ndarray of shape (rank,), or up to (rank + 2,) for cells with means
        Descending singular values of `coef_matrix_`; 0 for noise. Covered by the guarantee.
    feature_bounds_ : ndarray of shape (2, n_features) or None
        Smallest and largest value of each feature: `fit` and `predict` clip features to them. None
        if features are not scaled one by one. Covered by the guarantee.
    start_ratios_ : ndarray of shape (min(d1, d2),) or None
        Singular values of a start from data, over the largest that noise and chance explain: as
        many as exceed 1 stand out. None without noise or such a start. Covered by the guarantee.
    left_components_ : ndarray of shape (d1, len(`singular_values_`))
        Left singular vectors of the coefficients. Covered by the guarantee.
    right_components_ : ndarray of shape (len(`singular_values_`), d2)
        Right singular vectors: ``coef_matrix_`` is ``left_components_ * singular_values_
        @ right_components_``. Covered by the guarantee.
    privacy_spent_ : PrivacySpent
        Record of every release. Public.
    n_features_in_ : int
        Number of features, d1 * d2. Public.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if X has names that are strings. Public.

    See Also
    --------
    DPLinearRegression : Rows of features, within public bounds or without.
    RankOneMatrices : Matrices of rank one that are never written out.

    Notes
    -----
    **Privacy.** Unit: `privacy_unit`; of `RankOneMatrices` a record, such as one observed cell.
    Adjacency: `adjacency`. Mechanism: Gaussian, accounted for exactly. Released: counts and
    histograms for medians and scales, second moments for `covariance`, the mean of dense matrices,
    sums of responses of rows and columns of cells, a start unless it is random, in each step the
    sum of the gradients, each clipped in norm, the number of those that were not, and a histogram
    of the curvature along the step; at last a histogram of residuals, and of weak fits products of
    predictions and responses. `plan` lists every release before a fit, `privacy_spent_` afterwards.
    Assumed public: the number of records, the shape, dtype and container of X, how it is divided
    into parts, feature names, and parameters; with ``privacy_unit="response"`` all of X, which then
    must be in memory. NaN and infinity are refused, which reveals that there are none. Not covered:
    what `predict` and `score` return, noise-free functions of the rows passed in; and the running
    time. No assumption about the data is made.

    After the check, and a digest if there is a seed, a fit reads X ``2 * n_iter + 4`` times: for a
    norm, a mean, covariances, residuals, twice a step; five times more if matrices are far from 0,
    and with ``privacy_unit="response"`` ``3 * n_iter + 8`` times; once more for a start. Rows of
    features are read once a step, and up to six times more for scales. Rows in parts are matrices
    of `matrix_shape`; sparse parts need several columns in that shape, or at most 64 features.

    The descent, a Riemannian gradient descent, and its start follow Zha (2024,
    :arxiv:`2403.15999`): see :doc:`/trace_regression`, also for proofs, time and memory.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import DPTraceRegressor
    >>> from skdp.datasets import make_trace_regression
    >>> X, y, M = make_trace_regression(8000, (8, 8), rank=2, random_state=0)
    >>> model = DPTraceRegressor(rank=2, epsilon=1.0).fit(X, y)
    >>> model.coef_.shape
    (8, 8)
    >>> bool(np.linalg.norm(model.coef_ - M) < 0.2 * np.linalg.norm(M))
    True
    """

    _takes_matrices = True
    _plan, _solve = staticmethod(plan_trace), staticmethod(solve_trace)
    _warnings = staticmethod(warnings_for_size)
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **PrivateRegressor._parameter_constraints,
        **trace_spec.TRACE_CONSTRAINTS,
        # With 0 steps, the coefficients are those of the released start.
        "n_iter": [Interval(Integral, 0, 10_000, closed="both"), StrOptions({"auto"})],
    }

    rank: int = 1
    _: KW_ONLY
    matrix_shape: tuple[int, int] | None = None
    epsilon: float = 1.0
    delta: float = 1e-6
    privacy_unit: str = "record"
    adjacency: str = "replace"
    response_bound: float | None = None
    covariance: Any = "private"
    fit_intercept: bool = True
    n_iter: int | str = "auto"
    clip_quantile: float | str = "auto"
    init: str = "auto"
    ledger: Any = None
    n_jobs: int | None = None
    random_state: Any = None

    @property
    def coef_(self) -> np.ndarray:  # type: ignore[override]
        """Coefficient array in the layout of a row of X."""
        return self.coef_matrix_.reshape(self._coef_shape)

    @property
    def coef_matrix_(self) -> np.ndarray:
        """Coefficient array as a matrix."""
        with np.errstate(under="ignore"):
            return (self.left_components_ * self.singular_values_) @ self.right_components_

    def _view(
        self, spec: TraceSpec, rows: Any, responses: Targets, people: People | None
    ) -> tuple[Any, Records]:
        source = trace_spec.source_of(rows, spec.factors)
        design = Design(source, spec.matrix_shape, self.n_jobs, people=people)
        return source, Records(design, responses, float(spec.fit_intercept))

    def _spec_of(self, rows: Any, size: tuple[int, int], shape: Shape, *, names: Any) -> TraceSpec:
        check_not_pure(type(self).__name__, self._cost())
        asked, of_people = as_python(self.matrix_shape), self.privacy_unit == "user"
        facts = trace_spec.facts_of(rows, size, asked, shape, of_people=of_people)
        if isinstance(rows, RowParts) and self.privacy_unit == "response":
            raise ValueError(
                "X is in parts, but privacy_unit='response' needs public matrices in memory: all "
                "of them together decide how much weight each has. Pass an array, or "
                "privacy_unit='record'."
            )
        # Rows in parts have factors only if they are sparse, and too long to be made dense.
        if isinstance(rows, RowParts) and facts["factors"] is not None:
            raise ValueError(
                "X is in sparse parts of more than 64 features, which "
                f"{type(self).__name__} does not take: pass dense parts, or one sparse matrix."
            )
        trace_spec.check_rank(self.rank, facts["matrix_shape"])
        facts["unit"] = supervised.UNITS[self.privacy_unit](self.adjacency)
        facts["covariance"] = trace_spec.checked_covariance(self.covariance, facts)
        if self.n_iter == 0 and self.init != "spectral":
            raise ValueError("n_iter=0 is for init='spectral' alone: other starts are 0.")
        spec = self._asked(TraceSpec, response_bound=self._public_bound(), **facts)
        return replace(spec, n_iter=spec.usual_steps) if self.n_iter == "auto" else spec

    def _n_passes(self, plan: Plan) -> int | None:
        most = super()._n_passes(plan)
        # A step releases its gradient and its vote on the clip level in one pass. Standardizing may
        # take one more pass.
        votes = {line.name for line in plan.releases if line.name.startswith(VOTE)}
        return None if most is None else most - len(votes) + 1

    def _set_attributes(self, result: Estimate, spec: TraceSpec) -> tuple[str, ...]:
        point, dtype = result.point, spec.dtype
        self.left_components_ = in_dtype(point.left, dtype)
        self.singular_values_ = in_dtype(point.values, dtype)
        self.right_components_ = in_dtype(point.right.T, dtype)
        self._shape, self._coef_shape = spec.matrix_shape, spec.coef_shape
        self.intercept_ = float(result.offset)
        self.feature_bounds_ = in_dtype(result.bounds, dtype)
        self.start_ratios_ = in_dtype(result.start_ratios, dtype)
        return result.warnings

    def _predicted(self, rows: Any) -> np.ndarray:
        if rows.shape[0] == 0:
            return np.zeros(0, rows.dtype)
        if self.feature_bounds_ is not None:
            design = Design(trace_spec.source_of(rows, None), (self.n_features_in_, 1), self.n_jobs)
            products = design.clipped_inner(self.coef_.ravel(), self.feature_bounds_)
        elif isinstance(rows, RankOneMatrices):
            factors = self.left_components_, self.singular_values_, self.right_components_.T
            products = Design(rows, rows.matrix_shape, self.n_jobs).inner(FixedRank(*factors))
        else:
            return np.asarray(rows @ self.coef_.ravel() + self.intercept_)
        return np.asarray((products + self.intercept_).astype(rows.dtype))
