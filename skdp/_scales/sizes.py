"""Intervals of columns in unknown units, from a released histogram of signs and powers of two."""

import math

import numpy as np

from skdp._scales.columns import Intervals
from skdp.privacy.releases import warnings_for_ends

OTHER_UNITS_OF_X = "Pass X in other units: divide it by a public guess of its size."

# Powers of two from 1e-12 to 1e18.
_FIRST, _LAST = -40, 60  # not studied
_N_POWERS = _LAST - _FIRST + 1  # not tuned
#: Bins of a column: 0, the positive powers, and the negative ones.
N_BINS = 2 * _N_POWERS + 1  # not tuned
# Noise alone shows a bin in one of so many histograms.
_CAUTION = 20  # not studied


def _ends() -> tuple[np.ndarray, np.ndarray]:
    """Return the lowest and the highest number of each bin.

    The smallest bins begin at 0, as smaller numbers go there. Larger numbers than the last bins
    hold are clipped to them.
    """
    powers = 2.0 ** np.arange(_FIRST, _LAST + 2)
    near, far = np.append(0.0, powers[1:-1]), powers[1:]
    return np.concatenate([[0.0], near, -far]), np.concatenate([[0.0], far, -near])


def place_size(values: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return the bin of each number by its sign and power of two; one for NaN, too."""
    exponents = np.clip(np.frexp(values)[1] - 1, _FIRST, _LAST) - _FIRST
    return np.where(values == 0, 0, 1 + exponents + np.where(values < 0, _N_POWERS, 0))


def is_visible(counts: np.ndarray, noise_std: float, n_columns: int = 1) -> np.ndarray:
    """Tell which counts noise alone hardly reaches in so many such histograms."""
    return counts > noise_std * math.sqrt(2 * math.log(_CAUTION * counts.size * n_columns))


def sized_intervals(counts: np.ndarray, noise_std: float) -> tuple[Intervals, np.ndarray]:
    """Find an interval for each column, and which columns hide where they lie.

    An interval is the hull of all visible bins. Columns of which noise hides all bins but that of 0
    are averaged into one with less noise, whose hull, with 0, they share.
    """
    visible = is_visible(counts, noise_std)
    is_hidden = ~visible[:, 1:].any(axis=1)
    if is_hidden.any():
        pooled = counts[is_hidden].mean(axis=0, keepdims=True)
        visible[is_hidden] = is_visible(pooled, noise_std / math.sqrt(is_hidden.sum()))
        visible[is_hidden, 0] = True
    lowest, highest = _ends()
    low = np.where(visible, lowest, np.inf).min(axis=1)
    high = np.where(visible, highest, -np.inf).max(axis=1)
    # Nothing but 0 is to be seen: any interval will do.
    is_void = high <= low
    return Intervals.of(low, np.where(is_void, 1.0, high)), is_void


def warnings_for_sizes(name: str, intervals: Intervals) -> list[str]:
    """Warn of columns that reach the first or the last bin, beyond which sizes are not told."""
    far = np.abs(intervals.middle) + intervals.half
    ends = 2.0 ** np.array([_FIRST + 1, _LAST + 1])
    return warnings_for_ends(name, far, ends, OTHER_UNITS_OF_X)
