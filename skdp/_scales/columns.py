"""Kernels: what a block of rows adds to statistics of its columns, whether dense or sparse.

A null row has NaN in all entries, and an entry of NaN adds nothing. The zeros that a sparse block
does not store count like any others.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

from skdp.data.matrices import entries_of
from skdp.data.reduce import Kernel, on_block
from skdp.data.rows import Block
from skdp.linalg.matrices import DenseMatrices

#: Maps numbers, and the columns where they stand, to bins; NaN to any.
Place = Callable[[np.ndarray, np.ndarray], np.ndarray]


class Intervals(NamedTuple):
    """Where columns lie: entries become ``t = (x - middle) / half``, clipped to size `largest`."""

    middle: np.ndarray
    half: np.ndarray
    largest: float = 1.0

    @classmethod
    def of(cls, low: np.ndarray, high: np.ndarray) -> "Intervals":
        """Make them of their ends."""
        return cls(low + (high - low) / 2, (high - low) / 2)

    def units(self, values: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Turn entries into t; NaN stays."""
        units = (values - self.middle[columns]) / self.half[columns]
        return np.clip(units, -self.largest, self.largest)


def counting(place: Place, n_bins: int) -> Kernel:
    """Make a kernel that counts the entries of each column by bin: (n_columns, n_bins) numbers."""
    return on_block(partial(_counts, place=place, n_bins=n_bins))


def summing(intervals: Intervals) -> Kernel:
    """Make a kernel that sums t and t^2 - 1/2 of each column: (2, n_columns) numbers."""
    return on_block(partial(_sums, intervals=intervals))


def _counts(block: Block | DenseMatrices, place: Place, n_bins: int) -> np.ndarray:
    values, columns, n_zeros = _entries(block)
    n_columns = len(n_zeros)
    places = place(values, columns) + n_bins * columns
    counts = np.bincount(places[~np.isnan(values)], minlength=n_columns * n_bins)
    every = np.arange(n_columns)
    counts[place(np.zeros(n_columns), every) + n_bins * every] += n_zeros
    return counts.reshape(n_columns, n_bins).astype(np.float64)


def _sums(block: Block | DenseMatrices, intervals: Intervals) -> np.ndarray:
    values, columns, n_zeros = _entries(block)
    every = np.arange(len(n_zeros))
    units = intervals.units(values, columns)
    squares = np.square(units) - 0.5
    is_null = np.isnan(units)
    units[is_null], squares[is_null] = 0.0, 0.0
    of_zero = intervals.units(np.zeros(len(every)), every)
    zeros = n_zeros * np.stack([of_zero, np.square(of_zero) - 0.5])
    if values.ndim == 2:
        return np.stack([units.sum(axis=0), squares.sum(axis=0)]) + zeros
    sums = [np.bincount(columns, weights, len(every)) for weights in (units, squares)]
    return np.stack(sums) + zeros


def _entries(block: Block | DenseMatrices) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the stored entries, their columns, and how many zeros each column has beside them."""
    raw: Any = entries_of(block) if isinstance(block, DenseMatrices) else block.raw
    n_rows, n_columns = raw.shape
    if not issparse(raw):
        return np.asarray(raw, np.float64), np.arange(n_columns), np.zeros(n_columns, np.intp)
    stored = np.bincount(raw.indices, minlength=n_columns)
    return raw.data.astype(np.float64), raw.indices.astype(np.intp), n_rows - stored
