"""Exhaustive search over a grid, within one budget."""

from collections.abc import Iterable
from typing import Any, ClassVar

from sklearn.model_selection import ParameterGrid

from skdp.model_selection._search import BaseDPSearch

__all__ = ["DPGridSearch"]


class DPGridSearch(BaseDPSearch):
    r"""Search over a grid of hyperparameters whose whole cost is what the user asks for.

    Every distinct fit takes its part of one budget, one of the candidates is chosen privately by
    the rows that all were fitted to, and it is fitted again with most of the budget where the fits
    differ. Parameters that only say what to make of released numbers are free: one fit serves any
    number of them, such as `n_components` of :class:`skdp.DPPCA` with ``solver="covariance"``.

    Parameters
    ----------
    estimator : estimator
        A private estimator for rows, records or responses, or one
        :class:`~sklearn.pipeline.Pipeline` of such steps, steps that learn nothing (`Binarizer`,
        `Normalizer`, `FunctionTransformer`, `AdditiveChi2Sampler`, `HashingVectorizer`,
        `FeatureHasher`) and :class:`~sklearn.frozen.FrozenEstimator`. That a function of a
        `FunctionTransformer` takes every row by itself, and that what is frozen was fitted to
        public rows, is for the caller to see to. Its own epsilons only say in which ratio private
        steps share the budget.
    param_grid : dict or list of dict
        Parameters mapped to lists of values, as of :class:`~sklearn.model_selection.GridSearchCV`.
        Those of the guarantee are refused: :func:`skdp.model_selection.epsilon_curve` tells what
        more epsilon buys. More than five distinct fits of a step are warned of.
    epsilon : float, default=1.0
        Privacy budget of everything that `fit` publishes, dimensionless, ``0 < epsilon <= inf``.
    delta : float, default=1e-6
        Probability with which the guarantee may fail, ``0 < delta < 1``, well below one over the
        number of rows.
    scoring : str, callable or None, default=None
        What candidates are judged by: ``"neg_mean_squared_error"`` (which has the order of
        ``"r2"``), ``"neg_mean_absolute_error"``, ``"accuracy"``, ``"log_likelihood"``,
        ``"reconstruction"``, or a callable ``(estimator, X, y)`` that returns one score for each
        row, computed from that row alone, which is for the caller to see to. ``None`` takes the
        accuracy of a classifier, the squared error of what predicts, the log-likelihood of what has
        one, and the reconstruction error of others, which is least with most components.
    refit : bool, default=True
        Whether there is an estimator in the end. Without it the fits of the search have what a last
        fit would have had.
    ledger : PrivacyLedger or None, default=None
        Where the whole cost is charged, once, before the first release.
    random_state : int, RandomState or Generator instance or None, default=None
        ``None`` takes fresh noise, as the guarantee assumes. A secret int repeats a search; one
        that can be guessed voids the guarantee.

    Attributes
    ----------
    best_estimator_ : estimator
        The estimator that was chosen, with ``refit=True``. Covered by the guarantee. Its `epsilon`
        and `delta` are those that were given; what was spent is in its `privacy_spent_`.
    best_params_ : dict
        Its parameters in the grid. Covered by the guarantee.
    best_index_ : int
        Their number. Covered by the guarantee.
    cv_results_ : dict
        The candidates: ``params``, ``param_*`` and ``selected``. No scores: none are released.
    n_distinct_fits_ : dict
        How many fits each private step took for all candidates. Public.
    privacy_spent_ : PrivacySpent
        Record of every release of the search, also of `best_estimator_` and its private steps.
    n_features_in_ : int
        Number of features. Public.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if X has names that are strings. Public.

    See Also
    --------
    DPRandomizedSearch : The same with candidates drawn at random.
    skdp.model_selection.matched_noise : For a search on public rows, which costs nothing.

    Notes
    -----
    **Privacy.** Unit and adjacency: those of the private steps, which have to agree; a record is
    then a row with its response. Mechanism: those of the fits; a binary search by Gaussian counts
    for the level that losses are clipped to; and the exponential mechanism [1]_ for the choice,
    exact in Gaussian differential privacy. The losses of a row, less their median, are clipped to
    half of the level, so that one row moves the difference of two candidates by at most twice the
    level. Released: all that the fits release, ten counts, and the choice. Assumed public: the
    shape of X and the parameters. The squares of mu of all fits and of the choice add to that of
    (`epsilon`, `delta`); of it the choice takes 5% where one fit serves all candidates, else 10%,
    and a last fit nine times as much as one of the search. Not covered: what `predict`, `transform`
    and `score` return.

    There is no `n_jobs`, no `cv` and no `error_score`: set the threads of the estimator. Candidates
    are judged by the rows that they were fitted to: holding rows back costs more than
    it gains, as privacy bounds overfitting. Where every candidate takes a fit of its own, a search
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
