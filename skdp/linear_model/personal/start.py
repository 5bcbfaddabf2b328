"""The model of a personal regression, and the releases of the fit before its steps."""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.special import fdtri, ndtri

from skdp.data.parts import Targets
from skdp.data.rows import Rows
from skdp.data.sources import as_source
from skdp.data.users import UserBatch, Users
from skdp.linalg.norms import aligned, row_norms, row_squares
from skdp.linear_model._descent import clipped_fraction, median_of_responses
from skdp.linear_model.low_rank.records import whitening_of
from skdp.linear_model.personal import plan as plans
from skdp.linear_model.personal.plan import ClippedSum, HeadReleases, PersonalSpec
from skdp.privacy import PrivacyBudget, Release
from skdp.privacy.clipping import clip_weights
from skdp.privacy.releases import Search

# ------------------------------
# The released model and its prior of users' coefficients.


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
    # Fraction of the total variance that is spread evenly over all directions.
    mix: float = 0.0

    @property
    def spread(self) -> float:
        """Variance along each direction if the total variance is spread over all directions."""
        return float(self.variances.sum()) / len(self.basis)

    def changed(self, mix: float, noise_factor: float) -> "Prior":
        """Return a prior with this mix, and with the noise variance multiplied by a factor."""
        return replace(self, mix=mix, noise_variance=noise_factor * self.noise_variance)

    def root(self) -> np.ndarray:
        """Return a root of the covariance: a column per component or, with a mix, per feature."""
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
    # Signal of the weakest component, over the largest eigenvalue of the noise.
    snr: float
    warnings: tuple[str, ...] = ()


# ------------------------------
# Ridge regressions for many users at once, each from the user's own rows.

# None of the following regressions raises an error, as one user would stop a whole batch. Values
# that overflow become 0, and matrices are made definite before they are inverted.

# Fraction of a matrix's trace that is added to its diagonal, so that the matrix is definite: far
# above rounding errors, too small to matter.
_RIDGE = 1e-11  # not tuned


def ridge_coefficients(
    features: np.ndarray, responses: np.ndarray, penalty: float, ridge: float = _RIDGE
) -> np.ndarray:
    """Compute the coefficients of each user; 0 where products overflow.

    `features` has the shape (n_users, n_rows, n_features), `responses` the shape (n_users, n_rows).
    """
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

    `kernels` has the prior covariance of each user's predictions. Errors that overflow are 0.
    """
    # Residual i, if response i is left out: (K^-1 y)_i / (K^-1)_ii, with K = kernel + penalty * I.
    inverses = _inverses(kernels, penalty)
    weighted = (inverses @ responses[:, :, None])[:, :, 0]
    residuals = weighted / np.diagonal(inverses, axis1=1, axis2=2)
    return _finite(row_squares(residuals) / counts)


def leave_one_out_errors_by_features(
    features: np.ndarray, responses: np.ndarray, counts: np.ndarray, penalty: float
) -> np.ndarray:
    """Compute leave-one-out errors of users from features: faster with fewer features than rows."""
    columns = features.transpose(0, 2, 1)
    inner = features @ _inverses(columns @ features, penalty)
    predicted = (inner @ (columns @ responses[:, :, None]))[:, :, 0]
    leverages = np.einsum("bij,bij->bi", inner, features)
    return _finite(row_squares((responses - predicted) / (1 - leverages)) / counts)


def _solved(matrices: np.ndarray, sides: np.ndarray, penalty: float, ridge: float) -> np.ndarray:
    """Solve positive definite systems of many users; those that overflow have the solution 0."""
    is_bad = _make_definite(matrices, penalty, ridge) | ~np.isfinite(sides).all(axis=(1, 2))
    if is_bad.any():
        sides = np.where(is_bad[:, None, None], 0.0, sides)
    return _finite(np.linalg.solve(matrices, sides))


def _inverses(matrices: np.ndarray, penalty: float) -> np.ndarray:
    _make_definite(matrices, penalty, _RIDGE)
    return np.linalg.inv(matrices)


def _make_definite(matrices: np.ndarray, penalty: float, ridge: float) -> np.ndarray:
    """Add a penalty to Gram matrices, in place; set those that overflow to 0, and return a mask."""
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


# ------------------------------
# Centers of rows and responses, from the means of users.

# Means of users are clipped to this quantile of their norms.
_CENTER_QUANTILE = 0.6  # not studied
# A mean of responses becomes 0 if it is below `_LEAST_NOISE_OF_MEANS` standard deviations of its
# noise. Up to twice as many, the mean also becomes 0 if it is below `_LEAST_LEVEL` times the clip
# level. Not studied.
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
    """Release the median, or the mean, of users' mean responses; set a mean of noise to 0."""
    means = users.map_users(mean_responses)
    if not isinstance(plan, ClippedSum):
        view = Rows(as_source(means[:, np.newaxis]))
        return median_of_responses(plan, Targets.of(means), budget, view)
    level = plans.release_level(plan.norm, np.abs(means), _CENTER_QUANTILE, budget)
    total = plans.clipped_sum(means[:, np.newaxis], level)[0]
    released, noise_std = _release_mean(plan.total, total, level, users, budget)
    center, least = float(released), _LEAST_NOISE_OF_MEANS * noise_std
    return center if abs(center) > max(least, min(_LEAST_LEVEL * level, 2 * least)) else 0.0


def _release_mean(
    release: Release, total: Any, level: float, users: Users, budget: PrivacyBudget
) -> tuple[Any, float]:
    """Release a sum over users; return the mean and the standard deviation of its noise."""
    return budget.release(release, total, level, rounding=users.rounding).mean(users.n_users)


def _mean_rows(batch: UserBatch) -> np.ndarray:
    """Return the mean row of each user."""
    # `is_row` is 0 for rows that only pad the user's own.
    sums = batch.is_row[:, np.newaxis, :] @ batch.rows
    return np.asarray(sums[:, 0] / batch.counts[:, np.newaxis])


def mean_responses(batch: UserBatch) -> np.ndarray:
    """Return the mean response of each user."""
    sums = batch.is_row[:, np.newaxis, :] @ batch.responses[:, :, np.newaxis]
    return np.asarray(sums[:, 0, 0] / batch.counts)


# ------------------------------
# Users' levels: how far their mean responses differ beyond what their rows explain.

# Released quantile of the sizes of users' mean responses.
_LEVEL_QUANTILE = 0.6  # not studied
# A search rounds a size up to a grid point, on average by this factor.
_ABOVE = 2.0**0.25  # not tuned
# A search rounds a fraction up to a point of the grid `PARTS`. On average, this adds to the root of
# the fraction this number, half of the spacing of the roots.
_HALF_A_PART = 0.5 / len(plans.PARTS)  # not tuned
_LEAST_RESPONSE_VARIANCE = 1e-200  # not tuned


@dataclass(frozen=True)
class UserLevels:
    """How responses vary, between users and among the rows of a user; and how many rows users have.

    The level of a user is the mean that its responses would have with very many rows.
    """

    between: float = 0.0  # variance of the levels of users
    within: float = 1.0  # variance of the responses of a user around its level
    row_count: float = 1.0  # typical number of rows of a user


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
    return UserLevels((1 - within_part) * variance, within, row_count)


def _means_and_parts(batch: UserBatch) -> np.ndarray:
    r"""Return the size of each user's mean response, and a part u of the variance of this mean.

    The mean of a user's m responses has the variance M = b + w / m, with the variances b between
    users and w within users; u = w / (m M) is the fraction due to the variance within. The mean
    square of the responses less their squared mean is distributed as :math:`(w / m) \chi^2_{m-1}`.
    Divided by the squared mean, it is distributed as :math:`u (m - 1) F_{m-1, 1}`, which gives u.
    """
    means = np.abs(mean_responses(batch))
    rests = np.maximum(np.square(root_mean_squares(batch)) - np.square(means), 0.0)
    m = np.maximum(batch.counts, 2.0)
    usual = (m - 1) * fdtri(m - 1, 1.0, 0.5) * np.square(means)
    # Fractions are cut to 1, as division by a mean of 0 would overflow.
    parts = rests / np.maximum(np.maximum(usual, rests), _LEAST_RESPONSE_VARIANCE)
    # A single response does not show the fraction, and counts as 1.
    return np.column_stack([means, np.where(batch.counts > 1, parts, 1.0)])


def root_mean_squares(batch: UserBatch) -> np.ndarray:
    """Return the root mean square of each user's responses."""
    return np.asarray(np.sqrt(row_squares(batch.responses) / batch.counts))


# ------------------------------
# A map that whitens features, from the users' second moments.

# Fraction of users whose second moments are clipped. If only a mean model is fitted, clipping does
# more harm, so the fraction is `_WANTED_BIAS` over the strength of the signal, within the limits
# `_CLIPPED_OF_POOLED`.
# benchmarks/personalization/real_data.md
_CLIPPED, _CLIPPED_OF_POOLED, _WANTED_BIAS = 0.5, (0.02, 0.5), 25.0
# The mean variance of all features is visible above this many standard deviations of its noise.
_CERTAINTY = 3.0  # not studied
# A feature is small if its variance is below this fraction of the largest variance: not studied.
_SMALL = 0.1
_HIDDEN_VARIANCES = (
    "Noise hides the variances of the features, which are assumed to be uncorrelated and of "
    "variance 1. Pass a larger epsilon or more users, or decorrelate=False if the assumption is "
    "true."
)


def release_user_whitening(
    plan: ClippedSum, users: Users, budget: PrivacyBudget, *, is_pooled: bool
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Release the mean of users' second moments; return its inverse root, which whitens rows.

    Noise is removed from the eigenvalues. If noise hides even the mean variance of all features,
    return the identity. Return also warnings.
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
        return np.eye(n_features), (_HIDDEN_VARIANCES,)
    is_lost = (variances < edge) & (variances + 2 * noise_std < _SMALL * variances.max())
    n_lost = int(np.count_nonzero(is_lost))
    warning = (
        f"{n_lost} of {n_features} features hardly take part in the fit, as noise hides them. If "
        "their units differ, or some lie far from 0, put DPStandardScaler(privacy_unit='user') "
        "before this step, with require_groups=True, in a DPPipeline, or divide features by public "
        "guesses of their spreads. Features that are mostly 0 need more users."
    )
    return whitening_of(released, noise_std)[0], (warning,) if n_lost else ()


def moment_norms(batch: UserBatch) -> np.ndarray:
    r"""Return the Frobenius norm of :math:`X_j^T X_j / m_j` for each user.

    :math:`X_j X_j^T / m_j` has the same norm, so the smaller one of the two matrices is computed.
    """
    rows, across = batch.rows, batch.rows.transpose(0, 2, 1)
    products = rows @ across if rows.shape[1] <= rows.shape[2] else across @ rows
    return row_norms(products.reshape(len(products), -1)) / batch.counts


# ------------------------------
# The start: directions in which users differ, by a noisy second moment.

# Released quantiles of the norms of users' products of rows and responses, and of users' heads.
_PRODUCT_QUANTILE, _HEAD_QUANTILE = 0.3, 0.6  # not studied
# The variance of each component is at least this fraction of the largest: not studied.
_LEAST_VARIANCE = 0.1
# Least noise variance of a response, relative to the variance of predictions: `_LEAST_NOISE` if it
# is estimated from noisy eigenvalues, so high that heads never follow noise, and `_LEAST_OF_EXACT`
# from exact eigenvalues. Not studied.
_LEAST_NOISE, _LEAST_OF_EXACT = 0.15, 0.01
# First variance of intercepts, relative to the mean variance of a component.
_INTERCEPT_VARIANCE = 0.05  # not studied
_TINY = 1e-200  # not tuned


@dataclass(frozen=True)
class Start:
    """The prior of users' coefficients with which steps start, and released values behind it."""

    prior: Prior
    # Mean of users' products of rows and responses.
    mean_products: np.ndarray
    # Standard deviation of the error of `mean_products`, along each direction.
    mean_error: float
    # Typical number of rows of a user.
    row_count: float
    # Signal of the weakest component, over the largest eigenvalue of the noise.
    snr: float

    def with_basis(self, basis: np.ndarray) -> "Start":
        """Return the start with another basis, and the mean model that follows from it.

        The mean model is `mean_products`, shrunk by its error: the parts in the span of the basis
        and outside of it separately.
        """
        inside, (size, k) = basis @ (basis.T @ self.mean_products), basis.shape
        error, certainty = self.mean_error, plans.MEAN_CERTAINTY
        outside = plans.above_noise(self.mean_products - inside, error, certainty, size - k)
        mean = plans.above_noise(inside, error, certainty, k) + outside
        return replace(self, prior=replace(self.prior, basis=basis, mean=mean))


def release_mean_model(
    spec: PersonalSpec, plan: ClippedSum, users: Users, budget: PrivacyBudget
) -> Start:
    """Release one model for all users, without a representation.

    It is the mean of the users' products of rows and responses, shrunk.
    """
    products = users.map_users(partial(_products, levels=UserLevels()))
    size = budget.quantile(plan.norm, row_norms(products), q=_PRODUCT_QUANTILE)
    mean, error = _mean_of_products(spec, plan.total, products, size, users, budget)
    prior = Prior(mean, np.zeros((users.n_features, 0)), np.zeros(0), 0.0, 1.0)
    return Start(prior, mean, error, row_count=1.0, snr=0.0).with_basis(prior.basis)


def release_start(
    spec: PersonalSpec, plan: HeadReleases, users: Users, levels: UserLevels, budget: PrivacyBudget
) -> Start:
    r"""Release the prior to start from: a representation, variances and a mean model.

    For uncorrelated rows :math:`X_j` of a user with coefficients :math:`\theta_j`, the product
    :math:`s_j = X_j^T y_j / m_j` of rows and responses has the mean :math:`\theta_j`. The mean of
    :math:`s_j s_j^T` is :math:`\theta_j \theta_j^T` times a number near 1, plus a multiple of the
    identity. So the leading eigenvectors of the sum of :math:`s_j s_j^T` over users are the
    representation. Unlike the published initialization (P. Jain, J. Rush, A. Smith, S. Song, A.
    Guha Thakurta, 2021, "Differentially private model personalization", NeurIPS), this one clips
    users, not pairs of rows, and uses all rows together.
    """
    products = users.map_users(partial(_products, levels=levels))
    size = budget.quantile(plan.product_norm, row_norms(products), q=_PRODUCT_QUANTILE)
    level = plans.level_with_noise(size, budget)
    total = plans.clipped_sum(products, level, is_moment=True)
    moment, noise_std = _release_mean(plan.products, total, level, users, budget)
    mean, error = np.zeros(users.n_features), 0.0
    if plan.mean_products is not None:
        mean, error = _mean_of_products(spec, plan.mean_products, products, size, users, budget)
    moment = moment - _outer_of_mean(moment, mean, error)
    prior, snr = _prior_from_moment(moment, noise_std, levels.row_count, spec)
    start = Start(prior, mean, error, levels.row_count, snr).with_basis(prior.basis)
    prior = start.prior
    # Clipped products have too small variances, which would make gradient steps too long. A
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
    return replace(start, prior=prior)


def _products(batch: UserBatch, levels: UserLevels) -> np.ndarray:
    """Return each user's mean product of rows and responses minus the user's level."""
    responses = batch.responses
    if levels.between > 0:
        # The level of a user is estimated by its mean response, shrunk by the sampling error.
        factors = levels.between / (levels.between + levels.within / batch.counts)
        of_users = factors * mean_responses(batch)
        responses = responses - of_users[:, np.newaxis] * batch.is_row
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
    """Release the mean of users' clipped products; return also its error, of noise and sampling.

    The error is a standard deviation along each direction.
    """
    level = plans.level_with_noise(size * plans.mean_clip(spec), budget)
    total = plans.clipped_sum(products, level)
    mean, noise_std = _release_mean(release, total, level, users, budget)
    # Sampling error of the mean, along each direction.
    error = size / np.sqrt(users.n_users * users.n_features)
    return mean, float(np.hypot(noise_std, error))


def _prior_from_moment(
    moment: np.ndarray, noise_std: float, row_count: float, spec: PersonalSpec
) -> tuple[Prior, float]:
    """Estimate a prior, and the signal-to-noise ratio of its weakest component, from eigenvalues.

    `moment` is the noisy second moment of users' products of rows and responses around their mean.
    The mean model of the prior is 0.
    """
    k, n_features = spec.n_components, len(moment)
    values, vectors = np.linalg.eigh(moment)
    # A contiguous basis, so that products with it round like products with a copy.
    values, basis = values[::-1], np.ascontiguousarray(vectors[:, ::-1][:, :k])
    # The mean of all further eigenvalues is noise or, if there are none, half of the smallest.
    bulk = float(values[k:].mean()) if k < n_features else float(values[-1]) / 2
    largest = max(float(values[0]) - bulk, _TINY)
    variances = np.maximum(values[:k] - bulk, _LEAST_VARIANCE * largest)
    total = float(variances.sum())
    least = _LEAST_NOISE if noise_std > 0 else _LEAST_OF_EXACT
    noise_variance = max(bulk * row_count - total, least * total)
    intercept = _INTERCEPT_VARIANCE * total / k if spec.fit_intercept else 0.0
    edge = noise_std * np.sqrt(2 * n_features)
    snr = float((values[k - 1] - bulk) / edge) if edge > 0 else np.inf
    return Prior(np.zeros(n_features), basis, variances, intercept, noise_variance), snr


def _outer_of_mean(moment: np.ndarray, mean: np.ndarray, noise_std: float) -> np.ndarray:
    """Return the part of the second moment that the mean explains, its outer product.

    Noise is removed from the mean. Along the mean, the part is at most the variance of the moment
    beyond the median eigenvalue.
    """
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
    """Return scaled features, and responses less the predictions of the mean model.

    Features are rows times the prior's root, so that their coefficients have the prior variance 1;
    a last feature is for the intercept, if it has a variance.
    """
    both = batch.rows @ np.column_stack([prior.root(), prior.mean])
    responses = batch.responses - both[:, :, -1]
    if prior.intercept_variance == 0:
        return both[:, :, :-1], responses
    both[:, :, -1] = np.sqrt(prior.intercept_variance) * batch.is_row
    return both, responses
