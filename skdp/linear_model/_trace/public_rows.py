"""Weights that keep a few long public matrices from ruling all others; they cost no privacy."""

import numpy as np
from scipy import sparse
from scipy.sparse import issparse

from skdp.data.matrices import Design, RankOneMatrices
from skdp.data.sources import ArraySource
from skdp.linear_model._trace.records import NO_CLIPPING

# A quantile has this fraction of the sizes above it; outliers are larger than so many times that
# quantile. No larger fraction is ever left out, as so many are hardly errors. Not studied.
_LARGEST_FRACTION = 0.05
_LONGEST = 5.0
# Coordinates this many times as long as the median take no part: rounded beside them, the others
# would be lost. Not studied.
_LONGEST_COORDINATES = 1e3


def outlier_threshold(sizes: np.ndarray) -> float:
    """Compute the size above which values are outliers among those that are not 0."""
    positive = sizes[(sizes > 0) & (sizes <= NO_CLIPPING)]
    if positive.size == 0:
        return NO_CLIPPING
    reached = np.quantile(positive, 1 - _LARGEST_FRACTION, method="lower")
    return float(min(_LONGEST * reached, NO_CLIPPING))


def inlier_mask(design: Design) -> np.ndarray:
    """Mark the matrices that are not much longer than all but a few.

    Entries of sparse factors are first divided by the median of their column, as the units of
    columns may differ.
    """
    sides = [side for side, size in enumerate(design.matrix_shape) if size > 1]
    if isinstance(design.source, RankOneMatrices) and all(map(design.is_sparse, sides)):
        parts = (design.source.left, design.source.right)
        maps = [_inverse_sizes(part) if issparse(part) else None for part in parts]
        design = design.mapped(*maps)
    norms = design.norms()
    return norms <= outlier_threshold(norms)


def _inverse_sizes(part: sparse.csr_array) -> np.ndarray:
    """Compute one over the median size of the stored entries of each column; 1 for none."""
    sizes = np.abs(part.data)
    order = np.lexsort((sizes, part.indices))
    counts = np.bincount(part.indices, minlength=part.shape[1])
    inverses = np.ones(part.shape[1])
    is_kept = counts > 0
    # Sizes are sorted column by column: of each, the place of the lower median.
    middles = (np.cumsum(counts) - counts + (counts - 1) // 2)[is_kept]
    medians = sizes[order[middles]].astype(np.float64)
    inverses[is_kept] = 1 / np.where(
        (medians > 1 / NO_CLIPPING) & (medians <= NO_CLIPPING), medians, 1.0
    )
    return inverses


def downweight_long_rows(lengths: np.ndarray, *, downweights: bool) -> np.ndarray:
    """Return weights that shorten long vectors to the median length of those that are not 0.

    Vectors that could overflow, or are very much longer than the median, have the weight 0. Without
    `downweights` only the former do, and all others have the weight 1.
    """
    is_usable = (lengths > 0) & (lengths <= NO_CLIPPING)
    if not downweights or not is_usable.any():
        return is_usable.astype(np.float64)
    median = float(np.median(lengths[is_usable]))
    is_usable &= lengths <= _LONGEST_COORDINATES * median
    return np.where(is_usable, np.minimum(1.0, median / np.where(is_usable, lengths, 1.0)), 0.0)


def sample_rows(design: Design, n_rows: int) -> np.ndarray:
    """Copy at most `n_rows` evenly spaced rows of matrices that are written out."""
    assert isinstance(design.source, ArraySource)
    places = np.linspace(0, design.n_records - 1, min(n_rows, design.n_records)).astype(np.int64)
    rows = design.source.X[places]
    return np.array(rows.toarray() if issparse(rows) else rows, dtype=np.float64)
