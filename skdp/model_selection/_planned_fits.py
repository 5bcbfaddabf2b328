"""What fits will cost, or have cost, told from parameters alone: one bill for equal fits."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any

from sklearn import get_config
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.model_selection import (
    GridSearchCV,
    ParameterGrid,
    ParameterSampler,
    RandomizedSearchCV,
    check_cv,
)
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline

from skdp._estimator import PrivateEstimator
from skdp.linear_model import DPPersonalizedRegressor
from skdp.model_selection._private_steps import (
    is_passed_through,
    is_stateless,
    private_steps,
)
from skdp.model_selection._search import BaseDPSearch
from skdp.privacy import PrivacySpent, Release, gaussian_dp
from skdp.units._unit import Unit

__all__ = [
    "UnknownFits",
    "candidate_of",
    "composed",
    "is_accepted",
    "n_splits_of",
    "params_of_search",
    "planned_cost",
    "planned_fits",
    "records_of",
]

#: Private estimators, and how often each is fitted.
Fits = list[tuple[PrivateEstimator, int]]
#: Records of one fit each, and how many such fits there are.
PlannedCost = Mapping[PrivacySpent, int]

_LARGEST_DELTA = math.nextafter(1.0, 0.0)  # not tuned
# Parameters that a record follows; all others change what is released for the same price.
_PRICED = frozenset({"adjacency", "delta", "epsilon", "init", "privacy_unit", "solver"})
# Any shape does: a step with one unit has it for all.
_SOME_ROWS, _SOME_FEATURES = 1000, 1000  # not tuned


class UnknownFits(ValueError):
    """How often private steps are fitted is not known."""


def planned_fits(estimator: Any) -> Fits:
    """List the private estimators that one fit fits, and how often; only parameters are read."""
    if isinstance(estimator, PrivateEstimator):
        return [(estimator, 1)]
    if is_passed_through(estimator) or is_stateless(estimator):
        return []
    if isinstance(estimator, BaseSearchCV):
        return _fits_of_search(estimator)
    parts = _parts(estimator)
    if parts is None:
        if isinstance(estimator, BaseDPSearch):
            raise UnknownFits(
                f"{type(estimator).__name__} costs its whole epsilon and delta in every fit of it, "
                "which is not added up here: keep a ledger, which does."
            )
        if isinstance(estimator, BaseEstimator) and private_steps(estimator):
            raise UnknownFits(
                f"How often {type(estimator).__name__} fits its private steps is not known; keep "
                "a ledger, which counts the fits that are made."
            )
        return []
    return [(step, n * times) for part, times in parts for step, n in planned_fits(part)]


def candidate_of(search: Any, params: dict[str, Any]) -> Any:
    """Return a clone of the estimator of a search with the parameters of one candidate."""
    # As the search does: parameters that are estimators belong to the user.
    return clone(search.estimator).set_params(**clone(params, safe=False))


def params_of_search(search: Any) -> list[dict[str, Any]]:
    """List the parameters of all candidates of a search to come, and use no random state up.

    Of candidates that are drawn without a seed, others that cost as much stand for them. A search
    of another kind is refused, and one whose costs are drawn at random.
    """
    if isinstance(search, GridSearchCV):
        return list(ParameterGrid(search.param_grid))
    if not isinstance(search, RandomizedSearchCV):
        raise ValueError(
            f"How many fits a {type(search).__name__} makes is not known before it is fitted; "
            "afterwards, skdp.privacy_spent tells what they cost."
        )
    seed = search.random_state
    if not isinstance(seed, Integral):
        _check_price(search)
        seed = 0
    return list(ParameterSampler(search.param_distributions, search.n_iter, random_state=seed))


def n_splits_of(search: Any) -> int:
    """Count the folds of a search; refuse where that takes data, or would use an iterator up."""
    if hasattr(search.cv, "__next__"):
        raise ValueError(
            "cv is an iterator, which counting its folds would use up; pass a list of them."
        )
    splitter = check_cv(search.cv, classifier=is_classifier(search.estimator))
    try:
        return int(splitter.get_n_splits(None, None))
    except (TypeError, ValueError, AttributeError):
        pass
    raise ValueError(
        f"cv={type(splitter).__name__} needs data to tell its number of folds, and none are read "
        "here; pass an int, or a splitter with a number of folds of its own."
    )


def is_accepted(step: PrivateEstimator) -> bool:
    """Tell whether `fit` accepts the parameters; if not it has released nothing."""
    try:
        step._validate_params()
    except ValueError:
        return False
    return True


def planned_cost(fits: Iterable[tuple[PrivateEstimator, int]]) -> Counter[PrivacySpent]:
    """Count the fits of each price, as records of one fit."""
    bill: Counter[PrivacySpent] = Counter()
    for step, times in fits:
        bill[_planned_record(step)] += times
    return bill


def records_of(bill: PlannedCost) -> tuple[PrivacySpent, ...]:
    """Return one record for all fits of one price, with a release that is worth as much."""
    return tuple(_repeated(record, times) for record, times in bill.items() if times)


def composed(records: Sequence[PrivacySpent], *, same_unit: bool) -> PrivacySpent:
    """Compose at least one record; one alone is not rounded up."""
    first, *others = records
    return first.compose(*others, same_unit=same_unit) if others else first


def _parts(estimator: Any) -> list[tuple[Any, int]] | None:
    """Return what a fit fits, and how often; None if that is not known."""
    # No subclasses, which may fit more often.
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
    if kind in (VotingRegressor, VotingClassifier):
        return [(part, 1) for _, part in estimator.estimators]
    if kind in (BaggingRegressor, BaggingClassifier):
        return [(estimator.estimator, int(estimator.n_estimators))]
    return None


def _fits_of_search(search: Any) -> Fits:
    candidates = [planned_fits(candidate_of(search, params)) for params in params_of_search(search)]
    n_splits = n_splits_of(search)
    fits = [(step, n * n_splits) for candidate in candidates for step, n in candidate]
    if search.refit is False:
        return fits
    return fits + max(candidates, key=lambda one: sum(n * step._cost().mu ** 2 for step, n in one))


def _check_price(search: Any) -> None:
    """Refuse candidates that are drawn at random and differ in what they cost."""
    spaces = search.param_distributions
    bills = set()
    for distributions in [spaces] if isinstance(spaces, Mapping) else spaces:
        priced = {
            name: values for name, values in distributions.items() if _has_price(name, values)
        }
        drawn = [name for name, values in priced.items() if hasattr(values, "rvs")]
        if not drawn:
            bills |= {
                frozenset(planned_cost(planned_fits(candidate_of(search, params))).items())
                for params in ParameterGrid(priced)
            }
        if drawn or len(bills) > 1:
            raise ValueError(
                f"What a candidate costs is drawn at random, from {', '.join(drawn or priced)}, "
                "and not known before; pass an int as random_state of the search."
            )


def _has_price(name: str, values: Any) -> bool:
    """Tell whether what a fit costs may follow a parameter."""
    if name.rpartition("__")[2] in _PRICED:
        return True
    return not hasattr(values, "rvs") and any(
        is_passed_through(value) or hasattr(value, "fit") for value in values
    )


def _planned_record(step: PrivateEstimator) -> PrivacySpent:
    """Return the record of one fit, with a release of sensitivity 1 that is worth as much."""
    step._validate_params()
    estimator: Any = step
    cost = estimator._cost()
    unit, enforced = _unit_of(estimator)
    record = PrivacySpent(
        epsilon=cost.epsilon,
        delta=cost.delta,
        mu=cost.mu,
        unit=unit,
        adjacency=str(estimator.adjacency),
        seed_fingerprints=(),
        releases=(),
        enforced=enforced,
        delta_tail=cost.delta_tail,
    )
    return _with_one_release(record, f"fit of {type(step).__name__}")


def _unit_of(step: Any) -> tuple[str, bool]:
    """Return the name of what a step protects, and whether it enforces the bounds."""
    if isinstance(step, DPPersonalizedRegressor):
        # A search passes groups on where they are routed. Else each row is taken for a user.
        is_routed = get_config()["enable_metadata_routing"]
        told_apart = is_routed or step.require_groups or step.user_column is not None
        return "user" if told_apart else "row", True
    given = getattr(step, "privacy_unit", None)
    if given is None:
        plan = step.plan(_SOME_ROWS, _SOME_FEATURES)
        return plan.unit, plan.enforced
    if isinstance(given, Unit):
        unit = given.resolve(step.adjacency, float(step.epsilon))
        return unit.name, unit.is_enforced
    return str(given), True


def _with_one_release(record: PrivacySpent, name: str) -> PrivacySpent:
    """Set a release of sensitivity 1 that spends the whole record."""
    if record._is_pure:
        release = Release(name, "laplace", 1.0, math.sqrt(2) / record.epsilon, 1.0)
    else:
        release = Release(name, "gaussian", 1.0, 1 / record.mu if record.mu else math.inf, 1.0)
    return replace(record, releases=(release,))


def _repeated(record: PrivacySpent, times: int) -> PrivacySpent:
    """Compose a record with its equals, in no more time than with one."""
    # As `compose` does: squares of mu add, tails add, and delta grows by the tails of the others.
    mu = gaussian_dp.compose([record.mu * math.sqrt(times)])
    tail = min(1.0, _product_up(times, record.delta_tail))
    delta = min(record.delta + _product_up(times - 1, record.delta_tail), _LARGEST_DELTA)
    epsilon = times * record.epsilon
    if not record._is_pure:
        epsilon = gaussian_dp.epsilon_at(mu, delta, tail)
    fit, _, what = record.releases[0].name.partition(" ")
    name = f"{times} {fit}s {what}" if times > 1 else f"1 {fit} {what}"
    whole = replace(record, epsilon=epsilon, delta=delta, mu=mu, delta_tail=tail)
    return _with_one_release(whole, name)


def _product_up(times: int, tail: float) -> float:
    return math.nextafter(times * tail, math.inf) if times and tail else 0.0
