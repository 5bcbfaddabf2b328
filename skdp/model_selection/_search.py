"""A search for hyperparameters whose fits and choice together cost what the user says."""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import MetaEstimatorMixin, _fit_context, clone
from sklearn.utils._param_validation import HasMethods

from skdp._checks import BUDGET, SEED, refuse_blocks
from skdp._estimator import check_unwatched, restored_on_error
from skdp.data.containers import checked_container
from skdp.data.sources import digests
from skdp.exceptions import warn_of_privacy
from skdp.model_selection._choice import choose, plan_choice
from skdp.model_selection._row_losses import (
    check_responses,
    check_scoring,
    default_scoring,
    row_losses,
)
from skdp.pipeline._candidates import BudgetSplit, Candidate, params_for_mu
from skdp.pipeline._composition import SharedBudget, adjacency_of, common_unit
from skdp.pipeline._fitting import (
    Search,
    SpendsWhole,
    fit_candidates,
    refit,
    search_of,
    stamped,
    total,
)
from skdp.privacy import Plan, PrivacyBudget, PrivacySpent
from skdp.privacy.noise import NoiseSource, draw_seed
from skdp.privacy.plan import PrivacyCost

# With more fits neither the fits nor the choice are reliable.
_MOST_FITS = 5  # benchmarks/search/search.md, "What the tables say"


class BaseDPSearch(MetaEstimatorMixin, SpendsWhole):
    """A search whose fits and choice share one budget."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "estimator": [HasMethods(["fit", "get_params"])],
        "scoring": [str, callable, None],
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
    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the candidates, choose one, and fit it, spending the whole budget.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to protect, as `estimator` takes them.
        y : array-like of shape (n_samples,) or None, default=None
            Their responses.

        Returns
        -------
        Self
            The fitted search.

        Raises
        ------
        ValueError
            If X, y, a parameter or a candidate is not acceptable; nothing has been spent then. Also
            if a callable `scoring` raises for public rows of ones and halves, or does not return
            one number for each of them; all fits have been spent by then.
        BudgetError
            If the ledger has less left; nothing has been spent then.
        """
        scoring = default_scoring(self.estimator) if self.scoring is None else self.scoring
        check_scoring(scoring, self.estimator)
        with restored_on_error(self):
            X, y = checked_container(X), checked_container(y)
            search = self._search(X, y, scoring)
            choice = _choice_plan(search, is_bounded=scoring == "accuracy")
            # All warnings from public facts, and all refusals, come before the charge.
            whole = self._begin(search)
            self._warn_of_many(search.split)
            models = fit_candidates(search)
            best, warnings = 0, list[str]()
            if choice is not None:
                losses = np.column_stack([row_losses(scoring, model, X, y) for model in models])
                best, warnings = _chosen(search, losses, choice)
            model = models[best]
            if search.split.final.shares:
                model = refit(search, best, model)
            spent = total(whole, search.records)
            warnings = [*stamped(model, search, spent, self.ledger), *warnings]
            self._set_results(search, best, model, spent)
        # Last: if warnings are turned into errors, the model that was paid for remains.
        warn_of_privacy(*warnings)
        return self

    def _search(self, X: Any, y: Any, scoring: Any) -> Search:
        """Refuse what is not acceptable; return what is to be fitted."""
        refuse_blocks(X, type(self).__name__)
        seed = draw_seed(self.random_state)
        check_unwatched("estimator: ", self.estimator)
        if isinstance(self.estimator, SharedBudget):
            for name in ("ledger", "random_state"):
                if getattr(self.estimator, name) is not None:
                    raise ValueError(f"estimator: {name} must be None: pass it to the search.")
        cost, refits = self._cost(), bool(self.refit)
        search = search_of(
            self.estimator, self._grid(seed), X, y, cost=cost, seed=seed, refits=refits
        )
        check_responses(X, y, scoring, type(search.steps[-1].estimator).__name__)
        return search

    def _warn_of_many(self, split: BudgetSplit) -> None:
        most = max(split.n_fits.values())
        if most > _MOST_FITS and split.cost.is_private:
            warn_of_privacy(
                f"The search takes {most} fits of one step, which share its budget. The candidate "
                "that is best with their noise need not be best with the smaller noise of the last "
                f"fit. Try at most {_MOST_FITS}, or tune on public rows with "
                "skdp.model_selection.matched_noise. Parameters that need no fit of their own, "
                "such as n_components with solver='covariance', are free."
            )

    def _held(self) -> Any:
        if not self.refit:
            raise AttributeError(
                f"{type(self).__name__} with refit=False keeps no estimator, and no method of it."
            )
        return getattr(self, "best_estimator_", self.estimator)

    def _pattern(self) -> Any:
        return self.estimator

    @property
    def best_score_(self) -> float:
        """Raise an error, because no score is released."""
        raise AttributeError(
            f"{type(self).__name__} has no best_score_: no score is released. "
            "skdp.model_selection.private_score releases one, on rows that no fit has used."
        )

    def _set_results(self, search: Search, best: int, model: Any, spent: PrivacySpent) -> None:
        # An earlier fit may have set what this one does not.
        self.__dict__.pop("best_estimator_", None)
        self._set_features(model)
        names = [step.name or "estimator" for step in search.steps]
        self.best_index_ = best
        self.best_params_ = search.candidates[best].parameters
        self.cv_results_ = _table(search.candidates, best)
        self.n_distinct_fits_ = {names[number]: n for number, n in search.split.n_fits.items()}
        self.privacy_spent_ = spent
        if self.refit:
            self.best_estimator_ = self._as_given(model, spent)

    def _as_given(self, model: Any, spent: PrivacySpent) -> Any:
        """Put the fitted steps back into what has held them."""
        if not isinstance(self.estimator, SharedBudget):
            return model
        given = clone(self.estimator).set_params(**self.best_params_, ledger=self.ledger)
        given._keep(model, spent)
        return given


def _choice_plan(search: Search, *, is_bounded: bool) -> Plan | None:
    """Plan the choice, which refuses a mu that is too small; None if there is nothing to choose."""
    mu, n_candidates = search.split.choice_mu, len(search.candidates)
    if not mu:
        return None
    cost = PrivacyCost(**params_for_mu(mu, search.cost.delta))
    unit, adjacency = common_unit(search.steps), adjacency_of(search.steps)
    return plan_choice(n_candidates, cost, unit, adjacency, is_bounded=is_bounded)


def _chosen(search: Search, losses: np.ndarray, plan: Plan) -> tuple[int, list[str]]:
    """Choose privately by the losses of the rows; return the warnings of the releases too."""
    seed = search.seed_of("choice")
    noise = NoiseSource(seed, () if seed is None else digests(losses))
    budget = PrivacyBudget.of(plan, noise)
    best = choose(losses, plan.parts, budget)
    search.keep(budget.spent(), "choice")
    return best, list(budget.warnings)


def _table(candidates: Sequence[Candidate], best: int) -> dict[str, Any]:
    """Lay candidates out as scikit-learn's searches do, without scores."""
    names = sorted({name for candidate in candidates for name in candidate.parameters})
    table: dict[str, Any] = {"params": [candidate.parameters for candidate in candidates]}
    for name in names:
        column = np.ma.masked_all(len(candidates), dtype=object)
        for number, candidate in enumerate(candidates):
            if name in candidate.parameters:
                column[number] = candidate.parameters[name]
        table[f"param_{name}"] = column
    table["selected"] = np.arange(len(candidates)) == best
    return table
