"""Parameters of a personal regression and public facts of its data, checked."""

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from skdp._estimator import N_JOBS, check_not_pure
from skdp.privacy.plan import PrivacyCost
from skdp.units import ResolvedUnit

#: Constraints of parameters that scikit-learn checks.
PERSONAL_CONSTRAINTS: dict[str, Any] = {  # not tuned
    **N_JOBS,
    "n_components": [Interval(Integral, 0, None, closed="left")],
    "user_column": [Integral, str, None],
    "require_groups": ["boolean"],
    "fit_intercept": ["boolean"],
    "mean_head": ["boolean"],
    "decorrelate": ["boolean"],
    "solver": [StrOptions({"gradient", "altmin", "exponential"})],
    "n_iter": [Interval(Integral, 0, 100, closed="both")],
    "max_rows_per_user": [Interval(Integral, 1, None, closed="left"), None],
}
# Largest number of unknowns of "altmin", whose square is the size of a matrix: not studied.
_LARGEST_ALTMIN = 500
# Largest number of unknowns that random candidates can cover: not studied.
_LARGEST_EXPONENTIAL = 8
_NEEDS_NOISE = ("fit_intercept", "mean_head", "decorrelate")


@dataclass(frozen=True)
class PersonalProblem:
    """Parameters of a personal regression as plain values, and public facts."""

    # A user, or a row if there are no ids.
    unit: ResolvedUnit
    n_units: int
    # Without a column of ids.
    n_features: int
    dtype: np.dtype
    cost: PrivacyCost
    n_components: int
    fit_intercept: bool
    mean_head: bool
    decorrelate: bool
    solver: str
    n_iter: int
    max_rows_per_user: int | None

    @property
    def is_pooled(self) -> bool:
        """Whether all users share one model."""
        return self.n_components == 0


def checked_problem(problem: PersonalProblem) -> PersonalProblem:
    """Refuse parameters that contradict each other or the facts."""
    k, n_features = problem.n_components, problem.n_features
    if k > n_features:
        raise ValueError(
            f"n_components={k} must be at most n_features={n_features}, the number of features."
        )
    if k == 0 and not problem.mean_head:
        raise ValueError(
            "n_components=0 fits the mean model alone, which mean_head=False leaves out; pass "
            "mean_head=True, or a positive n_components."
        )
    if problem.solver == "exponential":
        _check_choice(problem)
    else:
        check_not_pure(f"solver={problem.solver!r}", problem.cost, "solver='exponential', or ")
    size = k * n_features
    if problem.solver == "altmin" and size > _LARGEST_ALTMIN:
        raise ValueError(
            f"solver='altmin' with n_components={k} and {n_features} features has {size} "
            f"unknowns, but takes at most {_LARGEST_ALTMIN}; pass solver='gradient'."
        )
    return problem


def _check_choice(problem: PersonalProblem) -> None:
    """Refuse parameters that solver="exponential" cannot fit."""
    size = problem.n_components * problem.n_features
    if not 1 <= size <= _LARGEST_EXPONENTIAL:
        raise ValueError(
            f"solver='exponential' with n_components={problem.n_components} and "
            f"{problem.n_features} features has {size} unknowns, but takes 1 to "
            f"{_LARGEST_EXPONENTIAL}; pass solver='gradient'."
        )
    asked = [name for name in _NEEDS_NOISE if getattr(problem, name)]
    if asked:
        raise ValueError(
            f"solver='exponential' releases no noisy sums, and takes no {asked[0]}=True; pass "
            f"{', '.join(f'{name}=False' for name in asked)}."
        )
