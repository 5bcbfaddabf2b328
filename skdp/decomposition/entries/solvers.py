"""Noisy products of a private matrix, and solvers that compute factors from noisy products."""

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from skdp.data.rows import Rows
from skdp.decomposition._spec import EntriesSpec, Factors, rank_of
from skdp.decomposition.entries.plan import DeflationReleases, EntryReleases, IterationReleases
from skdp.decomposition.rows.moments import decompose
from skdp.linalg import denoising, spectrum
from skdp.linalg.denoising import ProductAverage
from skdp.linalg.matrices import FixedRank, truncate
from skdp.linalg.norms import LEAST_ROUNDING, UNIT_ROUNDOFF, row_norms
from skdp.privacy import PrivacyBudget, Release, Released
from skdp.privacy.clipping import clip_rows

# ------------------------------
# The private matrix, from which only noisy products are released.

# Long rows of a basis are cut to a norm, to reduce noise. Candidates are norms whose squares grow
# by the factor `_CUT_GROWTH`; the norm with the least predicted loss is used. The loss adds the
# noise variance, divided by `_AVERAGED` as products are averaged, and `_PRICE_OF_CUT` times the
# squares that are cut off. Not studied.
_CUT_GROWTH, _AVERAGED, _PRICE_OF_CUT = 2.0, 3.0, 0.01
# Largest squared norm of a row of a basis, relative to the mean; longer rows are cut. `PURE_CUT` is
# for ``delta=0``, where bases are not shrunk and have no extra columns:
# benchmarks/entries/choices.md.
BASIS_CUT, PURE_CUT = 0.25, 1.0
# The noise of a product is scaled to the row norms of its basis. In this scale, a row norm is at
# least this number times the root mean square of the row norms.
_LEAST_NORM = 1e-6  # not tuned


#: A basis, a matrix times this basis plus noise, and the standard deviation of the noise.
NoisyProduct = tuple[np.ndarray, np.ndarray, float]


class NoisyMatrix:
    """A private matrix minus a public matrix, of which only noisy products are released.

    The entries of X are clipped already. Before X is multiplied by a basis, long rows of the basis
    are *cut*: no squared row norm exceeds a multiple of the mean, which bounds the effect of one
    entry. If earlier products show a large signal, longer rows are left, as long as cutting them
    would lose more than the noise that they add. With a coherence bound nothing is cut: the noise
    of every product is scaled to the largest row norm that the bound allows, and a basis that
    exceeds the bound is refused.

    With a private center the matrix is :math:`(I - 1 1^T / m) A`, the private A times a public
    matrix. So released products and left bases are centered instead of A. That is exact, and adds
    no noise, unlike the subtraction of released means.
    """

    def __init__(self, spec: EntriesSpec, rows: Rows, budget: PrivacyBudget) -> None:
        self.spec, self.budget = spec, budget
        self._rows, self._unit = rows, spec.unit
        n_rows = rows.n_features if spec.unit.is_second_moment else rows.n_rows
        self.shape = n_rows, rows.n_features
        self.is_pure = budget.cost.is_pure
        # Long rows of a basis are cut, as the longest row sets the noise; the cut adds a bias.
        is_bounded = spec.coherence_bound is not None
        self.is_cut = budget.is_private and spec.unit.follows_rows and not is_bounded
        self._is_centered, self.rank = isinstance(spec.center, str), rank_of(spec)
        # The public matrix is the first factor times the transposed second factor.
        center = np.zeros((self.shape[1], 0))
        if isinstance(spec.center, np.ndarray):
            center = spec.center[:, None]
        self._public = np.ones((self.shape[0], center.shape[1])), center

    def minus(self, left: np.ndarray, right: np.ndarray) -> "NoisyMatrix":
        """Return this matrix minus a public ``left @ right.T``, with the same sensitivities."""
        other = copy.copy(self)
        other._public = (np.hstack([self._public[0], left]), np.hstack([self._public[1], right]))
        return other

    def exceeds_bound(self, basis: np.ndarray) -> bool:
        """Return whether the basis exceeds the coherence bound, if there is one."""
        if self.spec.coherence_bound is None:
            return False
        # Rounding may make a row of an orthonormal basis longer than 1, which the noise allows for.
        largest = self._norm_at(self.spec.coherence_bound, basis) * (1 + LEAST_ROUNDING / 2)
        return bool(row_norms(basis).max() > largest)

    def signal(self, products: ProductAverage, basis: np.ndarray) -> np.ndarray | None:
        """Estimate the largest squared singular values; return None if no cut depends on them."""
        if not self.is_cut or self.is_pure:
            return None
        estimate, covariance = products.estimate(basis)
        squares = np.linalg.eigvalsh(estimate.T @ estimate - len(estimate) * covariance)
        return np.maximum(squares[: -self.rank - 1 : -1], 0.0)

    def matmul(
        self, release: Release, basis: np.ndarray, signal: np.ndarray | None = None
    ) -> NoisyProduct:
        """Release the matrix times `basis`, whose long rows may be cut."""
        basis = self._cut_rows(basis, release, self._unit.product, signal)
        norms = self._noise_norms(basis)
        value, rounding = self._multiply(basis, norms)
        change = self._unit.product(norms, is_laplace=release.mechanism == "laplace")
        noisy, noise_std = self.budget.release(release, value, change, rounding)
        return basis, self._without_public(noisy, basis), noise_std

    def rmatmul(
        self, release: Release, basis: np.ndarray, signal: np.ndarray | None = None
    ) -> NoisyProduct:
        """Release the transposed matrix times `basis`, whose long rows may be cut."""
        # The cut comes first: if a centered basis were cut, its column means would not be 0.
        basis = self._centered(self._cut_rows(basis, release, self._unit.rmatmul, signal))
        norms = self._noise_norms(basis)
        # One unit may change the rounding of all rows of the product: a unit decides which zeros a
        # sparse matrix leaves out, and so the order of additions.
        is_laplace = release.mechanism == "laplace"
        # The changes of all rows of the product are added for Laplace noise, their squares for
        # Gaussian noise.
        n_rows = self.shape[1]
        factor = n_rows if is_laplace else math.sqrt(n_rows)
        rounding = self._rounding(self._rows.depth, norms) * factor
        change = self._unit.rmatmul(norms, is_laplace=is_laplace)
        value = self._rows.rmatmul(basis)
        noisy, noise_std = self.budget.release(release, value, change, rounding)
        left, right = self._public
        return basis, noisy - right @ (left.T @ basis), noise_std

    def first_basis(self, size: int) -> np.ndarray:
        """Draw a random right basis; without noise, compute the leading right singular vectors."""
        generator = self.budget.public_generator
        if not self.spec.is_exact:
            return spectrum.random_basis(self.shape[1], size, generator)

        def _matmul(basis: np.ndarray) -> np.ndarray:
            return self._without_public(self._multiply(basis, np.zeros(0))[0], basis)

        def _rmatmul(basis: np.ndarray) -> np.ndarray:
            basis, (left, right) = self._centered(basis), self._public
            return np.asarray(self._rows.rmatmul(basis) - right @ (left.T @ basis))

        adjoint = None if self.spec.is_symmetric else _rmatmul
        return spectrum.leading_right_vectors(_matmul, adjoint, self.shape, size, generator)

    def _without_public(self, product: np.ndarray, basis: np.ndarray) -> np.ndarray:
        """Subtract the public matrix from a product with a basis, and center the rows."""
        left, right = self._public
        return self._centered(product - left @ (right.T @ basis))

    def core(self, release: Release, left: np.ndarray, right: np.ndarray) -> Released:
        """Release ``left.T @ matrix @ right``; if the matrix is symmetric, `left` is `right`."""
        left, unit = self._centered(left), self._unit
        norms = self._norms(left), self._norms(right)
        change = unit.symmetric_core(norms[1]) if self.spec.is_symmetric else unit.core(*norms)
        value = left.T @ self._multiply(right, norms[1])[0]
        noisy, noise_std = self.budget.release(release, value, change, self._core_rounding(norms))
        public_left, public_right = self._public
        core = noisy - (left.T @ public_left) @ (public_right.T @ right)
        # The average with the transpose is symmetric, and has at most the same noise.
        return Released((core + core.T) / 2 if self.spec.is_symmetric else core, noise_std)

    def with_noise(self, release: Release) -> Released:
        """Release the matrix itself."""
        noisy, noise_std = self.budget.release(release, self._rows.dense())
        left, right = self._public
        return Released(self._centered(noisy - left @ right.T), noise_std)

    def _centered(self, values: np.ndarray) -> np.ndarray:
        return np.asarray(values - values.mean(axis=0)) if self._is_centered else values

    def _multiply(self, basis: np.ndarray, norms: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the matrix times a basis, and by how much one unit may change the rounding."""
        rounding = self._rounding(self.shape[1], norms)
        return self._rows.matmul(basis), self._unit.row_errors(self.shape[0]) * rounding

    def _core_rounding(self, norms: tuple[np.ndarray, np.ndarray]) -> float:
        return self._rounding(sum(self.shape), norms[0]) * float(norms[1].sum())

    def _cut_rows(
        self,
        basis: np.ndarray,
        release: Release,
        change_of: Callable[[np.ndarray], float],
        signal: np.ndarray | None,
    ) -> np.ndarray:
        """Cut long rows of a basis to the least norm or, given a released `signal`, the best norm.

        The best norm minimizes the sum of the noise of the product and of the loss by the cut.
        Noise counts relative to the signal plus the least noise, so that a weak signal does not
        decide alone. `change_of` computes the sensitivity from the row norms of the basis.
        """
        if not self.is_cut:
            return basis
        cut, least_loss = PURE_CUT if self.is_pure else BASIS_CUT, math.inf
        first_noise, best = 0.0, None
        while True:
            shortened = clip_rows(basis.copy(), self._norm_at(cut, basis))
            if signal is None:
                return shortened
            change = change_of(self._norms(shortened))
            std = self.budget.cost.noise_std("gaussian", change, release.share)
            noise = release.shape[0] * std**2 / _AVERAGED
            removed = float(np.sum(np.square(basis - shortened))) / basis.shape[1]
            first_noise = first_noise or noise
            loss = float(np.mean(noise / (signal + first_noise))) + _PRICE_OF_CUT * removed
            if best is None or loss < least_loss:
                least_loss, best = loss, shortened
            # Rows of an orthonormal basis are at most 1 long, except for rounding.
            if self._norm_at(cut, basis) == 1 or removed == 0:
                return best
            cut *= _CUT_GROWTH

    def _noise_norms(self, basis: np.ndarray) -> np.ndarray:
        """Return the row norms of a basis, in proportion to which a product gets noise."""
        norms = self._norms(basis)
        if self.spec.coherence_bound is None:
            return norms
        return np.maximum(norms, self._norm_at(self.spec.coherence_bound, basis))

    def _norms(self, basis: np.ndarray) -> np.ndarray:
        """Return row norms, raised to a small positive number: even a basis of 0 needs noise."""
        return np.maximum(row_norms(basis), _LEAST_NORM * self._norm_at(1.0, basis))

    @staticmethod
    def _norm_at(multiple: float, basis: np.ndarray) -> float:
        """Return the root of `multiple` times the mean squared row norm, and at most 1."""
        # The basis is orthonormal, so the sum of its squared row norms is its number of columns.
        return min(1.0, math.sqrt(multiple * basis.shape[1] / len(basis)))

    def _rounding(self, depth: int, norms: np.ndarray) -> float:
        """Bound the rounding error of a sum of entries times rows, after `depth` additions."""
        return (depth + 2) * UNIT_ROUNDOFF * self._unit.largest_entry * float(norms.sum())


class NoisyMoment(NoisyMatrix):
    """The second moment of private rows, from which noisy products are released."""

    def _multiply(self, basis: np.ndarray, norms: np.ndarray) -> tuple[np.ndarray, float]:
        product, rounding, _ = self._rows.normal_product(basis, np.asarray)
        return product, self._rows.bound**2 * rounding

    def _core_rounding(self, norms: tuple[np.ndarray, np.ndarray]) -> float:
        # Both the product and its sum over the rows are rounded.
        depth = self._rows.n_rows + self._rows.n_features
        relative = depth * UNIT_ROUNDOFF * self._rows.n_rows + LEAST_ROUNDING
        return 2 * self._rows.bound**2 * relative


# ------------------------------
# Released bases, and the computation of the next basis from noisy products.

# Number of earlier products that are averaged: more would take memory, and help little.
N_AVERAGED = 6  # benchmarks/entries/choices.md, "last product alone"


@dataclass(frozen=True)
class Bases:
    """Released bases of both sides of a matrix, with orthonormal columns."""

    left: np.ndarray
    right: np.ndarray
    n_above_noise: int
    failed: bool  # whether a basis exceeded the coherence bound
    # Expected inner products of the columns of the noise in `right`, of shape (size, size).
    noise_gram: np.ndarray


def next_basis(products: ProductAverage, basis: np.ndarray, *, shrink: bool) -> np.ndarray:
    """Return an orthonormal basis of the columns of an average of noisy products.

    The average estimates the product with `basis`. With `shrink`, its rows are first shrunk by what
    is likely to be noise.
    """
    estimate, covariance = products.estimate(basis)
    # Shrinkage would take the large values of Laplace and spherical noise for signal.
    if shrink and products.is_gaussian:
        estimate = denoising.shrink_rows(estimate, covariance)
    return spectrum.orthonormal_basis(estimate)


# ------------------------------
# Singular vectors from released bases and the small released core.

# A component is useful only if its singular value exceeds this many standard deviations of noise.
_CORE_DEVIATIONS = 2.0  # benchmarks/entries/warned.md, "edge alone"


def rotated(matrix: NoisyMatrix, bases: Bases, release: Release) -> Factors:
    r"""Rotate the bases to the leading singular vectors, which the released core determines.

    The result counts the components that stand out in both the bases and the core. In the core a
    component passes two tests. First, the component exists: its singular value exceeds a floor that
    noise alone exceeds once in 1000 fits. Second, its right vector v is useful: at least half of
    the squared length of v is signal.

    An iteration finds v as the direction of :math:`A^T u` plus noise. The length of :math:`A^T u`
    is at least the released singular value :math:`s = u^T A v`. The noise in n rows has the
    expected squared length :math:`n\, q^T \Gamma q`, where u = U q and :math:`\Gamma` is the
    covariance of the noise in a row of the average of all products with the basis U. So the second
    test is

    .. math:: s^2 \ge n\, q^T \Gamma q + 4 \tau^2

    where :math:`\tau` is the standard deviation of the noise in the core: the last term rejects an
    s that is mostly noise. The test ignores that rows are shrunk afterwards, and is too strict for
    coherent vectors, which shrinking helps. For noise on every entry,
    :func:`skdp.linalg.denoising.are_mostly_signal` takes the place of the second test.
    """
    core, n_components = matrix.core(release, bases.left, bases.right), matrix.rank
    is_moment = matrix.spec.unit.is_second_moment
    if matrix.spec.is_symmetric:
        eigenvalues, turn = np.linalg.eigh(core.value)
        if is_moment:
            # Negative eigenvalues of a second moment are noise.
            eigenvalues = np.maximum(eigenvalues, 0.0)
        order = np.argsort(-np.abs(eigenvalues), kind="stable")[:n_components]
        eigenvalues, right_turn = eigenvalues[order], turn[:, order]
        # Singular values are positive: the left vector gets the sign of a negative eigenvalue.
        left_turn = right_turn * np.where(eigenvalues < 0, -1.0, 1.0)
        singular_values = np.abs(eigenvalues)
    else:
        left_turn, singular_values, turn = np.linalg.svd(core.value)
        left_turn, right_turn = left_turn[:, :n_components], turn.T[:, :n_components]
        singular_values = singular_values[:n_components]
    noise_norm = spectrum.spherical_norm if matrix.is_pure else spectrum.gaussian_norm
    stands_out = singular_values > noise_norm(bases.noise_gram.shape, core.noise_std)
    noise_squares = np.einsum("ij,ik,kj->j", left_turn, bases.noise_gram, left_turn)
    least = np.sqrt(noise_squares + (_CORE_DEVIATIONS * core.noise_std) ** 2)
    stands_out &= singular_values >= least
    fit = FixedRank(bases.left @ left_turn, singular_values, bases.right @ right_turn)
    n_above_noise = min(bases.n_above_noise, int(np.sum(stands_out)))
    factors = Factors.of_fit(fit, core.noise_std, n_above_noise, power=1 if is_moment else 2)
    return replace(factors, failed=bases.failed)


# ------------------------------
# Block iteration, with noise scaled to the released basis.


def iterate(matrix: NoisyMatrix, steps: Sequence[tuple[Release, ...]]) -> Bases:
    r"""Iterate from random bases, until one exceeds the coherence bound.

    A product takes time O(nnz p), and the iteration takes memory O((m + n) p).

    A change of one entry of A changes A Z by that amount times a row of Z. So noise in proportion
    to the largest row norm of the *released* basis Z protects every matrix. This noise is small if
    Z is spread evenly: the method gains from low coherence, but does not assume low coherence. M.
    Hardt and A. Roth (2013, :arxiv:`1211.0975`) found the method for single vectors, with a
    promised bound on the coherence. Here the sensitivity is exact, long rows of the basis are cut,
    and the iteration alternates between both sides of a rectangular matrix.

    The next basis uses all earlier products: least squares averages the products of a side, and the
    rows of the average are shrunk by what is likely to be noise, which costs no privacy. A last
    release, the core of order p, rotates the bases to the singular vectors.

    For a symmetric matrix there is one basis for both sides. The method iterates
    :math:`V \leftarrow \operatorname{orth}(A V + N)`, and finds the eigenvectors whose eigenvalues
    are largest in size (M. Kapralov, K. Talwar, 2013, :doi:`10.1137/1.9781611973105.101`). The core
    gives eigenvalues their signs, as the matrix may be indefinite. If the matrix is a second
    moment, negative eigenvalues are noise.
    """
    size, n_sides = steps[0][0].shape[1], len(steps[0])
    # The sides take turns: products of A with right bases, and of A' with left bases.
    multiply, generator = (matrix.matmul, matrix.rmatmul), matrix.budget.public_generator
    left = [spectrum.random_basis(matrix.shape[0], size, generator)] if n_sides == 2 else []
    bases = [matrix.first_basis(size), *left]
    n_averaged = min(N_AVERAGED if matrix.spec.averages else 1, len(steps))
    products = [
        ProductAverage(n_averaged, shape, size, is_gaussian=not matrix.is_pure)
        for shape in (matrix.shape, matrix.shape[::-1])[:n_sides]
    ]
    releases, failed, signal = list(chain.from_iterable(steps)), False, None
    for number, release in enumerate(releases):
        side, other = number % n_sides, (number + 1) % n_sides
        if failed := matrix.exceeds_bound(bases[side]):
            matrix.budget.skip(*releases[number:])
            break
        products[side].add(*multiply[side](release, bases[side], signal))
        # Shrinkage makes a few rows of a basis longer than the others, which adds noise to the next
        # product, unless long rows are cut. The last basis of a symmetric matrix has no product.
        shrink = matrix.is_cut or (n_sides == 1 and release is releases[-1])
        bases[other] = next_basis(products[side], bases[side], shrink=shrink)
        signal = matrix.signal(products[side], bases[side])
    if failed and number < n_sides:
        # A basis has exceeded the bound before there was a product of the last side.
        return Bases(bases[-1], bases[0], 0, failed, np.zeros((size, size)))
    if n_sides == 2:
        # Each basis is computed again, from all products with bases of the other side.
        for side in (0, 1):
            bases[1 - side] = next_basis(products[side], bases[side], shrink=True)
    estimates = [each.estimate(basis) for each, basis in zip(products, bases, strict=True)]
    product, covariance = estimates[-1]
    n_above_noise = min(denoising.count_above_noise(*estimate) for estimate in estimates)
    return Bases(bases[-1], bases[0], n_above_noise, failed, len(product) * covariance)


# ------------------------------
# Deflation: one singular vector at a time.


def solve_deflation(matrix: NoisyMatrix, plan: DeflationReleases) -> Factors:
    r"""Find the leading singular triplets one by one: time O(nnz) a product, memory O((m + n) k).

    This is the scheme of M. Hardt and A. Roth (2013, :arxiv:`1211.0975`) for rank k, corrected: a
    found component is subtracted before the next iteration. A component of a rectangular matrix is
    a pair of vectors. A component of a symmetric matrix has the sign of its eigenvalue: without the
    sign, the subtraction would double a negative eigenvalue. Only the factors are released: the
    factors and the residual :math:`A - \sum_i s_i u_i v_i^T` together would give A.
    """
    deflated, pairs = matrix, []
    for component in plan.components:
        pair = iterate(deflated, component.products)
        value, _ = deflated.core(component.core, pair.left, pair.right)
        pairs.append(pair)
        deflated = deflated.minus(value.item() * pair.left, pair.right)
    bases = Bases(
        spectrum.orthonormal_basis(np.hstack([pair.left for pair in pairs])),
        spectrum.orthonormal_basis(np.hstack([pair.right for pair in pairs])),
        n_above_noise=sum(pair.n_above_noise for pair in pairs),
        failed=any(pair.failed for pair in pairs),
        # Different singular vectors have independent noise, which orthogonalizing hardly changes.
        noise_gram=np.diag([pair.noise_gram.item() for pair in pairs]),
    )
    return rotated(matrix, bases, plan.core)


# ------------------------------
# Noise on every entry of the matrix.


def solve_input(matrix: NoisyMatrix, entries: Release) -> Factors:
    """Add noise to all entries, and decompose: time O(m n min(m, n)), memory O(m n).

    A. Blum, C. Dwork, F. McSherry, K. Nissim (2005, :doi:`10.1145/1065167.1065184`).
    """
    noisy, noise_std = matrix.with_noise(entries)
    fit = truncate(noisy, matrix.rank)
    cleaned = denoising.debiased(fit.values, noise_std, noisy.shape)
    stands_out = (cleaned > 0) & denoising.are_mostly_signal(cleaned, noise_std, noisy.shape)
    return Factors.of_fit(fit.with_values(cleaned), noise_std, int(np.sum(stands_out)))


def solve_moment(spec: EntriesSpec, moment: Release, rows: Rows, budget: PrivacyBudget) -> Factors:
    """Decompose the noisy second moment: time O(nnz n + n^3), memory O(n^2)."""
    n_components, n = rank_of(spec), rows.n_features
    factors = decompose(*budget.release(moment, *rows.gram()), n_components=n_components)
    assert factors.noisy is not None
    noise_std = factors.off_diagonal_std
    # The largest eigenvalue of symmetric noise varies more than the norm of asymmetric noise.
    floor = spectrum.noise_edge(noise_std, n) + spectrum.TRACY_WIDOM * noise_std * n ** (-1 / 6)
    stands_out = factors.noisy[:n_components] > floor
    eigenvalues = factors.eigenvalues[:n_components]
    stands_out &= denoising.are_mostly_signal(eigenvalues, noise_std, (n, n))
    return replace(factors, n_above_noise=int(np.sum(stands_out)))


# ------------------------------
# The fit: from rows to released factors.


def solve_entries(
    spec: EntriesSpec, plan: EntryReleases, raw: Rows, budget: PrivacyBudget
) -> Factors:
    """Release the means of the columns, the sum of squares, and the singular factors."""
    unit, solver = spec.unit, plan.solver
    is_moment = unit.is_second_moment
    rows = unit.weighted(raw)
    mean, noise_std, squares = np.zeros(rows.n_features), 0.0, None
    if plan.mean is not None:
        total, rounding = rows.total()
        mean, noise_std = budget.release(plan.mean, total / rows.n_rows, rounding)
    elif isinstance(spec.center, np.ndarray):
        mean = spec.center
    if plan.total is not None:
        is_centered = spec.center is not None
        point, variance = (mean, noise_std**2) if is_centered else (np.zeros_like(mean), 0.0)
        exact, rounding = rows.squared_norm() if is_moment else rows.squared_deviations(point)
        noisy, _ = budget.release(plan.total, exact, point, rounding)
        # `squared_deviations` leaves out the squared point, which is added here. Noise raises each
        # squared entry of the point by its variance, on average, which is subtracted.
        shift = rows.n_rows * (float(point @ point) - rows.n_features * variance)
        squares = max(float(noisy) + shift, 0.0)
    matrix = (NoisyMoment if is_moment else NoisyMatrix)(spec, rows, budget)
    if isinstance(solver, DeflationReleases):
        factors = solve_deflation(matrix, solver)
    elif isinstance(solver, IterationReleases):
        factors = rotated(matrix, iterate(matrix, solver.products), solver.core)
    elif is_moment:
        factors = solve_moment(spec, solver, rows, budget)
    else:
        factors = solve_input(matrix, solver)
    return replace(
        factors,
        left=factors.left if unit.has_left_factors else None,
        total=factors.total if squares is None else squares,
        mean=mean,
        mean_noise_variance=noise_std**2,
    )


def solve_best_fit(spec: EntriesSpec, *opened: Any) -> Factors:
    """Release singular vectors, and the singular values that fit the matrix best."""
    factors = solve_entries(spec, *opened)
    noise_std = float(np.sqrt(factors.eigenvalue_noise))
    values = np.sqrt(factors.eigenvalues)
    if spec.solver == "input":
        values = denoising.shrunk(values, noise_std, spec.shape)
    else:
        # Released values already fit the noisy vectors: only values that may be noise become 0.
        noise_norm = spectrum.spherical_norm if spec.cost.is_pure else spectrum.gaussian_norm
        floor = noise_norm((spec.basis_size,) * 2, noise_std)
        values = np.where(values > floor, values, 0.0)
    return replace(factors, eigenvalues=np.square(values))
