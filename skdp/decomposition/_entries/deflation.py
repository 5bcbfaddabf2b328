r"""One singular vector at a time: each is subtracted before the next, and no residual is released.

This is the scheme of Hardt and Roth for rank k, corrected. A component of a rectangular matrix is a
pair of vectors. A component of a symmetric matrix keeps the sign of its eigenvalue: without the
sign, subtracting the component would double a negative eigenvalue. Only the factors are released:
the residual :math:`A - \sum_i s_i u_i v_i^T` together with them would give A itself.

References
----------
M. Hardt, A. Roth (2013). "Beyond worst-case analysis in private singular vector computation". STOC.
:arxiv:`1211.0975`
"""

import numpy as np

from skdp.decomposition._entries.alternating import find_bases
from skdp.decomposition._entries.iteration import Bases
from skdp.decomposition._entries.noisy_matrix import NoisyMatrix
from skdp.decomposition._entries.plan import DeflationReleases
from skdp.decomposition._entries.rotation import rotate_to_eigenvectors, rotate_to_singular_vectors
from skdp.decomposition._entries.symmetric_power import find_basis
from skdp.decomposition._factors import Factors
from skdp.linalg.spectrum import orthonormal_basis


def solve_deflation(
    matrix: NoisyMatrix,
    plan: DeflationReleases,
    generator: np.random.Generator,
    *,
    is_symmetric: bool,
) -> Factors:
    """Find the leading singular triplets one by one: time O(nnz) a product, memory O((m + n) k)."""
    find = find_basis if is_symmetric else find_bases
    rotate = rotate_to_eigenvectors if is_symmetric else rotate_to_singular_vectors
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
    return rotate(matrix, bases, core, len(pairs))
