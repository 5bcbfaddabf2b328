"""Solvers that protect rows: a noisy second moment, and power iterations."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from scipy.linalg import eigh

from skdp.data.rows import Rows
from skdp.decomposition._spec import Factors, RowsSpec, rank_or_none
from skdp.decomposition.rows import moments
from skdp.decomposition.rows import plan as rows_plan
from skdp.linalg import spectrum
from skdp.linalg.denoising import positive_means
from skdp.linalg.norms import quantile_from_counts, row_norms
from skdp.privacy import PrivacyBudget, Release, Released
from skdp.privacy.clipping import clip_rows

# ------------------------------
# A released mean of rows, which guides the search for the first component.


@dataclass(frozen=True)
class PositiveMean:
    """A released mean of mostly positive rows, which guides a fit.

    If rows have no negative entries, as counts of items by person, the mean is nearly the first
    right singular vector, and takes far less noise than a second moment.
    """

    mean: np.ndarray  # with noise
    noise_std: float  # of an entry
    share: float  # of the budget

    @cached_property
    def denoised(self) -> np.ndarray:
        """The mean with less noise, as its entries are known not to be negative."""
        return positive_means(self.mean, self.noise_std)

    @property
    def axis(self) -> np.ndarray:
        """Direction of the denoised mean."""
        denoised = self.denoised
        return np.asarray(denoised / row_norms(denoised[np.newaxis]))

    @property
    def excess(self) -> float:
        """Squared length of the mean minus the most that noise alone has, in noise variances."""
        n_features = len(self.mean)
        squared_length = float(np.sum(np.square(self.mean / self.noise_std)))
        # For noise alone, the squared length is chi-squared, and rarely exceeds its expectation by
        # three standard deviations.
        return squared_length - n_features - 3 * float(np.sqrt(2 * n_features))

    def averaged(self, other: "PositiveMean") -> "PositiveMean":
        """Average with another release of the mean, weighted by the shares of both."""
        share = self.share + other.share
        mean = (self.share * self.mean + other.share * other.mean) / share
        return PositiveMean(mean, float(self.noise_std * np.sqrt(self.share / share)), share)


def passes_positivity_test(count: Release, rows: Rows, budget: PrivacyBudget) -> bool:
    """Release the number of mostly positive rows; return whether most rows are.

    A mostly positive row is not 0, and its sum is at least half of the sum of its absolute values.
    If the test passes, the mean is assumed to have no negative entries, which removes noise from
    the released mean.
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
# Largest number of rows whose norms are counted to choose a clip level. Noise that hides such
# counts also hides the products of these rows.
_LEVEL_ROWS = 1 << 14  # not studied


def solve_power(
    rows: Rows, plan: rows_plan.PowerReleases, budget: PrivacyBudget, *, is_exact: bool = False
) -> Factors:
    r"""Find the leading directions of clipped rows: time O(nnz p) a step, memory O(n + d p).

    Every step releases :math:`\sum_i x_i \psi_b(V^T x_i)^T` for the basis V of the step before,
    where :math:`\psi_b` clips to a released norm b. A row of norm c then moves the step by `c b`
    rather than :math:`c^2`, and b is far below c if the rows spread over many dimensions. The last
    steps get most of the budget, as the first steps need only rough directions. A final release, a
    matrix of order p + 1, turns the basis to the eigenvectors, and gives the spectrum and, at no
    further cost, the variance outside the basis. `is_exact` starts from the right singular vectors,
    which ARPACK finds without noise. See M. Hardt, E. Price (2014, :arxiv:`1311.2495`) and J.
    Nicolas, C. Sabater, M. Maouche, S. Ben Mokhtar, M. Coates (2024, :arxiv:`2411.01931`).
    """
    sample = rows.subsample(_LEVEL_ROWS)
    size = plan.steps[0][1].shape[1]
    if is_exact:
        # As no row is clipped, the whole X is multiplied, which is faster than block by block.
        X = rows.source.X
        transposed, center = X.T, np.zeros(X.shape[1]) if rows.center is None else rows.center
        basis = spectrum.leading_right_vectors(
            lambda right: X @ right - center @ right,
            lambda left: transposed @ left - np.outer(center, left.sum(axis=0)),
            X.shape,
            size,
            budget.public_generator,
        )
    else:
        basis = spectrum.random_basis(rows.n_features, size, budget.public_generator)
    for step in plan.steps:
        (product, product_std), rows = release_step(step, rows, sample, budget, basis)
        basis = spectrum.orthonormal_basis(product)
    # Rayleigh-Ritz: eigenvectors within the basis. The last row and column of the moment have the
    # variance outside the basis.
    exact, rounding = rows.projected_moment(basis)
    moment, moment_std = budget.release(plan.projected_moment, exact, rows.bound, rounding=rounding)
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
    """Release the product of the rows with their clipped projections on the basis.

    Return it with rows that store their norms. The clip level is a quantile of norms in `sample`.
    """
    level_counts, product = step
    level = np.inf
    if level_counts is not None:
        edges = rows.bound * LEVEL_GRID
        noisy_counts, _ = budget.release(level_counts, sample.projection_counts(basis, edges))
        level = quantile_from_counts(noisy_counts, edges, _LEVEL_QUANTILE)
    exact, rounding, rows = rows.normal_product(basis, partial(clip_rows, bound=level))
    rounding += rows.moved_rounding(basis.shape[1], level)
    return budget.release(product, exact, rows.bound, level, rounding=rounding), rows


def count_above_edge(noisy: np.ndarray, noise_std: float) -> int:
    """Count singular values above the largest singular value of a matrix of noise alone."""
    # Singular values are compared without squares, which could overflow.
    edge = noise_std * np.sum(np.sqrt(noisy.shape))
    return int(np.sum(np.linalg.svd(noisy, compute_uv=False) > edge))


# ------------------------------
# Power iteration orthogonal to a released mean, which joins the basis at the end.

# A guided iteration shrinks columns of products within groups of features with similar means.
# Number of features of the first group; each further group has twice as many.
_FIRST_GROUP = 16  # not studied
# Least factor by which a column is multiplied within a group of features.
_LEAST_FACTOR = 0.05  # not studied


def solve_guided_power(
    rows: Rows, plan: rows_plan.PowerReleases, budget: PrivacyBudget, positive_mean: PositiveMean
) -> Factors:
    r"""Find the leading directions, guided by the mean: time O(nnz p) a step, memory O(n + d p).

    The mean m is nearly the first component, so the power iteration (M. Hardt, E. Price, 2014,
    :arxiv:`1311.2495`) searches for the other components, with columns orthogonal to m. After each
    step the columns are rotated to their singular vectors. Then each column is shrunk by the factor
    :math:`1 - \sigma^2 / e` within a group of features with about the same mean. Here e is the mean
    square of the column in the group, and :math:`\sigma^2` the noise variance: the same column may
    be noise for rare items, and signal for popular items.
    """
    axis = positive_mean.axis
    # Features by descending entries of the mean, in groups that double in size.
    n_groups = int(np.log2(len(axis) / _FIRST_GROUP + 1))
    ends = _FIRST_GROUP * (2 ** np.arange(1, n_groups + 1) - 1)
    groups = np.split(np.argsort(-axis, kind="stable"), ends[ends < len(axis)])
    sample = rows.subsample(_LEVEL_ROWS)
    columns = budget.public_generator.normal(size=plan.steps[0][1].shape)
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
    noisy, noise_std = budget.release(plan.projected_moment, exact, rows.bound, rounding=rounding)
    total, inner = float(np.trace(noisy)), noisy[:-1, :-1].copy()
    # The second moment along the mean is at least n times the squared mean, which may have less
    # noise. A value below its noise would make the deflation arbitrary.
    least = rows.n_rows * float(positive_mean.denoised @ positive_mean.denoised)
    inner[0, 0] = max(inner[0, 0], least, noise_std)
    factors = moments.decompose_with_axis(inner, noise_std, np.eye(len(inner))[0])
    components = factors.components @ basis.T
    return replace(factors, components=components, total=total, n_above_noise=n_above_noise)


def _without_axis(axis: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Project the columns on the complement of the axis."""
    return columns - np.outer(axis, axis @ columns)


# ------------------------------
# The solver of a plan, with or without guidance by a mean.

# A guided fit that may choose between both solvers releases the second moment, and does not
# iterate, under two conditions: the squared norm of the mean over the squared clipping norm of rows
# lies between these limits; and the mean spreads over at least the fraction `_LEAST_SPREAD` of the
# features. The numbers are from benchmarks/diagonal_prior/wide.md.
_LIMITS_OF_MEAN = {"zero_out": (0.25, 0.6), "replace": (0.25, 0.8)}
_LEAST_SPREAD = 0.1  # benchmarks/diagonal_prior/wide.md


def solve_clipped(
    spec: RowsSpec,
    plan: rows_plan.SolverReleases,
    rows: Rows,
    budget: PrivacyBudget,
    decomposition: Callable[..., Factors] = moments.decompose,
) -> Factors:
    """Run the planned solver on clipped rows: a power iteration, or a released second moment.

    The second moment takes time O(n d^2 + d^3) and memory O(d^2). This is Analyze Gauss (C. Dwork,
    K. Talwar, A. Thakurta, L. Zhang, 2014, :doi:`10.1145/2591796.2591883`), with noise that is
    isotropic in the Frobenius inner product. `decomposition` computes the factors from the
    released moment and its noise std, which is free post-processing.
    """
    if isinstance(plan, rows_plan.PowerReleases):
        return solve_power(rows, plan, budget, is_exact=spec.is_exact)
    moment, rounding = rows.gram()
    released = budget.release(plan, moment, rows.bound, rounding=rounding)
    if spec.prior is not None:
        decomposition = partial(
            moments.decompose_toward, prior=spec.prior, decomposition=decomposition
        )
    decomposed = partial(decomposition, *released)
    factors = decomposed(n_components=rank_or_none(spec.n_components))
    return replace(factors, decompose=decomposed)


def solve_guided(
    spec: RowsSpec,
    branches: list[rows_plan.Branch],
    rows: Rows,
    clipped: Rows,
    budget: PrivacyBudget,
) -> Factors:
    """Release the mean of mostly positive rows, and the components that the mean guides."""
    # `clipped` are the rows for the mean. If there are two branches, the first one releases the
    # second moment, and the last one iterates.
    branch, guide = branches[-1], branches[0].means[0]
    mean = PositiveMean(*release_mean(guide, clipped, budget), guide.share)
    # An iteration, with clipped projections, is better than the second moment in three cases: if
    # the mean is short, as rows with few entries have short projections, too; if the mean is long,
    # so that little remains to be found; and if few features have most of the moment, as the
    # iteration shrinks noise by groups of features.
    least, most = _LIMITS_OF_MEAN[budget.adjacency]
    has_usual_length = least <= mean.excess * (mean.noise_std / rows.bound) ** 2 <= most
    if has_usual_length and mean.axis.sum() ** 2 >= _LEAST_SPREAD * len(mean.mean):
        branch = branches[0]
    if isinstance(branch.solver, rows_plan.PowerReleases):
        again = branch.means[1]
        mean = mean.averaged(PositiveMean(*release_mean(again, clipped, budget), again.share))
        factors = solve_guided_power(rows, branch.solver, budget, mean)
    else:
        guided = partial(moments.decompose_guided, axis=mean.axis)
        factors = solve_clipped(spec, branch.solver, rows, budget, guided)
    return replace(factors, mean=mean.mean, mean_noise_variance=mean.noise_std**2)
