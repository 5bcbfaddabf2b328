"""Heads, fitted to users' own rows beyond the mean model, and the vote on their prior."""

from dataclasses import replace
from functools import partial

import numpy as np

from skdp.data.users import UserBatch, Users
from skdp.linalg.norms import bin_counts
from skdp.linear_model._personal.grids import PRIORS
from skdp.linear_model._personal.model import Prior, SharedModel
from skdp.linear_model._personal.ridge import (
    leave_one_out_errors_by_features,
    leave_one_out_errors_by_kernels,
    ridge_coefficients,
)
from skdp.linear_model._personal.start import Start, features_of
from skdp.privacy import PrivacyBudget, Release

Choices = tuple[tuple[float, float], ...]

# In standard deviations of a count, and as a fraction of the users: not studied.
_LEAD, _LEAD_OF_NONE = 2.0, 0.15


def choose_prior(vote: Release, start: Start, users: Users, budget: PrivacyBudget) -> Start:
    """Release which prior predicts most users best: each response from others of the same user."""
    choices = users.map_users(partial(best_priors, prior=start.prior, choices=PRIORS))
    counts, noise_std = budget.release(vote, bin_counts(choices, np.arange(len(PRIORS))))
    lead = counts - np.array([_handicap(*choice, users.n_users, noise_std) for choice in PRIORS])
    return replace(start, prior=start.prior.changed(*PRIORS[int(np.argmax(lead))]))


def _handicap(mix: float, noise_factor: float, n_users: int, count_std: float) -> float:
    """Compute by how many votes a choice has to win.

    It costs more to trust a representation that is noise than to distrust a good one. And the votes
    for any useful prior are split among several of them.
    """
    if mix > 0:
        return 0.0
    return _LEAD * count_std + (_LEAD_OF_NONE * n_users if noise_factor > 1 else 0.0)


def personal_models(users: Users, model: SharedModel) -> tuple[np.ndarray, np.ndarray]:
    """Fit a head to the rows of every user, as given: coefficients and intercepts."""
    users.shift_rows(model.center)
    if model.whitening is not None:
        users.multiply_rows(model.whitening)
    users.shift_responses(model.response_center)
    lift, mean = _lift(model)
    models = users.map_users(partial(_lifted, model=model, lift=lift)) + mean
    # The rest is the padding of the lift.
    return models[:, : users.n_features], models[:, users.n_features]


def _lift(model: SharedModel) -> tuple[np.ndarray, np.ndarray]:
    """Return what maps heads to coefficients and intercepts of original rows, and their mean.

    The length is even, so that the numbers of every user start at a multiple of 16 bytes.
    """
    prior = model.prior
    coefficients = np.vstack([prior.root().T, prior.mean])
    if model.whitening is not None:
        coefficients = coefficients @ model.whitening
    table = np.column_stack([coefficients, -coefficients @ model.center])
    lift, mean = table[:-1], table[-1]
    mean[-1] += model.response_center
    if prior.intercept_variance > 0:
        of_intercept = np.zeros_like(mean)
        of_intercept[-1] = np.sqrt(prior.intercept_variance)
        lift = np.vstack([lift, of_intercept])
    padding = (0, len(mean) % 2)
    return np.pad(lift, ((0, 0), padding)), np.pad(mean, padding)


def _lifted(batch: UserBatch, model: SharedModel, lift: np.ndarray) -> np.ndarray:
    """Return what the head of each user adds to the mean coefficients and intercept."""
    features, responses = features_of(batch, model.prior)
    if not features.shape[2]:
        return np.zeros((len(features), lift.shape[1]))
    heads = ridge_coefficients(features, responses, model.prior.noise_variance)
    # One product per user: in a common one, the rounding of a user would depend on the others.
    return np.asarray((heads[:, np.newaxis] @ lift)[:, 0])


def best_priors(batch: UserBatch, prior: Prior, choices: Choices) -> np.ndarray:
    """Return which prior predicts each user best, leaving one response out at a time."""
    errors = _errors_of_long if batch.rows.shape[1] > batch.rows.shape[2] else _errors
    return np.argmin(errors(batch, prior, choices), axis=0).astype(np.float64)


def _errors_of_long(batch: UserBatch, prior: Prior, choices: Choices) -> np.ndarray:
    """Compute the errors of users with more rows than features."""
    found = []
    for choice in choices:
        chosen = prior.changed(*choice)
        features, responses = features_of(batch, chosen)
        errors = leave_one_out_errors_by_features(
            features, responses, batch.counts, chosen.noise_variance
        )
        found.append(errors)
    return np.stack(found)


def _errors(batch: UserBatch, prior: Prior, choices: Choices) -> np.ndarray:
    """Compute the errors from kernels of the rows; a mix of priors has a mix of two kernels."""
    counts = batch.counts
    features, responses = features_of(batch, prior)
    inside = features @ features.transpose(0, 2, 1)
    everywhere = prior.spread * (batch.rows @ batch.rows.transpose(0, 2, 1))
    is_row = batch.is_row[:, :, np.newaxis]
    everywhere += prior.intercept_variance * (is_row * batch.is_row[:, np.newaxis, :])
    everywhere -= inside
    all_errors = []
    for mix, factor in choices:
        noise_variance = factor * prior.noise_variance
        if mix == 0:
            # Without a mix the features are few, and no kernel is needed.
            errors = leave_one_out_errors_by_features(features, responses, counts, noise_variance)
        else:
            kernel = inside + mix * everywhere
            errors = leave_one_out_errors_by_kernels(kernel, responses, counts, noise_variance)
        all_errors.append(errors)
    return np.stack(all_errors)
