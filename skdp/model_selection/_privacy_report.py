"""What a fitted pipeline or search has spent, and whether all of its steps are private."""

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

# How many steps a representation lists.
_SHOWN = 30  # not tuned


@dataclass(frozen=True, repr=False)
class PrivacyReport:  # numpydoc ignore=PR02
    """What a fitted estimator has spent, step by step, with a verdict.

    Parameters
    ----------
    spent : PrivacySpent or None
        Record of all private steps together, except for frozen ones; None if there are none.
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
        """Whether there is a private step, and no step may have learned without privacy."""
        statuses = {step.status for step in self.steps}
        is_finite = self.spent is not None and math.isfinite(self.spent.epsilon)
        return PRIVATE in statuses and NOT_PRIVATE not in statuses and is_finite

    @property
    def verdict(self) -> str:
        """What is private and what is not, in a sentence."""
        parts = [self._judgement()]
        # The judgement already speaks of a seed that may be guessed.
        if seeded := [step.label for step in self.steps if step.seeded and not _is_guessed(step)]:
            parts.append(
                f"no guarantee against anyone who can guess random_state of {', '.join(seeded)}"
            )
        if declared := [step.label for step in self.steps if step.note == AS_DECLARED]:
            parts.append(f"private {AS_DECLARED}: {', '.join(declared)}")
        counted = [step for step in self.steps if step.status != FROZEN]
        if promised := [step.label for step in counted if not _is_enforced(step)]:
            parts.append(
                f"bounds or classes promised by the caller, not enforced, in {', '.join(promised)}"
            )
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

    Visits every step of pipelines, unions, column transformers, searches and other estimators that
    hold estimators, however they are nested. The records of steps with a ``privacy_spent_`` are
    composed. The report names the other steps that have learned from the data without privacy.

    Parameters
    ----------
    estimator : estimator
        The fitted estimator. It is not changed.
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
        If `estimator` is not an estimator.
    NotFittedError
        If the estimator, or a private step of it, has not been fitted.
    ValueError
        If the steps protect different units or differ in adjacency, or the noise of two steps came
        from one seed, as in :meth:`skdp.privacy.PrivacySpent.compose`. Also if one and the same
        private estimator stands in two places.

    See Also
    --------
    skdp.model_selection.search_cost : What a search is going to cost.
    skdp.PrivacyLedger : Limits what all fits on one dataset may cost.

    Notes
    -----
    **Privacy.** No data are read and nothing is spent: the report follows from records and
    parameters, and is as public as these.

    Where several steps have the same record, one object, it is the record of all of them together
    and is counted once. Equal records of different fits are counted separately.

    A ``FrozenEstimator`` was fitted before, to other rows, which are public or have a report of
    their own. It is called frozen and not counted. If it was fitted to the same rows, then either
    it learned from them without privacy, or its record has to be added with ``compose``.

    A search of scikit-learn has fitted every candidate on every fold. All of these fits are
    counted, from its candidates and folds, in addition to the last fit. In the record, fits of
    equal cost are one release of sensitivity 1 that spends as much. The candidate was chosen by
    scores that are computed from the rows without privacy. So the result is private only if there
    was nothing to choose, and ``cv_results_`` is not private even then.

    Steps that learn nothing are known by their class. Whether a function of a
    ``FunctionTransformer`` mixes rows cannot be seen. Estimators of unknown classes that hold
    private ones are called not private, because it is not known what they learn themselves. Also
    called not private are:

    - bags, which seed the noise of their members by small numbers and keep these;
    - classifiers that hold others, as their classes come from y;
    - a ``ColumnTransformer`` that looks how dense its output is, unless ``sparse_threshold=0``;
    - a ``TransformedTargetRegressor`` that tries its functions on y, unless
      ``check_inverse=False``;
    - a pipeline with memory that has private steps.

    Only records of classes of skdp are trusted. A subclass of one may keep more than it has
    released, and is called not private. Any other subclass of ``PrivateEstimator`` is reported as
    private *as its author declares*.

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
    # An estimator that forwards the record of another one is fitted, though it has none itself.
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
    """Return the records that count; a record that several steps share counts once."""
    counted = (record for step in steps if step.status != FROZEN for record in step.records)
    return list({id(record): record for record in counted}.values())


def _complaints(steps: Iterable[PrivacyStep]) -> list[str]:
    """Say which steps are not private and why; steps with the same reason come together."""
    labels: dict[str, list[str]] = {}
    for step in steps:
        if step.status == NOT_PRIVATE:
            labels.setdefault(step.note, []).append(step.label)
    return [f"{', '.join(of_note)} {note}" for note, of_note in labels.items()]


def _is_guessed(step: PrivacyStep) -> bool:
    return any(record.guessable for record in step.records)


def _is_enforced(step: PrivacyStep) -> bool:
    return all(record.enforced for record in step.records)
