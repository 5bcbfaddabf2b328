"""Private scales of the responses and of the matrices as a whole; exact ones of public matrices."""

import math
from dataclasses import dataclass

import numpy as np

from skdp.data.design import Design
from skdp.linear_model._trace.magnitude_histogram import count_by_power, release_magnitudes
from skdp.linear_model._units_of_data import OTHER_UNITS_OF_Y
from skdp.privacy import PrivacyBudget, Release
from skdp.privacy.quantile import SCALE_GRID
from skdp.privacy.release import Search

__all__ = [
    "Spread",
    "exact_norm",
    "release_norm",
    "release_spread",
]

# Not studied.
_LEAST_SPREAD = 1e-12
# As for normal responses; not studied.
_HIDDEN_SIZE = 0.6
# Fraction of the responses that are taken not to be at the center where hardly one is seen; not
# studied.
_LEAST_OTHERS = 0.02


@dataclass(frozen=True)
class Spread:
    """The root mean square of the responses that are not at the center, and their fraction of all.

    It is a guess if noise hides it and there is no public bound of it.
    """

    size: float
    others: float = 1.0
    is_guess: bool = False


def release_spread(
    plan: Release, responses: np.ndarray, budget: PrivacyBudget, largest: float
) -> Spread:
    """Release the root mean square of centered responses, but for the largest few.

    Of responses most of which are at the center it is that of the others, and `largest`, their
    public bound, where noise hides all of these.
    """
    counts = count_by_power(responses[:, np.newaxis])
    magnitudes = release_magnitudes(plan, counts, len(responses), budget, OTHER_UNITS_OF_Y)
    size = float(magnitudes.root_mean_squares(_HIDDEN_SIZE)[0])
    central = float(magnitudes.central[0])
    if central <= 0.5:
        return Spread(max(size, _LEAST_SPREAD))
    others = max(1 - central, _LEAST_OTHERS)
    if size > 0:
        return Spread(size / math.sqrt(others), others)
    if math.isfinite(largest):
        return Spread(largest, others)
    return Spread(_LEAST_SPREAD, others, is_guess=True)


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
