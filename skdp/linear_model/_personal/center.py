"""The centre of rows and responses, from the means of the users."""

import numpy as np

from skdp.data.users import UserBatch, Users
from skdp.linalg.norms import row_norms
from skdp.linear_model._personal.levels import above_noise, release_level
from skdp.privacy import PrivacyBudget, sensitivity
from skdp.privacy.clipping import clip_rows

__all__ = ["release_center"]

_QUANTILE = 0.6
_CERTAINTY = 3.0


def release_center(users: Users, budget: PrivacyBudget) -> tuple[np.ndarray, float]:
    """Release the mean of the users' means, as far as it exceeds its noise."""
    means = users.fill(_means, users.n_features + 1)
    level = release_level("centre norm", row_norms(means), _QUANTILE, budget)
    released, scale = budget.gaussian(
        "centre",
        clip_rows(means, level).sum(axis=0),
        sensitivity=sensitivity.row_sum(level, budget.adjacency, users.rounding),
    )
    center, noise = released / users.n_users, scale / users.n_users
    rows = above_noise(center[:-1], noise, _CERTAINTY, users.n_features)
    return rows, float(above_noise(center[-1:], noise, _CERTAINTY, 1)[0])


def _means(batch: UserBatch) -> np.ndarray:
    """Average the rows and the responses of each user."""
    weights = batch.is_row[:, np.newaxis, :] / batch.counts[:, np.newaxis, np.newaxis]
    responses = weights @ batch.responses[:, :, np.newaxis]
    return np.concatenate([(weights @ batch.rows)[:, 0], responses[:, 0]], axis=1)
