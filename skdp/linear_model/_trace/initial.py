r"""The start of a descent: 0 with random directions, or a first private estimate.

For matrices whose entries are independent with variance 1, :math:`\frac1n \sum_i y_i X_i` estimates
the coefficients.

References
----------
.. [1] M. Zha (2024). "Near-optimal differentially private low-rank trace regression with guaranteed
   private initialization". :arxiv:`2403.15999`
.. [2] C. Dwork, J. Lei (2009). "Differential privacy and robust statistics". STOC.
   :doi:`10.1145/1536414.1536466`
"""

import math
from collections.abc import Callable
from functools import partial
from operator import methodcaller

import numpy as np

from skdp.data.parts import Targets
from skdp.linalg.matrices import Coordinates, FixedRank, Matrices
from skdp.linalg.spectrum import leading_eigenvectors, random_basis
from skdp.linear_model._trace.plan import StartReleases
from skdp.linear_model._trace.records import NO_CLIPPING, Records, clipped_sum
from skdp.privacy import PrivacyBudget, Release
from skdp.privacy.noise import certain_part


def random_start(shape: tuple[int, int], rank: int, generator: np.random.Generator) -> FixedRank:
    """Return the matrix 0 with random factors."""
    left, right = (random_basis(size, rank, generator) for size in shape)
    return FixedRank(left, np.zeros(rank), right)


def release_start(
    plan: StartReleases, records: Records, start: FixedRank, spread: float, budget: PrivacyBudget
) -> FixedRank:
    """Release the leading singular subspaces of the mean of y_i X_i if its gap allows it.

    The published start assumes that the data have a gap between singular values, from which the
    sensitivity of the subspaces follows [1]_. This one first releases a lower bound of the gap,
    which is too large with probability `delta_tail` of the budget. If the bound is too small, the
    start is random: propose, test, release [2]_.
    """
    shape, rank = records.design.matrix_shape, start.rank
    level = 1.5 * spread * sum(math.sqrt(size) for size in shape)
    entries = methodcaller("entries")
    total, _ = _sum_of_products(records, entries, level, math.prod(shape))
    # Spectral norms are clipped, and rounding is relative to Frobenius norms.
    rounding = records.design.rounding * math.sqrt(min(shape))
    left, values, right = np.linalg.svd(total.reshape(shape), full_matrices=False)
    gap = values[rank - 1] - (values[rank] if rank < len(values) else 0.0)
    released, noise_std = budget.release(plan.gap, gap, level, rounding=rounding)
    certain = certain_part(float(released), noise_std, budget.cost.delta_tail)
    # Weyl: a neighbor moves a gap by up to twice as much as the sum. Only a gap that is certainly
    # larger leaves the subspaces a bounded sensitivity.
    moved = plan.gap.change(level, rounding=rounding)
    if budget.is_private and certain <= moved:
        budget.skip(plan.subspaces, plan.core)
        return start
    projectors = np.zeros((sum(shape),) * 2)
    projectors[: shape[0], : shape[0]] = left[:, :rank] @ left[:, :rank].T
    projectors[shape[0] :, shape[0] :] = right[:rank].T @ right[:rank]
    noisy, _ = budget.release(plan.subspaces, projectors, moved / 2, certain)
    released_left = leading_eigenvectors(noisy[: shape[0], : shape[0]], rank)[1]
    released_right = leading_eigenvectors(noisy[shape[0] :, shape[0] :], rank)[1]
    return _with_core(plan.core, records, released_left, released_right, spread, budget)


def _sum_of_products(
    records: Records, coordinates_of: Callable[[Matrices], Coordinates], level: float, size: int
) -> tuple[np.ndarray, np.ndarray]:
    vectors = partial(_products, coordinates_of=coordinates_of, responses=records.responses)
    return clipped_sum(records.design, vectors, min(level, NO_CLIPPING), size)


def _products(
    rows: slice,
    matrices: Matrices,
    coordinates_of: Callable[[Matrices], Coordinates],
    responses: Targets,
) -> tuple[Coordinates, np.ndarray]:
    return coordinates_of(matrices), responses[rows]


def _with_core(
    plan: Release,
    records: Records,
    left: np.ndarray,
    right: np.ndarray,
    spread: float,
    budget: PrivacyBudget,
) -> FixedRank:
    """Release the mean of y_i U'X_iV for released bases."""
    rank = left.shape[1]
    level = 2.6 * spread * rank
    total, _ = _sum_of_products(records, methodcaller("cores", left, right), level, rank**2)
    released, _ = budget.release(plan, total, level, rounding=records.design.rounding)
    core = (released / records.design.n_records).reshape(rank, rank)
    return FixedRank(left, np.ones(rank), right @ core.T).orthonormal()
