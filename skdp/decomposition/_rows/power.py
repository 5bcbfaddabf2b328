r"""Private block power iteration with clipped projections.

Every step releases :math:`\sum_i x_i \psi_b(V^T x_i)^T` for the basis V released before it, where
:math:`\psi_b` clips to a norm b that is itself released. Rows of norm c then move the step by `c b`
rather than :math:`c^2`, and b is far below c when the rows are spread over many dimensions. The
last steps get most of the budget, as the first ones need only a rough direction. A final release,
of order p + 1, turns the basis to the eigenvectors and gives the spectrum, with the variance
outside for free.

References
----------
M. Hardt, E. Price (2014). "The noisy power method: a meta algorithm with applications". NIPS.
:arxiv:`1311.2495`

J. Nicolas, C. Sabater, M. Maouche, S. Ben Mokhtar, M. Coates (2024). "Differentially private and
decentralized randomized power method". :arxiv:`2411.01931`
"""

from functools import partial

import numpy as np
from scipy.linalg import eigh

from skdp.data.rows import Rows
from skdp.decomposition._factors import Factors
from skdp.decomposition._rows.plan import N_LEVELS, PowerReleases
from skdp.linalg.spectrum import denoise_eigenvalues
from skdp.linalg.subspace import orthonormal_basis, random_basis
from skdp.privacy import PrivacyBudget, Release, Released
from skdp.privacy.clipping import clip_rows
from skdp.privacy.histogram import bin_counts, quantile_from_counts

__all__ = [
    "count_above_noise",
    "release_projected_moment",
    "release_step",
    "solve_power",
    "subsample",
]

_LEVEL_QUANTILE = 0.2  # not studied
_LEVEL_GRID = np.geomspace(0.01, 1.0, N_LEVELS)  # not studied
# Rows whose projections are counted: enough for any noise that leaves the steps usable.
_LEVEL_ROWS = 1 << 14  # not studied


def solve_power(
    rows: Rows, plan: PowerReleases, budget: PrivacyBudget, generator: np.random.Generator
) -> Factors:
    """Find the leading directions of clipped rows: time O(nnz p) a step, memory O(n + d p)."""
    sample = subsample(rows)
    basis = random_basis(rows.n_features, plan.steps[0][1].shape[1], generator)
    for step in plan.steps:
        (noisy, step_noise), rows = release_step(step, rows, sample, budget, basis)
        basis = orthonormal_basis(noisy)
    n_above_noise = count_above_noise(noisy, step_noise)
    return _solve_projected(rows, plan.projected_moment, budget, basis, n_above_noise)


def release_step(
    step: tuple[Release | None, Release],
    rows: Rows,
    sample: Rows,
    budget: PrivacyBudget,
    basis: np.ndarray,
) -> tuple[Released, Rows]:
    """Release the rows times their clipped projections, whose level `sample` tells.

    The rows are returned with their norms, which the next step need not compute.
    """
    of_level, of_product = step
    level = np.inf if of_level is None else release_level(of_level, sample, budget, basis)
    product, rounding, rows = rows.normal_product(basis, partial(clip_rows, bound=level))
    return budget.release(of_product, product, rows.bound, level, rounding=rounding), rows


def count_above_noise(noisy: np.ndarray, noise_std: float) -> int:
    """Count the singular values that are larger than those of noise alone."""
    edge = noise_std * np.sum(np.sqrt(noisy.shape))
    return int(np.sum(np.linalg.svd(noisy, compute_uv=False) > edge))


def subsample(rows: Rows) -> Rows:
    """Return as many of the rows as the choice of a level needs."""
    return rows.subsample(_LEVEL_ROWS)


def release_level(level: Release, rows: Rows, budget: PrivacyBudget, basis: np.ndarray) -> float:
    """Choose where to clip the projections on `basis`, as a quantile of their norms."""
    edges = rows.bound * _LEVEL_GRID
    counts, _ = budget.release(level, bin_counts(rows.projection_norms(basis), edges))
    return quantile_from_counts(counts, edges, _LEVEL_QUANTILE)


def _solve_projected(
    rows: Rows, spectrum: Release, budget: PrivacyBudget, basis: np.ndarray, n_above_noise: int
) -> Factors:
    """Rayleigh-Ritz: decompose the second moment of the projections."""
    size = basis.shape[1]
    noisy, noise_std = release_projected_moment(spectrum, rows, budget, basis)
    eigenvalues, turn = eigh(noisy[:size, :size], check_finite=False)
    eigenvalues = eigenvalues[::-1]
    return Factors(
        components=(basis @ turn[:, ::-1]).T,
        eigenvalues=denoise_eigenvalues(eigenvalues, noise_std * np.sqrt(0.5)),
        total=float(np.trace(noisy)),
        eigenvalue_noise=noise_std,
        n_above_noise=n_above_noise,
    )


def release_projected_moment(
    spectrum: Release, rows: Rows, budget: PrivacyBudget, basis: np.ndarray
) -> Released:
    """Release the second moment of the projections, and last what lies outside the basis."""
    moment, rounding = rows.projected_moment(basis)
    # The last row and column but for the diagonal are constant: they cost nothing, and symmetric
    # noise has the same scale on the whole diagonal.
    return budget.release(spectrum, moment, rows.bound, rounding=rounding)
