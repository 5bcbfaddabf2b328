"""Fit of a personal regression: a shared representation, then each user's head (coefficients)."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np
from scipy.special import chdtri

from skdp.data.users import UserBatch, Users, map_batch
from skdp.exceptions import counted
from skdp.linalg.norms import aligned, bin_counts, row_norms, row_squares
from skdp.linear_model._descent import DescentStep, followed_level, n_within, release_fraction
from skdp.linear_model.personal import plan as plans
from skdp.linear_model.personal import start as starts
from skdp.linear_model.personal.plan import AltminReleases, ClippedSum, PersonalSpec
from skdp.linear_model.personal.start import Prior, SharedModel, Start, UserLevels
from skdp.privacy import Plan, PrivacyBudget, Release
from skdp.privacy.clipping import NO_CLIPPING, clip_weights
from skdp.privacy.releases import Search
from skdp.units import ResolvedRow

# ------------------------------
# Gradient steps on the representation.

# Wanted fraction of unclipped gradients; not studied.
_GRADIENT_QUANTILE = 0.35
_STEP_SIZE = 1.0
# First clip level, relative to the root mean square norm of gradients if data are normal.
_FIRST_LEVEL = 0.8  # not studied
# Clip levels are at most this many times larger, or smaller, than the first clip level.
_LEVEL_RANGE = 1e9  # not studied
# Without noise, steps end after `_MOST_EXACT_STEPS`, or when a step turns the basis by an angle
# whose sine is at most `_AT_REST`.
_MOST_EXACT_STEPS, _AT_REST = 500, 1e-5  # not studied


def descend(
    steps: Sequence[DescentStep], start: Start, users: Users, budget: PrivacyBudget
) -> Start:
    """Run all gradient steps on the representation; their number does not depend on the data.

    In every step, every user fits a head, its own coefficients, to all of its rows. At this best
    head, the gradient of the loss by the representation is also the gradient of the least loss over
    all heads. A step releases the sum of the gradients, clipped user by user, and the number of
    unclipped gradients, which sets the clip level of the next step. FedRep (L. Collins, H. Hassani,
    A. Mokhtari, S. Shakkottai, 2021, :arxiv:`2102.07078`) has such gradients; clipping and
    accounting are ours.
    """
    # The first clip level follows from the released prior.
    prior, (n_features, k) = start.prior, start.prior.basis.shape
    variance = (prior.noise_variance + prior.variances.sum()) / start.row_count
    level = float(_FIRST_LEVEL * np.sqrt(n_features * k * variance))
    limits = level / _LEVEL_RANGE, level * _LEVEL_RANGE
    for step in steps:
        clip_level = plans.level_with_noise(level, budget)
        total, n_unclipped = _clipped_gradient(users, start.prior, clip_level)
        released, _ = budget.release(step.gradient, total, clip_level, rounding=users.rounding)
        start = _moved(start, released / users.n_users)
        unclipped, _ = release_fraction(step.vote, n_unclipped, users.n_users, budget)
        level = followed_level(level, unclipped, _GRADIENT_QUANTILE, limits)
    if budget.is_private or not steps:
        return start
    exact = partial(_clipped_gradient, users, level=NO_CLIPPING)
    return _settled(start, lambda now: _moved(now, exact(now.prior)[0] / users.n_users))


def _settled(start: Start, exact_step: Callable[[Start], Start]) -> Start:
    """Repeat a noise-free step until the representation converges."""
    for _ in range(_MOST_EXACT_STEPS):
        before, start = start.prior.basis, exact_step(start)
        after = start.prior.basis
        if np.linalg.norm(after - before @ (before.T @ after)) <= _AT_REST:
            break
    return start


def _moved(start: Start, gradient: np.ndarray) -> Start:
    """Take a gradient step with the basis, for coordinates scaled to a prior variance of 1."""
    prior = start.prior
    moved = prior.basis - _STEP_SIZE * gradient / np.sqrt(prior.variances)
    return start.with_basis(oriented_basis(moved))


def oriented_basis(matrix: np.ndarray) -> np.ndarray:
    """Return the basis Q of a QR decomposition whose R has no negative diagonal entry.

    A small change of the columns then changes no sign of the basis.
    """
    basis, triangle = np.linalg.qr(matrix)
    return basis * np.where(np.diagonal(triangle) < 0, -1.0, 1.0)


def _clipped_gradient(users: Users, prior: Prior, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Sum the gradients of users, clipped to norm `level`, and count the unclipped ones."""

    def _clipped(_: slice, batch: UserBatch) -> tuple[np.ndarray, Any]:
        slopes, heads, norms = map_batch(partial(_gradients, prior=prior), batch)
        weights = clip_weights(norms, level, prior.basis.size)
        # Overflowed values have weight 0. They are set to 0, as 0 times infinity is NaN.
        is_null = weights == 0
        slopes[is_null], heads[is_null] = 0.0, 0.0
        return (slopes * weights[:, np.newaxis]).T @ heads, n_within(norms, level)

    return tuple(users.map_sum(_clipped, prior.basis.size + 1))


def _gradients(batch: UserBatch, prior: Prior) -> tuple[np.ndarray, ...]:
    r"""Return the factors of users' gradients, and the norms of the gradients.

    The gradient of user j is :math:`u_j h_j^T`, with the head :math:`h_j` and :math:`u_j = (I - U
    U^T) X_j^T r_j / m_j`. Here U is the basis, and :math:`r_j` are the residuals of the head in the
    :math:`m_j` rows :math:`X_j`.
    """
    features, responses = starts.features_of(batch, prior)
    heads = starts.ridge_coefficients(features, responses, prior.noise_variance)
    residuals = features @ heads[:, :, np.newaxis] - responses[:, :, np.newaxis]
    slopes = residuals.transpose(0, 2, 1) @ batch.rows / batch.counts[:, np.newaxis, np.newaxis]
    # Arrays of each user are aligned to 16 bytes, so that no user changes the rounding of others.
    slopes = aligned(slopes[:, 0])[:, np.newaxis]
    inside = aligned((slopes @ prior.basis)[:, 0])[:, np.newaxis]
    heads = heads[:, : len(prior.variances)]
    slopes = (slopes - inside @ prior.basis.T)[:, 0]
    slope_norms, head_norms = row_norms(slopes), row_norms(heads)
    is_extreme = plans.loses_digits(slope_norms) | plans.loses_digits(head_norms)
    return slopes, heads, np.where(is_extreme, np.inf, slope_norms * head_norms)


# ------------------------------
# Alternating minimization: noisy normal equations, solved in each step.

# Clip levels of both sides of a user's normal equations: this quantile of their norms.
_TERM_QUANTILE = 0.5  # not studied


def alternate(plan: AltminReleases, start: Start, users: Users, budget: PrivacyBudget) -> Start:
    r"""Run all alternating steps; their number does not depend on the data.

    For fixed heads :math:`v_j` of all users j, the best representation U solves a linear system
    in its d k entries, the normal equations

    .. math:: \sum_j (v_j v_j^T) \otimes \frac{X_j^T X_j}{m_j}\, \mathrm{vec}\,U
              = \sum_j \mathrm{vec}\Big(\frac{X_j^T y_j}{m_j} v_j^T\Big),

    and each step releases both sides. Unlike the published method (P. Jain, J. Rush, A. Smith, S.
    Song, A. Guha Thakurta, 2021, "Differentially private model personalization", NeurIPS), every
    step uses all rows of all users. Both sides of a user's equations are clipped by one factor.
    Unless users are very many, noise makes the matrix indefinite, so a step raises its small
    eigenvalues.
    """
    # One release of the clip levels suffices for all steps, as the scale of heads hardly changes.
    prior = start.prior
    norms = users.map_users(lambda batch: np.column_stack(_terms(batch, prior)[2:]))
    levels = (
        plans.release_level(plan.matrix_norm, norms[:, 0], _TERM_QUANTILE, budget),
        plans.release_level(plan.product_norm, norms[:, 1], _TERM_QUANTILE, budget),
    )
    for of_matrix, of_sides in plan.steps:
        total, products = _clipped_sums(users, start.prior, levels)
        matrix, noise_std = budget.release(of_matrix, total, levels[0], rounding=users.rounding)
        sides, _ = budget.release(of_sides, products, levels[1], rounding=users.rounding)
        start = _solved(start, matrix, sides, noise_std)
    if budget.is_private or not plan.steps:
        return start
    return _settled(start, lambda now: _solved(now, *_clipped_sums(users, now.prior, levels), 0.0))


def _terms(batch: UserBatch, prior: Prior) -> tuple[np.ndarray, ...]:
    """Return the heads of users, products of rows and responses, and norms of both equation sides.

    Both sides are those of a user's normal equations for the representation.
    """
    features, responses = starts.features_of(batch, prior)
    heads = starts.ridge_coefficients(features, responses, prior.noise_variance)
    k = len(prior.variances)
    # What intercepts explain is subtracted, as the representation need not explain it.
    of_intercepts = features[:, :, k:] @ heads[:, k:, np.newaxis]
    responses = responses - of_intercepts[:, :, 0]
    products = (responses[:, np.newaxis] @ batch.rows)[:, 0] / batch.counts[:, np.newaxis]
    heads = heads[:, :k] * np.sqrt(prior.variances)
    head_norms, moments, sizes = row_norms(heads), starts.moment_norms(batch), row_norms(products)
    # Users with extreme values add nothing: rounding could make their norms too small.
    is_extreme = (
        plans.loses_digits(head_norms) | plans.loses_digits(moments) | plans.loses_digits(sizes)
    )
    matrix_norms = np.where(is_extreme, np.inf, np.square(head_norms) * moments)
    product_norms = np.where(is_extreme, np.inf, head_norms * sizes)
    return heads, products, matrix_norms, product_norms


def _clipped_sums(
    users: Users, prior: Prior, levels: tuple[float, float]
) -> tuple[np.ndarray, np.ndarray]:
    """Sum both sides of users' normal equations, clipped to two norms by one weight per user."""
    size, k = prior.basis.shape

    def _clipped(_: slice, batch: UserBatch) -> tuple[np.ndarray, np.ndarray]:
        heads, products, *norms = map_batch(partial(_terms, prior=prior), batch)
        lengths = (size * k) ** 2, size * k
        weights = np.minimum(*map(clip_weights, norms, levels, lengths))
        # Overflowed values have weight 0. They are set to 0, as 0 times infinity is NaN.
        is_null = weights == 0
        heads[is_null], products[is_null] = 0.0, 0.0
        weighted = weights[:, np.newaxis] * heads
        matrix, rows = np.empty((k, size, k, size)), batch.rows.reshape(-1, size)
        # Loop over pairs of components, to save memory.
        for i, j in np.ndindex(k, k):
            factors = weighted[:, i] * heads[:, j] / batch.counts
            scaled = batch.rows * factors[:, np.newaxis, np.newaxis]
            matrix[i, :, j] = scaled.reshape(-1, size).T @ rows
        return matrix, weighted.T @ products

    matrix, products = users.map_sum(_clipped, (size * k) ** 2 + size * k)
    return matrix.reshape(size * k, size * k), products.ravel()


def _solved(start: Start, matrix: np.ndarray, sides: np.ndarray, noise_std: float) -> Start:
    """Solve noisy normal equations for the basis; small or negative eigenvalues are raised."""
    values, vectors = np.linalg.eigh(matrix)
    floor = max(noise_std * np.sqrt(2 * len(values)), 1e-12 * float(values[-1]), 1e-200)
    solution = vectors @ ((vectors.T @ sides) / np.maximum(values, floor))
    basis = solution.reshape(start.prior.basis.shape, order="F")
    return start.with_basis(oriented_basis(basis))


# ------------------------------
# The prior's variances of noise and of users' intercepts, from residuals of responses.

# Median of the square of a standard normal variable.
_MEDIAN_SQUARE = float(chdtri(1, 0.5))  # not tuned


def release_scales(
    plan: tuple[Search, ...], prior: Prior, users: Users, budget: PrivacyBudget
) -> Prior:
    """Release better estimates of the variances of noise and of intercepts, if planned.

    The start has rough estimates, which suffice for steps. Each user has a factor that corrects
    such an estimate, 1 for users with too few rows. A search releases the median of these factors.
    """
    variances = ("noise_variance", _noise_ratios), ("intercept_variance", _intercept_ratios)
    for search, (name, ratios) in zip(plan, variances, strict=False):
        factors = users.map_users(partial(ratios, prior=prior))
        variance = getattr(prior, name) * budget.quantile(search, factors, q=0.5)
        prior = replace(prior, **{name: variance})
    return prior


def _noise_ratios(batch: UserBatch, prior: Prior) -> np.ndarray:
    r"""Estimate the noise variance of each user's responses, over the prior's noise variance.

    The sum of squared residuals of m responses is the noise variance times a chi-square variable.
    With k components, it has m - k degrees of freedom or, with an intercept, m - k - 1.
    """
    features, responses = starts.features_of(batch, prior)
    heads = starts.ridge_coefficients(features, responses, np.finfo(float).tiny)
    squares = row_squares(responses - (features @ heads[:, :, np.newaxis])[:, :, 0])
    freedom = batch.counts - features.shape[2]
    usual = chdtri(np.maximum(freedom, 1.0), 0.5) * prior.noise_variance
    return np.where(freedom > 0, squares / usual, 1.0)


def _intercept_ratios(batch: UserBatch, prior: Prior) -> np.ndarray:
    """Estimate the variance of intercepts from each user alone, over the prior's estimate.

    An intercept that is estimated without a prior is normal. Its variance is the wanted variance of
    intercepts plus the variance of its error. The median of its square is `_MEDIAN_SQUARE` times
    its variance.
    """
    features, responses = starts.features_of(batch, prior)
    freedom = batch.counts - features.shape[2]
    features = np.ascontiguousarray(features[:, :, : len(prior.variances)])

    def _residual_sums(sides: np.ndarray) -> np.ndarray:
        """Sum over each user's rows the residuals of a ridge regression of `sides` on features."""
        heads = starts.ridge_coefficients(features, sides, prior.noise_variance)
        residuals = sides - (features @ heads[:, :, np.newaxis])[:, :, 0]
        return np.asarray((batch.is_row[:, np.newaxis] @ residuals[:, :, np.newaxis])[:, 0, 0])

    weights = _residual_sums(batch.is_row)
    squares = np.square(_residual_sums(responses) / weights) / _MEDIAN_SQUARE
    ratios = (squares - prior.noise_variance / weights) / prior.intercept_variance
    return np.where(freedom > 0, ratios, 1.0)


# ------------------------------
# Heads, which users add to the mean model, and users' votes for the prior of all heads.

# By so many votes a prior must lead, as `choose_prior` explains: a prior without a mix by `_LEAD`
# standard deviations of the noise of counts, plus the fraction `_LEAD_OF_NONE` of the users if it
# raises the noise variance; and a prior with a mix by twice this fraction if it multiplies the
# noise variance by less than `_CLOSE`. Not studied.
_LEAD, _LEAD_OF_NONE, _CLOSE = 2.0, 0.15, 0.02


def choose_prior(
    vote: Release, prior: Prior, rough: float, users: Users, budget: PrivacyBudget
) -> Prior:
    """Release votes of users on `PRIORS`, by leave-one-out errors, and take the best prior.

    If users differ along other directions than the components, residuals contain signal, and the
    noise variance of `prior`, which is estimated from residuals, is too large. For priors with such
    directions (`mix` above 0), the geometric mean of this variance and `rough`, the estimate of the
    start, replaces it if `rough` is smaller.
    """
    correction = min(math.sqrt(rough / prior.noise_variance), 1.0)
    choices = tuple(
        (mix, factor * correction if mix > 0 else factor) for mix, factor in plans.PRIORS
    )
    best = users.map_users(partial(best_priors, prior=prior, choices=choices))
    counts, noise_std = budget.release(vote, bin_counts(best, np.arange(len(choices))))
    # A prior without a mix, that is, without directions outside the representation, must lead by
    # more than noise: to trust a noisy representation costs more than to distrust a good one. If
    # its noise factor is large, which makes heads nearly 0, it must lead by more, as useful priors
    # divide their votes. If no prior is useful, chance favors heads that follow responses closely,
    # so a prior with a small noise factor needs a lead, too.
    mixes, factors = np.transpose(choices)
    lead_of_none = _LEAD_OF_NONE * users.n_users
    unmixed = _LEAD * noise_std + lead_of_none * (factors > 1)
    excess = counts - np.where(mixes > 0, 2 * lead_of_none * (factors < _CLOSE), unmixed)
    return prior.changed(*choices[int(np.argmax(excess))])


def personal_models(users: Users, model: SharedModel) -> tuple[np.ndarray, np.ndarray]:
    """Fit a head to the rows of each user; return users' coefficients and intercepts."""
    prior = model.prior
    coefficients = np.vstack([prior.root().T, prior.mean])
    users.shift_rows(model.center)
    users.shift_responses(model.response_center)
    if model.whitening is not None:
        users.multiply_rows(model.whitening)
        coefficients = coefficients @ model.whitening
    # `lift` maps heads to coefficients of rows as passed, with a last column for intercepts.
    table = np.column_stack([coefficients, -coefficients @ model.center])
    lift, mean = table[:-1], table[-1]
    mean[-1] += model.response_center
    if prior.intercept_variance > 0:
        of_intercept = np.zeros_like(mean)
        of_intercept[-1] = np.sqrt(prior.intercept_variance)
        lift = np.vstack([lift, of_intercept])
    # Padding makes the number of columns even, so that numbers of every user start at a multiple of
    # 16 bytes.
    padding = (0, len(mean) % 2)
    lift, mean = np.pad(lift, ((0, 0), padding)), np.pad(mean, padding)

    def _lifted(batch: UserBatch) -> np.ndarray:
        """Return what the heads of users add to the mean model, for rows as passed."""
        features, responses = starts.features_of(batch, prior)
        heads = starts.ridge_coefficients(features, responses, prior.noise_variance)
        # One product per user: the rounding of a joint product may depend on other users.
        return np.asarray((heads[:, np.newaxis] @ lift)[:, 0])

    models = users.map_users(_lifted) + mean
    # Behind the intercepts, there may be a column of padding.
    return models[:, : users.n_features], models[:, users.n_features]


def best_priors(batch: UserBatch, prior: Prior, choices: tuple[Any, ...]) -> np.ndarray:
    """Return the index of the prior that predicts each user best, by leave-one-out errors.

    A pair of `choices` has the `mix` of a prior and a factor of the noise variance.
    """
    features, responses = starts.features_of(batch, prior)
    # With at most as many rows as features, kernel matrices are smaller than Gram matrices.
    by_kernels = batch.rows.shape[1] <= batch.rows.shape[2]
    if by_kernels:
        inside = features @ features.transpose(0, 2, 1)
        outside = prior.spread * (batch.rows @ batch.rows.transpose(0, 2, 1))
        is_row = batch.is_row[:, :, np.newaxis]
        outside += prior.intercept_variance * (is_row * batch.is_row[:, np.newaxis, :])
        outside -= inside
    errors = []
    for changed in (prior.changed(*choice) for choice in choices):
        facts = responses, batch.counts, changed.noise_variance
        if by_kernels and changed.mix > 0:
            kernels = inside + changed.mix * outside
            errors.append(starts.leave_one_out_errors_by_kernels(kernels, *facts))
        else:
            of_choice = features if changed.mix == 0 else starts.features_of(batch, changed)[0]
            errors.append(starts.leave_one_out_errors_by_features(of_choice, *facts))
    return np.argmin(errors, axis=0).astype(np.float64)


# ------------------------------
# Warnings, from public facts and released values.

# With a smaller signal, a representation is no better than none. The signal is the largest
# eigenvalue of a sum of users' products, if all users have one model, over the largest eigenvalue
# of the noise in the sum. Not studied.
_LEAST_SIGNAL = 3.0


def warnings_for_users(spec: PersonalSpec, plan: Plan) -> Iterator[str]:
    """Warn of fits without ids of users, of hidden centers, and of noise above any signal."""
    if not spec.cost.is_private:
        return
    if isinstance(spec.unit, ResolvedRow):
        yield (
            "There are no ids of users: every row is taken for a user of its own, and somebody "
            "with several rows is protected only one row at a time. Pass groups, or users, to "
            "fit, or user_column; require_groups=True turns this warning into an error."
        )
    if spec.solver == "exponential":
        return
    centers = {"the rows": plan.parts.row_center, "the responses": plan.parts.response_center}
    hidden = [what for what, releases in centers.items() if not releases]
    if spec.fit_intercept and hidden:
        # Centers that noise would hide are not released.
        yield (
            f"The center of {' and '.join(hidden)} is taken to be 0: too few {spec.unit.counted}, "
            f"{spec.n_units} with epsilon={spec.cost.epsilon:g}, to find it. "
            f"Subtract a public guess, or pass more {spec.unit.counted} or a larger epsilon."
        )
    model, size = plan.parts.model, spec.n_features
    is_mean = isinstance(model, ClippedSum)
    release = model.total if is_mean else model.products
    change = release.sensitivity_for(1.0)
    noise_std = spec.cost.noise_std(release.mechanism, change, release.share)
    signal = spec.n_units / (noise_std * math.sqrt(size if is_mean else 2 * size))
    if signal < _LEAST_SIGNAL:
        yield (
            f"Too few {spec.unit.counted}, {spec.n_units} with epsilon={spec.cost.epsilon:g}, "
            f"for {counted(spec.n_features, 'feature')}: the representation is mostly "
            f"noise. Pass at least {_LEAST_SIGNAL / signal:.2g} times as many "
            f"{spec.unit.counted}, a larger epsilon, or fewer features."
        )


def warnings_for_model(model: SharedModel, spec: PersonalSpec) -> Iterator[str]:
    """Warn if noise may hide the representation, or if users are predicted better without one."""
    yield from model.warnings
    if spec.is_pooled:
        return
    if model.snr < 1 and spec.solver != "exponential":
        yield (
            f"The weakest component, of {spec.n_components}, does not stand out from the noise "
            f"(snr_ is {model.snr:.2g}, below 1). Pass fewer n_components, a larger epsilon, or "
            "more users."
        )
    if model.prior.mix == 1:
        yield (
            "Most users are predicted best without the representation (prior_mix_ is 1): a ridge "
            "regression for each user alone is as good, and needs no budget. Try more users, a "
            "larger epsilon, or more or fewer n_components."
        )


# ------------------------------
# The fit.


def solve_personal(
    spec: PersonalSpec, plan: plans.PersonalReleases, users: Users, budget: PrivacyBudget
) -> SharedModel:
    """Release centers and scales, then the representation, then the prior of users' heads."""
    center, response_center = np.zeros(users.n_features), 0.0
    if plan.response_center:
        response_center = starts.release_response_center(plan.response_center, users, budget)
        users.shift_responses(response_center)
    levels = UserLevels()
    if plan.row_count is not None:
        point = budget.quantile(plan.row_count, users.map_users(attrgetter("counts")), q=0.5)
        # The median lies between this grid point and the next lower one, which is half as large.
        levels = UserLevels(row_count=max(point / np.sqrt(2), 1.0))
    if plan.user_levels:
        levels = starts.release_user_levels(plan.user_levels, users, levels.row_count, budget)
    for releases in plan.row_center:
        shift = starts.release_row_center(releases, users, budget)
        users.shift_rows(shift)
        center = center + shift
    whitening: np.ndarray | None = None
    warnings: tuple[str, ...] = ()
    if plan.user_moment is not None:
        whitening, warnings = starts.release_user_whitening(
            plan.user_moment, users, budget, is_pooled=spec.is_pooled
        )
        users.multiply_rows(whitening)
    if isinstance(plan.model, ClippedSum):
        start = starts.release_mean_model(spec, plan.model, users, budget)
        return SharedModel(center, response_center, whitening, start.prior, start.snr, warnings)
    start = starts.release_start(spec, plan.model, users, levels, budget)
    if isinstance(plan.model.steps, AltminReleases):
        start = alternate(plan.model.steps, start, users, budget)
    else:
        start = descend(plan.model.steps, start, users, budget)
    rough = start.prior.noise_variance
    prior = release_scales(plan.model.scales, start.prior, users, budget)
    chosen = choose_prior(plan.model.prior_vote, prior, rough, users, budget)
    has_intercepts = chosen.intercept_variance * levels.row_count > chosen.noise_variance
    if chosen.noise_variance > prior.noise_variance and not has_intercepts:
        # The vote chose a noise variance so large that heads are nearly 0.
        warnings += (
            "Most users are predicted best by the mean model: their heads add little to it. Pass "
            "n_components=0 to fit the mean model alone.",
        )
    return SharedModel(center, response_center, whitening, chosen, start.snr, warnings)
