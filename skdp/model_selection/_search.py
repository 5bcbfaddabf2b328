"""Searches for hyperparameters in which fits and choice together cost one budget."""

import math
import os
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import KW_ONLY
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import MetaEstimatorMixin, _fit_context, clone
from sklearn.model_selection import ParameterGrid, ParameterSampler
from sklearn.model_selection._search import _yield_masked_array_for_each_param
from sklearn.utils._param_validation import HasMethods

from skdp._estimator import RequestsUsersMixin, check_unwatched, restored_on_error
from skdp._validation import (
    AT_LEAST_ONE,
    BUDGET,
    SEED,
    check_names,
    refuse_blocks,
    with_parameters,
)
from skdp.data.containers import checked_container, refuse_other_order
from skdp.data.people import People
from skdp.exceptions import warn_of_privacy, warnings_together
from skdp.model_selection import _fits as fits
from skdp.model_selection import _score as score
from skdp.pipeline._composition import common_unit, own_budget, steps_of, takes_column
from skdp.pipeline._rules import SharedBudget, set_by_the_whole
from skdp.pipeline._run import SpendsOneBudget, assembled, record_of, with_one_record
from skdp.privacy import Plan, PrivacyBudget, PrivacySpent, sensitivity
from skdp.privacy.noise import derived_seed, draw_seed
from skdp.privacy.plan import PrivacyCost

# If a step has more than `_MOST_FITS` fits, a search warns that its choice is not reliable.
_MOST_FITS = 5  # benchmarks/search/search.md, "What the tables say"
# This fraction of the share of a choice pays for the clip level of losses.
_RANGE_SHARE = 0.1  # not studied
# The range of a row's losses is over all candidates. The clip level is this quantile of the ranges
# of all rows; with few rows it is a lower quantile.
_LEVEL_QUANTILE = 0.75  # not studied


class BaseDPSearch(RequestsUsersMixin, MetaEstimatorMixin, SpendsOneBudget):
    """A search whose fits and choice share one budget."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "estimator": [HasMethods(["fit", "get_params"])],
        **score.SCORING,
        "refit": ["boolean"],
        **BUDGET,
        **SEED,
    }

    scoring: Any
    refit: bool

    @abstractmethod
    def _grid(self, seed: int | None) -> Iterable[dict[str, Any]]:
        """Return the candidates."""

    @_fit_context(prefer_skip_nested_validation=False)
    @warnings_together()
    def fit(self, X: Any, y: Any = None, *, users: Any = None) -> Self:
        """Fit the candidates, choose one, and fit it, spending the whole budget.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to protect, as `estimator` takes them.
        y : array-like of shape (n_samples,) or None, default=None
            Their responses.
        users : array-like of shape (n_samples,) or None, default=None
            Owner of each row, if all private steps have ``privacy_unit="user"``.

        Returns
        -------
        Self
            The fitted search.

        Raises
        ------
        ValueError
            If X, y, `users`, a parameter or a candidate is not acceptable; nothing has been spent
            then.
        BudgetError
            If the ledger has less left; nothing has been spent then.
        """
        scoring = score.checked_scoring(self.scoring, self.estimator)
        with restored_on_error(self):
            refuse_other_order(X, y=y)
            check_names(X, y, users, partial(takes_column, self.estimator, X))
            X, y = checked_container(X), checked_container(y)
            search = self._search(X, y, scoring, users)
            choice = _choice_plan(search, scoring)
            # Nothing has been charged when these calls refuse a budget, or warn of public facts.
            whole, charge = self._begin(
                search.run, search.split.whole, fits.warnings_for_fits(search)
            )
            records: dict[str, PrivacySpent] = {}
            candidates = fits.fit_candidates(search, charge, records)
            best, warnings = 0, list[str]()
            if choice is not None:
                runs = [one.run for one in search.candidates]
                models = map(assembled, runs, candidates)
                people = search.run.people
                judged = [score.unit_losses(scoring, model, X, y, people) for model in models]
                losses = np.column_stack(judged)
                noise = score.noise_for(losses, people, search.run.seed_of("choice"))
                budget = PrivacyBudget.of(choice, noise)
                best = choose(scoring, losses, people, choice.parts, budget)
                records["choice"], warnings = budget.spent(), list(budget.warnings)
            fitted = candidates[best]
            if search.split.final[best].by_step:
                fitted = fits.refit(search, best, fitted, records)
            spent = record_of(whole, records)
            warnings = [*fits.warnings_of_chosen(search, best, fitted), *warnings]
            model = with_one_record(search.candidates[best].run, fitted, spent, self.ledger)
            self._set_results(search, best, model, spent)
        # Warnings come last: if they become errors, the model, whose budget is spent, remains.
        warn_of_privacy(*warnings)
        return self

    def _search(self, X: Any, y: Any, scoring: Any, users: Any) -> fits.Search:
        """Refuse unusable arguments; return the candidates and their fits."""
        refuse_blocks(X, type(self).__name__)
        seed = draw_seed(self.random_state)
        check_unwatched("estimator: ", self.estimator)
        if isinstance(self.estimator, SharedBudget):
            for flaw in set_by_the_whole(self.estimator):
                raise ValueError(f"estimator: {flaw}")
        # A Pipeline has no budget: its steps share the budget of the search by their squares of mu.
        for name in sorted(own_budget(self.estimator).keys() - own_budget(self).keys()):
            warn_of_privacy(
                f"{name}={getattr(self.estimator, name):g} of the estimator is not used: all fits "
                f"and the choice share {name}={getattr(self, name):g} of {type(self).__name__}. "
                f"Pass {name} to the search instead."
            )
        cost, refits = self._cost(), bool(self.refit)
        facts = {"cost": cost, "seed": seed, "refits": refits, "users": users}
        search = fits.prepare_search(self.estimator, self._grid(seed), X, y, **facts)
        for one in search.candidates:
            if score.checked_scoring(self.scoring, one.run.estimator) != scoring:
                raise ValueError("Candidates are judged by different scores: pass scoring.")
        score.check_responses(X, y, scoring, type(search.run.steps[-1].estimator).__name__)
        # If many fits of one step share its budget, the choice is not reliable.
        most = max(search.split.n_fits.values())
        if most > _MOST_FITS and cost.is_private:
            warn_of_privacy(
                f"The chosen candidate may not be the best: the search fits one step {most} "
                f"times from one budget. Try at most {_MOST_FITS}, or tune on public rows with "
                "skdp.model_selection.matched_noise. Parameters that need no fit of their own, "
                "such as n_components with solver='covariance', are free."
            )
        return search

    def _wrapped(self) -> Any:
        """Return the fitted best estimator or, before a fit, the unfitted estimator."""
        if not self.refit:
            raise AttributeError(f"{type(self).__name__} with refit=False keeps no estimator.")
        return getattr(self, "best_estimator_", self.estimator)

    def _pattern(self) -> Any:
        return self.estimator

    @property
    def privacy_unit(self) -> str:
        """Unit that all private steps protect together."""
        return common_unit(steps_of(self.estimator))

    @property
    def best_score_(self) -> float:
        """Raise an error, as no score is released."""
        raise AttributeError(
            f"{type(self).__name__} has no best_score_: no score is released. "
            "skdp.model_selection.private_score releases one, on rows that no fit has used."
        )

    def _set_results(self, search: fits.Search, best: int, model: Any, spent: PrivacySpent) -> None:
        """Set the fitted attributes: the choice, the record and, with `refit`, the model."""
        # An earlier fit may have set this attribute, and this fit may not.
        self.__dict__.pop("best_estimator_", None)
        self._set_features(model)
        self.best_index_ = best
        params = [candidate.parameters for candidate in search.candidates]
        self.best_params_ = params[best]
        # Like `cv_results_` of scikit-learn, but without scores.
        columns = dict(_yield_masked_array_for_each_param(params))
        selected = np.arange(len(params)) == best
        self.cv_results_ = {"params": params, **columns, "selected": selected}
        self.n_distinct_fits_ = {name or "estimator": n for name, n in search.split.n_fits.items()}
        self.privacy_spent_ = spent
        if self.refit and isinstance(self.estimator, SharedBudget):
            chosen = clone(self.best_params_, safe=False)
            self.best_estimator_ = clone(self.estimator).set_params(**chosen, ledger=self.ledger)
            self.best_estimator_._keep(model, spent)
        elif self.refit:
            self.best_estimator_ = model


def _choice_plan(search: fits.Search, scoring: str) -> Plan | None:
    """Plan the choice; refuse a budget that is too small. None for a single candidate."""
    share, n_candidates = search.split.choice, len(search.candidates)
    if not share:
        return None
    cost = search.split.whole.share_of(share, search.split.whole.delta)
    run = search.run
    facts = {"n_units": run.n_units}
    if score.SCORES[scoring].of_counts:
        lasts = [candidate.run.steps[-1].estimator for candidate in search.candidates]
        classes, *others = {tuple(score.classes_for(scoring, last)) for last in lasts}
        if others:
            raise ValueError(
                f"scoring={scoring!r} needs candidates with the same classes: pass classes to "
                "estimator, and do not search over them."
            )
        facts["n_classes"] = len(classes)
    return plan_choice(scoring, n_candidates, cost, run.unit, run.adjacency, **facts)


def plan_choice(
    scoring: str,
    n_candidates: int,
    cost: PrivacyCost,
    unit: str,
    adjacency: str,
    *,
    n_units: int,
    n_classes: int = 0,
) -> Plan:
    """Plan the choice: by mean losses, by pairs in the wrong order for areas, or by outcomes."""
    level, share, known = None, 1.0, dict[str, Any]()
    change: Any = sensitivity.misordered_pairs
    if scoring == "roc_auc":
        rounding = n_units * np.finfo(np.float64).eps
        known = {"n_units": n_units, "adjacency": adjacency, "rounding": rounding}
    elif score.SCORES[scoring].of_counts:
        parts = score.plan_counts([n_classes**2] * n_candidates, cost, adjacency)
        return Plan(cost, parts, unit=unit, adjacency=adjacency)
    else:
        if not score.SCORES[scoring].is_bounded:
            level, share = score.plan_level(cost, "range of losses", _RANGE_SHARE)
        # Losses are divided by the clip level C, or in [0, 1] without one.
        change = partial(sensitivity.loss_range, 1.0, adjacency)
    choice = cost.release("candidate", "exponential", share, change, known, shape=(n_candidates,))
    return Plan(cost, (level, choice), unit=unit, adjacency=adjacency)


def choose(
    scoring: str, judged: np.ndarray, people: People | None, parts: Any, budget: PrivacyBudget
) -> int:
    """Choose the index of a candidate by the planned releases, `parts`.

    `judged` has the losses of each row by candidate, or what is counted for each row. From counted
    outcomes, the candidate with the best noisy score is chosen; else one which has, with high
    probability, a small total loss or, for areas, few pairs of scores in the wrong order.

    Only the differences between candidates matter, so the losses need no public bound. From the
    losses of a row their median is subtracted; the result is clipped to [-C / 2, C / 2]. So each
    row adds at most C to the difference between two candidates, and exchanging a row moves the
    difference by at most 2 C. The clip level C is a private quantile of the ranges of the rows'
    losses. Losses in [0, 1] need no clip level.
    """
    if isinstance(parts, score.CountedReleases):
        n_candidates, release = judged.shape[1], parts.counts
        sizes = [release.shape[0] // n_candidates] * n_candidates
        tables, _ = score.release_counts([*judged.T], sizes, people, release, budget)
        side, of_counts = math.isqrt(sizes[0]), score.COUNTED[scoring].of_counts
        return int(np.argmax([of_counts(one.reshape(side, side)) for one in tables]))
    search, choice = parts
    if scoring == "roc_auc":
        # As candidates have the same labels, fewer pairs in the wrong order mean a larger AUC.
        weights = np.ones(len(judged)) if people is None else people.weights
        is_second = judged[:, 1] == 1
        pairs = [misordered(scores, is_second, weights) for scores in judged[:, ::2].T]
        return budget.choose(choice, pairs)
    if search is None:
        losses = score.in_steps(np.clip(judged, 0.0, 1.0))
    else:
        ranges = np.ptp(judged, axis=1)
        level = score.release_level(search, ranges, budget, most=_LEVEL_QUANTILE)
        losses = centered_losses(judged, level)
    return budget.choose(choice, losses.sum(axis=0))


def centered_losses(losses: np.ndarray, level: float) -> np.ndarray:
    """Return the losses of each row minus their median, clipped to [-.5, .5] times `level`.

    The result is in units of `level`.
    """
    around = losses - np.median(losses, axis=1, keepdims=True)
    return score.in_steps(np.clip(around / level, -0.5, 0.5))


def misordered(scores: np.ndarray, is_second: np.ndarray, weights: np.ndarray) -> float:
    """Sum the weights of pairs of rows of both classes whose scores are in the wrong order.

    A pair of equal scores counts half.
    """
    order = np.argsort(scores[is_second])
    ordered = scores[is_second][order]
    weight_up_to = np.concatenate([[0.0], np.cumsum(weights[is_second][order])])
    first_class = scores[~is_second]
    below = weight_up_to[np.searchsorted(ordered, first_class, side="left")]
    up_to = weight_up_to[np.searchsorted(ordered, first_class, side="right")]
    # Weights are multiples of 2 ** -24, whose sums are exact.
    return math.fsum((weights[~is_second] * (below + up_to) / 2).tolist())


@with_parameters
class DPGridSearch(BaseDPSearch):  # numpydoc ignore=PR02
    """Search over a grid of hyperparameters; the whole search costs one `epsilon` and `delta`.

    All distinct fits share one budget. One candidate is chosen privately, by the rows that all
    candidates were fitted to. If the candidates needed different fits, the chosen candidate is
    fitted again with most of the budget. Parameters that change only what is computed from released
    numbers are free: one fit serves all of their values, such as those of `n_components` of
    :class:`skdp.DPPCA` with ``solver="covariance"``.

    Parameters
    ----------
    estimator : estimator
        A private estimator that protects rows, records, responses or users, or a
        :class:`~sklearn.pipeline.Pipeline` of such estimators, of steps that learn nothing
        (`Binarizer`, `Normalizer`, `FunctionTransformer`, `AdditiveChi2Sampler`,
        `HashingVectorizer`, `FeatureHasher`, and `CountVectorizer`, `SimpleImputer` and
        `OneHotEncoder` whose parameters state all values; `FeatureUnion` of these) and of
        :class:`~sklearn.frozen.FrozenEstimator`. After a private step only `Binarizer`,
        `Normalizer`, `PolynomialFeatures`, `SplineTransformer` with given knots, unions of these
        and selections of columns may stand. The caller has to make sure that the function of a
        `FunctionTransformer` maps every row by itself, and that frozen estimators were fitted to
        public rows. The epsilons of private steps set only the proportions in which they share the
        budget. Or a :class:`skdp.DPPipeline`, whose shares are used.
    param_grid : dict or list of dict
        Parameters mapped to lists of values, as in :class:`~sklearn.model_selection.GridSearchCV`.
        The name of a step, with estimators or "passthrough" as values, and the `shares` of a
        :class:`skdp.DPPipeline` are parameters, too. Parameters of the guarantee are refused:
        :func:`skdp.model_selection.epsilon_curve` shows what a larger epsilon buys. If a step needs
        more than five distinct fits, a warning says so.
    epsilon : float, default=1.0
        Privacy budget of everything that `fit` publishes, dimensionless, ``0 < epsilon <= inf``.
    delta : float, default=1e-6
        Probability with which the guarantee may fail, ``0 < delta < 1``, well below one over the
        number of units.
    scoring : {"accuracy", "balanced_accuracy", "f1", "roc_auc", "neg_log_loss", \
            "neg_brier_score", "neg_mean_squared_error", "r2", "neg_mean_absolute_error", \
            "log_likelihood", "reconstruction"} or None, default=None
        Score that judges candidates: a mean over rows, or a function of counts. F1, of the second
        class, and the area under the ROC curve are for two classes; they and the balanced accuracy
        need the `classes` of the classifier. ``"r2"`` orders candidates as the squared error does,
        and the Brier score is half the sum of squares over the classes, at most 1. ``None`` takes
        the accuracy for classifiers, the squared error for estimators that predict, the
        log-likelihood for those with `score_samples`, and else the reconstruction error, smallest
        with the most components: the squared distance between rows and their reconstruction by the
        private steps.
    refit : bool, default=True
        Whether to fit the chosen candidate at the end. If not, that part of the budget goes to the
        fits of the search.
    ledger : PrivacyLedger or None, default=None
        Where the whole cost is charged, once, before the first release.
    random_state : int, RandomState or Generator instance or None, default=None
        ``None`` takes fresh noise, as the guarantee assumes. A secret int repeats a search; an int
        that can be guessed voids the guarantee.

    Attributes
    ----------
    best_estimator_ : estimator
        The chosen estimator, with ``refit=True``. Covered by the guarantee. Its parameters
        `epsilon` and `delta` are those of `estimator`; its `privacy_spent_` has the cost.
    best_params_ : dict
        Parameters of the chosen candidate. Covered by the guarantee.
    best_index_ : int
        Number of the chosen candidate. Covered by the guarantee.
    cv_results_ : dict
        The candidates: ``params``, ``param_*`` and ``selected``. No scores are released.
    n_distinct_fits_ : dict
        Number of fits that each private step took for all candidates. Public.
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
    skdp.model_selection.matched_noise : Noise for a search on public rows, which costs nothing.

    Notes
    -----
    **Privacy.** Unit and adjacency: those of the private steps, which have to agree; if some steps
    protect rows and others records (rows with responses), the search protects records. Mechanisms:
    those of the fits; Gaussian counts, which find the level that losses are clipped to; and the
    exponential mechanism [1]_ for the choice, whose cost is exact in Gaussian differential
    privacy. The median of a row's losses is subtracted from them, and the differences are clipped
    to half of the level. So one row moves the difference between two candidates by at most twice
    the level. A user counts once, with the means of the losses of its rows. Areas under the ROC
    curve are compared by the same mechanism, by the number of pairs of rows of both classes in the
    wrong order: one of n rows moves this number by less than n. F1 and balanced accuracies follow
    from Gaussian counts of true and predicted classes for all candidates together.
    Released: all that the fits release, the counts for the level, and the choice. Assumed public:
    the shape of X and the parameters. The squares of mu of all fits and of the choice add up to the
    square of the mu of (`epsilon`, `delta`). The choice takes 5% of this square if one fit serves
    all candidates, else 10%. A last fit takes nine times as much as a fit of the search. Not
    covered: results of `predict`, `transform` and `score`.

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

    estimator: Any
    param_grid: Any
    _: KW_ONLY
    epsilon: float = 1.0
    delta: float = 1e-6
    scoring: Any = None
    refit: bool = True
    ledger: Any = None
    random_state: Any = None

    def _grid(self, seed: int | None) -> Iterable[dict[str, Any]]:
        return ParameterGrid(self.param_grid)


@with_parameters
class DPRandomizedSearch(BaseDPSearch):  # numpydoc ignore=PR02
    """Search over random candidates; the whole search costs one `epsilon` and `delta`.

    The search works as :class:`DPGridSearch` does, with candidates drawn from distributions.

    Parameters
    ----------
    estimator : estimator
        As in :class:`DPGridSearch`.
    param_distributions : dict or list of dict
        Parameters mapped to distributions or lists, as in
        :class:`~sklearn.model_selection.RandomizedSearchCV`.
    n_iter : int, default=3
        Number of candidates. Each candidate that needs a fit of its own leaves less budget for the
        others. If a step needs more than five distinct fits, a warning says so.
    epsilon : float, default=1.0
        Privacy budget of everything that `fit` publishes, dimensionless, ``0 < epsilon <= inf``.
    delta : float, default=1e-6
        Probability with which the guarantee may fail, ``0 < delta < 1``, well below one over the
        number of units.
    scoring : str or None, default=None
        As in :class:`DPGridSearch`.
    refit : bool, default=True
        Whether to fit the chosen candidate at the end. If not, that part of the budget goes to the
        fits of the search.
    ledger : PrivacyLedger or None, default=None
        Where the whole cost is charged, once, before the first release.
    random_state : int, RandomState or Generator instance or None, default=None
        An int draws the candidates, too; ``None`` takes fresh noise and candidates.

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
        Number of fits that each private step took for all candidates. Public.
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
    **Privacy.** As in :class:`DPGridSearch`. Unit and adjacency: those of the private
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
        "n_iter": [AT_LEAST_ONE],
    }

    estimator: Any
    param_distributions: Any
    _: KW_ONLY
    n_iter: int = 3
    epsilon: float = 1.0
    delta: float = 1e-6
    scoring: Any = None
    refit: bool = True
    ledger: Any = None
    random_state: Any = None

    def _grid(self, seed: int | None) -> Iterable[dict[str, Any]]:
        # numpy's global generator is not used, as anybody in the process can reset it.
        candidate_seed = int.from_bytes(os.urandom(4), "little")
        if seed is not None:
            candidate_seed = derived_seed(seed, "search", "candidates") % 2**32
        n_iter = int(self.n_iter)
        return ParameterSampler(self.param_distributions, n_iter, random_state=candidate_seed)
