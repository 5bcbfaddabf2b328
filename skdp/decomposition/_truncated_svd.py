"""Truncated singular value decomposition of private rows."""

from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from skdp.decomposition._matrix_estimator import MatrixEstimator
from skdp.decomposition._problem import Factors, MatrixProblem


class DPTruncatedSVD(MatrixEstimator):
    """Truncated SVD with differential privacy for rows, entries or edges.

    One entry is not one person: if a person is a row, keep ``privacy_unit="row"``. The other units
    protect a single rating, click or friendship; they protect people with many of them far less.

    Finds the leading right singular vectors of X without centering it, so that sparse data stay
    sparse, and publishes them, the singular values and the explained variances under (epsilon,
    delta)-differential privacy. For rows without negative entries, such as tables of people and
    items, the released mean guides the search: :ref:`mean-as-a-guide`. With ``epsilon=inf``, no
    bounds and a solver that sees the whole matrix ("covariance" or "input") it computes what
    :class:`sklearn.decomposition.TruncatedSVD` does.

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
        ``epsilon=inf``. ``None`` estimates a quantile of the norms privately, from .2 to .95
        by public facts: :ref:`private-scale`.
    mean_norm : float or None, default=None
        The same bound for the column means, which `explained_variance_` needs. ``None`` takes that
        of `row_norm`.
    solver : {"auto", "covariance", "adaptive", "power", "alternating", "deflation", "input"}, \
            default="auto"
        For rows ``"covariance"`` releases the matrix of second moments, in O(n_features ** 2)
        memory; ``"adaptive"`` refines it where that pays; ``"power"`` iterates, in
        O(n_samples + n_features * n_components) memory.
        For other units ``"alternating"``, ``"power"`` and ``"deflation"`` multiply released bases
        by X, and ``"input"`` adds noise to every entry. ``"auto"`` chooses by public facts and,
        for rows, by the released count of those that are mostly positive: :ref:`solvers`,
        :ref:`solvers-of-units`.
    n_iter : int or "auto", default="auto"
        For "power", "alternating" and "deflation": number of steps, 1 to 100. ``"auto"`` is 3 for
        rows, 4 or 5 if guided, else 5 to 8. A number here or for `n_oversamples` keeps the mean
        from guiding an iteration.
    n_oversamples : int or "auto", default="auto"
        For "adaptive", "power" and "alternating": columns beyond `n_components` in a basis.
        ``"auto"`` is `n_components` for rows; else 1, or 0 with ``delta=0``.
    coherence_bound : float or None, default=None
        Only for iterations ("alternating", "power", "deflation") of entries and edges, else
        refused: coherence that the noise is scaled for. The first basis that exceeds it ends the
        fit as failed, with all its budget spent. ``None`` scales the noise to each basis.
    ledger : PrivacyLedger or None, default=None
        Where the whole cost of a fit is charged before its first release. ``None`` keeps no ledger.
    n_jobs : int or None, default=None
        Threads that share the data; no number depends on it. ``None`` uses the threads of BLAS.
    random_state : int, RandomState or Generator instance or None, default=None
        ``None`` takes fresh noise in every fit, as the guarantee assumes. A secret int, such as
        ``secrets.randbits(128)``, repeats a fit in the same container on the same kind of machine;
        one that can be guessed voids the guarantee.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Right singular vectors. Covered by the guarantee.
    explained_variance_ : ndarray of shape (n_components,)
        Variance of the clipped rows along each component. Spectral changes release no means: there
        it is the mean square. Covered by the guarantee.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        Fraction of the total variance along each component; for spectral changes, of the total
        along all components. Covered by the guarantee.
    singular_values_ : ndarray of shape (n_components,)
        Singular values of X with its rows or entries clipped; for interactions, of the scaled
        rows. Covered by the guarantee.
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
    are refused, which tells that there are none. Not covered: what `transform` and `fit_transform`
    return, a noise-free function of the rows; and the running time.

    "covariance" is Analyze Gauss (Dwork et al. 2014, :doi:`10.1145/2591796.2591883`), "power" the
    private power method (Nicolas et al. 2024, :arxiv:`2411.01931`), "alternating" and "deflation"
    follow Hardt and Roth (2013, :arxiv:`1211.0975`). Mathematics, proofs and all references:
    :doc:`/pca_svd` for rows, :doc:`/entries` for the other units. Readings of rows: "covariance" 2,
    "adaptive" 2 or 4, "power" ``n_iter + 2``, one more for a bound that is None. :ref:`memory`.

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
        "n_components": [Interval(Integral, 1, None, closed="left")],
        **MatrixEstimator._parameter_constraints,
        **MatrixEstimator._component_constraints,
    }

    def __init__(
        self,
        n_components: int = 2,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        privacy_unit: Any = "row",
        adjacency: str = "replace",
        row_norm: float | None = None,
        mean_norm: float | None = None,
        solver: str = "auto",
        n_iter: int | str = "auto",
        n_oversamples: int | str = "auto",
        coherence_bound: float | None = None,
        ledger: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.privacy_unit = privacy_unit
        self.adjacency = adjacency
        self.row_norm = row_norm
        self.mean_norm = mean_norm
        self.solver = solver
        self.n_iter = n_iter
        self.n_oversamples = n_oversamples
        self.coherence_bound = coherence_bound
        self.ledger = ledger
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _set_factors(self, factors: Factors, problem: MatrixProblem) -> int:
        assert isinstance(problem.n_components, int)
        factors, mean = factors.leading(problem.n_components), factors.mean
        n_rows, dtype = problem.shape[0], problem.dtype
        # A variance is a mean square less the squared mean. On average, noise adds its variance to
        # the square of each coordinate of the mean.
        squared_means = np.maximum(
            (factors.components @ mean) ** 2 - factors.mean_noise_variance, 0.0
        )
        variances = np.maximum(factors.eigenvalues / n_rows - squared_means, 0.0)
        squared_mean = max(mean @ mean - len(mean) * factors.mean_noise_variance, 0.0)
        total = max(factors.total / n_rows - squared_mean, variances.sum())
        self._set_components(factors, variances, total, dtype)
        return problem.n_components
