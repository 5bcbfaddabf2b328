"""Private scaling of columns."""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY
from functools import partial
from numbers import Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy.sparse import issparse
from sklearn.base import OneToOneFeatureMixin, TransformerMixin, _fit_context
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from skdp import _validation as checks
from skdp._estimator import Data, PrivateEstimator, check_not_pure
from skdp.data.containers import finite, float_dtype
from skdp.data.people import depth_of, keyed_by_people, people_of
from skdp.data.reduce import rounding_of_depth
from skdp.data.rows import Rows, checked_digest
from skdp.data.sources import as_source, holds_sparse
from skdp.exceptions import counted
from skdp.linalg.norms import with_data
from skdp.preprocessing import scales as column_scales
from skdp.preprocessing.intervals import OTHER_UNITS_OF_X, checked_interval
from skdp.preprocessing.scales import Scales, ScaleSpec
from skdp.privacy import Plan
from skdp.units import ResolvedRow, ResolvedUser

__all__ = ["DPStandardScaler"]

# ------------------------------
# Rows divided by released scales, and the inverse; sparse rows stay sparse.


class Scaling(NamedTuple):
    """Scales rows by released centers and scales, or maps scaled rows back; takes CSR, too."""

    center: np.ndarray
    scale: np.ndarray
    is_centered: bool
    clip: float  # in units of the scales
    fills_gaps: bool  # whether NaN is replaced by the center of its column

    def apply(self, X: Any) -> Any:
        """Scale and clip rows; without centering, 0 stays 0."""
        return _by_column(X, self._scaled)

    def undo(self, X: Any) -> Any:
        """Map rows back to the units of the data."""
        return _by_column(X, self._restored)

    def _scaled(self, values: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Replace NaN, then center, clip and scale values; `columns` has the column of each."""
        center, scale = self.center[columns], self.scale[columns]
        if self.fills_gaps:
            values = np.where(np.isnan(values), center, values)
        if self.is_centered:
            values, center = values - center, np.zeros(len(center))
        if self.clip < math.inf:
            far = self.clip * scale
            # The interval includes 0, which a sparse matrix does not store.
            values = np.clip(values, np.minimum(center - far, 0), np.maximum(center + far, 0))
        return np.asarray(values / scale)

    def _restored(self, values: np.ndarray, columns: np.ndarray) -> np.ndarray:
        restored = values * self.scale[columns]
        return restored + self.center[columns] if self.is_centered else restored


def _by_column(X: Any, change: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Any:
    """Return rows with their values changed in float64; zeros that CSR does not store stay 0.

    `change` is a function of values and of their column indices.
    """
    with np.errstate(all="ignore"):
        if issparse(X):
            changed = change(X.data.astype(np.float64), X.indices)
        else:
            changed = change(np.asarray(X, np.float64), np.arange(X.shape[1]))
        changed = finite(changed.astype(float_dtype(X)))
    return with_data(X, changed) if issparse(X) else changed


# ------------------------------
# Public facts of columns, and warnings about scales.


def _column_facts(X: Any, n_features: int) -> dict[str, Any]:
    """Return the names of the columns, if any, and their types, which only a data frame has."""
    types = [str(one).lower() for one in getattr(X, "dtypes", ("",) * n_features)]
    known = [re.match(r"(bool|u?int\d+|float32)", one) for one in types]
    dtypes = tuple("float64" if one is None else one[0] for one in known)
    return {"names": checks.feature_names(X), "dtypes": dtypes}


def warnings_for_scales(scales: Scales, spec: ScaleSpec) -> Iterator[str]:
    """Warn of columns whose scale noise hides or, without noise, whose squares are no floats."""
    if spec.cost.is_private:
        # A flat column is not hidden if its variance exceeds the error of the variance.
        is_hidden = scales.is_flat & (scales.variance < scales.variance_std)
        is_hidden |= scales.are_hidden()
        remedy = f"Use {_remedy(spec)}."
        yield from column_scales.warnings_for_columns(scales, spec, is_hidden, remedy)
    elif (is_invalid := scales.have_invalid_squares()).any():
        yield (
            f"Floats cannot hold squares of {spec.named(is_invalid)}, too large or too small ones. "
            f"{OTHER_UNITS_OF_X}"
        )


def _remedy(spec: ScaleSpec) -> str:
    """Return what to use against noise, for the end of a warning."""
    better = "" if spec.interval is None else " that fit better, and"
    return (
        f"more {spec.unit.counted}, fewer columns, or a larger epsilon. Pass bounds{better} "
        "that are known without looking at X"
    )


class ColumnEstimator(PrivateEstimator):
    """Base of private estimators that first release centers and scales of the columns of X."""

    bounds: Any
    missing: Any
    privacy_unit: Any
    _kind: ClassVar[type[ScaleSpec]] = ScaleSpec
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **PrivateEstimator._parameter_constraints,
        "privacy_unit": [StrOptions({"row", "user"})],
        # `checked_interval` checks the bounds.
        "bounds": "no_validation",
        "missing": [StrOptions({"refuse", "mean"})],
    }

    def _validate(self, X: Any, y: Any, users: Any = None) -> tuple[ScaleSpec, Data]:
        self._check_gaps(X)
        name = type(self).__name__
        checked = checks.check_rows_or_blocks(X, name, ensure_all_finite=self._finite)
        people = people_of(users, checked, self.privacy_unit)
        n_units = checked.shape[0] if people is None else people.n_people
        # Names and types of columns are read from X, as `checked` has neither.
        n_features = checked.shape[1]
        spec = self._spec_of(n_units, n_features, like=checked, **_column_facts(X, n_features))
        checks.check_features(X, self, reset=True)
        source = as_source(checked)
        is_seeded, allow_nan = self._is_seeded, self._takes_gaps
        digest = checked_digest(source, self.n_jobs, is_seeded=is_seeded, allow_nan=allow_nan)
        return spec, (Rows(source, self.n_jobs, people=people), keyed_by_people(digest, people))

    def _spec_like(self, n_samples: int, n_features: int, like: Any) -> ScaleSpec:
        return self._spec_of(n_samples, n_features, like=like, **_column_facts(like, n_features))

    def _spec_of(
        self, n_units: int, n_features: int, *, like: Any, names: Sequence[Any] | None, **facts: Any
    ) -> ScaleSpec:
        """Refuse parameters that contradict each other or public facts, and return the spec."""
        is_sparse = holds_sparse(like)
        self._check_sparse(is_sparse)
        check_not_pure(type(self).__name__, self._cost())
        interval = checked_interval(self.bounds, n_features, names)
        is_user, shape = self.privacy_unit == "user", (n_units, n_features)
        depth = depth_of(like, shape, is_sparse=is_sparse, are_people=is_user)
        return self._asked(
            self._kind,
            unit=(ResolvedUser if is_user else ResolvedRow)(self.adjacency),
            n_units=n_units,
            n_features=n_features,
            rounding=rounding_of_depth(depth, n_units),
            interval=interval,
            names=names,
            has_gaps=self._takes_gaps,
            **facts,
        )

    def _check_sparse(self, is_sparse: bool) -> None:
        """Refuse sparse rows that centering would make dense."""
        if is_sparse and getattr(self, "with_mean", True):
            others = "with_mean=False, or " if hasattr(self, "with_mean") else ""
            raise ValueError(
                f"A sparse X cannot be centered without becoming dense: pass {others}a dense X, as "
                "a ColumnTransformer with sparse_threshold=0 makes it, or a OneHotEncoder or "
                "RowBlocks.from_parquet with sparse_output=False."
            )

    @property
    def _takes_gaps(self) -> bool:
        return bool(self.missing != "refuse")

    @property
    def _finite(self) -> Any:
        """Value of `ensure_all_finite` in scikit-learn's checks of X."""
        return "allow-nan" if self._takes_gaps else True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._takes_gaps
        return tags

    def _check_gaps(self, X: Any) -> None:
        """Refuse sparse rows if NaN stands for missing entries."""
        if self._takes_gaps and holds_sparse(X):
            raise ValueError(
                'missing="mean" takes dense rows only: pass X.toarray(), or rows made by a '
                "ColumnTransformer with sparse_threshold=0 or by "
                "RowBlocks.from_parquet(..., sparse_output=False); or replace NaN by public "
                'constants, and pass missing="refuse".'
            )


# clip="auto" is `_CLIP` standard deviations. It grows with the root of the strength of a fit, the
# number of rows times mu over the number of columns, if the strength exceeds `_STRONG`.
_CLIP, _STRONG = 5.0, 300.0  # benchmarks/sweep/sweep.md, jobs "components" and "classes"


@checks.with_parameters
class DPStandardScaler(
    OneToOneFeatureMixin, TransformerMixin, ColumnEstimator
):  # numpydoc ignore=PR02
    """Standardize columns by centers and scales that are differentially private.

    Publishes a mean and a variance of every column under (epsilon, delta)-differential privacy for
    rows, and scales rows by the released values. With ``epsilon=inf`` and ``bounds=None`` it
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
    privacy_unit : {"row", "user"}, default="row"
        What is protected: one row, or a user with all of its rows, each of which then counts once.
        `fit` takes `users` then.
    adjacency : {"replace", "zero_out"}, default="replace"
        Neighboring datasets differ by exchanging one unit for any other, or by one that is null,
        which takes less noise and promises less: :doc:`/user_guide/what_is_protected`.
    bounds : dict, list of pairs, pair of floats or of arrays (n_features,), or None, default=None
        Public ends ``(low, high)`` of every column, in its units, to which `fit` clips entries: by
        the names of a data frame, as ``{"age": (18, 90)}``; a list of such tuples, in the order of
        the columns; or all lower and all upper ends. They must be known without looking at X: its
        smallest and largest entries are **not** public. Generous bounds are fine: `fit` also finds
        the spread between them, at a small cost. Sizes are at most 1e100, and the ends at least
        1e-100 apart. ``None`` finds intervals privately, for three eighths of the budget or, if a
        column is narrow beside its distance from 0, for half.
    clip : float, "auto" or None, default="auto"
        `transform` clips entries to this many standard deviations from the mean. Without centering
        the interval also includes 0, and 0 stays 0. ``"auto"`` is 5 or more: with many rows and a
        large budget for few columns, later steps would lose more by clipping than by noise. With
        ``epsilon=inf`` it is ``inf``. ``None`` does not clip.
    missing : {"refuse", "mean"}, default="refuse"
        What becomes of NaN in dense rows. "mean" leaves NaN out of the means and
        variances, releases with them a count of the other entries of each column, and fills in the
        released mean in `transform`. Unlike with ``SimpleImputer(strategy="constant")``, no public
        constant has to be known.
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
    mean_ : ndarray of shape (n_features,)
        Means of the columns, with their entries clipped. Covered by the guarantee.
    var_ : ndarray of shape (n_features,)
        Variances of the columns. Covered by the guarantee.
    scale_ : ndarray of shape (n_features,)
        Divisors in `transform`: square roots of `var_`, or 1 for a constant column if there is
        no noise. Covered by the guarantee.
    mean_std_error_ : ndarray of shape (n_features,)
        Standard errors of `mean_`, from noise and sampling; 1e300 or more for columns of unknown
        location. Covered by the guarantee.
    scale_std_error_ : ndarray of shape (n_features,)
        Standard errors of `scale_`; 1e300 or more where noise hides how a column varies. Covered by
        the guarantee.
    clip_ : float
        Limit of entries in `transform`, in standard deviations; ``inf`` without clipping. Public.
    n_samples_seen_ : int
        Number of rows or, where users are protected, of users. Public.
    privacy_spent_ : PrivacySpent
        Record of every release. Public.
    n_features_in_ : int
        Number of features. Public.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if X has names that are strings. Public.

    See Also
    --------
    sklearn.preprocessing.StandardScaler : The same without privacy.
    DPLogisticRegression, DPPCA : Estimators that may follow.

    Notes
    -----
    **Privacy.** Unit: one row. Adjacency: `adjacency`. Mechanism: Gaussian, accounted for exactly
    in Gaussian differential privacy. Entries are clipped to `bounds`, or to intervals that are
    found privately. Released with `bounds`: the mean of each column and of its square and, with
    ``missing="mean"``, its number of entries. Released for columns without `bounds`, or whose
    spread noise hides: counts of the entries by sign and power of two and, if the column may be
    narrow beside its distance from 0, by place in its interval; then means and mean squares within
    the intervals found. `plan` lists every release before a fit, `privacy_spent_` afterwards.
    Assumed public: the shape of X, its dtype, whether it is dense or sparse, feature names, and
    parameters. Infinity is refused, and without ``missing="mean"`` also NaN, which reveals that
    there are none. Not covered: what `transform` and `fit_transform` return, a noise-free function
    of the rows; and the running time.

    Means and variances are shrunk toward the averages over all columns, as far as noise hides the
    differences. Mathematics and proofs: :doc:`/scaling`. There is no ``partial_fit``. `fit` reads
    the rows once to check them and twice for the sums, once more with `bounds`, and up to five
    times more if columns are narrow.

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
        **ColumnEstimator._parameter_constraints,
        "with_mean": ["boolean"],
        "clip": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"}), None],
    }

    _: KW_ONLY
    with_mean: bool = True
    epsilon: float = 1.0
    delta: float = 1e-6
    privacy_unit: str = "row"
    adjacency: str = "replace"
    bounds: Any = None
    clip: float | str | None = "auto"
    missing: str = "refuse"
    ledger: Any = None
    n_jobs: int | None = None
    random_state: Any = None

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, *, users: Any = None) -> Self:
        """Release the means and variances, which spends the whole budget.

        Parameters
        ----------
        X : {array-like, sparse matrix, RowBlocks, dask collection} of shape (n_samples, n_features)
            Rows to protect; sparse ones with ``with_mean=False`` only.
        y : None
            Ignored.
        users : {array-like, dask collection} of shape (n_samples,), list of arrays or None, \
                default=None
            Owner of each row, for ``privacy_unit="user"``: ids of one kind, integers or strings;
            of rows in parts also a list with an array for each part.

        Returns
        -------
        DPStandardScaler
            The fitted estimator.
        """
        return self._fit(X, users=users)

    @checks.by_chunks
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
        self._check_sparse(holds_sparse(X))
        self._check_gaps(X)
        checked = checks.check_rows_of(X, self, ensure_all_finite=self._finite)
        return checks.transformed(checked, self._scaling.apply, allow_nan=self._takes_gaps)

    @checks.by_chunks
    def inverse_transform(self, X: Any) -> Any:
        """Map rows back to the units of the data; clipped entries stay clipped.

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
        rows = checks.check_transformed(X, self.n_features_in_, type(self).__name__)
        return checks.transformed(rows, self._scaling.undo)

    _plan = staticmethod(partial(column_scales.plan_scales_by_share, share=1.0))

    @staticmethod
    def _warnings(spec: ScaleSpec, plan: Plan) -> Iterator[str]:
        """Warn if noise will hide most centers and scales."""
        # The last release is that of the moments.
        if (plan.releases[-1].noise_std or 0.0) > column_scales.MOST_NOISE:
            yield (
                f"Most centers and scales will be noise: too few {spec.unit.counted}, "
                f"{spec.n_units} with epsilon={spec.cost.epsilon:g}, for "
                f"{counted(spec.n_features, 'column')}. Use {_remedy(spec)}."
            )

    def _solve(self, spec: ScaleSpec, plan: Any, view: Any, budget: Any) -> Scales:
        shape = spec.n_units, spec.n_features
        return column_scales.release_scales(plan, view, shape, spec.interval, budget)

    def _set_attributes(self, result: Scales, spec: ScaleSpec) -> Iterator[str]:
        self.mean_, self.var_ = result.center, result.variance
        is_constant = result.is_flat & (not spec.cost.is_private)
        self.scale_ = np.where(is_constant, 1.0, np.sqrt(result.variance))
        self.mean_std_error_, self.scale_std_error_ = map(finite, result.std_errors(spec.n_units))
        self.n_samples_seen_ = spec.n_units
        strength = spec.n_units * spec.cost.mu / spec.n_features
        auto = _CLIP * math.sqrt(max(1.0, strength / _STRONG))
        self.clip_: float = auto if isinstance(self.clip, str) else self.clip or math.inf
        return warnings_for_scales(result, spec)

    @property
    def _scaling(self) -> Scaling:
        return Scaling(self.mean_, self.scale_, bool(self.with_mean), self.clip_, self._takes_gaps)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not (self.with_mean or self._takes_gaps)
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
