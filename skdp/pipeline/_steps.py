"""The steps that share a budget: they are checked, and told what they protect."""

from collections.abc import Sequence
from functools import partial
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_approximation import AdditiveChi2Sampler
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from skdp._checks import check_given, redact_errors, targets_of
from skdp._estimator import PrivateEstimator, check_unwatched
from skdp.data.containers import finite
from skdp.data.parts import RowBlocks, RowParts, Targets, mapped_blocks
from skdp.data.rows import checked_digest
from skdp.linear_model._classifiers import PrivateClassifier
from skdp.linear_model._targets import (
    as_numbers,
    as_numbers_later,
    checked_labels,
    checked_responses,
    classes_in,
    codes_in_part,
    given_classes,
    labels_in,
)
from skdp.pipeline._columns import check_columns, is_columns, private_parts
from skdp.pipeline._delegation import DelegatesMixin
from skdp.pipeline._private_steps import (
    SharedBudget,
    has_budget,
    instead_of,
    is_passed_through,
    is_stateless,
)
from skdp.pipeline._shares import shares_of
from skdp.privacy.precision import plain
from skdp.units import SparseRow

_OF_THE_WHOLE = {"epsilon", "delta", "ledger", "random_state"}


class Step(NamedTuple):
    """A step of the searched pipeline; any other estimator is one step without a name."""

    name: str
    estimator: Any
    share: float | None = None  # of the square of mu, where the caller gives shares
    # which columns of X it is fitted to, if it is a part of a ColumnTransformer that follows
    columns: Any = None

    @property
    def is_private(self) -> bool:
        """Whether its fits spend budget."""
        return isinstance(self.estimator, PrivateEstimator)


def steps_of(estimator: Any) -> list[Step]:
    """Return the steps of an estimator; refuse steps that may learn without privacy."""
    steps = [Step("", estimator)]
    if type(estimator) is Pipeline:
        if estimator.memory is not None:
            raise ValueError(
                "estimator must not have memory, which writes rows to disk: pass memory=None."
            )
        steps = [Step(name, step) for name, step in estimator.steps]
        if any(is_columns(step) and private_parts(step) for _, step, *_ in steps):
            raise ValueError("Private parts of a ColumnTransformer need a DPPipeline as estimator.")
    elif isinstance(estimator, SharedBudget):
        _check_named(estimator)
        steps = _expanded(estimator.steps)
        _check_left_alone(estimator, steps)
    for number, step in enumerate(steps):
        if isinstance(step.estimator, str) and step.estimator == "drop":
            raise ValueError(f"Step {step.name!r}: 'drop' would leave no columns.")
        _check_step(step, is_behind=any(one.is_private for one in steps[:number]))
        is_last = number == len(steps) - 1 or is_passed_through(step.estimator)
        if not is_last and not hasattr(step.estimator, "transform"):
            kind = type(step.estimator).__name__
            raise ValueError(f"Step {step.name!r}, {kind}, has no transform: it must be the last.")
    if not any(step.is_private for step in steps):
        raise ValueError(
            f"estimator={type(estimator).__name__} has no private step: use GridSearchCV."
        )
    adjacency_of(steps)
    common_unit(steps)
    if not isinstance(estimator, SharedBudget):
        return steps
    shares = shares_of(
        {step.name: step.estimator for step in steps if step.is_private and step.columns is None},
        {step.name: step.estimator for step in steps if step.columns is not None},
        estimator.shares,
    )
    return [step._replace(share=shares.get(step.name)) for step in steps]


def _expanded(named: Sequence[tuple[str, Any]]) -> list[Step]:
    """Put the private parts of a ColumnTransformer, which may come first, before it."""
    steps = []
    for number, (name, step) in enumerate(named):
        if is_columns(step):
            if number:
                raise ValueError(f"Step {name!r}: a ColumnTransformer may be the first step only.")
            check_columns(name, step)
            parts = private_parts(step)
            steps += [Step(f"{name}__{part}", one, columns=where) for part, one, where in parts]
        steps.append(Step(name, step))
    return steps


def private_within(estimator: SharedBudget) -> dict[str, Any]:
    """Return by name the private steps that share a budget, parts of a ColumnTransformer too."""
    return {step.name: step.estimator for step in _expanded(estimator.steps) if step.is_private}


def adjacency_of(steps: Sequence[Step]) -> str:
    """Return the one adjacency of all private steps; refuse several."""
    adjacencies = sorted({step.estimator.adjacency for step in steps if step.is_private})
    if len(adjacencies) > 1:
        raise ValueError(
            f"The private steps of estimator must have one adjacency, got {adjacencies}."
        )
    return str(adjacencies[0])


def check_blocks(steps: Sequence[tuple[str, Any]], X: RowBlocks) -> None:
    """Refuse rows in one stream, and steps that need all rows in memory."""
    if not isinstance(X, RowParts):
        raise ValueError(
            "X is a RowBlocks of one stream, which a pipeline does not take: pass rows in parts, "
            "as RowBlocks.from_partitions makes them, an array, or a memory map."
        )
    if any(is_columns(step) for _, step in steps):
        raise ValueError(
            "A ColumnTransformer does not take rows in parts: let the functions that load these "
            "choose the columns."
        )


def check_targets(steps: Sequence[Step], X: Any, y: Any) -> None:
    """Refuse responses that a private step would refuse; those of classes it checks itself."""
    private = [step.estimator for step in steps if step.is_private]
    if isinstance(X, RowParts):
        supervised = [one for one in private if get_tags(one).target_tags.required]
        if supervised or y is not None:
            targets = targets_of(X, y, type([*supervised, *private][0]).__name__)
        if not all(map(is_classifier, supervised)):
            checked_digest(targets.mapped(as_numbers), None, is_keyed=False, name="y")
        return
    if y is None:
        for one in private:
            if get_tags(one).target_tags.required:
                check_given(y, type(one).__name__)
        return
    redact_errors(check_consistent_length)(X, y)
    if any(get_tags(one).target_tags.required and not is_classifier(one) for one in private):
        checked_responses(y)


def as_checked(rows: RowBlocks, steps: Sequence[Step]) -> RowBlocks:
    """Make finite, or known, what is not any more: behind a release no step may refuse a row."""
    made = mapped_blocks(rows, finite)
    private = (step.estimator for step in steps if step.is_private)
    supervised = [one for one in private if get_tags(one).target_tags.required]
    if supervised and isinstance(made, RowParts) and made.y is not None:
        known: Any = _finite_numbers
        if is_classifier(supervised[-1]):
            known = partial(_known_labels, classes=given_classes(supervised[-1].classes))
        made.y = made.y.mapped(known)
    return made


def _finite_numbers(responses: np.ndarray) -> np.ndarray:
    return np.asarray(finite(as_numbers_later(responses)))


def _known_labels(labels: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Take the first class for a label that is none of them."""
    return np.asarray(classes[np.maximum(codes_in_part(labels, classes), 0)])


def _check_named(estimator: Any) -> None:
    """Refuse steps that are no list of names and estimators."""
    are_pairs = (isinstance(one, list | tuple) and len(one) == 2 for one in estimator.steps)
    if not (
        estimator.steps and all(are_pairs) and all(isinstance(n, str) for n, _ in estimator.steps)
    ):
        raise ValueError(
            "steps must be a list of pairs, each with a name and an estimator, as in "
            f"[('pca', DPPCA(2)), ...], got {estimator.steps!r}."
        )
    estimator._validate_names([name for name, _ in estimator.steps])


def _check_left_alone(estimator: SharedBudget, steps: Sequence[Step]) -> None:
    """Refuse steps with parameters of a budget, which is that of the whole."""
    for name, step, *_ in steps:
        if not isinstance(step, PrivateEstimator):
            continue
        defaults = signature(type(step)).parameters
        for parameter in _OF_THE_WHOLE & defaults.keys():
            value, default = getattr(step, parameter), defaults[parameter].default
            if value is not default and plain(value) != default:
                part = f", and shares={{{name!r}: ...}} for the part of it that the step gets"
                raise ValueError(
                    f"Step {name!r} must keep its default {parameter}={default!r}: all steps have "
                    f"that of the whole. Pass {parameter} to {type(estimator).__name__}"
                    f"{part if parameter == 'epsilon' else ''}."
                )


def with_classes(estimator: Any, y: Any) -> tuple[Any, list[str]]:
    """Give the labels of y as classes to the private steps that have none; name these steps.

    Only the labels of all rows are the same in all fits.
    """
    lack_classes = [
        name
        for name, step, *_ in steps_of(estimator)
        if isinstance(step, PrivateClassifier) and step.classes is None
    ]
    if not lack_classes or y is None:
        return estimator, []
    labels = labels_in(y, None) if isinstance(y, Targets) else checked_labels(y)
    classes = classes_in(labels).tolist()
    given = {f"{name}__classes" if name else "classes": classes for name in lack_classes}
    return clone(estimator).set_params(**given), lack_classes


def _check_step(step: Step, *, is_behind: bool) -> None:
    """Refuse a step that a search cannot keep private; `is_behind` if it follows a private one."""
    name, estimator = step.name, step.estimator
    where = f"estimator, step {name!r}: " if name else "estimator: "
    if is_behind and isinstance(estimator, AdditiveChi2Sampler):
        raise ValueError(
            f"{where}AdditiveChi2Sampler refuses negative entries. Behind a private step its error "
            "would tell of single rows. Put it before all private steps."
        )
    check_unwatched(where, estimator)
    if isinstance(estimator, DelegatesMixin):
        kind = type(estimator).__name__
        raise ValueError(
            f"{where}a {kind} has a budget of its own, which is not that of the whole. Put what it "
            "fits in its place."
        )
    if isinstance(estimator, FrozenEstimator):
        check_is_fitted(estimator)
    if is_columns(estimator):
        public = [*estimator.transformers, ("remainder", estimator.remainder, None)]
        for part, one, _ in public:
            if is_columns(one):
                raise ValueError(f"{where}a ColumnTransformer within another is not supported.")
            if not has_budget(one):
                _check_step(Step(f"{name}__{part}", one), is_behind=False)
    elif not (step.is_private or is_stateless(estimator) or is_passed_through(estimator)):
        raise ValueError(
            f"{where}{type(estimator).__name__} may learn from the rows without privacy. "
            f"Use {instead_of(estimator)}, or wrap an estimator fitted on public rows in "
            "sklearn.frozen.FrozenEstimator. Steps inside of other steps, such as a Pipeline "
            "within a Pipeline, are not supported."
        )
    for parameter in ("ledger", "random_state") if step.is_private else ():
        if getattr(estimator, parameter) is not None:
            raise ValueError(f"{where}{parameter} must be None: pass it to the whole instead.")
    if step.is_private and estimator.delta == 0:
        raise ValueError(f"{where}delta must be positive, got 0.")


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


def configured_step(step: Step, parameters: dict[str, Any]) -> Any:
    """Clone a step with the parameters of a candidate; a frozen estimator stays as it is."""
    if is_passed_through(step.estimator):
        return step.estimator
    return clone(step.estimator).set_params(**parameters)
