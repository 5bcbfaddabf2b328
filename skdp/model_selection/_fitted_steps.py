"""The steps of a fitted estimator: whether each has learned privately, and what it has spent."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.model_selection._search import BaseSearchCV
from sklearn.model_selection._search_successive_halving import (
    HalvingGridSearchCV,
    HalvingRandomSearchCV,
)
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils.validation import check_is_fitted

from skdp import decomposition, linear_model, preprocessing
from skdp._estimator import PrivateEstimator
from skdp.model_selection._grid_search import DPGridSearch
from skdp.model_selection._holders import complaint_of, complaint_of_function
from skdp.model_selection._planned_fits import (
    UnknownFits,
    candidate_of,
    is_accepted,
    planned_cost,
    planned_fits,
    records_of,
)
from skdp.model_selection._randomized_search import DPRandomizedSearch
from skdp.model_selection._search import BaseDPSearch
from skdp.pipeline import DPPipeline
from skdp.pipeline._composition import (
    SharedBudget,
    is_passed_through,
    is_stateless,
    private_steps,
    private_within,
)
from skdp.privacy import PrivacySpent
from skdp.privacy.noise import may_be_guessed

PRIVATE, NOT_PRIVATE = "private", "not private"
LEARNS_NOTHING, FROZEN = "learns nothing", "frozen"

# Classes whose records tell all that was learned; a subclass may keep more.
_OURS = (
    *(getattr(decomposition, name) for name in decomposition.__all__),
    *(getattr(linear_model, name) for name in linear_model.__all__),
    *(getattr(preprocessing, name) for name in preprocessing.__all__),
    DPGridSearch,
    DPPipeline,
    DPRandomizedSearch,
)
_SEARCHES = (GridSearchCV, HalvingGridSearchCV, HalvingRandomSearchCV, RandomizedSearchCV)
AS_DECLARED = "as its author declares"

_LEARNED = "learned from the data without privacy"
_MAY_HAVE = "may have learned from the data without privacy, or fitted more often than is counted"
_INFINITE = "had an epsilon of inf, which is no privacy"
_GUESSABLE = "had a random_state that may be guessed, and with it the noise"
_MAY_KEEP = "may keep more than was released, as a subclass"
_CHOSE = "chose by scores computed from the data without privacy; DPGridSearch chooses privately"
_ONLY_SCORES = "has nothing but scores, computed from the data without privacy"
_ONE_SEED = "fitted with one seed several times, which tells more than is counted"
_UNCOUNTED = "fitted private steps more often than is counted"


class PrivacyStep(NamedTuple):  # numpydoc ignore=PR02
    """Whether a step of a fitted estimator has learned privately, and what it has spent.

    Parameters
    ----------
    path : str
        Where it is, such as ``"dppca"`` or ``"union__svd"``; ``""`` for the estimator itself.
    class_name : str
        Name of its class.
    status : str
        ``"private"``, ``"learns nothing"``, ``"frozen"`` or ``"not private"``.
    records : tuple of PrivacySpent, default=()
        What it has spent. The records of a frozen step are not part of any total.
    note : str, default=""
        Why it is not private, or why it is private only as its author declares.
    seeded : bool, default=False
        Whether any of its noise came from a seed.

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

    @property
    def label(self) -> str:
        """Path and class, as a verdict names it."""
        return f"{self.path} ({self.class_name})" if self.path else self.class_name


def fitted_steps(
    estimator: Any, path: str = "", met: dict[int, str] | None = None
) -> Iterator[PrivacyStep]:
    """Walk through a fitted estimator, outer steps first; no data are read.

    A private estimator must not stand in two places. `met` maps the ``id`` of every private
    estimator so far, and of the estimators that hold the present one, to its path.
    """
    met = {} if met is None else met
    record = _own_record(estimator)
    if record is not None:
        _check_met_once(id(estimator), path, met)
    if isinstance(estimator, str) and estimator == "drop":
        return
    if type(estimator) is FrozenEstimator:
        within: dict[int, str] = {}
        for step in fitted_steps(estimator.estimator, path, within):
            learned = step.status != LEARNS_NOTHING
            yield step._replace(status=FROZEN, note="") if learned else step
        for each in within:
            _check_met_once(each, _FrozenPath(path), met)
    elif is_passed_through(estimator):
        yield PrivacyStep(path, "passthrough", LEARNS_NOTHING)
    elif record is None and isinstance(estimator, BaseSearchCV):
        yield from _steps_of_search(estimator, path, met)
    elif record is not None or id(estimator) not in met:
        # What a step holds is looked at first: where none of it is private, as in a forest, the
        # step stands for all of it.
        yield from _with_itself(estimator, record, path, _inner_steps(estimator, path, met))


def _inner_steps(estimator: Any, path: str, met: dict[int, str]) -> tuple[PrivacyStep, ...]:
    """Walk through what an estimator holds, which may hold it in turn."""
    met.setdefault(id(estimator), path)
    inner = tuple(
        step
        for name, part in _fitted_parts(estimator)
        for step in fitted_steps(part, _joined(path, name), met)
    )
    if _own_record(estimator) is None:
        # What is not private may stand in several places.
        del met[id(estimator)]
    return inner


def _with_itself(
    estimator: Any, record: PrivacySpent | None, path: str, inner: tuple[PrivacyStep, ...]
) -> Iterable[PrivacyStep]:
    """Put a step before those that it holds; leave it out if it learns nothing beyond these."""
    name = type(estimator).__name__
    if record is not None:
        return (_private(path, estimator, record), *inner)
    if isinstance(estimator, PrivateEstimator):
        raise _not_fitted(estimator)
    if is_stateless(estimator):
        told = complaint_of_function(estimator)
        return (PrivacyStep(path, name, NOT_PRIVATE if told else LEARNS_NOTHING, note=told),)
    note = complaint_of(estimator)
    if note is None and any(step.records for step in inner):
        note = _MAY_HAVE
    elif note is None:
        inner, holds_private = (), isinstance(estimator, BaseEstimator) and private_steps(estimator)
        # Without records its private estimators, if any, are patterns for fits it did not keep.
        note = _MAY_HAVE if holds_private else _LEARNED
    if not inner and note != _LEARNED:
        check_is_fitted(estimator)
    return (PrivacyStep(path, name, NOT_PRIVATE, note=note), *inner) if note else inner


def _private(path: str, estimator: Any, record: PrivacySpent) -> PrivacyStep:
    """Return a step with a record, which alone does not make it private."""
    others = _kinds_of(estimator).difference(_OURS)
    complaints = {
        _MAY_KEEP: any(issubclass(kind, _OURS) for kind in others),
        _INFINITE: np.isinf(record.epsilon),
        _GUESSABLE: record.guessable,
    }
    note = _note(complaints)
    status = NOT_PRIVATE if note else PRIVATE
    if not note and others:
        note = AS_DECLARED
    return PrivacyStep(path, type(estimator).__name__, status, (record,), note, record.seeded)


def _kinds_of(estimator: Any) -> set[type]:
    """Return the classes of an estimator and of the private steps that it has fitted."""
    inner: Iterable[Any] = ()
    if isinstance(estimator, BaseDPSearch):
        # A choice among candidates may tell of whatever the private steps keep.
        inner = private_steps(estimator.estimator).values()
    elif isinstance(estimator, SharedBudget):
        inner = private_within(estimator).values()
    return {type(estimator)}.union(*map(_kinds_of, inner))


class _FrozenPath(str):
    """Path of a frozen estimator. It may stand in several places, as none of them fits it."""

    __slots__ = ()


def _check_met_once(estimator: int, path: str, met: dict[int, str]) -> None:
    """Refuse an estimator that was fitted in two places, and keeps the record of one fit."""
    first = met.get(estimator)
    if first is not None and not (type(first) is type(path) is _FrozenPath):
        raise ValueError(
            f"{str(first)!r} and {str(path)!r} are one and the same private estimator. Its second "
            "fit has replaced the record of the first. Put a sklearn.base.clone(...) of it in one "
            "of the two places, and fit again."
        )
    met[estimator] = path


def _steps_of_search(search: Any, path: str, met: dict[int, str]) -> Iterator[PrivacyStep]:
    """Walk through a search of scikit-learn, and count all fits that it has made."""
    if not hasattr(search, "cv_results_"):
        raise _not_fitted(search)
    yield _search_itself(search, path)
    if hasattr(search, "best_estimator_"):
        yield from fitted_steps(search.best_estimator_, _joined(path, "estimator"), met)


def _search_itself(search: Any, path: str) -> PrivacyStep:
    """Return the search as a step: what its fits on the folds have cost, and how it chose."""
    name, n_candidates = type(search).__name__, len(search.cv_results_["params"])
    fits, is_known = _fits_of_candidates(search)
    seeds = [getattr(step, "random_state", None) for step, _ in fits]
    seeded = any(seed is not None for seed in seeds)
    guessable = any(map(may_be_guessed, seeds))
    records = tuple(
        replace(record, guessable=guessable) for record in records_of(planned_cost(fits))
    )
    complaints = {
        _CHOSE: n_candidates > 1,
        _ONLY_SCORES: n_candidates == 1 and not hasattr(search, "best_estimator_"),
        _UNCOUNTED: not is_known,
        _INFINITE: any(np.isinf(record.epsilon) for record in records),
        _GUESSABLE: guessable,
        _ONE_SEED: seeded,
        _MAY_HAVE: type(search) not in _SEARCHES,
    }
    note = _note(complaints)
    status = NOT_PRIVATE if note else PRIVATE if records else LEARNS_NOTHING
    return PrivacyStep(path, name, status, records, note, seeded)


def _note(complaints: dict[str, bool]) -> str:
    return ", and ".join(complaint for complaint, applies in complaints.items() if applies)


def _fits_of_candidates(search: Any) -> tuple[list[tuple[Any, int]], bool]:
    """List the private fits on the folds, and tell whether the list is complete."""
    fits, is_known = [], True
    for params in search.cv_results_["params"]:
        try:
            planned = planned_fits(candidate_of(search, params))
        except UnknownFits:
            is_known = False
        else:
            # A candidate that `fit` refuses has no score, and has released nothing.
            fits += [(step, n * int(search.n_splits_)) for step, n in planned if is_accepted(step)]
    return fits, is_known


def _own_record(estimator: Any) -> PrivacySpent | None:
    """Return the record that a class has set; others may show the record of what they hold."""
    record = None
    # Not isinstance, which a proxy answers for the object that it stands for.
    if issubclass(type(estimator), (PrivateEstimator, *_OURS)):
        record = vars(estimator).get("privacy_spent_")
    return record if isinstance(record, PrivacySpent) else None


def _not_fitted(estimator: Any) -> NotFittedError:
    return NotFittedError(
        f"This {type(estimator).__name__} instance is not fitted yet: nothing has been spent."
    )


def _joined(path: str, name: str) -> str:
    return f"{path}__{name}" if path else name


def _fitted_parts(estimator: Any) -> list[tuple[str, Any]]:
    """Return the names and the fitted parts of an estimator, as far as they can be known."""
    if isinstance(estimator, Pipeline | DPPipeline):
        return list(vars(estimator).get("pipeline_", estimator).steps)
    if isinstance(estimator, FeatureUnion):
        return list(estimator.transformer_list)
    if isinstance(estimator, ColumnTransformer):
        check_is_fitted(estimator)
        return [
            (name, part)
            for name, part, columns in estimator.transformers_
            if not _selects_nothing(columns)
        ]
    if isinstance(estimator, TransformedTargetRegressor):
        check_is_fitted(estimator)
        return [("transformer", estimator.transformer_), ("regressor", estimator.regressor_)]
    return _held_parts(estimator)


def _held_parts(estimator: Any) -> list[tuple[str, Any]]:
    """Return the fitted estimators that any other kind of estimator holds."""
    # Only its own attributes: others may be forwarded from an estimator that it wraps.
    attributes = getattr(estimator, "__dict__", {})
    several = _flattened(attributes.get("estimators_", ()))
    names = [str(number) for number in range(len(several))]
    given = attributes.get("estimators")
    if isinstance(given, list) and all(isinstance(one, tuple) for one in given):
        given_names = [name for name, part in given if not is_passed_through(part)]
        names = given_names if len(given_names) == len(several) else names
    parts = list(zip(names, several, strict=True))
    # Beside `estimators_`, a single estimator is the unfitted pattern for these.
    single = () if several else ("best_estimator_", "estimator_", "base_estimator_")
    first = next((name for name in single if _is_fitted(attributes.get(name))), None)
    if first is not None:
        parts.append(("estimator", attributes[first]))
    if _is_fitted(attributes.get("final_estimator_")):
        parts.append(("final_estimator", attributes["final_estimator_"]))
    return parts or [
        (f"{name}{number or ''}", part)
        for name in attributes
        for number, part in enumerate(_flattened(attributes[name]))
        if isinstance(part, BaseEstimator) and _is_fitted(part)
    ]


def _flattened(held: Any) -> list[Any]:
    if isinstance(held, dict):
        return _flattened(list(held.values()))
    if isinstance(held, np.ndarray) and held.dtype != object:
        return []
    if isinstance(held, list | tuple | np.ndarray):
        return [part for one in held for part in _flattened(one)]
    return [held] if hasattr(held, "fit") else []


def _is_fitted(estimator: Any) -> bool:
    if not hasattr(estimator, "fit"):
        return False
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return False
    return True


def _selects_nothing(columns: Any) -> bool:
    """Tell whether a transformer is given no columns, and thus is not fitted."""
    if isinstance(columns, str | slice) or np.ndim(columns) == 0:
        return False
    chosen = np.asarray(columns)
    return chosen.size == 0 or (chosen.dtype == bool and not chosen.any())
