r"""A representation that the exponential mechanism chooses among public random candidates.

With few features and components, random candidates come close to every representation. The loss of
a candidate U is the sum, over all users, of the least mean squared error of a user's own
coefficients v (a head),

.. math:: \min_v \frac{1}{m_j} \sum_i (y_{ij} - \langle U^T x_{ij}, v \rangle)^2 \in [0, \zeta^2],

for the m_j rows of user j, with responses clipped to size :math:`\zeta`. As v = 0 is allowed, a
user's error has this range even if rows and heads are unbounded. The published exponent [1]_ has
the number of users as a further factor, which would void the guarantee. The exponent here follows
the published proof, with this range instead of a Lipschitz bound.

References
----------
.. [1] P. Jain, J. Rush, A. Smith, S. Song, A. Guha Thakurta (2021). "Differentially private model
   personalization". NeurIPS.
"""

from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np
from sklearn.utils import gen_batches

from skdp.data.users import UserBatch, Users
from skdp.linalg.norms import bin_counts, row_squares
from skdp.linear_model._descent import OTHER_UNITS_OF_Y
from skdp.linear_model.personal import start as starts
from skdp.linear_model.personal.fit import best_priors
from skdp.linear_model.personal.plan import SIZES, PersonalSpec, level_with_noise
from skdp.linear_model.personal.start import Prior, SharedModel
from skdp.privacy import PrivacyBudget, Release, sensitivity
from skdp.privacy.releases import warnings_for_ends

# Number of candidate representations; shares of the choices of a bound of responses, of a
# representation and of a prior. Not studied.
_N_CANDIDATES = 1000
_BOUND_SHARE, _CANDIDATE_SHARE, _PRIOR_SHARE = 0.2, 0.65, 0.15
# Wanted fraction of users whose responses are below the released size. With one half, candidate
# sizes far above and far below all users' are equally bad. With a larger fraction, sizes far above
# would be nearly the best.
_QUANTILE = 0.5  # not tuned
# Responses are clipped to this many times the released size.
_BOUND_FACTOR = 2.5  # not studied
# Priors among which users choose, as pairs of `Prior.mix` and the noise variance of a response,
# relative to the prior variance of a coefficient.
_PRIOR_CHOICES = tuple(product((0.0, 0.3, 1.0), (0.03, 0.3)))  # not studied
# Ridge penalty, relative to the squared size of features; far above rounding errors.
_PENALTY = 1e-9  # not tuned
# Candidates are compared in chunks with about this many entries of features, to save memory.
_CHUNK_ENTRIES = 1 << 20  # not studied


class ExponentialReleases(NamedTuple):
    """Releases of the exponential mechanism, in order."""

    bound: Release
    representation: Release
    prior: Release


def plan_exponential(spec: PersonalSpec) -> ExponentialReleases:
    """Plan the choices of a bound, of a representation, and of a prior."""
    release, by, counts = spec.cost.release, "exponential", sensitivity.count_distance
    losses = partial(sensitivity.loss_range, adjacency=spec.unit.adjacency)
    bound = release("response bound", by, _BOUND_SHARE, counts, {}, shape=SIZES.shape)
    follows, shape = bound.name, (_N_CANDIDATES,)
    chosen = release("representation", by, _CANDIDATE_SHARE, losses, follows=follows, shape=shape)
    prior = release(
        "choice of prior", by, _PRIOR_SHARE, losses, {"largest": 1.0}, shape=(len(_PRIOR_CHOICES),)
    )
    return ExponentialReleases(bound, chosen, prior)


def solve_exponential(
    spec: PersonalSpec, plan: ExponentialReleases, users: Users, budget: PrivacyBudget
) -> SharedModel:
    """Release a bound of the responses, then a representation, then the prior of the heads."""
    size, k = users.n_features, spec.n_components
    typical = _release_size(plan.bound, users, budget)
    bound = level_with_noise(_BOUND_FACTOR * typical, budget)
    users.clip_responses(bound)
    candidates = np.linalg.qr(budget.public_generator.normal(size=(_N_CANDIDATES, size, k)))[0]
    losses = _losses(users, candidates, bound)
    chosen = budget.choose(plan.representation, losses, bound**2, rounding=users.rounding)
    zeros = np.zeros(size)
    prior = Prior(zeros, candidates[chosen], np.full(k, typical**2 / k), 0.0, typical**2 / k)
    choices = users.map_users(partial(best_priors, prior=prior, choices=_PRIOR_CHOICES))
    votes = bin_counts(choices, np.arange(len(_PRIOR_CHOICES)))
    winner = budget.choose(plan.prior, -votes)
    return SharedModel(zeros, 0.0, None, prior.changed(*_PRIOR_CHOICES[winner]), 0.0)


def _release_size(release: Release, users: Users, budget: PrivacyBudget) -> float:
    """Choose a size that the responses of half of the users do not exceed."""
    sizes = users.map_users(starts.root_mean_squares)
    below = np.searchsorted(np.sort(sizes[np.isfinite(sizes)]), SIZES, side="right")
    wanted = _QUANTILE * users.n_users
    losses = np.abs(below - wanted)
    # A user's size beyond the grid counts as the nearest end of the grid. Otherwise all points
    # would be equally good if all sizes were beyond.
    losses[[0, -1]] = max(wanted - below[0], 0.0), max(below[-2] - wanted, 0.0)
    # If users are few, noise would often choose a size far from all users', as the grid has many
    # such sizes. A penalty of sizes far from 1 prevents this. The penalty does not depend on the
    # data, so it costs no privacy.
    losses = losses + (release.noise_std or 0.0) * np.log1p(np.abs(np.log2(SIZES)))
    chosen = budget.choose(release, losses)
    budget.warnings += warnings_for_ends(release.name, SIZES[[chosen]], SIZES, OTHER_UNITS_OF_Y)
    return float(SIZES[chosen])


def _losses(users: Users, candidates: np.ndarray, bound: float) -> np.ndarray:
    """Sum, for each candidate representation, the mean squared errors of all users."""
    n_candidates, _, k = candidates.shape

    def _losses_of_batch(_: slice, batch: UserBatch) -> np.ndarray:
        losses, size = np.empty(n_candidates), _CHUNK_ENTRIES // (batch.responses.size * k)
        for chosen in gen_batches(n_candidates, max(size, 1)):
            errors = _errors(batch, candidates[chosen])
            # An error that overflows counts as the largest possible one.
            errors[~(errors <= bound**2)] = bound**2
            losses[chosen] = np.maximum(errors, 0.0).sum(axis=1)
        return losses

    return np.asarray(users.map_sum(_losses_of_batch, n_candidates))


def _errors(batch: UserBatch, candidates: np.ndarray) -> np.ndarray:
    """Return mean squared errors of users' best heads, of shape (n_candidates, n_users)."""
    features = batch.rows @ candidates[:, np.newaxis]
    n_candidates, n_users, length, k = features.shape
    stacked = features.reshape(-1, length, k)
    responses = np.broadcast_to(batch.responses, (n_candidates, n_users, length))
    responses = responses.reshape(-1, length)
    # With a penalty of almost 0, heads minimize the mean squared error.
    heads = starts.ridge_coefficients(stacked, responses, np.finfo(float).tiny, ridge=_PENALTY)
    residuals = responses - (stacked @ heads[:, :, np.newaxis])[:, :, 0]
    squares = row_squares(residuals).reshape(n_candidates, n_users)
    return np.asarray(squares / batch.counts)
