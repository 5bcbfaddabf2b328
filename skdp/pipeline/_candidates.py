"""The candidates of a search: they are checked, split by steps, and planned.

One fit of a step serves all candidates that agree in the steps before it and in the parameters of
the step. Free parameters, on which no release depends, may differ.
"""

import math
from collections.abc import Hashable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import joblib
import numpy as np
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator

from skdp._checks import redact_errors
from skdp.data.containers import float_dtype
from skdp.data.parts import RowParts, mapped_blocks
from skdp.data.sources import holds_sparse
from skdp.decomposition import DPPCA, DPTruncatedSVD
from skdp.decomposition._problem import RowsProblem
from skdp.linear_model._classifiers import PrivateClassifier
from skdp.pipeline._columns import columns_of, in_public, is_columns
from skdp.pipeline._private_steps import is_passed_through, is_stateless
from skdp.pipeline._public_rows import TWICE, are_numbers, stand_ins
from skdp.pipeline._public_steps import fitted_to_nothing, transformed
from skdp.pipeline._steps import Step, configured_step
from skdp.preprocessing import DPStandardScaler
from skdp.privacy.precision import plain

_GUARANTEE = {"epsilon", "delta", "adjacency", "privacy_unit"}
_NOT_TUNED = {"random_state", "ledger", "n_jobs"}


class Candidate(NamedTuple):
    """Parameters of a candidate, all together and for each step."""

    parameters: dict[str, Any]
    of_steps: tuple[dict[str, Any], ...]


class Place(NamedTuple):
    """What is known, before any fit, of a step of a candidate; keys tell which fits it shares."""

    fit: Hashable  # equal for candidates that share the fit of the step
    result: Hashable  # the same, but free parameters of the step are equal too
    # arguments of `_problem_like` for private steps, where they can be known, else None
    facts: Any
    # what decides the width of the rows of the step, if that is released; else ""
    follows: str


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
    """Return the parameters of each step; a step itself cannot be exchanged."""
    if not steps[0].name:
        return (parameters,)
    split: dict[str, dict[str, Any]] = {step.name: {} for step in steps}
    not_fitted = {
        step.name
        for step in steps
        if is_passed_through(step.estimator) or is_columns(step.estimator)
    }
    for name, value in parameters.items():
        step, _, own_name = name.partition("__")
        if step not in split or not own_name or step in not_fitted:
            raise ValueError(
                f"{name!r} must not be searched: pass 'step__parameter', of a step that is fitted."
            )
        split[step][own_name] = value
    return tuple(split.values())


def path_of(
    candidate: Candidate,
    steps: Sequence[Step],
    X: Any,
    y: Any,
    epsilon: float,
    n_planned: int | None,
    n_fitted: int | None,
) -> list[Place]:
    """Plan a candidate from public facts of X; refuse what any of its fits would refuse.

    With `n_planned`, X is public and stands for so many rows to come. With `n_fitted`, it is what
    so many public steps make of the rows, and the first private step has checked it.
    """
    path: list[Place] = []
    before: Hashable = ()
    # Up to the first private step `like` is what X becomes. Behind it (`is_checked`) it is public
    # rows of the same kind; where the width is released, it is an upper limit. What predicts leaves
    # None.
    like, n_rows, is_checked, released = X, 0, False, ""
    for number, (step, parameters) in enumerate(zip(steps, candidate.of_steps, strict=True)):
        configured, free, own = configured_step(step, parameters), frozenset[str](), parameters
        facts, follows = None, released
        if step.is_private:
            configured.set_params(epsilon=epsilon)
            configured._validate_params()
            if n_planned is None and isinstance(configured, PrivateClassifier):
                configured._classes_and_codes(y)
            rows = columns_of(like, step.columns)
            if not is_checked:
                # Rows that pass here stay acceptable: what later steps get is made finite.
                if n_planned is None and n_fitted is None:
                    configured._problem(rows, y)
                n_rows, is_checked = n_planned or _shape_of(rows)[0], step.columns is None
            if rows is not None and (width := _shape_of(rows)[1]) is not None:
                facts = n_rows, width, rows
                problem = configured._problem_like(*facts)
                if not released:
                    free = free_parameters(configured, problem)
                    if _n_components(configured) == "data":
                        released = f"{step.name}.n_components"
            own = configured.get_params(deep=False)
        # Which parameters are free may differ between candidates, so it is part of the key.
        fit = before, tuple(sorted(free)), _key(own, without=free)
        before = before, _key(own)
        path.append(Place(fit, before, facts, follows))
        if step.columns is not None or number < (n_fitted or 0):
            continue
        if is_columns(configured):
            two = next(stand_ins(like, are_numbers=are_numbers(like)))
            like = _public_result(step.name, in_public(configured), two)
            n_rows, is_checked = n_planned or _shape_of(X)[0], True
        elif is_checked:
            behind = None if like is None else _like_behind(configured, step, n_rows, like)
            like = _laid_out(behind, like)
        else:
            like = _public_result(step.name, configured, like)
    return path


def free_parameters(step: Any, problem: Any) -> frozenset[str]:
    """Return the parameters that no release depends on: they only say what to make of it."""
    if not isinstance(step, DPPCA | DPTruncatedSVD) or not isinstance(problem, RowsProblem):
        return frozenset()
    # A solver that releases the second moment of all rows serves any number of components. Others
    # release a basis of `n_components` columns.
    is_whole = problem.solver == "covariance" and not problem.has_guided_power
    return frozenset({"n_components", "whiten"} if is_whole else {"whiten"})


def _public_result(name: str, step: Any, rows: Any) -> Any:
    """Send rows through a step that learns nothing, as its fit will."""
    if is_stateless(step) or is_columns(step):
        step = fitted_to_nothing(name, step, rows)
    return transformed([(name, step)], rows)


def _shape_of(X: Any) -> tuple[int, int | None]:
    """Return the number of rows, and of features if X has any."""
    shape = X.shape if hasattr(X, "shape") else np.asarray(X).shape
    return shape[0], math.prod(shape[1:]) if len(shape) > 1 else None


def _like_behind(configured: Any, step: Step, n_rows: int, like: Any) -> Any:
    """Return public rows like those that a step leaves, at least as wide; None if it predicts."""
    if is_passed_through(configured) and type(configured) is not FrozenEstimator:
        return like
    width, dtype = _shape_of(like)[1] or 0, float_dtype(like)
    if isinstance(configured, DPStandardScaler):
        some = np.ones((3, width), dtype)
        return csr_array(some) if holds_sparse(like) else some
    if step.is_private:
        n_components = _n_components(configured)
        most = n_components if isinstance(n_components, int) else min(n_rows, width)
        return np.ones((3, most), dtype)
    # Public rows tell whether the step takes as many features, and how many it makes of them: the
    # same that its fit is compared with.
    two = next(stand_ins(like, are_numbers=True))
    if not hasattr(configured, "transform"):
        redact_errors(configured.predict)(two)
        return None
    made = _public_result(step.name, configured, two)
    if len(shape := np.shape(made)) != 2 or shape[0] != TWICE:
        raise ValueError(f"Step {step.name!r} makes {shape} of rows of shape {np.shape(two)}.")
    if not are_numbers(made):
        # The next step may refuse some texts, and would tell of single rows.
        raise ValueError(f"Step {step.name!r}, behind a private step, makes what are no numbers.")
    return made


def _laid_out(made: Any, like: Any) -> Any:
    """Give public rows the public layout of rows in parts, which sums of them round by."""
    if made is like or made is None or not isinstance(like, RowParts):
        return made
    return mapped_blocks(like, partial(_like_public, made=made), made.shape[1])


def _like_public(rows: Any, made: Any) -> Any:
    """Return as many zeros as rows, dense or sparse."""
    zeros = np.zeros((rows.shape[0], made.shape[1]), made.dtype)
    return csr_array(zeros) if holds_sparse(made) else zeros


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
