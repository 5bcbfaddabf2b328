"""Solvers that protect rows: a noisy second moment, its refinement, and power iterations."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from scipy.linalg import eigh

from skdp.data.rows import Rows
from skdp.decomposition._spec import Factors, RowsSpec, rank_of, rank_or_none
from skdp.decomposition.rows import plan as rows_plan
from skdp.decomposition.rows.moments import (
    decompose,
    decompose_guided,
    decompose_toward,
    decompose_with_axis,
)
from skdp.linalg import spectrum
from skdp.linalg.denoising import positive_means
from skdp.linalg.norms import UNIT_ROUNDOFF, quantile_from_counts, row_norms
from skdp.privacy import PrivacyBudget, Release, Released, sensitivity
from skdp.privacy.clipping import clip_rows, clip_weights

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
# A noisy second moment, refined along leading directions if that pays.

_LEVELS = np.array(rows_plan.PROBE_LEVELS)
_FIRST_SHARE = rows_plan.ADAPTIVE_SHARES[0]  # not tuned
# Clipping biases a step, so a step has to promise this many times the precision of another release
# of the matrix.
_LEAST_GAIN = 2.0  # benchmarks/high_dimension/captured.md, "made to refine always"
# A component stands out if its eigenvalue exceeds the largest eigenvalue of noise by this factor.
_MARGIN = 1.05  # not studied
# Weight of the matrix outside the refined span, in the next step: outside most is noise, but new
# directions come only from there.
_WEIGHT_OUTSIDE = 0.5  # not studied
# If noise costs less than this part of the captured variance, the bias of clipping may cost more:
# .010 on standardized images of digits, where noise cost .004.
_LEAST_LOSS = 5e-3  # not studied
# Columns are divided by the estimated fraction of signal that clipping leaves, at least this:
# smaller divisors would magnify noise.
_SMALLEST_SIGNAL = 0.05  # not studied
# Number of iterations that turn a basis to the leading eigenvectors, which are close already.
_N_TURNS = 4  # not studied
# This many rows suffice to choose between few clip levels.
_PROBE_ROWS = 1 << 15  # not studied


def solve_adaptive(
    rows: Rows,
    plan: rows_plan.AdaptiveReleases,
    budget: PrivacyBudget,
    n_components: int,
    decomposition: Decomposition = decompose,
) -> Factors:
    r"""Find the leading directions of clipped rows: time O(n d^2 + d^3), memory O(d^2).

    A first release of the d x d matrix, as in `solve_clipped`, finds rough directions V. The
    rest of the budget, in shares that are fixed beforehand, goes to one of two branches:

    - Further releases of the matrix; their average with the first is as good as a single release.
    - Two steps :math:`\sum_i x_i \psi_b(V^T x_i)^T` of the power method (M. Hardt, E. Price, 2014,
      :arxiv:`1311.2495`) with clipped projections. A row of norm c moves a step by `c b` rather
      than :math:`c^2`. The steps replace the part of the matrix in the span of V, weighted by their
      precision. A last release has the variances along the final span.

    A small release in between, the probe, chooses the branch: the sums of squared coordinates in V,
    clipped at several levels b, which show how much signal each level leaves. Steps are better if
    rows spread over many dimensions. The steps run only if all requested components stand out from
    noise, as a step finds no directions that V lacks, and if noise is the main error.
    """
    moment, rounding = rows.gram()
    released = budget.release(plan.second_moment, moment, rows.bound, rounding=rounding)
    estimate = _in_squared_bounds(released, rows)
    values, basis = spectrum.leading_eigenvectors(estimate.value, plan.clipped_squares.shape[1])
    levels, size = rows.bound * _LEVELS, basis.shape[1]

    def _weights(norms: np.ndarray) -> np.ndarray:
        # Row weights that clip to each level, divided by the level.
        return np.array([clip_weights(norms, level, size) for level in levels]) / _LEVELS[:, None]

    exact, of_squares = rows.subsample(_PROBE_ROWS).clipped_squares(basis, _weights)
    squares, _ = budget.release(plan.clipped_squares, exact, rows.bound, rounding=of_squares)
    level = _choose_level(squares[:, :n_components], budget.adjacency)
    more, (steps, variances) = plan.rest.branches
    if level is None or not _can_be_refined(values[:n_components], estimate):
        for release in more:
            released = budget.release(release, moment, rows.bound, rounding=rounding)
            estimate = _average(estimate, _in_squared_bounds(released, rows))
        return decomposition(*estimate, squared_bound=rows.bound**2, n_components=n_components)
    for step in steps:
        columns, _ = release_product(step, rows, budget, basis, level * rows.bound)
        estimate = _refine(estimate, basis, *_in_squared_bounds(columns, rows))
        for _ in range(_N_TURNS):
            basis = spectrum.orthonormal_basis(estimate.value @ basis)
        _, turn = eigh(basis.T @ estimate.value @ basis, check_finite=False)
        basis = spectrum.with_fixed_signs(basis @ turn[:, ::-1])
    basis = basis[:, :n_components]
    return _release_variances(variances, rows, budget, moment, rounding, basis)


def _in_squared_bounds(released: Released, rows: Rows) -> Released:
    """Return a release in units of the squared bound; overwrite it.

    The rounding of centered sparse rows may raise the noise by many powers of ten, so that its
    square overflows. Callers therefore square ratios of noise, and never the noise itself.
    """
    noisy, noise_std = released
    squared_bound = rows.bound**2
    noisy /= squared_bound
    return Released(noisy, noise_std / squared_bound)


def _average(first: Released, second: Released) -> Released:
    """Average two releases, weighted by their precision; overwrite the second."""
    weight = 1 / (1 + np.square(np.float64(first.noise_std) / second.noise_std))
    matrix = second.value
    matrix *= 1 - weight
    matrix += weight * first.value
    return Released(matrix, first.noise_std * np.sqrt(weight))


def _choose_level(squares: np.ndarray, adjacency: str) -> float | None:
    """Return the clip level of the most precise step, in units of the bound; None if none pays.

    The precision is the squared ratio of signal to noise, relative to a release of the matrix.
    """
    signals = _LEVELS * squares.sum(axis=1)
    # The last level clips nothing: its signal is the whole signal.
    whole = signals[-1]
    shrinkage = np.clip(signals / whole, 0.0, 1.0) if whole > 0 else np.zeros(len(_LEVELS))
    matrix_noise = sensitivity.second_moment(1.0, adjacency) * np.sqrt(0.5)
    step_noise = [sensitivity.clipped_projection(1.0, level, adjacency) for level in _LEVELS]
    gains = (shrinkage * matrix_noise / step_noise) ** 2
    best = int(np.argmax(gains))
    return float(_LEVELS[best]) if gains[best] >= _LEAST_GAIN else None


def _can_be_refined(values: np.ndarray, estimate: Released) -> bool:
    """Return whether all components stand out, and noise costs enough to refine them."""
    n_features, off_diagonal_std = len(estimate.value), estimate.noise_std * np.sqrt(0.5)
    if values.min() < _MARGIN * spectrum.noise_edge(off_diagonal_std, n_features):
        return False
    # The variance that noise would cost if the matrix got the whole share is, to second order,
    # tau^2 d / eigenvalue for each component. With the first share alone, tau^2 is larger by the
    # inverse of that share.
    loss = off_diagonal_std * _FIRST_SHARE * n_features * np.sum(off_diagonal_std / values)
    return bool(loss >= _LEAST_LOSS * values.sum())


def _refine(
    estimate: Released, basis: np.ndarray, columns: np.ndarray, noise_std: float
) -> Released:
    """Average the estimate with `columns`, in the span of `basis`."""
    before = estimate.value @ basis
    # The diagonals of the columns and of the estimate show by how much clipping shrinks columns.
    diagonal = np.einsum("ij,ij->j", basis, before)
    shrunk = np.einsum("ij,ij->j", basis, columns)
    shrinkage = np.clip(shrunk / np.where(diagonal > 0, diagonal, np.inf), _SMALLEST_SIGNAL, 1.0)
    relative_variances = np.square(noise_std / shrinkage / (estimate.noise_std * np.sqrt(0.5)))
    # The noise of the estimate stays that of the first release in the second step, too: the step,
    # with its larger share, so gets more weight than precision alone would give.
    weights = 1 / (1 + relative_variances)
    after = before + weights * (columns / shrinkage - before)
    # With the basis V, matrix = V C V' + S V' + V S' + R, where V' S = 0 and V' R = 0. C and S are
    # averaged with C and S of `columns`; R is multiplied by its weight.
    inner_before, inner_after = basis.T @ before, basis.T @ after
    outer_before, outer_after = before - basis @ inner_before, after - basis @ inner_after
    inner_after = (inner_after + inner_after.T) / 2
    change = outer_after - _WEIGHT_OUTSIDE * outer_before
    change += basis @ (inner_after - _WEIGHT_OUTSIDE * inner_before) / 2
    update = change @ basis.T
    return Released(_WEIGHT_OUTSIDE * estimate.value + update + update.T, estimate.noise_std)


def _release_variances(
    release: Release,
    rows: Rows,
    budget: PrivacyBudget,
    exact: np.ndarray,
    rounding: float,
    basis: np.ndarray,
) -> Factors:
    """Release the second moments along the basis vectors, and the trace outside the basis.

    `exact` is the noiseless second moment of the rows, and `rounding` its rounding error.
    """
    along = np.einsum("ij,ij->j", basis, exact @ basis)
    values = np.append(along, np.trace(exact) - along.sum())
    # Rounding errors of the matrix add up in the sum over the basis, and in the rest of the trace.
    rounding *= 2 + np.sqrt(basis.shape[1])
    # Rounding of the products with the basis.
    rounding += 4 * rows.n_features * basis.shape[1] * rows.n_rows * UNIT_ROUNDOFF
    noisy, noise_std = budget.release(release, values, rows.bound, rounding=rounding)
    order = np.argsort(-noisy[:-1], kind="stable")
    return Factors(
        components=basis.T[order],
        eigenvalues=np.maximum(noisy[order], 0.0),
        total=float(noisy.sum()),
        eigenvalue_noise=noise_std,
        n_above_noise=basis.shape[1],  # only visible components are refined
    )


# ------------------------------
# Block power iteration with clipped projections.

_LEVEL_QUANTILE = 0.2  # not studied
_LEVEL_GRID = np.geomspace(0.01, 1.0, rows_plan.N_LEVELS)  # not studied
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
        # The matrix is divided by about its Frobenius norm, so that its squares cannot overflow.
        length = float(row_norms(rows.norms()[np.newaxis])[0])
        basis = spectrum.leading_right_vectors(
            rows.source.X, rows.center, length or 1.0, size, generator
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
        edges = rows.bound * _LEVEL_GRID
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
# In a group of features, a column is shrunk at most by this factor.
_LEAST_SHRINKAGE = 0.05  # not studied


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
            columns[group] *= np.maximum(1 - 1 / np.maximum(energy, 1e-12), _LEAST_SHRINKAGE)
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
    if isinstance(plan, rows_plan.AdaptiveReleases):
        return solve_adaptive(rows, plan, budget, rank_of(spec), decomposition)
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
