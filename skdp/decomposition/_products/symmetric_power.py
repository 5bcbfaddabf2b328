r"""Private block power iteration for a symmetric matrix.

One chain :math:`V \leftarrow \operatorname{orth}(A V + N)`, with the averaging and shrinkage of the
alternating iteration; the noise follows the released basis here, too. A Rayleigh quotient gives an
eigenvalue its sign, so that indefinite matrices are right.

References
----------
M. Hardt, A. Roth (2013). "Beyond worst-case analysis in private singular vector computation". STOC.
:arxiv:`1211.0975`

M. Kapralov, K. Talwar (2013). "On differentially private low rank approximation". SODA.
:doi:`10.1137/1.9781611973105.101`
"""

import numpy as np

from skdp.decomposition._factors import Factors
from skdp.decomposition._products.iteration import N_KEPT, Bases, Steps, next_basis
from skdp.decomposition._products.noisy_matrix import NoisyMatrix
from skdp.decomposition._products.rotation import rotate_to_eigenvectors
from skdp.linalg.averaging import ProductAverage, count_above_noise
from skdp.linalg.subspace import random_basis

__all__ = ["find_basis", "solve_symmetric_power"]


def solve_symmetric_power(
    matrix: NoisyMatrix, steps: Steps, *, n_components: int, is_definite: bool
) -> Factors:
    """Find the eigenvectors of `matrix` whose eigenvalues are largest in size.

    Of a definite one negative eigenvalues are noise. Time O(nnz p) a step; memory O(n p).
    """
    bases = find_basis(matrix, steps)
    core = matrix.symmetric_core("core", bases.right)
    return rotate_to_eigenvectors(matrix, bases, core, n_components, is_definite=is_definite)


def find_basis(matrix: NoisyMatrix, steps: Steps, prefix: str = "") -> Bases:
    """Iterate from a random basis, which is that of both sides."""
    basis = random_basis(matrix.shape[0], steps.basis_size, steps.generator)
    products = ProductAverage(min(N_KEPT, steps.n_iter))
    for step in range(1, steps.n_iter + 1):
        if matrix.refuses(basis):
            matrix.give_up(steps.n_iter - step + 1)
            noise = np.zeros((steps.basis_size, steps.basis_size))
            return Bases(basis, basis, 0, failed=True, noise=noise)
        products.add(matrix.matmul(f"{prefix}product {step}", basis))
        basis = next_basis(products, basis, shrink=matrix.is_cut)
    basis = next_basis(products, basis, shrink=True)
    product, covariance = products.estimate(basis)
    n_above_noise = count_above_noise(product, covariance)
    return Bases(basis, basis, n_above_noise, failed=False, noise=len(basis) * covariance)
