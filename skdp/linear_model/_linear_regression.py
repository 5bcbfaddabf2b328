"""Linear regression on private rows of features."""

import math
from typing import Any, ClassVar, Self

from sklearn.base import _fit_context
from sklearn.utils._param_validation import StrOptions

from skdp._estimator import in_dtype
from skdp._scales import checked_interval
from skdp.data.matrices import RankOneMatrices
from skdp.linear_model._regressor import PrivateRegressor
from skdp.linear_model._trace.descent import Estimate
from skdp.linear_model._trace.problem import TraceProblem

# Steps of a weak and of a strong signal, and from where it is strong: records times mu beside the
# root of the number of features. benchmarks/trace_regression/scales.md, "Steps".
_STEPS, _STRONG = (5, 10), 130.0


class DPLinearRegression(PrivateRegressor):
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
    n_iter : int or "auto", default="auto"
        Number of gradient steps, 1 to 10,000. More steps split the budget further. ``"auto"`` is 10
        where the records and the budget are enough for so many, and else 5.
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
    its dtype, whether it is dense or sparse, how it is divided into parts, feature names, and
    parameters. NaN and infinity are refused, which tells that there are none. Not covered: what
    `predict` and `score` return, noise-free functions of the rows passed in; and the running time.
    No assumption about the data is made.

    Sparse rows of more than 64 features are not centered, and scaled by their variances alone:
    `bounds` is refused with them, and so are sparse parts. Readings of X: two for scales, one with
    `bounds`; up to two more for narrow features; one for the covariance; and one a step. Rows in
    parts, as `RowBlocks.from_partitions` makes them, are checked in one reading more.
    Mathematics and proofs: :doc:`/trace_regression` and :doc:`/scaling`.

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
        **PrivateRegressor._parameter_constraints,
        # `checked_interval` checks it.
        "bounds": "no_validation",
        "n_iter": [*PrivateRegressor._parameter_constraints["n_iter"], StrOptions({"auto"})],
    }

    #: The only unit, as other estimators name it.
    privacy_unit = "record"

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        adjacency: str = "replace",
        bounds: Any = None,
        response_bound: float | None = None,
        fit_intercept: bool = True,
        n_iter: int | str = "auto",
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
    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the coefficients, spending the whole budget.

        Parameters
        ----------
        X : {array-like, sparse matrix, RowBlocks, dask collection} of shape (n_samples, n_features)
            Rows of the records; a `RowBlocks` in parts, with their responses.
        y : array-like of shape (n_samples,) or None, default=None
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

    def _read(self, X: Any) -> tuple[Any, None]:
        """Refuse matrices, and name what takes them."""
        rows, shape = super()._read(X)
        if shape is not None or isinstance(rows, RankOneMatrices):
            raise ValueError(
                f"X has matrices, but {type(self).__name__} takes rows of features: use "
                "DPTraceRegressor."
            )
        return rows, None

    def _more_facts(self, facts: dict[str, Any]) -> dict[str, Any]:
        n_features = facts["matrix_shape"][0]
        strength = facts["n_units"] * self._cost().mu / math.sqrt(n_features)
        more = {} if self.n_iter != "auto" else {"n_iter": _STEPS[strength > _STRONG]}
        if self.bounds is None:
            return more
        interval = checked_interval(self.bounds, n_features)
        if not facts["is_dense"]:
            raise ValueError(
                "bounds are for dense rows, or sparse ones of at most 64 features: others are not "
                "centered. Pass bounds=None, or a dense X."
            )
        return {**more, "interval": interval}

    def _set_attributes(self, result: Estimate, problem: TraceProblem) -> tuple[str, ...]:
        self.coef_ = in_dtype(result.point.matrix.ravel(), problem.dtype)
        return super()._set_attributes(result, problem)
