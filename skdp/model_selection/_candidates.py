"""The candidates of a search, step by step: refused where they may not be, planned, and counted.

A fit of a step serves all candidates that agree in the steps before it and in all of its own
parameters but the free ones, which no release depends on.
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
from skdp.model_selection._private_steps import is_passed_through, is_stateless
from skdp.model_selection._public_steps import fitted_to_nothing, transformed
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
    "paths_of",
    "steps_of",
]

_GUARANTEE = {"epsilon", "delta", "adjacency", "privacy_unit"}
_NOT_TUNED = {"random_state", "ledger", "n_jobs"}
# What one row is, or its response; a record is a row with its response where both are fitted to.
_UNITS = {
    frozenset({"row"}): "row",
    frozenset({"record"}): "record",
    frozenset({"response"}): "response",
    frozenset({"row", "record"}): "record",
}


class Step(NamedTuple):
    """One step of what is searched; the only one of an estimator that is no pipeline."""

    name: str
    estimator: Any

    @property
    def is_private(self) -> bool:
        """Whether its fits cost something."""
        return isinstance(self.estimator, PrivateEstimator)


class Candidate(NamedTuple):
    """Parameters of a candidate, all together and for each step."""

    parameters: dict[str, Any]
    of_steps: tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class Path:
    """What a candidate leads through; candidates with an equal number in `fits` share that fit."""

    fits: tuple[Hashable, ...]  # which fit it takes of each step
    results: tuple[Hashable, ...]  # the same, with the free parameters of the step
    # public facts of what its private steps are fitted to, as far as they can be known
    facts: tuple[Any, ...]


def steps_of(estimator: Any) -> list[Step]:
    """Return the steps of an estimator; refuse what may learn without privacy."""
    steps = [Step("", estimator)]
    if type(estimator) is Pipeline:
        if estimator.memory is not None:
            raise ValueError(
                "estimator must not have memory, which writes rows to disk: pass memory=None."
            )
        steps = [Step(name, step) for name, step in estimator.steps]
    for number, step in enumerate(steps):
        _check_step(step, is_behind=any(one.is_private for one in steps[:number]))
    private = [step.estimator for step in steps if step.is_private]
    if not private:
        raise ValueError(
            f"estimator={type(estimator).__name__} has no private step, so that there is nothing "
            "to pay for: use GridSearchCV."
        )
    adjacencies = {one.adjacency for one in private}
    if len(adjacencies) > 1:
        raise ValueError(
            f"The private steps of estimator must have one adjacency, got {sorted(adjacencies)}."
        )
    # Refuses what does not go together.
    common_unit(steps)
    return steps


def _check_step(step: Step, *, is_behind: bool) -> None:
    name, estimator = step
    if is_behind and isinstance(estimator, AdditiveChi2Sampler):
        raise ValueError(
            f"{_called(name)}AdditiveChi2Sampler refuses rows with negative entries, which would "
            "tell of single rows behind a private step. Put it before all private steps."
        )
    if isinstance(estimator, FrozenEstimator):
        check_is_fitted(estimator)
    if not step.is_private:
        if not is_stateless(estimator) and not is_passed_through(estimator):
            raise ValueError(
                f"{_called(name)}{type(estimator).__name__} may learn from the rows without "
                "privacy. Take a private step, one that learns nothing, such as Normalizer, or "
                "wrap what was fitted on public rows in sklearn.frozen.FrozenEstimator. A Pipeline "
                "within a Pipeline, and what else holds estimators, is not looked into."
            )
        return
    for parameter in ("ledger", "random_state"):
        if getattr(estimator, parameter) is not None:
            raise ValueError(
                f"{_called(name)}{parameter} must be None: pass it to the search, whose fits it is "
                "for."
            )
    if estimator.delta == 0:
        raise ValueError(f"{_called(name)}delta must be positive, got 0.")


def _called(name: str) -> str:
    return f"estimator, step {name!r}: " if name else "estimator: "


def candidates_of(
    grid: Iterable[dict[str, Any]], estimator: Any, steps: Sequence[Step]
) -> list[Candidate]:
    """Split candidates by steps; refuse parameters that are not there, or not to be searched."""
    candidates = []
    for parameters in grid:
        for name in parameters:
            _check_searched(name)
        candidates.append(Candidate(parameters, _split(parameters, steps)))
        # Refuses what is no parameter.
        clone(estimator).set_params(**parameters)
    if not candidates:
        raise ValueError("There are no candidates.")
    return candidates


def _check_searched(name: str) -> None:
    """Refuse parameters that a search promises to keep, or that it sets itself."""
    parts = set(name.split("__"))
    if parts & _GUARANTEE and "privacy_unit__" not in name:
        raise ValueError(
            f"{name!r} must not be searched: it is what the search promises, not how well it "
            "learns. What more epsilon buys is what skdp.model_selection.epsilon_curve tells, from "
            "public rows."
        )
    if parts & _NOT_TUNED:
        raise ValueError(
            f"{name!r} must not be searched: ledger and random_state are those of the search, and "
            "n_jobs is to be set on the estimator."
        )


def _split(parameters: dict[str, Any], steps: Sequence[Step]) -> tuple[dict[str, Any], ...]:
    """Return the parameters of each step; steps themselves are not exchanged."""
    if not steps[0].name:
        return (parameters,)
    split: dict[str, dict[str, Any]] = {step.name: {} for step in steps}
    fitted = {step.name for step in steps if is_passed_through(step.estimator)}
    for name, value in parameters.items():
        step, _, own = name.partition("__")
        if step not in split or not own or step in fitted:
            raise ValueError(
                f"{name!r} must not be searched: only parameters of steps that are fitted are, as "
                "'step__name'."
            )
        split[step][own] = value
    return tuple(split.values())


def paths_of(
    candidates: Sequence[Candidate], steps: Sequence[Step], X: Any, y: Any, *, epsilon: float
) -> list[Path]:
    """Plan all candidates by public facts of X; refuse what any fit would refuse."""
    return [_path(candidate, steps, X, y, epsilon) for candidate in candidates]


def _path(candidate: Candidate, steps: Sequence[Step], X: Any, y: Any, epsilon: float) -> Path:
    fits: list[Hashable] = []
    results: list[Hashable] = []
    facts: list[Any] = []
    before: Hashable = ()
    like, n_rows, width, is_checked, is_known = X, 0, None, False, True
    for step, parameters in zip(steps, candidate.of_steps, strict=True):
        configured, free, own = configured_step(step, parameters), frozenset[str](), parameters
        facts.append(None)
        if step.is_private:
            configured.set_params(epsilon=epsilon)
            configured._validate_params()
            if not is_checked:
                # What follows gets rows that are fine if these are.
                with np.errstate(all="ignore"):
                    configured._problem(like, y)
                (n_rows, width), is_checked = _sizes(like), True
            if width is not None:
                facts[-1] = n_rows, width, like
                problem = configured._problem_like(*facts[-1])
                if is_known:
                    free = free_parameters(configured, problem)
            own = configured.get_params(deep=False)
        fits.append((before, tuple(sorted(free)), _key(own, without=free)))
        before = (before, _key(own))
        results.append(before)
        if is_checked:
            is_known = is_known and _leaves_known_width(configured, step)
            width, like = _width_behind(configured, step, n_rows, width), None
        else:
            like = _public_result(step.name, configured, like)
    return Path(tuple(fits), tuple(results), tuple(facts))


def free_parameters(step: Any, problem: Any) -> frozenset[str]:
    """Return the parameters that no release depends on: they only say what to make of it."""
    if not isinstance(step, DPPCA | DPTruncatedSVD) or not isinstance(problem, RowsProblem):
        return frozenset()
    # Only the second moment of all rows has no basis of as many columns as are asked for.
    is_whole = problem.solver == "covariance" and not problem.has_guided_power
    return frozenset({"n_components", "whiten"} if is_whole else {"whiten"})


def configured_step(step: Step, parameters: dict[str, Any]) -> Any:
    """Clone a step with the parameters of a candidate; what was fitted stays as it is."""
    if is_passed_through(step.estimator):
        return step.estimator
    return clone(step.estimator).set_params(**parameters)


def _public_result(name: str, step: Any, rows: Any) -> Any:
    """Send rows through a step that learns nothing, as its fit will."""
    if is_stateless(step):
        step = fitted_to_nothing(name, step, rows)
    return transformed([(name, step)], rows)


def _sizes(X: Any) -> tuple[int, int | None]:
    """Return how many rows X has, and how wide they are if that can be known."""
    shape = X.shape if hasattr(X, "shape") else np.asarray(X).shape
    return shape[0], math.prod(shape[1:]) if len(shape) > 1 else None


def _width_behind(fitted: Any, step: Step, n_rows: int, width: int | None) -> int | None:
    """Return how many features a step leaves, or may leave if its fit decides; None if none."""
    if width is None or fitted is None or isinstance(fitted, str):
        return width
    if not step.is_private:
        # Public rows tell whether it takes as many features.
        some = np.ones((3, width))
        if is_stateless(fitted):
            fitted = fitted_to_nothing(step.name, fitted, some)
        if not hasattr(fitted, "transform"):
            redact_errors(fitted.predict)(some)
            return None
        shape = np.shape(transformed([(step.name, fitted)], some))
        if len(shape) != 2 or shape[0] != 3:
            raise ValueError(f"Step {step.name!r} makes {shape} of rows of shape {some.shape}.")
        return int(shape[1])
    n_components = plain(getattr(fitted, "n_components", 0))
    return n_components if isinstance(n_components, int) else min(n_rows, width)


def _leaves_known_width(fitted: Any, step: Step) -> bool:
    n_components = plain(getattr(fitted, "n_components", 0))
    return not step.is_private or n_components is None or isinstance(n_components, int)


def _key(parameters: dict[str, Any], without: frozenset[str] = frozenset()) -> Hashable:
    """Make what is equal for equal parameters, arrays among them."""
    kept = {name: value for name, value in parameters.items() if name not in without}
    return tuple((name, _value_key(kept[name])) for name in sorted(kept))


def _value_key(value: Any) -> Hashable:
    try:
        return str(joblib.hash(plain(value)))
    except Exception:
        # What cannot be pickled is equal to nothing, which costs more, and no privacy.
        return object()


def common_unit(steps: Sequence[Step]) -> str:
    """Return what all private steps protect together; refuse what is not one row."""
    units = {_unit_of(step.estimator) for step in steps if step.is_private}
    if frozenset(units) not in _UNITS:
        raise ValueError(
            "The private steps of estimator must protect one row, one record or one response, all "
            f"of them the same, got {sorted(units)}."
        )
    return _UNITS[frozenset(units)]


def _unit_of(estimator: Any) -> str:
    given = getattr(estimator, "privacy_unit", "user")
    if isinstance(given, str):
        return given
    return "row" if isinstance(given, SparseRow) else type(given).__name__
