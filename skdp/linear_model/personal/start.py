"""The model of a personal regression, and the releases of the fit before its steps."""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.special import fdtri, ndtri

from skdp.data.parts import Targets
from skdp.data.users import UserBatch, Users
from skdp.linalg.norms import aligned, row_norms, row_squares
from skdp.linear_model._descent import clipped_fraction, median_of_responses
from skdp.linear_model.low_rank.records import whitening_of
from skdp.linear_model.personal import plan as plans
from skdp.linear_model.personal.plan import ClippedSum, HeadReleases, MeanReleases, PersonalSpec
from skdp.privacy import PrivacyBudget, Release
from skdp.privacy.clipping import clip_weights
from skdp.privacy.releases import Search

# ------------------------------
# The released model, and ridge regressions for many users at once.


@dataclass(frozen=True)
class Prior:
    """A normal prior for a user's coefficients and intercept, on centered, whitened rows."""

    # Coefficients of the mean model.
    mean: np.ndarray
    # Orthonormal columns: the directions in which users differ.
    basis: np.ndarray
    # Variances of the coordinates in the basis.
    variances: np.ndarray
    intercept_variance: float
    # Variance of the noise of a response.
    noise_variance: float
    # Part of the variance that is spread evenly over all directions.
    mix: float = 0.0

    @property
    def spread(self) -> float:
        """Variance of each direction if all is spread evenly (mix 1); no mix changes the total."""
        return float(self.variances.sum()) / len(self.basis)

    def changed(self, mix: float, noise_factor: float) -> "Prior":
        """Return a prior with this mix, and with the noise variance multiplied by a factor."""
        return replace(self, mix=mix, noise_variance=noise_factor * self.noise_variance)

    def root(self) -> np.ndarray:
        """Return a root of the covariance: a column for each component or, with a mix, square."""
        if self.mix == 0:
            return self.basis * np.sqrt(self.variances)
        outside = self.mix * self.spread
        inside = np.sqrt((1 - self.mix) * self.variances + outside)
        symmetric = (self.basis * (inside - np.sqrt(outside))) @ self.basis.T
        symmetric[np.diag_indices(len(symmetric))] += np.sqrt(outside)
        return symmetric


@dataclass(frozen=True)
class SharedModel:
    """The released model: a representation, a mean model, and the prior of heads."""

    center: np.ndarray
    response_center: float
    # Matrix that multiplies centered rows; None without whitening.
    whitening: np.ndarray | None
    prior: Prior
    # Signal of the weakest component, relative to the largest eigenvalue of the noise.
    snr: float
    warnings: tuple[str, ...] = ()


# ------------------------------
# Ridge regressions for many users at once, each from the user's own rows.

# These functions never raise errors, which would stop all users of a batch: values that overflow
# become 0, and matrices are made definite before they are inverted.

# Part of the trace that is added to the diagonal: far above rounding errors, too small to matter.
_RIDGE = 1e-11  # not tuned


def ridge_coefficients(
    features: np.ndarray, responses: np.ndarray, penalty: float, ridge: float = _RIDGE
) -> np.ndarray:
    """Compute coefficients from (users, rows, features) arrays; 0 where products overflow."""
    columns = features.transpose(0, 2, 1)
    if features.shape[2] <= features.shape[1]:
        solved = _solved(columns @ features, columns @ responses[:, :, None], penalty, ridge)
        return aligned(solved[:, :, 0])
    solved = _solved(features @ columns, responses[:, :, None], penalty, ridge)
    return aligned(_finite(columns @ solved)[:, :, 0])


def leave_one_out_errors_by_kernels(
    kernels: np.ndarray, responses: np.ndarray, counts: np.ndarray, penalty: float
) -> np.ndarray:
    """Compute each user's mean squared error when one response is left out at a time.

    `kernels` are the prior covariances of the predictions. Errors that overflow are 0.
    """
    # Residual i, if response i is left out: (K^-1 y)_i / (K^-1)_ii, with K = kernel + penalty * I.
    inverses = _inverses(kernels, penalty)
    weighted = (inverses @ responses[:, :, None])[:, :, 0]
    residuals = weighted / np.diagonal(inverses, axis1=1, axis2=2)
    return _mean_squares(residuals, counts)


def leave_one_out_errors_by_features(
    features: np.ndarray, responses: np.ndarray, counts: np.ndarray, penalty: float
) -> np.ndarray:
    """Compute leave-one-out errors from features: faster with fewer features than rows."""
    columns = features.transpose(0, 2, 1)
    inner = features @ _inverses(columns @ features, penalty)
    predicted = (inner @ (columns @ responses[:, :, None]))[:, :, 0]
    leverages = np.einsum("bij,bij->bi", inner, features)
    return _mean_squares((responses - predicted) / (1 - leverages), counts)


def _solved(matrices: np.ndarray, sides: np.ndarray, penalty: float, ridge: float) -> np.ndarray:
    """Solve positive definite systems; those that overflow have the solution 0."""
    is_bad = _make_definite(matrices, penalty, ridge) | ~np.isfinite(sides).all(axis=(1, 2))
    if is_bad.any():
        sides = np.where(is_bad[:, None, None], 0.0, sides)
    return _finite(np.linalg.solve(matrices, sides))


def _inverses(matrices: np.ndarray, penalty: float) -> np.ndarray:
    _make_definite(matrices, penalty, _RIDGE)
    return np.linalg.inv(matrices)


def _make_definite(matrices: np.ndarray, penalty: float, ridge: float) -> np.ndarray:
    """Add a penalty to Gram matrices, in place; mark those that overflow, and set them to 0."""
    diagonal = np.arange(matrices.shape[1])
    traces = np.trace(matrices, axis1=1, axis2=2)
    overflows = ~(np.isfinite(matrices).all(axis=(1, 2)) & np.isfinite(traces))
    matrices[overflows], traces[overflows] = 0.0, 0.0
    matrices[:, diagonal, diagonal] += (penalty + ridge * traces)[:, np.newaxis]
    return overflows


def _finite(values: np.ndarray) -> np.ndarray:
    """Set values that are not finite to 0, in place."""
    if not np.isfinite(values).all():
        values[~np.isfinite(values)] = 0.0
    return values


def _mean_squares(residuals: np.ndarray, counts: np.ndarray) -> np.ndarray:
    return _finite(row_squares(residuals) / counts)


# ------------------------------
# Centers of rows and responses, from the means of users.

_CENTER_QUANTILE = 0.6  # not studied
# A mean of responses becomes 0 below `_LEAST_NOISE_OF_MEANS` standard deviations of its noise; and
# up to twice that, below `_LEAST_LEVEL` of the clip level, which noise may raise. Not studied.
_LEAST_NOISE_OF_MEANS, _LEAST_LEVEL = 2.0, 0.5


def release_row_center(plan: ClippedSum, users: Users, budget: PrivacyBudget) -> np.ndarray:
    """Release the mean of users' mean rows, shrunk by its noise."""
    means = users.map_users(_mean_rows)
    level = plans.release_level(plan.norm, row_norms(means), _CENTER_QUANTILE, budget)
    total = plans.clipped_sum(means, level)
    center, noise_std = _release_mean(plan.total, total, level, users, budget)
    return plans.above_noise(center, noise_std, plans.CENTER_CERTAINTY, len(center))


def release_response_center(
    plan: tuple[Search, ...] | ClippedSum, users: Users, budget: PrivacyBudget
) -> float:
    """Release the median or mean of users' mean responses; a mean that may be noise becomes 0."""
    means = users.map_users(mean_responses)
    if not isinstance(plan, ClippedSum):
        return median_of_responses(plan, Targets.of(means), budget, len(means))
    level = plans.release_level(plan.norm, np.abs(means), _CENTER_QUANTILE, budget)
    total = plans.clipped_sum(means[:, np.newaxis], level)[0]
    released, noise_std = _release_mean(plan.total, total, level, users, budget)
    center, least = float(released), _LEAST_NOISE_OF_MEANS * noise_std
    return center if abs(center) > max(least, min(_LEAST_LEVEL * level, 2 * least)) else 0.0


def _release_mean(
    release: Release, total: Any, level: float, users: Users, budget: PrivacyBudget
) -> tuple[Any, float]:
    """Release a mean over users, from a sum; return also its noise std."""
    released, noise_std = budget.release(release, total, level, rounding=users.rounding)
    return released / users.n_users, noise_std / users.n_users


def _mean_rows(batch: UserBatch) -> np.ndarray:
    """Return the mean row of each user; `is_row` is 0 for rows that only pad the user's own."""
    sums = batch.is_row[:, np.newaxis, :] @ batch.rows
    return np.asarray(sums[:, 0] / batch.counts[:, np.newaxis])


def mean_responses(batch: UserBatch) -> np.ndarray:
    """Return the mean response of each user."""
    sums = batch.is_row[:, np.newaxis, :] @ batch.responses[:, :, np.newaxis]
    return np.asarray(sums[:, 0, 0] / batch.counts)


# ------------------------------
# Users' levels: how far their mean responses differ beyond what their rows explain.

_LEVEL_QUANTILE = 0.6  # not studied
# A search rounds up to a grid point: this many times the geometric mean of that point and the last.
_ABOVE = 2.0**0.25  # not tuned
# Half the spacing of the square roots of `PARTS`: a search rounds them up by this on average.
_HALF_A_PART = 0.5 / len(plans.PARTS)  # not tuned
_LEAST_RESPONSE_VARIANCE = 1e-200  # not tuned


@dataclass(frozen=True)
class UserLevels:
    """Variances of responses: between the levels of users, and within users around their levels."""

    between: float = 0.0
    within: float = 1.0

    def of_users(self, batch: UserBatch) -> np.ndarray:
        """Estimate the level of each user: the mean response, shrunk."""
        factors = self.between / (self.between + self.within / batch.counts)
        return np.asarray(factors * mean_responses(batch))


def release_user_levels(
    plan: tuple[Search, ...], users: Users, row_count: float, budget: PrivacyBudget
) -> UserLevels:
    """Release the variances of responses between users and within users."""
    means, parts = users.map_users(_means_and_parts).T
    level = budget.quantile(plan[0], means, q=_LEVEL_QUANTILE) / _ABOVE
    within_part = (math.sqrt(budget.quantile(plan[1], parts, q=0.5)) - _HALF_A_PART) ** 2
    variance = (level / float(ndtri((1 + _LEVEL_QUANTILE) / 2))) ** 2
    if row_count == 1:  # Only users with more rows show levels, and few have more.
        within_part = 1.0
    within = max(max(row_count, 2.0) * within_part * variance, _LEAST_RESPONSE_VARIANCE)
    return UserLevels((1 - within_part) * variance, within)


def _means_and_parts(batch: UserBatch) -> np.ndarray:
    r"""Return the size of each user's mean response, and the within-user part of its square.

    The mean of m responses has the variance M = b + w / m, with the variances b between users and w
    within users. The mean square less the squared mean is :math:`(w / m) \chi^2_{m-1}`. Divided by
    the squared mean, it is :math:`u (m - 1) F_{m-1, 1}` with the part u = w / (m M).
    """
    means = np.abs(mean_responses(batch))
    rests = np.maximum(np.square(root_mean_squares(batch)) - np.square(means), 0.0)
    m = np.maximum(batch.counts, 2.0)
    usual = (m - 1) * fdtri(m - 1, 1.0, 0.5) * np.square(means)
    # Parts are limited to 1, the last point of `PARTS`, as division by a mean of 0 would overflow.
    parts = rests / np.maximum(np.maximum(usual, rests), _LEAST_RESPONSE_VARIANCE)
    # A user with a single response shows no part, and counts as 1.
    return np.column_stack([means, np.where(batch.counts > 1, parts, 1.0)])


def root_mean_squares(batch: UserBatch) -> np.ndarray:
    """Return the root mean square of each user's responses."""
    return np.asarray(np.sqrt(row_squares(batch.responses) / batch.counts))


# ------------------------------
# A map that whitens features, from the users' second moments.

# Fraction of users whose second moments are clipped. Clipping harms a mean model more: its fraction
# is `_WANTED_BIAS` divided by the signal strength, within the limits `_CLIPPED_OF_POOLED`.
# benchmarks/personalization/real_data.md
_CLIPPED, _CLIPPED_OF_POOLED, _WANTED_BIAS = 0.5, (0.02, 0.5), 25.0
_CERTAINTY = 3.0  # not studied
# A feature is small if its variance is below this fraction of the largest: not studied.
_SMALL = 0.1
_HIDDEN = (
    "Noise hides the variances of the features, which are assumed to be uncorrelated and of "
    "variance 1. Pass a larger epsilon or more users, or decorrelate=False if the assumption is "
    "true."
)


def release_user_whitening(
    plan: ClippedSum, users: Users, budget: PrivacyBudget, *, is_pooled: bool
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Release the mean of users' second moments; return its inverse root, with noise removed.

    The root is the identity if noise hides even the mean variance of all features.
    """
    norms, n_features, fraction = users.map_users(moment_norms), users.n_features, _CLIPPED
    if is_pooled:
        strength = users.n_users * budget.cost.mu / math.sqrt(n_features)
        fraction = clipped_fraction(strength, _WANTED_BIAS, _CLIPPED_OF_POOLED)
    level = plans.release_level(plan.norm, norms, 1 - fraction, budget)
    weights = clip_weights(norms, level, n_features**2)

    def _weighted_moment(_: slice, batch: UserBatch) -> np.ndarray:
        scaled = batch.rows * (weights[batch.slots] / batch.counts)[:, np.newaxis, np.newaxis]
        return scaled.reshape(-1, n_features).T @ batch.rows.reshape(-1, n_features)

    total = users.map_sum(_weighted_moment, n_features**2)
    released, noise_std = _release_mean(plan.total, total, level, users, budget)
    variances, edge = np.diagonal(released), noise_std * np.sqrt(2 * n_features)
    if variances.mean() <= _CERTAINTY * noise_std / np.sqrt(n_features):
        return np.eye(n_features), (_HIDDEN,)
    is_lost = (variances < edge) & (variances + 2 * noise_std < _SMALL * variances.max())
    n_lost = int(np.count_nonzero(is_lost))
    warning = (
        f"{n_lost} of {n_features} features hardly take part in the fit: they are too small "
        "beside the others to stand out from noise. If the units of features differ, or some lie "
        "far from 0, put DPStandardScaler(privacy_unit='user') before this step in a DPPipeline, "
        "in which it has require_groups=True, "
        "or divide them by public guesses of their spreads. Columns that are seldom other than 0 "
        "need more users."
    )
    return whitening_of(released, noise_std)[0], (warning,) if n_lost else ()


def moment_norms(batch: UserBatch) -> np.ndarray:
    r"""Return the Frobenius norm of :math:`X_j^T X_j / m_j` for each user.

    :math:`X_j X_j^T / m_j` has the same norm; the smaller matrix is formed.
    """
    rows, across = batch.rows, batch.rows.transpose(0, 2, 1)
    products = rows @ across if rows.shape[1] <= rows.shape[2] else across @ rows
    return row_norms(products.reshape(len(products), -1)) / batch.counts


# ------------------------------
# The start: directions in which users differ, by a noisy second moment.

_PRODUCT_QUANTILE, _HEAD_QUANTILE = 0.3, 0.6  # not studied
# The variance of each component is at least this fraction of the largest: not studied.
_LEAST_VARIANCE = 0.1
# Least noise variance of a response, as a fraction of the variance of predictions: from noisy
# eigenvalues, which may make the noise seem far too small, so that heads would follow noise; and
# from exact ones. Not studied.
_LEAST_NOISE, _LEAST_OF_EXACT = 0.15, 0.01
_INTERCEPT_VARIANCE = 0.05  # not studied
_TINY = 1e-200


@dataclass(frozen=True)
class Start:
    """The prior at which steps start, and the released mean from which its mean model follows."""

    prior: Prior
    # Mean of users' products of rows and responses.
    mean_products: np.ndarray
    # Standard deviation of the error of `mean_products`, along each direction.
    mean_noise_std: float
    # Typical number of rows of a user.
    row_count: float
    # Smallest eigenvalue of a component, relative to the largest of the noise.
    snr: float

    def with_basis(self, basis: np.ndarray) -> "Start":
        """Return the start with another basis."""
        mean = _shrunk_mean(basis, self.mean_products, self.mean_noise_std)
        return replace(self, prior=replace(self.prior, basis=basis, mean=mean))


def _shrunk_mean(basis: np.ndarray, mean_products: np.ndarray, noise_std: float) -> np.ndarray:
    """Return the mean model: mean products, shrunk separately inside and outside the basis."""
    inside = basis @ (basis.T @ mean_products)
    size, k = basis.shape
    outside = plans.above_noise(mean_products - inside, noise_std, plans.MEAN_CERTAINTY, size - k)
    return plans.above_noise(inside, noise_std, plans.MEAN_CERTAINTY, k) + outside


def release_mean_model(
    spec: PersonalSpec, plan: MeanReleases, users: Users, budget: PrivacyBudget
) -> Start:
    """Release the mean of users' products of rows and responses: one model for all."""
    products, size = _products_and_size(plan.product_norm, users, UserLevels(), budget)
    mean = _mean_of_products(spec, plan.mean_products, products, size, users, budget)
    basis = np.zeros((users.n_features, 0))
    prior = Prior(_shrunk_mean(basis, *mean), basis, np.zeros(0), 0.0, 1.0)
    return Start(prior, *mean, 1.0, 0.0)


def release_start(
    spec: PersonalSpec,
    plan: HeadReleases,
    users: Users,
    row_count: float,
    levels: UserLevels,
    budget: PrivacyBudget,
) -> Start:
    r"""Release the second moment of users' products and their mean; return the prior to start from.

    For uncorrelated rows of a user with coefficients :math:`\theta_j` the product
    :math:`s_j = X_j^T y_j / m_j` of rows and responses has the mean :math:`\theta_j`. The mean of
    :math:`s_j s_j^T` is :math:`\theta_j \theta_j^T` times a number near 1, plus a multiple of the
    identity. The leading eigenvectors of its sum over users are the representation. Unlike the
    published initialization (P. Jain, J. Rush, A. Smith, S. Song, A. Guha Thakurta, 2021,
    "Differentially private model personalization", NeurIPS), this one clips users, not pairs of
    rows, and uses all rows together.
    """
    products, size = _products_and_size(plan.product_norm, users, levels, budget)
    level = plans.level_with_noise(size, budget)
    total = plans.clipped_sum(products, level, is_moment=True)
    moment, noise_std = _release_mean(plan.products, total, level, users, budget)
    mean = np.zeros(users.n_features), 0.0
    if plan.mean_products is not None:
        mean = _mean_of_products(spec, plan.mean_products, products, size, users, budget)
    spread = moment - _outer_of_mean(moment, *mean)
    prior, snr = _prior_from_moment(spread, noise_std, mean, row_count, spec)
    # Clipped products show too little variance, which would make gradient steps too long, so a
    # released factor corrects all variances.
    sizes = users.map_users(partial(_head_sizes, prior=prior))
    expected = np.sqrt(prior.variances.sum())
    factor = budget.quantile(plan.head_norm, sizes / expected, q=_HEAD_QUANTILE) ** 2
    prior = replace(
        prior,
        variances=factor * prior.variances,
        intercept_variance=max(factor * prior.intercept_variance, levels.between),
        noise_variance=factor * prior.noise_variance,
    )
    return Start(prior, *mean, row_count, snr)


def _products_and_size(
    search: Search, users: Users, levels: UserLevels, budget: PrivacyBudget
) -> tuple[np.ndarray, float]:
    """Compute users' mean products of rows and responses; release a quantile of their norms."""
    products = users.map_users(partial(_products, levels=levels))
    return products, budget.quantile(search, row_norms(products), q=_PRODUCT_QUANTILE)


def _products(batch: UserBatch, levels: UserLevels) -> np.ndarray:
    """Return each user's mean product of rows and responses, without the user's level."""
    responses = batch.responses
    if levels.between > 0:
        responses = responses - levels.of_users(batch)[:, np.newaxis] * batch.is_row
    sums = batch.rows.transpose(0, 2, 1) @ responses[:, :, np.newaxis]
    return sums[:, :, 0] / batch.counts[:, np.newaxis]


def _mean_of_products(
    spec: PersonalSpec,
    release: Release,
    products: np.ndarray,
    size: float,
    users: Users,
    budget: PrivacyBudget,
) -> tuple[np.ndarray, float]:
    """Release the mean of clipped products, and the std of its errors along each direction."""
    level = plans.level_with_noise(size * plans.mean_clip(spec), budget)
    total = plans.clipped_sum(products, level)
    mean, noise_std = _release_mean(release, total, level, users, budget)
    # Beside the noise, the mean has a sampling error, in random directions.
    error = size / np.sqrt(users.n_users * users.n_features)
    return mean, float(np.hypot(noise_std, error))


def _prior_from_moment(
    moment: np.ndarray,
    noise_std: float,
    mean: tuple[np.ndarray, float],
    row_count: float,
    spec: PersonalSpec,
) -> tuple[Prior, float]:
    """Estimate a prior, and the signal-to-noise ratio of its weakest component, from a moment."""
    k, n_features = spec.n_components, len(moment)
    values, vectors = np.linalg.eigh(moment)
    # Contiguous, so that products with the basis round like products with a copy of it.
    values, basis = values[::-1], np.ascontiguousarray(vectors[:, ::-1][:, :k])
    # If the basis spans all directions, half of the smallest eigenvalue counts as noise.
    bulk = float(values[k:].mean()) if k < n_features else float(values[-1]) / 2
    largest = max(float(values[0]) - bulk, _TINY)
    variances = np.maximum(values[:k] - bulk, _LEAST_VARIANCE * largest)
    total = float(variances.sum())
    least = _LEAST_NOISE if noise_std > 0 else _LEAST_OF_EXACT
    noise_variance = max(bulk * row_count - total, least * total)
    intercept = _INTERCEPT_VARIANCE * total / k if spec.fit_intercept else 0.0
    edge = noise_std * np.sqrt(2 * n_features)
    snr = float((values[k - 1] - bulk) / edge) if edge > 0 else np.inf
    return Prior(_shrunk_mean(basis, *mean), basis, variances, intercept, noise_variance), snr


def _outer_of_mean(moment: np.ndarray, mean: np.ndarray, noise_std: float) -> np.ndarray:
    """Return the part of the moment that the mean explains, at most the moment in its direction."""
    value = plans.above_noise(mean, noise_std, 0.0, len(moment))
    square = float(value @ value)
    if square == 0:
        return np.zeros_like(moment)
    direction = value / np.sqrt(square)
    along = float(direction @ moment @ direction)
    typical = float(np.median(np.linalg.eigvalsh(moment)))
    return np.outer(direction, direction) * min(square, max(along - typical, 0.0))


def _head_sizes(batch: UserBatch, prior: Prior) -> np.ndarray:
    """Return the norm of each user's coefficients in the basis."""
    features, responses = features_of(batch, prior)
    heads = ridge_coefficients(features, responses, prior.noise_variance)
    return row_norms(heads[:, : len(prior.variances)] * np.sqrt(prior.variances))


def features_of(batch: UserBatch, prior: Prior) -> tuple[np.ndarray, np.ndarray]:
    """Return features with coefficients of prior variance 1, and responses less the mean model."""
    both = batch.rows @ np.column_stack([prior.root(), prior.mean])
    responses = batch.responses - both[:, :, -1]
    if prior.intercept_variance == 0:
        return both[:, :, :-1], responses
    both[:, :, -1] = np.sqrt(prior.intercept_variance) * batch.is_row
    return both, responses
