"""The candidates of a search: they are checked, split by steps, and planned.

One fit of a step serves all candidates that agree in the steps before it and in the parameters of
the step. Free parameters, on which no release depends, may differ.
"""

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import joblib
import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_approximation import AdditiveChi2Sampler
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from skdp._estimator import PrivateEstimator
from skdp._reading import redact_errors
from skdp.decomposition import DPPCA, DPTruncatedSVD
from skdp.decomposition._problem import RowsProblem
from skdp.linear_model._classifier import PrivateClassifier
from skdp.linear_model._logistic.labels import checked_labels, classes_in
from skdp.model_selection._private_steps import is_passed_through, is_stateless
from skdp.model_selection._public_steps import fitted_to_nothing, transformed
from skdp.preprocessing import DPStandardScaler
from skdp.privacy.precision import plain
from skdp.units import SparseRow

__all__ = [
    "Candidate",
    "Path",
    "Step",
    "candidates_of",
    "common_unit",
    "configured_step",
    "free_parameters",
    "path_of",
    "steps_of",
    "with_classes",
]

_GUARANTEE = {"epsilon", "delta", "adjacency", "privacy_unit"}
_NOT_TUNED = {"random_state", "ledger", "n_jobs"}


class Step(NamedTuple):
    """A step of the searched pipeline; any other estimator is one step without a name."""

    name: str
    estimator: Any

    @property
    def is_private(self) -> bool:
        """Whether its fits spend budget."""
        return isinstance(self.estimator, PrivateEstimator)


class Candidate(NamedTuple):
    """Parameters of a candidate, all together and for each step."""

    parameters: dict[str, Any]
    of_steps: tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class Path:
    """Keys that tell which fits a candidate shares with others; one entry for each step."""

    fits: tuple[Hashable, ...]  # equal for candidates that share the fit of the step
    results: tuple[Hashable, ...]  # the same, but free parameters of the step are equal too
    # arguments of `_problem_like` for private steps, where they can be known, else None
    facts: tuple[Any, ...]


def steps_of(estimator: Any) -> list[Step]:
    """Return the steps of an estimator; refuse steps that may learn without privacy."""
    steps = [Step("", estimator)]
    if type(estimator) is Pipeline:
        if estimator.memory is not None:
            raise ValueError(
                "estimator must not have memory, which writes rows to disk: pass memory=None."
            )
        steps = [Step(name, step) for name, step in estimator.steps]
    for number, step in enumerate(steps):
        _check_step(step, is_behind=any(one.is_private for one in steps[:number]))
    adjacencies = {step.estimator.adjacency for step in steps if step.is_private}
    if not adjacencies:
        raise ValueError(
            f"estimator={type(estimator).__name__} has no private step: use GridSearchCV."
        )
    if len(adjacencies) > 1:
        raise ValueError(
            f"The private steps of estimator must have one adjacency, got {sorted(adjacencies)}."
        )
    common_unit(steps)
    return steps


def with_classes(estimator: Any, y: Any) -> tuple[Any, list[str]]:
    """Give the labels of y as classes to the private steps that have none; name these steps.

    Only the labels of all rows are the same in all fits.
    """
    lack_classes = [
        name
        for name, step in steps_of(estimator)
        if isinstance(step, PrivateClassifier) and step.classes is None
    ]
    if not lack_classes or y is None:
        return estimator, []
    classes = classes_in(checked_labels(y)).tolist()
    given = {f"{name}__classes" if name else "classes": classes for name in lack_classes}
    return clone(estimator).set_params(**given), lack_classes


def _check_step(step: Step, *, is_behind: bool) -> None:
    """Refuse a step that a search cannot keep private; `is_behind` if it follows a private one."""
    name, estimator = step
    where = f"estimator, step {name!r}: " if name else "estimator: "
    if is_behind and isinstance(estimator, AdditiveChi2Sampler):
        raise ValueError(
            f"{where}AdditiveChi2Sampler refuses negative entries. Behind a private step its error "
            "would tell of single rows. Put it before all private steps."
        )
    if isinstance(estimator, FrozenEstimator):
        check_is_fitted(estimator)
    if not step.is_private:
        if not is_stateless(estimator) and not is_passed_through(estimator):
            raise ValueError(
                f"{where}{type(estimator).__name__} may learn from the rows without privacy. "
                "Use a private step, or one that learns nothing, such as Normalizer, or wrap an "
                "estimator fitted on public rows in sklearn.frozen.FrozenEstimator. Steps inside "
                "of other steps, such as a Pipeline within a Pipeline, are not supported."
            )
        return
    for parameter in ("ledger", "random_state"):
        if getattr(estimator, parameter) is not None:
            raise ValueError(f"{where}{parameter} must be None: pass it to the search instead.")
    if estimator.delta == 0:
        raise ValueError(f"{where}delta must be positive, got 0.")


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
    parts = set(name.split("__"))
    # Parameters of a unit itself, such as privacy_unit__bounds, may be searched.
    if parts & _GUARANTEE and "privacy_unit__" not in name:
        raise ValueError(
            f"{name!r} must not be searched: it is part of the guarantee that the search gives. "
            "skdp.model_selection.epsilon_curve tells, from public rows, what more epsilon buys."
        )
    if parts & _NOT_TUNED:
        raise ValueError(
            f"{name!r} must not be searched: pass ledger and random_state to the search, and set "
            "n_jobs on the estimator."
        )


def _split(parameters: dict[str, Any], steps: Sequence[Step]) -> tuple[dict[str, Any], ...]:
    """Return the parameters of each step; a step itself cannot be exchanged."""
    if not steps[0].name:
        return (parameters,)
    split: dict[str, dict[str, Any]] = {step.name: {} for step in steps}
    not_fitted = {step.name for step in steps if is_passed_through(step.estimator)}
    for name, value in parameters.items():
        step, _, own_name = name.partition("__")
        if step not in split or not own_name or step in not_fitted:
            raise ValueError(
                f"{name!r} must not be searched: pass 'step__parameter', of a step that is fitted."
            )
        split[step][own_name] = value
    return tuple(split.values())


def path_of(candidate: Candidate, steps: Sequence[Step], X: Any, y: Any, epsilon: float) -> Path:
    """Plan a candidate from public facts of X; refuse what any of its fits would refuse."""
    fits: list[Hashable] = []
    results: list[Hashable] = []
    facts: list[Any] = []
    before: Hashable = ()
    # Up to the first private step `like` is what X becomes. Behind it (`is_checked`) only the shape
    # is known; `is_known` tells whether the width is exact or an upper limit.
    like, n_rows, width, is_checked, is_known = X, 0, None, False, True
    for step, parameters in zip(steps, candidate.of_steps, strict=True):
        configured, free, own = configured_step(step, parameters), frozenset[str](), parameters
        facts.append(None)
        if step.is_private:
            configured.set_params(epsilon=epsilon)
            configured._validate_params()
            if isinstance(configured, PrivateClassifier):
                configured._classes_and_codes(y)
            if not is_checked:
                # Rows that pass here stay acceptable: what later steps get is made finite.
                with np.errstate(all="ignore"):
                    configured._problem(like, y)
                (n_rows, width), is_checked = _shape_of(like), True
            if width is not None:
                facts[-1] = n_rows, width, like
                problem = configured._problem_like(*facts[-1])
                if is_known:
                    free = free_parameters(configured, problem)
            own = configured.get_params(deep=False)
        # Which parameters are free may differ between candidates, so it is part of the key.
        fits.append((before, tuple(sorted(free)), _key(own, without=free)))
        before = (before, _key(own))
        results.append(before)
        if is_checked:
            is_known = is_known and (not step.is_private or _n_components(configured) != "data")
            width, like = _width_behind(configured, step, n_rows, width), None
        else:
            like = _public_result(step.name, configured, like)
    return Path(tuple(fits), tuple(results), tuple(facts))


def free_parameters(step: Any, problem: Any) -> frozenset[str]:
    """Return the parameters that no release depends on: they only say what to make of it."""
    if not isinstance(step, DPPCA | DPTruncatedSVD) or not isinstance(problem, RowsProblem):
        return frozenset()
    # A solver that releases the second moment of all rows serves any number of components. Others
    # release a basis of `n_components` columns.
    is_whole = problem.solver == "covariance" and not problem.has_guided_power
    return frozenset({"n_components", "whiten"} if is_whole else {"whiten"})


def configured_step(step: Step, parameters: dict[str, Any]) -> Any:
    """Clone a step with the parameters of a candidate; a frozen estimator stays as it is."""
    if is_passed_through(step.estimator):
        return step.estimator
    return clone(step.estimator).set_params(**parameters)


def _public_result(name: str, step: Any, rows: Any) -> Any:
    """Send rows through a step that learns nothing, as its fit will."""
    if is_stateless(step):
        step = fitted_to_nothing(name, step, rows)
    return transformed([(name, step)], rows)


def _shape_of(X: Any) -> tuple[int, int | None]:
    """Return the number of rows, and of features if X has any."""
    shape = X.shape if hasattr(X, "shape") else np.asarray(X).shape
    return shape[0], math.prod(shape[1:]) if len(shape) > 1 else None


def _width_behind(configured: Any, step: Step, n_rows: int, width: int | None) -> int | None:
    """Return how many features a step leaves, or may leave at most; None if it predicts."""
    if width is None or configured is None or isinstance(configured, str):
        return width
    if isinstance(configured, DPStandardScaler):
        return width
    if step.is_private:
        n_components = _n_components(configured)
        return n_components if isinstance(n_components, int) else min(n_rows, width)
    # Public rows tell whether the step takes as many features, and how many it makes of them.
    some = np.ones((3, width))
    if not hasattr(configured, "transform"):
        redact_errors(configured.predict)(some)
        return None
    shape = np.shape(_public_result(step.name, configured, some))
    if len(shape) != 2 or shape[0] != 3:
        raise ValueError(f"Step {step.name!r} makes {shape} of rows of shape {some.shape}.")
    return int(shape[1])


def _n_components(step: Any) -> Any:
    """Return the number of components as an int, None for all, or "data" if a fit decides."""
    n_components = plain(getattr(step, "n_components", 0))
    return n_components if n_components is None or isinstance(n_components, int) else "data"


def _key(parameters: dict[str, Any], without: frozenset[str] = frozenset()) -> Hashable:
    """Make a key that is equal for equal parameters, arrays among them."""
    return tuple((name, _value_key(parameters[name])) for name in sorted({*parameters} - without))


def _value_key(value: Any) -> Hashable:
    try:
        return str(joblib.hash(plain(value)))
    except Exception:
        # What cannot be pickled equals nothing else. That may cost fits, but no privacy.
        return object()


def common_unit(steps: Sequence[Step]) -> str:
    """Return the unit that all private steps protect together; refuse units that are no rows."""
    units = {_unit_of(step.estimator) for step in steps if step.is_private}
    # A record is a row with its response, where a pipeline is fitted to both.
    unit = "record" if units == {"row", "record"} else " and ".join(sorted(units))
    if unit not in ("row", "record", "response"):
        raise ValueError(
            "The private steps of estimator must protect one row, one record or one response, all "
            f"of them the same, got {unit}."
        )
    return unit


def _unit_of(estimator: Any) -> str:
    given = getattr(estimator, "privacy_unit", "user")
    if isinstance(given, str):
        return given
    return "row" if isinstance(given, SparseRow) else type(given).__name__
