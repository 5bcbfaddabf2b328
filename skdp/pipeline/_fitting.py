"""The fits of a search: depth first along the steps, each distinct fit once."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn import config_context
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from skdp._estimator import PrivateEstimator, plan_of, restored_on_error
from skdp.data.finite import finite
from skdp.data.sources import RowBlocks
from skdp.data.threads import one_blas_thread
from skdp.pipeline._budget_split import BudgetSplit, FitBudgets, set_budget, split_budget
from skdp.pipeline._candidates import Candidate, Path, candidates_of, path_of
from skdp.pipeline._columns import (
    check_rows_of_columns,
    columns_of,
    fitted_columns,
    is_columns,
)
from skdp.pipeline._private_steps import SharedBudget, is_passed_through
from skdp.pipeline._public_steps import fitted_to_nothing, transformed
from skdp.pipeline._steps import Step, check_targets, configured_step, steps_of, with_classes
from skdp.privacy import PrivacySpent
from skdp.privacy.cost import PrivacyCost
from skdp.privacy.noise import derived_seed
from skdp.privacy.precision import plain

__all__ = [
    "FEATURE_ATTRIBUTES",
    "Search",
    "configured_fit",
    "fit_candidates",
    "fit_together",
    "refit",
    "search_of",
    "warnings_for_fits",
]

#: What scikit-learn's validation sets on an estimator.
FEATURE_ATTRIBUTES = ("n_features_in_", "feature_names_in_")


class Opened(NamedTuple):
    """What has read its rows, and has released nothing: a step, or parts of a step."""

    fitted: list[Any]  # the steps before it, which learn nothing
    rows: Any  # what they make of X
    # by the number of the step, its label, its estimator, and its problem and data
    steps: dict[int, tuple[str, Any, tuple[Any, Any]]]


@dataclass
class Search:
    """What the fits of a search need, and what they leave behind."""

    estimator: Any
    steps: Sequence[Step]
    candidates: Sequence[Candidate]
    paths: Sequence[Path]
    y: Any
    seed: int | None  # the seeds of all fits are derived from it
    # the first private step of the only candidate, which has read its rows
    opened: Opened | None = None
    # charged by the first fit, for all of them
    ledger: Any = None
    # names of the steps whose classes are taken from the labels of y
    lack_classes: Sequence[str] = ()
    records: list[PrivacySpent] = field(default_factory=list)  # of the private fits so far
    # warnings that follow from released values, by the ``id`` of the fitted step
    warnings: dict[int, list[str]] = field(default_factory=dict)
    # the fitted steps of each model, by its ``id``
    fitted: dict[int, list[Any]] = field(default_factory=dict)
    # how many fits there are so far of each name
    n_labeled: Counter[str] = field(default_factory=Counter)

    @property
    def n_fits(self) -> dict[int, int]:
        """How many fits each private step takes, by its number."""
        private = [i for i, step in enumerate(self.steps) if step.is_private]
        return {i: len({path.fits[i] for path in self.paths}) for i in private}

    def next_label(self, name: str, step: Step) -> str:
        """Return a label for the next fit of that name: its number is counted."""
        if step.share is not None and len(self.candidates) == 1:
            return step.name
        self.n_labeled[name] += 1
        return f"{name} {self.n_labeled[name]}"

    def chooses_within(self, number: int) -> bool:
        """Tell whether candidates that share a fit of a step differ in what they make of it."""
        fits = {path.fits[number] for path in self.paths}
        return len({path.results[number] for path in self.paths}) > len(fits)

    def seed_of(self, label: str) -> int | None:
        """Derive a seed for the fit or choice of that label."""
        return None if self.seed is None else derived_seed(self.seed, "search", label)

    @contextmanager
    def repeatably(self) -> Iterator[None]:
        """Let all rows between steps be the same in each repetition: they key the noise."""
        limits = nullcontext() if self.seed is None else one_blas_thread()
        with limits, config_context(transform_output="default"):
            yield

    def keep(self, spent: PrivacySpent, label: str) -> None:
        """Keep a record; the label is put before the names of its releases."""
        named = (replace(one, name=f"{label}: {one.name}") for one in spent.releases)
        self.records.append(replace(spent, releases=tuple(named)))


def search_of(
    estimator: Any,
    grid: Iterable[dict[str, Any]],
    X: Any,
    y: Any,
    seed: int | None,
    cost: PrivacyCost,
    *,
    n_planned: int | None = None,
) -> Search:
    """Refuse what is not acceptable; return what is to be fitted, at that cost in all.

    With `n_planned`, X is public and stands for so many rows to come, and there is no y.
    """
    if isinstance(X, RowBlocks):
        raise ValueError("X is a RowBlocks, which is not taken here: pass an array.")
    given, lack_classes = with_classes(estimator, y)
    steps = steps_of(given)
    candidates = candidates_of(grid, given, steps)
    if n_planned is None:
        check_targets(steps, X, y)
        for step in steps:
            if is_columns(step.estimator):
                check_rows_of_columns(step.name, step.estimator, X)
    search = Search(given, steps, candidates, (), y, seed, lack_classes=lack_classes)
    if n_planned is None and len(candidates) == 1:
        search.opened = _opened(search, X, cost)
    rows = search.opened and search.opened.rows
    search.paths = [
        path_of(one, steps, X, y, cost.epsilon, n_planned=n_planned, opened=rows)
        for one in candidates
    ]
    return search


def _opened(search: Search, X: Any, cost: PrivacyCost) -> Opened:
    """Read the rows of the only fit of the first private step, and of the public ones before."""
    n_before = next(i for i, step in enumerate(search.steps) if step.is_private)
    once = {i: 1 for i, step in enumerate(search.steps) if step.is_private}
    budgets = split_budget(search.steps, search.candidates, once, cost).search
    fitted: list[Any] = []
    with search.repeatably(), np.errstate(all="ignore"):
        for step in search.steps[:n_before]:
            fitted += _fit_step(search, fitted, [0], X, budgets)
            X = transformed([(step.name, fitted[-1])], X)
        n_parts = sum(step.columns is not None for step in search.steps)
        opened = {}
        for number in range(n_before, n_before + max(n_parts, 1)):
            step = search.steps[number]
            first = configured_fit(search, number, 0, budgets)
            label = search.next_label(budgets.name, step)
            first.set_params(random_state=search.seed_of(label))
            first._validate_params()
            opened[number] = label, first, first._problem(_read_by(step, X), search.y)
        return Opened(fitted, X, opened)


def _read_by(step: Step, X: Any) -> Any:
    """Return what a step is fitted to: part of a ColumnTransformer has some columns only."""
    return X if step.columns is None else columns_of(X, step.columns)


def _rows_behind(step: Step, fitted: Any, X: Any) -> Any:
    """Return what the next step gets."""
    if step.columns is not None:
        return X
    rows = transformed([(step.name, fitted)], X)
    # Their public parts have made all rows finite before, of which some may not have been.
    return finite(rows) if is_columns(step.estimator) else rows


def warnings_for_fits(search: Search, split: BudgetSplit) -> list[str]:
    """Plan all fits, which refuses what the budget cannot pay for; return their warnings.

    Of a step that has a last fit, only the warnings about that fit count.
    """
    warnings: dict[str, None] = {}
    for budgets in (split.search, split.final):
        for j, path in enumerate(search.paths):
            for number in budgets.mus:
                facts = path.facts[number]
                if facts is None:
                    continue
                step = configured_fit(search, number, j, budgets)
                problem = step._problem_like(*facts)
                messages = step._warnings(problem, plan_of(problem, step._plan(problem)))
                if budgets is split.final or number not in split.final.mus:
                    warnings.update(dict.fromkeys(messages))
    return list(warnings)


def fit_candidates(search: Search, X: Any, budgets: FitBudgets) -> list[Any]:
    """Fit all candidates; return their models, which share fitted steps where they can."""
    members = range(len(search.candidates))
    with search.repeatably():
        fitted, rows = (search.opened.fitted, search.opened.rows) if search.opened else ([], X)
        models = _fit_from(search, members, fitted, rows, budgets)
    return [models[j] for j in members]


def refit(search: Search, chosen: int, model: Any, X: Any, budgets: FitBudgets) -> Any:
    """Fit the chosen candidate again, beginning with the first step that has a last fit.

    The steps before it have spent their whole part, and are kept.
    """
    kept = search.fitted[id(model)][: min(budgets.mus)]
    with search.repeatably():
        for step, fitted in zip(search.steps, kept, strict=False):
            X = _rows_behind(step, fitted, X)
        return _fit_from(search, [chosen], kept, X, budgets)[chosen]


def _fit_from(
    search: Search, members: Sequence[int], fitted: Sequence[Any], X: Any, budgets: FitBudgets
) -> dict[int, Any]:
    """Fit all steps after the `fitted` ones, for the candidates that have these in common."""
    number, models = len(fitted), dict[int, Any]()
    for group in _grouped(members, lambda j: search.paths[j].fits[number]):
        branches = _grouped(group, lambda j: search.paths[j].results[number])
        results = _fit_step(search, fitted, [branch[0] for branch in branches], X, budgets)
        for branch, result in zip(branches, results, strict=True):
            done = [*fitted, result]
            if len(done) < len(search.steps):
                rows = _rows_behind(search.steps[number], result, X)
                models |= _fit_from(search, branch, done, rows, budgets)
            else:
                model = _assembled(search, done)
                models |= dict.fromkeys(branch, model)
                search.fitted[id(model)] = done
    return models


def _grouped(members: Sequence[int], key: Callable[[int], Any]) -> list[list[int]]:
    """Group the candidates that have the same key, in their order."""
    groups: dict[Any, list[int]] = {}
    for j in members:
        groups.setdefault(key(j), []).append(j)
    return list(groups.values())


def configured_fit(search: Search, number: int, candidate: int, budgets: FitBudgets) -> Any:
    """Clone a step with the parameters of a candidate and, if it is private, its budget."""
    step = search.steps[number]
    configured = configured_step(step, search.candidates[candidate].of_steps[number])
    if step.is_private:
        set_budget(configured, budgets.mus[number], budgets.delta)
    return configured


def _fit_step(
    search: Search, before: Sequence[Any], candidates: Sequence[int], X: Any, budgets: FitBudgets
) -> list[Any]:
    """Fit one step once, for candidates that differ only in its free parameters."""
    number = len(before)
    step = search.steps[number]
    if is_passed_through(step.estimator):
        return [step.estimator] * len(candidates)
    if is_columns(step.estimator):
        names = [one.name.partition("__")[2] for one in search.steps[:number]]
        parts = dict(zip(names, before, strict=True))
        return [fitted_columns(step.name, step.estimator, parts, X)] * len(candidates)
    configured = [configured_fit(search, number, j, budgets) for j in candidates]
    if not step.is_private:
        return [fitted_to_nothing(step.name, one, X) for one in configured]
    problem_and_data = None
    if search.opened and number in search.opened.steps:
        label, configured[0], problem_and_data = search.opened.steps.pop(number)
    else:
        label = search.next_label(budgets.name, step)
    for one in configured:
        one.set_params(random_state=search.seed_of(label))
    # The first fit charges all, before its first release; the others charge nothing.
    configured[0].ledger, search.ledger = search.ledger, None
    warnings = fit_together(configured, _read_by(step, X), search.y, problem_and_data)
    search.warnings.update(zip(map(id, configured), warnings, strict=True))
    search.keep(configured[0].privacy_spent_, label)
    return configured


def fit_together(
    estimators: Sequence[PrivateEstimator], X: Any, y: Any = None, opened: Any = None
) -> list[list[str]]:
    """Fit estimators that differ only in free parameters to one and the same releases.

    The data have been `opened` by the first of them, if these are given. The warnings that follow
    from the releases are returned, for each estimator. Those that follow
    from public facts are left out: the search has given them before it spends anything.
    """
    first, *others = estimators
    with restored_on_error(first):
        problem, data = opened or first._problem(X, y)
        problem, result, budget = first._release(problem, data, lambda _: None)
        warnings = [first._keep(problem, result, budget)]
        for other in others:
            for name in set(FEATURE_ATTRIBUTES) & vars(first).keys():
                setattr(other, name, getattr(first, name))
            # The only free parameter that a problem holds.
            own_problem = replace(problem, n_components=plain(other.n_components))
            warnings.append(other._keep(own_problem, result, budget))
            other.privacy_spent_ = first.privacy_spent_
    return warnings


def _assembled(search: Search, fitted: Sequence[Any]) -> Any:
    """Put fitted steps together as they were."""
    if not search.steps[0].name:
        return fitted[0]
    steps = [
        (step.name, one)
        for step, one in zip(search.steps, fitted, strict=True)
        if step.columns is None
    ]
    if isinstance(search.estimator, SharedBudget):
        return Pipeline(steps)
    return clone(search.estimator).set_params(steps=steps)
