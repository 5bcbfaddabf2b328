"""Parameters of a logistic regression and public facts of its data."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from skdp.privacy.plan import PrivacyCost
from skdp.units import ResolvedRecord


@dataclass(frozen=True)
class LogisticProblem:
    """Parameters of a logistic regression as plain values, and public facts of the records."""

    cost: PrivacyCost
    unit: ResolvedRecord
    n_units: int
    n_features: int
    labels: tuple[Any, ...]
    label_dtype: np.dtype
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
        return len(self.labels)

    @property
    def n_free(self) -> int:
        """Number of free coefficients of a class, to each of which noise is added."""
        return self.n_features

    @property
    def strength(self) -> float:
        """Signal of all records together, in units of the noise of all free coefficients."""
        return self.n_units * self.cost.mu / self.n_free
