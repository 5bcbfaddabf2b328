"""Private histograms of absolute values, with a bin for each power of two.

They show a spread in unknown units at the cost of one release, and noise of a bin matters only if
that bin is hardly filled. A search would pay for many counts, each of which has to be right.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from skdp.privacy import PrivacyBudget, Release
from skdp.privacy.quantile import warnings_for_ends

__all__ = ["N_POWERS", "MagnitudeHistogram", "count_by_power", "exponents", "release_magnitudes"]

# From 1e-12 to 1e18; smaller values count as 0, in the first bin. Not studied.
_EXPONENTS = np.arange(-40, 61)
#: How many powers there are.
N_POWERS = len(_EXPONENTS)
# Larger values could overflow where their exponents are computed: not studied.
_LARGEST = 1e300
# Root mean square of numbers spread evenly in a bin, in units of its power of two. That power is in
# the middle of the bin, so that an indicator's size is taken to be nearly 1.
_SIZE_IN_BIN = math.sqrt(7 / 6)  # not tuned
# At most so many neighboring bins are pooled, if their sum exceeds the largest that noise alone
# usually gives by so many standard deviations of its noise. Not studied.
_MOST_POOLED = 4
_MARGIN = 1.5


@dataclass(frozen=True)
class MagnitudeHistogram:
    """Released fractions of each column's absolute values by bin; the first bin has the zeros.

    `noise_std` is the standard deviation of each fraction. `pooled` has 0 where noise hides a bin;
    without it a bin is visible only if it stands out from the noise by itself.
    """

    noisy: np.ndarray
    noise_std: float
    pooled: np.ndarray | None = None

    @property
    def fractions(self) -> np.ndarray:
        """All fractions that are visible above the noise; the others are 0."""
        if self.pooled is not None:
            return self.pooled
        # A wide margin: one bin filled by noise, many powers too high, would rule a mean square.
        edge = self.noise_std * (math.sqrt(2 * math.log(self.noisy.size)) + 2.5)
        return np.where(self.noisy > edge, self.noisy, 0.0)

    @property
    def zero_fraction(self) -> np.ndarray:
        """The fraction of zeros, and of values too small to differ from 0."""
        return np.asarray(self.fractions[:, 0])

    @property
    def hidden_fraction(self) -> np.ndarray:
        """The fraction in bins that noise hides."""
        return np.clip(1 - self.fractions.sum(axis=1), 0.0, 1.0)

    @property
    def only_exponents(self) -> np.ndarray:
        """Exponent of the only visible bin beside that of 0; if there are others, an unused one."""
        is_one = np.count_nonzero(self.fractions[:, 1:], axis=1) == 1
        return np.where(is_one, _EXPONENTS[self._largest()], 2 * _EXPONENTS[-1])

    def root_mean_squares(self, hidden_size: float) -> np.ndarray:
        """Compute the root mean square of every column; 0 for unknown.

        Values in hidden bins count as `hidden_size` times those in the largest visible bin.
        """
        values = _SIZE_IN_BIN * 2.0**_EXPONENTS
        values[0] = 0.0
        hidden_squares = np.square(hidden_size * values[self._largest()])
        return np.sqrt(self.fractions @ values**2 + self.hidden_fraction * hidden_squares)

    def with_pooled_bins(self) -> "MagnitudeHistogram":
        """Show also neighboring bins beyond the visible ones that stand out together.

        Noise may hide each bin of a tail over several powers of two. The tail would then count as
        no larger than the visible values.
        """
        pooled = self.fractions.copy()
        edge = self.noise_std * (math.sqrt(2 * math.log(_MOST_POOLED * pooled.size)) + _MARGIN)
        for noisy, row in zip(self.noisy, pooled, strict=True):
            while (bins := _next_bins(noisy, row, edge)) is not None:
                row[bins] = np.maximum(noisy[bins], 0.0)
        return replace(self, pooled=pooled)

    def averaged(self, is_chosen: np.ndarray) -> "MagnitudeHistogram":
        """Average the chosen columns, at least one, into a single one with less noise."""
        noise_std = self.noise_std / math.sqrt(np.count_nonzero(is_chosen))
        return MagnitudeHistogram(self.noisy[is_chosen].mean(axis=0, keepdims=True), noise_std)

    def _largest(self) -> np.ndarray:
        return np.where(self.fractions > 0, np.arange(len(_EXPONENTS)), 0).max(axis=1)


def _next_bins(noisy: np.ndarray, visible: np.ndarray, edge: float) -> slice | None:
    """Return the neighboring bins beyond all visible ones that stand out the most, or None."""
    first = int(np.flatnonzero(visible > 0).max(initial=0)) + 1
    sums = np.concatenate([[0.0], np.cumsum(noisy[first:])])
    best, bins = edge, None
    for width in range(1, min(_MOST_POOLED, len(sums) - 1) + 1):
        heights = (sums[width:] - sums[:-width]) / math.sqrt(width)
        start = int(heights.argmax())
        if heights[start] > best:
            best, bins = heights[start], slice(first + start, first + start + width)
    return bins


def release_magnitudes(
    release: Release, counts: np.ndarray, n_records: int, budget: PrivacyBudget, remedy: str
) -> MagnitudeHistogram:
    """Release what `count_by_power` has counted, of shape (n_columns, n_powers)."""
    released, noise_std = budget.release(release, counts)
    histogram = MagnitudeHistogram(released / n_records, noise_std / n_records)
    # No warning of values in the first bin: they are 0, as constant features are after centering.
    powers = 2.0**_EXPONENTS
    largest = powers[np.maximum(histogram._largest(), 1)]
    budget.warnings += warnings_for_ends(release.name, largest, powers, remedy)
    return histogram


def exponents(values: np.ndarray) -> np.ndarray:
    """Compute the exponents of the powers of two that are nearest on a logarithmic scale."""
    return np.asarray(np.frexp(np.abs(values) * math.sqrt(2))[1] - 1)


def count_by_power(values: np.ndarray) -> np.ndarray:
    """Count the values of each column near each power of two; NaN is not counted."""
    sizes = np.minimum(np.abs(values), _LARGEST)
    bins = np.clip(exponents(sizes), _EXPONENTS[0], _EXPONENTS[-1]) - _EXPONENTS[0]
    bins[sizes == 0] = 0
    n_columns = values.shape[1]
    places = bins + len(_EXPONENTS) * np.arange(n_columns)
    counts = np.bincount(places[~np.isnan(sizes)], minlength=n_columns * len(_EXPONENTS))
    return counts.reshape(n_columns, -1).astype(np.float64)
