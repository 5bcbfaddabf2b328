"""What fits will cost, or have cost, from parameters alone; equal fits are counted together."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from numbers import Integral
from typing import Any

from sklearn import get_config
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.model_selection import (
    GridSearchCV,
    ParameterGrid,
    ParameterSampler,
    RandomizedSearchCV,
    check_cv,
)
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline

from skdp.exceptions import counted
from skdp.linear_model import DPPersonalizedRegressor
from skdp.linear_model._classifiers import PrivateClassifier
from skdp.model_selection._search import BaseDPSearch
from skdp.pipeline._composition import (
    SharedBudget,
    has_budget,
    is_passed_through,
    is_stateless,
    private_steps,
    private_within,
)
from skdp.privacy import Plan, PrivacyBudget, PrivacySpent, Release, gaussian_dp
from skdp.units import Unit

#: Private estimators, and how often each is fitted.
Fits = list[tuple[Any, int]]
#: How many fits there are of each record, which is that of a single fit.
PlannedCost = Counter[PrivacySpent]

_LARGEST_DELTA = math.nextafter(1.0, 0.0)  # not tuned
# Parameters that the records of fits, or their number, depend on; others change what is released at
# the same cost.
_PARAMETERS_OF_COST = frozenset({"adjacency", "delta", "epsilon", "init", "privacy_unit", "solver"})
_PARAMETERS_OF_COST |= {"cv", "estimators", "n_estimators", "param_grid", "refit", "steps"}
_PARAMETERS_OF_COST |= {"transformer_list", "transformers"}
# A plan needs a shape. Only the unit is read off the plan, and it is the same for all shapes.
_SOME_ROWS, _SOME_FEATURES = 1000, 1000  # not tuned


def planned_fits(estimator: Any) -> Fits:
    """List the private estimators that one fit fits, and how often; only parameters are read."""
    if has_budget(estimator):
        return [(estimator, 1)]
    if is_passed_through(estimator) or is_stateless(estimator):
        return []
    if isinstance(estimator, BaseSearchCV):
        return _fits_of_search(estimator)
    parts = _parts(estimator)
    if parts is None:
        if isinstance(estimator, BaseDPSearch):
            raise ValueError(
                f"{type(estimator).__name__} costs its whole epsilon and delta in each fit. They "
                "are not added up here: keep a ledger, which adds them up."
            )
        if isinstance(estimator, BaseEstimator) and private_steps(estimator):
            raise ValueError(
                f"How often {type(estimator).__name__} fits its private steps is not known. Keep "
                "a ledger, which counts the fits that are made."
            )
        return []
    return [(step, n * times) for part, times in parts for step, n in planned_fits(part)]


def candidate_of(search: Any, params: dict[str, Any]) -> Any:
    """Return a clone of the estimator of a search with the parameters of one candidate."""
    # Estimators among the parameters belong to the user: they are cloned, as the search does.
    return clone(search.estimator).set_params(**clone(params, safe=False))


def params_of_search(search: Any) -> list[dict[str, Any]]:
    """List the parameters of all candidates of a planned search; its random state stays unused.

    Candidates that will be drawn without a seed are represented by others of the same cost.
    Searches whose costs are drawn at random are refused, and so are those of other classes.
    """
    if isinstance(search, GridSearchCV):
        return list(ParameterGrid(search.param_grid))
    if not isinstance(search, RandomizedSearchCV):
        raise ValueError(
            f"How many fits a {type(search).__name__} makes is not known before it is fitted. "
            "Afterwards, skdp.privacy_spent tells what they cost."
        )
    seed = search.random_state
    if not isinstance(seed, Integral):
        _check_equal_costs(search)
        seed = 0
    return list(ParameterSampler(search.param_distributions, search.n_iter, random_state=seed))


def n_splits_of(search: Any) -> int:
    """Count the folds of a search; refuse if that needs data, or would exhaust an iterator."""
    if hasattr(search.cv, "__next__"):
        raise ValueError(
            "cv is an iterator, which counting its folds would exhaust; pass a list of folds."
        )
    splitter = check_cv(search.cv, classifier=is_classifier(search.estimator))
    with suppress(TypeError, ValueError, AttributeError):
        return int(splitter.get_n_splits(None, None))
    raise ValueError(
        f"cv={type(splitter).__name__} needs data to tell its number of folds, and no data are "
        "read here; pass an int, or a splitter that has a number of folds."
    )


def is_accepted(step: Any) -> bool:
    """Tell whether `fit` accepts the parameters; if it does not, it releases nothing."""
    try:
        step._validate_params()
    except ValueError:
        return False
    return True


def planned_cost(fits: Iterable[tuple[Any, int]]) -> PlannedCost:
    """Count the fits that have the same record."""
    cost: PlannedCost = Counter()
    for step, times in fits:
        cost[_planned_record(step)] += times
    return cost


def records_of(cost: PlannedCost) -> tuple[PrivacySpent, ...]:
    """Compose equal fits to one record, whose single release spends all of it."""
    return tuple(_repeated(record, times) for record, times in cost.items() if times)


def composed(records: Sequence[PrivacySpent], *, same_unit: bool) -> PrivacySpent:
    """Compose at least one record; a single one stays as it is, and is not rounded up."""
    first, *others = records
    return first.compose(*others, same_unit=same_unit) if others else first


def _parts(estimator: Any) -> list[tuple[Any, int]] | None:
    """Return what a fit fits, and how often; None if that is not known."""
    # Takes long to import, trees and all.
    from sklearn import ensemble

    # A subclass may fit more often, so that its parts are not known.
    kind = type(estimator)
    if kind is Pipeline:
        return [(step, 1) for _, step in estimator.steps]
    if kind is FeatureUnion:
        return [(part, 1) for _, part in estimator.transformer_list]
    if kind is ColumnTransformer:
        parts = [part for _, part, _ in estimator.transformers]
        return [(part, 1) for part in (*parts, estimator.remainder)]
    if kind is TransformedTargetRegressor:
        return [(estimator.regressor, 1), (estimator.transformer, 1)]
    if kind in (ensemble.VotingRegressor, ensemble.VotingClassifier):
        return [(part, 1) for _, part in estimator.estimators]
    if kind in (ensemble.BaggingRegressor, ensemble.BaggingClassifier):
        return [(estimator.estimator, int(estimator.n_estimators))]
    return None


def _fits_of_search(search: Any) -> Fits:
    candidates = [planned_fits(candidate_of(search, params)) for params in params_of_search(search)]
    n_splits = n_splits_of(search)
    fits = [(step, n * n_splits) for candidate in candidates for step, n in candidate]
    if search.refit is False:
        return fits
    return fits + _most_expensive(candidates)


def _most_expensive(candidates: list[Fits]) -> Fits:
    """Return the most expensive candidate: only scores tell which one is fitted last."""
    sizes = [_sizes(fits) for fits in candidates]
    largest = tuple(map(max, zip(*sizes, strict=True)))
    # One that spends more mu may reserve less of delta: then neither bounds what the other costs.
    if largest not in sizes:
        raise ValueError(
            "Which candidate a search fits last is not known before, and none of them costs at "
            "least as much as each of the others in mu, in epsilon and in the reserved part of "
            "delta. Pass refit=False, or candidates that differ in one of these only."
        )
    return candidates[sizes.index(largest)]


def _sizes(fits: Fits) -> tuple[float, float, float]:
    """Add up what fits cost: squares of mu, epsilon, and what they reserve of delta."""
    costs = [(step._cost(), n) for step, n in fits]
    return (
        math.fsum(n * cost.mu**2 for cost, n in costs),
        math.fsum(n * cost.epsilon for cost, n in costs if cost.is_pure),
        math.fsum(n * cost.delta_tail for cost, n in costs),
    )


def _check_equal_costs(search: Any) -> None:
    """Refuse candidates that are drawn at random and differ in what they cost."""
    spaces, costs = search.param_distributions, set()
    for space in [spaces] if isinstance(spaces, Mapping) else spaces:
        related = {name: values for name, values in space.items() if _may_change_cost(name, values)}
        drawn = [name for name, values in related.items() if hasattr(values, "rvs")]
        if not drawn:
            candidates = (candidate_of(search, params) for params in ParameterGrid(related))
            costs |= {frozenset(planned_cost(planned_fits(one)).items()) for one in candidates}
        if drawn or len(costs) > 1:
            raise ValueError(
                f"What a candidate costs is drawn at random, from {', '.join(drawn or related)}, "
                "and not known before; pass an int as random_state of the search."
            )


def _may_change_cost(name: str, values: Any) -> bool:
    """Tell whether the cost of a fit may depend on a parameter, as it does on steps."""
    if name.rpartition("__")[2] in _PARAMETERS_OF_COST:
        return True
    return not hasattr(values, "rvs") and any(
        is_passed_through(value) or hasattr(value, "fit") for value in values
    )


def _planned_record(step: Any) -> PrivacySpent:
    """Return the record of one fit; a single release of sensitivity 1 spends all of it."""
    step._validate_params()
    cost, (unit, enforced) = step._cost(), _unit_of(step)
    plan = Plan(cost, (), unit=unit, adjacency=str(step.adjacency), enforced=enforced)
    whole = replace(PrivacyBudget.of(plan).spent(), mu=cost.mu)
    return _with_one_release(whole, f"fit of {type(step).__name__}")


def _unit_of(step: Any) -> tuple[str, bool]:
    """Return the name of the unit that a step protects, and whether it enforces the bounds."""
    if isinstance(step, DPPersonalizedRegressor):
        # Without groups, which only metadata routing brings through a search, every row is a user.
        is_routed = get_config()["enable_metadata_routing"]
        has_users = is_routed or step.require_groups or step.user_column is not None
        return "user" if has_users else "row", True
    given = getattr(step, "privacy_unit", None)
    if isinstance(step, SharedBudget):
        return str(given), all(_unit_of(one)[1] for one in private_within(step).values())
    if isinstance(step, PrivateClassifier):
        # Classes that are taken from the labels are promised to be public.
        return str(given), step.classes is not None
    if given is None:
        plan = step.plan(_SOME_ROWS, _SOME_FEATURES)
        return plan.unit, plan.enforced
    if isinstance(given, Unit):
        unit = given.resolve(step.adjacency, float(step.epsilon))
        return unit.name, unit.is_enforced
    return str(given), True


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
