"""Low-rank trace regression of private records."""

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import _fit_context

from skdp._estimator import in_dtype
from skdp.data.matrices import Design
from skdp.linalg.matrices import FixedRank
from skdp.linear_model._regressor import PrivateRegressor
from skdp.linear_model._trace.descent import Estimate
from skdp.linear_model._trace.problem import (
    DELTA_TAIL,
    TRACE_CONSTRAINTS,
    TraceProblem,
    check_rank,
    checked_covariance,
)


class DPTraceRegressor(PrivateRegressor):
    r"""Linear regression on matrices, with coefficients of low rank and differential privacy.

    The model is :math:`y_i = \langle X_i, M \rangle + b` plus noise, for matrices :math:`X_i` of
    shape (d1, d2) and coefficients M of rank at most `rank`; :math:`\langle X, M \rangle` is the
    sum of the products of their entries. Rows of features are taken for matrices of one column;
    :class:`DPLinearRegression` is for them, and has bounds. Matrix completion and multi-task
    regression are the same with matrices of rank one, see :class:`skdp.RankOneMatrices`.

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
    privacy_unit : {"record", "response"}, default="record"
        What is protected: one record, that is a matrix with its response, or one response, the
        matrices being public. Public matrices much longer than nearly all others then take no part.
    adjacency : {"replace", "zero_out"}, default="replace"
        Neighboring datasets differ by exchanging one unit for any other, or by one that is null,
        which takes less noise and promises less: :doc:`/user_guide/what_is_protected`.
    response_bound : float or None, default=None
        Public bound on the size of a response, in the units of y; larger responses are clipped to
        it, which saves noise. ``None`` bounds nothing: what responses contribute is clipped anyway.
        From 1e-100 to 1e100, or ``inf`` with ``epsilon=inf``.
    covariance : {"private", "identity"} or pair of array-like, default="private"
        Covariances by which the matrices are whitened. ``"private"`` releases the scale of the
        entries, and covariances of rows and columns. ``"identity"``: you promise uncorrelated
        entries with mean 0 and variance 1. ``(row_cov, col_cov)``: public covariances of the
        entries of a column, of shape (d1, d1), and of a row, of shape (d2, d2), one of which may be
        None; the means of the matrices must be 0. The last two spend nothing. When to pass which:
        :doc:`/user_guide/low_rank_regression`.
    fit_intercept : bool, default=True
        Whether to fit an intercept. The responses are then centered by a private median.
    n_iter : int, default=10
        Number of gradient steps, 1 to 10,000. More steps split the budget further.
    clip_quantile : float or "auto", default="auto"
        Wanted fraction of gradients that are not clipped, .01 to .99. ``"auto"`` is .5 for most
        dense X, up to .9 for others, and more if most responses are the same.
    init : {"random", "spectral"}, default="random"
        The start. ``"random"`` starts from 0 and spends nothing.
        ``"spectral"`` spends .25 of the budget on a start from data, in vain unless a private test
        finds a gap between singular values; a tenth of delta is for the failure of that test.
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
    coef_ : ndarray of shape (n_features,) or (d1, d2)
        Coefficients, in the layout of X. Covered by the guarantee.
    coef_matrix_ : ndarray of shape (d1, d2)
        Coefficients as a matrix. Covered by the guarantee.
    intercept_ : float
        Intercept. Covered by the guarantee.
    singular_values_ : ndarray of shape (rank,)
        Descending singular values of `coef_matrix_`; 0 for noise. Covered by the guarantee.
    feature_bounds_ : ndarray of shape (2, n_features) or None
        Smallest and largest value of each feature, to which `fit` and `predict` clip others. None
        where features are not scaled one by one. Covered by the guarantee.
    left_components_ : ndarray of shape (d1, rank)
        Left singular vectors of the coefficients. Covered by the guarantee.
    right_components_ : ndarray of shape (rank, d2)
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
    **Privacy.** Unit: `privacy_unit`; of `RankOneMatrices`, as of other matrices, a record, such as
    one observed cell. Adjacency: `adjacency`. Mechanism: Gaussian, accounted for exactly in
    Gaussian differential privacy. Released: counts and histograms for medians and scales, second
    moments for `covariance`, a start if asked for, and in each step the sum of the gradients, each
    clipped in norm, and the number of those that were not. `plan` lists every release before a fit,
    `privacy_spent_` afterwards. Assumed public: the number of records, the shape, dtype and
    container of X, how it is divided into parts, feature names, and parameters; with
    ``privacy_unit="response"`` all of X, which then must be in memory. NaN and infinity are
    refused, which tells that there are none. Not covered: what `predict` and `score` return,
    noise-free functions of the rows passed in; and the running time. No assumption about the data
    is made.

    After the check, and a digest if there is a seed, a fit reads X ``n_iter + 2`` times: for a
    scale, for both covariances, and in every step. With ``privacy_unit="response"`` it reads X
    ``2 * n_iter + 4`` times. A
    spectral start reads X once more, or twice if its test finds a gap. To scale features one by one
    takes two readings instead of one, and with records as the unit up to two more for narrow ones.
    Rows in parts, as `RowBlocks.from_partitions` makes them, are matrices of `matrix_shape`; sparse
    ones are taken up to 64 features, or with a `matrix_shape` of more than one column.

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

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **PrivateRegressor._parameter_constraints,
        **TRACE_CONSTRAINTS,
    }

    def __init__(
        self,
        rank: int = 1,
        *,
        matrix_shape: tuple[int, int] | None = None,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        privacy_unit: str = "record",
        adjacency: str = "replace",
        response_bound: float | None = None,
        covariance: Any = "private",
        fit_intercept: bool = True,
        n_iter: int = 10,
        clip_quantile: float | str = "auto",
        init: str = "random",
        ledger: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.rank = rank
        self.matrix_shape = matrix_shape
        self.epsilon = epsilon
        self.delta = delta
        self.privacy_unit = privacy_unit
        self.adjacency = adjacency
        self.response_bound = response_bound
        self.covariance = covariance
        self.fit_intercept = fit_intercept
        self.n_iter = n_iter
        self.clip_quantile = clip_quantile
        self.init = init
        self.ledger = ledger
        self.n_jobs = n_jobs
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the coefficients, spending the whole budget.

        Parameters
        ----------
        X : {array-like, sparse matrix, RowBlocks, dask collection} of shape \
                (n_records, n_features), array-like of \
                shape (n_records, d1, d2), or RankOneMatrices
            Matrices of the records; a `RowBlocks` in parts, with their responses.
        y : array-like of shape (n_records,) or None, default=None
            Responses, for a dask collection in the same chunks; None for rows in parts, which bring
            theirs along.

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

    @property
    def coef_(self) -> np.ndarray:  # type: ignore[override]
        """Coefficient array in the layout of X."""
        return self.coef_matrix_.reshape(self._coef_shape)

    @property
    def coef_matrix_(self) -> np.ndarray:
        """Coefficient array as a matrix."""
        with np.errstate(under="ignore"):
            return (self.left_components_ * self.singular_values_) @ self.right_components_

    def _more_facts(self, facts: dict[str, Any]) -> dict[str, Any]:
        shape = facts["matrix_shape"]
        check_rank(
            self.rank,
            shape,
            " Cells of a table, given by their rows and columns, are "
            "RankOneMatrices.from_indices(rows, columns, shape).",
        )
        return {"covariance": checked_covariance(self.covariance, shape)}

    def _reserved_part(self) -> float:
        return DELTA_TAIL if self.init == "spectral" else 0.0

    def _set_attributes(self, result: Estimate, problem: TraceProblem) -> tuple[str, ...]:
        point, dtype = result.point, problem.dtype
        self.left_components_ = in_dtype(point.left, dtype)
        self.singular_values_ = in_dtype(point.values, dtype)
        self.right_components_ = in_dtype(point.right.T, dtype)
        self._shape, self._coef_shape = problem.matrix_shape, problem.coef_shape
        return super()._set_attributes(result, problem)

    def _products(self, rows: Any) -> np.ndarray:
        if self.feature_bounds_ is not None:
            return super()._products(rows)
        factors = self.left_components_, self.singular_values_, self.right_components_.T
        return Design(rows, rows.matrix_shape, self.n_jobs).inner(FixedRank(*factors))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags
