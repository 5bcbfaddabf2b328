"""What a logistic regression is asked for, its records, and its releases."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, NamedTuple

import numpy as np

from skdp.data.parts import Targets
from skdp.data.rows import Block, RowCache, Rows, Weighting
from skdp.linear_model._descent import clipped_fraction, level_beyond
from skdp.privacy import Release, sensitivity
from skdp.privacy.clipping import NO_CLIPPING, clip_weights
from skdp.privacy.plan import PrivacyCost, left_of, plan_sum
from skdp.units import ResolvedRecord


@dataclass(frozen=True, eq=False)
class LogisticProblem:
    """Parameters of a logistic regression as plain values, and public facts of the records."""

    cost: PrivacyCost
    unit: ResolvedRecord
    n_units: int
    n_features: int
    classes: np.ndarray  # sorted
    # Of sums over the records: a bound of their rounding error, in units of the largest
    # contribution, and the longest chain of additions.
    rounding: float
    depth: int
    dtype: np.dtype
    row_norm: float | None

    #: What takes less noise, as warnings put it.
    fewer: ClassVar[str] = "fewer features"
    #: Whether the first sum is that of the clipped rows.
    begins_with_total: ClassVar[bool] = False

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.classes)

    @property
    def n_columns(self) -> int:
        """Number of columns of weights: two classes have one, for the log odds of the second."""
        return 1 if self.n_classes == 2 else self.n_classes

    @property
    def n_free(self) -> int:
        """Number of free coefficients of a class, to each of which noise is added."""
        return self.n_features

    @property
    def strength(self) -> float:
        """Signal of all records together, in units of the noise of all free coefficients."""
        return self.n_units * self.cost.mu / self.n_free


# ------------------------------
# Rows with the numbers of their classes, and the sum that whitens them and starts a descent.


@dataclass(eq=False)
class LabeledRows(Rows):
    """Rows, each with the number of its class; a row whose number is negative is null."""

    codes: Targets = field(kw_only=True)

    def blocks(self, group: range) -> Iterator[tuple[slice, Block]]:
        """Yield blocks of centered and weighted rows, without rows of no known class."""
        for rows, block in super().blocks(group):
            yield rows, block.without(self.codes[rows] < 0)


def with_norms(view: LabeledRows) -> LabeledRows:
    """Compute the norms of rows in memory once for all passes; others are computed in each pass."""
    return replace(view, cache=RowCache(view.norms())) if view.source.is_repeatable else view


def weighting_to(bound: float, n_features: int) -> Weighting:
    """Return the weighting that clips rows of so many features to a norm."""
    return partial(clip_weights, bound=bound, n_features=n_features)


def clipped(view: LabeledRows, bound: float) -> LabeledRows:
    """Clip the rows to a norm."""
    return view.clipped(bound, weighting_to(bound, view.n_features))


def weights_beside(row_norm: float) -> tuple[float, float]:
    """Return the constant beside rows of that norm, and the weight of a label beside both."""
    constant = row_norm / 2
    return constant, math.hypot(row_norm, constant) / 2


def joint_moment(view: LabeledRows, n_classes: int, beside: tuple[float, float]) -> np.ndarray:
    """Sum the outer products of rows, constants and labels, as one vector a record."""
    size = view.n_features + 1 + n_classes
    kernel = partial(_joint_moment, codes=view.codes, n_classes=n_classes, beside=beside)
    return np.asarray(view.map_sum(kernel, size**2))


def _joint_moment(
    rows: slice, block: Block, codes: Targets, n_classes: int, beside: tuple[float, float]
) -> np.ndarray:
    constant, label_weight = beside
    labels = label_weight * (np.eye(n_classes)[codes[rows]] - 1 / n_classes)
    others = np.column_stack([np.full(len(labels), constant), labels])
    others[block.is_null] = 0.0
    cross = block.rmatmul(others)
    others = block.half_added(others)
    # Last, as it overwrites the rows.
    return np.block([[block.gram(), cross], [cross.T, others.T @ others]])


# ------------------------------
# The releases and their shares, from public facts.

# Candidates of the norm that rows are clipped to: 2 ** (1/4) apart.
NORMS = 2.0 ** (np.arange(-80, 161) / 4)  # not studied
_NORM_SHARE, _MOMENT_SHARE = 0.03, 0.4  # benchmarks/classification/constants.md
# With less of this, noise hides the norms of the rows.
_LEAST_COUNT = 150.0  # benchmarks/classification/constants.md
# Steps: more where the noise of one is small beside a whitened gradient:
# benchmarks/classification/constants.md.
_STEPS_OF_TWO, _STEPS_OF_MORE, _STEP_LIMITS = 10, 14, (8, 100)
# The released norm may clip so many records, divided by mu, but no more than half of all:
# benchmarks/classification/constants.md.
_BEYOND_NORM, _BEYOND_NORM_LIMITS = 350.0, (0.0, 0.5)
# From this strength per class on, the levels of whitened rows and gradients rise, up to fourfold:
# benchmarks/classification/constants.md.
_LEVEL_STRENGTH, _BEYOND_LEVEL_LIMITS = 60.0, (1 / 16, 1.0)


class LogisticReleases(NamedTuple):
    """What a fit releases, in this order; without noise the coefficients alone."""

    norm: Release | None  # by which rows are clipped; None if it is given, or guessed
    moment: Release | None
    gradients: tuple[Release, ...]
    coefficients: Release | None


def plan_logistic(problem: LogisticProblem) -> LogisticReleases:
    """Plan all releases in their order."""
    if not problem.cost.is_private:
        change = partial(sensitivity.row_sum, NO_CLIPPING, problem.unit.adjacency)
        name, shape = "coefficients", (problem.n_features + 1, problem.n_columns)
        exact = problem.cost.release(name, "gaussian", 1.0, change, {}, shape=shape)
        return LogisticReleases(None, None, (), exact)
    norm = plan_norm(problem)
    moment = _plan_moment(problem, norm)
    gradients = _plan_gradients(problem, moment, left_of(norm, moment))
    return LogisticReleases(norm, moment, gradients, None)


def is_norm_guessed(problem: LogisticProblem) -> bool:
    """Tell whether noise would hide the norms of the rows, which are then taken as standardized."""
    is_private = problem.cost.is_private
    return is_private and problem.row_norm is None and _counts(problem) < _LEAST_COUNT


def n_steps(problem: LogisticProblem) -> int:
    """Count steps without momentum, from public facts."""
    factor = _STEPS_OF_TWO if problem.n_classes == 2 else _STEPS_OF_MORE
    return round(float(np.clip(factor * problem.strength**0.25, *_STEP_LIMITS)))


def n_steps_of_rows(problem: LogisticProblem) -> int:
    """Count steps with momentum: half as many of two classes lead as far."""
    alone = n_steps(problem)
    return alone if problem.n_classes > 2 else max(_STEP_LIMITS[0], round(alone / 2))


def momentum_of_two(problem: LogisticProblem) -> float:
    """Return the momentum with which steps of two classes lead as far as those without it."""
    return 1 - n_steps_of_rows(problem) / n_steps(problem)


def norm_quantile(problem: LogisticProblem) -> float:
    """Return the quantile of the norms that is released: the others are clipped to it."""
    return 1 - clipped_fraction(_counts(problem), _BEYOND_NORM, _BEYOND_NORM_LIMITS)


def level_factor(problem: LogisticProblem) -> float:
    """Return by how much levels of whitened rows and gradients exceed those of a weak signal."""
    strength = problem.strength / (problem.n_classes - 1)
    return level_beyond(clipped_fraction(strength, _LEVEL_STRENGTH, _BEYOND_LEVEL_LIMITS))


def _counts(problem: LogisticProblem) -> float:
    return problem.n_units * problem.cost.mu


def plan_norm(problem: LogisticProblem) -> Release | None:
    """Plan a quantile of the norms, unless it is given or guessed."""
    if problem.row_norm is not None or is_norm_guessed(problem):
        return None
    return problem.cost.release(
        "clip norm", "exponential", _NORM_SHARE, sensitivity.count_distance, {}, shape=NORMS.shape
    )


def _plan_moment(problem: LogisticProblem, norm: Release | None) -> Release:
    change = partial(_moment_change, n_classes=problem.n_classes)
    shape = (problem.n_features + 1 + problem.n_classes,) * 2
    bound = clip_norm(problem) if norm is None else norm.name
    name, mechanism = "class moment", "symmetric_gaussian"
    return plan_sum(problem, name, _MOMENT_SHARE, shape, bound, change, mechanism)


def clip_norm(problem: LogisticProblem) -> float:
    """Return the norm that rows are clipped to, where none is released."""
    given = problem.row_norm
    return float(np.sqrt(problem.n_features) if given is None else given)


def _moment_change(row_norm: float, rounding: float, n_classes: int, adjacency: str) -> float:
    beside = weights_beside(row_norm)
    return sensitivity.class_moment(row_norm, *beside, n_classes, adjacency, rounding)


def _plan_gradients(problem: LogisticProblem, moment: Release, share: float) -> tuple[Release, ...]:
    count, shape = n_steps_of_rows(problem), (problem.n_features + 1, problem.n_columns)
    bound, change = moment.name, sensitivity.row_sum
    return tuple(
        plan_sum(problem, f"whitened gradient {step}", share / count, shape, bound, change)
        for step in range(1, count + 1)
    )
