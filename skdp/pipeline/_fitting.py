"""The fits of a search, each distinct one once, and what spends one budget on all of them."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import _num_samples

from skdp import _estimator
from skdp.data.containers import finite
from skdp.data.parts import RowBlocks, RowParts
from skdp.data.people import People, ids_in_memory, people_of
from skdp.decomposition import DPPCA, DPTruncatedSVD
from skdp.exceptions import warn_of_privacy
from skdp.linear_model.logistic.fit import LABELS_BECOME_PUBLIC
from skdp.pipeline import _composition as composition
from skdp.pipeline import _rules as holders
from skdp.pipeline._candidates import (
    BudgetSplit,
    Candidate,
    FitBudgets,
    Place,
    candidates_of,
    path_of,
    split_budget,
)
from skdp.pipeline._public_steps import (
    check_rows_of_columns,
    fitted_columns,
    fitted_to_nothing,
    of_people,
    refuse_unknown,
    transformed,
)
from skdp.preprocessing import DPStandardScaler
from skdp.privacy import Plan, PrivacyBudget, PrivacySpent
from skdp.privacy.noise import NoiseSource, derived_seed
from skdp.privacy.plan import PrivacyCost
from skdp.privacy.precision import as_python

#: What scikit-learn's validation sets on an estimator.
FEATURE_ATTRIBUTES = ("n_features_in_", "feature_names_in_")


@dataclass
class Fits:
    """What the fits of a search need, and what they leave behind."""

    estimator: Any
    steps: Sequence[composition.Step]
    candidates: Sequence[Candidate]
    X: Any
    y: Any
    cost: PrivacyCost  # of everything together
    seed: int | None = None  # the seeds of all fits are derived from it
    refits: bool = False
    # names of the steps whose classes are taken from the labels of y
    lack_classes: Sequence[str] = ()
    paths: Sequence[Sequence[Place]] = ()  # of each candidate, its steps
    # steps of the only candidate that come before all private ones, and what they make of X
    before: list[Any] = field(default_factory=list)
    rows: Any = None
    # by its number, a private step that has read its rows, and released nothing: with its label,
    # its spec and its data
    opened: dict[int, tuple[str, list[Any], Any]] = field(default_factory=dict)
    # whose the rows are where whole users are protected, and that as an argument of every fit
    people: People | None = None
    users: dict[str, Any] = field(default_factory=dict)
    # called by the first fit, for all of them
    charge: _estimator.Charge | None = None
    records: list[PrivacySpent] = field(default_factory=list)  # of the private fits so far
    # the fitted steps of each model, by its ``id``
    fitted: dict[int, list[Any]] = field(default_factory=dict)
    # by the ``id`` of fitted components, by what they have divided the columns behind a scaler
    scales: dict[int, np.ndarray | None] = field(default_factory=dict)
    # how many fits there are so far of each name
    n_labeled: Counter[str] = field(default_factory=Counter)

    @cached_property
    def split(self) -> BudgetSplit:
        """What each fit may spend; that of a single candidate does not wait for its path."""
        private = [i for i, step in enumerate(self.steps) if step.is_private]
        n_fits = {i: len({path[i].fit for path in self.paths}) or 1 for i in private}
        return split_budget(self.steps, self.candidates, n_fits, self.cost, refits=self.refits)

    def planned(self, cost: PrivacyCost, parts: Any) -> Plan:
        """Plan releases about what all private steps protect."""
        unit, adjacency = composition.common_unit(self.steps), composition.adjacency_of(self.steps)
        planned = (isinstance(one.estimator, _estimator.PlannedEstimator) for one in self.steps)
        enforced = not (self.lack_classes or any(planned))
        return Plan(cost, parts, unit=unit, adjacency=adjacency, enforced=enforced)

    def chooses_within(self, number: int) -> bool:
        """Tell whether candidates that share a fit of a step differ in what they make of it."""
        fits = {path[number].fit for path in self.paths}
        return len({path[number].result for path in self.paths}) > len(fits)

    def told(self, number: int, budgets: FitBudgets, messages: Iterable[str]) -> list[str]:
        """Say who warns: its epsilon, which a warning may name, is that of a share."""
        name, share = self.steps[number].name, budgets.shares[number]
        who = f"Step {name!r}" if name else "A fit"
        is_all = round(share, 6) == 1
        prefix = "" if is_all else f"{who}, which has {share:.2g} of the budget: "
        return [prefix + message for message in messages]

    def seed_of(self, label: str) -> int | None:
        """Derive a seed for the fit or choice of that label."""
        return None if self.seed is None else derived_seed(self.seed, "search", label)

    def keep(self, spent: PrivacySpent, label: str) -> None:
        """Keep a record; the label is put before the names of its releases."""
        named = (replace(one, name=f"{label}: {one.name}") for one in spent.releases)
        self.records.append(replace(spent, releases=tuple(named)))


def search_of(
    estimator: Any,
    grid: Iterable[dict[str, Any]],
    X: Any,
    y: Any = None,
    *,
    cost: PrivacyCost,
    seed: int | None = None,
    refits: bool = False,
    n_planned: int | None = None,
    users: Any = None,
) -> Fits:
    """Refuse what is not acceptable; return what is to be fitted, at that cost in all.

    With `n_planned`, X is public and stands for so many rows to come, and there is no y. `users`
    tells whose the rows are.
    """
    if isinstance(X, RowBlocks):
        composition.check_blocks(estimator.steps, X)
    targets = X.y if isinstance(X, RowParts) and n_planned is None else y
    given, lack_classes = composition.with_classes(estimator, targets)
    given = holders.lenient(given)
    steps = composition.steps_of(given)
    candidates = candidates_of(grid, given, steps)
    search = Fits(given, steps, candidates, X, y, cost, seed, refits, lack_classes, rows=X)
    if n_planned is None:
        users = ids_in_memory(users)  # once for all fits
        search.people = people_of(users, X, composition.common_unit(steps))
        search.users = {} if search.people is None else {"users": users}
    if search.people is not None and isinstance(X, RowBlocks):
        # Steps take parts block by block, where a row has no place of its own.
        raise ValueError(
            "Steps that share a budget protect users with rows in memory only: pass X as an array "
            "or a sparse matrix, or fit one estimator to rows in parts."
        )
    name, first, *_ = next(step for step in steps if step.columns is None)
    if holders.is_columns(first):
        check_rows_of_columns(name, first, X, are_private=n_planned is None)
    search.steps = steps = composition.with_names(steps, candidates, X)
    if n_planned is None:
        composition.check_targets(steps, X, y)
        _check_categories(steps, X)
        if len(candidates) == 1:
            # The first step is opened apart from its fit.
            _estimator.announce_fits(1 + len(search.split.n_fits))
            with _estimator.opened_within(hides_groups=bool(search.users)):
                _open(search)
    n_fitted = len(search.before) if search.opened else None
    n_units = n_planned if search.people is None else search.people.n_people
    asked = cost, n_planned is not None, n_fitted, n_units, search.users
    search.paths = [path_of(one, steps, search.rows, targets, *asked) for one in candidates]
    if len(candidates) > 1:
        _estimator.announce_fits(sum(search.split.n_fits.values()) + len(search.split.final.shares))
    return search


def _check_categories(steps: Sequence[composition.Step], X: Any) -> None:
    """Refuse unknown categories before all private steps, where a step asks for that."""
    for number, step in enumerate(steps):
        if not any(holders.refuses_unknown(one.estimator) for one in steps[number:]):
            return
        # Private parts of a ColumnTransformer stand before it, too.
        X = refuse_unknown(step.name, step.estimator, X) if step.columns is None else X


def _open(search: Fits) -> None:
    """Let the first private step read its rows, after the public steps before it are fitted."""
    budgets = search.split.search
    first = next(i for i, step in enumerate(search.steps) if step.is_private)
    for step in search.steps[:first]:
        search.before += _fit_step(search, search.before, [0], search.rows, budgets)
        search.rows = _rows_behind(search, step, search.before[-1], search.rows)
    n_parts = sum(step.columns is not None for step in search.steps)
    for number in range(first, first + max(n_parts, 1)):
        label, (one,) = _labeled(search, [0], number, budgets)
        one._validate_params()
        rows = composition.rows_of_step(search.steps[number], search.rows, search.people)
        search.opened[number] = label, [one], one._validate(rows, search.y, **search.users)


def _rows_behind(search: Fits, step: composition.Step, fitted: Any, X: Any) -> Any:
    """Return what the next step gets."""
    if step.columns is not None:
        return X
    rows = of_people(partial(transformed, [(step.name, fitted)]), search.people, X)
    if isinstance(rows, RowBlocks):
        return composition.as_checked(rows, search.steps) if step.is_private else rows
    # Their public parts have made all rows finite before, of which some may not have been.
    return finite(rows) if holders.is_columns(step.estimator) else rows


def warnings_for_fits(search: Fits) -> list[str]:
    """Plan all fits, which refuses what the budget cannot pay for; return their warnings.

    Of a step that has a last fit, only the warnings about that fit count.
    """
    warnings: list[str] = []
    for budgets in (search.split.search, search.split.final):
        for j, path in enumerate(search.paths):
            for number in budgets.shares:
                if path[number].facts is None:
                    continue
                step, spec, plan = planned_fit(search, number, j, budgets)
                messages = step._warnings(spec, plan)
                if budgets is search.split.final or number not in search.split.final.shares:
                    warnings += search.told(number, budgets, messages)
    return warnings


def fit_candidates(search: Fits) -> list[Any]:
    """Fit all candidates; return their models, which share fitted steps where they can."""
    members = range(len(search.candidates))
    models = _fit_from(search, members, search.before, search.rows, search.split.search)
    return [models[j] for j in members]


def refit(search: Fits, chosen: int, model: Any) -> Any:
    """Fit the chosen candidate again, beginning with the first step that has a last fit.

    The steps before it have spent their whole part, and are kept.
    """
    budgets, X = search.split.final, search.X
    kept, before = search.fitted[id(model)][: min(budgets.shares)], None
    for step, fitted in zip(search.steps, kept, strict=False):
        before, X = X, _rows_behind(search, step, fitted, X)
    return _fit_from(search, [chosen], kept, X, budgets, before)[chosen]


def _fit_from(
    search: Fits,
    members: Sequence[int],
    fitted: Sequence[Any],
    X: Any,
    budgets: FitBudgets,
    before: Any = None,
) -> dict[int, Any]:
    """Fit all steps after the `fitted` ones, for the candidates that have these in common.

    It goes depth first, so that only the rows along one path are held at a time. `before` are the
    rows that the last of the fitted steps has got.
    """
    number, models = len(fitted), dict[int, Any]()
    for group in _grouped(members, lambda j: search.paths[j][number].fit):
        branches = _grouped(group, lambda j: search.paths[j][number].result)
        results = _fit_step(search, fitted, [branch[0] for branch in branches], X, budgets)
        for branch, result in zip(branches, results, strict=True):
            done, rows = [*_rescaled(search, fitted, result), result], X
            if len(done) < len(search.steps):
                if done[:-1] != [*fitted]:
                    rows = _rows_behind(search, search.steps[number - 1], done[-2], before)
                rows = _rows_behind(search, search.steps[number], result, rows)
                models |= _fit_from(search, branch, done, rows, budgets, X)
            else:
                model = _assembled(search, done)
                models |= dict.fromkeys(branch, model)
                search.fitted[id(model)] = done
    return models


def _corrects_scales(
    search: Fits, before: Sequence[Any], step: Any, number: int, budgets: FitBudgets
) -> bool:
    """Tell whether components behind a scaler correct its scales.

    Candidates whose fits would correct them differently are compared without that.
    """
    is_only = budgets is search.split.final or search.split.n_fits[number] == 1
    are_components = isinstance(step, DPPCA | DPTruncatedSVD)
    if not (is_only and are_components and before and search.steps[number].columns is None):
        return False
    scaler = before[-1]
    # The diagonal of other second moments holds means, too.
    is_scaler = isinstance(scaler, DPStandardScaler)
    return is_scaler and bool(scaler.with_mean or isinstance(step.center, str))


def _rescaled(search: Fits, fitted: Sequence[Any], result: Any) -> list[Any]:
    """Return fitted steps, with a scaler of its own for a result that corrects its scales."""
    scales = search.scales.get(id(result))
    if scales is None:
        return [*fitted]
    # Other candidates keep theirs.
    scaler = copy(fitted[-1])
    scaler.scale_ = scaler.scale_ * scales
    scaler.var_ = np.square(scaler.scale_)
    return [*fitted[:-1], scaler]


def _grouped(members: Sequence[int], key: Callable[[int], Any]) -> list[list[int]]:
    """Group the candidates that have the same key, in their order."""
    groups: dict[Any, list[int]] = {}
    for j in members:
        groups.setdefault(key(j), []).append(j)
    return list(groups.values())


def _configured(search: Fits, number: int, candidate: int, budgets: FitBudgets) -> Any:
    """Clone a step with the parameters of a candidate and, if it is private, its budget."""
    step = search.steps[number]
    configured = composition.configured_step(step, search.candidates[candidate].of_steps[number])
    if step.is_private:
        configured._part = budgets.part_of(number, configured)
    return configured


def planned_fit(
    search: Fits, number: int, candidate: int, budgets: FitBudgets
) -> tuple[Any, Any, Plan]:
    """Return a private step whose rows are known, as it will be fitted; its spec; its plan."""
    step = _configured(search, number, candidate, budgets)
    spec = step._spec_of_size(*search.paths[candidate][number].facts)
    return step, spec, _estimator.plan_of(spec, step._plan(spec))


def _fit_step(
    search: Fits, before: Sequence[Any], candidates: Sequence[int], X: Any, budgets: FitBudgets
) -> list[Any]:
    """Fit one step once, for candidates that differ only in its free parameters."""
    number = len(before)
    step = search.steps[number]
    if holders.is_passed_through(step.estimator):
        return [step.estimator] * len(candidates)
    if holders.is_columns(step.estimator):
        names = [one.name.partition("__")[2] for one in search.steps[:number]]
        parts = dict(zip(names, before, strict=True))
        columns = _configured(search, number, candidates[0], budgets)
        return [fitted_columns(step.name, columns, parts, X)] * len(candidates)
    if not step.is_private:
        configured = [_configured(search, number, j, budgets) for j in candidates]
        return [fitted_to_nothing(step.name, one, X) for one in configured]
    opened = search.opened.pop(number, None)
    label, configured, data = opened or (*_labeled(search, candidates, number, budgets), None)
    # The first fit charges all, before its first release; the others charge nothing.
    configured[0]._part, search.charge = configured[0]._part._replace(charge=search.charge), None
    with _estimator.fitted_within(configured[0], label):
        rows = composition.rows_of_step(step, X, search.people)
        corrects = _corrects_scales(search, before, configured[0], number, budgets)
        given = rows, search.y, data, search.users
        warnings, scales = fit_together(configured, *given, corrects_scales=corrects)
    search.scales |= {id(one): scales for one in configured}
    for one, messages in zip(configured, warnings, strict=True):
        one._warnings_given = search.told(number, budgets, messages)
    search.keep(configured[0].privacy_spent_, label)
    return configured


def _labeled(
    search: Fits, candidates: Sequence[int], number: int, budgets: FitBudgets
) -> tuple[str, list[Any]]:
    """Return a label for the next fit of a step, and the step for each candidate, with a seed."""
    label = search.steps[number].name
    if search.steps[number].share is None or len(search.candidates) > 1:
        search.n_labeled[budgets.name] += 1
        label = f"{budgets.name} {search.n_labeled[budgets.name]}"
    configured = [_configured(search, number, j, budgets) for j in candidates]
    for one in configured:
        # Not every one has it as a parameter.
        one.random_state = search.seed_of(label)
    return label, configured


def fit_together(
    estimators: Sequence[_estimator.PrivateEstimator],
    X: Any,
    y: Any = None,
    opened: Any = None,
    users: Mapping[str, Any] = MappingProxyType({}),
    *,
    corrects_scales: bool = False,
) -> tuple[list[list[str]], np.ndarray | None]:
    """Fit estimators that differ only in free parameters to one and the same releases.

    The data have been `opened` by the first of them, if these are given. The warnings that follow
    from the releases are returned, for each estimator. Those that follow
    from public facts are left out: the search has given them before it spends anything.
    """
    first, *others = estimators
    n_passes = partial(first._expected_passes, X)
    with _estimator.restored_on_error(first, n_passes, hides_groups=bool(users)):
        spec, data = opened or first._validate(X, y, **users)
        spec, result, budget = first._release(spec, data, lambda *_: None)
        if corrects_scales:
            result = result.of_correlations(spec.n_components)
        warnings = [first._keep(spec, result, budget)]
        for other in others:
            for name in set(FEATURE_ATTRIBUTES) & vars(first).keys():
                setattr(other, name, getattr(first, name))
            # The only free parameter that a spec holds.
            own_spec = replace(spec, n_components=as_python(other.n_components))
            own_result = result.for_rank(own_spec.n_components)
            warnings.append(other._keep(own_spec, own_result, budget))
            other.privacy_spent_ = first.privacy_spent_
    return warnings, result.scales if corrects_scales else None


def _assembled(search: Fits, fitted: Sequence[Any]) -> Any:
    """Put fitted steps together as they were."""
    if not search.steps[0].name:
        return fitted[0]
    pairs = zip(search.steps, fitted, strict=True)
    steps = [(step.name, one) for step, one in pairs if step.columns is None]
    if isinstance(search.estimator, holders.SharedBudget):
        return Pipeline(steps)
    return clone(search.estimator).set_params(steps=steps)


# ------------------------------
# What pipelines and searches have in common: one budget, one charge, one record.

# By how much, relatively, the sum of what was spent may exceed the whole: it is rounded up by half.
_ROUNDING = 2e-9  # not tuned


class SpendsOneBudget(_estimator.Watched, holders.DelegatesMixin):
    """Spends its whole budget on fits of several steps, and charges a ledger once."""

    epsilon: float
    delta: float
    ledger: Any

    def _cost(self) -> PrivacyCost:
        return PrivacyCost(float(as_python(self.epsilon)), float(as_python(self.delta)))

    def _begin(self, search: Fits) -> PrivacySpent:
        """Give the warnings that follow from public facts; let the first fit charge the whole.

        Return the record of the whole, without its releases.
        """
        cost, n_units, counted = search.split.cost, _num_samples(search.X), "rows"
        if search.people is not None:
            # How many rows they have is private.
            n_units, counted = search.people.n_people, "users"
        self._n_units = n_units
        self._warnings_given = _estimator.warnings_for_settings(
            cost, counted, n_units, self.random_state
        )
        self._warnings_given += [LABELS_BECOME_PUBLIC] * bool(search.lack_classes)
        self._warnings_given += warnings_for_fits(search)
        warn_of_privacy(*self._warnings_given)
        plan = search.planned(cost, ())
        whole = replace(PrivacyBudget.of(plan, NoiseSource(search.seed)).spent(), mu=cost.mu)
        if self.ledger is not None:
            name = f"{type(self).__name__}.fit, {n_units} {whole.unit}s"
            # The first fit, which would charge its own part, charges the whole.
            search.charge = lambda _: self.ledger.charge(whole, what=name)
        return whole

    def _set_features(self, model: Any) -> None:
        for name in FEATURE_ATTRIBUTES:
            # An earlier fit may have set what this one does not.
            self.__dict__.pop(name, None)
            if hasattr(model, name):
                setattr(self, name, getattr(model, name))


def total(whole: PrivacySpent, records: Sequence[PrivacySpent]) -> PrivacySpent:
    """Return the record of the whole, with its releases."""
    # Steps of one pipeline get the same rows, and a record is a row with its response.
    composed = records[0].compose(*records[1:], same_unit=True)
    is_over = composed.mu > whole.mu * (1 + _ROUNDING)
    if is_over or composed.delta_tail > whole.delta_tail * (1 + _ROUNDING):
        raise RuntimeError(f"All fits have spent mu={composed.mu}, and were given {whole.mu}.")
    return replace(
        composed,
        epsilon=whole.epsilon,
        delta=whole.delta,
        mu=min(composed.mu, whole.mu),
        enforced=composed.enforced and whole.enforced,
        delta_tail=whole.delta_tail,
    )


def with_one_record(model: Any, search: Fits, spent: PrivacySpent, ledger: Any) -> list[str]:
    """Give a model and its private steps the record of the whole; return their warnings.

    Where candidates share a fit of a step and differ in what they make of it, the warnings follow
    from the choice, and are left out.
    """
    holders.make_strict(model).privacy_spent_ = spent
    warnings = []
    for number, step in enumerate(search.steps):
        if step.is_private:
            part = search.fitted[id(model)][number]
            part.privacy_spent_ = spent
            # Another fit of the part costs what its parameters say. The seed, which would let
            # anybody subtract the noise, is not kept.
            if step.name in search.lack_classes:
                part.set_params(classes=None)
            part._part, part.ledger, part.random_state = None, ledger, None
            # What follows from public facts is said of the whole.
            if search.chooses_within(number):
                part._warnings_given = []
            warnings += part._warnings_given
    return warnings
