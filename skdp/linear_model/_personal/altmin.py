r"""Alternating minimization on perturbed normal equations, user by user [1]_.

With all heads :math:`v_j` fixed the best representation solves a linear system in its d k entries,

.. math:: \sum_j (v_j v_j^T) \otimes \frac{X_j^T X_j}{m_j}\, \mathrm{vec}\,U
          = \sum_j \mathrm{vec}\Big(\frac{X_j^T y_j}{m_j} v_j^T\Big),

and each step releases both sides. Unlike the published method, every step uses all rows of all
users. It clips each user as a whole, both sides by the same factor. Unless there are very many
users, noise makes the system indefinite, so a step raises small eigenvalues before it solves it.

References
----------
.. [1] P. Jain, J. Rush, A. Smith, S. Song, A. Guha Thakurta (2021). "Differentially private model
   personalization". NeurIPS.
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from skdp.data.users import UserBatch, Users, map_batch
from skdp.linalg.norms import row_norms
from skdp.linear_model._personal.gradient import oriented_basis
from skdp.linear_model._personal.levels import loses_digits, release_level
from skdp.linear_model._personal.model import Prior
from skdp.linear_model._personal.plan import AltminReleases
from skdp.linear_model._personal.ridge import ridge_coefficients
from skdp.linear_model._personal.start import Start, features_of
from skdp.linear_model._personal.whitening import moment_norms
from skdp.privacy import PrivacyBudget
from skdp.privacy.clipping import clip_weights

_QUANTILE = 0.5  # not studied


class _Terms(NamedTuple):
    """Factors and norms of the terms that the users of a batch add to the normal equations."""

    heads: np.ndarray
    products: np.ndarray
    matrix_norms: np.ndarray
    product_norms: np.ndarray


def alternate(plan: AltminReleases, start: Start, users: Users, budget: PrivacyBudget) -> Start:
    """Run all steps, whatever the data."""
    levels = _release_levels(plan, users, start, budget)
    for of_matrix, of_sides in plan.steps:
        total, products = _clipped_sums(users, start.prior, levels)
        matrix, noise_std = budget.release(of_matrix, total, levels[0], rounding=users.rounding)
        sides, _ = budget.release(of_sides, products, levels[1], rounding=users.rounding)
        solved = _floored_solution(matrix, sides, noise_std)
        basis = solved.reshape(start.prior.basis.shape, order="F")
        start = start.with_basis(oriented_basis(basis))
    return start


def _release_levels(
    plan: AltminReleases, users: Users, start: Start, budget: PrivacyBudget
) -> tuple[float, float]:
    """Release the clip levels of both sides, once for all steps, as heads keep their scale."""
    norms = users.map_users(partial(_norms, prior=start.prior))
    matrix = release_level(plan.matrix_norm, norms[:, 0], _QUANTILE, budget)
    return matrix, release_level(plan.product_norm, norms[:, 1], _QUANTILE, budget)


def _norms(batch: UserBatch, prior: Prior) -> np.ndarray:
    return np.column_stack(_terms(batch, prior)[2:])


def _terms(batch: UserBatch, prior: Prior) -> _Terms:
    """Fit the heads of a batch, and compute their terms of the normal equations."""
    features, responses = features_of(batch, prior)
    heads = ridge_coefficients(features, responses, prior.noise_variance)
    k = len(prior.variances)
    # The representation need not explain what intercepts do.
    of_intercepts = features[:, :, k:] @ heads[:, k:, np.newaxis]
    responses = responses - of_intercepts[:, :, 0]
    products = (responses[:, np.newaxis] @ batch.rows)[:, 0] / batch.counts[:, np.newaxis]
    heads = heads[:, :k] * np.sqrt(prior.variances)
    head_norms, moments, sizes = row_norms(heads), moment_norms(batch), row_norms(products)
    # Such users contribute nothing: a product of norms that lost digits would bound nothing.
    is_extreme = loses_digits(head_norms) | loses_digits(moments) | loses_digits(sizes)
    matrix_norms = np.where(is_extreme, np.inf, np.square(head_norms) * moments)
    product_norms = np.where(is_extreme, np.inf, head_norms * sizes)
    return _Terms(heads, products, matrix_norms, product_norms)


def _clipped_sums(
    users: Users, prior: Prior, levels: tuple[float, float]
) -> tuple[np.ndarray, np.ndarray]:
    """Sum both sides over users, each clipped as a whole."""
    size, k = prior.basis.shape
    kernel = partial(_clipped, prior=prior, levels=levels)
    matrix, products = users.map_sum(kernel, (size * k) ** 2 + size * k)
    return matrix.reshape(size * k, size * k), products.ravel()


def _clipped(
    _: slice, batch: UserBatch, prior: Prior, levels: tuple[float, float]
) -> tuple[np.ndarray, np.ndarray]:
    """Sum the terms of the users of a batch, a pair of components at a time."""
    size, k = prior.basis.shape
    terms = map_batch(partial(_terms, prior=prior), batch)
    weights = np.minimum(
        clip_weights(terms.matrix_norms, levels[0], (size * k) ** 2),
        clip_weights(terms.product_norms, levels[1], size * k),
    )
    # Values that overflow have the weight 0, and 0 times infinity would be NaN.
    is_null = weights == 0
    terms.heads[is_null], terms.products[is_null] = 0.0, 0.0
    weighted = weights[:, np.newaxis] * terms.heads
    matrix, rows = np.empty((k, size, k, size)), batch.rows.reshape(-1, size)
    for i, j in np.ndindex(k, k):
        factors = weighted[:, i] * terms.heads[:, j] / batch.counts
        scaled = batch.rows * factors[:, np.newaxis, np.newaxis]
        matrix[i, :, j] = scaled.reshape(-1, size).T @ rows
    return matrix, weighted.T @ terms.products


def _floored_solution(matrix: np.ndarray, sides: np.ndarray, noise_std: float) -> np.ndarray:
    """Solve a system in which noise may have made some eigenvalues small or negative."""
    values, vectors = np.linalg.eigh(matrix)
    floor = max(noise_std * np.sqrt(2 * len(values)), 1e-12 * float(values[-1]), 1e-200)
    solution: np.ndarray = vectors @ ((vectors.T @ sides) / np.maximum(values, floor))
    return solution
