"""What a fitted pipeline or search has spent, and whether all of it is private."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from typing import Any

from sklearn.utils.validation import check_is_fitted

from skdp.model_selection._fitted_steps import (
    AS_DECLARED,
    FROZEN,
    NOT_PRIVATE,
    PRIVATE,
    PrivacyStep,
    fitted_steps,
)
from skdp.model_selection._planned_fits import composed
from skdp.privacy import PrivacySpent

__all__ = ["PrivacyReport", "privacy_spent"]

# Lines of steps in a representation.
_SHOWN = 30  # not tuned


@dataclass(frozen=True, repr=False)
class PrivacyReport:  # numpydoc ignore=PR02
    """What a fitted estimator has spent, step by step, with a verdict.

    Parameters
    ----------
    spent : PrivacySpent or None
        Record of all private steps together, but for frozen ones; None if there is none.
    steps : tuple of PrivacyStep
        The steps, each with its path, class and status.

    Notes
    -----
    **Privacy.** Computed from records and parameters; as public as these.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skdp import DPPCA, privacy_spent
    >>> report = privacy_spent(DPPCA(2, row_norm=40, mean_norm=60).fit(load_digits().data))
    >>> print(report.verdict)
    Private end to end: (1, 1e-06)-DP per row, adjacency 'replace'
    """

    spent: PrivacySpent | None
    steps: tuple[PrivacyStep, ...]

    @property
    def is_private(self) -> bool:
        """Whether a step is private, and none may have learned without privacy."""
        statuses = {step.status for step in self.steps}
        is_finite = self.spent is not None and math.isfinite(self.spent.epsilon)
        return PRIVATE in statuses and NOT_PRIVATE not in statuses and is_finite

    @property
    def verdict(self) -> str:
        """What is private and what is not, in a sentence."""
        parts = [self._judgement()]
        if seeded := [step.label for step in self.steps if step.seeded and not _is_guessed(step)]:
            parts.append(
                f"no guarantee against anyone who can guess random_state of {', '.join(seeded)}"
            )
        if declared := [step.label for step in self.steps if step.note == AS_DECLARED]:
            parts.append(f"private {AS_DECLARED}: {', '.join(declared)}")
        if promised := [step.label for step in self._counted() if not _is_enforced(step)]:
            parts.append(f"bounds promised by the caller, not enforced, in {', '.join(promised)}")
        if frozen := [step.label for step in self.steps if step.status == FROZEN]:
            parts.append(f"frozen, fitted before and not counted: {', '.join(frozen)}")
        return "; ".join(parts)

    def _judgement(self) -> str:
        if complaints := _complaints(self.steps):
            return f"Not private: {'; '.join(complaints)}"
        if self.spent is None:
            return "No private step: nothing was learned from the data"
        if not self.is_private:
            return "Not private: all fits together have an epsilon of inf, which is no privacy"
        return f"Private end to end: {guarantee(self.spent)}"

    def _counted(self) -> list[PrivacyStep]:
        return [step for step in self.steps if step.status != FROZEN]

    def __repr__(self) -> str:
        width = max([4, *(len(step.path) for step in self.steps)])
        kinds = max([5, *(len(step.class_name) for step in self.steps)])
        table = [("step", "class", "what it is"), *(step[:3] for step in self.steps)]
        rows = [f"  {path:<{width}}  {name:<{kinds}}  {what}" for path, name, what in table]
        more = [f"  and {len(self.steps) - _SHOWN} more"] if len(self.steps) > _SHOWN else []
        spent = [] if self.spent is None else [repr(self.spent)]
        return "\n".join([self.verdict, *rows[: _SHOWN + 1], *more, *spent])

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"


def privacy_spent(estimator: Any, *, same_unit: bool = False) -> PrivacyReport:
    """Tell what a fitted estimator has spent, all of its steps together, and whether it is private.

    Walks through pipelines, unions, column transformers, searches and what else holds estimators,
    in any order, to every step: those with a ``privacy_spent_`` are composed, and of the others it
    is told which have learned from the data without privacy.

    Parameters
    ----------
    estimator : estimator
        What was fitted. It is not changed.
    same_unit : bool, default=False
        Whether the caller says that a record of a regression is a row of the other steps with its
        response, as it is in a pipeline that is fitted to X and y. Rows and records then compose,
        to a record.

    Returns
    -------
    PrivacyReport
        The record of the whole, the steps, and a verdict.

    Raises
    ------
    TypeError
        If `estimator` is no estimator.
    NotFittedError
        If it, or a private step of it, has not been fitted.
    ValueError
        If the steps protect different units or differ in adjacency, or noise of two of them came
        from one seed, as in :meth:`skdp.privacy.PrivacySpent.compose`; or if one and the same
        private estimator stands in two places.

    See Also
    --------
    skdp.model_selection.search_cost : What a search is going to cost.
    skdp.PrivacyLedger : Limits what all fits on one dataset may cost.

    Notes
    -----
    **Privacy.** No data are read and nothing is spent: the report follows from records and
    parameters, and is as public as these.

    A record that several steps have, the same object, is counted once: it is that of all of them
    together. Equal records of different fits are counted each.

    A ``FrozenEstimator`` was fitted before, to other rows, which are public or have a report of
    their own. It is called frozen and not counted. If it was fitted to the same rows, what it
    learned is not private, or its record has to be added: ``compose`` does it.

    A search of scikit-learn has fitted every candidate on every fold: all of these fits are
    counted, from its candidates and folds, beside the last one. They stand in the record as one
    release of sensitivity 1 for each price, which is worth as much. The scores by which the
    candidate was chosen are computed from the rows without privacy. So the result is private only
    if there was nothing to choose, and ``cv_results_`` not even then.

    Steps that learn nothing are known by their class. A function of a ``FunctionTransformer`` may
    mix rows: that can not be seen. Of estimators of other kinds that hold private ones it is not
    known what they have learned themselves, and they are called not private. So are bags, which
    seed the noise of their members by small numbers and keep these, classifiers that hold others,
    whose classes come from y, a ``ColumnTransformer`` that looks how dense its output is
    (``sparse_threshold=0`` does not), a ``TransformedTargetRegressor`` that tries its functions on
    y (``check_inverse=False`` does not), and a pipeline with memory of private steps.

    Records are those of classes of skdp. A subclass of one may keep more than it has released, and
    is called not private. Of another class that is made of ``PrivateEstimator`` it is said that its
    author declares it private.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import Normalizer
    >>> from skdp import DPTruncatedSVD, privacy_spent
    >>> pipeline = make_pipeline(Normalizer(), DPTruncatedSVD(3, row_norm=1))
    >>> privacy_spent(pipeline.fit(load_digits().data))
    Private end to end: (1, 1e-06)-DP per row, adjacency 'replace'
      step            class           what it is
      normalizer      Normalizer      learns nothing
      dptruncatedsvd  DPTruncatedSVD  private
    PrivacySpent: (1, 1e-06)-DP per row, adjacency 'replace', mu=0.2367
    ...
    """
    is_estimator = hasattr(estimator, "fit") or hasattr(estimator, "privacy_spent_")
    if isinstance(estimator, type) or not is_estimator:
        kind = estimator.__name__ if isinstance(estimator, type) else type(estimator).__name__
        raise TypeError(f"estimator must be a fitted estimator, got {kind}.")
    steps = tuple(fitted_steps(estimator))
    # What shows the record of another one is not private, but fitted.
    if not any(step.records for step in steps) and not hasattr(estimator, "privacy_spent_"):
        check_is_fitted(estimator)
    records = _distinct(steps)
    spent = composed(records, same_unit=same_unit) if records else None
    return PrivacyReport(spent, steps)


def guarantee(spent: PrivacySpent) -> str:
    """Print what a record promises."""
    return (
        f"({spent.epsilon:.4g}, {spent.delta:.4g})-DP per {spent.unit}, "
        f"adjacency {spent.adjacency!r}"
    )


def _distinct(steps: Iterable[PrivacyStep]) -> list[PrivacySpent]:
    """Return the records that count: steps that share one count once."""
    counted = (record for step in steps if step.status != FROZEN for record in step.records)
    return list({id(record): record for record in counted}.values())


def _complaints(steps: Iterable[PrivacyStep]) -> list[str]:
    """Say what is not private, those of one kind together."""
    found: dict[str, list[str]] = {}
    for step in steps:
        if step.status == NOT_PRIVATE:
            found.setdefault(step.note, []).append(step.label)
    return [f"{', '.join(labels)} {note}" for note, labels in found.items()]


def _is_guessed(step: PrivacyStep) -> bool:
    return any(record.guessable for record in step.records)


def _is_enforced(step: PrivacyStep) -> bool:
    return all(record.enforced for record in step.records)
