"""Private scales of the responses and of whole matrices; exact ones of public matrices."""

import math
from dataclasses import dataclass

import numpy as np

from skdp.data.design import Design
from skdp.linear_model._trace.magnitude_histogram import count_by_power, release_magnitudes
from skdp.linear_model._units_of_data import OTHER_UNITS_OF_Y
from skdp.privacy import PrivacyBudget, Release
from skdp.privacy.quantile import SCALE_GRID
from skdp.privacy.release import Search

__all__ = ["Spread", "exact_norm", "release_norm", "release_spread"]

# Not studied.
_LEAST_SPREAD = 1e-12
# Size of responses in bins that noise hides, in units of the largest visible one: as for normal
# responses. Not studied.
_HIDDEN_SIZE = 0.6
# The fraction of the responses off the center is taken to be no smaller; not studied.
_LEAST_FRACTION = 0.02


@dataclass(frozen=True)
class Spread:
    """The root mean square of centered responses.

    If most are at the center, it is that of the others, and `fraction_off_center` their fraction;
    a guess if noise hides these and there is no public bound of their size.
    """

    size: float
    fraction_off_center: float = 1.0
    is_guess: bool = False


def release_spread(
    plan: Release, responses: np.ndarray, budget: PrivacyBudget, farthest: float
) -> Spread:
    """Release the root mean square of centered responses; noise hides the largest few.

    If most responses are at the center and noise hides all others, it is `farthest`, the public
    bound of their distance.
    """
    counts = count_by_power(responses[:, np.newaxis])
    magnitudes = release_magnitudes(plan, counts, len(responses), budget, OTHER_UNITS_OF_Y)
    size = float(magnitudes.root_mean_squares(_HIDDEN_SIZE)[0])
    at_center = float(magnitudes.zero_fraction[0])
    if at_center <= 0.5:
        return Spread(max(size, _LEAST_SPREAD))
    fraction = max(1 - at_center, _LEAST_FRACTION)
    if size > 0:
        return Spread(size / math.sqrt(fraction), fraction)
    if math.isfinite(farthest):
        return Spread(farthest, fraction)
    return Spread(_LEAST_SPREAD, fraction, is_guess=True)


def release_norm(
    search: Search, design: Design, is_null: np.ndarray, budget: PrivacyBudget, q: float = 0.5
) -> float:
    """Release a quantile of the norms of the matrices, the median by default."""
    norms = design.norms()
    norms[is_null] = np.nan
    return budget.quantile(search, norms, q=q)


def exact_norm(design: Design) -> float:
    """Compute the median norm of public matrices."""
    norm = float(np.median(design.norms()))
    return norm if SCALE_GRID[0] <= norm <= SCALE_GRID[-1] else 1.0
