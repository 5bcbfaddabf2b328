"""Private linear regression on rows of features."""

from dataclasses import KW_ONLY
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import issparse
from sklearn.utils._param_validation import StrOptions

from skdp._estimator import check_not_pure, in_dtype
from skdp._prior import FEATURES, PriorParameter, check_prior, linear_model
from skdp._validation import with_parameters
from skdp.data.containers import float_dtype
from skdp.data.matrices import RankOneMatrices
from skdp.data.parts import RowParts, Targets
from skdp.data.people import People, depth_of, depth_of_people
from skdp.data.reduce import rounding_of_depth
from skdp.data.sources import as_source, holds_sparse
from skdp.linalg.norms import with_data
from skdp.linear_model._supervised import UNITS, Shape
from skdp.linear_model._trace_regressor import PrivateRegressor
from skdp.linear_model.least_squares.fit import Estimate, solve_least_squares, warnings_for_size
from skdp.linear_model.least_squares.plan import LeastSquaresSpec, plan_least_squares
from skdp.linear_model.least_squares.records import Records
from skdp.linear_model.low_rank.spec import LONGEST_WRITTEN_OUT
from skdp.preprocessing.intervals import checked_interval
from skdp.privacy import Plan


@with_parameters
class DPLinearRegression(PrivateRegressor):  # numpydoc ignore=PR02
    r"""Linear regression on rows of features with differential privacy.

    Features may be in any units. The fit releases their centers and scales, then one moment of rows
    and responses, which whitens the rows and gives the start of the gradient steps. With too few
    records for any coefficient, all of them are 0.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget of one fit, dimensionless, ``0 < epsilon <= inf``. Smaller is more private;
        ``inf`` switches the noise and the clipping off.
    delta : float, default=1e-6
        Probability with which the guarantee may fail, ``0 < delta < 1``, well below one over the
        number of units.
    privacy_unit : {"record", "user"}, default="record"
        What is protected: one record, that is a row with its response; or a user with all of its
        records, each user counting once. `fit` takes `users` then.
    adjacency : {"replace", "zero_out"}, default="replace"
        Neighboring datasets differ by exchanging one unit for any other, or by one that is null,
        which takes less noise and promises less: :doc:`/user_guide/what_is_protected`.
    bounds : dict, list of pairs, pair of floats or of arrays (n_features,), or None, default=None
        Public ends ``(low, high)`` of every feature, in its units, between which features are
        clipped for their means and variances: by the names of a data frame, as ``{"age": (18,
        90)}``; a list of such tuples, in the order of the features; or the tuple of all lower and
        all upper ends. They must be known without looking at X: its smallest and largest entries
        are **not** public. They may be generous: a bound limits what one record can do, and finding
        the spread inside costs little. Sizes are at most 1e100, and the ends at least 1e-100 apart.
        ``None`` finds intervals privately, for up to a tenth of the budget.
    response_bound : float or None, default=None
        Public bound on the size of a response, in the units of y; larger responses are clipped to
        it, which saves noise. ``None`` sets no bound: contributions of records are clipped anyway.
        From 1e-100 to 1e100, or ``inf`` with ``epsilon=inf``.
    fit_intercept : bool, default=True
        Whether to fit an intercept. The responses are then centered by a private median. Without
        it, noise moves all predictions together if columns lie far from 0: the fit warns.
    prior : estimator, tuple or None, default=None
        A published linear model of the same features and responses: a fitted ``LinearRegression``,
        ``Ridge`` or the like, perhaps behind scalers in a pipeline or in a ``FrozenEstimator``; a
        model of skdp; or ``(coef, intercept)``. Public: it must not come from these records, unless
        their privacy cost counts both fits. The fit releases how well the prior predicts, and
        learns the rest: :ref:`prior`. Kept as ``(coef, intercept, names)``. With ``epsilon=inf`` it
        is not used.
    n_iter : int or "auto", default="auto"
        Number of gradient steps, 1 to 10,000. More steps split the budget further. ``"auto"`` is 5
        if the budget is small for so many records and features, and else from 8 to 12; with a large
        budget it is 48 if features are nearly the same, and 24 to 100 for more than 4,096
        coefficients. With ``epsilon=inf`` it is 2, as the start is least squares then, or 100 for
        more than 4,096 coefficients.
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
    coef_ : ndarray of shape (n_features,)
        Coefficients. Covered by the guarantee.
    coef_noise_std_ : ndarray of shape (n_features,)
        Standard deviations of the noise in `coef_`, around the coefficients of the same fit without
        noise in its steps. Only there if they are known: :ref:`coefficient-noise`. Covered by the
        guarantee.
    intercept_ : float
        Intercept. Covered by the guarantee.
    prior_weight_ : float
        Share of the prior in the model, from 0 to 1; 0 without a prior. Covered by the guarantee.
    feature_bounds_ : ndarray of shape (2, n_features) or None
        Smallest and largest value of each feature, to which `fit` and `predict` clip. If the budget
        is small, the prior predicts from unclipped rows. None with ``epsilon=inf``, or if no
        coefficients were found. Covered by the guarantee.
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
    **Privacy.** Unit: `privacy_unit`. Adjacency: `adjacency`. Mechanism: Gaussian, accounted for
    exactly in Gaussian differential privacy. Released: counts for the median of the responses and
    for their sizes; with `prior` how far responses follow its predictions; without `bounds` counts
    of the entries of each feature by sign and power of two and, of features that may be narrow
    beside their distance from 0, by place; the mean of each feature and of its square; a second
    moment of rows and responses together; in each step the sum of the gradients, each clipped in
    norm, and in some of them counts of the gradients by size; and what the predictions explain,
    with their mean error. `plan` lists every release before a fit, `privacy_spent_` afterwards.
    Assumed public: the shape of X, its dtype, whether it is dense or sparse, how it is divided into
    parts, feature names, and parameters. NaN and infinity are refused, which reveals that there are
    none. Not covered: what `predict` and `score` return, noise-free functions of the rows passed
    in; and the running time. No assumption about the data is made.

    Sparse rows of more than 64 features are not centered, and refuse `bounds`. Rows of more than
    4,096 features are not whitened. Readings of X: two for scales, or with `bounds` two or three,
    and one without noise; up to five more for narrow features; one for the moment; one for the
    lengths of whitened rows, of which three numbers each are stored; one a step; and one for the
    last release. A fit to rows in memory reads them once more, and keeps them standardized in
    float64 until it ends, if two such copies take at most 1 GiB. All other rows are standardized in
    every pass. Rows in parts, as `RowBlocks.from_partitions` makes them, are checked and then
    measured in every step. Mathematics and proofs: :doc:`/least_squares` and :doc:`/scaling`.

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

    _plan, _solve = staticmethod(plan_least_squares), staticmethod(solve_least_squares)
    _warnings = staticmethod(warnings_for_size)
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **PrivateRegressor._parameter_constraints,
        # `checked_interval` checks the bounds.
        "bounds": "no_validation",
        # `check_prior` checks the prior.
        "prior": "no_validation",
        "privacy_unit": [StrOptions({"record", "user"})],
    }

    _: KW_ONLY
    epsilon: float = 1.0
    delta: float = 1e-6
    privacy_unit: str = "record"
    adjacency: str = "replace"
    bounds: Any = None
    response_bound: float | None = None
    fit_intercept: bool = True
    prior: Any = PriorParameter(linear_model)
    n_iter: int | str = "auto"
    ledger: Any = None
    n_jobs: int | None = None
    random_state: Any = None

    def _read(self, X: Any) -> tuple[Any, None]:
        """Refuse matrices; the error names the estimator for matrices."""
        rows, shape = super()._read(X)
        if shape is not None or isinstance(rows, RankOneMatrices):
            raise ValueError(
                f"X has matrices, but {type(self).__name__} takes rows of features: use "
                "DPTraceRegressor."
            )
        return rows, None

    def _view(
        self, spec: LeastSquaresSpec, rows: Any, responses: Targets, people: People | None
    ) -> tuple[Any, Records]:
        source = as_source(rows)
        return source, Records(source, self.n_jobs, people=people, responses=responses)

    def _spec_of(
        self, rows: Any, size: tuple[int, int], shape: Shape, *, names: Any
    ) -> LeastSquaresSpec:
        check_not_pure(type(self).__name__, self._cost())
        interval = checked_interval(self.bounds, size[1], names)
        stays_sparse = holds_sparse(rows) and size[1] > LONGEST_WRITTEN_OUT
        if stays_sparse and interval is not None:
            raise ValueError(
                "bounds are for dense rows, or sparse rows of at most 64 features: longer sparse "
                "rows are not centered. Pass bounds=None, or a dense X."
            )
        prior = None
        if self.prior is not None:
            expected = "a linear model or a tuple (coef, intercept)"
            coef, intercept = check_prior(self.prior, expected, [size[1:], ()], {FEATURES: names})
            prior = coef, float(intercept) * self.fit_intercept
        # The fit sums over X, and over rows with one more column, which may be dense though X is
        # sparse: `depth` bounds the chains of additions in both.
        is_sparse, width = holds_sparse(rows), size[1] + 1
        are_people = self.privacy_unit == "user"
        depth = depth_of(rows, size, is_sparse=is_sparse, are_people=are_people)
        if are_people:
            depth = max(depth, depth_of_people(width, is_sparse=is_sparse))
        if are_people or not isinstance(rows, RowParts):
            wider = size[0], width
            depth = max(depth, depth_of(rows, wider, is_sparse=stays_sparse, are_people=are_people))
        return self._asked(
            LeastSquaresSpec,
            unit=UNITS[self.privacy_unit](self.adjacency),
            n_units=size[0],
            n_features=size[1],
            dtype=float_dtype(rows),
            rounding=rounding_of_depth(depth, size[0]),
            depth=depth,
            is_sparse=stays_sparse,
            interval=interval,
            names=names,
            prior=prior,
            response_bound=self._public_bound(),
        )

    def _predicted(self, rows: Any) -> np.ndarray:
        """Predict the responses of checked rows; features are clipped as in the fit."""
        coef, of_prior = self.coef_, 0.0
        if self._whole is not None:
            coef, of_prior = coef - self._whole, np.clip(rows @ self._whole, *self._ends)
        if self.feature_bounds_ is None:
            return np.asarray(rows @ coef + of_prior + self.intercept_)
        low, high = self.feature_bounds_
        if issparse(rows) and rows.shape[1] > LONGEST_WRITTEN_OUT:
            clipped = np.clip(rows.data, low[rows.indices], high[rows.indices])
            products = with_data(rows, clipped) @ coef
        else:
            products = np.clip(rows.toarray() if issparse(rows) else rows, low, high) @ coef
        return np.asarray((products + of_prior + self.intercept_).astype(rows.dtype))

    def _n_passes(self, plan: Plan) -> int | None:
        most = super()._n_passes(plan)
        # One more pass: the fit copies rows in memory, and measures them after whitening.
        return None if most is None else most + 1

    def _set_attributes(self, result: Estimate, spec: LeastSquaresSpec) -> tuple[str, ...]:
        prior, dtype = result.prior, spec.dtype
        # Part of a prior may predict from unclipped rows, while `coef_` multiplies clipped rows.
        self._whole = in_dtype(prior.whole, dtype)
        self.prior_weight_, self._ends = prior.weight, prior.ends
        self.coef_ = in_dtype(result.coef + prior.coef, dtype)
        self.intercept_ = float(result.intercept)
        self.feature_bounds_ = in_dtype(result.bounds, dtype)
        self._noise_stds = in_dtype(result.noise_stds, dtype)
        return result.warnings

    @property
    def coef_noise_std_(self) -> np.ndarray:
        """Standard deviation of the noise that the steps add to each coefficient, where known."""
        stds: np.ndarray | None = getattr(self, "_noise_stds", None)
        if stds is None:
            raise AttributeError(
                "coef_noise_std_ is unknown: not fitted, or noise hides a direction of the rows or "
                "most of the signal. Pass a larger epsilon, or leave out constant or equal columns."
            )
        return stds
