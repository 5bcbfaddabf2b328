"""One private release of scales and a second moment, and the models computed from it."""

import math
from collections.abc import Iterator
from dataclasses import KW_ONLY
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from scipy.linalg import pinvh
from sklearn.base import _fit_context
from sklearn.covariance import EmpiricalCovariance
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from skdp import _second_moment as moments
from skdp import _validation as checks
from skdp._estimator import carrying
from skdp._marginals import are_whole, hides_samples, release_marginals, sample_rows
from skdp._one_pass import OnePassMixin
from skdp._prior import FEATURES, NORMAL_LAW, PriorParameter, check_prior, mean_and_covariance
from skdp._second_moment import CovarianceSpec
from skdp.data.sources import computed
from skdp.exceptions import counted, shortened, shown, warn_of_privacy
from skdp.linalg import denoising
from skdp.linalg.spectrum import deterministic_signs
from skdp.preprocessing._scaler import ColumnEstimator, warnings_for_scales
from skdp.preprocessing.scales import Scales, ScaleSpec
from skdp.privacy import Plan

__all__ = ["DPCovariance"]

# `discriminant` counts at least this fraction of the variance of the class as unexplained by the
# other columns.
_LEAST_UNEXPLAINED = 1e-3  # not studied

# ------------------------------
# The estimator.


# How errors show a fit with marginals.
_WITH_MARGINALS = "DPCovariance(marginals=True, bounds={'age': (18, 90), ...})"  # not tuned


@checks.with_parameters
class DPCovariance(OnePassMixin, ColumnEstimator):  # numpydoc ignore=PR02
    """Covariances, correlations and models of all columns, by one private release.

    Publishes centers and scales of the columns, and one second moment of scaled rows. Covariances,
    correlations, components, regressions of any column on any other columns, and discriminants
    follow from these releases, at no further cost. With ``epsilon=inf`` and ``bounds=None`` the
    estimator equals :class:`sklearn.covariance.EmpiricalCovariance`.

    Parameters
    ----------
    assume_centered : bool, default=False
        Whether the columns are known to have the mean 0; covariances are then taken around 0.
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
        As in :class:`DPStandardScaler`.
    scales : {"bounds"} or None, default=None
        ``None`` releases centers and scales, and clips scaled rows. ``"bounds"`` needs `bounds`,
        scales columns by half of their width, and releases the moment alone: rows may then arrive
        by `partial_fit`. The noise grows with the square of the width.
    missing : {"refuse", "mean"}, default="refuse"
        How to treat NaN, a gap in dense rows. "mean" leaves gaps out of all sums, which is unbiased
        if gaps are at random: independent of all values, and of gaps in other columns. Leave out
        rows that have only gaps.
    marginals : bool, default=False
        Whether a fifth of the budget releases counts of the entries, too, for which `bounds` are
        needed. `sample` then draws rows with entries within `bounds` and `feature_bounds_`.
    prior : estimator, tuple or None, default=None
        Published covariances of the same columns, toward which noisy covariances are shrunk: a
        fitted ``EmpiricalCovariance`` or the like, ``PCA``, `DPPCA` or `DPCovariance`, perhaps in a
        ``FrozenEstimator``; or ``(location, covariance)``. Public: the prior must not be of these
        rows, unless their budget pays for both fits: :ref:`prior-covariance`.
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
    covariance_ : ndarray of shape (n_features, n_features)
        Covariances of the columns, in their units, positive semidefinite. Covered by the guarantee.
    location_ : ndarray of shape (n_features,)
        Means of the columns, or zeros with `assume_centered`. Covered by the guarantee.
    location_noise_std_ : ndarray of shape (n_features,)
        Standard deviation of the noise in `location_`. Covered by the guarantee.
    is_located_ : ndarray of bool of shape (n_features,)
        Whether the location of a column stands out from noise. Only then the column may be the
        target of a regression. Covered by the guarantee.
    correlation_ : ndarray of shape (n_features, n_features)
        Correlations of the columns. Covered by the guarantee.
    scale_ : ndarray of shape (n_features,)
        Standard deviations of the columns. Covered by the guarantee.
    noise_std_ : ndarray of shape (n_features, n_features)
        Standard deviation of the noise in each entry of `covariance_`. Covered by the guarantee.
    noise_metric_ : ndarray of shape (n_features, n_features)
        How `noise_std_` depends on directions: :doc:`/covariance`. Covered by the guarantee.
    presence_ : ndarray of shape (n_features,)
        Fraction of present entries in each column. Covered by the guarantee.
    unclipped_ : float
        Mean squared factor by which clipping shortened rows, up to 1. Covered by the guarantee.
    left_ : ndarray of shape (n_features,)
        Part of the variance of each column that clipping left. Covered by the guarantee.
    prior_weight_ : float
        Weight of the prior in `covariance_`, from 0 to 1; 0 without a prior. Covered by the
        guarantee.
    feature_bounds_ : ndarray of shape (2, n_features)
        Lower and upper ends to which the fit clipped the entries of each column; infinite without
        noise. Covered by the guarantee.
    marginals_ : ndarray of shape (n_features, 2, n_corners)
        With `marginals`, the quantiles of each column, as corners of a piecewise linear function:
        levels from 0 to 1, and the numbers at these levels. Covered by the guarantee.
    marginals_noise_std_ : float
        With `marginals`, the standard deviation of the noise of a count, as a fraction of the rows.
        Public.
    dtypes_ : ndarray of shape (n_features,)
        With `marginals`, the types of the columns. Public.
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
    sklearn.covariance.EmpiricalCovariance : The same without privacy.
    DPLinearRegression, DPPCA : A single model.

    Notes
    -----
    **Privacy.** Unit: one row. Adjacency: `adjacency`. Mechanism: Gaussian, accounted for exactly
    in Gaussian differential privacy. Released: centers and scales of the columns, as by
    :class:`DPStandardScaler`, for .35 to .6 of the budget; then the second moment of scaled rows
    with a 1 at the end, clipped in norm, in two releases if noise is small, the second one of
    whitened rows if columns are nearly collinear; and with `marginals` the number of entries of
    each column at either end of its bounds, at 0, and in each of 32 bins between, except for
    columns that types and bounds restrict to 0 and 1. `plan` lists all releases. Assumed public:
    the shape of X, its dtypes, feature names, and parameters. Infinity is refused, and so is NaN
    without ``missing="mean"``. Not covered: `mahalanobis`, `score`, running time.

    Eigenvalues of the covariance of scaled columns are raised to .3 of the edge of the noise; then
    eigenvalues below the edge are reduced if their sum exceeds the rest of the trace. The penalty
    of regressions is .3 of the edge. Mathematics and proofs: :doc:`/covariance`. Readings of rows:
    one for each moment, those of :class:`DPStandardScaler`, and one that checks the rows.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skdp.covariance import DPCovariance
    >>> X = load_digits().data[:, 18:22]
    >>> released = DPCovariance(bounds=(0, 16), epsilon=4.0).fit(X)
    >>> released.correlation_.shape
    (4, 4)
    >>> released.regression(0, on=[1, 2])[-1]
    LinearRegression()
    >>> round(released.privacy_spent_.epsilon_at(1e-6), 3)
    4.0
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **ColumnEstimator._parameter_constraints,
        "assume_centered": ["boolean"],
        "scales": [StrOptions({"bounds"}), None],
        "marginals": ["boolean"],
        "prior": "no_validation",  # `check_prior` checks the prior.
    }
    _kind = CovarianceSpec

    _: KW_ONLY
    assume_centered: bool = False
    epsilon: float = 1.0
    delta: float = 1e-6
    privacy_unit: str = "row"
    adjacency: str = "replace"
    bounds: Any = None
    scales: str | None = None
    missing: str = "refuse"
    marginals: bool = False
    prior: Any = PriorParameter(mean_and_covariance)
    ledger: Any = None
    n_jobs: int | None = None
    random_state: Any = None

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, *, users: Any = None) -> Self:
        """Release scales and the second moment, spending the whole budget.

        Parameters
        ----------
        X : {array-like, RowBlocks, dask collection} of shape (n_samples, n_features)
            Rows to protect.
        y : None
            Ignored.
        users : {array-like, dask collection} of shape (n_samples,), list of arrays or None, \
                default=None
            Owner of each row, for ``privacy_unit="user"``: ids of one kind, integers or strings;
            of rows in parts also a list with an array for each part.

        Returns
        -------
        DPCovariance
            The fitted estimator.
        """
        return self._fit(X, users=users)

    def get_precision(self) -> np.ndarray:
        """Compute the inverse of the covariance: a function of released values.

        Returns
        -------
        ndarray of shape (n_features, n_features)
            The precision; the pseudo-inverse if the covariance is singular.
        """
        checks.check_is_released(self)
        return np.asarray(pinvh(self.covariance_, check_finite=False))

    @checks.by_chunks
    def mahalanobis(self, X: Any) -> Any:
        """Compute squared Mahalanobis distances of rows. Not covered by the guarantee.

        Parameters
        ----------
        X : {array-like, RowBlocks, dask collection} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray, PartResults or dask array of shape (n_samples,)
            Squared distances from `location_`; those of blocks or chunks are computed when read.
        """
        rows = checks.check_rows_of(X, self, accept_sparse=False)
        location, precision = self.location_, self.get_precision()

        def _distances(block: np.ndarray) -> np.ndarray:
            centered = block - location
            products = np.einsum("ij,jk,ik->i", centered, precision, centered, optimize=True)
            return np.asarray(products)

        return checks.results_of(rows, _distances)

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-likelihood of rows under a normal law. Not covered by the guarantee.

        Parameters
        ----------
        X : {array-like, RowBlocks, dask collection} of shape (n_samples, n_features)
            Rows.
        y : None
            Ignored.

        Returns
        -------
        float
            Mean log-likelihood.
        """
        X, _ = checks.in_parts(X)
        mean = float(computed(self.mahalanobis(X), self.n_jobs).mean())
        log_volume = np.linalg.slogdet(self.get_precision())[1]
        return float(log_volume - mean - self.n_features_in_ * math.log(2 * math.pi)) / 2

    def error_norm(
        self, comp_cov: Any, norm: str = "frobenius", scaling: bool = True, squared: bool = True
    ) -> float:
        """Compute the norm of the difference from another covariance.

        Parameters
        ----------
        comp_cov : array-like of shape (n_features, n_features)
            The other covariance.
        norm : {"frobenius", "spectral"}, default="frobenius"
            Which norm.
        scaling : bool, default=True
            Whether the squared norm is divided by the number of features.
        squared : bool, default=True
            Whether the norm is squared.

        Returns
        -------
        float
            The norm.
        """
        comp_cov = checks.check_numbers(comp_cov, "comp_cov")
        return float(self._twin().error_norm(comp_cov, norm, scaling, squared))

    def regression(self, target: Any, on: Any = None, alpha: float | None = None) -> Any:
        """Make a regression of a column on other columns: a function of released values.

        Parameters
        ----------
        target : str or int
            Name or index of the column that is predicted.
        on : list of str or int, or None, default=None
            Names or indices of the columns that predict it; ``None`` for all others.
        alpha : float or None, default=None
            Penalty of a ``Ridge``, as in scikit-learn, in addition to a penalty for the noise.

        Returns
        -------
        LinearRegression, Ridge or Pipeline
            A fitted estimator of scikit-learn. After a private fit it is the last step of a
            pipeline, whose ``FunctionTransformer`` clips rows to `feature_bounds_`, as the fit did.
            With ``missing="mean"``, a ``SimpleImputer`` before it fills gaps by `location_`.

        Raises
        ------
        ValueError
            If noise hides where the target lies (`is_located_`).
        """
        penalties = {"alpha": [Interval(Real, 0, None, closed="left"), None]}
        checks.validate_plain(penalties, {"alpha": alpha}, "regression")
        fit, columns, at = self._regress(target, on, 0.0 if alpha is None else float(alpha))
        has_intercept = not self.assume_centered
        model: Any = LinearRegression(fit_intercept=has_intercept)
        if alpha is not None:
            model = Ridge(float(alpha), fit_intercept=has_intercept)
        self._named(model, columns)
        model.coef_ = fit.coef
        mean = self.location_
        model.intercept_ = float(mean[at] - fit.coef @ mean[columns]) if has_intercept else 0.0
        if self.noise_std_.any() and not fit.coef.any():
            warn_of_privacy(
                f"The model predicts location_ of {shown(target)} for all rows, as noise hides how "
                "other columns predict it. Fit with a larger epsilon, or fewer columns."
            )
        return self._clipping(model, columns)

    def std_errors(self, target: Any, on: Any = None) -> np.ndarray:
        """Estimate standard errors of the coefficients of `regression`, due to noise and sampling.

        The errors include the bias of clipping if the columns predict the target linearly and
        residuals are independent of the columns. They leave out effects of long tails beyond the
        clip levels, which are not released.

        Parameters
        ----------
        target : str or int
            Name or index of the column that is predicted.
        on : list of str or int, or None, default=None
            Names or indices of the columns that predict it; ``None`` for all others.

        Returns
        -------
        ndarray of shape (n_columns,)
            A standard error for each coefficient; 1.96 standard errors to either side make an
            interval of 95%.

        Raises
        ------
        ValueError
            If noise hides a direction of the columns, along which coefficients are arbitrary, or
            the location of the target (`is_located_`).

        Warns
        -----
        PrivacyWarning
            If noise hides the scale of the target: the errors may be far too small then.
        """
        fit, columns, at = self._regress(target, on)
        denoising.check_visible(fit)
        if not self._is_scaled[at]:
            warn_of_privacy(
                f"Standard errors may be far too small: noise hides the scale of {shown(target)}, "
                "so that clipping may have taken most of it. Fit with a larger epsilon."
            )
        facts = (fact[[*columns, at]] for fact in (self.presence_, self.left_, self._is_scaled))
        return denoising.coefficient_errors(fit, self.n_samples_seen_, self.unclipped_, *facts)

    def r2(self, target: Any, on: Any = None) -> denoising.Estimate:
        """Estimate R2 of `regression` on new rows: a function of released values.

        Parameters
        ----------
        target : str or int
            Name or index of the column that is predicted.
        on : list of str or int, or None, default=None
            Names or indices of the columns that predict it; ``None`` for all others.

        Returns
        -------
        tuple of float
            The estimate and its standard error, also as attributes `value` and `std_error`.

        Raises
        ------
        ValueError
            If noise hides where the target lies (`is_located_`).
        """
        return denoising.explained_by(self._regress(target, on)[0], self.n_samples_seen_)

    def components(self, k: int, on: Any = None, *, scale: bool = False) -> Any:
        """Make principal components of columns: a function of released values.

        Parameters
        ----------
        k : int
            Number of components, at most the number of columns.
        on : list of str or int, or None, default=None
            Names or indices of the columns; ``None`` for all.
        scale : bool, default=False
            Whether columns are first divided by their standard deviations, for different units.

        Returns
        -------
        PCA or Pipeline
            A fitted estimator of scikit-learn. With `scale` it is the last step of a pipeline: a
            ``StandardScaler`` comes before it and, if the fit was private, first of all a
            ``FunctionTransformer`` that clips rows to `feature_bounds_`.
        """
        checks.check_is_released(self)
        columns = self._columns(on)
        sizes = {"k": [Interval(Integral, 1, len(columns), closed="both")]}
        checks.validate_plain(sizes, {"k": k}, "components")
        pca = self._named(PCA(n_components=k), columns)
        variances, noise = np.diag(self.covariance_), np.diag(self.noise_std_)
        is_flat = denoising.are_flat(variances, noise, self.n_samples_seen_)
        # A flat column has no variance: the 1 on the diagonal of the correlations is removed.
        matrix = self.correlation_ - np.diag(1.0 * is_flat) if scale else self.covariance_
        values, vectors = np.linalg.eigh(matrix[np.ix_(columns, columns)])
        # PCA of scikit-learn divides variances by n - 1.
        n_rows, n_free = self.n_samples_seen_, max(self.n_samples_seen_ - 1, 1)
        values = np.maximum(values[::-1], 0.0) * (n_rows / n_free)
        components = vectors[:, ::-1].T[:k]
        pca.components_ = components * deterministic_signs(components)[:, np.newaxis]
        pca.explained_variance_ = values[:k]
        pca.explained_variance_ratio_ = values[:k] / max(values.sum(), np.finfo(np.float64).tiny)
        pca.singular_values_ = np.sqrt(values[:k] * n_free)
        pca.noise_variance_ = float(values[k:].mean()) if k < len(values) else 0.0
        pca.n_components_, pca.n_samples_ = k, n_rows
        mean = self.location_[columns]
        if not scale:
            pca.mean_ = mean
            return carrying(pca, self)
        vars(pca).pop("feature_names_in_", None)
        pca.mean_ = np.zeros(len(columns))
        scaler = self._named(StandardScaler(), columns)
        scaler.mean_, scaler.scale_ = mean, self.scale_[columns]
        scaler.var_, scaler.n_samples_seen_ = np.square(scaler.scale_), self.n_samples_seen_
        model = Pipeline([("scale", scaler), ("components", pca)])
        return self._clipping(model, columns)

    def discriminant(self, target: Any, on: Any = None) -> Any:
        """Make a linear discriminant of a column of 0 and 1: a function of released values.

        Parameters
        ----------
        target : str or int
            Name or index of the column, which has to be 0 or 1 in every row.
        on : list of str or int, or None, default=None
            Names or indices of the columns that predict it; ``None`` for all others.

        Returns
        -------
        LinearDiscriminantAnalysis or Pipeline
            A fitted estimator of scikit-learn with the classes 0 and 1; after a private fit, behind
            a ``FunctionTransformer``, as in `regression`.

        Raises
        ------
        ValueError
            If the fit had `assume_centered`; if the noisy mean of the column is not between 0 and
            1, or hidden (`is_located_`); or if the noisy variance is far above 1/4, the largest
            variance of a column of 0 and 1.
        """
        fit, columns, at = self._regress(target, on)
        fraction = float(self.location_[at])
        # A column of 0 and 1 has a variance of at most 1/4. Noise triples this variance only if the
        # released variance is mostly noise.
        is_wide = fit.moment[-1, -1] > 3 / 4
        if self.assume_centered or is_wide or not 0 < fraction < 1:
            fix = "pass another target"
            if self.assume_centered:
                fix = "fit with assume_centered=False"
            raise ValueError(
                f"target={shown(target)} has the released mean {fraction:.3g} and the released "
                f"variance {fit.moment[-1, -1]:.3g}, and a discriminant needs a mean between 0 and "
                f"1 and a variance of 1/4 at most, of a column of 0 and 1: {fix}."
            )
        model = self._named(LinearDiscriminantAnalysis("lsqr", store_covariance=True), columns)
        # Let S be the covariance of the columns, c their covariances with the class, and v the
        # variance p (1 - p) of the class. The means of both classes differ by c / v, and the
        # covariance within classes is W = S - c c' / v. The coefficients inverse(W) c / v equal
        # b / (v - c' b), where b = inverse(S) c are the coefficients of the regression (J. Sherman,
        # W. J. Morrison, 1950).
        variance, covariances = fraction * (1 - fraction), fit.moment[:-1, -1]
        unexplained = max(variance - float(covariances @ fit.coef), _LEAST_UNEXPLAINED * variance)
        coef, log_odds = fit.coef / unexplained, math.log(fraction / (1 - fraction))
        model.xbar_ = self.location_[columns]
        model.means_ = model.xbar_ + np.outer([-1 / (1 - fraction), 1 / fraction], covariances)
        model.covariance_ = fit.moment[:-1, :-1] - np.outer(covariances, covariances) / variance
        model.classes_, model.priors_ = np.array([0, 1]), np.array([1 - fraction, fraction])
        model.coef_ = coef[np.newaxis]
        model.intercept_ = np.array([log_odds - float(coef @ model.means_.mean(axis=0))])
        return self._clipping(model, columns)

    def sample(self, n: int, random_state: Any = None) -> Any:
        """Draw random rows with the released marginals and correlations.

        Rows are a function of released values, and any number of rows costs nothing. A linear model
        of drawn rows is similar to `regression`. Structure beyond pairs of columns, such as
        interactions and rare combinations, is missing. From ten rows per column on, correlations of
        columns with many values vary less from draw to draw than if rows were independent.

        Parameters
        ----------
        n : int
            Number of rows.
        random_state : int, RandomState instance or None, default=None
            Seed of the draw.

        Returns
        -------
        ndarray or DataFrame of shape (n, n_features)
            Rows without gaps; a frame of pandas with the names of the columns of X, if it had
            names, and their types, without gaps. Bounds of integers should be within their type.

        Raises
        ------
        ValueError
            If the fit had ``marginals=False``.
        """
        checks.check_is_released(self)
        if not hasattr(self, "marginals_"):
            form = f"{_WITH_MARGINALS}: another fit, with its own epsilon"
            raise ValueError(f"sample needs marginals=True and bounds, as {form}.")
        checks.validate_plain({"n": [checks.AT_LEAST_ONE]}, {"n": n}, "sample")
        released = self.marginals_, self.covariance_, self.noise_std_, are_whole(self.dtypes_)
        rows = sample_rows(int(n), *released, check_random_state(random_state))
        if hides_samples(self.covariance_, self.noise_std_, self.marginals_noise_std_):
            warn_of_privacy(
                "The sample resembles the rows little: noise hides most correlations or marginals. "
                "Fit with a larger epsilon, or fewer columns."
            )
        if not hasattr(self, "feature_names_in_"):
            return rows
        import pandas

        frame = pandas.DataFrame(rows, columns=self.feature_names_in_)
        return frame.astype(dict(zip(frame, self.dtypes_, strict=True)))

    def _clipping(self, model: Any, columns: list[int]) -> Any:
        """Put steps before a model that fill and clip rows, as the fit did for the moment."""
        low, high = self.feature_bounds_[:, columns]
        if not np.isfinite([low, high]).all():
            return carrying(model, self)
        steps = model.steps if isinstance(model, Pipeline) else [("model", model)]
        # The clipping step passes on rows without column names: the model must not expect any.
        vars(steps[0][1]).pop("feature_names_in_", None)
        ends = {"a_min": low, "a_max": high}
        clip = FunctionTransformer(
            np.clip, validate=True, kw_args=ends, feature_names_out="one-to-one"
        )
        steps = [("clip", clip), *steps]
        if self._takes_gaps:
            # An imputer that is fitted to a single row fills gaps with the entries of this row.
            steps = [("fill", SimpleImputer().fit(self.location_[columns][np.newaxis])), *steps]
        self._named(steps[0][1], columns)
        return carrying(Pipeline(steps), self)

    def _regress(
        self, target: Any, on: Any, alpha: float = 0.0
    ) -> tuple[denoising.Regression, list[int], int]:
        """Return the regression of the target on columns, and the indices of columns and target."""
        checks.check_is_released(self)
        at = self._place("target", target)
        columns = self._columns(on, without=at)
        if at in columns:
            raise ValueError(
                f"on=[...] has the target {shown(target)}, which would predict itself: leave it "
                "out."
            )
        if not self.is_located_[at]:
            raise ValueError(
                f"Noise hides the location of the target {shown(target)}: fit with a larger "
                "epsilon, fewer columns, or bounds that are known without looking at X."
            )
        penalty = alpha / self.n_samples_seen_
        common = self._weight_noise_std * self.covariance_
        noise = denoising.MomentNoise(self.noise_std_, self.noise_metric_, common)
        # Gaps leave fewer pairs of entries than rows, which makes the moment less accurate.
        missing_pairs = float(np.mean(1 / self.presence_[columns])) ** 2 - 1
        gaps = math.sqrt(max(missing_pairs, 0.0) / self.n_samples_seen_)
        return denoising.regress(self.covariance_, noise, columns, at, penalty, gaps), columns, at

    def _place(self, parameter: str, column: Any) -> int:
        """Return the index of a column, given by its name or index."""
        names = list(getattr(self, "feature_names_in_", ()))
        if isinstance(column, str) and column in names:
            return names.index(column)
        is_place = isinstance(column, int | np.integer) and not isinstance(column, bool)
        if is_place and 0 <= column < self.n_features_in_:
            return int(column)
        known = f", or one of the names {shortened(names)}" if names else ""
        raise ValueError(
            f"{parameter} has {shown(column)}, which is no column: pass an index from 0 to "
            f"{self.n_features_in_ - 1}{known}."
        )

    def _columns(self, on: Any, without: int | None = None) -> list[int]:
        """Return the indices of the columns in `on`; None means all columns except `without`."""
        if on is None:
            places = [column for column in range(self.n_features_in_) if column != without]
        elif isinstance(on, str | bytes) or not np.iterable(on):
            raise ValueError(
                f"on={shown(on)} must be a list of names or indices, or None: pass on=[...]."
            )
        else:
            places = [self._place("on", column) for column in on]
        if not places or len(set(places)) < len(places):
            raise ValueError(f"on={shown(on)} must have at least one column, and no column twice.")
        return places

    def _named(self, model: Any, columns: list[int]) -> Any:
        """Set the names and the number of features of a scikit-learn model."""
        model.n_features_in_ = len(columns)
        if hasattr(self, "feature_names_in_"):
            model.feature_names_in_ = self.feature_names_in_[columns]
        return model

    def _twin(self) -> EmpiricalCovariance:
        """Return an EmpiricalCovariance of scikit-learn with the released values."""
        checks.check_is_released(self)
        twin = EmpiricalCovariance(assume_centered=bool(self.assume_centered))
        twin = self._named(twin, [*range(self.n_features_in_)])
        twin.covariance_, twin.location_ = self.covariance_, self.location_
        twin.precision_ = self.get_precision()
        return twin

    def _spec_of(self, *size: int, **facts: Any) -> Any:
        if self.marginals and (self.bounds is None or self.assume_centered):
            form = f"{_WITH_MARGINALS}, of an array [(18, 90), ...]; and no assume_centered"
            raise ValueError(f"marginals=True needs bounds that are public, as {form}.")
        if self.scales is not None and (self.bounds is None or self._takes_gaps):
            raise ValueError("scales='bounds' needs bounds that are public, and missing='refuse'.")
        if (prior := self.prior) is not None:
            d, names = size[1], facts["names"]
            mean, prior = check_prior(prior, NORMAL_LAW, [(d,), (d, d)], {FEATURES: names})
            prior += bool(self.assume_centered) * np.outer(mean, mean)
        return super()._spec_of(*size, prior=prior, **facts)

    _plan = staticmethod(moments.plan_covariance)

    @staticmethod
    def _warnings(spec: ScaleSpec, plan: Plan) -> Iterator[str]:
        """Warn if the budget is so small for the columns that single models are better."""
        if spec.cost.is_private and moments.strength_of(spec) < moments.WEAK:
            yield (
                f"Many correlations will be mostly noise: {spec.n_units} {spec.unit.counted} with "
                f"epsilon={spec.cost.epsilon:g} are few for {counted(spec.n_features, 'column')}. "
                "Use fewer columns or a larger epsilon, or fit one model, as DPLinearRegression."
            )

    def _check_one_pass(self) -> None:
        if self.privacy_unit != "row" or self.scales is None or self.marginals:
            raise ValueError(
                "partial_fit needs privacy_unit='row', scales='bounds', marginals=False and bounds "
                "that are known without looking at X. Pass these, or call fit with all rows."
            )

    def _sums_of(self, spec: Any, view: Any) -> tuple[np.ndarray, ...]:
        return (moments.summed_moment(spec, view, moments.units_of_bounds(spec)),)

    def _solve(self, spec: Any, plan: Any, view: Any, budget: Any) -> tuple[dict[str, Any], Scales]:
        moment = moments.release_moment(plan, spec, view, budget)
        attributes, is_hidden = moments.attributes_of(moment, spec)
        if spec.marginals:
            attributes["marginals_"], attributes["marginals_noise_std_"] = release_marginals(
                plan.marginals, view, spec, attributes, spec.are_binary, budget
            )
            attributes["dtypes_"] = np.array(spec.dtypes, dtype=object)
        # A column counts as flat only if noise hides its variance in the moment, too.
        return attributes, moment.scales._replace(is_flat=moment.scales.is_flat & is_hidden)

    def _set_attributes(self, result: Any, spec: ScaleSpec) -> Iterator[str]:
        attributes, scales = result
        self.__dict__.update(attributes)
        self.n_samples_seen_ = spec.n_units
        return warnings_for_scales(scales, spec)
