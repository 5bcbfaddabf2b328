"""The first reading of rows: what must be known before a fit, and what it begins with."""

from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from skdp.data.blocks import Block, Weighting
from skdp.data.digest import digest_kernel, joined_digest
from skdp.data.reduce import Kernel, map_sum, per_row, take
from skdp.data.rows import Found, Rows

__all__ = ["Opening", "open_rows"]


class Opening(NamedTuple):
    """What the first reading has found, of which nothing is released yet."""

    rows: Rows  # which know what was found
    seem_finite: bool  # else a closer look has to tell
    digest: bytes | None


def open_rows(
    rows: Rows,
    *,
    is_keyed: bool,
    needs_norms: bool,
    needs_signs: bool,
    first: tuple[float, Weighting] | None,
) -> Opening:
    """Read raw, or centred, rows once.

    Parameters
    ----------
    rows : Rows
        Rows that are not clipped.
    is_keyed : bool
        Whether noise is keyed by a digest of the rows.
    needs_norms, needs_signs : bool
        Whether the norms are needed, and which rows are mostly positive.
    first : tuple of float and callable, or None
        Bound and weighting of the clipped rows whose total is needed first, if one is.

    Returns
    -------
    Opening
        What was found.
    """
    kernels: dict[str, Kernel] = {"is_suspect": _is_suspect}
    if is_keyed:
        kernels["digests"] = digest_kernel(rows.source)
    if needs_norms:
        kernels["norms"] = per_row(take("norms"))
    if needs_signs:
        kernels["are_mostly_positive"] = per_row(take("are_mostly_positive"))
    if first is not None:
        kernels["total"] = partial(_clipped_total, weighting=first[1])
    sums = map_sum(rows, [*kernels.values()], rows.n_features, rows.n_jobs)
    found = dict(zip(kernels, sums, strict=True))
    is_suspect, digests = found.pop("is_suspect"), found.pop("digests", None)
    return Opening(
        replace(rows, found=Found(**found, bound=first and first[0])),
        not is_suspect,
        None if digests is None else joined_digest(rows.source, digests),
    )


def _is_suspect(_: slice, block: Block) -> np.ndarray:
    return ~np.isfinite(block.norms()).all(keepdims=True)


def _clipped_total(_: slice, block: Block, weighting: Weighting) -> np.ndarray:
    return block.weighted(weighting).total()
