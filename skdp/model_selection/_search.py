"""A search for hyperparameters whose fits and choice together cost what the user says."""

import math
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import MetaEstimatorMixin, _fit_context, is_classifier
from sklearn.utils import get_tags
from sklearn.utils._param_validation import HasMethods
from sklearn.utils.validation import _num_samples

from skdp._estimator import warnings_for_delta
from skdp._parameters import BUDGET, SEED, warnings_for_seed
from skdp.data.containers import checked_container
from skdp.data.digest import digests
from skdp.data.sources import RowBlocks
from skdp.exceptions import warn_of_privacy
from skdp.linear_model._logistic.warnings import LABELS_BECOME_PUBLIC
from skdp.model_selection._budget_split import BudgetSplit, params_for_mu, split_budget
from skdp.model_selection._candidates import (
    Candidate,
    candidates_of,
    common_unit,
    path_of,
    steps_of,
    with_classes,
)
from skdp.model_selection._choice import choose, plan_choice
from skdp.model_selection._delegation import DelegatesToBestMixin
from skdp.model_selection._fitting import (
    FEATURE_ATTRIBUTES,
    Search,
    fit_candidates,
    refit,
    warnings_for_fits,
)
from skdp.model_selection._row_losses import (
    check_responses,
    check_scoring,
    default_scoring,
    row_losses,
)
from skdp.privacy import Plan, PrivacyBudget, PrivacySpent
from skdp.privacy.cost import PrivacyCost
from skdp.privacy.noise import NoiseSource, draw_seed
from skdp.privacy.precision import plain

__all__ = ["BaseDPSearch"]

# With more fits neither the fits nor the choice are reliable.
_MOST_FITS = 5  # benchmarks/search/search.md, "What the tables say"
# By how much, relatively, rounding may let the sum of what was spent exceed the whole.
_ROUNDING = 1e-9  # not tuned


class BaseDPSearch(MetaEstimatorMixin, DelegatesToBestMixin):
    """A search whose fits and choice share one budget."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "estimator": [HasMethods(["fit", "get_params"])],
        "scoring": [str, callable, None],
        "refit": ["boolean"],
        **BUDGET,
        **SEED,
    }

    epsilon: float
    delta: float
    scoring: Any
    refit: bool
    ledger: Any

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
        X, y = checked_container(X), checked_container(y)
        search = self._search(X, y, scoring)
        cost = self._cost()
        split = split_budget(
            search.steps, search.candidates, search.paths, cost, refits=bool(self.refit)
        )
        n_rows, whole = _num_samples(X), self._whole(search, split)
        choice = _choice_plan(search, split.choice_mu, whole, is_bounded=scoring == "accuracy")
        # All warnings from public facts, and all refusals, come before the charge.
        if search.lack_classes:
            warn_of_privacy(LABELS_BECOME_PUBLIC)
        self._warn(n_rows, split, warnings_for_fits(search, split))
        if self.ledger is not None:
            self.ledger.charge(whole, what=f"{type(self).__name__}.fit, {n_rows} {whole.unit}s")
        models = fit_candidates(search, X, split.search)
        best, warnings = 0, list[str]()
        if choice is not None:
            losses = np.column_stack([row_losses(scoring, model, X, y) for model in models])
            best, warnings = _chosen(search, losses, choice)
        model = models[best]
        if split.final.mus:
            model = refit(search, best, model, X, split.final)
        self._set_results(search, best, model, split, _total(whole, search.records))
        warn_of_privacy(*warnings)
        return self

    def _search(self, X: Any, y: Any, scoring: Any) -> Search:
        """Refuse what is not acceptable; return what is to be fitted."""
        estimator, lack_classes = with_classes(self.estimator, y)
        steps, seed = steps_of(estimator), draw_seed(self.random_state)
        candidates = candidates_of(self._grid(seed), estimator, steps)
        if isinstance(X, RowBlocks):
            raise ValueError("X is a RowBlocks, which a search does not take: pass an array.")
        private = [step.estimator for step in steps if step.is_private]
        is_fitted_to = any(get_tags(one).target_tags.required for one in private)
        name, are_labels = type(steps[-1].estimator).__name__, any(map(is_classifier, private))
        check_responses(X, y, scoring, name, required=is_fitted_to, are_labels=are_labels)
        paths = [path_of(candidate, steps, X, y, self._cost().epsilon) for candidate in candidates]
        return Search(estimator, steps, candidates, paths, y, seed, lack_classes)

    def _cost(self) -> PrivacyCost:
        return PrivacyCost(float(plain(self.epsilon)), float(plain(self.delta)))

    def _whole(self, search: Search, split: BudgetSplit) -> PrivacySpent:
        """Return the record of the whole search, without its releases."""
        first = next(step.estimator for step in search.steps if step.is_private)
        noise = NoiseSource(search.seed)
        return PrivacySpent(
            epsilon=self._cost().epsilon,
            delta=self._cost().delta,
            mu=split.mu,
            unit=common_unit(search.steps),
            adjacency=first.adjacency,
            seed_fingerprints=() if noise.fingerprint is None else (noise.fingerprint,),
            releases=(),
            enforced=not search.lack_classes,
            delta_tail=split.delta_tail,
            guessable=noise.is_guessable,
        )

    def _warn(self, n_rows: int, split: BudgetSplit, warnings: Sequence[str]) -> None:
        """Give the warnings that follow from public facts."""
        if math.isinf(split.mu):
            return
        warn_of_privacy(*warnings_for_seed(self.random_state))
        warn_of_privacy(*warnings_for_delta(self._cost(), "rows", n_rows), *warnings)
        most = max(split.n_fits.values())
        if most > _MOST_FITS:
            warn_of_privacy(
                f"The search takes {most} fits of one step, which share its budget. The candidate "
                "that is best with their noise need not be best with the smaller noise of the last "
                f"fit. Try at most {_MOST_FITS}, or tune on public rows with "
                "skdp.model_selection.matched_noise. Parameters that need no fit of their own, "
                "such as n_components with solver='covariance', are free."
            )

    def _set_results(
        self, search: Search, best: int, model: Any, split: BudgetSplit, spent: PrivacySpent
    ) -> None:
        # An earlier fit may have set what this one does not.
        self.__dict__.pop("best_estimator_", None)
        for name in FEATURE_ATTRIBUTES:
            self.__dict__.pop(name, None)
            if hasattr(model, name):
                setattr(self, name, getattr(model, name))
        names = [step.name or "estimator" for step in search.steps]
        self.best_index_ = best
        self.best_params_ = search.candidates[best].parameters
        self.cv_results_ = _table(search.candidates, best)
        self.n_distinct_fits_ = {names[number]: n for number, n in split.n_fits.items()}
        self.privacy_spent_ = spent
        if self.refit:
            self.best_estimator_ = model
        for part in _stamped(model, search, spent, self.ledger):
            warn_of_privacy(*search.warnings.get(id(part), ()))


def _choice_plan(
    search: Search, mu: float, whole: PrivacySpent, *, is_bounded: bool
) -> Plan | None:
    """Plan the choice, which refuses a mu that is too small; None if there is nothing to choose."""
    if not mu:
        return None
    cost = PrivacyCost(**params_for_mu(mu, whole.delta))
    n_candidates, unit, adjacency = len(search.candidates), whole.unit, whole.adjacency
    return plan_choice(n_candidates, cost, unit, adjacency, is_bounded=is_bounded)


def _chosen(search: Search, losses: np.ndarray, plan: Plan) -> tuple[int, list[str]]:
    """Choose privately by the losses of the rows; return the warnings of the releases too."""
    seed = search.seed_of("choice")
    noise = NoiseSource(seed, () if seed is None else digests(losses))
    budget = PrivacyBudget.of(plan, noise)
    best = choose(losses, plan.parts, budget)
    search.keep(budget.spent(), "choice")
    return best, list(budget.warnings)


def _total(whole: PrivacySpent, records: Sequence[PrivacySpent]) -> PrivacySpent:
    """Return the record of the whole search, with its releases."""
    # Steps of one pipeline get the same rows, and a record is a row with its response.
    composed = records[0].compose(*records[1:], same_unit=True)
    is_over = composed.mu > whole.mu * (1 + _ROUNDING)
    if is_over or composed.delta_tail > whole.delta_tail * (1 + _ROUNDING):
        raise RuntimeError(f"The search has spent mu={composed.mu}, and was given {whole.mu}.")
    return replace(
        composed,
        epsilon=whole.epsilon,
        delta=whole.delta,
        mu=min(composed.mu, whole.mu),
        enforced=composed.enforced and whole.enforced,
        delta_tail=whole.delta_tail,
    )


def _stamped(model: Any, search: Search, spent: PrivacySpent, ledger: Any) -> list[Any]:
    """Give a model and its private steps the record of the search.

    Return the steps whose warnings may be shown. Where candidates share a fit of a step and differ
    in what they make of it, the warnings follow from the choice, and are not shown.
    """
    model.privacy_spent_ = spent
    parts = []
    for number, step in enumerate(search.steps):
        if step.is_private:
            part = model.named_steps[step.name] if step.name else model
            part.privacy_spent_ = spent
            # Another fit of the part costs what its parameters say. The seed, which would let
            # anybody subtract the noise, is not kept.
            asked = {name: getattr(step.estimator, name) for name in ("epsilon", "delta")}
            if step.name in search.lack_classes:
                asked["classes"] = None
            part.set_params(**asked, ledger=ledger, random_state=None)
            if not search.chooses_within(number):
                parts.append(part)
    return parts


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
