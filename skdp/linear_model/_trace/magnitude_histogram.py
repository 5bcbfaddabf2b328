"""Private histograms of sizes by powers of two.

A spread in unknown units is read off such a histogram. One release finds it, and a bin that is
wrong by its noise is one that is hardly filled: a search by counts, each of which has to be right,
would have to pay for all of them.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from skdp.privacy import PrivacyBudget, Release
from skdp.privacy.quantile import warnings_for_ends

__all__ = ["N_POWERS", "MagnitudeHistogram", "count_by_power", "exponents", "release_magnitudes"]

# From 1e-12 to 1e18; what is smaller is as good as 0. Not studied.
_EXPONENTS = np.arange(-40, 61)
#: How many powers there are.
N_POWERS = len(_EXPONENTS)
# Exponents of larger numbers cannot be told: not studied.
_LARGEST = 1e300
# Root of the mean square of numbers spread evenly in a bin, in units of its power of two, which is
# in the middle, so that indicators are taken for nearly 1.
_OF_BIN = math.sqrt(7 / 6)  # not tuned
# So many neighboring bins are looked at together, and by so many standard deviations of its noise
# their sum is above the largest that noise alone usually gives. Not studied.
_WIDEST = 4
_MARGIN = 1.5


@dataclass(frozen=True)
class MagnitudeHistogram:
    """Released fractions of the sizes of columns, by powers of two; the first ones are those of 0.

    `noise` is the standard deviation of each. `seen` has 0 where noise hides them; without it those
    bins are seen that stand out each by itself.
    """

    noisy: np.ndarray
    noise_std: float
    seen: np.ndarray | None = None

    @property
    def fractions(self) -> np.ndarray:
        """All fractions that noise alone does not reach; the others are 0."""
        if self.seen is not None:
            return self.seen
        # A single bin that noise fills, many powers too high or too low, would decide.
        edge = self.noise_std * (math.sqrt(2 * math.log(self.noisy.size)) + 2.5)
        return np.where(self.noisy > edge, self.noisy, 0.0)

    @property
    def central(self) -> np.ndarray:
        """The fraction of what is 0, or as good as 0."""
        return np.asarray(self.fractions[:, 0])

    @property
    def hidden_fraction(self) -> np.ndarray:
        """The fraction that is in no bin that is seen."""
        return np.clip(1 - self.fractions.sum(axis=1), 0.0, 1.0)

    @property
    def only_exponents(self) -> np.ndarray:
        """Exponent of the only power that is seen beside 0, or else one that no number has."""
        is_one = np.count_nonzero(self.fractions[:, 1:], axis=1) == 1
        return np.where(is_one, _EXPONENTS[self._largest()], 2 * _EXPONENTS[-1])

    def root_mean_squares(self, hidden_size: float) -> np.ndarray:
        """Compute the root mean square of every column; 0 for unknown.

        What noise hides is taken for `hidden_size` times the largest that is seen.
        """
        values = _OF_BIN * 2.0**_EXPONENTS
        values[0] = 0.0
        hidden_squares = np.square(hidden_size * values[self._largest()])
        return np.sqrt(self.fractions @ values**2 + self.hidden_fraction * hidden_squares)

    def with_pooled_bins(self) -> "MagnitudeHistogram":
        """See in neighboring bins together, too, what stands out from noise beyond the others.

        A tail over several powers of two may be seen in none of them by itself. It would be taken
        for as small as what is seen.
        """
        seen = self.fractions.copy()
        edge = self.noise_std * (math.sqrt(2 * math.log(_WIDEST * seen.size)) + _MARGIN)
        for noisy, row in zip(self.noisy, seen, strict=True):
            while (bins := _next_bins(noisy, row, edge)) is not None:
                row[bins] = np.maximum(noisy[bins], 0.0)
        return replace(self, seen=seen)

    def averaged(self, is_chosen: np.ndarray) -> "MagnitudeHistogram":
        """Average columns, at least one, into a single one, which has less noise."""
        noise_std = self.noise_std / math.sqrt(np.count_nonzero(is_chosen))
        return MagnitudeHistogram(self.noisy[is_chosen].mean(axis=0, keepdims=True), noise_std)

    def _largest(self) -> np.ndarray:
        return np.where(self.fractions > 0, np.arange(len(_EXPONENTS)), 0).max(axis=1)


def _next_bins(noisy: np.ndarray, seen: np.ndarray, edge: float) -> slice | None:
    """Find the few neighboring bins beyond all seen ones that stand out from noise the most."""
    first = int(np.flatnonzero(seen > 0).max(initial=0)) + 1
    sums = np.concatenate([[0.0], np.cumsum(noisy[first:])])
    best, bins = edge, None
    for width in range(1, min(_WIDEST, len(sums) - 1) + 1):
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
    # What is in the first bin is as good as 0, as constant features are: that is no doubt.
    powers = 2.0**_EXPONENTS
    largest = powers[np.maximum(histogram._largest(), 1)]
    budget.warnings += warnings_for_ends(release.name, largest, powers, remedy)
    return histogram


def exponents(values: np.ndarray) -> np.ndarray:
    """Compute the exponents of the nearest powers of two."""
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
