"""Solvers of fits by products with released bases, and the fit that chooses among them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from skdp.data.rows import Rows
from skdp.decomposition._entries_matrix import (
    NoisyMatrix,
    NoisyMoment,
    count_above,
    gaussian_norm,
    spherical_norm,
)
from skdp.decomposition._entries_plan import DeflationReleases, EntryReleases, IterationReleases
from skdp.decomposition._problem import EntriesProblem, Factors, rank_of
from skdp.linalg.denoising import (
    ProductAverage,
    are_mostly_signal,
    count_above_noise,
    debiased,
    shrink_rows,
    shrunk,
)
from skdp.linalg.spectrum import orthonormal_basis, random_basis
from skdp.privacy import PrivacyBudget, Release, Released
from skdp.units import MatrixUnit

# ------------------------------
# What the iterations share: bases, and how a basis follows from products.

# Products that are averaged. More would need more memory, and older ones add little.
N_KEPT = 6  # benchmarks/entries/captured.md, "plain"


@dataclass(frozen=True)
class Bases:
    """Released bases of both sides of a matrix, with orthonormal columns."""

    left: np.ndarray
    right: np.ndarray
    n_above_noise: int
    failed: bool  # a basis exceeded the coherence bound
    # (size, size), expected inner products between the columns of the noise in `right`
    noise_gram: np.ndarray


def next_basis(products: ProductAverage, basis: np.ndarray, *, shrink: bool) -> np.ndarray:
    """Compute a basis of the range of a matrix from noisy products, the last of them with `basis`.

    `shrink` also shrinks the rows of their average toward their likely signal.
    """
    estimate, covariance = products.estimate(basis)
    # Laplace and spherical noise has large values, which the shrinkage would mistake for signal.
    if shrink and products.is_gaussian:
        estimate = shrink_rows(estimate, covariance)
    return orthonormal_basis(estimate)


# ------------------------------
# From released bases to singular vectors or eigenvectors, by a small released core.


def rotated(
    matrix: NoisyMatrix,
    bases: Bases,
    core: Released,
    n_components: int,
    *,
    is_symmetric: bool,
    is_definite: bool = False,
) -> Factors:
    """Turn the bases to the leading singular vectors of `core`, by falling singular values.

    Components count that stand out in the bases and in the core.
    """
    if is_symmetric:
        eigenvalues, turn = np.linalg.eigh(core.value)
        if is_definite:
            eigenvalues = np.maximum(eigenvalues, 0.0)
        order = np.argsort(-np.abs(eigenvalues), kind="stable")[:n_components]
        eigenvalues, right_turn = eigenvalues[order], turn[:, order]
        # Singular values have no sign, so the left vector takes that of the eigenvalue.
        left_turn = right_turn * np.where(eigenvalues < 0, -1.0, 1.0)
        singular_values = np.abs(eigenvalues)
    else:
        left_turn, singular_values, turn = np.linalg.svd(core.value)
        left_turn, right_turn = left_turn[:, :n_components], turn.T[:, :n_components]
        singular_values = singular_values[:n_components]
    noise_norm = spherical_norm if matrix.is_pure else gaussian_norm
    n_in_core = count_above(
        singular_values,
        floor=noise_norm(bases.noise_gram.shape, core.noise_std),
        noise_squares=np.einsum("ij,ik,kj->j", left_turn, bases.noise_gram, left_turn),
        core_std=core.noise_std,
    )
    return matrix.factors(
        bases.left @ left_turn,
        singular_values,
        bases.right @ right_turn,
        noise_std=core.noise_std,
        n_above_noise=min(bases.n_above_noise, n_in_core),
        failed=bases.failed,
    )


# ------------------------------
# Block iteration: noise that follows the released basis.


def solve_iteration(
    matrix: NoisyMatrix,
    plan: IterationReleases,
    generator: np.random.Generator,
    n_components: int,
    *,
    is_definite: bool,
) -> Factors:
    r"""Find the leading singular triplets: time O(nnz p) a product, memory O((m + n) p).

    If one entry of A moves, A Z moves by that change times a row of Z. So noise in proportion to
    the largest row norm of the *released* basis Z protects every matrix. This noise is small if Z
    is spread evenly: the method gains from low coherence, but does not assume it. M. Hardt and A.
    Roth (2013, :arxiv:`1211.0975`) found this for single vectors, and need a promised bound on the
    coherence. Here the sensitivity is exact, long rows of the basis are cut, and the iteration
    alternates between both sides of a rectangular matrix.

    All products released so far contribute to the next basis: those of one side are averaged by
    least squares, and the rows of the average are shrunk toward their likely signal. Both cost no
    privacy. A last release, of order p, turns the bases to the singular vectors.

    For a symmetric matrix it iterates :math:`V \leftarrow \operatorname{orth}(A V + N)`, and finds
    the eigenvectors whose eigenvalues are largest in size (M. Kapralov, K. Talwar, 2013,
    :doi:`10.1137/1.9781611973105.101`). Rayleigh quotients give the eigenvalues their signs, so
    that the matrix may be indefinite. If it is definite, negative eigenvalues are noise.
    """
    is_symmetric = isinstance(plan.products[0], Release)
    find = find_basis if is_symmetric else find_bases
    bases = find(matrix, plan.products, generator)
    core = matrix.core(plan.core, bases.left, bases.right, is_symmetric=is_symmetric)
    return rotated(
        matrix, bases, core, n_components, is_symmetric=is_symmetric, is_definite=is_definite
    )


def find_basis(
    matrix: NoisyMatrix, steps: Sequence[Release], generator: np.random.Generator
) -> Bases:
    """Iterate from a random basis, which serves both sides; end early at the coherence bound."""
    size = steps[0].shape[1]
    basis = random_basis(matrix.shape[0], size, generator)
    products = ProductAverage(min(N_KEPT, len(steps)))
    for number, product in enumerate(steps):
        if matrix.exceeds_bound(basis):
            matrix.skip(*steps[number:])
            return Bases(basis, basis, 0, failed=True, noise_gram=np.zeros((size, size)))
        products.add(matrix.matmul(product, basis))
        basis = next_basis(products, basis, shrink=matrix.is_cut)
    basis = next_basis(products, basis, shrink=True)
    estimate, covariance = products.estimate(basis)
    n_above_noise = count_above_noise(estimate, covariance)
    return Bases(basis, basis, n_above_noise, failed=False, noise_gram=len(basis) * covariance)


def find_bases(
    matrix: NoisyMatrix, steps: Sequence[tuple[Release, Release]], generator: np.random.Generator
) -> Bases:
    """Iterate from a random basis; a basis that exceeds the coherence bound ends it early."""
    (n_rows, n_columns), size = matrix.shape, steps[0][0].shape[1]
    left = random_basis(n_rows, size, generator)
    right = random_basis(n_columns, size, generator)
    n_kept = min(N_KEPT, len(steps))
    # Averages of A times right bases, and of A' times left bases.
    right_products, left_products = ProductAverage(n_kept), ProductAverage(n_kept)
    n_released = 0
    # Shrinkage leaves a few rows of the basis much longer than the others. That raises the noise of
    # the next product, unless long rows are cut.
    shrink = matrix.is_cut
    for right_release, left_release in steps:
        if matrix.exceeds_bound(right):
            break
        right_products.add(matrix.matmul(right_release, right))
        left, n_released = next_basis(right_products, right, shrink=shrink), n_released + 1
        if matrix.exceeds_bound(left):
            break
        left_products.add(matrix.rmatmul(left_release, left))
        right, n_released = next_basis(left_products, left, shrink=shrink), n_released + 1
    skipped = list(chain.from_iterable(steps))[n_released:]
    matrix.skip(*skipped)
    failed = bool(skipped)
    if left_products.is_empty:
        return Bases(left, right, 0, failed, np.zeros((size, size)))
    # Both bases are computed once more, now from all products of the other side.
    left = next_basis(right_products, right, shrink=True)
    right = next_basis(left_products, left, shrink=True)
    product, covariance = left_products.estimate(left)
    n_above_noise = min(
        count_above_noise(*right_products.estimate(right)), count_above_noise(product, covariance)
    )
    return Bases(left, right, n_above_noise, failed, n_columns * covariance)


# ------------------------------
# Deflation: one singular vector at a time.


def solve_deflation(
    matrix: NoisyMatrix,
    plan: DeflationReleases,
    generator: np.random.Generator,
    *,
    is_symmetric: bool,
) -> Factors:
    r"""Find the leading singular triplets one by one: time O(nnz) a product, memory O((m + n) k).

    This is the scheme of M. Hardt and A. Roth (2013, :arxiv:`1211.0975`) for rank k, corrected.
    Each component is subtracted before the next one is sought. A component of a rectangular matrix
    is a pair of vectors. A component of a symmetric matrix keeps the sign of its eigenvalue:
    without the sign, subtracting the component would double a negative eigenvalue. Only the factors
    are released: the residual :math:`A - \sum_i s_i u_i v_i^T` together with them would give A
    itself.
    """
    find = find_basis if is_symmetric else find_bases
    deflated, pairs = matrix, []
    for component in plan.components:
        pair = find(deflated, component.products, generator)
        # Symmetric matrices keep the sign of the eigenvalue here.
        value, _ = deflated.core(component.core, pair.left, pair.right, is_symmetric=is_symmetric)
        pairs.append(pair)
        deflated = deflated.minus(value.item() * pair.left, pair.right)
    bases = Bases(
        orthonormal_basis(np.hstack([pair.left for pair in pairs])),
        orthonormal_basis(np.hstack([pair.right for pair in pairs])),
        n_above_noise=sum(pair.n_above_noise for pair in pairs),
        failed=any(pair.failed for pair in pairs),
        # The noise is independent between pairs, and making them orthogonal hardly turns them.
        noise_gram=np.diag([pair.noise_gram.item() for pair in pairs]),
    )
    core = matrix.core(plan.core, bases.left, bases.right, is_symmetric=is_symmetric)
    return rotated(matrix, bases, core, len(pairs), is_symmetric=is_symmetric)


# ------------------------------
# Noise on every entry of the matrix.


def solve_input(matrix: NoisyMatrix, entries: Release, n_components: int) -> Factors:
    """Decompose the noisy matrix: time O(m n min(m, n)), memory O(m n), even for sparse rows.

    All entries get noise (A. Blum, C. Dwork, F. McSherry, K. Nissim, 2005,
    :doi:`10.1145/1065167.1065184`); decomposing the noisy matrix costs no more privacy.
    """
    noisy, noise_std = matrix.with_noise(entries)
    left, singular_values, right = np.linalg.svd(noisy, full_matrices=False)
    singular_values = singular_values[:n_components]
    cleaned = debiased(singular_values, noise_std, noisy.shape)
    stands_out = singular_values > gaussian_norm(noisy.shape, noise_std)
    stands_out &= are_mostly_signal(cleaned, noise_std, noisy.shape)
    return matrix.factors(
        left[:, :n_components],
        cleaned,
        right[:n_components].T,
        noise_std=noise_std,
        n_above_noise=int(np.sum(stands_out)),
    )


# ------------------------------
# From a raw matrix to released factors.

#: Largest squared row norm of a basis, in units of their mean. The second is for ``delta=0``, where
#: products are not shrunk and a basis has no columns to spare: benchmarks/entries/cut.md.
BASIS_CUT, PURE_CUT = 0.25, 1.0


def solve_entries(
    problem: EntriesProblem,
    plan: EntryReleases,
    raw: Rows,
    budget: PrivacyBudget,
    generator: np.random.Generator,
) -> Factors:
    """Release the means of the columns, the sum of squares, and the singular factors."""
    unit = problem.unit
    rows = unit.weighted(raw)
    mean, noise_std = np.zeros(rows.n_features), 0.0
    if plan.mean is not None:
        total, rounding = rows.total()
        mean, noise_std = budget.release(plan.mean, total / rows.n_rows, rounding)
    elif isinstance(problem.center, np.ndarray):
        mean = problem.center
    squares = None
    if plan.total is not None:
        is_centered = problem.center is not None
        point, variance = (mean, noise_std**2) if is_centered else (np.zeros_like(mean), 0.0)
        squares = _release_total(plan.total, rows, budget, unit, point, variance)
    factors = _decompose(problem, plan.solver, _matrix_of(problem, rows, budget), generator)
    return replace(
        factors,
        left=factors.left if unit.has_left_factors else None,
        total=factors.total if squares is None else squares,
        mean=mean,
        mean_noise_variance=noise_std**2,
    )


def solve_best_fit(problem: EntriesProblem, *opened: Any) -> Factors:
    """Release the singular factors, with singular values shrunk for the noise in the vectors."""
    factors = solve_entries(problem, *opened)
    noise_std = float(np.sqrt(factors.eigenvalue_noise))
    values = np.sqrt(factors.eigenvalues)
    if problem.solver == "input":
        values = shrunk(values, noise_std, problem.shape)
    else:
        # The core has the matrix along the noisy vectors themselves, so no shrinkage is needed.
        noise_norm = spherical_norm if problem.cost.is_pure else gaussian_norm
        floor = noise_norm((problem.basis_size,) * 2, noise_std)
        values = np.where(values > floor, values, 0.0)
    return replace(factors, eigenvalues=np.square(values))


def _release_total(
    release: Release,
    rows: Rows,
    budget: PrivacyBudget,
    unit: MatrixUnit,
    point: np.ndarray,
    point_variance: float,
) -> float:
    """Release the squared distances of the rows from a point; return the sum of squared norms.

    If the point is their mean with noise of variance `point_variance`, the noise is corrected for.
    """
    if unit.is_second_moment:
        squares, rounding = rows.squared_norm()
    else:
        squares, rounding = rows.squared_deviations(point)
    noisy, _ = budget.release(release, squares, point, rounding)
    # Turns squared distances into squared norms, and subtracts what the noise of the point adds.
    shift = rows.n_rows * (float(point @ point) - rows.n_features * point_variance)
    return max(float(noisy) + shift, 0.0)


def _matrix_of(problem: EntriesProblem, rows: Rows, budget: PrivacyBudget) -> NoisyMatrix:
    """Wrap the rows, so that solvers see only noisy products."""
    kind = NoisyMoment if problem.unit.is_second_moment else NoisyMatrix
    cut = PURE_CUT if budget.cost.is_pure else BASIS_CUT
    # Cutting keeps the noise small; without noise it would only add an error.
    matrix = kind(
        problem, rows, budget, cut if budget.is_private and problem.unit.follows_rows else None
    )
    if isinstance(problem.center, np.ndarray):
        matrix = matrix.minus(np.ones((rows.n_rows, 1)), problem.center[:, None])
    return matrix


def _decompose(
    problem: EntriesProblem,
    plan: Release | IterationReleases | DeflationReleases,
    matrix: NoisyMatrix,
    generator: np.random.Generator,
) -> Factors:
    """Run the solver whose releases the plan has."""
    rank, unit = rank_of(problem), problem.unit
    if isinstance(plan, DeflationReleases):
        return solve_deflation(matrix, plan, generator, is_symmetric=unit.is_symmetric)
    if isinstance(plan, Release):
        return solve_input(matrix, plan, rank)
    return solve_iteration(matrix, plan, generator, rank, is_definite=unit.is_second_moment)
