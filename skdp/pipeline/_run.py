"""Fit steps one after the other; each private step spends its part of one cost."""

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import _num_samples

from skdp import _estimator
from skdp._estimator import Part, PlannedEstimator
from skdp._validation import redact_errors, warnings_for_settings
from skdp.data.containers import finite, float_dtype
from skdp.data.parts import RowBlocks, RowParts, mapped_blocks
from skdp.data.people import People, ids_in_memory, people_of
from skdp.data.sources import holds_sparse
from skdp.decomposition import DPPCA, DPTruncatedSVD
from skdp.exceptions import warn_of_privacy
from skdp.linear_model.logistic.fit import HIDDEN_VARIATION, LABELS_BECOME_PUBLIC
from skdp.pipeline import _composition as composition
from skdp.pipeline import _public_steps as public_steps
from skdp.pipeline import _rules as rules
from skdp.pipeline._composition import Shares, Step
from skdp.pipeline._public_rows import as_named, as_table, shape_of, stand_ins
from skdp.preprocessing import DPStandardScaler
from skdp.preprocessing.scales import HIDDEN_COLUMNS
from skdp.privacy import Plan, PrivacyBudget, PrivacySpent
from skdp.privacy.noise import NoiseSource, derived_seed
from skdp.privacy.plan import PrivacyCost
from skdp.privacy.precision import as_python
from skdp.privacy.releases import Charge
from skdp.privacy.shares import Party

#: Attributes that scikit-learn sets on an estimator when it validates X.
FEATURE_ATTRIBUTES = ("n_features_in_", "feature_names_in_")

# ------------------------------
# The input of one fit, and its checks before anything is read or spent.


@dataclass(frozen=True)
class Run:
    """The checked input of one fit: its steps, rows and targets, and public facts."""

    estimator: Any
    steps: Sequence[Step]
    X: Any
    y: Any
    seed: int | None  # from which the seeds of all fits are derived
    classes_from_y: Sequence[str]  # names of the steps that take the labels of y as classes
    people: People | None  # the owner of each row, if whole users are protected
    users: Mapping[str, Any]  # arguments of fits: {"users": ids}, or {}
    is_plan_only: bool  # whether X is public and stands for `n_units` rows
    party: Party | None  # one of several owners of rows, in a federated fit
    unit: str  # the unit that all private steps protect
    adjacency: str
    n_units: int  # number of protected units

    @property
    def enforced(self) -> bool:
        """Whether no step relies on a promise: its author's, or the caller's about classes."""
        planned = (isinstance(one.estimator, PlannedEstimator) for one in self.steps)
        return not (self.classes_from_y or any(planned))

    def planned(self, cost: PrivacyCost, parts: Any = ()) -> Plan:
        """Make a plan of releases with the unit that all private steps protect."""
        unit, adjacency = self.unit, self.adjacency
        return Plan(cost, parts, unit=unit, adjacency=adjacency, enforced=self.enforced)

    def seed_of(self, label: str) -> int | None:
        """Derive the seed of one fit, or of the choice of a search, from its label."""
        return None if self.seed is None else derived_seed(self.seed, "search", label)

    def validate(self, one: Any, X: Any) -> Any:
        """Return the spec and the data of a step's fit to the rows X."""
        if self.party is not None:
            return self.party.validate(one, X, self.y)
        return one._validate(X, self.y, **self.users)


def prepare(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    seed: int | None = None,
    users: Any = None,
    n_planned: int | None = None,
    party: Party | None = None,
) -> Run:
    """Refuse unusable steps and data; return the steps with the rows of the fit.

    With `n_planned`, X is public and stands for this number of rows, and there is no y.
    """
    _check_container(X)
    is_plan_only = n_planned is not None
    targets = X.y if isinstance(X, RowParts) and not is_plan_only else y
    steps, classes_from_y = composition.with_classes(composition.steps_of(estimator), targets)
    steps = [
        one._replace(estimator=rules.lenient(one.estimator), before=rules.lenient(one.before))
        for one in steps
    ]
    users = ids_in_memory(users)  # read once, for all fits
    unit, adjacency = composition.common_unit(steps), composition.adjacency_of(steps)
    private = [step.name for step in steps if step.is_private and step.name]
    people = None if is_plan_only else people_of(users, X, unit, private)
    if people is not None and isinstance(X, RowBlocks):
        # Steps map each block alone, without knowing which entries of `users` belong to its rows.
        raise ValueError(
            "Steps that share a budget need all rows in memory to protect users: pass X as an "
            "array or a sparse matrix, or fit one estimator to rows in parts."
        )
    # The private parts of a ColumnTransformer come before it in this list.
    number = next(number for number, step in enumerate(steps) if step.columns is None)
    name, first, *_ = steps[number]
    if rules.is_columns(first):
        X = as_table(X)
        allow_nan = _leaves_nan(steps, number)
        public_steps.check_rows_of_columns(
            name, first, X, are_private=not is_plan_only, allow_nan=allow_nan
        )
    steps = composition.with_listed_bounds(steps, X)
    if not is_plan_only:
        composition.check_targets(steps, X, y)
        rows = X
        for place, step in enumerate(steps):
            # Private parts are skipped: the ColumnTransformer behind them maps all columns.
            is_checked = any(rules.refuses_unknown(one.estimator) for one in steps[place:])
            if is_checked and step.columns is None:
                rows = public_steps.refuse_unknown(step.name, step.estimator, rows)
        X, y = composition.with_target(steps[-1], X, y, people)
    if party is not None:
        unit, n_units = party.unit or unit, party.n_units
    elif people is not None:
        n_units = people.n_people
    else:
        n_units = n_planned or redact_errors(_num_samples)(X)
    return Run(
        estimator=estimator,
        steps=steps,
        X=X,
        y=y,
        seed=seed,
        classes_from_y=classes_from_y,
        people=people,
        users={} if people is None else {"users": users},
        is_plan_only=is_plan_only,
        party=party,
        unit=unit,
        adjacency=adjacency,
        n_units=n_units,
    )


def _check_container(X: Any) -> None:
    """Refuse a stream, and arrays of bytes."""
    if isinstance(X, RowBlocks) and not isinstance(X, RowParts):
        raise ValueError(
            "X is a RowBlocks of one stream, which a pipeline does not take: pass rows in parts, "
            "as RowBlocks.from_partitions makes them, an array, or a memory map."
        )
    dtype = getattr(X, "dtype", None)
    if isinstance(X, list | tuple):
        with suppress(Exception):  # texts, dictionaries and unequal rows make no table
            dtype = np.asarray(X).dtype if np.ndim(X[0]) else None
    if getattr(dtype, "kind", "") == "S":
        # A fitted encoder would store this dtype, and so publish the length.
        raise ValueError(
            "X is an array of bytes, whose dtype has the length of the longest text: pass "
            "numpy.char.decode(X), and the categories of encoders as texts."
        )


def _leaves_nan(steps: Sequence[Step], number: int) -> bool:
    """Return whether the result of a step may contain NaN, because the next step accepts NaN."""
    if number + 1 == len(steps) or rules.private_parts(steps[number].estimator):
        return False
    following = steps[number + 1].estimator
    return hasattr(following, "fit") and bool(get_tags(following).input_tags.allow_nan)


# ------------------------------
# Public facts about each step before its fit: its plan, and public rows like its own rows.


@dataclass
class StepFacts:
    """The estimator of a step, and what is known before its fit."""

    estimator: Any
    # Spec of a private step. If a release decides how many columns the step gets, the spec is for
    # the largest number of them, and `follows` names the release; otherwise `follows` is "".
    spec: Any = None
    follows: str = ""
    data: Any = None  # of a step that has validated its rows: what the validation returned
    # Arguments of `_spec_of_size` for other steps: n_samples, n_features, and public rows.
    size: tuple[int, int, Any] | None = None

    @cached_property
    def plan(self) -> Plan:
        """Plan of the fit of this step, whose spec is known."""
        return _estimator.plan_of(self.spec, self.estimator._plan(self.spec))


class Prefix(NamedTuple):
    """The fitted steps at the beginning of a pipeline."""

    fitted: tuple[Any, ...]
    before: Any  # rows that the last of these steps gets
    rows: Any  # rows that the next step gets


def with_cost(run: Run, number: int, shares: Shares, label: str = "") -> Any:
    """Clone a private step; set the cost of its fit and, with a label, its seed."""
    one, delta = clone(run.steps[number].estimator), shares.delta
    tail = delta * one._reserved_part() if shares.whole.is_private else 0.0
    one._part = Part(shares.whole.share_of(shares.by_step[number], delta, tail), party=run.party)
    # `set_params` would fail: not every step has a parameter random_state.
    one.random_state = run.seed_of(label) if label else None
    return one


def step_facts(
    run: Run, shares: Shares, prefix: Prefix, *, keeps_data: bool = False
) -> list[StepFacts]:
    """Return public facts about all steps; refuse steps and rows that a fit would refuse.

    Steps of the prefix are fitted. The first private step validates its rows, unless X is public;
    with `keeps_data`, the facts store the validated data for its fit. Up to this step, `like` is
    the mapped X. Behind it (`is_behind`), `like` has public rows of the same kind, with as many
    columns as the step can return at most; `like` is None if this number is unknown.
    """
    facts, like, is_behind, released = list[StepFacts](), prefix.rows, False, ""
    for number, step in enumerate(run.steps):
        known = StepFacts(step.estimator)
        if step.is_private:
            one = known.estimator = with_cost(run, number, shares, step.name)
            one._validate_params()
            if like is None:
                raise ValueError(
                    f"Step {step.name!r} follows {run.steps[number - 1].name!r}, which does not "
                    "say how many columns it returns. If it returns as many as it gets, let its "
                    "class inherit OneToOneFeatureMixin; else give it an int n_components."
                )
            rows = composition.rows_of_step(step, like, None if is_behind else run.people)
            if not is_behind:
                # Only this step may refuse rows: later steps get finite rows.
                if not run.is_plan_only:
                    spec, data = run.validate(one, rows)
                    if keeps_data:
                        known.spec, known.data = spec, data
                is_behind = step.columns is None
            known.follows = released
            if known.data is None and (n_columns := _width_of(rows)) is not None:
                known.size, party = (run.n_units, n_columns, rows), run.party
                known.spec = (
                    one._spec_of_size(*known.size) if party is None else party.spec_of(one, rows)
                )
            if known.spec is not None and not released and n_components_of(one) == "data":
                released = f"{step.name}.n_components"
        facts.append(known)
        if step.columns is not None or number < len(prefix.fitted):
            continue
        if is_behind:
            made = _like_behind(known.estimator, step, run.n_units, like, released)
            like = _in_same_layout(made, like)
        elif rules.is_columns(step.estimator) and rules.private_parts(step.estimator):
            whole, is_behind = public_steps.without_private_parts(step.estimator), True
            like = _in_same_layout(_first_result(step.name, whole, like), like)
        else:
            like = public_steps.made_of(step.name, step.estimator, like)
    return facts


def _first_result(name: str, step: Any, like: Any) -> Any:
    """Return the result of a step for the first pair of public rows that it accepts."""
    pairs = [*stand_ins(as_named(like))]
    for rows in pairs:
        with suppress(ValueError):
            return public_steps.made_of(name, step, rows)
    return public_steps.made_of(name, step, pairs[0])  # raises the error of the first pair


def _width_of(X: Any) -> int | None:
    """Return the number of features; None if X has one dimension, as a list of texts."""
    shape = shape_of(X)
    return math.prod(shape[1:]) if len(shape) > 1 else None


def _like_behind(configured: Any, step: Step, n_rows: int, like: Any, released: str) -> Any:
    """Return public rows of the type and the largest width that the result of a step can have.

    The next step is planned with these rows, without data. `configured` is the estimator of the
    step with its cost; `released` names the release, if any, that decides how many columns its rows
    have.
    The function returns None if no maximum of this number is known.
    """
    if like is None or rules.is_passed_through(configured):
        return like
    width, dtype = _width_of(like) or 0, float_dtype(like)
    if step.is_private:
        n_components = n_components_of(configured)
        if rules.keeps_columns(configured):
            n_components = width
        elif not hasattr(configured, "n_components"):
            return None
        most = n_components if isinstance(n_components, int) else min(n_rows, width)
        made = np.ones((3, most), dtype)
        # Of private steps, only a scaler returns sparse rows.
        is_sparse = isinstance(configured, DPStandardScaler) and holds_sparse(like)
        return csr_array(made) if is_sparse else made
    # A release may leave a single column, which the step has to accept, too.
    for n_columns in [1, width] if released else [width]:
        made = public_steps.made_of_extremes(
            step.name, configured, n_columns, dtype, is_sparse=holds_sparse(like)
        )
    return made


def _in_same_layout(made: Any, like: Any) -> Any:
    """Split public rows into parts like those of `like`, as bounds on rounding depend on parts."""
    if made is like or made is None or not isinstance(like, RowParts):
        return made
    is_sparse, n_columns, dtype = holds_sparse(made), made.shape[1], made.dtype

    def _zeros(rows: Any) -> Any:
        zeros = np.zeros((rows.shape[0], n_columns), dtype)
        return csr_array(zeros) if is_sparse else zeros

    return mapped_blocks(like, _zeros, n_columns)


def n_components_of(step: Any) -> Any:
    """Return the number of components: an int; None for all; "data" if a release decides."""
    n_components = as_python(getattr(step, "n_components", 0))
    return n_components if n_components is None or isinstance(n_components, int) else "data"


def warnings_of(run: Run, shares: Shares, facts: Sequence[StepFacts]) -> list[str]:
    """Plan all steps whose spec is known, to refuse too small budgets; return warnings."""
    warnings: list[str] = []
    for number in shares.by_step:
        if (known := facts[number]).spec is not None:
            own = known.estimator._warnings(known.spec, known.plan)
            warnings += shares.prefixed(number, run.steps[number].name, own)
    return warnings


# ------------------------------
# Fitting the next step.


def without_false_alarms(fitted: Sequence[Any]) -> None:
    """Remove warnings of columns that noise hides, if released losses show that the model is good.

    Without a scaler, warnings of hidden variation stay, as a scaler may make the model better.
    """
    if not getattr(fitted[-1], "_is_sure", False):
        return
    is_scaled = any(hasattr(one, "scale_") for one in fitted)
    alarms = (HIDDEN_COLUMNS, HIDDEN_VARIATION) if is_scaled else (HIDDEN_COLUMNS,)
    for one in fitted:
        if given := getattr(one, "_warnings_given", ()):
            others = [text for text in given if not any(alarm in text for alarm in alarms)]
            one._warnings_given = others


def fit_public(run: Run, prefix: Prefix) -> Any:
    """Fit the next step, which learns nothing, to public rows.

    A ColumnTransformer gets its fitted private parts.
    """
    step = run.steps[len(prefix.fitted)]
    if not rules.is_columns(step.estimator):
        return public_steps.fitted_to_nothing(step.name, step.estimator, prefix.rows)
    before = zip(run.steps, prefix.fitted, strict=False)
    # Steps with columns are parts, named as in "columns__part" or "columns__part__scaler".
    parts = {one.name.split("__")[1]: fitted for one, fitted in before if one.columns is not None}
    return public_steps.fitted_columns(step.name, step.estimator, parts, prefix.rows)


def fit_private(
    run: Run,
    prefix: Prefix,
    known: StepFacts,
    label: str,
    charge: Charge | None,
    *,
    corrects_scales: bool = True,
) -> tuple[Any, Any, PrivacyBudget, np.ndarray | None]:
    """Fit the next step, which is private; `charge` charges a ledger with the cost of all steps.

    Return its spec, the result of its solver, its budget, and factors that correct the scales of
    the scaler, if the step is a `DPPCA` or `DPTruncatedSVD` right behind a `DPStandardScaler`, else
    None. Warnings from public facts are left out: they were given before anything was spent.
    """
    number, one = len(prefix.fitted), known.estimator
    one._part = one._part._replace(charge=charge)
    corrects_scales = corrects_scales and _is_behind_scaler(run, prefix, one)
    with _estimator.fitted_within(one, label), _estimator.restored_on_error(one):
        if known.data is None:
            rows = composition.rows_of_step(run.steps[number], prefix.rows, run.people)
            (spec, data), plan = run.validate(one, rows), None
        else:
            spec, data, plan = known.spec, known.data, known.plan
            known.data = None  # frees the memory for later steps
        spec, result, budget = one._release(spec, data, lambda *_: None, plan)
        if corrects_scales:
            result = result.of_correlations(spec.n_components, spec.shape[0])
        one._warnings_given = one._keep(spec, result, budget)
    return spec, result, budget, result.scales if corrects_scales else None


def _is_behind_scaler(run: Run, prefix: Prefix, one: Any) -> bool:
    """Return whether a step right behind a scaler finds components of centered rows."""
    scaler: Any = prefix.fitted[-1] if prefix.fitted else None
    is_whole = run.steps[len(prefix.fitted)].columns is None
    is_behind = isinstance(scaler, DPStandardScaler) and is_whole
    are_components = isinstance(one, DPPCA | DPTruncatedSVD)
    return are_components and is_behind and (scaler.with_mean or isinstance(one.center, str))


def extended(run: Run, prefix: Prefix, one: Any, scales: np.ndarray | None = None) -> Prefix:
    """Append a fitted step to a prefix; `scales` are factors that correct the scaler before it."""
    number, fitted, rows = len(prefix.fitted), prefix.fitted, prefix.rows
    is_last = number == len(run.steps) - 1
    if scales is not None:
        # A copy is corrected, as other candidates of a search use the scaler as it is.
        scaler = copy(fitted[-1])
        scaler.scale_ = scaler.scale_ * scales
        scaler.var_ = np.square(scaler.scale_)
        fitted = (*fitted[:-1], scaler)
        rows = None if is_last else _rows_behind(run, number - 1, scaler, prefix.before)
    behind = None if is_last else _rows_behind(run, number, one, rows)
    return Prefix((*fitted, one), rows, behind)


def _rows_behind(run: Run, number: int, fitted: Any, X: Any) -> Any:
    """Map rows by a fitted step; return the rows that the next step gets."""
    step = run.steps[number]
    if step.columns is not None:
        return X
    rows = public_steps.of_people(
        partial(public_steps.transformed, [(step.name, fitted)]), run.people, X
    )
    is_columns = rules.is_columns(step.estimator)
    if isinstance(rows, RowBlocks):
        is_private = step.is_private or (is_columns and rules.private_parts(step.estimator))
        return composition.as_checked(rows, run.steps) if is_private else rows
    if not is_columns:
        return rows
    # NaN stays only if the next step accepts it. All other numbers may have overflowed.
    takes_nan = not issparse(rows) and _leaves_nan(run.steps, number)
    return np.where(np.isnan(rows), rows, finite(rows)) if takes_nan else finite(rows)


# ------------------------------
# The fitted model and its record.


def assembled(run: Run, fitted: Sequence[Any]) -> Any:
    """Put fitted steps together in the form of the unfitted estimator."""
    *before, last = fitted
    if (target := run.steps[-1].target) is not None:
        one, last = last, clone(target).set_params(regressor=clone(last))
        last.regressor_, last.transformer_ = one, composition.transformer_of(target)
        last._training_dim = 1 if isinstance(run.X, RowBlocks) else np.ndim(run.y)
    if not run.steps[0].name:
        return last
    pairs = zip(run.steps, [*before, last], strict=True)
    steps = [(step.name, one) for step, one in pairs if step.columns is None]
    if isinstance(run.estimator, rules.SharedBudget):
        return Pipeline(steps)
    return clone(run.estimator).set_params(steps=steps)


# The cost of all fits may exceed the whole cost by this fraction, as shares are rounded.
_OVER_WHOLE = 2e-9  # not tuned


def record_of(whole: PrivacySpent, records: Mapping[str, PrivacySpent]) -> PrivacySpent:
    """Return one record of all fits, in which names of releases begin with the label of a fit."""
    labeled = [
        replace(one, releases=tuple(replace(r, name=f"{label}: {r.name}") for r in one.releases))
        for label, one in records.items()
    ]
    # All steps get the same rows, so a row and a record are the same unit.
    composed = labeled[0].compose(*labeled[1:], same_unit=True)
    is_over = composed.mu > whole.mu * (1 + _OVER_WHOLE)
    if is_over or composed.delta_tail > whole.delta_tail * (1 + _OVER_WHOLE):
        raise RuntimeError(f"All fits have spent mu={composed.mu}, and were given {whole.mu}.")
    return replace(
        composed,
        epsilon=whole.epsilon,
        delta=whole.delta,
        mu=min(composed.mu, whole.mu),
        enforced=composed.enforced and whole.enforced,
        delta_tail=whole.delta_tail,
        # An owner who left during one step is absent in all later ones.
        trust=labeled[-1].trust,
    )


def with_one_record(run: Run, fitted: Sequence[Any], spent: PrivacySpent, ledger: Any) -> Any:
    """Assemble the model; set the record of the whole on the model and on its private steps."""
    for step, one in zip(run.steps, fitted, strict=True):
        if step.is_private:
            one.privacy_spent_ = spent
            # If the step is fitted again alone, it costs what its parameters say. The seed is
            # removed, as whoever has the seed can subtract the noise.
            if step.name in run.classes_from_y:
                one.set_params(classes=None)
            one._part, one.ledger, one.random_state = None, ledger, None
    model = rules.make_strict(assembled(run, fitted))
    model.privacy_spent_ = spent
    return model


# ------------------------------
# What pipelines and searches share: one budget, one charge, one record.


class SpendsOneBudget(_estimator.Watched, rules.DelegatesMixin):
    """Base of estimators that fit several steps with one budget, and charge a ledger once."""

    epsilon: float
    delta: float
    ledger: Any

    def _cost(self) -> PrivacyCost:
        return PrivacyCost(self.epsilon, self.delta)

    def _begin(
        self, run: Run, cost: PrivacyCost, warnings: Iterable[str]
    ) -> tuple[PrivacySpent, Charge | None]:
        """Give the warnings that follow from public facts.

        Return the record of the whole cost, without releases, and the function that charges it.
        """
        self._n_units, counted = run.n_units, "rows" if run.people is None else "users"
        settings = warnings_for_settings(cost, counted, run.n_units, self.random_state)
        of_classes = [LABELS_BECOME_PUBLIC] * bool(run.classes_from_y)
        self._warnings_given = [*settings, *of_classes, *warnings]
        if run.party is None:
            warn_of_privacy(*self._warnings_given)
        nothing = PrivacyBudget.of(run.planned(cost), NoiseSource(run.seed)).spent()
        whole = replace(nothing, mu=cost.mu)
        if (party := run.party) is not None and party.charge is not None:
            return whole, lambda _: party.charge(whole)
        if self.ledger is None:
            return whole, None
        name = f"{type(self).__name__}.fit, {run.n_units} {whole.unit}s"
        # The first fit calls this function with its own record, but the whole is charged.
        return whole, lambda _: self.ledger.charge(whole, what=name)

    def _set_features(self, model: Any) -> None:
        # The first step that is fitted gets the columns of X: steps like "passthrough" keep them.
        fitted = (one for _, one in getattr(model, "steps", ()) if hasattr(one, "fit"))
        first = next(fitted, model)
        for name in FEATURE_ATTRIBUTES:
            # An earlier fit may have set an attribute that this fit does not set.
            self.__dict__.pop(name, None)
            if hasattr(first, name):
                setattr(self, name, getattr(first, name))
