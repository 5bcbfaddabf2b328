"""The cost of a fitted pipeline or search, step by step, and whether every step is private."""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from sklearn.base import BaseEstimator, clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_selector
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    GroupKFold,
    GroupShuffleSplit,
    RandomizedSearchCV,
)
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, OneHotEncoder, StandardScaler
from sklearn.utils.validation import check_is_fitted

from skdp import covariance, decomposition, linear_model
from skdp._estimator import PlannedEstimator, PrivateEstimator, carried, check_asks_for_no_data
from skdp.decomposition import DPPCA, DPLowRankFactorizer, DPTruncatedSVD
from skdp.exceptions import counted, joined
from skdp.model_selection._search import BaseDPSearch, DPGridSearch, DPRandomizedSearch
from skdp.pipeline import DPPipeline
from skdp.pipeline import _rules as rules
from skdp.pipeline._composition import innermost, unit_of
from skdp.preprocessing import DPStandardScaler
from skdp.privacy import Plan, PrivacyBudget, PrivacySpent, Release
from skdp.privacy.noise import may_be_guessed
from skdp.privacy.releases import as_html

# ------------------------------
# What estimators of scikit-learn that learn nothing, or only contain others, may reveal.

# Texts of the report.
_DENSITY = "may have learned from the data how dense its output is: pass sparse_threshold=0"
_COLUMNS = "chose columns by a function, which may look at values"
_INVERSE = "warns by values whether functions are inverse to each other: pass check_inverse=False"
_WARNS_OF_UNKNOWN = "warns if a row has an unknown category: pass drop=None"
_NAMED = "names an unknown category in an error (handle_unknown, or a DPPipeline)"
_EMPTY = "drops columns that have no values: pass keep_empty_features=True"
_BEHIND = "may reveal single rows in an error"

# Transformers of scikit-learn and of skdp with dense output for any input.
_GIVES_DENSE = {DPPCA, DPLowRankFactorizer, DPTruncatedSVD, PCA, TruncatedSVD, MinMaxScaler}


def complaint_of_warnings(step: Any) -> str:
    """Return a complaint if a step that learns nothing stores or shows values; otherwise ""."""
    if rules.is_strict(step):
        return _NAMED
    if isinstance(step, OneHotEncoder) and step.drop is not None:
        return _WARNS_OF_UNKNOWN
    if not getattr(step, "keep_empty_features", True):
        return _EMPTY
    if any(one.dtype.kind == "S" for one in getattr(step, "categories_", ())):
        return "stores the length of the longest text, as an encoder of an array of bytes (or str)"
    is_checked = isinstance(step, FunctionTransformer) and step.check_inverse
    return _INVERSE if is_checked and None not in (step.func, step.inverse_func) else ""


def _complaint_of_holder(holder: Any) -> str:
    """Return a complaint if an estimator with parts may learn, show or store data itself, or ""."""
    if type(holder) is TransformedTargetRegressor and holder.check_inverse:
        return _INVERSE
    if type(holder) is ColumnTransformer:
        columns = [chosen for _, _, chosen in holder.transformers]
        if any(callable(one) and type(one) is not make_column_selector for one in columns):
            return _COLUMNS
        return "" if _is_dense(holder) else _DENSITY
    if type(holder) is not Pipeline:
        return ""
    try:
        for callback in vars(holder).get("_skl_callbacks", ()):
            check_asks_for_no_data(callback)
    except TypeError:
        return "has callbacks that ask for rows, and may store them or their scores"
    if holder.memory is not None:
        return "has memory, which stores rows, and repeats a fit with its noise for the same data"
    is_behind = False  # whether a private step comes before
    for name, step in holder.steps:
        is_private = bool(rules.private_steps(step))
        if is_behind and not (is_private or rules.takes_all_rows(step)):
            if hasattr(step, "transform"):
                return f"has a step {name!r}, which {_BEHIND}: put it before the first private step"
            # A last step that is reported as not private anyway needs no second complaint.
            if all(one.status != NOT_PRIVATE for one in report_steps(step, "", _Seen([], {}))):
                return f"has a last step {name!r}, which {_BEHIND}"
        is_behind = is_behind or is_private
    return ""


def _is_dense(part: Any) -> bool:
    """Return whether a transformer has dense output for any input."""
    if isinstance(part, str):
        return part == "drop"
    if type(part) is FrozenEstimator:
        return _is_dense(part.estimator)
    if type(part) is Pipeline:
        steps = [step for _, step in part.steps if step is not None and step != "passthrough"]
        return bool(steps) and _is_dense(steps[-1])
    if (parts := rules.parts_of(part)) is not None:
        is_made_dense = getattr(part, "sparse_threshold", None) == 0
        return is_made_dense or all(_is_dense(one) for _, one in parts)
    # A scaler that centers accepts no sparse rows.
    is_centered = type(part) in (DPStandardScaler, StandardScaler) and part.with_mean
    return is_centered or type(part) in _GIVES_DENSE


# ------------------------------
# List the steps of a fitted estimator.

PRIVATE, NOT_PRIVATE, UNKNOWN = "private", "not private", "unknown"
LEARNS_NOTHING, FROZEN = "learns nothing", "frozen"
#: What the verdict "private" covers: `ALL_OF_IT` for a search, `COVERED` for other estimators.
ALL_OF_IT = "every step in it is private; what was done before is not checked"
COVERED = f"{ALL_OF_IT}; privacy_spent(search) counts all fits of a search"
#: Added to a verdict if some steps protect rows and others protect records.
ROWS_ARE_RECORDS = "a record is a row of X, with its response"

# Classes whose records cover all that they store; a subclass may store more.
_OURS = (
    *(covariance.DPCovariance, DPGridSearch, DPPipeline, DPRandomizedSearch),
    *(getattr(one, name) for one in (decomposition, linear_model) for name in one.__all__),
    DPStandardScaler,
)
AS_DECLARED = "on its author's word"
HAS_PRIOR = "builds on a prior, which is taken to be public"
CALLS = "calls functions, which are not checked"

_LEARNED, _LEARNS = "learned from the data without privacy", "learns from data without privacy"
_INFINITE = "had an epsilon of inf, which is no privacy"
_GUESSABLE = "had a random_state that may be guessed, and with it the noise"


class PrivacyStep(NamedTuple):  # numpydoc ignore=PR02
    """A step of a fitted estimator: whether it has learned privately, and its cost.

    Parameters
    ----------
    path : str
        Path of the step, such as ``"dppca"`` or ``"union__svd"``; ``""`` for the estimator itself.
    class_name : str
        Name of its class.
    status : str
        ``"private"``, ``"learns nothing"``, ``"frozen"``, ``"not private"`` or ``"unknown"``.
    records : tuple of PrivacySpent, default=()
        Records of its cost. The records of a frozen step do not count in a total.
    note : str, default=""
        Why it is not private, or a condition of its status.
    seeded : bool, default=False
        Whether any of its noise came from a seed.
    warnings : tuple of str, default=()
        Texts of the privacy warnings of its last fit, including those that a filter has hidden.
    n_units : int or None, default=None
        Public number of protected units of its fit, such as rows; None if that is not known.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skdp import DPPCA, privacy_spent
    >>> report = privacy_spent(DPPCA(2, row_norm=40, mean_norm=60).fit(load_digits().data))
    >>> report.steps[0].status
    'private'
    """

    path: str
    class_name: str
    status: str
    records: tuple[PrivacySpent, ...] = ()
    note: str = ""
    seeded: bool = False
    warnings: tuple[str, ...] = ()
    n_units: int | None = None

    @property
    def label(self) -> str:
        """Path and class of the step, for a verdict."""
        return f"{self.path} ({self.class_name})" if self.path else self.class_name


class _Seen(NamedTuple):
    """Errors and private estimators that `report_steps` has met so far."""

    errors: list[ValueError]  # `privacy_spent` raises the first one
    # Paths of private estimators, and whether they are frozen, by the ``id`` of the estimator.
    paths: dict[int, tuple[str, bool]]


def report_steps(estimator: Any, path: str, visited: _Seen) -> Iterator[PrivacyStep]:
    """Yield the report of each step of a fitted estimator, outer steps first.

    A private estimator must not occur in two places.
    """
    record = _own_record(estimator)
    if isinstance(estimator, str) and estimator == "drop":
        return
    if type(estimator) is FrozenEstimator:
        within = _Seen(visited.errors, {})
        for step in report_steps(estimator.estimator, path, within):
            learned = step.status != LEARNS_NOTHING
            yield step._replace(status=FROZEN, note="") if learned else step
        for key in within.paths:
            _check_visited_once(key, path, visited, is_frozen=True)
    elif rules.is_passed_through(estimator):
        yield PrivacyStep(path, "passthrough", LEARNS_NOTHING)
    elif record is not None:
        _check_visited_once(id(estimator), path, visited)
        yield _private(path, estimator, record)
        parts: Sequence[tuple[str, Any]] = ()
        if isinstance(estimator, rules.SharedBudget):
            parts = vars(estimator)["pipeline_"].steps
        elif isinstance(estimator, BaseDPSearch) and "best_estimator_" in vars(estimator):
            parts = [("estimator", vars(estimator)["best_estimator_"])]
        # Pipelines and searches of skdp fit public steps to public rows, and hide their errors.
        yield from map(_unwarned, _inner_steps(parts, path, visited))
    elif issubclass(type(estimator), (PrivateEstimator, *_OURS)):
        raise _not_fitted(estimator)
    elif carried_record := carried(estimator):
        yield from _steps_of_carried(estimator, path, visited, carried_record)
    elif type(estimator) in (GridSearchCV, RandomizedSearchCV):  # a subclass may fit more often
        if not hasattr(estimator, "cv_results_"):
            raise _not_fitted(estimator)
        yield _step_of_search(estimator, path)
        if hasattr(estimator, "best_estimator_"):
            yield from _inner_steps([("estimator", estimator.best_estimator_)], path, visited)
    elif (inner := rules.parts_of(estimator, is_fitted=True)) is not None:
        if note := _complaint_of_holder(estimator):
            yield PrivacyStep(path, type(estimator).__name__, NOT_PRIVATE, note=note)
        yield from _inner_steps(inner, path, visited)
    else:
        yield _without_privacy(estimator, path)


def _inner_steps(parts: Iterable[tuple[str, Any]], path: str, visited: _Seen) -> list[PrivacyStep]:
    """Return the steps inside an estimator; collect errors, so that all steps are visited."""
    inner: list[PrivacyStep] = []
    for name, part in parts:
        try:
            inner += report_steps(part, f"{path}__{name}" if path else name, visited)
        except ValueError as error:
            visited.errors.append(error)
    return inner


def _steps_of_carried(model: Any, path: str, visited: _Seen, stored: Any) -> Iterator[PrivacyStep]:
    """Yield the steps of a model made of a release; `stored` is the result of `carried`."""
    name, (record, maker, warned, n_units) = type(model).__name__, stored
    if record is None:
        changed = "was changed since it was made of a release: nothing says how"
        yield PrivacyStep(path, name, UNKNOWN, note=changed)
        return
    note = ", and ".join(_complaints_of(record))
    status, note = (NOT_PRIVATE, note) if note else (PRIVATE, f"made of a {maker}")
    yield PrivacyStep(path, name, status, (record,), note, record.seeded, tuple(warned), n_units)
    # A model of DPCovariance begins with a step that clips, which belongs to the release.
    if maker != covariance.DPCovariance.__name__:
        parts = rules.parts_of(model, is_fitted=True) or ()
        inner = map(_unwarned, _inner_steps(parts, path, visited))
        yield from (step for step in inner if step.status in (FROZEN, LEARNS_NOTHING))


def _without_privacy(estimator: Any, path: str) -> PrivacyStep:
    """Report an estimator without a budget and without known parts."""
    name = type(estimator).__name__
    if rules.is_stateless(estimator):
        complaint, given = complaint_of_warnings(estimator), estimator.get_params(deep=False)
        # The parameter dtype may be a class, which is callable, but learns nothing.
        calls = any(callable(one) for name, one in given.items() if name != "dtype")
        status = NOT_PRIVATE if complaint else LEARNS_NOTHING
        return PrivacyStep(path, name, status, note=complaint or (CALLS if calls else ""))
    note = _LEARNS
    with suppress(NotFittedError):
        if hasattr(estimator, "fit"):
            check_is_fitted(estimator)
            note = _LEARNED
    if rules.calls_objects(estimator):
        note = "calls objects that may have learned from rows, or store them"
    elif rules.private_steps(estimator):
        note = "holds private steps, and stores what skdp does not know: fit these steps alone"
    elif isinstance(vars(estimator).get("privacy_spent_"), PrivacySpent):
        note = (
            "has set a record itself: let it inherit skdp.PlannedEstimator if it spends by a plan"
        )
        return PrivacyStep(path, name, UNKNOWN, note=note)
    return PrivacyStep(path, name, NOT_PRIVATE, note=note)


def _unwarned(step: PrivacyStep) -> PrivacyStep:
    """Remove a note that is wrong within skdp, which fits to public rows and hides errors."""
    is_warning = step.note in (_INVERSE, _WARNS_OF_UNKNOWN, _NAMED, _EMPTY, _DENSITY)
    return step._replace(status=LEARNS_NOTHING, note="") if is_warning else step


def _private(path: str, estimator: Any, record: PrivacySpent) -> PrivacyStep:
    """Report an estimator with a record of its budget; a complaint makes it not private."""
    # A subclass among the private steps of a search or pipeline may store more than it releases.
    wrapped = estimator.estimator if isinstance(estimator, BaseDPSearch) else estimator
    steps = rules.private_steps(wrapped)
    kinds = {type(one) for one in (estimator, *steps.values(), *innermost(steps).values())}
    foreign = kinds.difference(_OURS)
    complaints = _complaints_of(record)
    if isinstance(estimator, PlannedEstimator) and record.enforced:
        complaints = ["has not opened its budget by open_budget", *complaints]
    if any(issubclass(kind, _OURS) for kind in foreign):
        complaints = ["may store more than was released, as a subclass", *complaints]
    note = ", and ".join(complaints)
    status = NOT_PRIVATE if note else PRIVATE
    if not note and foreign:
        note = AS_DECLARED
    elif not note and getattr(estimator, "prior", None) is not None:
        note = HAS_PRIOR
    warned = tuple(getattr(estimator, "_warnings_given", ()))
    n_units = getattr(estimator, "_n_units", None)
    name = type(estimator).__name__
    return PrivacyStep(path, name, status, (record,), note, record.seeded, warned, n_units)


def _complaints_of(*records: PrivacySpent) -> list[str]:
    """Return complaints about records of an infinite epsilon, or of noise that may be guessed."""
    is_infinite = any(math.isinf(record.epsilon) for record in records)
    is_guessable = any(record.guessable for record in records)
    return [_INFINITE] * is_infinite + [_GUESSABLE] * is_guessable


def _check_visited_once(key: int, path: str, visited: _Seen, *, is_frozen: bool = False) -> None:
    """Refuse an estimator that occurs twice: its record is only the record of its last fit.

    A frozen estimator may occur several times, as it is never fitted again.
    """
    first, was_frozen = visited.paths.get(key, (None, False))
    if first is not None and not (was_frozen and is_frozen):
        raise ValueError(
            f"{first!r} and {path!r} are one and the same private estimator, whose second fit has "
            "replaced the first record. Put a sklearn.base.clone(...) in one place, and fit again."
        )
    visited.paths[key] = path, is_frozen


def _step_of_search(search: Any, path: str) -> PrivacyStep:
    """Report a search of scikit-learn: the cost of its fits on folds, and how it chose."""
    candidates, is_counted = search.cv_results_["params"], False
    fits, records = list[Any](), list[PrivacySpent]()
    with suppress(ValueError):  # a candidate may have parameters that its fits have refused
        # The search clones estimators among the parameters, too.
        parameters = clone(candidates, safe=False)
        models = [clone(search.estimator).set_params(**one) for one in parameters]
        leaves = [leaf for one in models for leaf in rules.leaves_of(one, is_fitted=False)]
        private = [one for one in leaves if rules.has_budget(one)]
        of_fits = [record_of_fits(one, int(search.n_splits_)) for one in private]
        # Classes that are not known to have parts may fit their private steps several times.
        is_counted = all(rules.has_budget(one) or not rules.private_steps(one) for one in leaves)
        # In a GroupKFold that does not shuffle, one more row of a user may move other users to
        # other folds, so that fits to neighboring datasets would differ in many users.
        splits_by_ids = isinstance(search.cv, GroupShuffleSplit) or (
            isinstance(search.cv, GroupKFold) and getattr(search.cv, "shuffle", False)
        )
        is_counted &= splits_by_ids or all(one.unit != "user" for one in of_fits)
        if is_counted:
            fits, records = private, of_fits
    seeds = [getattr(step, "random_state", None) for step in fits]
    seeded = any(seed is not None for seed in seeds)
    guessable = any(map(may_be_guessed, seeds))
    spent = tuple(replace(record, guessable=guessable) for record in records)
    complaints = ["keeps scores computed from the data without privacy"]
    if len(candidates) > 1:
        complaints = [
            "chose by scores computed from the data without privacy; DPGridSearch chooses privately"
        ]
    if not is_counted:
        complaints.append("fitted private steps, or made folds, in ways that are not counted")
    complaints += _complaints_of(*spent)
    if seeded:
        complaints.append("fitted with one seed several times, which reveals more than is counted")
    note, name = ", and ".join(complaints), type(search).__name__
    return PrivacyStep(path, name, NOT_PRIVATE, spent, note, seeded)


def record_of_fits(step: Any, n_fits: int) -> PrivacySpent:
    """Return the record of equal fits of a private step, from its parameters.

    The record has one release of sensitivity 1, which spends the cost of all fits together.
    """
    step._validate_params()
    cost, (unit, enforced) = step._cost(), unit_of(step)
    plan = Plan(cost, (), unit=unit, adjacency=str(step.adjacency), enforced=enforced)
    record = replace(PrivacyBudget.of(plan).spent(), mu=cost.mu)
    name = f"{counted(n_fits, 'fit')} of {type(step).__name__}"
    one = _with_one_release(record, name)
    return _with_one_release(one.compose(*[one] * (n_fits - 1)), name)


def _with_one_release(record: PrivacySpent, name: str) -> PrivacySpent:
    """Replace the releases of a record by one of sensitivity 1 that spends the whole cost."""
    if record._is_pure:
        release = Release(name, "laplace", 1.0, math.sqrt(2) / record.epsilon, 1.0)
    else:
        release = Release(name, "gaussian", 1.0, 1 / record.mu if record.mu else math.inf, 1.0)
    return replace(record, releases=(release,))


def _own_record(estimator: Any) -> PrivacySpent | None:
    """Return the record that an estimator itself has set; None for a record of its parts."""
    # A proxy pretends to have the class of another object, and isinstance would believe it.
    is_known = issubclass(type(estimator), (PrivateEstimator, *_OURS))
    record = vars(estimator).get("privacy_spent_") if is_known else None
    return record if isinstance(record, PrivacySpent) else None


def _not_fitted(estimator: Any) -> NotFittedError:
    return NotFittedError(
        f"This {type(estimator).__name__} is not fitted yet, and nothing is spent: call fit."
    )


# ------------------------------
# The report on all steps.


@dataclass(frozen=True, repr=False)
class PrivacyReport:  # numpydoc ignore=PR02
    """The cost of each step of a fit, and whether the fit is private.

    Parameters
    ----------
    spent : PrivacySpent or None
        Record of all private steps together, except for frozen ones; None if there are none, or if
        they do not add up and a step is not private anyway.
    steps : tuple of PrivacyStep
        The steps, each with its path, class and status.

    Notes
    -----
    **Privacy.** Computed from records and parameters, and as public as they are.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skdp import DPPCA, privacy_spent
    >>> report = privacy_spent(DPPCA(2, row_norm=40, mean_norm=60).fit(load_digits().data))
    >>> print(report.verdict)
    This fit alone is private end to end: (1, 1e-06)-DP per row, adjacency 'replace'; ...
    """

    spent: PrivacySpent | None
    steps: tuple[PrivacyStep, ...]

    @property
    def is_private(self) -> bool:
        """Whether a step is private, no step is unknown or not private, and epsilon is finite."""
        statuses = {step.status for step in self.steps}
        is_finite = self.spent is not None and math.isfinite(self.spent.epsilon)
        return PRIVATE in statuses and not statuses & {NOT_PRIVATE, UNKNOWN} and is_finite

    @property
    def verdict(self) -> str:
        """What is private and what is not, in a sentence."""
        which = {
            # A seed that may be guessed has made its step not private, as the judgement says.
            "no guarantee against anyone who can guess random_state of ": lambda step: (
                step.seeded and not any(record.guessable for record in step.records)
            ),
            f"private {AS_DECLARED}: ": lambda step: step.note == AS_DECLARED,
            "functions that are not checked, in ": lambda step: step.note == CALLS,
            "priors that are taken to be public, in ": lambda step: step.note == HAS_PRIOR,
            "bounds or classes promised by the caller, not enforced, in ": self._is_promised,
            "frozen, fitted before and not counted: ": lambda step: step.status == FROZEN,
        }
        labels = {what: [step.label for step in self.steps if which[what](step)] for what in which}
        parts = [what + ", ".join(named) for what, named in labels.items() if named]
        units = {record.unit for step in self.steps for record in step.records}
        parts += [ROWS_ARE_RECORDS] * ({"row", "record"} <= units)
        return "; ".join([self._judgement(), *parts])

    def _is_promised(self, step: PrivacyStep) -> bool:
        # The verdict separately names steps that are private on their author's word, so their
        # records are left out here.
        words = {
            id(one) for other in self.steps if other.note == AS_DECLARED for one in other.records
        }
        records = [one for one in step.records if id(one) not in words]
        return step.status != FROZEN and not all(record.enforced for record in records)

    def _judgement(self) -> str:
        """Return the verdict in words: not private, unknown, or private with its guarantee."""
        for status in (NOT_PRIVATE, UNKNOWN):
            if complaints := _complaints(self.steps, status):
                return f"{status.capitalize()}: {'; '.join(complaints)}"
        if self.spent is None:
            return "No private step: nothing was learned from the data"
        if not self.is_private:
            return "Not private: all fits together have an epsilon of inf, which is no privacy"
        if self.steps[0].class_name in ("DPGridSearch", "DPRandomizedSearch"):
            what = f"This search, with all its fits, is private end to end: {guarantee(self.spent)}"
            return f"{what}; {ALL_OF_IT}"
        return f"This fit alone is private end to end: {guarantee(self.spent)}; {COVERED}"

    def __repr__(self) -> str:
        width = max([4, *(len(step.path) for step in self.steps)])
        kinds = max([5, *(len(step.class_name) for step in self.steps)])
        table = [("step", "class", "what it is"), *(step[:3] for step in self.steps)]
        rows = [f"  {path:<{width}}  {name:<{kinds}}  {what}" for path, name, what in table]
        spent = [] if self.spent is None else [repr(self.spent)]
        return "\n".join([self.verdict, *rows, *spent])

    def _repr_html_(self) -> str:
        return as_html(repr(self))


def privacy_spent(estimator: Any) -> PrivacyReport:
    """Return the cost of all steps of a fitted estimator, and whether it is private.

    The report visits every step of pipelines, unions, column transformers, transformed targets,
    frozen estimators, grid and randomized searches, and pipelines and searches of skdp, however
    nested.
    The records of steps with a ``privacy_spent_`` are composed. The report names the other steps
    that have learned from the data without privacy. The report concerns these steps only: earlier
    work on the data, such as choosing a bound or a list of categories, is not checked.

    Parameters
    ----------
    estimator : estimator
        The fitted estimator. It is not changed.

    Returns
    -------
    PrivacyReport
        The record of the whole, the steps, and a verdict.

    Raises
    ------
    TypeError
        If `estimator` is not an estimator.
    NotFittedError
        If the estimator, or a private step of it, has not been fitted.
    ValueError
        If the steps protect different units or differ in adjacency, or the noise of two steps came
        from one seed, as in :meth:`skdp.privacy.PrivacySpent.compose`; but rows and records, which
        are rows of the same X with their responses, compose to records. Also if the same private
        estimator occurs in two places. If a step is not private anyway, the report says so, and no
        error is raised.

    See Also
    --------
    skdp.PrivacyLedger : Limits the total cost of all fits on one dataset.

    Notes
    -----
    **Privacy.** No data are read and nothing is spent: the report follows from records and
    parameters, and is as public as they are.

    If several steps share one record object, it is the record of all of them together and counts
    once. Equal records of different fits count separately.

    A ``FrozenEstimator`` was fitted before, to other rows, which are public or have their own
    report. The report calls it frozen, and does not count its record. If it was fitted to the same
    rows, either it learned without privacy, or its record has to be added with ``compose``.

    The report on a ``FixedThresholdClassifier`` of a frozen classifier is the report on the
    classifier, as nothing else is learned.

    A ``GridSearchCV`` or ``RandomizedSearchCV`` has fitted every candidate on every fold. The
    report counts these fits in addition to the last fit, unless the search is over a search or over
    another estimator that contains private ones. In the record, the fits of one step of a candidate
    are one release of sensitivity 1 with their cost together. No such search is private: it has
    stored scores that were computed from the rows without privacy, and has chosen a candidate by
    them.

    Steps that learn nothing are known by their class. The verdict names functions of a
    ``FunctionTransformer``, as skdp cannot see whether a function mixes rows. Private steps that
    were passed fitted, and of which the estimator has fitted clones, are listed "as given". All
    other estimators that contain private ones, such as ensembles, are called not private, and their
    fits are not counted: skdp does not know what they store. Also called not private are:

    - a ``ColumnTransformer`` that measures how dense its output is, unless ``sparse_threshold=0``;
    - a ``TransformedTargetRegressor`` that tries its functions on y, unless
      ``check_inverse=False``;
    - a ``FunctionTransformer`` of an object that is no plain function, such as a method of a fitted
      estimator, which may have learned;
    - a ``OneHotEncoder`` with `drop`, which warns of unknown categories, outside of a
      :class:`skdp.DPPipeline`;
    - a pipeline with memory, which stores rows on disk, or with callbacks that ask for rows.

    Only records of classes of skdp are trusted. A subclass may store more than it releases, and is
    called not private. A :class:`skdp.PlannedEstimator` by another author is reported as private
    *on its author's word*.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import Normalizer
    >>> from skdp import DPTruncatedSVD, privacy_spent
    >>> pipeline = make_pipeline(Normalizer(), DPTruncatedSVD(3, row_norm=1))
    >>> privacy_spent(pipeline.fit(load_digits().data))
    This fit alone is private end to end: (1, 1e-06)-DP per row, adjacency 'replace'; ...
      step            class           what it is
      normalizer      Normalizer      learns nothing
      dptruncatedsvd  DPTruncatedSVD  private
    PrivacySpent: (1, 1e-06)-DP per row, adjacency 'replace', mu=0.2367
    ...
    """
    is_estimator = hasattr(estimator, "fit") or hasattr(estimator, "privacy_spent_")
    if isinstance(estimator, type) or not is_estimator:
        kind = "a class" if isinstance(estimator, type) else type(estimator).__name__
        raise TypeError(f"estimator must be a fitted estimator, got {kind}.")
    steps, visited, spent = list[PrivacyStep](), _Seen([], {}), None
    model, path = estimator, ""
    if type(estimator) is FixedThresholdClassifier:
        frozen = vars(estimator).get("estimator_")
        if type(frozen) is FrozenEstimator:  # the threshold beside it is public
            model, path = frozen.estimator, "estimator"
    try:
        steps += report_steps(model, path, visited)
        # Private steps that were passed fitted; the model contains fitted clones of them.
        given = estimator.get_params() if isinstance(estimator, BaseEstimator) else {}
        beside = list[PrivacyStep]()
        for name, one in given.items():
            if _own_record(one) is not None and id(one) not in visited.paths:
                beside += report_steps(one, f"{name}, as given", visited)
        steps += beside
        for error in visited.errors:
            raise error
        # An estimator may have the record of a part as a property, and no record itself.
        if not any(step.records for step in steps) and not hasattr(estimator, "privacy_spent_"):
            check_is_fitted(estimator)
        if records := _distinct(steps):
            # Rows and records are one unit, as a row of X is part of a record.
            first, *others = records
            spent = first.compose(*others, same_unit=True) if others else first
        else:
            # Without any record, nothing says that these steps have learned from private rows.
            for number, step in enumerate(steps):
                if step.note == _LEARNED:
                    note = "has no record: nothing says how it was fitted"
                    steps[number] = step._replace(status=UNKNOWN, note=note)
    except ValueError as error:
        is_fitted = any(step.records or step.note == _LEARNED for step in steps)
        if not is_fitted or NOT_PRIVATE not in {step.status for step in steps}:
            raise
        note = f"has no total: {str(error).removesuffix('.')}"
        steps.append(PrivacyStep("", type(estimator).__name__, NOT_PRIVATE, note=note))
    return PrivacyReport(spent, tuple(steps))


def guarantee(spent: PrivacySpent) -> str:
    """Return the guarantee of a record, as text."""
    return (
        f"({spent.epsilon:.4g}, {spent.delta:.4g})-DP per {spent.unit}, "
        f"adjacency {spent.adjacency!r}"
    )


def _distinct(steps: Iterable[PrivacyStep]) -> list[PrivacySpent]:
    """Return the records to compose; a record that several steps share counts once."""
    counted = (record for step in steps if step.status != FROZEN for record in step.records)
    return list({id(record): record for record in counted}.values())


def _complaints(steps: Iterable[PrivacyStep], status: str = NOT_PRIVATE) -> list[str]:
    """Return a text for each note on steps with this status: names of the steps, and the note."""
    by_note, twins = dict[str, list[str]](), dict[str, None]()
    for step in steps:
        if step.status == status:
            by_note.setdefault(step.note, []).append(step.label)
            # No private step replaces the transformer of a TransformedTargetRegressor.
            if step.note == _LEARNED and not step.path.endswith("transformer"):
                twins[rules.TWINS.get(step.class_name, "")] = None
    # Only names of classes are identifiers; other advice is left out.
    use = joined([*filter(str.isidentifier, twins)])
    texts = {_LEARNED: f"{_LEARNED}: use {use} in make_dp_pipeline"} if use else {}
    return [f"{', '.join(labels)} {texts.get(note, note)}" for note, labels in by_note.items()]


def learned_without_privacy(estimator: Any) -> list[str]:
    """Return texts about steps whose choice of columns, or sparsity, may depend on the data."""
    steps = report_steps(estimator, "", _Seen([], {}))
    return _complaints(step for step in steps if step.note in (_COLUMNS, _DENSITY, _EMPTY))
