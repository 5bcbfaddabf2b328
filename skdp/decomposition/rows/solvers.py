"""Solvers that protect rows: a noisy second moment, and power iterations."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from scipy.linalg import eigh

from skdp.data.rows import Rows
from skdp.decomposition._spec import Factors, RowsSpec, rank_or_none
from skdp.decomposition.rows import plan as rows_plan
from skdp.decomposition.rows.moments import (
    decompose,
    decompose_guided,
    decompose_toward,
    decompose_with_axis,
)
from skdp.linalg import spectrum
from skdp.linalg.denoising import positive_means
from skdp.linalg.norms import quantile_from_counts, row_norms
from skdp.privacy import PrivacyBudget, Release, Released
from skdp.privacy.clipping import clip_rows

#: A function that returns factors, given a released second moment and its noise std.
Decomposition = Callable[..., Factors]

# ------------------------------
# A released mean of rows, which guides the search for the first component.


@dataclass(frozen=True)
class PositiveMean:
    """A released mean of mostly positive rows, which guides a fit.

    Without negative entries, as in counts by people and items, the mean row is nearly the first
    right singular vector, and takes far less noise than a second moment.
    """

    mean: np.ndarray  # with noise
    noise_std: float  # of an entry
    share: float  # of the budget

    @cached_property
    def denoised(self) -> np.ndarray:
        """The mean with less noise, by the knowledge that its entries are not negative."""
        return positive_means(self.mean, self.noise_std)

    @property
    def axis(self) -> np.ndarray:
        """Direction of the denoised mean."""
        denoised = self.denoised
        return np.asarray(denoised / row_norms(denoised[np.newaxis]))

    @property
    def excess(self) -> float:
        """Squared length of the signal, in noise variances; rarely above 0 for noise alone."""
        n_features = len(self.mean)
        squared_length = float(np.sum(np.square(self.mean / self.noise_std)))
        # The squared length of noise is chi-squared, and rarely three deviations above its mean.
        return squared_length - n_features - 3 * float(np.sqrt(2 * n_features))

    def averaged(self, other: "PositiveMean") -> "PositiveMean":
        """Average with another release of the mean, weighted by the shares of both."""
        share = self.share + other.share
        mean = (self.share * self.mean + other.share * other.mean) / share
        return PositiveMean(mean, float(self.noise_std * np.sqrt(self.share / share)), share)


def passes_positivity_test(count: Release, rows: Rows, budget: PrivacyBudget) -> bool:
    """Release the number of mostly positive rows; return whether it exceeds half of the rows.

    A mostly positive row is not 0, and its sum is at least half of the sum of its absolute values.
    One row moves the count by 1. If the test passes, the mean is assumed to have no negative
    entries, which removes noise from the released mean.
    """
    noisy, _ = budget.release(count, rows.count_mostly_positive())
    return bool(noisy > rows.n_rows / 2)


def release_mean(mean: Release, rows: Rows, budget: PrivacyBudget) -> Released:
    """Release the mean of rows, clipped to ``rows.bound``."""
    total, rounding = rows.total()
    return budget.release(mean, total / rows.n_rows, rows.bound, rounding)


# ------------------------------
# Block power iteration with clipped projections.

_LEVEL_QUANTILE = 0.2  # of the norms of projected rows; not studied
#: Levels to which projections may be clipped, relative to the bound of the rows.
LEVEL_GRID = np.geomspace(0.01, 1.0, rows_plan.N_LEVELS)  # not studied
# This many rows suffice to choose a clip level, unless noise makes the step useless.
_LEVEL_ROWS = 1 << 14  # not studied


def solve_power(
    rows: Rows,
    plan: rows_plan.PowerReleases,
    budget: PrivacyBudget,
    generator: np.random.Generator,
    *,
    is_exact: bool = False,
) -> Factors:
    r"""Find the leading directions of clipped rows: time O(nnz p) a step, memory O(n + d p).

    Every step releases :math:`\sum_i x_i \psi_b(V^T x_i)^T` for the basis V of the step before,
    where :math:`\psi_b` clips to a released norm b. A row of norm c then moves the step by `c b`
    rather than :math:`c^2`, and b is far below c if the rows spread over many dimensions. The last
    steps get most of the budget, as the first steps need only rough directions. A final release, of
    order p + 1, turns the basis to the eigenvectors, and gives the spectrum and, at no further
    cost, the variance outside the basis. See M. Hardt, E. Price (2014,
    :arxiv:`1311.2495`) and J. Nicolas, C. Sabater, M. Maouche, S. Ben Mokhtar, M. Coates (2024,
    :arxiv:`2411.01931`).
    """
    sample = rows.subsample(_LEVEL_ROWS)
    size = plan.steps[0][1].shape[1]
    if is_exact:
        # No row is clipped: products by X itself are faster than products by blocks of rows.
        X = rows.source.X
        transposed, center = X.T, np.zeros(X.shape[1]) if rows.center is None else rows.center
        basis = spectrum.leading_right_vectors(
            lambda right: X @ right - center @ right,
            lambda left: transposed @ left - np.outer(center, left.sum(axis=0)),
            X.shape,
            size,
            generator,
        )
    else:
        basis = spectrum.random_basis(rows.n_features, size, generator)
    for step in plan.steps:
        (product, product_std), rows = release_step(step, rows, sample, budget, basis)
        basis = spectrum.orthonormal_basis(product)
    exact, rounding = rows.projected_moment(basis)
    released = budget.release(plan.projected_moment, exact, rows.bound, rounding=rounding)
    moment, moment_std = released
    # Rayleigh-Ritz: eigenvectors within the basis.
    eigenvalues, turn = eigh(moment[:-1, :-1], check_finite=False)
    eigenvalues = eigenvalues[::-1]
    pushes = spectrum.eigenvalue_pushes(eigenvalues, moment_std * np.sqrt(0.5))
    return Factors(
        components=(basis @ turn[:, ::-1]).T,
        eigenvalues=spectrum.descending(eigenvalues - pushes),
        total=float(np.trace(moment)),
        eigenvalue_noise=moment_std,
        n_above_noise=count_above_edge(product, product_std),
    )


def release_step(
    step: tuple[Release | None, Release],
    rows: Rows,
    sample: Rows,
    budget: PrivacyBudget,
    basis: np.ndarray,
) -> tuple[Released, Rows]:
    """Release the product of rows and clipped projections, at a level chosen from `sample`."""
    level_counts, planned_product = step
    level = np.inf
    if level_counts is not None:
        edges = rows.bound * LEVEL_GRID
        noisy_counts, _ = budget.release(level_counts, sample.projection_counts(basis, edges))
        level = quantile_from_counts(noisy_counts, edges, _LEVEL_QUANTILE)
    return release_product(planned_product, rows, budget, basis, level)


def release_product(
    release: Release, rows: Rows, budget: PrivacyBudget, basis: np.ndarray, level: float
) -> tuple[Released, Rows]:
    """Release the product of rows and their projections, clipped to `level`.

    The returned rows have their norms, which the next step reuses.
    """
    product, rounding, rows = rows.normal_product(basis, partial(clip_rows, bound=level))
    rounding += rows.moved_rounding(basis.shape[1], level)
    return budget.release(release, product, rows.bound, level, rounding=rounding), rows


def count_above_edge(noisy: np.ndarray, noise_std: float) -> int:
    """Count singular values that exceed the largest singular value of noise alone."""
    edge = noise_std * np.sum(np.sqrt(noisy.shape))
    return int(np.sum(np.linalg.svd(noisy, compute_uv=False) > edge))


# ------------------------------
# Power iteration orthogonal to a released mean, which joins the basis at the end.

# Number of features in the first group; each further group has twice as many.
_FIRST_GROUP = 16  # not studied
# Within a group of features, a column is multiplied by this factor at least.
_LEAST_FACTOR = 0.05  # not studied


def solve_guided_power(
    rows: Rows,
    plan: rows_plan.PowerReleases,
    budget: PrivacyBudget,
    positive_mean: PositiveMean,
    generator: np.random.Generator,
) -> Factors:
    r"""Find the leading directions, guided by the mean: time O(nnz p) a step, memory O(n + d p).

    The mean m is nearly the first component, so the power iteration (M. Hardt, E. Price, 2014,
    :arxiv:`1311.2495`) searches for the other components, with columns orthogonal to m. After each
    step the columns are rotated to their singular vectors. Then each column is shrunk by
    :math:`1 - \sigma^2 / e` within a group of features of about the same mean, where e is the mean
    square of the column in the group: among rare items a column may be noise, and among popular
    items signal.
    """
    axis = positive_mean.axis
    # Features by descending entries of the mean, in groups that double in size.
    n_groups = int(np.log2(len(axis) / _FIRST_GROUP + 1))
    ends = _FIRST_GROUP * (2 ** np.arange(1, n_groups + 1) - 1)
    groups = np.split(np.argsort(-axis, kind="stable"), ends[ends < len(axis)])
    sample = rows.subsample(_LEVEL_ROWS)
    columns = generator.normal(size=plan.steps[0][1].shape)
    for step in plan.steps:
        basis = spectrum.orthonormal_basis(_without_axis(axis, columns))
        (noisy, noise_std), rows = release_step(step, rows, sample, budget, basis)
        noisy = _without_axis(axis, noisy)
        # The signs of singular vectors are arbitrary, but the basis does not depend on them.
        columns = np.asarray(noisy @ np.linalg.svd(noisy, full_matrices=False)[2].T)
        for group in groups:
            energy = np.mean(np.square(columns[group] / noise_std), axis=0)
            columns[group] *= np.maximum(1 - 1 / np.maximum(energy, 1e-12), _LEAST_FACTOR)
    n_above_noise = int(positive_mean.excess > 0) + count_above_edge(noisy, noise_std)
    # Rayleigh-Ritz: eigenvectors in the span of the mean and the columns.
    basis = spectrum.orthonormal_basis(np.column_stack([positive_mean.axis, columns]))
    exact, rounding = rows.projected_moment(basis)
    released = budget.release(plan.projected_moment, exact, rows.bound, rounding=rounding)
    noisy, noise_std = released
    total, inner = float(np.trace(noisy)), noisy[:-1, :-1].copy()
    # The second moment along the mean is at least n times the squared mean, which may have less
    # noise. A value below its noise would make the deflation arbitrary.
    inner[0, 0] = max(
        inner[0, 0], rows.n_rows * float(positive_mean.denoised @ positive_mean.denoised), noise_std
    )
    factors = decompose_with_axis(inner, noise_std, np.eye(len(inner))[0])
    components = factors.components @ basis.T
    return replace(factors, components=components, total=total, n_above_noise=n_above_noise)


def _without_axis(axis: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Project the columns on the complement of the axis."""
    return columns - np.outer(axis, axis @ columns)


# ------------------------------
# The solver of a plan, with or without guidance by a mean.

# A guided fit releases the whole matrix if the squared length of the mean, in squared bounds, lies
# between these limits, and if the mean spreads over at least this fraction of the features. The
# numbers are from benchmarks/diagonal_prior/wide.md.
_SHARE_OF_MEAN = {"zero_out": (0.25, 0.6), "replace": (0.25, 0.8)}
_LEAST_SPREAD = 0.1  # benchmarks/diagonal_prior/wide.md


def solve_clipped(
    spec: RowsSpec,
    plan: rows_plan.SolverReleases,
    rows: Rows,
    budget: PrivacyBudget,
    generator: np.random.Generator,
    decomposition: Decomposition = decompose,
) -> Factors:
    """Run the solver of the planned releases on clipped rows.

    A single release is the second moment, decomposed in time O(n d^2 + d^3) and memory O(d^2). This
    is Analyze Gauss (C. Dwork, K. Talwar, A. Thakurta, L. Zhang, 2014,
    :doi:`10.1145/2591796.2591883`), with noise that is isotropic in the Frobenius inner product.
    The whole spectrum of the released matrix is free post-processing.
    """
    if isinstance(plan, rows_plan.PowerReleases):
        return solve_power(rows, plan, budget, generator, is_exact=spec.is_exact)
    moment, rounding = rows.gram()
    released = budget.release(plan, moment, rows.bound, rounding=rounding)
    if spec.prior is not None:
        decomposition = partial(decompose_toward, prior=spec.prior, decomposition=decomposition)
    decomposed = partial(decomposition, *released)
    factors = decomposed(n_components=rank_or_none(spec.n_components))
    return replace(factors, decompose=decomposed)


def solve_guided(
    spec: RowsSpec,
    branches: list[rows_plan.Branch],
    rows: Rows,
    clipped: Rows,
    budget: PrivacyBudget,
    generator: np.random.Generator,
) -> Factors:
    """Release the mean of mostly positive rows, and the components that it guides."""
    branch, guide = branches[-1], branches[0].means[0]
    mean = PositiveMean(*release_mean(guide, clipped, budget), guide.share)
    # If rows have few entries, the mean and projections of rows are short; if the mean is long,
    # little remains to be found. In both cases clipped projections are better than the matrix. The
    # groups of features in the iteration help if few features have most of the moment.
    least, most = _SHARE_OF_MEAN[budget.adjacency]
    holds_much = least <= mean.excess * (mean.noise_std / rows.bound) ** 2 <= most
    if holds_much and mean.axis.sum() ** 2 >= _LEAST_SPREAD * len(mean.mean):
        branch = branches[0]
    if isinstance(branch.solver, rows_plan.PowerReleases):
        again = branch.means[1]
        mean = mean.averaged(PositiveMean(*release_mean(again, clipped, budget), again.share))
        factors = solve_guided_power(rows, branch.solver, budget, mean, generator)
    else:
        guided = partial(decompose_guided, axis=mean.axis)
        factors = solve_clipped(spec, branch.solver, rows, budget, generator, guided)
    return replace(factors, mean=mean.mean, mean_noise_variance=mean.noise_std**2)
