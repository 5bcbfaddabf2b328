r"""Power iteration orthogonal to the released mean, which joins the basis in the end.

The mean m is nearly the first component, so the iteration looks for the others: its columns stay
orthogonal to m. After each step they are turned to their singular vectors. Then they are shrunk by
:math:`1 - \sigma^2 / e` within groups of features of about the same mean, where e is the mean
square of the column in the group: rare items may carry nothing but noise where popular ones carry
signal.

References
----------
M. Hardt, E. Price (2014). "The noisy power method: a meta algorithm with applications". NIPS.
:arxiv:`1311.2495`
"""

from dataclasses import replace

import numpy as np

from skdp.data.rows import Rows
from skdp.decomposition._factors import Factors
from skdp.decomposition._rows.guided_moment import decompose_with_axis
from skdp.decomposition._rows.plan import PowerReleases
from skdp.decomposition._rows.positive_mean import PositiveMean
from skdp.decomposition._rows.power import (
    count_above_noise,
    level_sample,
    release_projected_moment,
    release_step,
)
from skdp.linalg.spectrum import orthonormal_basis
from skdp.privacy import PrivacyBudget, Release

# Features of the first group; each of the next has twice as many.
_FIRST_GROUP = 16  # not studied
# Least factor that a column is multiplied by in a group.
_LEAST_KEPT = 0.05  # not studied


def solve_guided_power(
    rows: Rows,
    plan: PowerReleases,
    budget: PrivacyBudget,
    positive_mean: PositiveMean,
    generator: np.random.Generator,
) -> Factors:
    """Find the leading directions, guided by the mean: time O(nnz p) a step, memory O(n + d p)."""
    axis = positive_mean.axis
    groups = _groups(axis)
    sample = level_sample(rows)
    columns = generator.normal(size=plan.steps[0][1].shape)
    for step in plan.steps:
        basis = orthonormal_basis(_without_axis(axis, columns))
        (noisy, noise_std), rows = release_step(step, rows, sample, budget, basis)
        noisy = _without_axis(axis, noisy)
        columns = _shrunk_by_group(noisy, noise_std, groups)
    n_above_noise = int(positive_mean.stands_out) + count_above_noise(noisy, noise_std)
    factors = _release_spectrum(rows, plan.projected_moment, budget, positive_mean, columns)
    return replace(factors, n_above_noise=n_above_noise)


def _release_spectrum(
    rows: Rows,
    projected_moment: Release,
    budget: PrivacyBudget,
    positive_mean: PositiveMean,
    columns: np.ndarray,
) -> Factors:
    """Rayleigh-Ritz in the span of the mean and the columns, with the mean as the guide."""
    basis = orthonormal_basis(np.column_stack([positive_mean.axis, columns]))
    noisy, noise_std = release_projected_moment(projected_moment, rows, budget, basis)
    total, inner = float(np.trace(noisy)), noisy[:-1, :-1].copy()
    # The second moment along the mean is at least n times its squared length, which may be known
    # more precisely. A value below its noise would make the deflation arbitrary.
    inner[0, 0] = max(
        inner[0, 0], rows.n_rows * float(positive_mean.denoised @ positive_mean.denoised), noise_std
    )
    factors = decompose_with_axis(inner, noise_std, np.eye(len(inner))[0])
    return replace(factors, components=factors.components @ basis.T, total=total)


def _without_axis(axis: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Project the columns on what is orthogonal to the axis."""
    return columns - np.outer(axis, axis @ columns)


def _groups(axis: np.ndarray) -> list[np.ndarray]:
    """Group features by descending entries, each group twice as large as the one before."""
    n_groups = int(np.log2(len(axis) / _FIRST_GROUP + 1))
    ends = _FIRST_GROUP * (2 ** np.arange(1, n_groups + 1) - 1)
    return np.split(np.argsort(-axis, kind="stable"), ends[ends < len(axis)])


def _shrunk_by_group(noisy: np.ndarray, noise_std: float, groups: list[np.ndarray]) -> np.ndarray:
    """Turn columns to their singular vectors, and shrink them in groups where they are noise."""
    # The singular vectors may have any signs: the basis that is made of these columns has its own.
    columns = np.asarray(noisy @ np.linalg.svd(noisy, full_matrices=False)[2].T)
    for group in groups:
        energy = np.mean(np.square(columns[group] / noise_std), axis=0)
        columns[group] *= np.maximum(1 - 1 / np.maximum(energy, 1e-12), _LEAST_KEPT)
    return columns
