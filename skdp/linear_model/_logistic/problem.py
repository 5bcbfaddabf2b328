"""Parameters of a logistic regression and public facts of its data, checked."""

from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, Options, StrOptions

from skdp._estimator import check_finite_bound
from skdp.data.reduce import sum_depth, sum_rounding
from skdp.data.sources import block_starts
from skdp.privacy.clipping import SMALLEST_BOUND
from skdp.privacy.cost import PrivacyCost
from skdp.units._records import ResolvedRecord, ResolvedRecordOfPromisedClasses

__all__ = ["LOGISTIC_CONSTRAINTS", "LogisticProblem", "checked_problem", "resolved_unit"]

#: Constraints of the parameters; not tuned.
LOGISTIC_CONSTRAINTS: dict[str, Any] = {
    # Checked with the labels of y.
    "classes": "no_validation",
    "privacy_unit": [StrOptions({"record"})],
    "row_norm": [
        Interval(Real, SMALLEST_BOUND, 1 / SMALLEST_BOUND, closed="both"),
        Options(Real, {np.inf}),
        None,
    ],
}


@dataclass(frozen=True)
class LogisticProblem:
    """Parameters of a logistic regression as plain values, and public facts of the records."""

    cost: PrivacyCost
    unit: ResolvedRecord
    n_units: int
    n_features: int
    labels: tuple[Any, ...]
    label_dtype: np.dtype
    is_sparse: bool
    dtype: np.dtype
    row_norm: float | None

    #: What takes less noise, as warnings put it.
    fewer: ClassVar[str] = "fewer features"

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.labels)

    @property
    def n_free(self) -> int:
        """Number of free coefficients of a class, to each of which noise is added."""
        return self.n_features

    @property
    def strength(self) -> float:
        """Signal of all records together, in units of the noise of all free coefficients."""
        return self.n_units * self.cost.mu / self.n_free

    @property
    def rounding(self) -> float:
        """Bound of the rounding error of a sum, in units of the largest contribution."""
        return sum_rounding(self._starts, self.n_features)

    @property
    def depth(self) -> int:
        """Longest chain of additions in a sum over the records."""
        return sum_depth(self._starts, self.n_features)

    @property
    def _starts(self) -> np.ndarray:
        return block_starts(self.n_units, self.n_features, is_sparse=self.is_sparse)


def resolved_unit(adjacency: str, *, is_promised: bool) -> ResolvedRecord:
    """Return the unit; `is_promised` if labels of the data tell which classes there are."""
    kind = ResolvedRecordOfPromisedClasses if is_promised else ResolvedRecord
    return kind(adjacency)


def checked_problem(problem: LogisticProblem) -> LogisticProblem:
    """Refuse parameters that contradict each other."""
    check_finite_bound("row_norm", problem.row_norm, problem.cost)
    return problem
