"""The mean of rows as a guide to their first component, if their entries are mostly positive.

In a table without negative entries, such as one of people and items, the mean row is nearly the
first right singular vector, and its release takes far less noise than a second moment. A count
decides whether a table is of that kind: the number of rows that are not 0 and whose sum is at least
half of the sum of their absolute values. One row moves the count by 1. If most rows are counted,
the entries of the mean are taken to be nonnegative, which removes noise from the released mean.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skdp.data.rows import Rows
from skdp.linalg.denoising import positive_means
from skdp.linalg.norms import row_norms
from skdp.privacy import PrivacyBudget, Release, Released


@dataclass(frozen=True)
class PositiveMean:
    """A released mean of rows that are mostly positive."""

    mean: np.ndarray  # with its noise
    noise_std: float  # standard deviation of the noise in an entry
    share: float  # of the budget

    @cached_property
    def denoised(self) -> np.ndarray:
        """The mean with its noise reduced, given that its entries are not negative."""
        return positive_means(self.mean, self.noise_std)

    @property
    def axis(self) -> np.ndarray:
        """Direction of the denoised mean, of length 1."""
        denoised = self.denoised
        return np.asarray(denoised / row_norms(denoised[np.newaxis]))

    @property
    def stands_out(self) -> bool:
        """Whether the mean is longer than noise alone would be, with a risk of about .001."""
        n_features = len(self.mean)
        squared_length = float(np.sum(np.square(self.mean / self.noise_std)))
        # Three standard deviations of the chi-squared law that noise alone has.
        return squared_length > n_features + 3 * np.sqrt(2 * n_features)

    def averaged(self, other: "PositiveMean") -> "PositiveMean":
        """Average with another release, weighted by the shares of the budget."""
        share = self.share + other.share
        mean = (self.share * self.mean + other.share * other.mean) / share
        return PositiveMean(mean, float(self.noise_std * np.sqrt(self.share / share)), share)


def passes_positivity_test(count: Release, rows: Rows, budget: PrivacyBudget) -> bool:
    """Release how many rows are mostly positive; return whether more than half of them are."""
    noisy, _ = budget.release(count, rows.count_mostly_positive())
    return bool(noisy > rows.n_rows / 2)


def release_positive_mean(mean: Release, rows: Rows, budget: PrivacyBudget) -> PositiveMean:
    """Release the mean of rows, clipped to ``rows.bound``, as a guide."""
    return PositiveMean(*release_mean(mean, rows, budget), mean.share)


def release_mean(mean: Release, rows: Rows, budget: PrivacyBudget) -> Released:
    """Release the mean of rows, clipped to ``rows.bound``."""
    total, rounding = rows.total()
    return budget.release(mean, total / rows.n_rows, rows.bound, rounding)
