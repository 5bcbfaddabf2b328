"""Warnings of a logistic regression, from public facts and released values."""

from collections.abc import Iterator

from skdp.linear_model._logistic.plan import is_norm_guessed
from skdp.linear_model._logistic.problem import LogisticProblem
from skdp.linear_model._logistic.whitening import Whitening
from skdp.privacy import Plan

__all__ = ["LABELS_BECOME_PUBLIC", "warnings_for_moment", "warnings_for_size"]

#: Warning of classes that are taken from the data.
LABELS_BECOME_PUBLIC = (
    "classes=None takes the labels of y for the classes: which labels occur becomes public by this "
    "fit, and is not protected. Pass classes, a list of all labels that there may be."
)
# With less strength than that, of two classes or of more, probabilities may be worse than the
# fractions of the classes; not studied.
_LEAST_OF_TWO, _LEAST_OF_MORE = 5.0, 15.0


def warnings_for_size(problem: LogisticProblem, plan: Plan) -> Iterator[str]:
    """Warn of what public facts say against a fit."""
    if not problem.unit.is_enforced:
        yield LABELS_BECOME_PUBLIC
    if not problem.cost.is_private:
        return
    least = _LEAST_OF_TWO if problem.n_classes == 2 else _LEAST_OF_MORE
    if problem.strength < least:
        yield (
            f"{problem.n_units} records with epsilon={problem.cost.epsilon:g} are few for "
            f"{problem.n_free} coefficients of a class: probabilities may be worse than the "
            f"frequencies of the classes. Pass some {least / problem.strength:.2g} times as many "
            f"records, a larger epsilon, or {problem.fewer}."
        )
    if is_norm_guessed(problem):
        yield (
            f"{problem.n_units} records with epsilon={problem.cost.epsilon:g} are too few to find "
            "the norm to which rows are clipped: they are taken to be standardized, and clipped "
            "to the root of the number of features. Pass row_norm, a public bound of most norms."
        )


def warnings_for_moment(whitening: Whitening) -> Iterator[str]:
    """Warn where noise hides how the rows vary, from released values."""
    if not whitening.is_clear:
        yield (
            "Noise hides the spread of the rows. Standardize them, as DPStandardScaler does, "
            "or pass a larger epsilon or more records."
        )
