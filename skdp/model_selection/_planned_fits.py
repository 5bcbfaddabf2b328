"""What the fits of a search have cost, from parameters alone; equal fits are counted together."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from sklearn.base import clone
from sklearn.model_selection import GroupKFold, GroupShuffleSplit

from skdp.exceptions import counted, shown
from skdp.pipeline._composition import unit_of
from skdp.privacy import Plan, PrivacyBudget, PrivacySpent, Release, gaussian_dp

#: How many fits there are of each record, which is that of a single fit.
PlannedCost = Counter[PrivacySpent]

_LARGEST_DELTA = math.nextafter(1.0, 0.0)  # not tuned


def candidate_of(search: Any, params: dict[str, Any]) -> Any:
    """Return a clone of the estimator of a search with the parameters of one candidate."""
    # Estimators among the parameters belong to the user: they are cloned, as the search does.
    return clone(search.estimator).set_params(**clone(params, safe=False))


def check_splits(search: Any, cost: PlannedCost) -> None:
    """Refuse folds of fits that protect users in which one user's rows move those of others.

    Such are all folds by the places or the numbers of rows, as of KFold and of plain GroupKFold:
    neighboring fits would differ in many users.
    """
    splitter = search.cv
    is_by_ids = isinstance(splitter, GroupShuffleSplit) or (
        isinstance(splitter, GroupKFold) and getattr(splitter, "shuffle", False)
    )
    if not is_by_ids and any(record.unit == "user" for record in cost):
        raise ValueError(
            f"cv={shown(splitter)} does not split by ids of users alone, so that one user's rows "
            "move those of others to other folds: pass GroupShuffleSplit, or "
            "GroupKFold(shuffle=True, random_state=...)."
        )


def planned_cost(steps: Iterable[Any]) -> PlannedCost:
    """Count the fits of private steps that have the same record; each step is fitted once."""
    return Counter(map(_planned_record, steps))


def records_of(cost: PlannedCost) -> tuple[PrivacySpent, ...]:
    """Compose equal fits to one record, whose single release spends all of it."""
    return tuple(_repeated(record, times) for record, times in cost.items() if times)


def repeated(cost: PlannedCost, times: int) -> PlannedCost:
    """Count fits that are made so many times."""
    return Counter({record: n * times for record, n in cost.items()})


def composed(records: Sequence[PrivacySpent]) -> PrivacySpent:
    """Compose at least one record; a single one stays as it is, and is not rounded up.

    A row of X belongs to a record. A step that was fitted to others costs no more.
    """
    first, *others = records
    return first.compose(*others, same_unit=True) if others else first


def _planned_record(step: Any) -> PrivacySpent:
    """Return the record of one fit; a single release of sensitivity 1 spends all of it."""
    step._validate_params()
    cost, (unit, enforced) = step._cost(), unit_of(step)
    plan = Plan(cost, (), unit=unit, adjacency=str(step.adjacency), enforced=enforced)
    whole = replace(PrivacyBudget.of(plan).spent(), mu=cost.mu)
    return _with_one_release(whole, f"fit of {type(step).__name__}")


def _with_one_release(record: PrivacySpent, name: str) -> PrivacySpent:
    """Set a single release of sensitivity 1, with the noise that spends the whole record."""
    if record._is_pure:
        release = Release(name, "laplace", 1.0, math.sqrt(2) / record.epsilon, 1.0)
    else:
        release = Release(name, "gaussian", 1.0, 1 / record.mu if record.mu else math.inf, 1.0)
    return replace(record, releases=(release,))


def _repeated(record: PrivacySpent, times: int) -> PrivacySpent:
    """Compose equal records as `PrivacySpent.compose` does, in a time independent of `times`."""
    # Squares of mu add, tails add, and delta grows by the tails of all but the first.
    mu = gaussian_dp.compose([record.mu * math.sqrt(times)])
    tail = min(1.0, _product_up(times, record.delta_tail))
    delta = min(record.delta + _product_up(times - 1, record.delta_tail), _LARGEST_DELTA)
    epsilon = times * record.epsilon
    if not record._is_pure:
        epsilon = gaussian_dp.epsilon_at(mu, delta, tail)
    name = counted(times, "fit") + record.releases[0].name.removeprefix("fit")
    whole = replace(record, epsilon=epsilon, delta=delta, mu=mu, delta_tail=tail)
    return _with_one_release(whole, name)


def _product_up(times: int, tail: float) -> float:
    """Multiply, and round up."""
    return math.nextafter(times * tail, math.inf) if times and tail else 0.0
