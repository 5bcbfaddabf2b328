r"""One singular vector at a time: what was found is taken off, and never released.

The scheme of Hardt and Roth for rank k, made right. Rectangular matrices have pairs of vectors.
Symmetric ones have signed values: a value without its sign adds to a negative eigenvalue instead of
taking it off. The result is the factors: the residual :math:`A - \sum_i s_i u_i v_i^T` together
with them is A itself.

References
----------
M. Hardt, A. Roth (2013). "Beyond worst-case analysis in private singular vector computation". STOC.
:arxiv:`1211.0975`
"""

import numpy as np

from skdp.decomposition._entries.alternating import find_bases
from skdp.decomposition._entries.iteration import Bases
from skdp.decomposition._entries.noisy_matrix import NoisyMatrix
from skdp.decomposition._entries.plan import DeflationReleases, IterationReleases
from skdp.decomposition._entries.rotation import rotate_to_eigenvectors, rotate_to_singular_vectors
from skdp.decomposition._entries.symmetric_power import find_basis
from skdp.decomposition._factors import Factors
from skdp.linalg.subspace import orthonormal_basis

__all__ = ["solve_deflation"]


def solve_deflation(
    matrix: NoisyMatrix,
    plan: DeflationReleases,
    generator: np.random.Generator,
    *,
    is_symmetric: bool,
) -> Factors:
    """Find the leading singular triplets one by one: time O(nnz) a product, memory O((m + n) k)."""
    find = _find_eigenpair if is_symmetric else _find_triplet
    deflated, found = matrix, []
    for component in plan.components:
        bases, value = find(deflated, component, generator)
        found.append(bases)
        deflated = deflated.minus(value * bases.left, bases.right)
    together = Bases(
        orthonormal_basis(np.hstack([bases.left for bases in found])),
        orthonormal_basis(np.hstack([bases.right for bases in found])),
        n_above_noise=sum(bases.n_above_noise for bases in found),
        failed=any(bases.failed for bases in found),
        # Every pair of vectors was found with noise of its own, and hardly turns when they are made
        # orthogonal.
        noise_gram=np.diag([bases.noise_gram.item() for bases in found]),
    )
    if is_symmetric:
        core = matrix.symmetric_core(plan.core, together.right)
        return rotate_to_eigenvectors(matrix, together, core, len(found))
    core = matrix.core(plan.core, together.left, together.right)
    return rotate_to_singular_vectors(matrix, together, core, len(found))


def _find_triplet(
    matrix: NoisyMatrix, plan: IterationReleases, generator: np.random.Generator
) -> tuple[Bases, float]:
    """Find a pair of vectors, and the value between them."""
    bases = find_bases(matrix, plan.products, generator)
    value, _ = matrix.core(plan.core, bases.left, bases.right)
    return bases, float(value[0, 0])


def _find_eigenpair(
    matrix: NoisyMatrix, plan: IterationReleases, generator: np.random.Generator
) -> tuple[Bases, float]:
    """Find a vector, and the value of its quadratic form, with its sign."""
    bases = find_basis(matrix, plan.products, generator)
    value, _ = matrix.symmetric_core(plan.core, bases.right)
    return bases, float(value[0, 0])
