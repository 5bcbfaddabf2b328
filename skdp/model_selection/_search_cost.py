"""What a search of scikit-learn on private rows would cost, before it is made."""

import math
from dataclasses import dataclass
from typing import Any

from sklearn.pipeline import Pipeline

from skdp._checks import check_sizes
from skdp.exceptions import counted
from skdp.model_selection._planned_fits import (
    SEARCHES,
    PlannedCost,
    candidate_of,
    check_splits,
    composed,
    n_splits_of,
    params_of_search,
    planned_cost,
    records_of,
    repeated,
)
from skdp.model_selection._report import guarantee
from skdp.pipeline._holders import fitted_once, has_budget, private_steps
from skdp.privacy import PrivacySpent, gaussian_dp
from skdp.privacy.plan import largest_epsilon

# By how much, relatively, epsilons and their sums are rounded up elsewhere.
_SAFETY = 1e-9  # not tuned
_DIGITS_SHOWN = 3  # not tuned


@dataclass(frozen=True, repr=False)
class SearchCost:  # numpydoc ignore=PR02
    """What a search of scikit-learn would cost.

    Parameters
    ----------
    n_fits : int
        Number of fits of private steps.
    spent : PrivacySpent
        Record of all these fits together.
    n_search_fits : int
        Number of fits of the search, each of all steps.
    within : tuple of (float, float) or None, default=None
        Epsilon and delta that each private step has now; None if the steps differ in them.
    epsilon_each : float or None, default=None
        Epsilon for each private step with which the whole search stays within `within`; None if
        that is not easily computed.
    steps : tuple of str, default=()
        What has an epsilon of its own: names of private steps, of which a DPPipeline is one, or
        the class of the estimator itself.

    Notes
    -----
    **Privacy.** Computed from parameters, and as public as these.

    Examples
    --------
    >>> from sklearn.model_selection import GridSearchCV
    >>> from skdp import DPPCA
    >>> from skdp.model_selection import search_cost
    >>> search = GridSearchCV(DPPCA(), {"n_components": [2, 4, 8]}, cv=5)
    >>> round(search_cost(search, n_samples=1000, n_features=20).epsilon_each, 2)
    0.23
    """

    n_fits: int
    spent: PrivacySpent
    n_search_fits: int
    within: tuple[float, float] | None = None
    epsilon_each: float | None = None
    steps: tuple[str, ...] = ()

    def __repr__(self) -> str:
        summary = (
            f"{counted(self.n_fits, 'private fit')} in {counted(self.n_search_fits, 'fit')} of "
            f"the search: {guarantee(self.spent)}"
        )
        if self.within is None or self.epsilon_each is None:
            return summary
        epsilon, delta = self.within
        return (
            f"{summary}; to stay within ({epsilon:.4g}, {delta:.4g}) pass "
            f"epsilon={_rounded_down(self.epsilon_each):g} to {' and to '.join(self.steps)}"
        )


def search_cost(search: Any, n_samples: int, n_features: int) -> SearchCost:
    """Tell what a search of scikit-learn on private rows would cost, before it is made.

    A search fits every candidate on every fold, and the best one once more. All of these fits spend
    budget, and the guarantee is that of all of them together.

    Parameters
    ----------
    search : GridSearchCV or RandomizedSearchCV
        The search, which is not changed.
    n_samples : int
        Number of rows of the planned X; of users with ``privacy_unit="user"``.
    n_features : int
        Number of its features.

    Returns
    -------
    SearchCost
        Number of private fits, and the record of all of them.

    Raises
    ------
    TypeError
        If `search` is any other search.
    ValueError
        If the number of fits or their cost is not known in advance: with a search within the
        search or other holders of private steps than compositions, with a splitter that needs data,
        or with candidates that are drawn without an int as `random_state`. If users are protected,
        and folds do not follow from their ids alone. If there is no private step, or one does not
        accept its parameters. If the steps protect different units or differ in adjacency.

    See Also
    --------
    skdp.privacy_spent : What it has cost afterwards.
    skdp.model_selection.matched_noise : Searching on public rows, which costs nothing.

    Notes
    -----
    **Privacy.** No data are read and nothing is spent.

    The cost may turn out lower: the last fit is taken to be that of the most expensive candidate,
    and steps that a pipeline would cache are counted as fitted again. The cost does not cover the
    scores, which are computed from the rows without privacy, nor the choice that is made by them.

    Examples
    --------
    >>> from sklearn.model_selection import GridSearchCV
    >>> from skdp import DPPCA
    >>> from skdp.model_selection import search_cost
    >>> search = GridSearchCV(DPPCA(), {"n_components": [2, 4, 8, 16]}, cv=12)
    >>> search_cost(search, n_samples=1000, n_features=20)
    49 private fits in 49 fits of the search: (8.779, 1e-06)-DP per row, adjacency 'replace'; ...
    """
    check_sizes(n_samples=n_samples, n_features=n_features)
    if type(search) not in SEARCHES:
        raise TypeError(
            "search must be a GridSearchCV or a RandomizedSearchCV of scikit-learn, got "
            f"{type(search).__name__}, whose fits are not counted: keep a ledger."
        )
    candidates = [candidate_of(search, params) for params in params_of_search(search)]
    for candidate in candidates:
        _check_first_step(candidate, int(n_samples), int(n_features))
    costs = [planned_cost(fitted_once(candidate)) for candidate in candidates]
    if not any(costs):
        raise ValueError(f"{type(search.estimator).__name__} has no private step.")
    check_splits(search, sum(costs, PlannedCost()))
    n_splits = n_splits_of(search)
    whole, spent = _most_expensive(costs, n_splits, refit=bool(search.refit))
    n_search_fits = len(costs) * n_splits + bool(search.refit)
    affordable, names = _affordable_epsilon(whole), private_steps(candidates[0])
    steps = tuple(name.removesuffix("__") or type(step).__name__ for name, step in names.items())
    return SearchCost(whole.total(), spent, n_search_fits, *affordable, steps)


def _check_first_step(estimator: Any, n_samples: int, n_features: int) -> None:
    """Refuse what a fit would refuse by the shape of X; behind the first step it is not known."""
    while isinstance(estimator, Pipeline):
        # A frozen step, which has a `fit`, may change the shape; "passthrough" and None do not.
        steps = (step for _, step in estimator.steps if hasattr(step, "fit"))
        estimator = next(steps, None)
    if has_budget(estimator):
        estimator.plan(n_samples, n_features)


def _most_expensive(
    costs: list[PlannedCost], n_splits: int, *, refit: bool
) -> tuple[PlannedCost, PrivacySpent]:
    """Compose all fits on the folds with the most expensive last fit."""
    folds = repeated(sum(costs, PlannedCost()), n_splits)
    # Equal costs are composed once: there may be many candidates.
    last = {frozenset(cost.items()): cost for cost in costs}.values() if refit else [PlannedCost()]
    wholes = [folds + cost for cost in last]
    # All fits are to the same rows.
    return max(
        ((whole, composed(records_of(whole))) for whole in wholes),
        key=lambda pair: (pair[1].epsilon, pair[1].delta, pair[1].mu),
    )


def _affordable_epsilon(cost: PlannedCost) -> tuple[tuple[float, float] | None, float | None]:
    """Return the epsilon and delta of each step, and the epsilon that keeps the search within."""
    asked = {(record.epsilon, record.delta) for record in cost}
    if len(asked) > 1:
        return None, None
    (epsilon, delta), n_fits = asked.pop(), cost.total()
    if math.isinf(epsilon) or any(record.delta_tail for record in cost):
        return (epsilon, delta), None
    if delta == 0:
        return (epsilon, delta), epsilon / n_fits * (1 - _SAFETY)
    mu = gaussian_dp.mu_from_epsilon_delta(epsilon, delta) / math.sqrt(n_fits)
    # Three times, because the sum, its square root and the epsilon are each rounded up.
    return (epsilon, delta), largest_epsilon(mu * (1 - 3 * _SAFETY), delta) or None


def _rounded_down(value: float) -> float:
    """Round down to few digits, so that the epsilon that is printed stays within the budget."""
    unit = 10.0 ** (math.floor(math.log10(value)) - _DIGITS_SHOWN + 1)
    return math.floor(value / unit) * unit
