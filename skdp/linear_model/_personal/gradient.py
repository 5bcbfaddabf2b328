r"""Private gradient steps on the representation, at heads that are fitted anew in every step.

Every user fits a head to all of its rows. At these best heads, the gradient of the loss in the
representation is also that of the smallest loss over all heads. The wanted representation minimizes
this loss, so neither rows nor users have to be set aside. A step releases the sum of the gradients,
clipped user by user, and how many were not clipped; the clip level of the next step follows that
count. Alternating minimization [1]_ releases the normal equations of all unknowns instead. FedRep
[2]_ has such gradients; the clipping and the accounting are ours.

References
----------
.. [1] P. Jain, J. Rush, A. Smith, S. Song, A. Guha Thakurta (2021). "Differentially private model
   personalization". NeurIPS.
.. [2] L. Collins, H. Hassani, A. Mokhtari, S. Shakkottai (2021). "Exploiting shared representations
   for personalized federated learning". ICML. :arxiv:`2102.07078`
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from skdp.data.users import UserBatch, Users, map_batch
from skdp.linalg.norms import row_norms
from skdp.linear_model._descent import DescentStep, followed_level, n_within, release_vote
from skdp.linear_model._personal.levels import clip_level, loses_digits
from skdp.linear_model._personal.model import Prior
from skdp.linear_model._personal.ridge import aligned, ridge_coefficients
from skdp.linear_model._personal.start import Start, features_of
from skdp.privacy import PrivacyBudget
from skdp.privacy.clipping import clip_weights

# Not studied.
_QUANTILE = 0.35
_STEP_SIZE = 1.0
# The first level, in units of the root mean square of what is clipped, for normal users.
_FIRST_LEVEL = 0.8  # not studied
# Largest ratio of a level to the first one, and of the first one to a level.
_LEVEL_RANGE = 1e9  # not studied


def descend(
    steps: Sequence[DescentStep], start: Start, users: Users, budget: PrivacyBudget
) -> Start:
    """Run all steps, whatever the data."""
    level = _first_level(start)
    limits = level / _LEVEL_RANGE, level * _LEVEL_RANGE
    for step in steps:
        used = clip_level(level, budget)
        total, n_kept = _clipped_gradient(users, start.prior, used)
        released, _ = budget.release(step.gradient, total, used, rounding=users.rounding)
        start = _moved(start, released / users.n_users)
        kept, _ = release_vote(step.vote, n_kept, users.n_users, budget)
        level = followed_level(level, kept, _QUANTILE, limits)
    return start


def _first_level(start: Start) -> float:
    """Guess the length of a gradient from what is released."""
    prior = start.prior
    size, k = prior.basis.shape
    variance = (prior.noise_variance + prior.variances.sum()) / start.row_count
    return float(_FIRST_LEVEL * np.sqrt(size * k * variance))


def _moved(start: Start, gradient: np.ndarray) -> Start:
    """Take a step along the gradient in coordinates of unit prior variance."""
    prior = start.prior
    moved = prior.basis - _STEP_SIZE * gradient / np.sqrt(prior.variances)
    return start.with_basis(oriented_basis(moved))


def oriented_basis(matrix: np.ndarray) -> np.ndarray:
    """Return an orthonormal basis whose signs follow the columns."""
    basis, triangle = np.linalg.qr(matrix)
    return basis * np.where(np.diagonal(triangle) < 0, -1.0, 1.0)


def _clipped_gradient(users: Users, prior: Prior, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Sum the gradients, each clipped as a whole; return also how many were not clipped."""
    kernel = partial(_clipped, prior=prior, level=level)
    return tuple(users.map_sum(kernel, prior.basis.size + 1))


def _clipped(_: slice, batch: UserBatch, prior: Prior, level: float) -> tuple[np.ndarray, Any]:
    slopes, heads, norms = map_batch(partial(_gradients, prior=prior), batch)
    weights = clip_weights(norms, level, prior.basis.size)
    # Values that overflow have the weight 0, and 0 times infinity would be NaN.
    is_null = weights == 0
    slopes[is_null], heads[is_null] = 0.0, 0.0
    return (slopes * weights[:, np.newaxis]).T @ heads, n_within(norms, level)


class _Gradients(NamedTuple):
    """Gradients of users, each the outer product of a slope and a head, and their norms."""

    slopes: np.ndarray
    heads: np.ndarray
    norms: np.ndarray


def _gradients(batch: UserBatch, prior: Prior) -> _Gradients:
    r"""Compute the gradients :math:`u_j h_j^T` of a batch as factors, and their norms.

    :math:`u_j = (I - U U^T) X_j^T r_j / m_j` for the residuals r at the head h.
    """
    features, responses = features_of(batch, prior)
    heads = ridge_coefficients(features, responses, prior.noise_variance)
    residuals = features @ heads[:, :, np.newaxis] - responses[:, :, np.newaxis]
    slopes = residuals.transpose(0, 2, 1) @ batch.rows / batch.counts[:, np.newaxis, np.newaxis]
    # Aligned, so that the rounding of a user does not depend on who is before it in the batch.
    slopes = aligned(slopes[:, 0])[:, np.newaxis]
    inside = aligned((slopes @ prior.basis)[:, 0])[:, np.newaxis]
    heads = heads[:, : len(prior.variances)]
    slopes = (slopes - inside @ prior.basis.T)[:, 0]
    slope_norms, head_norms = row_norms(slopes), row_norms(heads)
    is_extreme = loses_digits(slope_norms) | loses_digits(head_norms)
    return _Gradients(slopes, heads, np.where(is_extreme, np.inf, slope_norms * head_norms))
