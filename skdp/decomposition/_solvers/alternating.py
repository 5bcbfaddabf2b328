r"""Private alternating block iteration: noise that follows the released iterate.

The change of A Z when one entry of A moves is that entry times a row of Z, so that noise in
proportion to the largest row norm of the *released* basis Z is private for every matrix, and little
if Z is spread evenly: there are no coherence assumptions, only coherence that pays. Hardt and Roth
found this for single vectors with a bound on the coherence promised beforehand; here the
sensitivity is exact, rows of the basis that stick out are cut, and the iteration alternates between
both sides of a rectangular matrix.

Every product that was released before takes part in the next basis: those of one side are averaged
by least squares, and their rows shrunk to what is likely behind them, both of which is free. A last
release, of order p, turns the bases to the singular vectors.

References
----------
M. Hardt, A. Roth (2013). "Beyond worst-case analysis in private singular vector computation". STOC.
:arxiv:`1211.0975`
"""

from dataclasses import dataclass

import numpy as np

from skdp.decomposition._solvers.above_noise import count_above, gaussian_norm, spherical_norm
from skdp.decomposition._solvers.noisy_matrix import NoisyMatrix
from skdp.decomposition._solvers.singular_factors import SingularFactors
from skdp.linalg.averaging import ProductAverage, count_above_noise
from skdp.linalg.shrinkage import shrink_rows
from skdp.linalg.subspace import orthonormal_basis, random_basis
from skdp.privacy import PrivacyBudget

__all__ = [
    "N_KEPT",
    "Bases",
    "Steps",
    "basis_from",
    "core_part",
    "count_found",
    "find_bases",
    "solve_alternating",
    "step_weights",
    "turned_factors",
]

# Of epsilon a larger part, as that is not a square.
_CORE_PART, _PURE_CORE_PART = 0.02, 0.05
# Products of a side that are kept, and so the memory.
N_KEPT = 6
# A step gets this many times the share of the next one.
_DECAY = 0.8


@dataclass(frozen=True)
class Steps:  # numpydoc ignore=PR02
    """How long and how wide an iteration is.

    Parameters
    ----------
    n_iter : int
        Number of steps.
    basis_size : int
        Columns of a basis.
    generator : numpy.random.Generator
        Where it starts.
    """

    n_iter: int
    basis_size: int
    generator: np.random.Generator


@dataclass(frozen=True)
class Bases:  # numpydoc ignore=PR02
    """Released bases of both sides of a matrix.

    Parameters
    ----------
    left, right : ndarray of shape (n, size)
        Orthonormal columns.
    n_above_noise : int
        How many of them stand out from noise.
    failed : bool
        Whether one exceeded the coherence bound.
    noise : ndarray of shape (size, size)
        Expected inner products of the columns of the noise in the averaged product with `left`,
        which `right` stems from.
    """

    left: np.ndarray
    right: np.ndarray
    n_above_noise: int
    failed: bool
    noise: np.ndarray


def solve_alternating(
    matrix: NoisyMatrix, steps: Steps, *, share: float, n_components: int
) -> SingularFactors:
    """Find the leading singular triplets of `matrix`.

    Time O(nnz p) a product, two products a step; memory O((m + n) p).
    """
    bases = find_bases(matrix, steps, share=share * (1 - core_part(matrix)))
    core = matrix.core("core", bases.left, bases.right, share * core_part(matrix))
    return turned_factors(bases, core, n_components, matrix.budget)


def find_bases(matrix: NoisyMatrix, steps: Steps, *, share: float, prefix: str = "") -> Bases:
    """Iterate from a random basis; a basis that exceeds the coherence bound ends it early."""
    n_rows, n_columns = matrix.shape
    left = random_basis(n_rows, steps.basis_size, steps.generator)
    right = random_basis(n_columns, steps.basis_size, steps.generator)
    n_kept = min(N_KEPT, steps.n_iter)
    of_right, of_left = ProductAverage(n_kept), ProductAverage(n_kept)
    # The best split where both sides are equally coherent: noise on a side grows with its length.
    parts = np.array([n_rows, n_columns]) / (n_rows + n_columns)
    shares = share * np.outer(step_weights(steps.n_iter), parts)
    n_taken = 0
    # What shrinkage leaves sticks out: the next product pays for that, unless it is cut.
    shrink = matrix.is_clipped
    for step, (right_share, left_share) in enumerate(shares, start=1):
        if matrix.refuses(right):
            break
        of_right.add(matrix.matmul(f"{prefix}right product {step}", right, right_share))
        left, n_taken = basis_from(of_right, right, shrink=shrink), n_taken + 1
        if matrix.refuses(left):
            break
        of_left.add(matrix.adjoint(f"{prefix}left product {step}", left, left_share))
        right, n_taken = basis_from(of_left, left, shrink=shrink), n_taken + 1
    failed = n_taken < shares.size
    if failed:
        matrix.budget.forfeit(float(shares.flat[n_taken:].sum()))
    if of_left.is_empty:
        return Bases(left, right, 0, failed, np.zeros((steps.basis_size, steps.basis_size)))
    # The last basis of a side looks at the products of the other once more.
    left = basis_from(of_right, right, shrink=True)
    right = basis_from(of_left, left, shrink=True)
    product, covariance = of_left.estimate(left)
    n_above_noise = min(
        count_above_noise(*of_right.estimate(right)), count_above_noise(product, covariance)
    )
    return Bases(left, right, n_above_noise, failed, n_columns * covariance)


def core_part(matrix: NoisyMatrix) -> float:
    """Part of the solver's share for the last release."""
    return _PURE_CORE_PART if matrix.budget.is_pure else _CORE_PART


def turned_factors(
    bases: Bases, core: np.ndarray, n_components: int, budget: PrivacyBudget
) -> SingularFactors:
    """Turn the bases to the singular vectors of `core`, the last release of `budget`."""
    left_turn, singular_values, right_turn = np.linalg.svd(core)
    left_turn, right_turn = left_turn[:, :n_components], right_turn.T[:, :n_components]
    singular_values = singular_values[:n_components]
    return SingularFactors(
        left=bases.left @ left_turn,
        singular_values=singular_values,
        right=bases.right @ right_turn,
        noise_scale=budget.last_scale,
        n_above_noise=count_found(bases, singular_values, left_turn, budget),
        failed=bases.failed,
    )


def count_found(
    bases: Bases, singular_values: np.ndarray, left_turn: np.ndarray, budget: PrivacyBudget
) -> int:
    """Count the turned components that stand out in the bases and in the core."""
    noise_norm = spherical_norm if budget.is_pure else gaussian_norm
    n_found = count_above(
        singular_values,
        floor=noise_norm(bases.noise.shape, budget.last_scale),
        noise=np.einsum("ij,ik,kj->j", left_turn, bases.noise, left_turn),
        core_scale=budget.last_scale,
    )
    return min(bases.n_above_noise, n_found)


def basis_from(products: ProductAverage, basis: np.ndarray, *, shrink: bool) -> np.ndarray:
    """Compute a basis of the range of a matrix from its noisy products, the last with `basis`."""
    estimate, covariance = products.estimate(basis)
    # Large draws of other noise would be taken for signal.
    if shrink and products.is_gaussian:
        estimate = shrink_rows(estimate, covariance)
    return orthonormal_basis(estimate)


def step_weights(n_iter: int) -> np.ndarray:
    """Split the budget over the steps: the first ones need only a rough direction."""
    weights = _DECAY ** -np.arange(n_iter, dtype=float)
    return weights / weights.sum()
