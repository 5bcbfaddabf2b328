"""A map that decorrelates features, from the second moments of the users."""

from functools import partial

import numpy as np

from skdp.data.users import UserBatch, Users
from skdp.linalg.norms import row_norms
from skdp.linear_model._personal.levels import release_level
from skdp.linear_model._personal.plan import ClippedSum
from skdp.linear_model._trace.covariances import whitening_of
from skdp.privacy import PrivacyBudget
from skdp.privacy.clipping import clip_weights

_QUANTILE, _CERTAINTY = 0.5, 3.0  # not studied
# Features whose variance is less than this fraction of the largest are small: not studied.
_SMALL = 0.1
_HIDDEN = (
    "Noise hides the variances of the features: they are taken to be 1, and the features to be "
    "uncorrelated. Pass decorrelate=False if you know that they are, a larger epsilon, or more "
    "users."
)


def release_user_whitening(
    plan: ClippedSum, users: Users, budget: PrivacyBudget
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Release the mean of the users' second moments; return its denoised inverse root.

    That is the identity if noise hides even the mean variance of all features.
    """
    norms = users.map_users(moment_norms)
    level = release_level(plan.norm, norms, _QUANTILE, budget)
    weights = clip_weights(norms, level, users.n_features**2)
    total = users.map_sum(partial(_weighted_moment, weights=weights), users.n_features**2)
    released, noise_std = budget.release(plan.total, total, level, rounding=users.rounding)
    released, noise_std = released / users.n_users, noise_std / users.n_users
    mean_std = noise_std / np.sqrt(users.n_features)
    if np.diagonal(released).mean() <= _CERTAINTY * mean_std:
        return np.eye(users.n_features), (_HIDDEN,)
    return whitening_of(released, noise_std)[0], _warnings(released, noise_std)


def moment_norms(batch: UserBatch) -> np.ndarray:
    r"""Compute the Frobenius norm of :math:`X_j^T X_j / m_j` for each user.

    :math:`X_j X_j^T / m_j` has the same norm, so the smaller of both is formed.
    """
    rows, across = batch.rows, batch.rows.transpose(0, 2, 1)
    products = rows @ across if rows.shape[1] <= rows.shape[2] else across @ rows
    return row_norms(products.reshape(len(products), -1)) / batch.counts


def _weighted_moment(_: slice, batch: UserBatch, weights: np.ndarray) -> np.ndarray:
    scaled = batch.rows * (weights[batch.slots] / batch.counts)[:, np.newaxis, np.newaxis]
    n_features = batch.rows.shape[2]
    return scaled.reshape(-1, n_features).T @ batch.rows.reshape(-1, n_features)


def _warnings(moment: np.ndarray, noise_std: float) -> tuple[str, ...]:
    """Warn of features so small beside the others that noise hides them."""
    variances = np.diagonal(moment)
    edge = noise_std * np.sqrt(2 * len(variances))
    is_lost = (variances < edge) & (variances + 2 * noise_std < _SMALL * variances.max())
    n_lost = int(np.count_nonzero(is_lost))
    if n_lost == 0:
        return ()
    return (
        f"{n_lost} of {len(variances)} features are too small beside the others to stand out from "
        "noise, and hardly take part in the fit. If the units of features differ, divide them by "
        "public guesses of their spreads.",
    )
