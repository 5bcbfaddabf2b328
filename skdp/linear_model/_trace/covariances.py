r"""Private covariances of the rows and of the columns of matrices, to whiten them with.

Gradient steps are right for matrices whose entries are uncorrelated. Released are the sums of
:math:`X_i X_i^T` and of :math:`X_i^T X_i`, of matrices that are clipped in norm; for vectors the
one matrix of their second moments.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from skdp.data.design import Design
from skdp.linalg.matrices import Matrices
from skdp.linear_model._trace.public_rows import inlier_mask
from skdp.linear_model._trace.records import NO_CLIPPING
from skdp.privacy import PrivacyBudget, Release
from skdp.privacy.clipping import clip_weights

__all__ = [
    "Whitening",
    "diagonal_reach",
    "exact_whitening",
    "norm_bound",
    "release_whitening",
    "whitening_of",
]

# Matrices are clipped to this multiple of the norm of a matrix whose entries have mean square 1:
# benchmarks/house/constants.md.
_CLIP = 1.3
# Steps bear a curvature that is estimated too small by this factor: gradients shorten them soon.
# Not studied.
_TOLERATED = 3.0


@dataclass(frozen=True)
class Whitening:
    """A map that whitens one side of the matrices, and the smallest variance that it leaves."""

    symmetric_map: np.ndarray | None = None
    least_variance: float = 1.0


def release_whitening(
    plan: Sequence[Release | None], design: Design, is_null: np.ndarray, budget: PrivacyBudget
) -> list[Whitening]:
    """Release the maps for the rows and for the columns of matrices of entries of scale 1.

    A side of length 1 has none. That of sparse factors has a vector, by the diagonal of their
    second moments, as they would become dense.
    """
    bound = norm_bound(design.n_entries)
    maps = [Whitening(), Whitening()]
    for side, moment in _moments(design, is_null, bound).items():
        release, n_vectors = plan[side], design.n_records * design.matrix_shape[1 - side]
        assert release is not None
        released, noise_std = budget.release(release, moment, bound, rounding=design.rounding)
        maps[side] = whitening_of(released / n_vectors, noise_std / n_vectors)
    return maps


def exact_whitening(design: Design) -> list[Whitening]:
    """Compute the maps that `release_whitening` releases, of usual public matrices."""
    is_usual = inlier_mask(design)
    maps = [Whitening(), Whitening()]
    for side, moment in _moments(design, ~is_usual, NO_CLIPPING).items():
        n_vectors = max(int(np.count_nonzero(is_usual)), 1) * design.matrix_shape[1 - side]
        maps[side] = whitening_of(moment / n_vectors, 0.0)
    return maps


def _moments(design: Design, is_null: np.ndarray, bound: float) -> dict[int, np.ndarray]:
    """Sum the products of the sides of matrices clipped to a norm, in one reading."""
    sides = [side for side, length in enumerate(design.matrix_shape) if length > 1]
    clipped = partial(clip_weights, bound=bound, n_features=design.n_entries)
    kernel = partial(_second_moments, sides=sides, is_null=is_null, clipped=clipped)
    lengths = [(design.matrix_shape[side], 1 if design.is_sparse(side) else 2) for side in sides]
    size = sum(length**power for length, power in lengths)
    return dict(zip(sides, design.map_sum(kernel, size), strict=True)) if sides else {}


def _second_moments(
    records: slice,
    matrices: Matrices,
    sides: list[int],
    is_null: np.ndarray,
    clipped: Callable[[np.ndarray], np.ndarray],
) -> tuple[np.ndarray, ...]:
    weights = clipped(matrices.norms())
    weights[is_null[records]] = 0.0
    return tuple(matrices.second_moment(side, weights) for side in sides)


def norm_bound(n_entries: int) -> float:
    """Return what matrices of so many entries of mean square 1 are clipped to in norm."""
    return _CLIP * math.sqrt(n_entries)


def diagonal_reach(size: int) -> float:
    """Bound the largest of so many normal numbers, but for rare cases."""
    return math.sqrt(2 * math.log(2 * size))


def whitening_of(moment: np.ndarray, noise_std: float) -> Whitening:
    """Invert the root of a covariance, or of a diagonal, with noise of that standard deviation."""
    if moment.ndim == 1:
        variances, least_variance = _cleaned(
            moment, noise_std * diagonal_reach(len(moment)), noise_std**2
        )
        return Whitening(1 / np.sqrt(variances), least_variance)
    values, vectors = np.linalg.eigh(moment)
    edge, variance = noise_std * math.sqrt(2 * len(values)), noise_std**2 * (len(values) + 1) / 2
    variances, least_variance = _cleaned(values, edge, variance)
    return Whitening((vectors / np.sqrt(variances)) @ vectors.T, least_variance)


def _cleaned(values: np.ndarray, edge: float, noise_variance: float) -> tuple[np.ndarray, float]:
    """Leave noisy variances as much contrast as their noise does; return the least one, too.

    Those that the noise, of which `edge` is the largest, cannot reach stay. The others are shrunk
    to their mean by the fraction of their variance that is noise, and are at least a part of what
    noise could hide, as steps along a curvature that is taken for too small could diverge. Returned
    last is the smallest variance divided by the value that takes its place, at most 1.
    """
    is_bulk = values <= np.median(values) + 1.5 * edge
    center = max(float(values[is_bulk].mean()), 0.0)
    variance = float(np.square(values[is_bulk] - center).mean())
    contrast = max(0.0, 1 - noise_variance / variance) if variance > 0 else 0.0
    cleaned = np.where(is_bulk, center + contrast * (values - center), values)
    least = max(edge / _TOLERATED, 1e-6 * float(values.max()), 1e-30)
    return np.maximum(cleaned, least), min(1.0, center / least)
