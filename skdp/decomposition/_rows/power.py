r"""Private block power iteration with clipped projections.

Every step releases :math:`\sum_i x_i \psi_b(V^T x_i)^T` for the basis V of the step before, where
:math:`\psi_b` clips to a norm b that is itself released. A row of norm c then moves the step by
`c b` rather than :math:`c^2`, and b is far below c if the rows are spread over many dimensions. The
last steps get most of the budget, as the first ones need only a rough direction. A final release,
of order p + 1, turns the basis to the eigenvectors and gives the spectrum; the variance outside the
basis comes with it for free.

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
from skdp.linalg.norms import quantile_from_counts
from skdp.linalg.spectrum import denoise_eigenvalues, orthonormal_basis, random_basis
from skdp.privacy import PrivacyBudget, Release, Released
from skdp.privacy.clipping import clip_rows

_LEVEL_QUANTILE = 0.2  # not studied
_LEVEL_GRID = np.geomspace(0.01, 1.0, N_LEVELS)  # not studied
# So many rows are counted to choose a clip level: enough for any noise that leaves a step usable.
_LEVEL_ROWS = 1 << 14  # not studied


def solve_power(
    rows: Rows, plan: PowerReleases, budget: PrivacyBudget, generator: np.random.Generator
) -> Factors:
    """Find the leading directions of clipped rows: time O(nnz p) a step, memory O(n + d p)."""
    sample = level_sample(rows)
    basis = random_basis(rows.n_features, plan.steps[0][1].shape[1], generator)
    for step in plan.steps:
        (product, product_std), rows = release_step(step, rows, sample, budget, basis)
        basis = orthonormal_basis(product)
    moment, moment_std = release_projected_moment(plan.projected_moment, rows, budget, basis)
    # Rayleigh-Ritz: the eigenvectors within the basis.
    eigenvalues, turn = eigh(moment[:-1, :-1], check_finite=False)
    return Factors(
        components=(basis @ turn[:, ::-1]).T,
        eigenvalues=denoise_eigenvalues(eigenvalues[::-1], moment_std * np.sqrt(0.5)),
        total=float(np.trace(moment)),
        eigenvalue_noise=moment_std,
        n_above_noise=count_above_noise(product, product_std),
    )


def release_step(
    step: tuple[Release | None, Release],
    rows: Rows,
    sample: Rows,
    budget: PrivacyBudget,
    basis: np.ndarray,
) -> tuple[Released, Rows]:
    """Release the rows times their projections, clipped at a level that is chosen by `sample`.

    The rows are returned with their norms, which the next step need not compute.
    """
    level_counts, planned_product = step
    level = np.inf
    if level_counts is not None:
        edges = rows.bound * _LEVEL_GRID
        counts = sample.projection_counts(basis, edges)
        noisy_counts, _ = budget.release(level_counts, counts)
        level = quantile_from_counts(noisy_counts, edges, _LEVEL_QUANTILE)
    product, rounding, rows = rows.normal_product(basis, partial(clip_rows, bound=level))
    return budget.release(planned_product, product, rows.bound, level, rounding=rounding), rows


def count_above_noise(noisy: np.ndarray, noise_std: float) -> int:
    """Count the singular values that exceed the largest one of noise alone."""
    edge = noise_std * np.sum(np.sqrt(noisy.shape))
    return int(np.sum(np.linalg.svd(noisy, compute_uv=False) > edge))


def level_sample(rows: Rows) -> Rows:
    """Return as many of the rows as the choice of a clip level needs."""
    return rows.subsample(_LEVEL_ROWS)


def release_projected_moment(
    projected_moment: Release, rows: Rows, budget: PrivacyBudget, basis: np.ndarray
) -> Released:
    """Release the second moment of the projections, and the trace outside the basis as last entry.

    The rest of the last row and column is constant and costs nothing. In this form symmetric noise
    has the same standard deviation on the whole diagonal.
    """
    moment, rounding = rows.projected_moment(basis)
    return budget.release(projected_moment, moment, rows.bound, rounding=rounding)
