"""Principal component analysis of private rows."""

from numbers import Integral
from typing import Any, ClassVar

from sklearn.utils._param_validation import Interval, Options, RealNotInt, StrOptions

from skdp._estimator import in_dtype
from skdp.decomposition._base import BaseDecomposition
from skdp.decomposition._factors import Factors
from skdp.decomposition._gaussian_model import GaussianModelMixin
from skdp.decomposition._problem import DecompositionProblem
from skdp.decomposition._rank import choose_rank, ratios_of

__all__ = ["DPPCA"]


class DPPCA(GaussianModelMixin, BaseDecomposition):
    """Principal component analysis with differential privacy for rows, entries or edges.

    One entry is not one person: if a person is a row, keep ``privacy_unit="row"``. The other units
    protect a single value, and people with many of them far less.

    Centres X by a private mean and publishes the principal components, the mean and the explained
    variances under (epsilon, delta)-differential privacy; rows as units are clipped after
    centring. With ``epsilon=inf``, no bounds and a solver that sees the whole matrix ("covariance"
    or "input") it computes what :class:`sklearn.decomposition.PCA` does.

    Parameters
    ----------
    n_components : int, float, "mle" or None, default=None
        Number of components. A float in (0, 1) takes as many as explain more than that share of the
        variance, ``"mle"`` as many as Minka's rule says, but none that noise hides; both read the
        released spectrum only and need the covariance solver. ``None`` is the smaller of the
        numbers of rows and features.
    whiten : bool, default=False
        Whether `transform` scales the components to unit variance, by released variances.
    center : "private", array-like of shape (n_features,) or False, default="private"
        ``"private"`` releases the mean of the rows, with a share .15 of the budget, .02 if rows are
        not the unit. An array, in the units of X, is a public centre. ``False`` does not centre,
        as interactions and spectral changes need it.
    epsilon : float, default=1.0
        Privacy budget of one fit, dimensionless, ``0 < epsilon <= inf``. Smaller is more private;
        ``inf`` switches the noise off.
    delta : float, default=1e-6
        Probability with which the guarantee may fail, ``0 <= delta < 1``. Choose it well below one
        over the number of protected units. 0 is pure differential privacy, which needs Laplace
        noise: for entries ("alternating"), edges ("power", "alternating") and spectral changes.
    privacy_unit : "row" or object of skdp.units, default="row"
        What is protected: one row of X, or what :class:`~skdp.units.Entry`,
        :class:`~skdp.units.Edge`, :class:`~skdp.units.Interaction`,
        :class:`~skdp.units.SparseRow` or :class:`~skdp.units.SpectralChange` says, with its bounds.
    adjacency : {"replace", "zero_out"}, default="replace"
        Neighbouring datasets differ by exchanging one row or entry for any other, or by one that is
        null: a row that contributes nothing, an entry that is 0. Interactions and spectral changes
        are the same in both. The shape of X is public. ``"zero_out"`` needs less noise and promises
        less: for rows, mu for "replace" is at most twice that for "zero_out".
    row_norm : float or None, default=None
        For ``privacy_unit="row"``, refused with others: public bound on the Euclidean norm of a row
        **after** centring, in the units of X; longer rows are scaled down to it. From 1e-100 to
        1e100, or ``inf`` with ``epsilon=inf``. ``None`` estimates the .95 quantile of these norms
        privately, a lower one if there are few rows; with ``epsilon=inf`` it clips nothing.
    mean_norm : float or None, default=None
        The same bound **before** centring, for the private mean. ``None`` estimates it privately,
        too. Refused unless ``center="private"``. If X is sparse, at most 1e8 times `row_norm`.
    solver : {"auto", "covariance", "adaptive", "power", "alternating", "deflation", "input"}, \
            default="auto"
        For rows: ``"covariance"`` releases the whole matrix of second moments, in
        O(n_features ** 2) memory. ``"adaptive"`` releases a rough matrix first, and spends the rest
        on more of it, or on products with its leading directions if those promise less noise.
        ``"power"`` is a block power iteration with clipped projections, in
        O(n_samples + n_features * n_components) memory. Only "covariance" takes an
        `n_components` that is not an int. ``"auto"`` takes it then; else "adaptive" for 400 to 1000
        features, "power" for more than 2000 (1000 for ``adjacency="zero_out"``), and "covariance"
        for the rest.

        For the other units: ``"alternating"`` multiplies released bases by X and its transpose in
        turn; ``"power"`` does so with a symmetric matrix;
        ``"deflation"`` finds one component after the other; ``"input"`` adds noise to every entry
        of X, in O(n_samples * n_features) memory. Entries take "alternating", "deflation" or
        "input", edges "power", "deflation" or "alternating", sparse rows "alternating", and
        interactions and spectral changes "power". ``"auto"`` takes the first of each, but
        "alternating" for edges whose rows are centred, and "input" for entries of a matrix so small
        that no iteration can do better, or without an `n_components`.
    n_iter : int or "auto", default="auto"
        Number of steps of an iteration, 1 to 100. ``"auto"`` is 3 for rows, 6 for interactions, 5
        for the alternating solver and deflation, and 8 for the power solver of symmetric matrices.
        More steps split the budget further.
    n_oversamples : int or "auto", default="auto"
        Columns beyond `n_components` in a basis; deflation has none. ``"auto"`` is `n_components`
        for the adaptive and the power solver of rows; else 1, or 0 with ``delta=0``.
    basis_cut : float or None, default=1.0
        Where the noise follows the released bases: rows of a basis are cut to so many times their
        mean square before it is multiplied, .01 at least. More helps a little where there is hardly
        any noise; ``None`` cuts nothing, and loses much where noise is strong. Off if
        ``epsilon=inf``. Other values than 1.0 are refused for rows, for "input", and beside
        `coherence_bound`.
    coherence_bound : float or None, default=None
        For the iterations of entries and edges, instead of `basis_cut`: noise is scaled for bases
        of this coherence, and the iteration ends as failed, its budget spent, with the first basis
        that exceeds it, as in the published algorithm [5]_; refused with others. ``None`` scales
        the noise by what each basis needs.
    n_jobs : int or None, default=None
        Number of threads that share the rows. ``None`` is 1, with multi-threaded matrix products.
    random_state : int, RandomState or Generator instance or None, default=None
        ``None`` takes fresh noise from the operating system in every fit: the setting that the
        guarantee is stated for. A secret int of at least 128 random bits, such as
        ``secrets.randbits(128)``, makes a fit repeatable in the same container and with the same
        `n_jobs`; a guessable one voids the guarantee.

    Attributes
    ----------
    components_ : ndarray of shape (`n_components_`, n_features)
        Principal axes, by descending variance. Covered by the guarantee.
    explained_variance_ : ndarray of shape (`n_components_`,)
        Variance of the clipped rows along each axis. Covered by the guarantee.
    explained_variance_ratio_ : ndarray of shape (`n_components_`,)
        Share of the total variance along each axis. Covered by the guarantee.
    singular_values_ : ndarray of shape (`n_components_`,)
        Singular values of the centred and clipped rows. Covered by the guarantee.
    mean_ : ndarray of shape (n_features,)
        Centre that was subtracted. Covered by the guarantee.
    noise_variance_ : float
        Mean variance along the axes left out, not below the scale of the noise in a variance.
        Covered by the guarantee.
    row_norm_ : float
        For ``privacy_unit="row"``: bound that the centred rows were clipped to. Covered by the
        guarantee.
    n_components_ : int
        Number of components. Covered by the guarantee.
    n_samples_ : int
        Number of rows. Public.
    left_components_ : ndarray of shape (n_samples, `n_components_`)
        Left singular vectors, for entries, edges and spectral changes only. Covered by the
        guarantee, as `transform` is not.
    coherence_left_, coherence_right_ : float
        Coherence of the left and the right singular vectors as released, the former where there are
        `left_components_`, both not for rows bounded by `row_norm`: from 1, spread evenly, to
        n_samples or n_features over the number of components. The larger, the more noise there is
        on a product, and mere noise may look coherent, too. Covered by the guarantee.
    failed_ : bool
        Whether a basis exceeded `coherence_bound`; not for rows bounded by `row_norm`. Covered by
        the guarantee.
    privacy_spent_ : PrivacySpent
        Record of every release. Public.
    n_features_in_ : int
        Number of features. Public.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if X has names that are strings. Public.

    See Also
    --------
    sklearn.decomposition.PCA : The algorithm without privacy.
    DPTruncatedSVD : The same without centring.

    Notes
    -----
    **Privacy.** Unit: `privacy_unit`. Adjacency: `adjacency`. Mechanism: Gaussian, accounted for
    exactly in Gaussian differential privacy [4]_, or Laplace with ``delta=0``. Rows as units are
    clipped to `mean_norm` for the mean, centred by it, and clipped to `row_norm`. Released: the
    mean (share .15 of the budget); for each bound that is None ten noisy counts that find it (share
    .03); with "covariance" the matrix of second moments [1]_; with "adaptive" that matrix, the
    squared coordinates in its leading directions, and then either the matrix three more times or
    two products with these directions and the variances along them; with "power" a histogram of
    projection norms and a product for each step, and the projected second moment [2]_, [3]_.
    Assumed public: the number of rows and features, the parameters, the feature names, the dtype of
    X and whether it is dense or sparse. NaN and infinity are refused, which tells that there are
    none. Not covered: what `transform`, `fit_transform`, `score` and `score_samples` return,
    noise-free functions of the rows.

    For the other units: an entry is clipped to its bounds; the product of X with a released basis
    then changes by at most the step of an entry times the largest row norm of the basis,
    however large X is [5]_. Released: the means of the columns (share .02 of the budget; not for a
    public centre) and the sum of squares (.01), neither for spectral changes; two products, or one
    of a symmetric matrix, for each step, and a last one of two bases (.02 of the rest); deflation
    releases a value for each component, too, and "input" the noisy matrix instead. With ``delta=0``
    the noise is Laplace noise for each row of a product, and spherical noise for the last product
    and for spectral changes [6]_; the shares of epsilon are .05, .03 and .05. Every sensitivity and
    noise scale is in `privacy_spent_`. The running time of a sparse product depends on how many
    entries are stored, which is private.

    Memory beside X: two numbers a row; O(n_features ** 2) for "covariance" and "adaptive", or a few
    arrays of n_features times twice n_components for "power"; and for each thread a block of dense
    rows, of 16 MB or of 256 rows if that is more. X is not copied if it is float32 or float64 and
    dense or CSR without duplicate entries; sparse rows are never centred explicitly. For the other
    units some 20 arrays of n_samples plus n_features times n_components + 1 numbers, and a copy of
    X in memory where an entry exceeds its bounds.

    References
    ----------
    .. [1] C. Dwork, K. Talwar, A. Thakurta, L. Zhang (2014). "Analyze Gauss: optimal bounds for
       privacy-preserving principal component analysis". STOC. :doi:`10.1145/2591796.2591883`
    .. [2] M. Hardt, E. Price (2014). "The noisy power method: a meta algorithm with applications".
       NIPS. :arxiv:`1311.2495`
    .. [3] J. Nicolas, C. Sabater, M. Maouche, S. Ben Mokhtar, M. Coates (2024). "Differentially
       private and decentralized randomized power method". :arxiv:`2411.01931`
    .. [4] J. Dong, A. Roth, W. J. Su (2022). "Gaussian differential privacy". Journal of the Royal
       Statistical Society B 84(1). :doi:`10.1111/rssb.12454`
    .. [5] M. Hardt, A. Roth (2013). "Beyond worst-case analysis in private singular vector
       computation". STOC. :arxiv:`1211.0975`
    .. [6] M. Kapralov, K. Talwar (2013). "On differentially private low rank approximation". SODA.
       :doi:`10.1137/1.9781611973105.101`

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
            Interval(Integral, 1, None, closed="left"),
            Interval(RealNotInt, 0, 1, closed="neither"),
            StrOptions({"mle"}),
            None,
        ],
        "whiten": ["boolean"],
        "center": [StrOptions({"private"}), Options(bool, {False}), "array-like"],
        **BaseDecomposition._parameter_constraints,
    }

    _is_pca = True

    def __init__(
        self,
        n_components: int | float | str | None = None,
        *,
        whiten: bool = False,
        center: Any = "private",
        epsilon: float = 1.0,
        delta: float = 1e-6,
        privacy_unit: Any = "row",
        adjacency: str = "replace",
        row_norm: float | None = None,
        mean_norm: float | None = None,
        solver: str = "auto",
        n_iter: int | str = "auto",
        n_oversamples: int | str = "auto",
        basis_cut: float | None = 1.0,
        coherence_bound: float | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.whiten = whiten
        self.center = center
        self.epsilon = epsilon
        self.delta = delta
        self.privacy_unit = privacy_unit
        self.adjacency = adjacency
        self.row_norm = row_norm
        self.mean_norm = mean_norm
        self.solver = solver
        self.n_iter = n_iter
        self.n_oversamples = n_oversamples
        self.basis_cut = basis_cut
        self.coherence_bound = coherence_bound
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _set_factors(self, factors: Factors, problem: DecompositionProblem) -> int:
        n_rows, dtype = problem.shape[0], problem.dtype
        degrees_of_freedom = max(n_rows - 1, 1)
        variances = factors.eigenvalues / degrees_of_freedom
        total = factors.total / degrees_of_freedom
        wanted = n_components = choose_rank(problem.n_components, variances, total, n_rows, dtype)
        if isinstance(problem.n_components, str | float) and factors.noise_scale > 0:
            # A share of the variance may be out of reach of all but axes of noise.
            n_components = min(wanted, max(factors.n_above_noise, 1))
        kept = variances[:n_components]
        total = max(total, kept.sum())
        self.n_samples_, self.n_components_ = n_rows, n_components
        self.mean_ = in_dtype(factors.mean, dtype)
        self.explained_variance_ = in_dtype(kept, dtype)
        self.explained_variance_ratio_ = in_dtype(ratios_of(kept, total), dtype)
        n_left_out = min(problem.shape) - n_components
        noise_variance = (total - kept.sum()) / n_left_out if n_left_out else 0.0
        # A variance that noise has made 0 would make the precision infinite.
        self.noise_variance_ = float(max(noise_variance, factors.noise_scale / degrees_of_freedom))
        self._set_components(factors.leading(n_components), dtype)
        return wanted
