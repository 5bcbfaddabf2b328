"""Fit steps one after the other, each private one with its part of one cost."""

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import _num_samples

from skdp import _estimator
from skdp._estimator import Charge, Part, PlannedEstimator
from skdp._validation import warnings_for_settings
from skdp.data.containers import finite, float_dtype
from skdp.data.parts import RowBlocks, RowParts, mapped_blocks
from skdp.data.people import People, ids_in_memory, people_of
from skdp.data.sources import holds_sparse
from skdp.decomposition import DPPCA, DPTruncatedSVD
from skdp.exceptions import warn_of_privacy
from skdp.linear_model._logistic_regression import PrivateClassifier
from skdp.linear_model.logistic.fit import LABELS_BECOME_PUBLIC
from skdp.pipeline import _composition as composition
from skdp.pipeline import _rules as rules
from skdp.pipeline._composition import rows_of_step
from skdp.pipeline._public_rows import as_named, stand_ins
from skdp.pipeline._public_steps import (
    check_rows_of_columns,
    fitted_columns,
    fitted_to_nothing,
    in_public,
    made_of_extremes,
    of_people,
    refuse_unknown,
    transformed,
)
from skdp.pipeline._shares import Shares, Step
from skdp.preprocessing import DPStandardScaler
from skdp.preprocessing.scales import HIDDEN_COLUMNS
from skdp.privacy import Plan, PrivacyBudget, PrivacySpent
from skdp.privacy.noise import NoiseSource, derived_seed
from skdp.privacy.plan import PrivacyCost
from skdp.privacy.precision import as_python
from skdp.privacy.shares import Party

#: What scikit-learn's validation sets on an estimator.
FEATURE_ATTRIBUTES = ("n_features_in_", "feature_names_in_")

# ------------------------------
# What is fitted, and what is refused before anything is read or spent.


@dataclass(frozen=True)
class Run:
    """Checked steps, and the rows that they are fitted to."""

    estimator: Any
    steps: Sequence[Step]
    X: Any
    y: Any
    targets: Any  # the responses, wherever they are
    seed: int | None  # the seeds of all fits are derived from it
    # names of the steps whose classes are taken from the labels of y
    lack_classes: Sequence[str]
    # whose the rows are where whole users are protected, and that as an argument of every fit
    people: People | None
    users: Mapping[str, Any]
    is_planned: bool  # X is public, and stands for `n_units` rows
    party: Party | None  # of several owners
    # what all private steps protect, and how many of it there are, if not one for each row
    unit: str
    adjacency: str
    n_units: int | None

    @property
    def enforced(self) -> bool:
        """Whether no step is promised anything."""
        planned = (isinstance(one.estimator, PlannedEstimator) for one in self.steps)
        return not (self.lack_classes or any(planned))

    def planned(self, cost: PrivacyCost, parts: Any = ()) -> Plan:
        """Plan releases about what all private steps protect."""
        unit, adjacency = self.unit, self.adjacency
        return Plan(cost, parts, unit=unit, adjacency=adjacency, enforced=self.enforced)

    def seed_of(self, label: str) -> int | None:
        """Derive a seed for the fit or choice of that label."""
        return None if self.seed is None else derived_seed(self.seed, "search", label)

    def validate(self, one: Any, X: Any) -> Any:
        """Return the spec of a step and the data of its fit; across owners the spec is of all."""
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
    """Refuse what is not acceptable, and return the rest.

    With `n_planned`, X is public and stands for so many rows to come, and there is no y. `users`
    has the owner of each row.
    """
    if isinstance(X, RowBlocks) and not isinstance(X, RowParts):
        raise ValueError(
            "X is a RowBlocks of one stream, which a pipeline does not take: pass rows in parts, "
            "as RowBlocks.from_partitions makes them, an array, or a memory map."
        )
    is_planned = n_planned is not None
    targets = X.y if isinstance(X, RowParts) and not is_planned else y
    given, lack_classes = composition.with_classes(estimator, targets)
    given = rules.lenient(given)
    steps = composition.steps_of(given)
    users = ids_in_memory(users)  # once for all fits
    unit, adjacency = composition.common_unit(steps), composition.adjacency_of(steps)
    people = None if is_planned else people_of(users, X, unit)
    if people is not None and isinstance(X, RowBlocks):
        # Steps take parts block by block, where a row has no place of its own.
        raise ValueError(
            "Steps that share a budget protect users with rows in memory only: pass X as an array "
            "or a sparse matrix, or fit one estimator to rows in parts."
        )
    number = next(number for number, step in enumerate(steps) if step.columns is None)
    name, first, *_ = steps[number]
    if rules.is_columns(first):
        allow_nan = _leaves_nan(steps, number)
        check_rows_of_columns(name, first, X, are_private=not is_planned, allow_nan=allow_nan)
    steps = composition.with_names(steps, X)
    if not is_planned:
        composition.check_targets(steps, X, y)
        rows = X
        for i, step in enumerate(steps):
            if not any(rules.refuses_unknown(one.estimator) for one in steps[i:]):
                break
            # Private parts of a ColumnTransformer stand before it, too.
            if step.columns is None:
                rows = refuse_unknown(step.name, step.estimator, rows)
        X, y = composition.with_target(steps[-1], X, y, people)
    ids, n_units = ({}, n_planned) if people is None else ({"users": users}, people.n_people)
    if party is not None:
        unit, n_units = party.unit or unit, party.n_units
    facts = is_planned, party, unit, adjacency, n_units
    return Run(given, steps, X, y, targets, seed, lack_classes, people, ids, *facts)


def _leaves_nan(steps: Sequence[Step], number: int) -> bool:
    """Return whether a ColumnTransformer leaves NaN to the step behind it, which takes it."""
    following = [one.estimator for one in steps[number + 1 : number + 2]]
    takes = any(hasattr(one, "fit") and get_tags(one).input_tags.allow_nan for one in following)
    return takes and not rules.private_parts(steps[number].estimator)


# ------------------------------
# What is known of each step before its fit: its plan, and rows like those that it gets.


@dataclass
class Place:
    """A step as it will be fitted, and what is known of it before."""

    step: Any
    spec: Any = None  # of private steps, where it can be known
    # its rows and the data of its fit, if it has read these
    rows: Any = None
    data: Any = None
    facts: Any = None  # else the arguments of `_spec_of_size`, where they can be known
    # what decides the width of the rows of the step, if that is released; else ""
    follows: str = ""

    @cached_property
    def plan(self) -> Plan:
        """The plan of the fit of a private step whose spec is known."""
        return _estimator.plan_of(self.spec, self.step._plan(self.spec))


class Prefix(NamedTuple):
    """Fitted steps, the rows that the last one has got, and those that it leaves."""

    fitted: tuple[Any, ...]
    before: Any
    rows: Any


def handed(run: Run, number: int, shares: Shares, label: str = "") -> Any:
    """Clone a private step, and hand it what it may spend; with a label, a seed, too."""
    one, delta = clone(run.steps[number].estimator), shares.delta
    tail = delta * one._reserved_part() if shares.whole.is_private else 0.0
    one._part = Part(shares.whole.share_of(shares.of[number], delta, tail), party=run.party)
    # An attribute, as not every step has random_state as a parameter.
    one.random_state = run.seed_of(label) if label else None
    return one


def begin(run: Run, shares: Shares) -> tuple[Prefix, dict[int, Place]]:
    """Fit public steps up to the first private one, and let that read its rows.

    The private parts of a ColumnTransformer are the first one together.
    """
    prefix, opened = Prefix((), None, run.X), dict[int, Place]()
    first = min(shares.of)
    while len(prefix.fitted) < first:
        prefix = extended(run, prefix, fit_public(run, prefix))
    n_parts = sum(step.columns is not None for step in run.steps)
    for number in range(first, first + max(n_parts, 1)):
        one = handed(run, number, shares, run.steps[number].name)
        one._validate_params()
        rows = rows_of_step(run.steps[number], prefix.rows, run.people)
        spec, data = run.validate(one, rows)
        opened[number] = Place(one, spec, rows, data)
    return prefix, opened


def places_of(
    run: Run, shares: Shares, prefix: Prefix, opened: Mapping[int, Place] = MappingProxyType({})
) -> list[Place]:
    """Follow public facts through the steps; refuse what any of their fits would refuse.

    Steps of the prefix are fitted, and those that are `opened` have checked their rows. Up to the
    first private step `like` is what X becomes. Behind it (`is_behind`) it is public rows of the
    same kind; where the width is released, it is an upper limit. What predicts leaves None.
    """
    places, like, n_rows, is_behind, released = list[Place](), prefix.rows, 0, False, ""
    for number, step in enumerate(run.steps):
        place = opened.get(number, Place(step.estimator))
        if step.is_private:
            one = place.step if number in opened else handed(run, number, shares, step.name)
            one._validate_params()
            if not run.is_planned and isinstance(one, PrivateClassifier):
                one._classes_and_codes(run.targets)
            if like is None:
                raise ValueError(
                    f"Step {step.name!r} follows one that does not say how many columns it "
                    "returns: let that inherit OneToOneFeatureMixin, or have an int n_components."
                )
            rows = place.rows if number in opened else rows_of_step(step, like)
            if not is_behind:
                # Rows that pass here stay acceptable: what later steps get is made finite.
                if not (run.is_planned or opened):
                    run.validate(one, rows)
                n_rows = run.n_units or _shape_of(rows)[0]
                is_behind = step.columns is None
            place = replace(place, step=one, follows=released)
            if number not in opened and (width := _shape_of(rows)[1]) is not None:
                facts, party = (n_rows, width, rows), run.party
                spec = one._spec_of_size(*facts) if party is None else party.spec_of(one, rows)
                place = replace(place, spec=spec, facts=facts)
            if place.spec is not None and not released and n_components_of(one) == "data":
                released = f"{step.name}.n_components"
        places.append(place)
        if step.columns is not None or number < len(prefix.fitted):
            continue
        if is_behind:
            made = _like_behind(place.step, step, n_rows, like, released)
        elif rules.is_columns(step.estimator) and rules.private_parts(step.estimator):
            made = _first_result(step.name, in_public(step.estimator), like)
            n_rows, is_behind = run.n_units or _shape_of(run.X)[0], True
        else:
            like = _public_result(step.name, clone(step.estimator, safe=False), like)
            continue
        like = _in_same_layout(made, like)
    return places


def _first_result(name: str, step: Any, like: Any) -> Any:
    """Send public rows through a step, the first that it takes."""
    branches = [*stand_ins(as_named(like))]
    for rows in branches:
        with suppress(ValueError):
            return _public_result(name, step, rows)
    return _public_result(name, step, branches[0])


def _public_result(name: str, step: Any, rows: Any) -> Any:
    """Send rows through a step that learns nothing, as its fit will."""
    if rules.is_stateless(step) or rules.is_columns(step):
        step = fitted_to_nothing(name, step, rows)
    return transformed([(name, step)], rows)


def _shape_of(X: Any) -> tuple[int, int | None]:
    """Return the number of rows, and of features if X has any."""
    shape = X.shape if hasattr(X, "shape") else np.asarray(X).shape
    return shape[0], math.prod(shape[1:]) if len(shape) > 1 else None


def _like_behind(configured: Any, step: Step, n_rows: int, like: Any, released: str) -> Any:
    """Return public rows like those that a step leaves, at least as wide; None if it predicts."""
    if like is None or rules.is_passed_through(configured):
        return like
    width, dtype = _shape_of(like)[1] or 0, float_dtype(like)
    if isinstance(configured, DPStandardScaler):
        some = np.ones((3, width), dtype)
        return csr_array(some) if holds_sparse(like) else some
    if isinstance(configured, PlannedEstimator) and not hasattr(configured, "n_components"):
        return np.ones((3, width), dtype) if rules.keeps_columns(configured) else None
    if step.is_private:
        n_components = n_components_of(configured)
        most = n_components if isinstance(n_components, int) else min(n_rows, width)
        return np.ones((3, most), dtype)
    made_of = partial(made_of_extremes, step.name, clone(configured), is_sparse=holds_sparse(like))
    if released:
        # It has to take any number of columns up to that one.
        made_of(1, dtype)
    return made_of(width, dtype)


def _in_same_layout(made: Any, like: Any) -> Any:
    """Give public rows the public layout of rows in parts, which sums of them round by."""
    if made is like or made is None or not isinstance(like, RowParts):
        return made
    is_sparse, n_columns, dtype = holds_sparse(made), made.shape[1], made.dtype

    def _zeros(rows: Any) -> Any:
        zeros = np.zeros((rows.shape[0], n_columns), dtype)
        return csr_array(zeros) if is_sparse else zeros

    return mapped_blocks(like, _zeros, n_columns)


def n_components_of(step: Any) -> Any:
    """Return the number of components as an int, None for all, or "data" if a fit decides."""
    n_components = as_python(getattr(step, "n_components", 0))
    return n_components if n_components is None or isinstance(n_components, int) else "data"


def warnings_of(run: Run, shares: Shares, places: Sequence[Place]) -> list[str]:
    """Plan all steps whose rows are known, which refuses what cannot be paid for; warn of them."""
    warnings: list[str] = []
    for number in shares.of:
        if (place := places[number]).spec is not None:
            own = place.step._warnings(place.spec, place.plan)
            warnings += shares.prefixed(number, run.steps[number].name, own)
    return warnings


# ------------------------------
# The fit of one more step.


# From this part of the loss of the frequencies on, a classifier has hardly missed any column.
_CLEAR_GAIN = 0.75  # benchmarks/sweep/sweep.md, job "classes"


def without_false_alarms(fitted: Sequence[Any]) -> None:
    """Withdraw the warnings that columns are hidden if the last step surely predicts well."""
    if getattr(fitted[-1], "_gain", 0.0) >= _CLEAR_GAIN:
        for one in fitted:
            if given := getattr(one, "_warnings_given", ()):
                one._warnings_given = [text for text in given if HIDDEN_COLUMNS not in text]


def fit_public(run: Run, prefix: Prefix) -> Any:
    """Fit the next step, which learns nothing: to public rows, or around its private parts."""
    step = run.steps[len(prefix.fitted)]
    if rules.is_passed_through(step.estimator):
        return step.estimator
    if not rules.is_columns(step.estimator):
        return fitted_to_nothing(step.name, clone(step.estimator), prefix.rows)
    paths = [one.name.partition("__")[2] for one in run.steps]
    parts = dict(zip(paths, prefix.fitted, strict=False))
    return fitted_columns(step.name, clone(step.estimator), parts, prefix.rows)


class Fitted(NamedTuple):
    """What a private fit has released, and what others may be made of it."""

    spec: Any
    result: Any
    budget: Any
    scales: np.ndarray | None = None  # by which a scaler right before it is corrected


def fit_private(
    run: Run,
    prefix: Prefix,
    place: Place,
    label: str,
    charge: Charge | None,
    *,
    corrects_scales: bool = True,
) -> Fitted:
    """Fit the next step, which has been handed its part of the cost; `charge` is for the whole.

    Components behind a scaler may correct its scales. The warnings that follow from public facts
    are left out of those of the step: they have been given before anything is spent.
    """
    number, one = len(prefix.fitted), place.step
    one._part = one._part._replace(charge=charge)
    corrects_scales = corrects_scales and _is_behind_scaler(run, prefix, one)
    with _estimator.fitted_within(one, label):
        rows, data, spec = place.rows, place.data, place.spec
        place.rows = place.data = None  # All later steps are fitted without them.
        if data is None:
            rows = rows_of_step(run.steps[number], prefix.rows, run.people)
        n_passes = partial(one._expected_passes, rows)
        with _estimator.restored_on_error(one, n_passes, hides_groups=bool(run.users)):
            if data is None:
                spec, data = run.validate(one, rows)
            is_planned = spec is place.spec
            with suppress(ValueError):  # arrays among the facts have no single truth value
                is_planned = is_planned or bool(spec == place.spec)
            plan = place.plan if is_planned else None
            spec, result, budget = one._release(spec, data, lambda *_: None, plan)
            if corrects_scales:
                result = result.of_correlations(spec.n_components)
            one._warnings_given = one._keep(spec, result, budget)
    return Fitted(spec, result, budget, result.scales if corrects_scales else None)


def _is_behind_scaler(run: Run, prefix: Prefix, one: Any) -> bool:
    """Return whether a step is of components whose moment, right behind a scaler, has no means."""
    scaler: Any = prefix.fitted[-1] if prefix.fitted else None
    is_whole = run.steps[len(prefix.fitted)].columns is None
    is_behind = isinstance(scaler, DPStandardScaler) and is_whole
    are_components = isinstance(one, DPPCA | DPTruncatedSVD)
    return are_components and is_behind and (scaler.with_mean or isinstance(one.center, str))


def extended(run: Run, prefix: Prefix, one: Any, scales: np.ndarray | None = None) -> Prefix:
    """Put one more fitted step behind a prefix, whose scaler it may correct in a copy."""
    number, fitted, rows = len(prefix.fitted), prefix.fitted, prefix.rows
    is_last = number == len(run.steps) - 1
    if scales is not None:
        # Other candidates use the scaler as it was.
        scaler = copy(fitted[-1])
        scaler.scale_ = scaler.scale_ * scales
        scaler.var_ = np.square(scaler.scale_)
        fitted = (*fitted[:-1], scaler)
        rows = None if is_last else _rows_behind(run, number - 1, scaler, prefix.before)
    behind = None if is_last else _rows_behind(run, number, one, rows)
    return Prefix((*fitted, one), rows, behind)


def _rows_behind(run: Run, number: int, fitted: Any, X: Any) -> Any:
    """Return what the next step gets."""
    step = run.steps[number]
    if step.columns is not None:
        return X
    rows = of_people(partial(transformed, [(step.name, fitted)]), run.people, X)
    is_columns = rules.is_columns(step.estimator)
    if isinstance(rows, RowBlocks):
        is_private = step.is_private or (is_columns and rules.private_parts(step.estimator))
        return composition.as_checked(rows, run.steps) if is_private else rows
    # Public parts of a ColumnTransformer have made all rows finite, even rows that were not.
    if not is_columns:
        return rows
    takes_nan = not issparse(rows) and _leaves_nan(run.steps, number)
    return np.where(np.isnan(rows), rows, finite(rows)) if takes_nan else finite(rows)


# ------------------------------
# The model and its record.


def assembled(run: Run, fitted: Sequence[Any]) -> Any:
    """Put fitted steps together as they were."""
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


# By how much, relatively, the sum of what was spent may exceed the whole: it is rounded up by half.
_ROUNDING = 2e-9  # not tuned


def record_of(whole: PrivacySpent, records: Mapping[str, PrivacySpent]) -> PrivacySpent:
    """Return the record of the whole, with its releases behind the labels of their fits."""
    labeled = [
        replace(one, releases=tuple(replace(r, name=f"{label}: {r.name}") for r in one.releases))
        for label, one in records.items()
    ]
    # Steps of one pipeline get the same rows, and a record is a row with its response.
    composed = labeled[0].compose(*labeled[1:], same_unit=True)
    is_over = composed.mu > whole.mu * (1 + _ROUNDING)
    if is_over or composed.delta_tail > whole.delta_tail * (1 + _ROUNDING):
        raise RuntimeError(f"All fits have spent mu={composed.mu}, and were given {whole.mu}.")
    return replace(
        composed,
        epsilon=whole.epsilon,
        delta=whole.delta,
        mu=min(composed.mu, whole.mu),
        enforced=composed.enforced and whole.enforced,
        delta_tail=whole.delta_tail,
        # An owner who has left in one step takes no part in the later ones.
        trust=labeled[-1].trust,
    )


def with_one_record(run: Run, fitted: Sequence[Any], spent: PrivacySpent, ledger: Any) -> Any:
    """Assemble a model; give it and its private steps the record of the whole."""
    for step, one in zip(run.steps, fitted, strict=True):
        if step.is_private:
            one.privacy_spent_ = spent
            # Another fit of the step costs what its parameters ask for. The seed, which would let
            # anybody subtract the noise, is not stored.
            if step.name in run.lack_classes:
                one.set_params(classes=None)
            one._part, one.ledger, one.random_state = None, ledger, None
    model = rules.make_strict(assembled(run, fitted))
    model.privacy_spent_ = spent
    return model


# ------------------------------
# What pipelines and searches have in common: one budget, one charge, one record.


class SpendsOneBudget(_estimator.Watched, rules.DelegatesMixin):
    """Spends its whole budget on fits of several steps, and charges a ledger once."""

    epsilon: float
    delta: float
    ledger: Any

    def _cost(self) -> PrivacyCost:
        return PrivacyCost(self.epsilon, self.delta)

    def _begin(
        self, run: Run, cost: PrivacyCost, warnings: Iterable[str]
    ) -> tuple[PrivacySpent, Charge | None]:
        """Give the warnings that follow from public facts.

        Return the record of the whole, without its releases, and what charges a ledger with it.
        """
        n_units, counted = run.n_units or _num_samples(run.X), "rows"
        if run.people is not None:
            # How many rows they have is private.
            n_units, counted = run.people.n_people, "users"
        self._n_units = n_units
        settings = warnings_for_settings(cost, counted, n_units, self.random_state)
        of_classes = [LABELS_BECOME_PUBLIC] * bool(run.lack_classes)
        self._warnings_given = [*settings, *of_classes, *warnings]
        if run.party is None:
            warn_of_privacy(*self._warnings_given)
        nothing = PrivacyBudget.of(run.planned(cost), NoiseSource(run.seed)).spent()
        whole = replace(nothing, mu=cost.mu)
        if (party := run.party) is not None and party.charge is not None:
            return whole, lambda _: party.charge(whole)
        if self.ledger is None:
            return whole, None
        name = f"{type(self).__name__}.fit, {n_units} {whole.unit}s"
        # The first fit, which would charge its own part, charges the whole.
        return whole, lambda _: self.ledger.charge(whole, what=name)

    def _set_features(self, model: Any) -> None:
        # "passthrough" leaves the columns to the next step.
        fitted = (one for _, one in getattr(model, "steps", ()) if hasattr(one, "fit"))
        first = next(fitted, model)
        for name in FEATURE_ATTRIBUTES:
            # An earlier fit may have set what this one does not.
            self.__dict__.pop(name, None)
            if hasattr(first, name):
                setattr(self, name, getattr(first, name))
