r"""Private block power iteration for a symmetric matrix.

One chain :math:`V \leftarrow \operatorname{orth}(A V + N)`, with the averaging and shrinkage of the
alternating iteration, whose noise follows the released basis as well. The sign of an eigenvalue is
that of a Rayleigh quotient, so that indefinite matrices are right.

References
----------
M. Hardt, A. Roth (2013). "Beyond worst-case analysis in private singular vector computation". STOC.
:arxiv:`1211.0975`

M. Kapralov, K. Talwar (2013). "On differentially private low rank approximation". SODA.
:doi:`10.1137/1.9781611973105.101`
"""

import numpy as np

from skdp.decomposition._solvers.alternating import (
    N_KEPT,
    Bases,
    Steps,
    basis_from,
    core_part,
    count_found,
    step_weights,
)
from skdp.decomposition._solvers.noisy_matrix import NoisyMatrix
from skdp.decomposition._solvers.singular_factors import SingularFactors
from skdp.linalg.averaging import ProductAverage, count_above_noise
from skdp.linalg.subspace import random_basis
from skdp.privacy import PrivacyBudget

__all__ = ["find_basis", "signed_factors", "solve_symmetric_power"]


def solve_symmetric_power(
    matrix: NoisyMatrix, steps: Steps, *, share: float, n_components: int, is_definite: bool
) -> SingularFactors:
    """Find the eigenvectors of `matrix` whose eigenvalues are largest in size.

    If it is positive definite, negative ones are noise.

    Time O(nnz p) a step; memory O(n p).
    """
    bases = find_basis(matrix, steps, share=share * (1 - core_part(matrix)))
    core = matrix.symmetric_core("core", bases.right, share * core_part(matrix))
    return signed_factors(bases, core, n_components, matrix.budget, is_definite=is_definite)


def find_basis(matrix: NoisyMatrix, steps: Steps, *, share: float, prefix: str = "") -> Bases:
    """Iterate from a random basis, which is that of both sides."""
    basis = random_basis(matrix.shape[0], steps.basis_size, steps.generator)
    products = ProductAverage(min(N_KEPT, steps.n_iter))
    shares = share * step_weights(steps.n_iter)
    for step, step_share in enumerate(shares, start=1):
        if matrix.refuses(basis):
            matrix.budget.forfeit(float(shares[step - 1 :].sum()))
            noise = np.zeros((steps.basis_size, steps.basis_size))
            return Bases(basis, basis, 0, failed=True, noise=noise)
        products.add(matrix.matmul(f"{prefix}product {step}", basis, step_share))
        basis = basis_from(products, basis, shrink=matrix.is_clipped)
    basis = basis_from(products, basis, shrink=True)
    product, covariance = products.estimate(basis)
    n_above_noise = count_above_noise(product, covariance)
    return Bases(basis, basis, n_above_noise, failed=False, noise=len(basis) * covariance)


def signed_factors(
    bases: Bases,
    core: np.ndarray,
    n_components: int,
    budget: PrivacyBudget,
    *,
    is_definite: bool = False,
) -> SingularFactors:
    """Turn a basis to the eigenvectors of a symmetric `core`, by falling size of eigenvalues.

    The core is the last release of `budget`, made symmetric, which does not make noise longer.
    """
    eigenvalues, turn = np.linalg.eigh(core)
    if is_definite:
        eigenvalues = np.maximum(eigenvalues, 0.0)
    order = np.argsort(-np.abs(eigenvalues), kind="stable")[:n_components]
    turn, singular_values = turn[:, order], np.abs(eigenvalues[order])
    right = bases.right @ turn
    return SingularFactors(
        left=right * np.where(eigenvalues[order] < 0, -1.0, 1.0),
        singular_values=singular_values,
        right=right,
        noise_scale=budget.last_scale,
        n_above_noise=count_found(bases, singular_values, turn, budget),
        failed=bases.failed,
    )
