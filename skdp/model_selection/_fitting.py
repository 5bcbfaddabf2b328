"""The fits of a search: depth first along the steps, each distinct one once."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sklearn.base import clone
from sklearn.pipeline import Pipeline

from skdp._estimator import PrivateEstimator, plan_of, restored_on_error
from skdp.model_selection._allotment import Allotment, FitCosts, set_budget
from skdp.model_selection._candidates import Candidate, Path, Step, configured_step
from skdp.model_selection._private_steps import is_passed_through
from skdp.model_selection._public_steps import fitted_to_nothing, transformed
from skdp.privacy import PrivacySpent
from skdp.privacy.noise import derived_seed
from skdp.privacy.precision import plain

__all__ = ["Search", "fit_candidates", "fit_together", "refit", "warnings_for_fits"]

_OF_THE_FEATURES = {"n_features_in_", "feature_names_in_"}


@dataclass
class Search:
    """What the fits of a search need, and what they leave."""

    estimator: Any
    steps: Sequence[Step]
    candidates: Sequence[Candidate]
    paths: Sequence[Path]
    seed: int | None  # where the seeds of all fits come from
    records: list[PrivacySpent] = field(default_factory=list)  # of the private fits so far
    # what results say against the models, by ``id``
    warnings: dict[int, list[str]] = field(default_factory=dict)
    # fits so far, by what they are called
    n_labeled: Counter[str] = field(default_factory=Counter)

    def next_label(self, name: str) -> str:
        """Count the fits that are called so."""
        self.n_labeled[name] += 1
        return f"{name} {self.n_labeled[name]}"

    def chooses_within(self, number: int) -> bool:
        """Tell whether candidates differ in what is made of one fit of a step."""
        fits = {path.fits[number] for path in self.paths}
        return len({path.results[number] for path in self.paths}) > len(fits)

    def seed_of(self, label: str) -> int | None:
        """Return a seed of its own for what has a label."""
        return None if self.seed is None else derived_seed(self.seed, "search", label)

    def keep(self, spent: PrivacySpent, label: str) -> None:
        """Keep the record of what has a label, which its releases are named by."""
        named = (replace(one, name=f"{label}: {one.name}") for one in spent.releases)
        self.records.append(replace(spent, releases=tuple(named)))


def warnings_for_fits(search: Search, allotment: Allotment) -> list[str]:
    """Plan all fits; refuse what is not paid for, and return the warnings about the last ones."""
    warnings: dict[str, None] = {}
    for costs in (allotment.search, allotment.final):
        for candidate, path in zip(search.candidates, search.paths, strict=True):
            for number, mu in costs.mus.items():
                facts = path.facts[number]
                if facts is None:
                    continue
                one = configured_step(search.steps[number], candidate.of_steps[number])
                set_budget(one, mu, costs.delta)
                problem = one._problem_like(*facts)
                found = one._warnings(problem, plan_of(problem, one._plan(problem)))
                if costs is allotment.final or number not in allotment.final.mus:
                    warnings.update(dict.fromkeys(found))
    return list(warnings)


def fit_candidates(search: Search, X: Any, y: Any, costs: FitCosts) -> list[Any]:
    """Fit all candidates; return their models, which share what they may."""
    models: list[Any] = [None] * len(search.candidates)
    _fit_from(search, list(range(len(models))), [], X, y, costs, models)
    return models


def refit(
    search: Search, number: int, model: Any, n_kept: int, X: Any, y: Any, costs: FitCosts
) -> Any:
    """Fit a candidate again, but for its first `n_kept` steps, which have had their whole part."""
    before = model.steps[:n_kept] if n_kept else []
    kept, X = [fitted for _, fitted in before], transformed(before, X)
    models: list[Any] = [None] * len(search.candidates)
    _fit_from(search, [number], kept, X, y, costs, models)
    return models[number]


def _fit_from(
    search: Search,
    members: Sequence[int],
    fitted: Sequence[Any],
    X: Any,
    y: Any,
    costs: FitCosts,
    models: list[Any],
) -> None:
    """Fit what follows some fitted steps, for all candidates that have these."""
    number = len(fitted)
    for group in _grouped(members, lambda j: search.paths[j].fits[number]):
        branches = _grouped(group, lambda j: search.paths[j].results[number])
        results = _fit_step(search, number, [branch[0] for branch in branches], X, y, costs)
        for branch, result in zip(branches, results, strict=True):
            done = [*fitted, result]
            if len(done) < len(search.steps):
                rows = transformed([(search.steps[number].name, result)], X)
                _fit_from(search, branch, done, rows, y, costs, models)
            else:
                for j in branch:
                    models[j] = _assembled(search, done)


def _grouped(members: Sequence[int], key: Callable[[int], Any]) -> list[list[int]]:
    """Group the candidates that have the same key, in their order."""
    groups: dict[Any, list[int]] = {}
    for j in members:
        groups.setdefault(key(j), []).append(j)
    return list(groups.values())


def _fit_step(
    search: Search,
    number: int,
    candidates: Sequence[int],
    X: Any,
    y: Any,
    costs: FitCosts,
) -> list[Any]:
    """Fit one step once, for candidates that differ in its free parameters."""
    step = search.steps[number]
    if is_passed_through(step.estimator):
        return [step.estimator] * len(candidates)
    configured = [configured_step(step, search.candidates[j].of_steps[number]) for j in candidates]
    if not step.is_private:
        return [fitted_to_nothing(step.name, one, X) for one in configured]
    label = search.next_label(costs.name)
    for one in configured:
        set_budget(one, costs.mus[number], costs.delta)
        one.set_params(random_state=search.seed_of(label))
    search.warnings.update(zip(map(id, configured), fit_together(configured, X, y), strict=True))
    search.keep(configured[0].privacy_spent_, label)
    return configured


def fit_together(estimators: Sequence[PrivateEstimator], X: Any, y: Any = None) -> list[list[str]]:
    """Fit estimators that differ in free parameters to one and the same releases.

    What the releases say against each is returned; what public facts do has been told before.
    """
    first, *others = estimators
    with restored_on_error(first):
        problem, result, budget = first._release(X, y, warn=lambda _: None)
        found = [first._keep(problem, result, budget)]
        for one in others:
            for name in _OF_THE_FEATURES & vars(first).keys():
                setattr(one, name, getattr(first, name))
            # Of free parameters all that a problem has.
            own = replace(problem, n_components=plain(one.n_components))
            found.append(one._keep(own, result, budget))
            one.privacy_spent_ = first.privacy_spent_
    return found


def _assembled(search: Search, fitted: Sequence[Any]) -> Any:
    """Put fitted steps together as they were."""
    if not isinstance(search.estimator, Pipeline):
        return fitted[0]
    names = [step.name for step in search.steps]
    return clone(search.estimator).set_params(steps=list(zip(names, fitted, strict=True)))
