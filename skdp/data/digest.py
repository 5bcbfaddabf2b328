"""A digest of the values of a matrix, the same for every container that holds them."""

import hashlib

import numpy as np
from scipy.sparse import csr_array, issparse

from skdp.data.sources import RawBlock, Source

__all__ = ["digest"]


def digest(source: Source) -> bytes:
    """Hash the values of all rows in one pass.

    Dense and sparse containers, memory orders, floating-point types, blocks, explicit zeros and the
    sign of zeros make no difference; one changed value does.

    Parameters
    ----------
    source : Source
        Where the rows come from.

    Returns
    -------
    bytes
        A BLAKE2b digest of 32 bytes.
    """
    streams = [hashlib.blake2b(digest_size=32) for _ in range(3)]
    for _, block in source.blocks(range(len(source.block_starts) - 1)):
        for stream, part in zip(streams, _canonical_parts(block), strict=True):
            stream.update(np.ascontiguousarray(part).data)
    shape = b"%d %d" % source.shape
    return hashlib.blake2b(
        shape + b"".join(stream.digest() for stream in streams), digest_size=32
    ).digest()


def _canonical_parts(block: RawBlock) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Nonzeros a row, their columns where a row has zeros too, and their values."""
    rows = csr_array(block).astype(np.float64, copy=False)
    if issparse(block) and not rows.data.all():
        rows = rows.copy()
        rows.eliminate_zeros()
    counts = np.diff(rows.indptr).astype(np.int64)
    has_zeros = np.repeat(counts < rows.shape[1], counts)
    return counts, rows.indices[has_zeros].astype(np.int64), rows.data
