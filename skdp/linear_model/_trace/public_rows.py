"""What keeps a few long public matrices from ruling all others, at no cost in privacy."""

import numpy as np
from scipy import sparse
from scipy.sparse import issparse

from skdp.data.design import Design
from skdp.data.rank_one import RankOneMatrices
from skdp.data.sources import ArraySource
from skdp.linear_model._trace.records import NO_CLIPPING

__all__ = ["downweight_long_rows", "inlier_mask", "outlier_threshold", "sample_rows"]

# What is more than so many times as large as all but the largest few are is not usual. It is never
# more than these few that are left out: there may be more to them than an error. Not studied.
_LARGEST_FRACTION = 0.05
_LONGEST = 5.0
# Coordinates so many times as long as usual take no part: beside them the others would be lost. Not
# studied.
_LONGEST_COORDINATES = 1e3


def outlier_threshold(sizes: np.ndarray) -> float:
    """Compute the largest size that is not far beyond all but a few of those that are not 0."""
    positive = sizes[(sizes > 0) & (sizes <= NO_CLIPPING)]
    if positive.size == 0:
        return NO_CLIPPING
    reached = np.quantile(positive, 1 - _LARGEST_FRACTION, method="lower")
    return float(min(_LONGEST * reached, NO_CLIPPING))


def inlier_mask(design: Design) -> np.ndarray:
    """Tell the matrices that are not much longer than all but a few.

    The features of sparse ones are compared by themselves, as their units may differ.
    """
    sides = [side for side, size in enumerate(design.matrix_shape) if size > 1]
    if isinstance(design.source, RankOneMatrices) and all(map(design.is_sparse, sides)):
        parts = (design.source.left, design.source.right)
        maps = [_inverse_sizes(part) if issparse(part) else None for part in parts]
        design = design.mapped(*maps)
    norms = design.norms()
    return norms <= outlier_threshold(norms)


def _inverse_sizes(part: sparse.csr_array) -> np.ndarray:
    """Compute one over the median size of the entries of each column that are kept."""
    sizes = np.abs(part.data)
    order = np.lexsort((sizes, part.indices))
    counts = np.bincount(part.indices, minlength=part.shape[1])
    inverses = np.ones(part.shape[1])
    is_kept = counts > 0
    middles = (np.cumsum(counts) - counts + (counts - 1) // 2)[is_kept]
    medians = sizes[order[middles]].astype(np.float64)
    inverses[is_kept] = 1 / np.where(
        (medians > 1 / NO_CLIPPING) & (medians <= NO_CLIPPING), medians, 1.0
    )
    return inverses


def downweight_long_rows(lengths: np.ndarray, *, downweights: bool) -> np.ndarray:
    """Weight vectors of these lengths down to the median of those that are not 0, if wanted.

    What could overflow gets the weight 0, and, if wanted, what is very much longer than usual.
    """
    is_usable = (lengths > 0) & (lengths <= NO_CLIPPING)
    if not downweights or not is_usable.any():
        return is_usable.astype(np.float64)
    usual = float(np.median(lengths[is_usable]))
    is_usable &= lengths <= _LONGEST_COORDINATES * usual
    return np.where(is_usable, np.minimum(1.0, usual / np.where(is_usable, lengths, 1.0)), 0.0)


def sample_rows(design: Design, n_rows: int) -> np.ndarray:
    """Copy at most so many of the rows, evenly spaced, of matrices that are written out."""
    assert isinstance(design.source, ArraySource)
    wanted = np.linspace(0, design.n_records - 1, min(n_rows, design.n_records)).astype(np.int64)
    rows = design.source.X[wanted]
    return np.array(rows.toarray() if issparse(rows) else rows, dtype=np.float64)
