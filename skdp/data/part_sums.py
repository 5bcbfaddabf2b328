"""Sums of results for rows in blocks or in parts, by whoever sums up the rows."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from skdp.data.part_results import PartResults
from skdp.data.reduce import map_sum
from skdp.data.row_blocks import refused_if_not_finite
from skdp.data.sources import as_source


def sum_of_results(
    results: PartResults,
    function: Callable[[slice, np.ndarray], Any],
    size: int,
    n_jobs: int | None,
) -> Any:
    """Add up what a function gives for the results of blocks of rows.

    Parameters
    ----------
    results : PartResults
        Results for rows.
    function : callable
        Maps the rows that a block stands for, and their results, to an array.
    size : int
        How many numbers the sum has.
    n_jobs : int or None
        Threads that share the blocks, as in :func:`skdp.data.reduce.map_sum`.

    Returns
    -------
    object
        The sum.

    Raises
    ------
    ValueError
        If a row is not finite.
    """
    kernel = partial(_of_block, results=results.function, function=function)
    return map_sum(as_source(results.rows), kernel, size, n_jobs)


def _of_block(
    rows: slice,
    block: Any,
    results: Callable[[Any], np.ndarray],
    function: Callable[[slice, np.ndarray], Any],
) -> Any:
    return function(rows, results(refused_if_not_finite(block)))
