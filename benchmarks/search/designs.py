"""The ways to choose settings that `search.py` compares; all spend the same in total."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, ParameterGrid

from benchmarks.report import Measured
from benchmarks.search.tasks import Grid, Parts, Rows, Task, parts_of
from skdp.model_selection import DPGridSearch, matched_noise
from skdp.model_selection._planning import _with_epsilon
from skdp.pipeline._rules import private_steps
from skdp.privacy import gaussian_dp
from skdp.privacy.plan import largest_epsilon

# Printed here, hence good for repeatable tables and for nothing else.
KEY = 0x5B9D27F0C4E6418A93D05E7FB1624C8D
EPSILONS = (0.5, 1.0, 2.0, 4.0)
COLUMNS = [f"{epsilon:g}" for epsilon in EPSILONS]
DEFAULT, HINDSIGHT = "default, no search", "best candidate in hindsight"
SAME, MATCHED = "public rows, same epsilon", "public rows, matched noise"
SHARED = "GridSearchCV on private rows, budget shared"
N_FOLDS, N_PUBLIC_FOLDS = 5, 3
DELTA = 1e-6  # the default of all estimators


def private_search(which: str) -> str:
    return f"DPGridSearch, {which}"


def designs_of(task: Task) -> list[str]:
    return [DEFAULT, HINDSIGHT, *map(private_search, task.grids), SAME, MATCHED, SHARED]


def candidates_of(task: Task) -> list[str]:
    return [str(settings) for settings in ParameterGrid(task.grid)]


def measure(task: Task, seed: int) -> Measured:
    parts = parts_of(task.rows(), np.random.default_rng([KEY, seed]))
    for epsilon, column in zip(EPSILONS, COLUMNS, strict=True):
        for row, model in models(task, parts, epsilon, KEY + seed):
            for name, value in task.measures(model, parts).items():
                yield (row, f"{name}, {column}"), value


def models(task: Task, parts: Parts, epsilon: float, secret: int) -> Iterator[tuple[str, Any]]:
    """Yield every candidate with the whole budget, and what every design but hindsight ends with.

    With one secret a setting has the same noise in all designs that spend as much on it.
    """
    whole = _with_epsilon(seeded(task.estimator, secret), epsilon)

    def _fitted(settings: dict[str, Any]) -> Any:
        return clone(whole).set_params(**settings).fit(*parts.private)

    yield DEFAULT, _fitted({})
    for settings in ParameterGrid(task.grid):
        yield str(settings), _fitted(settings)
    for which, grid in task.grids.items():
        yield private_search(which), chosen_privately(task, grid, parts.private, epsilon, secret)
    for name, tuned in ((SAME, whole), (MATCHED, matched(whole, parts))):
        yield name, _fitted(best_by_public_rows(task, tuned, parts.public))
    yield SHARED, best_by_folds(task, epsilon, secret, parts.private)


def chosen_privately(task: Task, grid: Grid, rows: Rows, epsilon: float, secret: int) -> Any:
    search = DPGridSearch(
        task.estimator,
        grid,
        epsilon=epsilon,
        scoring=task.scoring,
        random_state=secret,
    )
    return search.fit(*rows).best_estimator_


def matched(estimator: Any, parts: Parts) -> Any:
    n_public = len(parts.public.X) * (N_PUBLIC_FOLDS - 1) // N_PUBLIC_FOLDS
    return matched_noise(estimator, n_samples=len(parts.private.X), n_public=n_public)


def best_by_public_rows(task: Task, estimator: Any, public: Rows) -> dict[str, Any]:
    search = GridSearchCV(
        estimator, task.grid, cv=N_PUBLIC_FOLDS, scoring=mean_score(task), refit=False
    )
    return dict(search.fit(*public).best_params_)


def best_by_folds(task: Task, epsilon: float, secret: int, rows: Rows) -> Any:
    """Search as without privacy, every fit at the epsilon with which all are within the budget."""
    each = with_epsilon(seeded(task.estimator, secret), epsilon)
    search = GridSearchCV(each, task.grid, cv=N_FOLDS, scoring=mean_score(task))
    n_fits = (len(candidates_of(task)) * N_FOLDS + 1) * len(private_steps(each))
    mu = gaussian_dp.mu_from_epsilon_delta(epsilon, DELTA) / n_fits**0.5
    search.set_params(estimator=with_epsilon(each, largest_epsilon(mu, DELTA)))
    return search.fit(*rows).best_estimator_


def mean_score(task: Task) -> Callable[..., float]:
    return lambda model, X, y: -float(task.losses(model, X, y).mean())


def seeded(estimator: Any, secret: int) -> Any:
    return with_all(estimator, "random_state", secret)


def with_epsilon(estimator: Any, epsilon: float | None) -> Any:
    return with_all(estimator, "epsilon", epsilon)


def with_all(estimator: Any, parameter: str, value: Any) -> Any:
    """Set a parameter of all steps of a clone."""
    names = [name for name in estimator.get_params() if name.rpartition("__")[2] == parameter]
    return clone(estimator).set_params(**dict.fromkeys(names, value))
