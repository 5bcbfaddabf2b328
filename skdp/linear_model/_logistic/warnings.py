"""Warnings of a logistic regression, from public facts and released values."""

from collections.abc import Iterator

import numpy as np

from skdp.exceptions import shortened
from skdp.linear_model._logistic.plan import is_norm_guessed
from skdp.linear_model._logistic.problem import LogisticProblem
from skdp.linear_model._logistic.whitening import Whitening
from skdp.privacy import Plan

#: Warning of classes that are taken from the data.
LABELS_BECOME_PUBLIC = (
    "classes=None takes the labels of y for the classes: which labels occur becomes public by this "
    "fit, and is not protected. Pass classes, a list of all labels that there may be."
)
# With less strength than that, of two classes or of more, probabilities may be worse than the
# fractions of the classes; not studied.
_LEAST_OF_TWO, _LEAST_OF_MORE = 5.0, 15.0
# With less strength of its records, and less of what is its due among equal classes, a class is not
# sorted: for two classes the area under the curve is then .5 to .85 instead of .9; not studied.
_LEAST_OF_CLASS, _LEAST_OF_DUE = 2.5, 0.5


def warnings_for_size(problem: LogisticProblem, plan: Plan) -> Iterator[str]:
    """Warn of what public facts say against a fit."""
    if not problem.unit.is_enforced:
        yield LABELS_BECOME_PUBLIC
    if not problem.cost.is_private:
        return
    least = _least(problem)
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


def warnings_for_moment(problem: LogisticProblem, whitening: Whitening) -> Iterator[str]:
    """Warn where noise hides how the rows vary, from released values."""
    if not whitening.is_clear:
        smaller = "" if problem.row_norm is None else "a smaller row_norm, "
        yield (
            "Noise hides the spread of the rows. Standardize them, as DPStandardScaler does, "
            f"or pass {smaller}a larger epsilon or more records."
        )


def warnings_for_classes(problem: LogisticProblem, fractions: np.ndarray) -> Iterator[str]:
    """Warn of classes that are lost in the noise, from their released fractions."""
    if problem.strength < _least(problem):
        return  # `warnings_for_size` has warned
    is_rare = problem.strength * fractions < _LEAST_OF_CLASS
    rare = np.flatnonzero(is_rare & (problem.n_classes * fractions < _LEAST_OF_DUE))
    if len(rare):
        shown = shortened([repr(problem.labels[place]) for place in rare])
        yield (
            f"{len(rare)} of {problem.n_classes} classes ({shown}) have few records, as far "
            "as noise can tell: which records are theirs may be lost in it. Pass more records, a "
            f"larger epsilon, or {problem.fewer}."
        )


def _least(problem: LogisticProblem) -> float:
    return _LEAST_OF_TWO if problem.n_classes == 2 else _LEAST_OF_MORE
