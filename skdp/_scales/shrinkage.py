"""From released moments to centers and scales: noise is taken out, as far as it can be."""

import math
from typing import NamedTuple

import numpy as np

from skdp._scales.columns import Intervals

# Least variance under noise, in units of the squared half of an interval.
_LEAST_VARIANCE = 1e-4  # benchmarks/classification/constants.md
# A variance of so many standard deviations of what noise leaves open may be none at all.
_HIDDEN = 2.0  # not studied
# Columns of numbers at both ends of an interval alone have the variance 1 - m^2 for the mean m;
# others have less. Not studied.
_AT_ENDS = 0.5
# Without noise, what is smaller than this, relative to the terms of the variance, is rounding.
_ROUNDING = 16 * np.finfo(np.float64).eps  # not tuned


class Scales(NamedTuple):
    """Centers and variances of columns, and whether one hardly varies, as far as noise tells.

    `others` are the fractions of the entries that differ from the usual one, 1 where unknown.
    """

    center: np.ndarray
    variance: np.ndarray
    is_flat: np.ndarray
    is_void: np.ndarray
    others: np.ndarray


def scales_of(
    intervals: Intervals,
    moments: np.ndarray,
    noise_std: float,
    is_void: np.ndarray,
    others: np.ndarray | None,
) -> Scales:
    """Compute centers and variances from the means of t and of t^2 - 1/2.

    Each is drawn to its mean over all columns by the fraction of its spread that is noise.
    """
    largest = intervals.largest
    means, squares = moments[0], moments[1] + 0.5
    # On average, noise adds its variance to the square of a mean.
    variances = squares - means**2 + noise_std**2
    # The variance of 2 m e is added, for a mean m with the noise e.
    noise = noise_std * math.sqrt(1 + 4 * min(float(np.mean(means**2)), 1.0))
    means, _ = _drawn_together(means, noise_std)
    variances, kept = _drawn_together(variances, noise)
    deviation = math.sqrt(kept) * noise
    least = max(deviation, _LEAST_VARIANCE) if noise_std else 0.0
    center = intervals.middle + intervals.half * np.clip(means, -largest, largest)
    # What columns are drawn to has noise itself, of one column as much as of the column.
    left = noise * math.sqrt(kept + (1 - kept) / len(variances))
    is_flat = variances <= max(_HIDDEN * left, least)
    if not noise_std:
        is_flat = variances <= _ROUNDING * np.maximum(means**2, _rounded_squares(intervals))
    variances = np.clip(variances, least, largest**2)
    if others is None:
        others = _others(means, variances)
    return Scales(center, intervals.half**2 * variances, is_flat, is_void, others)


def _others(means: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """Tell how rare the rarer end is, in columns whose entries are mostly at the ends."""
    means = np.clip(means, -1.0, 1.0)
    is_at_ends = variances > _AT_ENDS * (1 - means**2)
    return np.where(is_at_ends, (1 - np.abs(means)) / 2, 1.0)


def _rounded_squares(intervals: Intervals) -> np.ndarray:
    """Return the size of what the variance is computed from, where there is no noise."""
    if intervals.largest == 1.0:
        return np.ones(len(intervals.half))
    # Around the mean: its own rounding is what is left of a constant column.
    return _ROUNDING * intervals.middle**2


def _drawn_together(values: np.ndarray, noise_std: float) -> tuple[np.ndarray, float]:
    """Draw values to their mean; return them, and the fraction of the differences that is kept."""
    if not noise_std:
        return values, 1.0
    mean, spread = float(np.mean(values)), float(np.var(values))
    kept = max(0.0, 1 - noise_std**2 / spread) if spread > 0 else 0.0
    return mean + kept * (values - mean), kept
