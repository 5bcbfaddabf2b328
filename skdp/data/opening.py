"""The first reading of rows: what must be known before a fit, and what it begins with."""

from dataclasses import replace
from functools import partial

import numpy as np

from skdp.data.blocks import Block, Weighting
from skdp.data.digest import digest_kernel, joined_digest
from skdp.data.reduce import Kernel, map_sum, per_row, take
from skdp.data.rows import Found, Rows

__all__ = ["open_rows"]


def open_rows(
    rows: Rows, *, is_keyed: bool, needs_signs: bool, first: tuple[float, Weighting] | None
) -> tuple[Rows, bytes | None]:
    """Read raw, or centered, rows once; release nothing of what is found.

    Parameters
    ----------
    rows : Rows
        Rows that are not clipped.
    is_keyed : bool
        Whether noise is keyed by a digest of the rows.
    needs_signs : bool
        Whether to find which rows are mostly positive.
    first : tuple of float and callable, or None
        Bound and weighting of the clipped rows whose total the fit releases first, if it does.

    Returns
    -------
    rows : Rows
        The same view, which knows its norms and what else was asked for.
    digest : bytes or None
        The digest, if noise is keyed by it.
    """
    kernels: dict[str, Kernel] = {"norms": per_row(take("norms"))}
    if needs_signs:
        kernels["are_mostly_positive"] = per_row(take("are_mostly_positive"))
    if first is not None:
        kernels["total"] = partial(_clipped_total, weighting=first[1])
    if is_keyed:
        kernels["digests"] = digest_kernel(rows.source)
    sums = map_sum(rows, [*kernels.values()], rows.n_features, rows.n_jobs)
    found = dict(zip(kernels, sums, strict=True))
    digests = found.pop("digests", None)
    digest = None if digests is None else joined_digest(rows.source, digests)
    return replace(rows, found=Found(**found, bound=first and first[0])), digest


def _clipped_total(_: slice, block: Block, weighting: Weighting) -> np.ndarray:
    return block.weighted(weighting).total()
