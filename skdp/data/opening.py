"""The first pass over rows: all that a fit needs before its first release, in one reading."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from skdp.data.blocks import Block, Weighting
from skdp.data.digest import digest, digest_kernel, joined_digest
from skdp.data.finite import not_finite_rows
from skdp.data.reduce import Kernel, PerRow, map_sum
from skdp.data.rows import RowCache, Rows, n_mostly_positive, norm_counts
from skdp.data.sources import PartSource, Source
from skdp.data.targets import Targets
from skdp.linalg.norms import GridCounts


def open_rows(
    rows: Rows,
    *,
    is_keyed: bool,
    needs_signs: bool,
    first: tuple[float, Weighting] | None,
    grid: np.ndarray | None = None,
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
    grid : ndarray or None, default=None
        Grid on which the norms are counted, if the rows may be others in the next pass; None if
        the fit needs no norms.

    Returns
    -------
    rows : Rows
        The same view, with its norms, or their counts, and what else was asked for in its `cache`.
    digest : bytes or None
        The digest, if noise is keyed by it.
    """
    bound, weighting = first or (None, None)
    hash_block = digest_kernel(rows.source) if is_keyed else None
    keeps_norms = rows.source.is_repeatable
    kernel = partial(
        _opened,
        keeps_norms=keeps_norms,
        grid=None if keeps_norms else grid,
        needs_signs=needs_signs,
        weighting=weighting,
        hash_block=hash_block,
    )
    norms, counts, n_not_finite, n_positive, total, digests = map_sum(
        rows, kernel, max(rows.n_features, 0 if grid is None else len(grid)), rows.n_jobs
    )
    cache = RowCache(
        norms,
        None if grid is None or counts is None else GridCounts.of(grid, counts, rows.n_rows),
        None if n_positive is None else float(n_positive),
        int(n_not_finite),
        total,
        bound,
    )
    digest = None if digests is None else joined_digest(rows.source, digests)
    return replace(rows, cache=cache), digest


def _checked(rows: slice, block: Any, hash_block: Kernel | None) -> tuple[Any, ...]:
    n_not_finite = np.asarray(float(not_finite_rows(block).sum()))
    return n_not_finite, None if hash_block is None else hash_block(rows, block)


def _opened(
    group: slice,
    block: Block,
    *,
    keeps_norms: bool,
    grid: np.ndarray | None,
    needs_signs: bool,
    weighting: Weighting | None,
    hash_block: Kernel | None,
) -> tuple[Any, ...]:
    return (
        PerRow(block.norms()) if keeps_norms else None,
        None if grid is None else norm_counts(group, block, grid),
        block.count_not_finite(),
        n_mostly_positive(group, block) if needs_signs else None,
        None if weighting is None else block.weighted(weighting).total(),
        None if hash_block is None else hash_block(group, block),
    )


def checked_digest(
    source: Source | Targets, n_jobs: int | None, *, is_keyed: bool, name: str = "X"
) -> Callable[[], bytes | None]:
    """Refuse parts that are not finite, in the one reading that hashes them if noise is keyed.

    Other rows have been checked, and are hashed when the digest is asked for.
    """
    if not isinstance(source, PartSource | Targets):
        return partial(digest, source)
    hash_block = digest_kernel(source) if is_keyed else None
    n_not_finite, digests = map_sum(source, partial(_checked, hash_block=hash_block), 1, n_jobs)
    if n_not_finite:
        raise ValueError(f"Input {name} contains NaN or infinity.")
    return lambda: None if digests is None else joined_digest(source, digests)
