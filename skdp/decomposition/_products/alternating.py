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

from skdp.decomposition._factors import Factors
from skdp.decomposition._products.above_noise import count_above, gaussian_norm, spherical_norm
from skdp.decomposition._products.noisy_matrix import NoisyMatrix
from skdp.linalg.averaging import ProductAverage, count_above_noise
from skdp.linalg.shrinkage import shrink_rows
from skdp.linalg.subspace import orthonormal_basis, random_basis
from skdp.privacy import Released

__all__ = [
    "N_KEPT",
    "Bases",
    "Steps",
    "count_found",
    "find_bases",
    "next_basis",
    "rotate_to_singular_vectors",
    "solve_alternating",
]

# Products of a side that are kept, and so the memory.
N_KEPT = 6


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


def solve_alternating(matrix: NoisyMatrix, steps: Steps, *, n_components: int) -> Factors:
    """Find the leading singular triplets of `matrix`.

    Time O(nnz p) a product, two products a step; memory O((m + n) p).
    """
    bases = find_bases(matrix, steps)
    core = matrix.core("core", bases.left, bases.right)
    return rotate_to_singular_vectors(matrix, bases, core, n_components)


def find_bases(matrix: NoisyMatrix, steps: Steps, prefix: str = "") -> Bases:
    """Iterate from a random basis; a basis that exceeds the coherence bound ends it early."""
    n_rows, n_columns = matrix.shape
    left = random_basis(n_rows, steps.basis_size, steps.generator)
    right = random_basis(n_columns, steps.basis_size, steps.generator)
    n_kept = min(N_KEPT, steps.n_iter)
    of_right, of_left = ProductAverage(n_kept), ProductAverage(n_kept)
    n_taken = 0
    # What shrinkage leaves sticks out: the next product pays for that, unless it is cut.
    shrink = matrix.is_cut
    for step in range(1, steps.n_iter + 1):
        if matrix.refuses(right):
            break
        of_right.add(matrix.matmul(f"{prefix}right product {step}", right))
        left, n_taken = next_basis(of_right, right, shrink=shrink), n_taken + 1
        if matrix.refuses(left):
            break
        of_left.add(matrix.adjoint(f"{prefix}left product {step}", left))
        right, n_taken = next_basis(of_left, left, shrink=shrink), n_taken + 1
    n_left = 2 * steps.n_iter - n_taken
    failed = n_left > 0
    matrix.give_up(n_left)
    if of_left.is_empty:
        return Bases(left, right, 0, failed, np.zeros((steps.basis_size, steps.basis_size)))
    # The last basis of a side looks at the products of the other once more.
    left = next_basis(of_right, right, shrink=True)
    right = next_basis(of_left, left, shrink=True)
    product, covariance = of_left.estimate(left)
    n_above_noise = min(
        count_above_noise(*of_right.estimate(right)), count_above_noise(product, covariance)
    )
    return Bases(left, right, n_above_noise, failed, n_columns * covariance)


def rotate_to_singular_vectors(
    matrix: NoisyMatrix, bases: Bases, core: Released, n_components: int
) -> Factors:
    """Turn the bases to the singular vectors of `core`."""
    left_turn, singular_values, right_turn = np.linalg.svd(core.value)
    left_turn, right_turn = left_turn[:, :n_components], right_turn.T[:, :n_components]
    singular_values = singular_values[:n_components]
    return matrix.factors(
        bases.left @ left_turn,
        singular_values,
        bases.right @ right_turn,
        noise_scale=core.scale,
        n_above_noise=count_found(
            bases, singular_values, left_turn, core.scale, is_pure=matrix.is_pure
        ),
        failed=bases.failed,
    )


def count_found(
    bases: Bases,
    singular_values: np.ndarray,
    left_turn: np.ndarray,
    core_scale: float,
    *,
    is_pure: bool,
) -> int:
    """Count the turned components that stand out in the bases and in the core."""
    noise_norm = spherical_norm if is_pure else gaussian_norm
    n_found = count_above(
        singular_values,
        floor=noise_norm(bases.noise.shape, core_scale),
        noise=np.einsum("ij,ik,kj->j", left_turn, bases.noise, left_turn),
        core_scale=core_scale,
    )
    return min(bases.n_above_noise, n_found)


def next_basis(products: ProductAverage, basis: np.ndarray, *, shrink: bool) -> np.ndarray:
    """Compute a basis of the range of a matrix from its noisy products, the last with `basis`."""
    estimate, covariance = products.estimate(basis)
    # Large draws of other noise would be taken for signal.
    if shrink and products.is_gaussian:
        estimate = shrink_rows(estimate, covariance)
    return orthonormal_basis(estimate)
