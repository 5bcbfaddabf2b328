r"""Private block power iteration for a symmetric matrix.

It iterates :math:`V \leftarrow \operatorname{orth}(A V + N)`, with the averaging and shrinkage of
the alternating iteration; here, too, the noise follows the released basis. Rayleigh quotients give
the eigenvalues their signs, so that the matrix may be indefinite.

References
----------
M. Hardt, A. Roth (2013). "Beyond worst-case analysis in private singular vector computation". STOC.
:arxiv:`1211.0975`

M. Kapralov, K. Talwar (2013). "On differentially private low rank approximation". SODA.
:doi:`10.1137/1.9781611973105.101`
"""

from collections.abc import Sequence

import numpy as np

from skdp.decomposition._entries.iteration import N_KEPT, Bases, next_basis
from skdp.decomposition._entries.noisy_matrix import NoisyMatrix
from skdp.decomposition._entries.plan import IterationReleases
from skdp.decomposition._entries.rotation import rotate_to_eigenvectors
from skdp.decomposition._factors import Factors
from skdp.linalg.denoising import ProductAverage, count_above_noise
from skdp.linalg.spectrum import random_basis
from skdp.privacy import Release


def solve_symmetric_power(
    matrix: NoisyMatrix,
    plan: IterationReleases,
    generator: np.random.Generator,
    n_components: int,
    *,
    is_definite: bool,
) -> Factors:
    """Find the eigenvectors of `matrix` whose eigenvalues are largest in size.

    If it is definite, negative eigenvalues are noise. Time O(nnz p) a step; memory O(n p).
    """
    bases = find_basis(matrix, plan.products, generator)
    core = matrix.core(plan.core, bases.left, bases.right, is_symmetric=True)
    return rotate_to_eigenvectors(matrix, bases, core, n_components, is_definite=is_definite)


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
