"""Private alternating block iteration: noise that follows the released iterate.

The change of A Z when one entry of A moves is that entry times a row of Z. So noise in proportion
to the largest row norm of the *released* basis Z is private for every matrix, and little if Z is
spread evenly: coherence is not assumed, but a lack of it pays. Hardt and Roth found this for single
vectors with a bound on the coherence promised beforehand. Here the sensitivity is exact, rows of
the basis that stick out are cut, and the iteration alternates between both sides of a rectangular
matrix.

Every product that was released before takes part in the next basis: those of one side are averaged
by least squares, and their rows shrunk to what is likely behind them, both of which is free. A last
release, of order p, turns the bases to the singular vectors.

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
from skdp.linalg.averaging import ProductAverage, count_above_noise
from skdp.linalg.subspace import random_basis
from skdp.privacy import Release

__all__ = ["find_bases", "solve_alternating"]


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
    of_right, of_left = ProductAverage(n_kept), ProductAverage(n_kept)
    n_taken = 0
    # Shrinkage makes a few rows of the basis long beside the others. That raises the noise of the
    # next product, unless long rows are cut.
    shrink = matrix.is_cut
    for right_product, left_product in steps:
        if matrix.refuses(right):
            break
        of_right.add(matrix.matmul(right_product, right))
        left, n_taken = next_basis(of_right, right, shrink=shrink), n_taken + 1
        if matrix.refuses(left):
            break
        of_left.add(matrix.rmatmul(left_product, left))
        right, n_taken = next_basis(of_left, left, shrink=shrink), n_taken + 1
    rest = list(chain.from_iterable(steps))[n_taken:]
    failed = bool(rest)
    matrix.skip(*rest)
    if of_left.is_empty:
        return Bases(left, right, 0, failed, np.zeros((size, size)))
    # Both bases are computed once more, now from all products of the other side.
    left = next_basis(of_right, right, shrink=True)
    right = next_basis(of_left, left, shrink=True)
    product, covariance = of_left.estimate(left)
    n_above_noise = min(
        count_above_noise(*of_right.estimate(right)), count_above_noise(product, covariance)
    )
    return Bases(left, right, n_above_noise, failed, n_columns * covariance)
