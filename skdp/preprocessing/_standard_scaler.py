"""Standardization of columns by private centers and scales."""

from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin, _fit_context
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from skdp._collections import by_chunks
from skdp._estimator import N_JOBS, Data, PrivateEstimator, check_not_pure
from skdp._reading import (
    check_features,
    check_like,
    check_rows,
    check_rows_of,
    check_rows_or_blocks,
    check_width,
)
from skdp._scales.bounds import checked_interval
from skdp._scales.fit import release_scales
from skdp._scales.plan import ScaleProblem
from skdp._scales.shrinkage import Scales
from skdp.data.parts import RowBlocks, transformed_blocks
from skdp.data.rows import Rows, checked_digest
from skdp.data.sources import as_source, holds_sparse, rounding_of
from skdp.preprocessing._scaler.plan import ScaledRow, plan_scaler
from skdp.preprocessing._scaler.transform import Scaling
from skdp.preprocessing._scaler.warnings import warnings_for_plan, warnings_for_scales


class DPStandardScaler(OneToOneFeatureMixin, TransformerMixin, PrivateEstimator):
    """Standardize columns by centers and scales that are differentially private.

    Publishes a mean and a variance of every column under (epsilon, delta)-differential privacy for
    rows, and scales rows by these. With ``epsilon=inf``, ``bounds=None`` and ``clip=None`` it
    computes what :class:`sklearn.preprocessing.StandardScaler` does.

    Parameters
    ----------
    with_mean : bool, default=True
        Whether `transform` subtracts the means. Sparse rows need ``False``.
    epsilon : float, default=1.0
        Privacy budget of one fit, dimensionless, ``0 < epsilon <= inf``. Smaller is more private;
        ``inf`` switches the noise off.
    delta : float, default=1e-6
        Probability with which the guarantee may fail, ``0 < delta < 1``, well below one over the
        number of units.
    adjacency : {"replace", "zero_out"}, default="replace"
        Neighboring datasets differ by exchanging one unit for any other, or by one that is null,
        which takes less noise and promises less: :doc:`/user_guide/what_is_protected`.
    bounds : pair of floats or arrays of shape (n_features,), or None, default=None
        Public ends ``(low, high)`` of every column, in its units, between which entries are clipped
        for the fit. They must be known without looking at X: its smallest and largest entries are
        **not** public. Sizes are at most 1e100, and the ends at least 1e-100 apart. ``None`` finds
        intervals privately, for three eighths of the budget or, if a column is narrow beside its
        distance from 0, for half.
    clip : float or None, default=5.0
        Size that scaled entries are clipped to in `transform`, in standard deviations from the
        mean. Without centering the reach is extended to 0, which stays 0. ``None`` does not clip.
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
    mean_ : ndarray of shape (n_features,)
        Means of the columns, with their entries clipped. Covered by the guarantee.
    var_ : ndarray of shape (n_features,)
        Variances of the columns. Covered by the guarantee.
    scale_ : ndarray of shape (n_features,)
        What `transform` divides by: square roots of `var_`, or 1 for a constant column if there is
        no noise. Covered by the guarantee.
    n_samples_seen_ : int
        Number of rows. Public.
    privacy_spent_ : PrivacySpent
        Record of every release. Public.
    n_features_in_ : int
        Number of features. Public.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if X has names that are strings. Public.

    See Also
    --------
    sklearn.preprocessing.StandardScaler : The same without privacy.
    DPLogisticRegression, DPPCA : What may follow.

    Notes
    -----
    **Privacy.** Unit: one row. Adjacency: `adjacency`. Mechanism: Gaussian, accounted for exactly
    in Gaussian differential privacy. Entries are clipped to `bounds`, or to intervals that are
    found privately. Released: without `bounds` counts of the entries of each column by sign and
    power of two and, if these show columns that may be narrow beside their distance from 0, counts
    by place in the intervals of such columns; then the mean of each column and of its square.
    `plan` lists every release before a fit, `privacy_spent_` afterwards. Assumed public: the shape
    of X, its dtype, whether it is dense or sparse, feature names, and parameters. NaN and infinity
    are refused, which tells that there are none. Not covered: what `transform` and `fit_transform`
    return, a noise-free function of the rows; and the running time.

    Means and variances are drawn to those of all columns as far as noise hides the differences.
    Mathematics and proofs: :doc:`/scaling`. There is no ``partial_fit``. Readings of rows: one with
    `bounds`, else two or three, and one that checks them.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skdp import DPStandardScaler
    >>> X = load_digits().data
    >>> scaler = DPStandardScaler(bounds=(0, 16), epsilon=4.0).fit(X)
    >>> scaler.transform(X).shape
    (1797, 64)
    >>> round(scaler.privacy_spent_.epsilon_at(1e-6), 3)
    4.0
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **PrivateEstimator._parameter_constraints,
        **N_JOBS,
        "with_mean": ["boolean"],
        # `checked_interval` checks it.
        "bounds": "no_validation",
        "clip": [Interval(Real, 0, None, closed="neither"), None],
    }

    #: The only unit, as other estimators name it.
    privacy_unit: ClassVar[str] = "row"

    def __init__(
        self,
        *,
        with_mean: bool = True,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        adjacency: str = "replace",
        bounds: Any = None,
        clip: float | None = 5.0,
        ledger: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.with_mean = with_mean
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.bounds = bounds
        self.clip = clip
        self.ledger = ledger
        self.n_jobs = n_jobs
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the means and variances, spending the whole budget.

        Parameters
        ----------
        X : {array-like, sparse matrix, RowBlocks, dask collection} of shape (n_samples, n_features)
            Rows to protect; sparse ones with ``with_mean=False`` only.
        y : None
            Ignored.

        Returns
        -------
        DPStandardScaler
            The fitted estimator.
        """
        self._fit(X)
        return self

    @by_chunks
    def transform(self, X: Any) -> Any:
        """Center and scale rows, and clip them. Not covered by the guarantee.

        Parameters
        ----------
        X : {array-like, sparse matrix, RowBlocks, dask collection} of shape (n_samples, n_features)
            Rows; sparse ones with ``with_mean=False`` only.

        Returns
        -------
        ndarray, CSR matrix, RowBlocks or dask array of shape (n_samples, n_features)
            The rows in the units of the scales, in the kind of container that was given.
        """
        check_is_fitted(self)
        self._check_sparse(holds_sparse(X))
        if isinstance(X, RowBlocks):
            check_features(X, self)
            return transformed_blocks(X, self._scaling.apply)
        return self._scaling.apply(check_rows_of(X, self))

    @by_chunks
    def inverse_transform(self, X: Any) -> Any:
        """Take rows back to the units of the data; what was clipped stays clipped.

        Parameters
        ----------
        X : {array-like, sparse matrix, RowBlocks, dask collection} of shape (n_samples, n_features)
            Scaled rows.

        Returns
        -------
        ndarray, CSR matrix, RowBlocks or dask array of shape (n_samples, n_features)
            The rows in the units of the data, in the kind of container that was given.
        """
        check_is_fitted(self)
        self._check_sparse(holds_sparse(X))
        is_blocks = isinstance(X, RowBlocks)
        checked = X if is_blocks else check_rows(X, type(self).__name__)
        check_width(checked, self.n_features_in_)
        undo = self._scaling.undo
        return transformed_blocks(X, undo) if is_blocks else undo(checked)

    def _problem(self, X: Any, y: Any) -> tuple[ScaleProblem, Data]:
        checked = check_rows_or_blocks(X, type(self).__name__)
        problem = self._problem_of(*checked.shape, like=checked)
        # Takes X as given, because the checked X has lost the names of its features.
        check_features(X, self, reset=True)
        source = as_source(checked)
        digest = checked_digest(source, self.n_jobs, is_keyed=self._is_keyed)
        return problem, (Rows(source, self.n_jobs), digest)

    def _problem_like(self, n_samples: int, n_features: int, like: Any) -> ScaleProblem:
        check_like(like, n_samples, n_features)
        return self._problem_of(n_samples, n_features, like=like)

    def _problem_of(self, n_rows: int, n_features: int, *, like: Any) -> ScaleProblem:
        """Refuse parameters that contradict each other or the public facts."""
        is_sparse = holds_sparse(like)
        self._check_sparse(is_sparse)
        check_not_pure(type(self).__name__, self._cost())
        interval = None if self.bounds is None else checked_interval(self.bounds, n_features)
        return self._asked(
            ScaleProblem,
            unit=ScaledRow(self.adjacency),
            n_units=n_rows,
            n_features=n_features,
            rounding=rounding_of(like, (n_rows, n_features), is_sparse=is_sparse),
            interval=interval,
        )

    def _check_sparse(self, is_sparse: bool) -> None:
        if is_sparse and self.with_mean:
            raise ValueError(
                "A sparse X cannot be centered without becoming dense: pass with_mean=False, or a "
                "dense X."
            )

    _plan, _warnings = staticmethod(plan_scaler), staticmethod(warnings_for_plan)

    def _solve(
        self, problem: ScaleProblem, plan: Any, view: Any, budget: Any, generator: Any
    ) -> Scales:
        shape = problem.n_units, problem.n_features
        return release_scales(plan, view, shape, problem.interval, budget)

    def _set_attributes(self, result: Scales, problem: ScaleProblem) -> list[str]:
        self.mean_, self.var_ = result.center, result.variance
        is_constant = result.is_flat & (not problem.cost.is_private)
        self.scale_ = np.where(is_constant, 1.0, np.sqrt(result.variance))
        self.n_samples_seen_ = problem.n_units
        names = getattr(self, "feature_names_in_", range(problem.n_features))
        return list(warnings_for_scales(result, problem, names))

    @property
    def _scaling(self) -> Scaling:
        return Scaling(self.mean_, self.scale_, bool(self.with_mean), self.clip)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not self.with_mean
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
