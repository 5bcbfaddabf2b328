"""The candidates of a search, checked and split by steps, and the budget of their fits."""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import joblib
import numpy as np
from scipy.sparse import csr_array
from sklearn.base import clone

from skdp._estimator import Charge, Part, PlannedEstimator
from skdp.data.containers import float_dtype
from skdp.data.parts import RowParts, mapped_blocks
from skdp.data.sources import holds_sparse
from skdp.decomposition import DPPCA, DPTruncatedSVD
from skdp.decomposition._spec import RowsSpec
from skdp.linear_model._logistic_regression import PrivateClassifier
from skdp.pipeline._composition import Step, configured_step, rows_of_step
from skdp.pipeline._public_rows import stand_ins
from skdp.pipeline._public_steps import fitted_to_nothing, in_public, made_of_extremes, transformed
from skdp.pipeline._rules import (
    is_columns,
    is_passed_through,
    is_stateless,
    keeps_columns,
    not_private,
    private_parts,
)
from skdp.preprocessing import DPStandardScaler
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


class Place(NamedTuple):
    """What is known, before any fit, of a step of a candidate; keys tell which fits it shares.

    One fit of a step serves all candidates that agree in the steps before it and in the parameters
    of the step. Free parameters, on which no release depends, may differ.
    """

    fit: Hashable  # equal for candidates that share the fit of the step
    result: Hashable  # the same, but free parameters of the step are equal too
    # arguments of `_spec_of_size` for private steps, where they can be known, else None
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


def path_of(
    candidate: Candidate,
    steps: Sequence[Step],
    X: Any,
    y: Any,
    cost: PrivacyCost,
    is_planned: bool,
    n_fitted: int | None,
    n_units: int | None,
    users: Mapping[str, Any],
) -> list[Place]:
    """Plan a candidate from public facts of X; refuse what any of its fits would refuse.

    If it `is_planned`, X is public and stands for rows to come. With `n_fitted`, it is what so many
    public steps make of the rows, and the first private step has checked it. There are `n_units`,
    or with None as many as rows.
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
        if parameters and not step.is_private:
            # The step itself was checked, but not with these.
            for refusal in not_private(step.name, configured, is_behind=is_checked):
                raise ValueError(refusal)
        if step.is_private:
            configured._part = Part(cost)
            configured._validate_params()
            if not is_planned and isinstance(configured, PrivateClassifier):
                configured._classes_and_codes(y)
            if like is None:
                raise ValueError(
                    f"Step {step.name!r} follows one that does not say how many columns it "
                    "returns: let that inherit OneToOneFeatureMixin, or have an int n_components."
                )
            rows = rows_of_step(step, like)
            if not is_checked:
                # Rows that pass here stay acceptable: what later steps get is made finite.
                if not is_planned and n_fitted is None:
                    configured._validate(rows, y, **users)
                n_rows = n_units or _shape_of(rows)[0]
                is_checked = step.columns is None
            if (width := _shape_of(rows)[1]) is not None:
                facts = n_rows, width, rows
                spec = configured._spec_of_size(*facts)
                if not released:
                    free = free_parameters(configured, spec)
                    if _n_components(configured) == "data":
                        released = f"{step.name}.n_components"
            own = configured.get_params(deep=False)
        # Which parameters are free may differ between candidates, so it is part of the key.
        fit = before, tuple(sorted(free)), _key(own, without=free)
        before = before, _key(own)
        path.append(Place(fit, before, facts, follows))
        if step.columns is not None or number < (n_fitted or 0):
            continue
        if is_checked:
            behind = _like_behind(configured, step, n_rows, like, released)
            like = _in_same_layout(behind, like)
        elif is_columns(configured) and private_parts(configured):
            like = _public_result(step.name, in_public(configured), next(stand_ins(like)))
            n_rows, is_checked = n_units or _shape_of(X)[0], True
        else:
            like = _public_result(step.name, configured, like)
    return path


def free_parameters(step: Any, spec: Any) -> frozenset[str]:
    """Return the parameters that no release depends on: they only say what to make of it."""
    if not isinstance(step, DPPCA | DPTruncatedSVD) or not isinstance(spec, RowsSpec):
        return frozenset()
    # A solver that releases the second moment of all rows serves any number of components. Others
    # release a basis of `n_components` columns.
    is_whole = {spec.solver, *spec.guided_solvers} <= {"covariance"}
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


def _like_behind(configured: Any, step: Step, n_rows: int, like: Any, released: str) -> Any:
    """Return public rows like those that a step leaves, at least as wide; None if it predicts."""
    if like is None or is_passed_through(configured):
        return like
    width, dtype = _shape_of(like)[1] or 0, float_dtype(like)
    if isinstance(configured, DPStandardScaler):
        some = np.ones((3, width), dtype)
        return csr_array(some) if holds_sparse(like) else some
    if isinstance(configured, PlannedEstimator) and not hasattr(configured, "n_components"):
        return np.ones((3, width), dtype) if keeps_columns(configured) else None
    if step.is_private:
        n_components = _n_components(configured)
        most = n_components if isinstance(n_components, int) else min(n_rows, width)
        return np.ones((3, most), dtype)
    made_of = partial(made_of_extremes, step.name, configured, is_sparse=holds_sparse(like))
    if released:
        # It has to take any number of columns up to that one.
        made_of(1, dtype)
    return made_of(width, dtype)


def _in_same_layout(made: Any, like: Any) -> Any:
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
    n_components = as_python(getattr(step, "n_components", 0))
    return n_components if n_components is None or isinstance(n_components, int) else "data"


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


class FitBudgets(NamedTuple):
    """What a fit of each private step may spend; `name` is what the record calls such a fit."""

    name: str
    shares: dict[int, float]  # of the square of `mu`, by the number of the step
    whole: PrivacyCost  # of everything together
    delta: float

    def part_of(self, number: int, step: Any, charge: Charge | None = None) -> Part:
        """Return what a fit of the step of that number may spend."""
        tail = self.delta * step._reserved_part() if self.whole.is_private else 0.0
        return Part(self.whole.share_of(self.shares[number], self.delta, tail), charge)


class BudgetSplit(NamedTuple):
    """What every part of a search may spend."""

    n_fits: dict[int, int]  # fits of each private step, by its number
    search: FitBudgets  # for the fits of the search
    final: FitBudgets  # for the last fits, of the steps that have one
    choice: float  # share of the choice; 0 if there is nothing to choose
    cost: PrivacyCost  # of everything together, with what the fits reserve of delta


def split_budget(
    steps: Sequence[Step],
    candidates: Sequence[Candidate],
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
    fit_delta = cost.delta / (sum(n_fits.values()) + sum(n_last.values()))
    tails = {i: _largest_tail(steps[i], i, candidates, fit_delta) for i in n_fits}
    delta_tail = math.fsum((n_fits[i] + n_last[i]) * tail for i, tail in tails.items())
    whole = PrivacyCost(cost.epsilon, cost.delta, delta_tail if cost.is_private else 0.0)
    choice = _CHOICE_OF_SEVERAL if max(n_fits.values()) > 1 else _CHOICE_OF_ONE
    choice = choice if len(candidates) > 1 else 0.0
    # Shares of the square of mu, because squares of mu add up.
    parts = {i: (1 - choice) * share for i, share in _shares(steps, n_fits).items()}
    parts = {i: part / (n_fits[i] + _FINAL_PARTS * n_last[i]) for i, part in parts.items()}
    last = {i: _FINAL_PARTS * part for i, part in parts.items() if n_last[i]}
    return BudgetSplit(
        n_fits,
        search=FitBudgets("fit", parts, whole, fit_delta),
        final=FitBudgets("last fit", last, whole, fit_delta),
        choice=choice,
        cost=whole,
    )


def _shares(steps: Sequence[Step], n_fits: dict[int, int]) -> dict[int, float]:
    """Return the share of each step; equal shares where a step is given an infinite epsilon."""
    if all(steps[i].share is not None for i in n_fits):
        given = {i: steps[i].share or 0.0 for i in n_fits}
        # Rounding may take their sum above 1.
        return {i: share / max(1.0, math.fsum(given.values())) for i, share in given.items()}
    squares = {i: steps[i].estimator._cost().mu ** 2 for i in n_fits}
    total = math.fsum(squares.values())
    if not math.isfinite(total):
        return dict.fromkeys(n_fits, 1 / len(n_fits))
    return {i: square / total for i, square in squares.items()}


def _largest_tail(step: Step, number: int, candidates: Sequence[Candidate], delta: float) -> float:
    """Return the largest part of that delta that a fit of a step may reserve."""
    asked = (configured_step(step, one.of_steps[number]) for one in candidates)
    return delta * max(one._reserved_part() for one in asked)
