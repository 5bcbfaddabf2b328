"""Exhaustive search over a grid, within one budget."""

from collections.abc import Iterable
from typing import Any, ClassVar

from sklearn.model_selection import ParameterGrid

from skdp.model_selection._search import BaseDPSearch


class DPGridSearch(BaseDPSearch):
    """Search over a grid of hyperparameters; the whole search costs one `epsilon` and `delta`.

    All distinct fits share one budget. One candidate is chosen privately, by the rows that all
    candidates were fitted to. If the candidates needed different fits, the chosen one is fitted
    again with most of the budget. Parameters that only say what to make of released numbers are
    free: one fit serves all of their values, as for `n_components` of :class:`skdp.DPPCA` with
    ``solver="covariance"``.

    Parameters
    ----------
    estimator : estimator
        A private estimator that protects rows, records or responses, or a
        :class:`~sklearn.pipeline.Pipeline` of such estimators, of steps that learn nothing
        (`Binarizer`, `Normalizer`, `FunctionTransformer`, `AdditiveChi2Sampler`,
        `HashingVectorizer`, `FeatureHasher`, and `SimpleImputer` and `OneHotEncoder` whose
        parameters say all) and of :class:`~sklearn.frozen.FrozenEstimator`. The caller has to make
        sure that the function of a `FunctionTransformer` takes every row by itself, and that frozen
        estimators were fitted to public rows. The epsilons of private steps only say in which
        proportions they share the budget. Or a :class:`skdp.DPPipeline`, whose shares are taken.
    param_grid : dict or list of dict
        Parameters mapped to lists of values, as in :class:`~sklearn.model_selection.GridSearchCV`.
        Parameters of the guarantee are refused: :func:`skdp.model_selection.epsilon_curve` tells
        what more epsilon buys. A warning is given if a step needs more than five distinct fits.
    epsilon : float, default=1.0
        Privacy budget of everything that `fit` publishes, dimensionless, ``0 < epsilon <= inf``.
    delta : float, default=1e-6
        Probability with which the guarantee may fail, ``0 < delta < 1``, well below one over the
        number of units.
    scoring : str, callable or None, default=None
        What candidates are judged by: ``"neg_mean_squared_error"`` (which orders them as ``"r2"``
        does), ``"neg_mean_absolute_error"``, ``"accuracy"``, ``"log_likelihood"``,
        ``"reconstruction"``, or a callable ``(estimator, X, y)`` that returns one score for each
        row. The caller has to make sure that it computes each score from that row alone. ``None``
        takes the accuracy for classifiers, the squared error for estimators that predict, the
        log-likelihood for those with `score_samples`, and else the reconstruction error, which is
        smallest with the most components.
    refit : bool, default=True
        Whether to keep an estimator. Without it the budget of the last fit goes to the fits of the
        search.
    ledger : PrivacyLedger or None, default=None
        Where the whole cost is charged, once, before the first release.
    random_state : int, RandomState or Generator instance or None, default=None
        ``None`` takes fresh noise, as the guarantee assumes. A secret int repeats a search; one
        that can be guessed voids the guarantee.

    Attributes
    ----------
    best_estimator_ : estimator
        The chosen estimator, with ``refit=True``. Covered by the guarantee. Its parameters
        `epsilon` and `delta` are those of `estimator`; what was spent is in its `privacy_spent_`.
    best_params_ : dict
        Parameters of the chosen candidate. Covered by the guarantee.
    best_index_ : int
        Number of the chosen candidate. Covered by the guarantee.
    cv_results_ : dict
        The candidates: ``params``, ``param_*`` and ``selected``. No scores are released.
    n_distinct_fits_ : dict
        How many fits each private step took for all candidates. Public.
    privacy_spent_ : PrivacySpent
        Record of every release of the search. `best_estimator_` and its private steps have the same
        record.
    n_features_in_ : int
        Number of features. Public.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if X has names that are strings. Public.

    See Also
    --------
    DPRandomizedSearch : The same search with candidates drawn at random.
    skdp.model_selection.matched_noise : For a search on public rows, which costs nothing.

    Notes
    -----
    **Privacy.** Unit and adjacency: those of the private steps, which have to agree; rows and
    records together are records, a record being a row with its response. Mechanisms: those of the
    fits; a binary search with Gaussian counts for the level that losses are clipped to; and the
    exponential mechanism [1]_ for the choice, whose cost is exact in Gaussian differential privacy.
    The median of a row's losses is subtracted from them, and the differences are clipped to half of
    the level. So one row moves the difference between two candidates by at most twice the level.
    Released: all that the fits release, ten counts, and the choice. Assumed public: the shape of X
    and the parameters. The squares of mu of all fits and of the choice add up to that of
    (`epsilon`, `delta`). The choice takes 5% of it where one fit serves all candidates, else 10%. A
    last fit takes nine times as much as a fit of the search. Not covered: what `predict`,
    `transform` and `score` return.

    There is no `n_jobs`, no `cv` and no `error_score`; set the threads on the estimator. Candidates
    are judged by the rows that they were fitted to: holding rows back costs more than it gains,
    because privacy limits overfitting. Where every candidate needs a fit of its own, a search
    seldom beats a sensible default at an epsilon up to 2: :doc:`/user_guide/choosing_settings`.

    References
    ----------
    .. [1] F. McSherry, K. Talwar (2007). "Mechanism design via differential privacy". FOCS.
       :doi:`10.1109/FOCS.2007.66`

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skdp import DPPCA
    >>> from skdp.model_selection import DPGridSearch
    >>> X = load_digits().data
    >>> pca = DPPCA(row_norm=40, mean_norm=64)
    >>> search = DPGridSearch(pca, {"n_components": [2, 5, 10, 20]}, epsilon=1.0).fit(X)
    >>> search.n_distinct_fits_
    {'estimator': 1}
    >>> search.best_params_["n_components"] in (2, 5, 10, 20)
    True
    >>> round(search.best_estimator_.privacy_spent_.epsilon, 2)
    1.0
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseDPSearch._parameter_constraints,
        "param_grid": [dict, list],
    }

    def __init__(
        self,
        estimator: Any,
        param_grid: Any,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        scoring: Any = None,
        refit: bool = True,
        ledger: Any = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.epsilon = epsilon
        self.delta = delta
        self.scoring = scoring
        self.refit = refit
        self.ledger = ledger
        self.random_state = random_state

    def _grid(self, seed: int | None) -> Iterable[dict[str, Any]]:
        return ParameterGrid(self.param_grid)
