"""The candidates of a search, and their fits, each distinct one once."""

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import joblib
from sklearn.base import clone

from skdp._estimator import Charge, announce_fits, plan_of
from skdp.decomposition import DPPCA, DPTruncatedSVD
from skdp.decomposition._spec import RowsSpec
from skdp.pipeline._composition import with_names
from skdp.pipeline._rules import copied, is_columns, is_passed_through, not_private
from skdp.pipeline._run import (
    FEATURE_ATTRIBUTES,
    Fitted,
    Place,
    Prefix,
    Run,
    extended,
    fit_private,
    fit_public,
    handed,
    places_of,
    prepare,
    without_false_alarms,
)
from skdp.pipeline._shares import Shares, Step, shares_of
from skdp.privacy import PrivacySpent
from skdp.privacy.plan import PrivacyCost
from skdp.privacy.precision import as_python

# ------------------------------
# Candidates, split by steps, and which of their fits are one and the same.

_GUARANTEE = {"epsilon", "delta", "adjacency", "privacy_unit", "require_groups", "user_column"}
_NOT_TUNED = {"random_state", "ledger", "n_jobs"}


class Candidate(NamedTuple):
    """Parameters of a candidate, all together and for each step."""

    parameters: dict[str, Any]
    of_steps: tuple[dict[str, Any], ...]


class Keys(NamedTuple):
    """Which fits of a step a candidate shares: those of candidates with equal keys.

    One fit of a step serves all candidates that agree in the steps before it and in the parameters
    of the step. Free parameters, on which no release depends, may differ.
    """

    fit: Hashable  # equal for candidates that share the fit of the step
    result: Hashable  # the same, but free parameters of the step are equal too


def candidates_of(
    grid: Iterable[dict[str, Any]], estimator: Any, steps: Sequence[Step]
) -> list[Candidate]:
    """Split candidates by steps; refuse unknown parameters, and those that must not be searched."""
    candidates = []
    for parameters in grid:
        for name in parameters:
            _check_searched(name)
        candidates.append(Candidate(parameters, _split(parameters, steps)))
        # Refuses unknown parameters.
        clone(estimator).set_params(**parameters)
    if not candidates:
        raise ValueError("There are no candidates.")
    return candidates


def _check_searched(name: str) -> None:
    """Refuse parameters that belong to the guarantee, or that the search sets itself."""
    # A step may have the name privacy_unit. Parameters of a unit itself, such as
    # privacy_unit__bounds, may be searched.
    parts = name.split("__")
    if parts[-1] in _GUARANTEE:
        raise ValueError(
            f"{name!r} must not be searched: it is part of the guarantee that the search gives. "
            "skdp.model_selection.epsilon_curve tells, from public rows, what more epsilon buys."
        )
    if _NOT_TUNED.intersection(parts):
        raise ValueError(
            f"{name!r} must not be searched: pass ledger and random_state to the search, and set "
            "n_jobs on the estimator."
        )


def _split(parameters: dict[str, Any], steps: Sequence[Step]) -> tuple[dict[str, Any], ...]:
    """Return the parameters of each step; a step itself cannot be exchanged.

    Those of a private part of a ColumnTransformer are parameters of that, too.
    """
    if not steps[0].name:
        return (parameters,)
    split: list[dict[str, Any]] = [{} for _ in steps]
    for name, value in parameters.items():
        holders = [i for i, step in enumerate(steps) if name.startswith(f"{step.name}__")]
        fitted = (steps[i].estimator for i in holders)
        if all(is_passed_through(one) or is_columns(one) for one in fitted):
            raise ValueError(
                f"{name!r} must not be searched: pass 'step__parameter', of a step that is fitted, "
                "or 'columns__part__parameter', of a private part of a ColumnTransformer."
            )
        for i in holders:
            split[i][name.removeprefix(f"{steps[i].name}__")] = value
    return tuple(split)


def _steps_for(candidate: Candidate, run: Run) -> list[Step]:
    """Give the steps the parameters of a candidate; refuse public steps that they make private."""
    given, is_behind = list[Step](), False
    for step, parameters in zip(run.steps, candidate.of_steps, strict=True):
        one = copied(step.estimator)
        if parameters:
            one.set_params(**parameters)
            if not step.is_private:
                # The step itself was checked, but not with these.
                for refusal in not_private(step.name, one, is_behind=is_behind):
                    raise ValueError(refusal)
        is_behind = is_behind or (step.is_private and step.columns is None)
        given.append(step._replace(estimator=one))
    return with_names(given, run.X)


def _keys_of(candidate: Candidate, run: Run, places: Sequence[Place]) -> list[Keys]:
    """Return which fits a candidate shares with others."""
    keys: list[Keys] = []
    before: Hashable = ()
    for step, place, own in zip(run.steps, places, candidate.of_steps, strict=True):
        free = frozenset[str]()
        if step.is_private:
            if place.spec is not None and not place.follows:
                free = free_parameters(place.step, place.spec)
            own = place.step.get_params(deep=False)
        # Which parameters are free may differ between candidates, so it is part of the key.
        fit = before, tuple(sorted(free)), _key(own, without=free)
        before = before, _key(own)
        keys.append(Keys(fit, before))
    return keys


def free_parameters(step: Any, spec: Any) -> frozenset[str]:
    """Return the parameters that no release depends on: they only change what is made of it."""
    if not isinstance(step, DPPCA | DPTruncatedSVD) or not isinstance(spec, RowsSpec):
        return frozenset()
    # A solver that releases the second moment of all rows serves any number of components. Others
    # release a basis of `n_components` columns.
    is_whole = {spec.solver, *spec.guided_solvers} <= {"covariance"}
    return frozenset({"n_components", "whiten"} if is_whole else {"whiten"})


def _key(parameters: dict[str, Any], without: frozenset[str] = frozenset()) -> Hashable:
    """Make a key that is equal for equal parameters, arrays among them."""
    return tuple((name, _value_key(parameters[name])) for name in sorted({*parameters} - without))


def _value_key(value: Any) -> Hashable:
    try:
        return str(joblib.hash(as_python(value)))
    except Exception:
        # What cannot be pickled equals nothing else. That may cost fits, but no privacy.
        return object()


# ------------------------------
# How a budget is split among the fits of steps, and the choice of a search.

# Share of the choice: where one release serves all candidates, and where several fits are needed.
_CHOICE_OF_ONE, _CHOICE_OF_SEVERAL = 0.05, 0.10  # not studied
_FINAL_PARTS = 9  # not studied


class BudgetSplit(NamedTuple):
    """What every part of a search may spend."""

    n_fits: dict[int, int]  # fits of each private step, by its number
    search: Shares  # for the fits of the search
    final: Shares  # for the last fits, of the steps that have one
    choice: float  # share of the choice; 0 if there is nothing to choose


def split_budget(
    steps: Sequence[Step],
    candidates: Sequence[Sequence[Step]],
    n_fits: dict[int, int],
    cost: PrivacyCost,
    *,
    refits: bool = False,
) -> BudgetSplit:
    """Split a budget among the fits of each step, its last fits if it `refits`, and the choice.

    The choice gets a small part of the square of mu. The private steps share the rest by the shares
    that the caller gave, or in proportion to the squares of mu that these steps have. A step whose
    one fit serves all candidates spends its whole part on that fit. A step that takes G fits, and
    one last fit for the chosen candidate, splits its part into G + 9 parts: one for each fit of the
    search, and nine for the last fit, which thus has a third of the noise.
    """
    n_last = {i: int(refits and n > 1) for i, n in n_fits.items()}
    # Every fit gets an equal part of delta, of which some fits reserve a tail.
    delta = cost.delta / (sum(n_fits.values()) + sum(n_last.values()))
    reserved = {i: max(one[i].estimator._reserved_part() for one in candidates) for i in n_fits}
    tail = math.fsum((n_fits[i] + n_last[i]) * delta * part for i, part in reserved.items())
    whole = PrivacyCost(cost.epsilon, cost.delta, tail if cost.is_private else 0.0)
    choice = _CHOICE_OF_SEVERAL if max(n_fits.values()) > 1 else _CHOICE_OF_ONE
    choice = choice if len(candidates) > 1 else 0.0
    # Shares of the square of mu, because squares of mu add up.
    parts = {i: (1 - choice) * share for i, share in _shares(steps, n_fits).items()}
    parts = {i: part / (n_fits[i] + _FINAL_PARTS * n_last[i]) for i, part in parts.items()}
    last = {i: _FINAL_PARTS * part for i, part in parts.items() if n_last[i]}
    fits, last_fits = Shares(whole, parts, delta), Shares(whole, last, delta, "last fit")
    return BudgetSplit(n_fits, fits, last_fits, choice)


def _shares(steps: Sequence[Step], n_fits: dict[int, int]) -> dict[int, float]:
    """Return the share of each step; equal shares where a step is given an infinite epsilon."""
    if all(steps[i].share is not None for i in n_fits):
        return shares_of(steps, PrivacyCost(1.0, 0.5)).of
    squares = {i: steps[i].estimator._cost().mu ** 2 for i in n_fits}
    total = math.fsum(squares.values())
    if not math.isfinite(total):
        return dict.fromkeys(n_fits, 1 / len(n_fits))
    return {i: square / total for i, square in squares.items()}


# ------------------------------
# The fits of a search.


@dataclass(frozen=True)
class Search:
    """What is fitted for each candidate, and what every fit may spend."""

    run: Run
    candidates: Sequence[Candidate]
    runs: Sequence[Run]  # of each candidate
    places: Sequence[Sequence[Place]]
    keys: Sequence[Sequence[Keys]]
    split: BudgetSplit

    def chooses_within(self, number: int) -> bool:
        """Return whether candidates that share a fit of a step differ in what they make of it."""
        fits = {keys[number].fit for keys in self.keys}
        return len({keys[number].result for keys in self.keys}) > len(fits)


def search_of(
    estimator: Any,
    grid: Iterable[dict[str, Any]],
    X: Any,
    y: Any = None,
    *,
    cost: PrivacyCost,
    seed: int | None = None,
    refits: bool = False,
    users: Any = None,
) -> Search:
    """Refuse what is not acceptable; return what is to be fitted, at that cost in all."""
    run = prepare(estimator, X, y, seed=seed, users=users)
    candidates = candidates_of(grid, run.estimator, run.steps)
    runs = [replace(run, steps=_steps_for(one, run)) for one in candidates]
    # How many fits share the cost follows from the places of the steps.
    private = [i for i, step in enumerate(run.steps) if step.is_private]
    shares, start = Shares(cost, dict.fromkeys(private, 1.0), cost.delta), Prefix((), None, X)
    places = [places_of(one, shares, start) for one in runs]
    keys = [_keys_of(*of) for of in zip(candidates, runs, places, strict=True)]
    n_fits = {i: len({of[i].fit for of in keys}) for i in private}
    steps = [one.steps for one in runs]
    split = split_budget(run.steps, steps, n_fits, cost, refits=refits)
    announce_fits(sum(n_fits.values()) + len(split.final.of))
    return Search(run, candidates, runs, places, keys, split)


def warnings_for_fits(search: Search) -> list[str]:
    """Plan all fits, which refuses what the budget cannot pay for; return their warnings.

    Of a step that has a last fit, only the warnings about that fit count.
    """
    warnings: list[str] = []
    for shares in (search.split.search, search.split.final):
        for run, places in zip(search.runs, search.places, strict=True):
            for number in shares.of:
                if (facts := places[number].facts) is None:
                    continue
                step = handed(run, number, shares)
                spec = step._spec_of_size(*facts)
                messages = step._warnings(spec, plan_of(spec, step._plan(spec)))
                if shares is search.split.final or number not in search.split.final.of:
                    warnings += shares.prefixed(number, run.steps[number].name, messages)
    return warnings


def fit_candidates(
    search: Search, charge: Charge | None, records: dict[str, PrivacySpent]
) -> list[tuple[Any, ...]]:
    """Return the fitted steps of all candidates; add what fits have spent to the records.

    The first fit charges for everything.
    """
    members, start = range(len(search.runs)), Prefix((), None, search.run.X)
    found = _fit_from(search, members, start, search.split.search, charge, records)
    return [found[j] for j in members]


def refit(
    search: Search, chosen: int, fitted: Sequence[Any], records: dict[str, PrivacySpent]
) -> tuple[Any, ...]:
    """Fit the chosen candidate again, beginning with the first step that has a last fit.

    The steps before it have spent their whole part, and stay as they are.
    """
    shares, prefix = search.split.final, Prefix((), None, search.run.X)
    for one in fitted[: min(shares.of)]:
        prefix = extended(search.runs[chosen], prefix, one)
    return _fit_from(search, [chosen], prefix, shares, None, records)[chosen]


def _fit_from(
    search: Search,
    members: Sequence[int],
    prefix: Prefix,
    shares: Shares,
    charge: Charge | None,
    records: dict[str, PrivacySpent],
) -> dict[int, tuple[Any, ...]]:
    """Fit all steps behind a prefix, for the candidates that have it in common.

    It goes depth first, so that only the rows along one path are in memory at a time.
    """
    number, found = len(prefix.fitted), dict[int, tuple[Any, ...]]()
    if number == len(search.run.steps):
        return dict.fromkeys(members, prefix.fitted)
    for group in _grouped(members, lambda j: search.keys[j][number].fit):
        branches = _grouped(group, lambda j: search.keys[j][number].result)
        runs = [search.runs[branch[0]] for branch in branches]
        if search.run.steps[number].is_private:
            fits = _fit_together(search, runs, prefix, shares, charge, records)
        else:
            fits = [(fit_public(run, prefix), None) for run in runs]
        for run, branch, fit in zip(runs, branches, fits, strict=True):
            longer = extended(run, prefix, *fit)
            found |= _fit_from(search, branch, longer, shares, charge, records)
    return found


def _grouped(members: Sequence[int], key: Callable[[int], Any]) -> list[list[int]]:
    """Group the candidates that have the same key, in their order."""
    groups: dict[Any, list[int]] = {}
    for j in members:
        groups.setdefault(key(j), []).append(j)
    return list(groups.values())


def _fit_together(
    search: Search,
    runs: Sequence[Run],
    prefix: Prefix,
    shares: Shares,
    charge: Charge | None,
    records: dict[str, PrivacySpent],
) -> list[tuple[Any, Any]]:
    """Fit a private step once, for candidates that differ only in its free parameters.

    Return the step of each, and by what it corrects the scales of a scaler before it.
    """
    number = len(prefix.fitted)
    step, is_last = search.run.steps[number], shares is search.split.final
    label = step.name
    if step.share is None or len(search.runs) > 1:
        label = f"{shares.name} {1 + sum(one.startswith(shares.name) for one in records)}"
    first, *others = (handed(run, number, shares, label) for run in runs)
    # Candidates whose fits would correct scales differently are compared without that.
    corrects = is_last or search.split.n_fits[number] == 1
    given = Place(first), label, None, None if records else charge
    released = fit_private(runs[0], prefix, *given, corrects_scales=corrects)
    make_of(first, released, others)
    for one in (first, *others):
        one._warnings_given = shares.prefixed(number, step.name, one._warnings_given)
    records[label] = first.privacy_spent_
    return [(one, released.scales) for one in (first, *others)]


def make_of(first: Any, released: Fitted, others: Iterable[Any]) -> None:
    """Make others of what the first has released: they differ in free parameters only."""
    for other in others:
        for name in set(FEATURE_ATTRIBUTES) & vars(first).keys():
            setattr(other, name, getattr(first, name))
        # The only free parameter that a spec has.
        spec = replace(released.spec, n_components=as_python(other.n_components))
        result = released.result.for_rank(spec.n_components)
        other._warnings_given = other._keep(spec, result, released.budget)
        other.privacy_spent_ = first.privacy_spent_


def warnings_of_chosen(search: Search, fitted: Sequence[Any]) -> list[str]:
    """Return the warnings of the chosen steps.

    Where candidates share a fit of a step and differ in what they make of it, the warnings follow
    from the choice, and are left out.
    """
    for number in search.split.n_fits:
        if search.chooses_within(number):
            fitted[number]._warnings_given = []
    without_false_alarms(fitted)
    return [text for number in search.split.n_fits for text in fitted[number]._warnings_given]
