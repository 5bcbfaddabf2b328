"""Parameters of a logistic regression and public facts of its data."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from skdp.data.reduce import sum_depth, sum_rounding
from skdp.data.sources import block_starts
from skdp.privacy.cost import PrivacyCost
from skdp.units._records import ResolvedRecord


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
