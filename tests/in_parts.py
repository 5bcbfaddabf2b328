"""Rows in parts, and what the laws of all families ask of them."""

from functools import partial
from itertools import pairwise

import numpy as np
from scipy import sparse

from skdp import RowBlocks

__all__ = ["in_chunks", "in_parts", "stacked", "whole"]


def in_parts(X, y=None, cuts=(1, 1, 8), *, lengths=None):
    """Cut rows and their targets: by default the first row is a part, and the next one is empty."""
    cuts = cuts if lengths is None else np.cumsum(lengths)[:-1].tolist()
    ranges = list(pairwise([0, *cuts, X.shape[0]]))
    lengths = [b - a for a, b in ranges]
    loaders = [partial(np.copy, X[a:b]) for a, b in ranges]
    if sparse.issparse(X):
        loaders = [X[a:b].copy for a, b in ranges]
    targets = None if y is None else [np.asarray(y[a:b]) for a, b in ranges]
    dtype = X.dtype if X.dtype.kind == "f" else np.float64
    return RowBlocks.from_partitions(loaders, lengths, X.shape[1], dtype, targets)


def whole(rows):
    """Return the rows of all parts, and their targets, if there are any."""
    parts = list(rows)
    together = sparse.vstack(parts, format="csr") if rows.is_sparse else np.vstack(parts)
    if rows.y is None:
        return (together,)
    n_parts = len(rows.y.block_starts) - 1
    return together, np.concatenate([one[:, 0] for _, one in rows.y.blocks(range(n_parts))])


def stacked(rows):
    """Write the rows of all blocks out."""
    return np.vstack([one.toarray() if sparse.issparse(one) else one for one in rows])


def in_chunks(X, y=None, *, lengths=None):
    """Cut rows and their targets as chunks of dask, by default as `in_parts` does."""
    import dask.array as da

    is_sparse = sparse.issparse(X)
    lengths = tuple([1, 0, 7, X.shape[0] - 8] if lengths is None else lengths)
    chunks = da.from_array(X.toarray() if is_sparse else X, chunks=(lengths, X.shape[1:]))
    if is_sparse:
        chunks = chunks.map_blocks(sparse.csr_array, meta=sparse.csr_array((0, 0), dtype=X.dtype))
    return (chunks,) if y is None else (chunks, da.from_array(np.asarray(y), chunks=(lengths,)))
