"""Private histograms of sizes by powers of two.

A spread in unknown units is read off such a histogram. One release finds it, and a bin that is
wrong by its noise is one that is hardly filled: a search by counts, each of which has to be right,
would have to pay for all of them.
"""

import math
from dataclasses import dataclass

import numpy as np

from skdp.privacy import PrivacyBudget, sensitivity

__all__ = ["N_POWERS", "Sizes", "count_powers", "exponents", "release_sizes"]

# From 1e-12 to 1e18; what is smaller is as good as 0.
_EXPONENTS = np.arange(-40, 61)
#: How many powers there are.
N_POWERS = len(_EXPONENTS)
# Exponents of larger numbers cannot be told.
_LARGEST = 1e300
# Root of the mean square of numbers spread evenly in a bin, in units of its power of two, which is
# in the middle, so that indicators are taken for nearly 1.
_OF_BIN = math.sqrt(7 / 6)


@dataclass(frozen=True)
class Sizes:
    """Released fractions of the sizes of columns, by powers of two.

    Attributes
    ----------
    noisy : ndarray of shape (n_columns, n_powers)
        Fractions of all records as released, the first ones those of 0.
    noise : float
        Standard deviation of their noise.
    """

    noisy: np.ndarray
    noise: float

    @property
    def fractions(self) -> np.ndarray:
        """All fractions that noise alone does not reach; the others are 0."""
        # A single bin that noise fills, many powers too high or too low, would decide.
        edge = self.noise * (math.sqrt(2 * math.log(self.noisy.size)) + 2.5)
        return np.where(self.noisy > edge, self.noisy, 0.0)

    @property
    def central(self) -> np.ndarray:
        """The fraction of what is 0, or as good as 0."""
        return np.asarray(self.fractions[:, 0])

    @property
    def hidden(self) -> np.ndarray:
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
        return np.sqrt(self.fractions @ values**2 + self.hidden * hidden_squares)

    def pooled(self, is_chosen: np.ndarray) -> "Sizes":
        """Average columns, at least one, into a single one, which has less noise."""
        noise = self.noise / math.sqrt(np.count_nonzero(is_chosen))
        return Sizes(self.noisy[is_chosen].mean(axis=0, keepdims=True), noise)

    def _largest(self) -> np.ndarray:
        return np.where(self.fractions > 0, np.arange(len(_EXPONENTS)), 0).max(axis=1)


def release_sizes(
    name: str, counts: np.ndarray, n_records: int, budget: PrivacyBudget, remedy: str
) -> Sizes:
    """Release what `count_powers` has counted, of shape (n_columns, n_powers)."""
    released, scale = budget.gaussian(
        name,
        counts,
        sensitivity=sensitivity.histograms(len(counts), budget.adjacency),
    )
    sizes = Sizes(released / n_records, scale / n_records)
    # What is in the first bin is as good as 0, as constant features are: that is no doubt.
    powers = 2.0**_EXPONENTS
    budget.doubt_ends(name, powers[np.maximum(sizes._largest(), 1)], powers, remedy)
    return sizes


def exponents(values: np.ndarray) -> np.ndarray:
    """Compute the exponents of the nearest powers of two."""
    return np.asarray(np.frexp(np.abs(values) * math.sqrt(2))[1] - 1)


def count_powers(values: np.ndarray) -> np.ndarray:
    """Count the values of each column near each power of two; NaN is not counted."""
    sizes = np.minimum(np.abs(values), _LARGEST)
    bins = np.clip(exponents(sizes), _EXPONENTS[0], _EXPONENTS[-1]) - _EXPONENTS[0]
    bins[sizes == 0] = 0
    n_columns = values.shape[1]
    places = bins + len(_EXPONENTS) * np.arange(n_columns)
    counts = np.bincount(places[~np.isnan(sizes)], minlength=n_columns * len(_EXPONENTS))
    return counts.reshape(n_columns, -1).astype(np.float64)
