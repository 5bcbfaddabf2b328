"""Private alternating block iteration: noise that follows the released iterate.

If one entry of A moves, A Z moves by that change times a row of Z. So noise in proportion to the
largest row norm of the *released* basis Z protects every matrix. This noise is small if Z is spread
evenly: the method gains from low coherence, but does not assume it. Hardt and Roth found this for
single vectors, and need a promised bound on the coherence. Here the sensitivity is exact, long rows
of the basis are cut, and the iteration alternates between both sides of a rectangular matrix.

All products released so far contribute to the next basis: those of one side are averaged by least
squares, and the rows of the average are shrunk toward their likely signal. Both cost no privacy. A
last release, of order p, turns the bases to the singular vectors.

References
----------
M. Hardt, A. Roth (2013). "Beyond worst-case analysis in private singular vector computation". STOC.
:arxiv:`1211.0975`
"""

from collections.abc import Sequence
from itertools import chain

import numpy as np

from skdp.decomposition._entries.iteration import N_KEPT, Bases, next_basis
from skdp.decomposition._entries.noisy_matrix import NoisyMatrix
from skdp.decomposition._entries.plan import IterationReleases
from skdp.decomposition._entries.rotation import rotate_to_singular_vectors
from skdp.decomposition._factors import Factors
from skdp.linalg.denoising import ProductAverage, count_above_noise
from skdp.linalg.spectrum import random_basis
from skdp.privacy import Release


def solve_alternating(
    matrix: NoisyMatrix, plan: IterationReleases, generator: np.random.Generator, n_components: int
) -> Factors:
    """Find the leading singular triplets: time O(nnz p) a product, memory O((m + n) p)."""
    bases = find_bases(matrix, plan.products, generator)
    core = matrix.core(plan.core, bases.left, bases.right)
    return rotate_to_singular_vectors(matrix, bases, core, n_components)


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
