r"""Private covariances of the rows and of the columns of matrices, to whiten them with.

Gradient steps are right for matrices whose entries are uncorrelated. Released are the sums of
:math:`X_i X_i^T` and of :math:`X_i^T X_i`, of matrices that are clipped in norm; for vectors the
one matrix of their second moments.
"""

import math
from dataclasses import dataclass

import numpy as np

from skdp.linalg.design import Design
from skdp.linalg.matrices import Matrices
from skdp.linear_model._solvers.records import UNBOUNDED
from skdp.privacy import PrivacyBudget, sensitivity
from skdp.privacy.clipping import clip_weights

__all__ = ["Whitening", "exact_whitening", "release_whitening"]

# Matrices are clipped to so many times the norm that entries of mean square 1 have.
_CLIP = 1.3
# Eigenvalues of the noise, beside those of independent entries, which are 1.
_WANTED_EDGE = 0.3
_LEAST_SHARE = 5e-3
_LARGEST_SHARE = 0.05
# Curvature that is taken for so many times too small makes steps too long, but not for long.
_TOLERATED = 3.0


@dataclass(frozen=True)
class Whitening:
    """A map that whitens one side of the matrices, and the smallest variance that it leaves."""

    symmetric_map: np.ndarray | None = None
    least_variance: float = 1.0


def release_whitening(
    design: Design, side: int, is_null: np.ndarray, budget: PrivacyBudget
) -> Whitening:
    """Release the map for the rows (side 0) or columns (side 1) of matrices of entries of scale 1.

    A side of length 1 has none, nor one of sparse factors, which would become dense.
    """
    if not design.can_be_mapped(side):
        return Whitening()
    size, other = design.matrix_shape[side], design.matrix_shape[1 - side]
    bound = _CLIP * math.sqrt(design.n_entries)
    # The product of a matrix with its transpose is at most as long as its squared norm, and two of
    # them have an inner product that is not negative: the bound is that of vectors.
    largest = sensitivity.second_moment(bound, budget.adjacency, design.rounding)
    released = budget.symmetric_gaussian(
        ("row", "column")[side] + " covariance",
        _moment(design, side, is_null, bound),
        sensitivity=largest,
        share=_share(largest, size, other, design.n_records, budget.mu),
    )
    n_vectors = design.n_records * other
    return _whitening(released / n_vectors, budget.last_scale / n_vectors)


def exact_whitening(design: Design, side: int) -> Whitening:
    """Compute the map that `release_whitening` releases, of public matrices."""
    if not design.can_be_mapped(side):
        return Whitening()
    n_vectors = design.n_records * design.matrix_shape[1 - side]
    is_null = np.zeros(design.n_records, dtype=bool)
    return _whitening(_moment(design, side, is_null, UNBOUNDED) / n_vectors, 0.0)


def _moment(design: Design, side: int, is_null: np.ndarray, bound: float) -> np.ndarray:
    """Sum the products of the sides of matrices clipped to a norm."""

    def _kernel(records: slice, matrices: Matrices) -> np.ndarray:
        weights = clip_weights(matrices.norms(), bound, design.n_entries)
        weights[is_null[records]] = 0.0
        return matrices.second_moment(side, weights)

    return design.add_up(_kernel)


def _share(largest: float, size: int, other: int, n_records: int, mu: float) -> float:
    """Compute the share at which the noise has the wanted edge, from public facts."""
    edge = largest * math.sqrt(2 * size) / (mu * n_records * other)
    return float(np.clip((edge / _WANTED_EDGE) ** 2, _LEAST_SHARE, _LARGEST_SHARE))


def _whitening(covariance: np.ndarray, noise: float) -> Whitening:
    """Invert the root of a noisy covariance, with as much contrast as its noise leaves.

    Eigenvalues that the noise cannot reach stay. The others are shrunk to their mean by the share
    of their variance that is noise, and are at least a part of what noise could hide, as steps
    along a curvature that is taken for too small could diverge.
    """
    values, vectors = np.linalg.eigh(covariance)
    edge = noise * math.sqrt(2 * len(values))
    is_bulk = values <= np.median(values) + 1.5 * edge
    center = max(float(values[is_bulk].mean()), 0.0)
    spread = float(np.square(values[is_bulk] - center).mean())
    noise_spread = noise**2 * (len(values) + 1) / 2
    contrast = max(0.0, 1 - noise_spread / spread) if spread > 0 else 0.0
    values = np.where(is_bulk, center + contrast * (values - center), values)
    least = max(edge / _TOLERATED, 1e-6 * float(values[-1]), 1e-30)
    symmetric_map = (vectors / np.sqrt(np.maximum(values, least))) @ vectors.T
    return Whitening(symmetric_map, min(1.0, center / least))
