"""How far the levels of users differ, beyond what their rows explain."""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from skdp.data.users import UserBatch, Users
from skdp.linalg.norms import row_squares
from skdp.linear_model._personal.center import mean_responses
from skdp.privacy import PrivacyBudget
from skdp.privacy.releases import Search

_QUANTILE = 0.6  # not studied
# Ratio of a grid point to the geometric middle of the values that a search rounds up to it.
_ABOVE = 2.0**0.25  # not tuned
_TINY = 1e-200  # not tuned


@dataclass(frozen=True)
class UserLevels:
    """Variances of responses: between the levels of users, and within users."""

    between: float = 0.0
    within: float = 1.0

    def of_users(self, batch: UserBatch) -> np.ndarray:
        """Estimate the level of each user: its mean response, shrunk."""
        trust = self.between / (self.between + self.within / batch.counts)
        return np.asarray(trust * mean_responses(batch))


def release_user_levels(
    plan: tuple[Search, ...], users: Users, row_count: float, budget: PrivacyBudget
) -> UserLevels:
    """Release the typical size of a user's mean response, and its ratio to that of a response.

    The variance of the mean of m responses is that of the levels plus a part 1 / m of that within
    users; the variance of a response is the sum of both.
    """
    (of_size, of_ratio), (means, sizes) = plan, users.map_users(_means_and_sizes).T
    size = budget.quantile(of_size, means, q=_QUANTILE) / _ABOVE
    ratio = budget.quantile(of_ratio, sizes / size, q=0.5) / _ABOVE
    of_means = (size / float(ndtri((1 + _QUANTILE) / 2))) ** 2
    of_responses = max((ratio * size) ** 2, of_means)
    between = 0.0
    if row_count >= 2:
        between = max(row_count * of_means - of_responses, 0.0) / (row_count - 1)
    return UserLevels(between, max(of_responses - between, _TINY))


def _means_and_sizes(batch: UserBatch) -> np.ndarray:
    return np.column_stack([np.abs(mean_responses(batch)), root_mean_squares(batch)])


def root_mean_squares(batch: UserBatch) -> np.ndarray:
    """Compute the root mean square of the responses of each user."""
    return np.asarray(np.sqrt(row_squares(batch.responses) / batch.counts))
