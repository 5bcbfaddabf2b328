r"""One singular vector at a time: what was found is taken off, and never released.

The scheme of Hardt and Roth for rank k, with what it needs to be right: pairs of vectors for
rectangular and signed values for symmetric matrices, as a value without its sign adds to a negative
eigenvalue instead of taking it off; and the factors as the result, for the residual
:math:`A - \sum_i s_i u_i v_i^T` together with them is A itself.

References
----------
M. Hardt, A. Roth (2013). "Beyond worst-case analysis in private singular vector computation". STOC.
:arxiv:`1211.0975`
"""

from dataclasses import replace

import numpy as np

from skdp.decomposition._solvers.alternating import (
    Bases,
    Steps,
    core_part,
    find_bases,
    turned_factors,
)
from skdp.decomposition._solvers.noisy_matrix import NoisyMatrix
from skdp.decomposition._solvers.singular_factors import SingularFactors
from skdp.decomposition._solvers.symmetric_power import find_basis, signed_factors
from skdp.linalg.subspace import orthonormal_basis

__all__ = ["solve_deflation"]

# Part of the share of a component that its value gets.
_VALUE_PART = 0.05


def solve_deflation(
    matrix: NoisyMatrix, steps: Steps, *, share: float, n_components: int, is_symmetric: bool
) -> SingularFactors:
    """Find the leading singular triplets of `matrix`, one after the other.

    Time O(nnz) a product, `n_iter` or twice as many a component; memory O((m + n) k).
    """
    one = replace(steps, basis_size=1)
    find = _find_eigenpair if is_symmetric else _find_triplet
    component_share = share * (1 - core_part(matrix)) / n_components
    deflated, found = matrix, []
    for index in range(1, n_components + 1):
        bases, value = find(deflated, one, share=component_share, prefix=f"component {index}: ")
        found.append(bases)
        deflated = deflated.less(value * bases.left, bases.right)
    together = Bases(
        orthonormal_basis(np.hstack([bases.left for bases in found])),
        orthonormal_basis(np.hstack([bases.right for bases in found])),
        n_above_noise=sum(bases.n_above_noise for bases in found),
        failed=any(bases.failed for bases in found),
        # Each pair of vectors has noise of its own, which making them orthogonal hardly turns.
        noise=np.diag([bases.noise.item() for bases in found]),
    )
    core_share = share * core_part(matrix)
    if is_symmetric:
        core = matrix.symmetric_core("core", together.right, core_share)
        return signed_factors(together, core, n_components, matrix.budget)
    core = matrix.core("core", together.left, together.right, core_share)
    return turned_factors(together, core, n_components, matrix.budget)


def _find_triplet(
    matrix: NoisyMatrix, steps: Steps, *, share: float, prefix: str
) -> tuple[Bases, float]:
    """Find a pair of vectors, and the value between them."""
    bases = find_bases(matrix, steps, share=share * (1 - _VALUE_PART), prefix=prefix)
    value = matrix.core(f"{prefix}value", bases.left, bases.right, share * _VALUE_PART)
    return bases, float(value[0, 0])


def _find_eigenpair(
    matrix: NoisyMatrix, steps: Steps, *, share: float, prefix: str
) -> tuple[Bases, float]:
    """Find a vector, and the value of its quadratic form, with its sign."""
    bases = find_basis(matrix, steps, share=share * (1 - _VALUE_PART), prefix=prefix)
    value = matrix.symmetric_core(f"{prefix}value", bases.right, share * _VALUE_PART)
    return bases, float(value[0, 0])
