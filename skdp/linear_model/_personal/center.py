"""The center of rows and of responses, from the means of the users."""

import numpy as np

from skdp.data.parts import Targets
from skdp.data.users import UserBatch, Users
from skdp.linalg.norms import row_norms
from skdp.linear_model._medians import median_of_responses
from skdp.linear_model._personal.levels import (
    CENTER_CERTAINTY,
    above_noise,
    clipped_total,
    release_level,
)
from skdp.linear_model._personal.plan import ClippedSum
from skdp.privacy import PrivacyBudget
from skdp.privacy.releases import Search

_QUANTILE = 0.6  # not studied
# A mean of responses counts as 0 if it is less than so many standard deviations of its noise. It
# also counts as 0 if it is less than that fraction of the clip level, unless it exceeds twice the
# first limit: noise may have made the level too high, and a high level adds much noise. Not
# studied.
_LEAST_NOISE, _LEAST_LEVEL = 2.0, 0.5


def release_row_center(plan: ClippedSum, users: Users, budget: PrivacyBudget) -> np.ndarray:
    """Release the mean of the users' mean rows, shrunk by the part that is noise."""
    means = users.map_users(_mean_rows)
    level = release_level(plan.norm, row_norms(means), _QUANTILE, budget)
    total = clipped_total(means, level)
    released, noise_std = budget.release(plan.total, total, level, rounding=users.rounding)
    center, noise_std = released / users.n_users, noise_std / users.n_users
    return above_noise(center, noise_std, CENTER_CERTAINTY, len(center))


def release_response_center(
    plan: tuple[Search, ...] | ClippedSum, users: Users, budget: PrivacyBudget
) -> float:
    """Release the median or the mean of the users' mean responses; a mean in the noise is 0."""
    means = users.map_users(mean_responses)
    if not isinstance(plan, ClippedSum):
        return median_of_responses(plan, Targets.of(means), budget)
    level = release_level(plan.norm, np.abs(means), _QUANTILE, budget)
    total = clipped_total(means[:, np.newaxis], level)[0]
    released, noise_std = budget.release(plan.total, total, level, rounding=users.rounding)
    center, noise_std = float(released) / users.n_users, noise_std / users.n_users
    least = _LEAST_NOISE * noise_std
    return center if abs(center) > max(least, min(_LEAST_LEVEL * level, 2 * least)) else 0.0


def _mean_rows(batch: UserBatch) -> np.ndarray:
    sums = batch.is_row[:, np.newaxis, :] @ batch.rows
    return np.asarray(sums[:, 0] / batch.counts[:, np.newaxis])


def mean_responses(batch: UserBatch) -> np.ndarray:
    """Average the responses of each user."""
    sums = batch.is_row[:, np.newaxis, :] @ batch.responses[:, :, np.newaxis]
    return np.asarray(sums[:, 0, 0] / batch.counts)
