r"""Power iteration beside the released mean, which joins the basis in the end.

The columns stay orthogonal to the mean m, the first component that need not be sought. After each
step they are turned to their singular vectors. Then they are shrunk by :math:`1 - \sigma^2 / e`
within groups of features of about the same mean, where e is the mean square of the column in the
group: items that nobody knows carry nothing but noise, whatever the others do.

References
----------
M. Hardt, E. Price (2014). "The noisy power method: a meta algorithm with applications". NIPS.
:arxiv:`1311.2495`
"""

from dataclasses import replace

import numpy as np

from skdp.data.rows import Rows
from skdp.decomposition._factors import Factors
from skdp.decomposition._rows.guided_moment import decompose_along
from skdp.decomposition._rows.plan import PowerReleases
from skdp.decomposition._rows.positive_mean import PositiveMean
from skdp.decomposition._rows.power import (
    count_above_noise,
    release_projected_moment,
    release_step,
    subsample,
)
from skdp.linalg.subspace import orthonormal_basis
from skdp.privacy import PrivacyBudget, Release

__all__ = ["solve_guided_power"]

# Features of the first group; each of the next has twice as many.
_FIRST_GROUP = 16  # not studied
# No column is shrunk to less than that in a group.
_LEAST_KEPT = 0.05  # not studied


def solve_guided_power(
    rows: Rows,
    plan: PowerReleases,
    budget: PrivacyBudget,
    positive_mean: PositiveMean,
    generator: np.random.Generator,
) -> Factors:
    """Find the leading directions beside the guide: time O(nnz p) a step, memory O(n + d p)."""
    axis = positive_mean.axis
    groups = _groups(axis)
    sample = subsample(rows)
    columns = generator.normal(size=plan.steps[0][1].shape)
    for step in plan.steps:
        basis = orthonormal_basis(_beside(axis, columns))
        (noisy, noise_std), rows = release_step(step, rows, sample, budget, basis)
        noisy = _beside(axis, noisy)
        columns = _shrunk_by_group(noisy, noise_std, groups)
    n_above_noise = int(positive_mean.stands_out) + count_above_noise(noisy, noise_std)
    factors = _release_beside(rows, plan.projected_moment, budget, positive_mean, columns)
    return replace(factors, n_above_noise=n_above_noise)


def _release_beside(
    rows: Rows,
    spectrum: Release,
    budget: PrivacyBudget,
    positive_mean: PositiveMean,
    columns: np.ndarray,
) -> Factors:
    """Rayleigh-Ritz in the span of the mean and the columns, as of a matrix beside the mean."""
    basis = orthonormal_basis(np.column_stack([positive_mean.axis, columns]))
    noisy, noise_std = release_projected_moment(spectrum, rows, budget, basis)
    total, inner = float(np.trace(noisy)), noisy[:-1, :-1].copy()
    # The sum of squares along the mean is at least that of the mean itself, which may be known
    # better; a number below its noise would deflate the rest by anything.
    inner[0, 0] = max(
        inner[0, 0], rows.n_rows * float(positive_mean.cleaned @ positive_mean.cleaned), noise_std
    )
    factors = decompose_along(inner, noise_std, np.eye(len(inner))[0])
    return replace(factors, components=factors.components @ basis.T, total=total)


def _beside(axis: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Take the part along the axis out of the columns."""
    return columns - np.outer(axis, axis @ columns)


def _groups(axis: np.ndarray) -> list[np.ndarray]:
    """Group features by descending entries, each group twice as large as the one before."""
    n_groups = int(np.log2(len(axis) / _FIRST_GROUP + 1))
    ends = _FIRST_GROUP * (2 ** np.arange(1, n_groups + 1) - 1)
    return np.split(np.argsort(-axis, kind="stable"), ends[ends < len(axis)])


def _shrunk_by_group(noisy: np.ndarray, noise_std: float, groups: list[np.ndarray]) -> np.ndarray:
    """Turn columns to their singular vectors, and shrink them where they are noise."""
    columns = np.asarray(noisy @ np.linalg.svd(noisy, full_matrices=False)[2].T)
    for group in groups:
        energy = np.mean(np.square(columns[group] / noise_std), axis=0)
        columns[group] *= np.maximum(1 - 1 / np.maximum(energy, 1e-12), _LEAST_KEPT)
    return columns
