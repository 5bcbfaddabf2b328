"""Narrow columns far from 0, such as years: intervals shrink to where most entries lie.

Signs and powers of two tell the width of a column only if it is as far from 0 as it is wide. A
column whose interval lies on one side of 0 within few powers of two may be much narrower. Of such
columns alone a histogram of equal bins is released. Its bins are many, as noise does not depend on
their number. Neighbors are added up, level by level, until those that are visible hold most rows.
"""

import math

import numpy as np

from skdp._scales.columns import Intervals
from skdp._scales.sizes import is_visible

# Columns with a larger ratio of their ends are as wide as they are far from 0.
_LARGEST_RATIO = 4.0  # benchmarks/classification/constants.md
# Fractions of the rows that the visible bins of a level have to hold, the second less one standard
# deviation of its noise. With less, a second place with a fifth of the rows would be lost, or what
# a column says of the few rows that have not the number of most others.
_MOST, _LEAST = 0.95, 0.75  # benchmarks/scaling/columns.md
# Coarser levels than this number of bins would gain less than they risk.
_FEWEST_BINS = 16  # benchmarks/classification/constants.md


def are_narrow(intervals: Intervals) -> np.ndarray:
    """Tell which columns may be narrow beside their distance from 0."""
    near = np.abs(intervals.middle) - intervals.half
    return (near > 0) & (np.abs(intervals.middle) + intervals.half <= _LARGEST_RATIO * near)


def are_tiny(intervals: Intervals, before: Intervals, n_bins: int) -> np.ndarray:
    """Tell which intervals are as short as so many equal bins of those before let them be."""
    return np.asarray(intervals.half * n_bins < _FEWEST_BINS * before.half)


def place_within(
    values: np.ndarray, columns: np.ndarray, intervals: Intervals, n_bins: int
) -> np.ndarray:
    """Return which of equal bins has each number; what is outside goes to the first or the last."""
    units = np.nan_to_num(intervals.units(values, columns))
    return np.minimum(((units + 1) / 2 * n_bins).astype(np.intp), n_bins - 1)


def zoomed_intervals(
    intervals: Intervals, is_narrow: np.ndarray, counts: np.ndarray, noise_std: float, n_rows: int
) -> Intervals:
    """Shrink the intervals of narrow columns to the visible bins that hold most rows."""
    middle, half = intervals.middle.copy(), intervals.half.copy()
    for column in np.flatnonzero(is_narrow):
        first, last = _most_of(counts[column], noise_std, n_rows, int(is_narrow.sum()))
        middle[column] += half[column] * (first + last - 1)
        half[column] *= last - first
    return Intervals(middle, half)


def _most_of(
    counts: np.ndarray, noise_std: float, n_rows: int, n_columns: int
) -> tuple[float, float]:
    """Return the ends of the shortest part that holds most rows, from 0 to 1."""
    best = (0.0, 1.0)
    while len(counts) >= _FEWEST_BINS:
        seen = np.flatnonzero(is_visible(counts, noise_std, n_columns))
        if len(seen):
            first, last = seen[0], seen[-1] + 1
            held = counts[first:last].sum()
            certain = held - math.sqrt(last - first) * noise_std
            is_most = held >= _MOST * n_rows and certain >= _LEAST * n_rows
            # One bin more on either side, as thin tails are not visible.
            ends = max(first - 1, 0) / len(counts), min(last + 1, len(counts)) / len(counts)
            if is_most and ends[1] - ends[0] < best[1] - best[0]:
                best = ends
        counts, noise_std = counts.reshape(-1, 2).sum(axis=1), noise_std * math.sqrt(2)
    return best
