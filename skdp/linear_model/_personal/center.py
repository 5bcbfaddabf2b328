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


def release_center(name: str, users: Users, budget: PrivacyBudget) -> tuple[np.ndarray, float]:
    """Release the mean of the users' means, as far as it exceeds its noise.

    Rows and responses, whose units have nothing in common, are clipped by themselves.
    """
    means = users.fill(_means, users.n_features + 1)
    rows = _released_mean(name, "", means[:, :-1], users, budget)
    responses = _released_mean(name, " of responses", means[:, -1:], users, budget)
    return rows, float(responses[0])


def _released_mean(
    name: str, kind: str, means: np.ndarray, users: Users, budget: PrivacyBudget
) -> np.ndarray:
    level = release_level(f"{name} norm{kind}", row_norms(means), _QUANTILE, budget)
    total = clip_rows(means.copy(), level).sum(axis=0)
    released, scale = budget.gaussian(
        f"{name}{kind}",
        total if not kind else total[0],
        sensitivity=sensitivity.row_sum(level, budget.adjacency, users.rounding),
    )
    average = np.atleast_1d(released) / users.n_users
    return above_noise(average, scale / users.n_users, _CERTAINTY, len(average))


def _means(batch: UserBatch) -> np.ndarray:
    """Average the rows and the responses of each user."""
    weights = batch.is_row[:, np.newaxis, :] / batch.counts[:, np.newaxis, np.newaxis]
    responses = weights @ batch.responses[:, :, np.newaxis]
    return np.concatenate([(weights @ batch.rows)[:, 0], responses[:, 0]], axis=1)
