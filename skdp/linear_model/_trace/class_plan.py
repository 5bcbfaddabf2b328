"""What a classifier of matrices is asked for, and its releases, from public facts."""

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from skdp.linalg.matrices import tangent_dimension
from skdp.linear_model._logistic.plan import clip_norm, n_steps, plan_norm, plan_sum
from skdp.linear_model._logistic.problem import LogisticProblem
from skdp.privacy import Release
from skdp.privacy.plan import left_of

_MEAN_SHARE, _START_SHARE = 0.05, 0.2  # not studied
# Clip level of gradients, as a fraction of the length of a long one.
_CLIP = 0.35  # not studied


@dataclass(frozen=True)
class TraceClassProblem(LogisticProblem):
    """The same for matrices, whose coefficients have a rank."""

    matrix_shape: tuple[int, int]
    rank: int

    fewer: ClassVar[str] = "a smaller rank"
    begins_with_total: ClassVar[bool] = True

    @property
    def n_free(self) -> int:
        """Number of free coefficients, to each of which noise is added."""
        return tangent_dimension(self.matrix_shape, self.rank)


class TraceClassReleases(NamedTuple):
    """What a fit releases, in this order."""

    norm: Release | None  # by which matrices are clipped; None if it is given, or guessed
    mean: Release
    start: Release
    gradients: tuple[Release, ...]


def plan_trace_classes(problem: TraceClassProblem) -> TraceClassReleases:
    """Plan all releases in their order."""
    norm, entries = plan_norm(problem), (problem.n_features,)
    bound = norm or clip_norm(problem)
    mean = plan_sum(problem, "mean matrix", _MEAN_SHARE, entries, bound)
    # The difference of a label from 1/2 is as long as 1/2.
    halved = bound / 2 if isinstance(bound, float) else bound
    start = plan_sum(problem, "class difference", _START_SHARE, entries, halved)
    count, share = n_steps(problem), left_of(norm, mean, start)
    size, level = (problem.rank * sum(problem.matrix_shape) + 1,), clip_level(problem)
    gradients = tuple(
        plan_sum(problem, f"tangent gradient {step}", share / count, size, level)
        for step in range(1, count + 1)
    )
    return TraceClassReleases(norm, mean, start, gradients)


def clip_level(problem: TraceClassProblem) -> float:
    """Return the norm that gradients are clipped to.

    Of matrices of norm sqrt(d1 d2), alike in all directions, a gradient has norm sqrt(n_free + 1)
    at most, but for chance.
    """
    return _CLIP * math.sqrt(problem.n_free + 1)
