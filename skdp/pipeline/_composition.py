"""Steps that share one budget: its split, their columns, and checks of steps and targets."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from functools import partial
from inspect import signature
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import get_tags
from sklearn.utils._indexing import _get_column_indices
from sklearn.utils.validation import check_consistent_length

from skdp._estimator import PlannedEstimator, PrivateEstimator, carried
from skdp._validation import check_given, feature_names, redact_errors, targets_of
from skdp.data.containers import finite, with_text
from skdp.data.parts import RowBlocks, RowParts, mapped_blocks
from skdp.data.people import People, people_of
from skdp.data.rows import checked_digest
from skdp.decomposition import DPPCA, DPTruncatedSVD
from skdp.exceptions import shown
from skdp.linear_model import DPPersonalizedRegressor
from skdp.linear_model import _supervised as supervised
from skdp.linear_model._logistic_regression import PrivateClassifier
from skdp.pipeline import _public_steps as public_steps
from skdp.pipeline import _rules as rules
from skdp.pipeline._public_rows import TWICE, attempt, columns_of
from skdp.preprocessing import DPStandardScaler
from skdp.preprocessing.intervals import in_order
from skdp.privacy import PrivacySpent
from skdp.privacy.plan import PrivacyCost
from skdp.privacy.precision import as_python
from skdp.units import Unit

# ------------------------------
# The steps of a pipeline, and how they split one cost.


class Step(NamedTuple):
    """A step of a pipeline; any other estimator is one step without a name."""

    name: str
    estimator: Any
    share: float | None = None  # part of the square of mu, of a private step in a DPPipeline
    # Each private part of a ColumnTransformer is a step, too.
    columns: Any = None  # columns of X that the part gets; None for a step that is no part
    before: Any = None  # Pipeline of the public steps of the part, before its private step
    target: Any = None  # a TransformedTargetRegressor around this estimator

    @property
    def label(self) -> str:
        """Name of the step in records, with the function of the responses, if there is one."""
        if self.target is None:
            return self.name
        function = getattr(self.target.func, "__name__", type(self.target.func).__name__)
        return f"{self.name} of {function}(y)"

    @property
    def is_private(self) -> bool:
        """Whether fitting the step spends budget."""
        return isinstance(self.estimator, PrivateEstimator)


class Shares(NamedTuple):
    """What each private step may spend in one fit."""

    whole: PrivacyCost  # cost of all steps together, with the delta that they reserve
    by_step: dict[int, float]  # shares of the square of mu, by the number of the step
    delta: float  # the part of delta that each fit of a step gets
    name: str = "fit"  # name of the fits in the record of a search

    def prefixed(self, number: int, name: str, messages: Iterable[str]) -> list[str]:
        """Begin warnings with the step's name and share, as they quote the epsilon of the step."""
        who, share = f"Step {name!r}" if name else "A fit", self.by_step[number]
        prefix = "" if round(share, 6) == 1 else f"{who}, which has {share:.2g} of the budget: "
        return [prefix + message for message in messages]


def shares_of(steps: Sequence[Step], cost: PrivacyCost) -> Shares:
    """Split a cost by the caller's shares; each fit gets an equal part of delta."""
    given = {i: step.share or 0.0 for i, step in enumerate(steps) if step.is_private}
    delta, total = cost.delta / len(given), max(1.0, math.fsum(given.values()))
    reserved = math.fsum(delta * steps[i].estimator._reserved_part() for i in given)
    whole = PrivacyCost(cost.epsilon, cost.delta, reserved if cost.is_private else 0.0)
    # Rounding may have raised the sum of given shares above 1.
    return Shares(whole, {i: share / total for i, share in given.items()}, delta)


# Default shares of private steps before the last one. A scaler has `_KNOWN_ENDS` with public
# bounds, else `_UNKNOWN_ENDS`; a PCA, SVD or estimator of another author has `_COMPONENTS`.
_KNOWN_ENDS, _UNKNOWN_ENDS = 0.15, 0.25  # benchmarks/scaling/columns.md
_COMPONENTS = 0.25  # not studied
# The sum of given shares may differ from 1 by `_OFF_ONE`, as floats are rounded.
_OFF_ONE = 1e-9  # not tuned


def given_shares(steps: Sequence[Step], given: Mapping[str, float] | None) -> dict[str, float]:
    """Return the share of each private step by name: the given one, a default, or the rest.

    The private parts of a ColumnTransformer split one share, by default the largest default share
    of a part. The share of a step that is passed through is split among all other steps.
    """
    given, wholes, parts, absent = given or {}, dict[str, Any](), dict[str, float](), list[str]()
    for step in steps:
        if step.columns is not None:
            parts[step.name] = _default_share(step.name, step.estimator)
        elif step.is_private:
            wholes[step.name] = step.estimator
        elif step.name in given and isinstance(step.estimator, str | None):
            absent.append(step.name)  # a step that is passed through
    # The name of the ColumnTransformer with private parts, if there is one.
    columns = [*{name.partition("__")[0] for name in parts}]
    names, shares = [*columns, *absent, *wholes], dict[str, float]()
    for name, share in given.items():
        if name not in names:
            raise ValueError(f"shares has {name!r}, no private step: these are {', '.join(names)}.")
        is_number = isinstance(share, Real) and not isinstance(share, bool)
        # A huge int has no float, and a tiny fraction becomes the float 0.
        shares[name] = float(share) if is_number and 0 < share <= 1 else 0.0
        if not shares[name]:
            raise ValueError(f"shares[{name!r}] must be a number in (0, 1], got {shown(share)}.")
    *others, last = [name for name in [*columns, *wholes] if name not in shares] or [""]
    for name in others:
        is_columns = name in columns
        shares[name] = max(parts.values()) if is_columns else _default_share(name, wholes[name])
    rest = 1 - math.fsum(shares.values())
    if last and rest > 0:
        shares[last] = rest
    elif last or abs(rest) > _OFF_ONE:
        wanted = f"leave a part for {last!r}" if last else "add to 1"
        raise ValueError(
            f"shares must {wanted}; with shares for the other steps they are {shares}, and their "
            f"sum is {1 - rest:.6g}."
        )
    # Without the steps that are passed through, the shares of the others have to sum to 1.
    left = 1 - math.fsum(shares.pop(name) for name in absent)
    shares = {name: share / left for name, share in shares.items()}
    for name in columns:
        part = shares.pop(name) / math.fsum(parts.values())
        shares |= {name: part * share for name, share in parts.items()}
    return shares


def _default_share(name: str, step: Any) -> float:
    """Return the default share of a step before the last; refuse a step without a default."""
    if isinstance(step, DPStandardScaler):
        return _UNKNOWN_ENDS if step.bounds is None else _KNOWN_ENDS
    if isinstance(step, DPPCA | DPTruncatedSVD | PlannedEstimator):
        return _COMPONENTS
    raise ValueError(
        f"Step {name!r}, a {type(step).__name__}, is followed by other private steps and has no "
        f"share by default: pass shares={{{name!r}: ...}}, a part of the budget."
    )


# ------------------------------
# Checks of the steps that share a budget, and of data for them.


def steps_of(estimator: Any) -> list[Step]:
    """Return the steps of an estimator; steps of a DPPipeline have shares of its budget.

    Refuse steps that may learn without privacy, and private steps that protect different units.
    """
    steps, refusals = _listed(estimator), list[str]()
    is_first, is_behind = True, False
    for step in steps:
        where = {"is_first": is_first, "is_behind": is_behind, "is_last": step is steps[-1]}
        refusals += _refusals(estimator, step, **where)
        # Private parts come before their ColumnTransformer, which still counts as the first step.
        is_first = is_first and step.columns is not None
        is_behind = is_behind or step.is_private
    if refusals:
        raise ValueError("\n".join(refusals))
    if not is_behind:
        raise ValueError(
            f"{type(estimator).__name__} has no private step: pass one, such as DPStandardScaler, "
            "or use Pipeline and GridSearchCV of scikit-learn."
        )
    # These calls refuse steps that differ in adjacency or unit.
    adjacency_of(steps)
    common_unit(steps)
    if not isinstance(estimator, rules.SharedBudget):
        return steps
    shares = given_shares(steps, estimator.shares)
    return [step._replace(share=shares.get(step.name)) for step in steps]


def _listed(estimator: Any) -> list[Step]:
    """Return the steps of a pipeline; any other estimator is one step without a name."""
    named: Any = getattr(estimator, "steps", None)
    if shares_budget := isinstance(estimator, rules.SharedBudget):
        pairs = [one for one in named if isinstance(one, list | tuple) and len(one) == 2]
        names = [name for name, _ in pairs if isinstance(name, str)]
        if not names or len(names) < len(named):
            raise ValueError(
                "steps must be a list of pairs, each with a name and an estimator, as in "
                f"[('pca', DPPCA(2)), ...], got {shown(named)}; make_dp_pipeline takes estimators."
            )
        estimator._validate_names(names)
    elif type(estimator) is Pipeline:
        if estimator.memory is not None:
            raise ValueError("estimator must have memory=None, as a cache writes rows to disk.")
        if any(rules.is_columns(step) and rules.private_parts(step) for _, step in named):
            raise ValueError("ColumnTransformer has private parts: pass a DPPipeline as estimator.")
    else:
        named = [("", estimator)]
    steps, (last_name, last) = list[Step](), named[-1]
    for number, (name, step) in enumerate(named):
        if shares_budget and rules.is_columns(step) and not number:
            # The private parts are fitted before the whole ColumnTransformer.
            for part, one, columns in rules.private_parts(step):
                steps.append(_step_of_part(name, part, one, columns))
        steps.append(Step(name, step))
    if rules.is_public_target(last):
        steps[-1] = Step(last_name, last.regressor, target=last)
    return steps


def _step_of_part(name: str, part: str, estimator: Any, columns: Any) -> Step:
    """Make a step of a ColumnTransformer's part: an estimator, or a Pipeline that ends with one."""
    if estimator is rules.last_of(estimator):
        return Step(f"{name}__{part}", estimator, columns=columns)
    *before, (last_name, last) = estimator.steps
    public = Pipeline(before) if before else None
    return Step(f"{name}__{part}__{last_name}", last, columns=columns, before=public)


def rows_of_step(step: Step, rows: Any, people: People | None = None) -> Any:
    """Return the rows of a step's fit; for a part of a ColumnTransformer, its mapped columns."""
    rows = columns_of(rows, step.columns)
    if step.before is None:
        return rows
    part = step.name.rpartition("__")[0]
    steps = [(part, public_steps.fitted_to_nothing(part, step.before, rows))]
    return public_steps.of_people(partial(public_steps.transformed, steps), people, rows)


def with_listed_bounds(steps: Sequence[Step], X: Any) -> list[Step]:
    """Turn bounds by column names into lists, for steps whose rows are arrays without names."""
    changed, names = list[Step](), feature_names(X)
    for number, step in enumerate(steps):
        own_names = names  # of the columns of this step's rows; None if unknown
        if step.before is not None:
            keeps_names = all(rules.keeps_columns(one) for _, one in step.before.steps)
            own_names = feature_names(columns_of(X, step.columns)) if keeps_names else None
        gets_array = step.before is not None or (number and step.columns is None)
        bounds = getattr(step.estimator, "bounds", None)
        if gets_array and own_names is not None and isinstance(bounds, Mapping):
            listed = clone(step.estimator).set_params(bounds=in_order(bounds, own_names))
            step = step._replace(estimator=listed)
        if step.columns is None and not rules.keeps_columns(step.estimator):
            names = None
        changed.append(step)
    return changed


def innermost(steps: Mapping[str, Any]) -> dict[str, Any]:
    """Replace each DPPipeline among private steps by the private steps inside it.

    Keys are prefixes of names of parameters, such as ``"pipeline__"``, or empty.
    """
    found: dict[str, Any] = {}
    for prefix, step in steps.items():
        inner = _listed(step) if isinstance(step, rules.SharedBudget) else [Step("", step)]
        found |= {prefix + one.name: one.estimator for one in inner if one.is_private}
    return found


def adjacency_of(steps: Sequence[Step]) -> str:
    """Return the one adjacency of all private steps; refuse several."""
    adjacencies = sorted({step.estimator.adjacency for step in steps if step.is_private})
    if len(adjacencies) > 1:
        raise ValueError(f"Private steps of estimator must have one adjacency, got {adjacencies}.")
    return str(adjacencies[0])


def takes_column(estimator: Any, X: Any, name: str, *, needs_y: bool = False) -> bool:
    """Return whether the first step takes a column of X and, with `needs_y`, some step takes y."""
    with suppress(ValueError, TypeError):  # bad steps are refused later
        steps = steps_of(estimator)
        first = next(step.estimator for step in steps if step.columns is None)
        # A function may leave out columns.
        if isinstance(first, FunctionTransformer) or (needs_y and not _learners(steps)):
            return False
        if not rules.is_columns(first):
            return True
        place = (feature_names(X) or []).index(name)
        parts = [one[1] for one in first.transformers if place in _get_column_indices(X, one[2])]
        return any(not isinstance(one, str) or one != "drop" for one in parts or [first.remainder])
    return False


def check_targets(steps: Sequence[Step], X: Any, y: Any) -> None:
    """Refuse responses that the last step would refuse; `with_classes` has checked labels."""
    learners = _learners(steps)
    takes_numbers = not all(map(is_classifier, learners))
    if isinstance(X, RowParts):
        if learners or y is not None:
            named = learners or [step.estimator for step in steps if step.is_private]
            targets = targets_of(X, y, type(named[0]).__name__)
            if takes_numbers:
                numbers = targets.mapped(supervised.as_numbers)
                checked_digest(numbers, None, is_seeded=False, name="y")
    elif y is not None:
        redact_errors(check_consistent_length)(X, y)
        if takes_numbers:
            supervised.checked_responses(y)
    elif learners:
        check_given(y, type(learners[0]).__name__)


def with_target(step: Step, X: Any, y: Any, people: People | None) -> tuple[Any, Any]:
    """Apply the function of a TransformedTargetRegressor to the responses; return X and y.

    Refuse a function that makes responses that are not finite.
    """
    if step.target is None:
        return X, y
    flaw = (
        f"Step {step.name!r}: func of TransformedTargetRegressor makes NaN or infinity of some "
        "responses, or several numbers of each: pass one that takes all, as np.log1p from 0 on."
    )
    transformer = transformer_of(step.target)
    public_steps.check_inverse(step.name, transformer)
    function = partial(public_steps.transformed, [(f"{step.name}__func", transformer)])
    if isinstance(X, RowParts):
        function(np.ones((TWICE, 1)))  # refuses a function that mixes responses
        X = copy(X)
        X.y = X.y.mapped(partial(_transformed_responses, transformer))
        with_text(flaw, partial(checked_digest, X.y, None, is_seeded=False, name="y"))
        return X, None
    # Bad responses are refused here, as the function might raise an error that shows them.
    responses = supervised.checked_responses(y)[:, np.newaxis]
    made = public_steps.of_people(function, people, responses)[:, 0]
    if not np.isfinite(_transformed_responses(transformer, responses)).all():
        raise ValueError(flaw)
    return X, made


def _transformed_responses(transformer: Any, responses: np.ndarray) -> np.ndarray:
    """Apply a public function to responses; NaN if it fails, or makes several numbers of each."""
    numbers = supervised.as_numbers_or_nan(responses.ravel())[:, np.newaxis]
    made = np.asarray(attempt(transformer.transform, numbers))
    fits = made.shape == numbers.shape and made.dtype.kind in "biuf"
    return made[:, 0].astype(np.float64) if fits else np.full(len(numbers), np.nan)


def transformer_of(target: Any) -> Any:
    """Return the functions of a TransformedTargetRegressor as a transformer, fitted to ones."""
    made = FunctionTransformer(target.func, target.inverse_func, validate=True, check_inverse=False)
    return made.fit(np.ones((2, 1)))


def _learners(steps: Sequence[Step]) -> list[Any]:
    """Return the private steps that need responses or labels."""
    private = [step.estimator for step in steps if step.is_private]
    return [one for one in private if get_tags(one).target_tags.required]


def as_checked(rows: RowBlocks, steps: Sequence[Step]) -> RowBlocks:
    """Replace values that a step might refuse, as no step may refuse a row after a release.

    Such values are numbers that are not finite, and labels that are none of the classes.
    """
    made, learners = mapped_blocks(rows, finite), _learners(steps)
    if learners and isinstance(made, RowParts) and made.y is not None:
        last = learners[-1]
        classes = supervised.given_classes(last.classes) if is_classifier(last) else None

        def _known(targets: np.ndarray) -> np.ndarray:
            if classes is None:
                return np.asarray(finite(supervised.as_numbers_or_nan(targets)))
            # As no step may refuse a row here, other labels become the first class.
            own = supervised.classes_or_codes(classes, targets)
            return np.asarray(own[np.maximum(supervised.known_codes(targets, own), 0)])

        made.y = made.y.mapped(_known)
    return made


def _refusals(
    whole: Any, step: Step, *, is_first: bool, is_behind: bool, is_last: bool
) -> Iterator[str]:
    """Yield why a step is refused at its position; `is_behind` means behind a private step."""
    if isinstance(step.estimator, str) and step.estimator == "drop":
        yield f"Step {step.name!r}: 'drop' would leave no columns. Remove the step."
    output = getattr(step.estimator, "_sklearn_output_config", {}).get("transform", "default")
    if output != "default" and not (is_last and step.is_private):
        yield (
            f"Step {step.name!r} returns data frames, which no next step takes: set "
            "set_output(transform='default') of it."
        )
    if step.is_private and isinstance(whole, rules.SharedBudget):
        # The steps of a DPPipeline have no budgets of their own.
        for parameter, default in own_budget(step.estimator).items():
            part = f" For another part of it, pass shares={{{step.name!r}: ...}}, from 0 to 1."
            yield (
                f"Step {step.name!r} must keep its default {parameter}={default!r}: pass "
                f"{parameter} to {type(whole).__name__}, whose steps share it."
                f"{part * (parameter == 'epsilon')}"
            )
    is_columns = rules.is_columns(step.estimator)
    if is_columns and is_first and isinstance(whole, rules.SharedBudget):
        if step.estimator.remainder not in ("drop", "passthrough"):
            yield (
                f"Step {step.name!r}, a ColumnTransformer, needs remainder='drop' or "
                f"'passthrough', got {type(step.estimator.remainder).__name__}: list that among "
                "transformers, with its columns."
            )
        if any(callable(columns) for _, _, columns in step.estimator.transformers):
            yield (
                f"Step {step.name!r} must name its columns: a function may look at values. Pass "
                "names, as list(frame.select_dtypes('number')) gives them."
            )
    if is_columns and not (is_first or rules.takes_all_rows(step.estimator)):
        yield (
            f"Step {step.name!r}: put it before the first private step, as the first step of all. "
            f"Elsewhere a ColumnTransformer may have {rules.TAKE_ALL_ROWS}, and columns by name."
        )
        return
    yield from rules.not_private(step.name, step.estimator, is_behind=is_behind)
    if not (
        is_last or rules.is_passed_through(step.estimator) or hasattr(step.estimator, "transform")
    ):
        kind = type(step.estimator).__name__
        yield f"Step {step.name!r}, {kind}, has no transform: it must be the last."


def own_budget(estimator: Any) -> dict[str, Any]:
    """Return the default of each of `delta` and `epsilon` that the caller has changed, by name."""
    parameters = signature(type(estimator)).parameters
    changed = {}
    for name in sorted({"delta", "epsilon"} & parameters.keys()):
        value, default = getattr(estimator, name), parameters[name].default
        if value is not default and as_python(value) != default:
            changed[name] = default
    return changed


def with_classes(steps: Sequence[Step], y: Any) -> tuple[list[Step], list[str]]:
    """Refuse bad labels; set the labels of all rows as `classes` of classifiers that have none.

    Return all steps, and the names of the changed ones, whose classes become public.
    """
    changed, names = list[Step](), list[str]()
    for step in steps:
        if isinstance(step.estimator, PrivateClassifier) and y is not None:
            classes, _ = step.estimator._classes_and_codes(y)
            if step.estimator.classes is None:
                labels = supervised.PublishedLabels(classes.tolist())
                step = step._replace(estimator=clone(step.estimator).set_params(classes=labels))
                names.append(step.name)
        changed.append(step)
    return changed, names


# Shape of X for a plan from which only the unit is read.
_SOME_ROWS, _SOME_FEATURES = 1000, 1000  # not tuned


def common_unit(steps: Sequence[Step]) -> str:
    """Return the one unit that all private steps protect; refuse units such as entries."""
    private = {step.name: step.estimator for step in steps if step.is_private}
    # A personalized regression has an unknown unit if it may count rows as users, or if it reads
    # ids from a column: then other steps do not know the number of users.
    named = {
        name: unit_of(one)[0]
        if hasattr(one, "privacy_unit") or (one.require_groups and one.user_column is None)
        else "an unknown unit"
        for name, one in private.items()
    }
    units = set(named.values())
    # All steps get the same rows, and a record is a row with its response.
    unit = "record" if units == {"row", "record"} else " and ".join(sorted(units))
    if unit not in ("row", "record", "response", "user"):
        got = ", ".join(f"{unit} of {name or 'it'}" for name, unit in named.items())
        raise ValueError(
            "The private steps of estimator must protect one row, one record, one response or one "
            f"user, all of them the same, got {got}. Pass one privacy_unit to all; that of "
            "DPPersonalizedRegressor is 'user' with require_groups=True and no user_column."
        )
    return unit


def unit_of(step: Any) -> tuple[str, bool]:
    """Return the unit that a step protects, and whether the step enforces it."""
    if isinstance(step, DPPersonalizedRegressor):
        # Without ids, each row counts as a user; metadata routing may pass ids as `groups`.
        is_routed = get_config()["enable_metadata_routing"]
        has_users = is_routed or step.require_groups or step.user_column is not None
        return "user" if has_users else "row", True
    given = getattr(step, "privacy_unit", None)
    if isinstance(step, PlannedEstimator):
        return str(given), False
    if isinstance(step, rules.SharedBudget):
        return str(given), all(unit_of(one)[1] for one in innermost({"": step}).values())
    if isinstance(step, PrivateClassifier):
        # Classes taken from the labels are only promised to be public.
        return str(given), step.classes is not None
    if given is None:
        plan = step.plan(_SOME_ROWS, _SOME_FEATURES)
        return plan.unit, plan.enforced
    if isinstance(given, Unit):
        # The unit does not depend on epsilon, and at an infinite epsilon its bounds may be any.
        unit = given.resolve(step.adjacency, math.inf)
        return unit.name, unit.is_enforced
    return str(given), True


def unit_of_rows(estimator: Any, rows: Any, users: Any, of_row: str) -> tuple[str, People | None]:
    """Return the unit that a release about rows protects, `of_row` without users; and the people.

    Refuse a missing `users` if a model inside the estimator protects users.
    """
    if users is not None:
        return "user", people_of(users, rows, "user")
    for name, record in _records_within(estimator):
        if record.unit == "user":
            raise ValueError(
                f"{name} protects users: pass users, an id for each row of X. If each row belongs "
                "to another user, pass users=numpy.arange(X.shape[0])."
            )
    return of_row, None


def _records_within(value: Any) -> Iterator[tuple[str, PrivacySpent]]:
    """Yield class and record of each fit or release in a model, or in a list or dict of models.

    A model with a record has the unit of this record, whatever unit its prior or frozen steps had.
    """
    if isinstance(value, list | tuple | dict):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _records_within(one)
    elif isinstance(value, BaseEstimator):
        made = carried(value)
        if record := vars(value).get("privacy_spent_") or (made and made[0]):
            yield type(value).__name__, record
        elif not isinstance(value, PrivateEstimator):
            yield from _records_within(vars(value))
