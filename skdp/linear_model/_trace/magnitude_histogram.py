"""Private histograms of absolute values, with a bin for each power of two.

They show a spread in unknown units at the cost of one release, and noise of a bin matters only if
that bin is hardly filled. A search would pay for many counts, each of which has to be right.
"""

import math
from dataclasses import dataclass

import numpy as np

from skdp.privacy import PrivacyBudget, Release
from skdp.privacy.quantile import warnings_for_ends

__all__ = ["N_POWERS", "MagnitudeHistogram", "count_by_power", "release_magnitudes"]

# From 1e-12 to 1e18; smaller values count as 0, in the first bin. Not studied.
_EXPONENTS = np.arange(-40, 61)
#: How many powers there are.
N_POWERS = len(_EXPONENTS)
# Larger values could overflow where their exponents are computed: not studied.
_LARGEST = 1e300
# Root mean square of numbers spread evenly in a bin, in units of its power of two. That power is in
# the middle of the bin, so that an indicator's size is taken to be nearly 1.
_SIZE_IN_BIN = math.sqrt(7 / 6)  # not tuned


@dataclass(frozen=True)
class MagnitudeHistogram:
    """Released fractions of each column's absolute values by bin; the first bin has the zeros.

    `noise_std` is the standard deviation of each fraction.
    """

    noisy: np.ndarray
    noise_std: float

    @property
    def fractions(self) -> np.ndarray:
        """All fractions that are visible above the noise; the others are 0."""
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

    def root_mean_squares(self, hidden_size: float) -> np.ndarray:
        """Compute the root mean square of every column; 0 for unknown.

        Values in hidden bins count as `hidden_size` times those in the largest visible bin.
        """
        values = _SIZE_IN_BIN * 2.0**_EXPONENTS
        values[0] = 0.0
        hidden_squares = np.square(hidden_size * values[self._largest()])
        return np.sqrt(self.fractions @ values**2 + self.hidden_fraction * hidden_squares)

    def _largest(self) -> np.ndarray:
        return np.where(self.fractions > 0, np.arange(len(_EXPONENTS)), 0).max(axis=1)


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


def _exponents(values: np.ndarray) -> np.ndarray:
    """Compute the exponents of the powers of two that are nearest on a logarithmic scale."""
    return np.asarray(np.frexp(np.abs(values) * math.sqrt(2))[1] - 1)


def count_by_power(values: np.ndarray) -> np.ndarray:
    """Count the values of each column near each power of two; NaN is not counted."""
    sizes = np.minimum(np.abs(values), _LARGEST)
    bins = np.clip(_exponents(sizes), _EXPONENTS[0], _EXPONENTS[-1]) - _EXPONENTS[0]
    bins[sizes == 0] = 0
    n_columns = values.shape[1]
    places = bins + len(_EXPONENTS) * np.arange(n_columns)
    counts = np.bincount(places[~np.isnan(sizes)], minlength=n_columns * len(_EXPONENTS))
    return counts.reshape(n_columns, -1).astype(np.float64)
