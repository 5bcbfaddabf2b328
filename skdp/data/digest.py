"""A digest of the values of a matrix, which does not depend on their container."""

import hashlib
from functools import partial
from itertools import chain, pairwise
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from skdp.data.conversion import RawBlock
from skdp.data.reduce import Kernel, PerRow, map_sum
from skdp.data.sources import Source, as_source, block_starts
from skdp.data.targets import Targets


def digest(source: Source | Targets) -> bytes:
    """Hash the values of all rows in one pass.

    It changes with any value, but not with the container (dense or sparse), the memory order, the
    floating-point type, the blocks, explicit zeros or the sign of zeros.

    Parameters
    ----------
    source : Source
        Where the rows come from.

    Returns
    -------
    bytes
        A BLAKE2b digest of 32 bytes.
    """
    return joined_digest(source, map_sum(source, digest_kernel(source), 0))


def digests(*parts: Source | Targets | np.ndarray) -> tuple[bytes, ...]:
    """Hash each of several sources and arrays; a vector counts as a column."""
    return tuple(
        digest(as_source(one.reshape(len(one), -1)) if isinstance(one, np.ndarray) else one)
        for one in parts
    )


def digest_kernel(source: Source | Targets) -> Kernel:
    """Make the kernel that hashes blocks, cut wherever a dense or a sparse block would end."""
    ends = [block_starts(*source.shape, is_sparse=is_sparse) for is_sparse in (True, False)]
    return partial(_digests, ends=np.unique(np.concatenate(ends)))


def joined_digest(source: Source | Targets, digests: np.ndarray) -> bytes:
    """Hash the digests of all parts, and the shape."""
    return _hashed(b"%d %d" % source.shape + digests.tobytes())


def _digests(rows: slice, block: Any, ends: np.ndarray) -> PerRow:
    raw = getattr(block, "raw", block)
    inner = ends[(ends > rows.start) & (ends < rows.stop)]
    cuts = pairwise([rows.start, *inner, rows.stop])
    parts = [_canonical_parts(raw[a - rows.start : b - rows.start]) for a, b in cuts]
    hashes = b"".join(map(_hashed, chain.from_iterable(parts)))
    return PerRow(np.frombuffer(hashes, np.uint8))


def _hashed(values: Any) -> bytes:
    return hashlib.blake2b(values, digest_size=32).digest()


def _canonical_parts(block: RawBlock) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return counts of nonzeros by row, their columns (only in rows with zeros) and values."""
    rows = csr_array(block.astype(np.float64, copy=False))
    if issparse(block) and not rows.data.all():
        rows = rows.copy()
        rows.eliminate_zeros()
    counts = np.diff(rows.indptr).astype(np.int64)
    has_zeros = np.repeat(counts < rows.shape[1], counts)
    return counts, rows.indices[has_zeros].astype(np.int64), rows.data
