"""Search over random candidates, within one budget."""

import os
from collections.abc import Iterable
from numbers import Integral
from typing import Any, ClassVar

from sklearn.model_selection import ParameterSampler
from sklearn.utils._param_validation import Interval

from skdp.model_selection._search import BaseDPSearch
from skdp.privacy.noise import derived_seed


class DPRandomizedSearch(BaseDPSearch):
    """Search over random candidates; the whole search costs one `epsilon` and `delta`.

    It does what :class:`DPGridSearch` does, with candidates that are drawn from distributions.

    Parameters
    ----------
    estimator : estimator
        As in :class:`DPGridSearch`.
    param_distributions : dict or list of dict
        Parameters mapped to distributions or lists, as in
        :class:`~sklearn.model_selection.RandomizedSearchCV`.
    n_iter : int, default=3
        Number of candidates. Each candidate that needs a fit of its own leaves less budget for the
        others. A warning is given if a step needs more than five distinct fits.
    epsilon : float, default=1.0
        Privacy budget of everything that `fit` publishes, dimensionless, ``0 < epsilon <= inf``.
    delta : float, default=1e-6
        Probability with which the guarantee may fail, ``0 < delta < 1``, well below one over the
        number of units.
    scoring : str, callable or None, default=None
        As in :class:`DPGridSearch`.
    refit : bool, default=True
        Whether to keep an estimator. Without it the budget of the last fit goes to the fits of the
        search.
    ledger : PrivacyLedger or None, default=None
        Where the whole cost is charged, once, before the first release.
    random_state : int, RandomState or Generator instance or None, default=None
        Also draws the candidates; ``None`` takes fresh noise and candidates.

    Attributes
    ----------
    best_estimator_ : estimator
        The chosen estimator, with ``refit=True``. Covered by the guarantee.
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
    DPGridSearch : The same search over all candidates of a grid, with its mechanisms in detail.

    Notes
    -----
    **Privacy.** The same as of :class:`DPGridSearch`. Unit and adjacency: those of the private
    steps. Mechanisms: those of the fits, Gaussian counts for the level that losses are clipped to,
    and the exponential mechanism for the choice (McSherry and Talwar 2007,
    :doi:`10.1109/FOCS.2007.66`). Released: what the fits release, the level, and the choice.
    Assumed public: the shape of X and all parameters, including drawn ones.

    Examples
    --------
    >>> from scipy.stats import randint
    >>> from sklearn.datasets import load_digits
    >>> from skdp import DPPCA
    >>> from skdp.model_selection import DPRandomizedSearch
    >>> X = load_digits().data
    >>> pca = DPPCA(row_norm=40, mean_norm=64)
    >>> search = DPRandomizedSearch(pca, {"n_components": randint(2, 30)}, n_iter=10).fit(X)
    >>> len(search.cv_results_["params"])
    10
    >>> search.n_distinct_fits_
    {'estimator': 1}
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseDPSearch._parameter_constraints,
        "param_distributions": [dict, list],
        "n_iter": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        estimator: Any,
        param_distributions: Any,
        *,
        n_iter: int = 3,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        scoring: Any = None,
        refit: bool = True,
        ledger: Any = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.param_distributions = param_distributions
        self.n_iter = n_iter
        self.epsilon = epsilon
        self.delta = delta
        self.scoring = scoring
        self.refit = refit
        self.ledger = ledger
        self.random_state = random_state

    def _grid(self, seed: int | None) -> Iterable[dict[str, Any]]:
        # Never numpy's global generator, which anybody in the process can reset.
        candidate_seed = int.from_bytes(os.urandom(4), "little")
        if seed is not None:
            candidate_seed = derived_seed(seed, "search", "candidates") % 2**32
        n_iter = int(self.n_iter)
        return ParameterSampler(self.param_distributions, n_iter, random_state=candidate_seed)
