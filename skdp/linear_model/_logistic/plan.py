"""The releases of a logistic regression, and their shares, from public facts."""

from functools import partial
from typing import NamedTuple

import numpy as np

from skdp.linear_model._logistic.problem import LogisticProblem
from skdp.linear_model._logistic.records import weights_beside
from skdp.privacy import Release, sensitivity
from skdp.privacy.plan import left_of

# Candidates of the norm that rows are clipped to: 2 ** (1/4) apart.
NORMS = 2.0 ** (np.arange(-80, 161) / 4)  # not studied
_NORM_SHARE, _MOMENT_SHARE = 0.03, 0.4  # benchmarks/classification/constants.md
# With less of this, noise hides the norms of the rows.
_LEAST_COUNT = 150.0  # benchmarks/classification/constants.md
# Steps: more where the noise of one is small beside a whitened gradient:
# benchmarks/classification/constants.md.
_STEPS_OF_TWO, _STEPS_OF_MORE, _STEP_LIMITS = 10, 14, (8, 40)
#: Stands for no bound, where there is no noise: its square is finite.
UNBOUNDED = 1e100  # not tuned


class LogisticReleases(NamedTuple):
    """What a fit releases, in this order; without noise the coefficients alone."""

    norm: Release | None  # by which rows are clipped; None if it is given, or guessed
    moment: Release | None
    gradients: tuple[Release, ...]
    coefficients: Release | None


def plan_logistic(problem: LogisticProblem) -> LogisticReleases:
    """Plan all releases in their order."""
    if not problem.cost.is_private:
        return LogisticReleases(None, None, (), _plan_coefficients(problem))
    norm = plan_norm(problem)
    moment = _plan_moment(problem, norm)
    gradients = _plan_gradients(problem, moment, left_of(norm, moment))
    return LogisticReleases(norm, moment, gradients, None)


def is_norm_guessed(problem: LogisticProblem) -> bool:
    """Tell whether the norm of the rows is taken for that of standardized ones."""
    is_private = problem.cost.is_private
    return is_private and problem.row_norm is None and _counts(problem) < _LEAST_COUNT


def n_steps(problem: LogisticProblem) -> int:
    """Count the steps, from public facts."""
    factor = _STEPS_OF_TWO if problem.n_classes == 2 else _STEPS_OF_MORE
    return round(float(np.clip(factor * problem.strength**0.25, *_STEP_LIMITS)))


def _counts(problem: LogisticProblem) -> float:
    return problem.n_units * problem.cost.mu


def plan_norm(problem: LogisticProblem) -> Release | None:
    """Plan the median of the norms, unless it is given or guessed."""
    if problem.row_norm is not None or is_norm_guessed(problem):
        return None
    return problem.cost.release(
        "median norm", "exponential", _NORM_SHARE, sensitivity.count_distance, {}, shape=NORMS.shape
    )


def _plan_moment(problem: LogisticProblem, norm: Release | None) -> Release:
    change = partial(_moment_change, n_classes=problem.n_classes, adjacency=problem.unit.adjacency)
    size = problem.n_features + 1 + problem.n_classes
    known, follows = _known(problem, norm or clip_norm(problem))
    return problem.cost.release(
        "class moment",
        "symmetric_gaussian",
        _MOMENT_SHARE,
        change,
        known,
        follows=follows,
        shape=(size, size),
    )


def clip_norm(problem: LogisticProblem) -> float:
    """Return the norm that rows are clipped to, where none is released."""
    given = problem.row_norm
    return float(np.sqrt(problem.n_features) if given is None else given)


def _moment_change(row_norm: float, rounding: float, n_classes: int, adjacency: str) -> float:
    beside = weights_beside(row_norm)
    return sensitivity.class_moment(row_norm, *beside, n_classes, adjacency, rounding)


def _plan_gradients(problem: LogisticProblem, moment: Release, share: float) -> tuple[Release, ...]:
    count, shape = n_steps(problem), (problem.n_features + 1, problem.n_classes)
    return tuple(
        plan_sum(problem, f"whitened gradient {step}", share / count, shape, moment)
        for step in range(1, count + 1)
    )


def plan_sum(
    problem: LogisticProblem,
    name: str,
    share: float,
    shape: tuple[int, ...],
    bound: float | Release,
) -> Release:
    """Plan a sum of vectors clipped to a norm, or to one that follows from a release."""
    change = partial(sensitivity.row_sum, adjacency=problem.unit.adjacency)
    known, follows = _known(problem, bound)
    return problem.cost.release(
        name, "gaussian", share, change, known, follows=follows, shape=shape
    )


def _known(problem: LogisticProblem, bound: float | Release) -> tuple[dict[str, float] | None, str]:
    """Return what a sensitivity needs if the norm is known before the fit, or what it follows."""
    if isinstance(bound, Release):
        return None, bound.name
    return {"row_norm": bound, "rounding": problem.rounding}, ""


def _plan_coefficients(problem: LogisticProblem) -> Release:
    change = partial(sensitivity.row_sum, adjacency=problem.unit.adjacency)
    known = {"row_norm": UNBOUNDED}
    shape = (problem.n_features + 1, problem.n_classes)
    return problem.cost.release("coefficients", "gaussian", 1.0, change, known, shape=shape)
