"""The mean of rows as a guide to their first component, where their entries are mostly positive.

On a table without negative entries, as one of people and items, the mean row is nearly the first
right singular vector, and its release carries far less noise than a second moment. Whether a table
is of that kind is asked first, by a count that a row moves by 1: of the rows, zeros left out, whose
sum is at least half of the sum of their absolute values. If it is, the entries of the released mean
are not negative, and noise can be taken out of them.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skdp.data.rows import Rows
from skdp.linalg.norms import row_norms
from skdp.linalg.positive_means import positive_means
from skdp.privacy import PrivacyBudget, Release, Released

__all__ = ["PositiveMean", "passes_positivity_test", "release_mean", "release_positive_mean"]


@dataclass(frozen=True)
class PositiveMean:
    """A released mean of rows that are mostly positive."""

    mean: np.ndarray  # with its noise
    noise_std: float  # standard deviation of the noise in an entry
    share: float  # what has been spent on it

    @cached_property
    def cleaned(self) -> np.ndarray:
        """The mean with as little noise as its entries, which are not negative, allow."""
        return positive_means(self.mean, self.noise_std)

    @property
    def axis(self) -> np.ndarray:
        """Direction of the cleaned mean, of length 1."""
        cleaned = self.cleaned
        return np.asarray(cleaned / row_norms(cleaned[np.newaxis]))

    @property
    def stands_out(self) -> bool:
        """Whether it is longer than noise alone is, but for a chance of about .001."""
        n_features = len(self.mean)
        length = float(np.sum(np.square(self.mean / self.noise_std)))
        return length > n_features + 3 * np.sqrt(2 * n_features)

    def averaged(self, other: "PositiveMean") -> "PositiveMean":
        """Average with another release, by what was spent."""
        share = self.share + other.share
        mean = (self.share * self.mean + other.share * other.mean) / share
        return PositiveMean(mean, float(self.noise_std * np.sqrt(self.share / share)), share)


def passes_positivity_test(gate: Release, rows: Rows, budget: PrivacyBudget) -> bool:
    """Release how many rows are mostly positive; tell whether most of them are."""
    noisy, _ = budget.release(gate, rows.mostly_positive().sum())
    return bool(noisy > rows.n_rows / 2)


def release_positive_mean(mean: Release, rows: Rows, budget: PrivacyBudget) -> PositiveMean:
    """Release the mean of rows, clipped to ``rows.bound``, as a guide."""
    return PositiveMean(*release_mean(mean, rows, budget), mean.share)


def release_mean(mean: Release, rows: Rows, budget: PrivacyBudget) -> Released:
    """Release the mean of rows, clipped to ``rows.bound``."""
    total, rounding = rows.total()
    return budget.release(mean, total / rows.n_rows, rows.bound, rounding)
