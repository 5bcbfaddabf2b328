"""The candidates of a search, and the fits that they share."""

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import joblib
from sklearn.base import clone

from skdp._estimator import announce_fits, plan_of
from skdp.data.people import ids_in_memory
from skdp.decomposition import DPPCA, DPTruncatedSVD
from skdp.decomposition._spec import RowsSpec
from skdp.exceptions import shortened
from skdp.pipeline import _run
from skdp.pipeline._composition import Shares, Step, shares_of
from skdp.pipeline._rules import is_passed_through
from skdp.privacy import PrivacySpent
from skdp.privacy.plan import PrivacyCost
from skdp.privacy.precision import as_python
from skdp.privacy.releases import Charge

# ------------------------------
# Candidates, and the fits of steps that several candidates share.

# Parameters that must not be searched: parts of the guarantee, and those that shape no model.
_GUARANTEE = {"epsilon", "delta", "adjacency", "privacy_unit", "require_groups", "user_column"}
_NOT_OF_MODEL = {"random_state", "ledger", "n_jobs"}


class Keys(NamedTuple):
    """Keys of a candidate at a step; candidates with equal keys share work of the step.

    One fit of a step serves all candidates that agree in the earlier steps and in the parameters of
    the step. They may differ in free parameters of the step, which affect no release.
    """

    fit: Hashable  # equal for candidates that share the fit of the step
    result: Hashable  # equal if the free parameters of the step are equal, too


class Candidate(NamedTuple):
    """A candidate of a search: its parameters, and public facts about its fit."""

    parameters: dict[str, Any]
    run: _run.Run  # the checked input of its fit
    shares: Mapping[int, float]  # of the private steps, by the number of the step
    facts: Sequence[_run.StepFacts]
    keys: Sequence[Keys]


def _check_searched(parameters: dict[str, Any], estimator: Any) -> None:
    """Refuse parameters of the guarantee, of the search, and of steps that are not fitted."""
    steps = dict(getattr(estimator, "steps", ()))
    fitted = [name for name in steps if not is_passed_through(parameters.get(name, steps[name]))]
    for name in parameters:
        # Only the last part of a name counts: privacy_unit__bounds may be searched.
        parts = name.split("__")
        if parts[-1] in _GUARANTEE:
            raise ValueError(
                f"{name!r} must not be searched: it is part of the guarantee of the search. "
                "skdp.model_selection.epsilon_curve shows on public rows what epsilon buys."
            )
        if _NOT_OF_MODEL.intersection(parts):
            raise ValueError(
                f"{name!r} must not be searched: pass it to the search, n_jobs to the estimator."
            )
        if steps and parts[0] not in fitted and name not in {"shares", *steps}:
            prefixes = shortened([f"{one}__" for one in fitted])
            raise ValueError(
                f"{name!r} must not be searched: it belongs to no step that is fitted. Search "
                f"shares, a step, or names that begin with {prefixes}."
            )


def _keys_of(
    steps: Sequence[Step], shares: Mapping[int, float], facts: Sequence[_run.StepFacts]
) -> list[Keys]:
    """Return the `Keys` of each step of a candidate; `facts` has what is known before its fit."""
    keys: list[Keys] = []
    key_before: Hashable = ()  # one key of all earlier steps
    for number, (step, known) in enumerate(zip(steps, facts, strict=True)):
        free, parameters = frozenset[str](), {"": step.estimator}
        if step.is_private:
            if known.spec is not None and not known.follows:
                free = free_parameters(known.estimator, known.spec)
            parameters = known.estimator.get_params(deep=False)
        functions = step.target and (step.target.func, step.target.inverse_func)
        wiring = step.columns, step.before, functions
        kind = type(step.estimator), shares.get(number), *map(_value_key, wiring)
        # A parameter may be free for some candidates only, so the key of a fit has the free names.
        fit = key_before, step.name, kind, tuple(sorted(free)), _key(parameters, without=free)
        key_before = key_before, step.name, kind, _key(parameters)
        keys.append(Keys(fit, result=key_before))
    return keys


def free_parameters(step: Any, spec: Any) -> frozenset[str]:
    """Return the free parameters of a step, which change only what is computed from releases."""
    if not isinstance(step, DPPCA | DPTruncatedSVD) or not isinstance(spec, RowsSpec):
        return frozenset()
    # If all solvers that may run release a second moment, this moment serves any number of
    # components. Other solvers release a basis of `n_components` columns.
    is_whole = {spec.solver, *spec.guided_solvers} <= {"covariance"}
    return frozenset({"n_components", "whiten"} if is_whole else {"whiten"})


def _key(parameters: dict[str, Any], without: frozenset[str] = frozenset()) -> Hashable:
    """Return a key that is equal for equal parameters, arrays included."""
    return tuple((name, _value_key(parameters[name])) for name in sorted({*parameters} - without))


def _value_key(value: Any) -> Hashable:
    """Return a key that is equal for equal values, by their pickles."""
    try:
        return str(joblib.hash(as_python(value)))
    except Exception:
        if isinstance(value, list | tuple):
            return tuple(map(_value_key, value))
        # The key of an object without a pickle, such as a function, is its id, which is unique as
        # long as a candidate refers to the object. The key of a frozen estimator is its id, too, as
        # its parameters do not show what it has learned.
        is_estimator = hasattr(value, "get_params") and not is_passed_through(value)
        return (type(value), _key(value.get_params(deep=False))) if is_estimator else id(value)


# ------------------------------
# How a search splits its budget among the fits of steps and the choice.

# The share of the choice is `_CHOICE_OF_SEVERAL` if a step has several fits, else `_CHOICE_OF_ONE`.
_CHOICE_OF_ONE, _CHOICE_OF_SEVERAL = 0.05, 0.10  # not studied
# The last fit of a step gets this multiple of the share of a fit in the search.
_FINAL_PARTS = 9  # not studied
# The sum of all shares may exceed 1 by `_OVER_ONE`, as shares are rounded.
_OVER_ONE = 1e-12  # not tuned


class BudgetSplit(NamedTuple):
    """The cost that each fit and the choice may spend."""

    whole: PrivacyCost  # total cost
    n_fits: dict[str, int]  # fits of each private step, by its name
    search: Sequence[Shares]  # what each candidate's fits of the search may spend
    final: Sequence[Shares]  # what each candidate's last fits may spend, if it is chosen
    choice: float  # share of the choice; 0 with a single candidate


def split_budget(
    candidates: Sequence[Candidate], cost: PrivacyCost, *, refits: bool = False
) -> BudgetSplit:
    """Split a budget between the choice, the fits of a search and, if `refits`, the last fits.

    The choice gets a small part of the square of mu. The private steps share the rest by the
    caller's shares, or in proportion to their squares of mu. If one fit of a step serves all
    candidates, this fit gets the whole part of the step. With G fits and one last fit for the
    chosen candidate, the part of the step is split into G + 9 parts: one for each fit of the
    search, and nine for the last fit, which thus has a third of the noise. If candidates have
    different steps or shares, all parts shrink until the budget suffices for any choice.
    """
    # For each private step: the shares of its distinct fits, by their keys; and the part of delta
    # that it reserves in each candidate that has the step.
    fits, reserved = dict[str, dict[Hashable, float]](), dict[str, list[float]]()
    for one in candidates:
        for i, share in one.shares.items():
            step = one.run.steps[i]
            fits.setdefault(step.name, {})[one.keys[i].fit] = share
            reserved.setdefault(step.name, []).append(step.estimator._reserved_part())
    n_fits = {name: len(shares) for name, shares in fits.items()}
    # Each fit gets an equal part of delta, of which it may reserve a tail. A step has no last fit
    # if one fit serves all candidates.
    serve_all = {
        name for name, n in n_fits.items() if n == 1 and len(reserved[name]) == len(candidates)
    }
    n_last = {name: int(refits and name not in serve_all) for name in n_fits}
    delta = cost.delta / (sum(n_fits.values()) + sum(n_last.values()))
    tail = math.fsum((n + n_last[name]) * delta * max(reserved[name]) for name, n in n_fits.items())
    whole = PrivacyCost(cost.epsilon, cost.delta, tail if cost.is_private else 0.0)
    choice = _CHOICE_OF_SEVERAL if max(n_fits.values()) > 1 else _CHOICE_OF_ONE
    choice = choice if len(candidates) > 1 else 0.0

    # The share of a step is divided into this many parts. Shares are parts of the square of mu, and
    # squares of mu add up.
    n_parts = {name: n + _FINAL_PARTS * n_last[name] for name, n in n_fits.items()}
    of_search, of_last = list[dict[int, float]](), list[dict[int, float]]()
    for one in candidates:
        names = {i: one.run.steps[i].name for i in one.shares}
        shares = {i: (1 - choice) * s / n_parts[names[i]] for i, s in one.shares.items()}
        of_search.append(shares)
        of_last.append({i: _FINAL_PARTS * s for i, s in shares.items() if n_last[names[i]]})
    of_fits = math.fsum(s / n_parts[name] for name, own in fits.items() for s in own.values())
    # The fits of the search, with the most expensive last fits, may exceed what the choice leaves.
    excess = of_fits + max(math.fsum(own.values()) for own in of_last) / (1 - choice)
    excess = excess if excess > 1 + _OVER_ONE else 1.0
    search, final = (
        [Shares(whole, {i: s / excess for i, s in own.items()}, delta, name) for own in given]
        for given, name in ((of_search, "fit"), (of_last, "last fit"))
    )
    return BudgetSplit(whole, n_fits, search, final, choice)


def _shares(steps: Sequence[Step]) -> dict[int, float]:
    """Return the shares of the private steps, by the number of the step.

    If the caller has not set shares, they are in proportion to the squares of mu of the steps, or
    equal if a mu is infinite.
    """
    private = [i for i, step in enumerate(steps) if step.is_private]
    if all(steps[i].share is not None for i in private):
        return shares_of(steps, PrivacyCost(1.0, 0.5)).by_step
    squares = {i: steps[i].estimator._cost().mu ** 2 for i in private}
    total = math.fsum(squares.values())
    if not math.isfinite(total):
        return dict.fromkeys(private, 1 / len(private))
    return {i: square / total for i, square in squares.items()}


# ------------------------------
# The fits of a search.


class Search(NamedTuple):
    """The candidates of a search, and the costs of their fits."""

    run: _run.Run  # the run of one candidate, for facts that are the same for all candidates
    candidates: Sequence[Candidate]
    split: BudgetSplit


def prepare_search(
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
    """Check grid and data; return the candidates, and the costs of their fits."""
    candidates, users = list[Candidate](), ids_in_memory(users)  # read once, for all candidates
    for parameters in grid:
        _check_searched(parameters, estimator)
        one = clone(estimator).set_params(**clone(parameters, safe=False))
        run = _run.prepare(one, X, y, seed=seed, users=users)
        shares = _shares(run.steps)
        # To count the distinct fits, all steps are planned as if each could spend the whole cost.
        whole = Shares(cost, dict.fromkeys(shares, 1.0), cost.delta)
        facts = _run.step_facts(run, whole, _run.Prefix((), None, run.X))
        keys = _keys_of(run.steps, shares, facts)
        candidates.append(Candidate(parameters, run, shares, facts, keys))
    if not candidates:
        raise ValueError("There are no candidates.")
    units = {(one.run.unit, one.run.adjacency) for one in candidates}
    if len(units) > 1:
        raise ValueError(f"All candidates must protect the same unit, got {sorted(units)}.")
    split = split_budget(candidates, cost, refits=refits)
    announce_fits(sum(split.n_fits.values()) + max(len(shares.by_step) for shares in split.final))
    # If a candidate relies on a promise, such as classes taken from labels, its run stands for all,
    # so that the record tells of the promise.
    runs = (one.run for one in candidates)
    run = min(runs, key=lambda run: (not run.classes_from_y, run.enforced))
    return Search(run, candidates, split)


def warnings_for_fits(search: Search) -> list[str]:
    """Plan all fits, to refuse too small budgets; return the warnings of the plans.

    If a step has a last fit, only the warnings of this fit are returned.
    """
    warnings: list[str] = []
    final = search.split.final
    for all_shares in (search.split.search, final):
        for shares, last, one in zip(all_shares, final, search.candidates, strict=True):
            for number in shares.by_step:
                if (size := one.facts[number].size) is None:
                    continue
                step = _run.with_cost(one.run, number, shares)
                spec = step._spec_of_size(*size)
                messages = step._warnings(spec, plan_of(spec, step._plan(spec)))
                if shares is last or number not in last.by_step:
                    warnings += shares.prefixed(number, one.run.steps[number].name, messages)
    return warnings


def fit_candidates(
    search: Search, charge: Charge | None, records: dict[str, PrivacySpent]
) -> list[tuple[Any, ...]]:
    """Fit the steps of all candidates; add the records of the fits to `records`.

    The first fit charges the cost of the whole search.
    """
    members, start = range(len(search.candidates)), _run.Prefix((), None, search.run.X)
    found = _Fits(search, search.split.search, charge, records).behind(start, members)
    return [found[j] for j in members]


def refit(
    search: Search, chosen: int, fitted: Sequence[Any], records: dict[str, PrivacySpent]
) -> tuple[Any, ...]:
    """Fit the chosen candidate again, from the first step with a last fit on.

    Earlier steps have spent their whole part in the search, and stay as they are.
    """
    shares, prefix = search.split.final, _run.Prefix((), None, search.run.X)
    for one in fitted[: min(shares[chosen].by_step)]:
        prefix = _run.extended(search.candidates[chosen].run, prefix, one)
    return _Fits(search, shares, None, records).behind(prefix, [chosen])[chosen]


class _Fits(NamedTuple):
    """Fits candidates with the given shares, and adds the records of the fits."""

    search: Search
    shares: Sequence[Shares]
    charge: Charge | None
    records: dict[str, PrivacySpent]

    def behind(self, prefix: _run.Prefix, members: Sequence[int]) -> dict[int, tuple[Any, ...]]:
        """Fit the steps behind a prefix that candidates share; return all steps by candidate.

        All steps of one candidate are fitted before another branch begins, so that memory holds the
        mapped rows of one candidate only.
        """
        number, found = len(prefix.fitted), dict[int, tuple[Any, ...]]()
        candidates = self.search.candidates
        # All candidates that share these fitted steps have the same number of steps.
        if number == len(candidates[members[0]].keys):
            return dict.fromkeys(members, prefix.fitted)
        for group in _grouped(members, lambda j: candidates[j].keys[number].fit):
            branches = _grouped(group, lambda j: candidates[j].keys[number].result)
            runs = [candidates[branch[0]].run for branch in branches]
            if runs[0].steps[number].is_private:
                fits = self._fit_once(prefix, runs, self.shares[group[0]])
            else:
                fits = [(_run.fit_public(run, prefix), None) for run in runs]
            for run, branch, fit in zip(runs, branches, fits, strict=True):
                found |= self.behind(_run.extended(run, prefix, *fit), branch)
        return found

    def _fit_once(
        self, prefix: _run.Prefix, runs: list[_run.Run], own: Shares
    ) -> list[tuple[Any, Any]]:
        """Fit a private step once, for candidates that differ in its free parameters only.

        Return the step of each candidate, and the factors that correct the scaler before the step.
        """
        number, records, split = len(prefix.fitted), self.records, self.search.split
        step = runs[0].steps[number]
        label = step.label
        # A search numbers the fits of a step in its record, such as "fit 1".
        if step.share is None or len(self.search.candidates) > 1:
            label = f"{own.name} {1 + sum(one.startswith(own.name) for one in records)}"
            label += step.label.removeprefix(step.name)
        first, *others = (_run.with_cost(run, number, own, label) for run in runs)
        # If the step has several fits, each would correct the scaler differently: so only the last
        # fit corrects it.
        corrects = self.shares is split.final or split.n_fits[step.name] == 1
        known, charge = _run.StepFacts(first), None if records else self.charge
        *released, scales = _run.fit_private(
            runs[0], prefix, known, label, charge, corrects_scales=corrects
        )
        fit_from_releases(others, first, *released)
        for one in (first, *others):
            one._warnings_given = own.prefixed(number, step.name, one._warnings_given)
        records[label] = first.privacy_spent_
        return [(one, scales) for one in (first, *others)]


def _grouped(members: Sequence[int], key: Callable[[int], Any]) -> list[list[int]]:
    """Group candidates by their keys, in order."""
    groups = defaultdict[Any, list[int]](list)
    for j in members:
        groups[key(j)].append(j)
    return list(groups.values())


def fit_from_releases(
    others: Iterable[Any], first: Any, spec: Any, result: Any, budget: Any
) -> None:
    """Set the attributes of the steps of other candidates from the releases of the first fit."""
    for other in others:
        for name in set(_run.FEATURE_ATTRIBUTES) & vars(first).keys():
            setattr(other, name, getattr(first, name))
        # Of all free parameters, only n_components is a field of a spec.
        own_spec = replace(spec, n_components=as_python(other.n_components))
        own_result = result.for_rank(own_spec.n_components)
        other._warnings_given = other._keep(own_spec, own_result, budget)
        other.privacy_spent_ = first.privacy_spent_


def warnings_of_chosen(search: Search, chosen: int, fitted: Sequence[Any]) -> list[str]:
    """Return the warnings of the chosen candidate's steps.

    If candidates use the releases of one fit differently, as with several numbers of components,
    the warnings of this fit are left out: the search has compared these candidates.
    """
    all_keys = [keys for one in search.candidates for keys in one.keys]
    private = search.candidates[chosen].shares
    for number in private:
        fit = search.candidates[chosen].keys[number].fit
        if len({keys.result for keys in all_keys if keys.fit == fit}) > 1:
            fitted[number]._warnings_given = []
    _run.without_false_alarms(fitted)
    return [text for number in private for text in fitted[number]._warnings_given]
