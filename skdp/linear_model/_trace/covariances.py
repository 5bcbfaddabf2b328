r"""Private covariances of the rows and of the columns of matrices, to whiten them with.

The length of gradient steps suits matrices whose entries are uncorrelated. A fit therefore clips
the matrices in norm and releases the sums of :math:`X_i X_i^T` and of :math:`X_i^T X_i`; for
vectors, one of these is the second moment and the other is left out.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from skdp.data.matrices import Design
from skdp.data.parts import Targets
from skdp.linalg.matrices import Matrices
from skdp.linear_model._trace.public_rows import inlier_mask
from skdp.linear_model._trace.records import NO_CLIPPING
from skdp.privacy import PrivacyBudget, Release
from skdp.privacy.clipping import clip_weights

# Maps of rows and of columns, None for the identity.
Maps = list[np.ndarray | None]

# Matrices are clipped to this multiple of the norm of a matrix whose entries have mean square 1:
# benchmarks/house/constants.md.
_CLIP = 1.3
# The descent still converges if a curvature is this many times as large as estimated, as it soon
# shortens its steps. Not studied.
_TOLERATED = 3.0


def release_whitening(
    plan: Sequence[Release | None], design: Design, responses: Targets, budget: PrivacyBudget
) -> tuple[Maps, float]:
    """Release maps that whiten rows and columns, and the smallest variance that they leave.

    The entries are to have scale 1. A side of length 1 is not mapped. The map of sparse factors is
    a vector, from the diagonal of their second moment: any other map would make them dense.
    """
    bound = norm_bound(design.n_entries)
    maps, least_variance = Maps([None, None]), 1.0
    for side, moment in _moments(design, responses, bound).items():
        release, n_vectors = plan[side], design.n_records * design.matrix_shape[1 - side]
        assert release is not None
        released, noise_std = budget.release(release, moment, bound, rounding=design.rounding)
        maps[side], least = whitening_of(released / n_vectors, noise_std / n_vectors)
        least_variance *= least
    return maps, least_variance


def exact_whitening(design: Design) -> tuple[Maps, float]:
    """Compute what `release_whitening` releases from public matrices, without their outliers."""
    is_inlier = inlier_mask(design)
    is_left_out = Targets.of(np.where(is_inlier, 0.0, np.nan))
    maps, least_variance = Maps([None, None]), 1.0
    for side, moment in _moments(design, is_left_out, NO_CLIPPING).items():
        n_vectors = max(int(np.count_nonzero(is_inlier)), 1) * design.matrix_shape[1 - side]
        maps[side], least = whitening_of(moment / n_vectors, 0.0)
        least_variance *= least
    return maps, least_variance


def _moments(design: Design, responses: Targets, bound: float) -> dict[int, np.ndarray]:
    """Sum the second moments of all sides longer than 1, of clipped matrices, in one reading.

    A record with the response NaN is null.
    """
    sides = [side for side, length in enumerate(design.matrix_shape) if length > 1]
    clipped = partial(clip_weights, bound=bound, n_features=design.n_entries)
    kernel = partial(_second_moments, sides=sides, responses=responses, clipped=clipped)
    lengths = [(design.matrix_shape[side], 1 if design.is_sparse(side) else 2) for side in sides]
    size = sum(length**power for length, power in lengths)
    return dict(zip(sides, design.map_sum(kernel, size), strict=True)) if sides else {}


def _second_moments(
    records: slice,
    matrices: Matrices,
    sides: list[int],
    responses: Targets,
    clipped: Callable[[np.ndarray], np.ndarray],
) -> tuple[np.ndarray, ...]:
    weights = clipped(matrices.norms())
    weights[np.isnan(responses[records])] = 0.0
    return tuple(matrices.second_moment(side, weights) for side in sides)


def norm_bound(n_entries: int) -> float:
    """Return what matrices of so many entries of mean square 1 are clipped to in norm."""
    return _CLIP * math.sqrt(n_entries)


def diagonal_reach(size: int) -> float:
    """Bound the largest of so many normal numbers, but for rare cases."""
    return math.sqrt(2 * math.log(2 * size))


def whitening_of(moment: np.ndarray, noise_std: float) -> tuple[np.ndarray, float]:
    """Invert the root of a noisy covariance, or diagonal; return also the variance it may leave.

    That is the smallest variance of the whitened data, as far as the noise lets it be known.
    """
    if moment.ndim == 1:
        edge = noise_std * diagonal_reach(len(moment))
        variances, least_variance = _cleaned(moment, edge, noise_std**2)
        return 1 / np.sqrt(variances), least_variance
    values, vectors = np.linalg.eigh(moment)
    # Of a symmetric noise matrix: the largest eigenvalue, and the mean square of all.
    edge, variance = noise_std * math.sqrt(2 * len(values)), noise_std**2 * (len(values) + 1) / 2
    variances, least_variance = _cleaned(values, edge, variance)
    return (vectors / np.sqrt(variances)) @ vectors.T, least_variance


def _cleaned(values: np.ndarray, edge: float, noise_variance: float) -> tuple[np.ndarray, float]:
    """Take the noise out of noisy variances; return also how small one may be after whitening.

    Variances stay as they are if they exceed the median by more than 1.5 times `edge`, the largest
    value of the noise. The others are shrunk to their mean by the fraction of their variance that
    is noise. No variance is less than a part of `edge`: if a curvature is estimated too small,
    steps along it could diverge. The second result is the mean divided by this floor, at most 1.
    """
    is_bulk = values <= np.median(values) + 1.5 * edge
    center = max(float(values[is_bulk].mean()), 0.0)
    variance = float(np.square(values[is_bulk] - center).mean())
    contrast = max(0.0, 1 - noise_variance / variance) if variance > 0 else 0.0
    cleaned = np.where(is_bulk, center + contrast * (values - center), values)
    least = max(edge / _TOLERATED, 1e-6 * float(values.max()), 1e-30)
    return np.maximum(cleaned, least), min(1.0, center / least)
