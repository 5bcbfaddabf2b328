"""DPPCA, with its Gaussian model, and DPTruncatedSVD: components of private rows."""

import math
from dataclasses import KW_ONLY
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, Options, RealNotInt, StrOptions
from sklearn.utils.validation import check_is_fitted

from skdp import _validation as checks
from skdp._estimator import in_dtype
from skdp._one_pass import OnePassMixin
from skdp._prior import PriorParameter, mean_and_covariance
from skdp.data.rows import RowCache
from skdp.data.sources import computed
from skdp.decomposition._matrix_estimator import MatrixEstimator, Projection
from skdp.decomposition._spec import Factors, MatrixSpec, RowsSpec, choose_rank
from skdp.decomposition.rows.plan import bound_of_mean
from skdp.privacy.clipping import clipped


@checks.with_parameters
class DPPCA(MatrixEstimator):  # numpydoc ignore=PR02
    """Principal component analysis with differential privacy for rows, entries or edges.

    An entry is not a person: if a person is a row, keep ``privacy_unit="row"``. Units of a single
    value protect people with many values far less. The fit centers X by a private mean, and
    publishes principal components, mean and explained variances. With ``epsilon=inf`` and no bounds
    it equals :class:`sklearn.decomposition.PCA`.

    Parameters
    ----------
    n_components : int, float, "mle" or None, default=None
        Number of components. A float in (0, 1) takes the fewest that explain more than that part
        of the variance, and ``"mle"`` as many as Minka's rule selects; both leave out components
        that noise hides, and need solver "covariance". ``None`` is min(n_samples, n_features).
    whiten : bool, default=False
        Whether `transform` scales the components to unit variance, by released variances.
    center : "private", array-like of shape (n_features,) or False, default="private"
        ``"private"`` releases the mean of the rows. An array, in the units of X, is a public
        center. ``False`` does not center; interactions and spectral changes need it.
    epsilon : float, default=1.0
        Privacy budget of one fit, dimensionless, ``0 < epsilon <= inf``. Smaller is more private;
        ``inf`` switches the noise off.
    delta : float, default=1e-6
        Probability with which the guarantee may fail, ``0 <= delta < 1``, well below one over the
        number of units. 0 is pure differential privacy, for entries, edges and spectral changes.
    privacy_unit : "row", "user" or object of skdp.units, default="row"
        What is protected: a row; all rows of a user (:doc:`/user_guide/people_with_several_rows`);
        or what the object says (:doc:`/user_guide/entries_and_edges`).
    adjacency : {"replace", "zero_out"}, default="replace"
        Neighboring datasets differ by exchanging one unit for any other, or by one that is null,
        which takes less noise and promises less: :doc:`/user_guide/what_is_protected`.
    row_norm : float or None, default=None
        Public bound on the Euclidean norm of a row **after** centering, in the units of X, only for
        rows and users, and else refused; longer rows are scaled down to it. From 1e-100 to
        1e100, or ``inf`` with ``epsilon=inf``. ``None`` estimates a quantile of the norms
        privately, as :ref:`private-scale` says; with ``epsilon=inf`` it clips nothing.
    mean_norm : float or None, default=None
        The same bound **before** centering, for the private mean. ``None`` estimates it privately,
        too. Refused unless ``center="private"``. If X is sparse, at most 1e8 times `row_norm`.
    solver : {"auto", "covariance", "power", "alternating", "deflation", "input"}, default="auto"
        For rows ``"covariance"`` releases the matrix of second moments, in O(n_features ** 2)
        memory; only it accepts an `n_components` that is not an int. ``"power"`` iterates, in
        O(n_samples + n_features * n_components).
        For other units ``"alternating"``, ``"power"`` and ``"deflation"`` multiply released bases
        by X, and ``"input"`` adds noise to every entry; interactions take "power" or "covariance".
        ``"auto"`` chooses by public facts: :ref:`solvers`, :ref:`solvers-of-units`.
    n_iter : int or "auto", default="auto"
        For "power", "alternating" and "deflation": number of steps, 1 to 100. ``"auto"`` is 3 for
        rows, 6 to 22 by the budget for interactions, else 5 to 8, or 1 from an exact basis with
        ``epsilon=inf``.
    n_oversamples : int or "auto", default="auto"
        For "power" and "alternating": columns beyond `n_components` in a basis.
        ``"auto"`` is `n_components` for rows; else 1 to 16 by the budget, or 0 with ``delta=0``.
    coherence_bound : float or None, default=None
        Only for iterations ("alternating", "power", "deflation") of entries and edges, else
        refused: the coherence for which noise is scaled. The first basis that exceeds the bound
        ends the fit as failed, with all its budget spent. ``None`` scales the noise to each basis.
    prior : estimator, tuple or None, default=None
        As in :class:`DPCovariance`, only for whole rows and "covariance".
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
    components_ : ndarray of shape (`n_components_`, n_features)
        Principal axes, by descending variance. Covered by the guarantee.
    explained_variance_, explained_variance_ratio_ : ndarray of shape (`n_components_`,)
        Variance of clipped rows along each axis; fraction of the total. Covered by the guarantee.
    components_noise_angle_, explained_variance_std_error_ : ndarray of shape (`n_components_`,)
        For whole rows and "covariance": noise turns an axis by more than its angle, in radians, 5%
        of the time; standard errors of variances: :ref:`noise-errors`. Covered by the guarantee.
    singular_values_ : ndarray of shape (`n_components_`,)
        Singular values of the centered and clipped rows. Covered by the guarantee.
    mean_ : ndarray of shape (n_features,)
        Center that was subtracted. Covered by the guarantee.
    noise_variance_ : float
        Mean variance outside the components, at least the noise. Covered by the guarantee.
    row_norm_, prior_weight_ : float
        For whole rows: bound on centered rows; weight of the prior. Covered by the guarantee.
    left_components_ : ndarray of shape (n_samples, `n_components_`)
        Left singular vectors; not for rows. Covered by the guarantee, unlike `transform`.
    coherence_left_, coherence_right_ : float
        Coherence of the released singular vectors, from 1 (evenly spread) up. The left one only
        with `left_components_`, and neither for ``privacy_unit="row"``. Covered by the guarantee.
    failed_ : bool
        Whether a basis exceeded `coherence_bound`; not for whole rows. Covered by the guarantee.
    n_components_, n_samples_, n_features_in_ : int
        Numbers of components (covered by the guarantee), rows and features (public).
    privacy_spent_ : PrivacySpent
        Record of every release. Public.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if X has names that are strings. Public.

    See Also
    --------
    sklearn.decomposition.PCA, DPTruncatedSVD : Without privacy; without centering.

    Notes
    -----
    **Privacy.** Unit: `privacy_unit`. Adjacency: `adjacency`. Mechanism: Gaussian, accounted for
    exactly in Gaussian differential privacy, or Laplace with ``delta=0``. Rows are clipped to
    `mean_norm` for the mean, centered by it, and clipped to `row_norm`; entries are clipped to
    their bounds. Released: the mean, twice if it is too noisy; ten counts for each bound that is
    None; the sum of squares, if rows are not the unit; and from the solver second moments, products
    with released bases, or all entries. `plan` lists every release before a fit, `privacy_spent_`
    afterwards. Assumed public: the shape of X, its dtype, whether it is dense or sparse, feature
    names, and parameters. NaN and infinity are refused, which reveals that there are none. Not
    covered: what `transform`, `score` and `score_samples` return, without noise; the running time.

    "covariance" is Analyze Gauss (Dwork et al. 2014, :doi:`10.1145/2591796.2591883`), "power" the
    private power method (Nicolas et al. 2024, :arxiv:`2411.01931`), "alternating" and "deflation"
    follow Hardt and Roth (2013, :arxiv:`1211.0975`). Mathematics, proofs and all references:
    :doc:`/pca_svd` for rows, :doc:`/entries` for other units. Readings of rows: "covariance" 2,
    "power" ``n_iter + 2``, one more for a bound that is None. :ref:`memory`.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skdp import DPPCA
    >>> X = load_digits().data
    >>> pca = DPPCA(n_components=5, epsilon=1.0, delta=1e-6, mean_norm=64, row_norm=40).fit(X)
    >>> pca.components_.shape
    (5, 64)
    >>> [release.name for release in pca.privacy_spent_.releases]
    ['mean', 'second moment']
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_components": [
            checks.AT_LEAST_ONE,
            Interval(RealNotInt, 0, 1, closed="neither"),
            StrOptions({"mle"}),
            None,
        ],
        "whiten": ["boolean"],
        "center": [StrOptions({"private"}), Options(bool, {False}), "array-like"],
        **MatrixEstimator._parameter_constraints,
        **MatrixEstimator._component_constraints,
        "prior": "no_validation",  # `check_prior` checks the prior.
    }

    _is_pca = True

    n_components: int | float | str | None = None
    _: KW_ONLY
    whiten: bool = False
    center: Any = "private"
    epsilon: float = 1.0
    delta: float = 1e-6
    privacy_unit: Any = "row"
    adjacency: str = "replace"
    row_norm: float | None = None
    mean_norm: float | None = None
    solver: str = "auto"
    n_iter: int | str = "auto"
    n_oversamples: int | str = "auto"
    coherence_bound: float | None = None
    prior: Any = PriorParameter(mean_and_covariance)
    ledger: Any = None
    n_jobs: int | None = None
    random_state: Any = None

    # The Gaussian model is probabilistic PCA, a low-rank covariance plus isotropic noise:
    # M. E. Tipping, C. M. Bishop (1999), Journal of the Royal Statistical Society B 61(3).

    def get_covariance(self) -> np.ndarray:
        """Covariance of the probabilistic model: low rank plus a multiple of the identity.

        Returns
        -------
        ndarray of shape (n_features, n_features)
            Model covariance. Covered by the guarantee.
        """
        check_is_fitted(self)
        excess = np.maximum(self.explained_variance_ - self.noise_variance_, 0.0)
        covariance = (self.components_.T * excess) @ self.components_
        covariance.flat[:: len(covariance) + 1] += self.noise_variance_
        return np.asarray(covariance)

    def get_precision(self) -> np.ndarray:
        """Inverse of the model covariance, whose variances are first raised above rounding errors.

        Returns
        -------
        ndarray of shape (n_features, n_features)
            Model precision. Covered by the guarantee.
        """
        check_is_fitted(self)
        along, outside = self._model_variances()
        # `rest` spans the orthogonal complement. The identity minus the projection on components
        # could replace `rest`, but has rounding errors, which a small noise variance magnifies.
        rest = np.linalg.qr(self.components_.T, mode="complete")[0][:, len(along) :]
        precision = (self.components_.T / along) @ self.components_ + rest @ rest.T / outside
        return np.asarray((precision + precision.T) / 2)

    @checks.by_chunks
    def score_samples(self, X: Any) -> Any:
        """Log-likelihood of each row under the probabilistic model.

        Parameters
        ----------
        X : {array-like, RowBlocks, dask collection} of shape (n_samples, n_features)
            Rows. The guarantee does not cover the result.

        Returns
        -------
        ndarray, PartResults or dask array of shape (n_samples,)
            Log-likelihoods; those of blocks or chunks are computed when they are read.
        """
        return checks.results_of(
            checks.check_rows_of(X, self, accept_sparse=False), self._log_likelihoods
        )

    def _log_likelihoods(self, X: np.ndarray) -> np.ndarray:
        """Compute log-likelihoods of rows, which the privacy unit scales first, as in the fit."""
        rows = self._unit.normalize(X)
        centered = rows - self.mean_.astype(np.float64)
        # The precision matrix is not used: with small variances, its entries would cancel in sums.
        scores = centered @ self.components_.T
        rest = centered - scores @ self.components_
        along, outside = self._model_variances()
        n_outside = centered.shape[1] - len(along)
        squares = np.square(scores) @ (1 / along) + np.square(rest).sum(axis=1) / outside
        log_volume = np.log(2 * np.pi * along).sum() + n_outside * np.log(2 * np.pi * outside)
        return np.asarray(-0.5 * (squares + log_volume))

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-likelihood of rows under the probabilistic model.

        Parameters
        ----------
        X : {array-like, RowBlocks, dask collection} of shape (n_samples, n_features)
            Rows. The guarantee does not cover the result.
        y : None
            Ignored.

        Returns
        -------
        float
            Mean log-likelihood.
        """
        X, _ = checks.in_parts(X)
        return float(computed(self.score_samples(X), self.n_jobs).mean())

    def _set_factors(self, factors: Factors, spec: MatrixSpec) -> int:
        """Set components, variances and the noise variance from released factors."""
        n_rows, dtype = spec.shape[0], spec.dtype
        degrees_of_freedom = max(n_rows - 1, 1)
        wanted = n_components = choose_rank(spec.n_components, factors, n_rows, dtype)
        if isinstance(spec.n_components, str | float) and factors.eigenvalue_noise > 0:
            # A fraction and "mle" leave out components that may be noise.
            n_components = min(wanted, max(factors.n_above_noise, 1))
        leading = factors.eigenvalues[:n_components] / degrees_of_freedom
        # Noise may make the total smaller than the sum of the leading variances.
        total = max(factors.total / degrees_of_freedom, leading.sum())
        self.n_samples_, self.n_components_ = n_rows, n_components
        n_left_out = min(spec.shape) - n_components
        noise_variance = (total - leading.sum()) / n_left_out if n_left_out else 0.0
        # Noise may leave no variance outside the components: the precision would be infinite.
        least = factors.eigenvalue_noise / degrees_of_freedom
        self.noise_variance_ = float(max(noise_variance, least))
        self._set_components(factors.leading(n_components), leading, total, dtype)
        if isinstance(spec, RowsSpec) and spec.prior is not None:
            self.prior_weight_ = factors.prior_weight
        if isinstance(spec, RowsSpec) and factors.noise_errors is not None:
            errors, angles = (each[:n_components] for each in factors.noise_errors)
            self.explained_variance_std_error_ = in_dtype(errors / degrees_of_freedom, dtype)
            self.components_noise_angle_ = in_dtype(angles, dtype)
        return wanted

    @property
    def _projection(self) -> Projection:
        stds = self._whitening_stds() if self.whiten else None
        return super()._projection._replace(mean=self.mean_, stds=stds)

    def _model_variances(self) -> tuple[np.ndarray, float]:
        """Return the variances along the components, and the variance outside them.

        Variances are raised to at least the noise variance and the rounding error of the largest
        variance, so that the likelihood is finite.
        """
        variances = self.explained_variance_.astype(np.float64)
        largest = max(float(variances.max()), self.noise_variance_) or 1.0
        rounding = np.finfo(self.components_.dtype).eps * largest
        smallest = max(self.noise_variance_, rounding, np.finfo(np.float64).tiny)
        along = np.maximum(variances, smallest)
        is_whole = len(along) == self.components_.shape[1]
        return along, float(along.min()) if is_whole else smallest

    def _whitening_stds(self) -> np.ndarray:
        """Return the divisors for whitening: roots of variances, at least of the noise variance."""
        smallest = max(self.noise_variance_, float(np.finfo(self.explained_variance_.dtype).eps))
        # In float32 a variance may overflow although its root does not.
        stds = np.sqrt(np.maximum(self.explained_variance_.astype(np.float64), smallest))
        return stds.astype(self.explained_variance_.dtype)


@checks.with_parameters
class DPTruncatedSVD(OnePassMixin, MatrixEstimator):  # numpydoc ignore=PR02
    """Truncated SVD with differential privacy for rows, entries or edges.

    An entry is not a person: if a person is a row, keep ``privacy_unit="row"``. Other units protect
    a single rating, click or friendship; a person with many ratings is protected far less.

    Finds the leading right singular vectors of X without centering it, so that sparse data stay
    sparse. Publishes them, the singular values and the explained variances under (epsilon,
    delta)-differential privacy. For rows without negative entries, such as counts by people and
    items, the released mean guides the search: :ref:`mean-as-a-guide`. With ``epsilon=inf`` and
    no bounds it equals :class:`sklearn.decomposition.TruncatedSVD`.

    Parameters
    ----------
    n_components : int, default=2
        Number of components, at most the number of features; and, unless ``privacy_unit="row"``, at
        most the number of rows.
    epsilon : float, default=1.0
        Privacy budget of one fit, dimensionless, ``0 < epsilon <= inf``. Smaller is more private;
        ``inf`` switches the noise off.
    delta : float, default=1e-6
        Probability with which the guarantee may fail, ``0 <= delta < 1``, well below one over the
        number of units. 0 is pure differential privacy, for entries, edges and spectral changes.
    privacy_unit : "row", "user" or object of skdp.units, default="row"
        What is protected: a row; all rows of a user (:doc:`/user_guide/people_with_several_rows`);
        or what the object says (:doc:`/user_guide/entries_and_edges`).
    adjacency : {"replace", "zero_out"}, default="replace"
        Neighboring datasets differ by exchanging one unit for any other, or by one that is null,
        which takes less noise and promises less: :doc:`/user_guide/what_is_protected`.
    row_norm : float or None, default=None
        Public bound on the norm of a row, in the units of X, only for rows and users, and else
        refused; longer rows are scaled down to it. From 1e-100 to 1e100, or ``inf`` with
        ``epsilon=inf``. ``None`` estimates a quantile of the norms privately, from .2 to 1
        by public facts: :ref:`private-scale`.
    mean_norm : float or None, default=None
        The same bound for the column means, which `explained_variance_` needs. ``None`` takes the
        bound of `row_norm`.
    solver : {"auto", "covariance", "power", "alternating", "deflation", "input"}, default="auto"
        For rows ``"covariance"`` releases the matrix of second moments, in O(n_features ** 2)
        memory; ``"power"`` iterates, in O(n_samples + n_features * n_components) memory.
        For other units ``"alternating"``, ``"power"`` and ``"deflation"`` multiply released bases
        by X, and ``"input"`` adds noise to every entry; interactions take "power" or "covariance".
        ``"auto"`` chooses by public facts and, for rows, by the released count of mostly positive
        rows: :ref:`solvers`, :ref:`solvers-of-units`.
    n_iter : int or "auto", default="auto"
        For "power", "alternating" and "deflation": number of steps, 1 to 100. ``"auto"`` is 3 for
        rows, 4 or 5 if the mean guides, 6 to 22 by the budget for interactions, else 5 to 8, or 1
        from an exact basis with ``epsilon=inf``. With a number here or for `n_oversamples`, the
        mean guides no iteration.
    n_oversamples : int or "auto", default="auto"
        For "power" and "alternating": columns beyond `n_components` in a basis.
        ``"auto"`` is `n_components` for rows; else 1 to 16 by the budget, or 0 with ``delta=0``.
    coherence_bound : float or None, default=None
        Only for iterations ("alternating", "power", "deflation") of entries and edges, else
        refused: the coherence for which noise is scaled. The first basis that exceeds the bound
        ends the fit as failed, with all its budget spent. ``None`` scales the noise to each basis.
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
    components_ : ndarray of shape (n_components, n_features)
        Right singular vectors. Covered by the guarantee.
    explained_variance_ : ndarray of shape (n_components,)
        Variance of the clipped rows along each component. Spectral changes release no means: for
        them this is the mean square. Covered by the guarantee.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        Fraction of the total variance along each component; for spectral changes, of the total
        along all components. Covered by the guarantee.
    singular_values_ : ndarray of shape (n_components,)
        Singular values of X with its rows or entries clipped; for interactions, of the scaled
        rows. Covered by the guarantee.
    mean_ : ndarray of shape (n_features,)
        Released mean of clipped rows; zeros for spectral changes. Covered by the guarantee.
    row_norm_ : float
        For ``privacy_unit="row"``: bound that the rows were clipped to. Covered by the guarantee.
    left_components_ : ndarray of shape (n_samples, n_components)
        Left singular vectors, for entries, edges and spectral changes only. They and their products
        with `singular_values_` are covered by the guarantee, unlike `transform`.
    coherence_left_, coherence_right_ : float
        Coherence of the released singular vectors, from 1 (evenly spread) up. The left one only
        with `left_components_`, and neither for ``privacy_unit="row"``. Covered by the guarantee.
    failed_ : bool
        Whether a basis exceeded `coherence_bound`; not for whole rows. Covered by the guarantee.
    privacy_spent_ : PrivacySpent
        Record of every release. Public.
    n_features_in_ : int
        Number of features. Public.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if X has names that are strings. Public.

    See Also
    --------
    sklearn.decomposition.TruncatedSVD, DPPCA : Without privacy; with private centering.

    Notes
    -----
    **Privacy.** Unit: `privacy_unit`. Adjacency: `adjacency`. Mechanism: Gaussian, accounted for
    exactly in Gaussian differential privacy, or Laplace with ``delta=0``. Rows are clipped to
    `row_norm`, and to `mean_norm` for the column means if that is given; entries are clipped to
    their bounds. Released: for rows, how many are mostly positive; the column means, twice if they
    guide an iteration; ten counts if ``row_norm=None``; the sum of squares, if rows are not the
    unit; and by the solver second moments, products with released bases, or all entries.
    `plan` lists every release before a fit, `privacy_spent_` afterwards. Assumed public: the shape
    of X, its dtype, whether it is dense or sparse, feature names, and parameters. NaN and infinity
    are refused, which reveals that there are none. Not covered: what `transform` and
    `fit_transform` return, a noise-free function of the rows; and the running time.

    "covariance" is Analyze Gauss (Dwork et al. 2014, :doi:`10.1145/2591796.2591883`), "power" the
    private power method (Nicolas et al. 2024, :arxiv:`2411.01931`), "alternating" and "deflation"
    follow Hardt and Roth (2013, :arxiv:`1211.0975`). Mathematics, proofs and all references:
    :doc:`/pca_svd` for rows, :doc:`/entries` for the other units. Readings of rows: "covariance" 2,
    "power" ``n_iter + 2``, one more for a bound that is None. :ref:`memory`.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skdp import DPTruncatedSVD
    >>> X = load_digits().data
    >>> svd = DPTruncatedSVD(n_components=3, epsilon=2.0, delta=1e-6, row_norm=70).fit(X)
    >>> svd.transform(X).shape
    (1797, 3)
    >>> round(svd.privacy_spent_.epsilon_at(1e-6), 3)
    2.0
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_components": [checks.AT_LEAST_ONE],
        **MatrixEstimator._parameter_constraints,
        **MatrixEstimator._component_constraints,
    }

    n_components: int = 2
    _: KW_ONLY
    epsilon: float = 1.0
    delta: float = 1e-6
    privacy_unit: Any = "row"
    adjacency: str = "replace"
    row_norm: float | None = None
    mean_norm: float | None = None
    solver: str = "auto"
    n_iter: int | str = "auto"
    n_oversamples: int | str = "auto"
    coherence_bound: float | None = None
    ledger: Any = None
    n_jobs: int | None = None
    random_state: Any = None

    def _check_one_pass(self) -> None:
        is_row = isinstance(self.privacy_unit, str) and self.privacy_unit == "row"
        is_bounded = self.row_norm is not None or self.epsilon == math.inf
        if not (is_row and is_bounded and self.solver == "covariance"):
            raise ValueError(
                "partial_fit needs privacy_unit='row', solver='covariance' and a row_norm that is "
                "known without looking at X. Pass these, or call fit with all rows."
            )

    def _sums_of(self, spec: Any, rows: Any) -> tuple[np.ndarray, ...]:
        gram, _ = clipped(rows, spec.row_norm).gram()
        return gram, rows.cache.total, np.asarray(rows.cache.n_mostly_positive or 0.0)

    def _known_sums(self, spec: Any, sums: tuple[np.ndarray, ...]) -> dict[str, Any]:
        gram, total, n_positive = sums
        bound = float(bound_of_mean(spec))
        cache = RowCache(n_mostly_positive=float(n_positive), total=total, bound=bound)
        return {"moment": gram, "cache": cache}

    def _set_factors(self, factors: Factors, spec: MatrixSpec) -> int:
        """Set components and variances around the released mean."""
        assert isinstance(spec.n_components, int)
        factors, mean = factors.leading(spec.n_components), factors.mean
        n_rows, dtype = spec.shape[0], spec.dtype
        # A variance is a mean square minus the squared mean. Noise raises a squared mean by the
        # variance of the noise, on average, which is subtracted.
        squared_means = (factors.components @ mean) ** 2 - factors.mean_noise_variance
        squared_means = np.maximum(squared_means, 0.0)
        variances = np.maximum(factors.eigenvalues / n_rows - squared_means, 0.0)
        squared_mean = max(mean @ mean - len(mean) * factors.mean_noise_variance, 0.0)
        total = max(factors.total / n_rows - squared_mean, variances.sum())
        self._set_components(factors, variances, total, dtype)
        return spec.n_components
