"""The first pass over rows: all that a fit needs before its first release, in one reading."""

from dataclasses import replace
from functools import partial
from typing import Any

from skdp.data.blocks import Block, Weighting
from skdp.data.digest import digest_kernel, joined_digest
from skdp.data.reduce import Kernel, PerRow, map_sum
from skdp.data.rows import RowCache, Rows

__all__ = ["open_rows"]


def open_rows(
    rows: Rows, *, is_keyed: bool, needs_signs: bool, first: tuple[float, Weighting] | None
) -> tuple[Rows, bytes | None]:
    """Read raw, or centered, rows once, and keep what is computed; release nothing.

    Parameters
    ----------
    rows : Rows
        Rows that are not clipped.
    is_keyed : bool
        Whether noise is keyed by a digest of the rows.
    needs_signs : bool
        Whether to find which rows are mostly positive.
    first : tuple of float and callable, or None
        Bound and weighting of the clipped rows whose total the fit releases first; None if the fit
        does not begin with such a total.

    Returns
    -------
    rows : Rows
        The same view, with its norms and what else was asked for in its `cache`.
    digest : bytes or None
        The digest, if noise is keyed by it.
    """
    bound, weighting = first or (None, None)
    hash_block = digest_kernel(rows.source) if is_keyed else None
    kernel = partial(_opened, needs_signs=needs_signs, weighting=weighting, hash_block=hash_block)
    norms, signs, total, digests = map_sum(rows, kernel, rows.n_features, rows.n_jobs)
    digest = None if digests is None else joined_digest(rows.source, digests)
    return replace(rows, cache=RowCache(norms, signs, total, bound)), digest


def _opened(
    group: slice,
    block: Block,
    *,
    needs_signs: bool,
    weighting: Weighting | None,
    hash_block: Kernel | None,
) -> tuple[Any, ...]:
    return (
        PerRow(block.norms()),
        PerRow(block.are_mostly_positive()) if needs_signs else None,
        None if weighting is None else block.weighted(weighting).total(),
        None if hash_block is None else hash_block(group, block),
    )
