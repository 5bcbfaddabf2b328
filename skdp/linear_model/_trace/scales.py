"""Private scales of the responses and of whole matrices; exact ones of public matrices."""

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from skdp.data.matrices import Design
from skdp.data.parts import Targets
from skdp.data.reduce import map_sum, on_block
from skdp.linalg.matrices import Matrices
from skdp.linalg.norms import GridCounts, bin_counts
from skdp.linear_model._units_of_data import OTHER_UNITS_OF_Y
from skdp.privacy import PrivacyBudget, Release
from skdp.privacy.releases import SCALE_GRID, Search, warnings_for_ends

# From 1e-12 to 1e18; smaller values count as 0, in the first bin. Not studied.
_EXPONENTS = np.arange(-40, 61)
#: How many powers there are.
N_POWERS = len(_EXPONENTS)
# Larger values could overflow where their exponents are computed: not studied.
_LARGEST = 1e300
# Root mean square of numbers spread evenly in a bin, in units of its power of two. That power is in
# the middle of the bin, so that an indicator's size is taken to be nearly 1.
_SIZE_IN_BIN = math.sqrt(7 / 6)  # not tuned
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
    plan: Release,
    responses: Targets,
    budget: PrivacyBudget,
    farthest: float,
    n_jobs: int | None = None,
) -> Spread:
    """Release the root mean square of centered responses; noise hides the largest few.

    If most responses are at the center and noise hides all others, it is `farthest`, the public
    bound of their distance.
    """
    # A histogram shows a spread in unknown units at the cost of one release, and noise of a bin
    # matters only if that bin is hardly filled. A search would pay for many counts, each of which
    # has to be right.
    counts = map_sum(responses, on_block(count_by_power), N_POWERS, n_jobs)
    released, noise_std = budget.release(plan, counts[np.newaxis])
    # A wide margin: one bin filled by noise, many powers too high, would rule the mean square.
    edge = noise_std / len(responses) * (math.sqrt(2 * math.log(N_POWERS)) + 2.5)
    noisy = released[0] / len(responses)
    fractions = np.where(noisy > edge, noisy, 0.0)
    largest, powers = int(np.flatnonzero(fractions).max(initial=0)), 2.0**_EXPONENTS
    # No warning of values in the first bin: they are 0, as a constant is after centering.
    budget.warnings += warnings_for_ends(
        plan.name, powers[[max(largest, 1)]], powers, OTHER_UNITS_OF_Y
    )
    sizes = _SIZE_IN_BIN * powers
    sizes[0] = 0.0
    hidden = float(np.clip(1 - fractions.sum(), 0.0, 1.0))
    size = math.sqrt(fractions @ sizes**2 + hidden * (_HIDDEN_SIZE * sizes[largest]) ** 2)
    at_center = float(fractions[0])
    if at_center <= 0.5:
        return Spread(max(size, _LEAST_SPREAD))
    fraction = max(1 - at_center, _LEAST_FRACTION)
    if size > 0:
        return Spread(size / math.sqrt(fraction), fraction)
    if math.isfinite(farthest):
        return Spread(farthest, fraction)
    return Spread(_LEAST_SPREAD, fraction, is_guess=True)


def count_by_power(values: np.ndarray) -> np.ndarray:
    """Count values by the nearest power of two of their size; NaN is not counted."""
    sizes = np.minimum(np.abs(values), _LARGEST)
    exponents = np.frexp(sizes * math.sqrt(2))[1] - 1
    bins = np.clip(exponents, _EXPONENTS[0], _EXPONENTS[-1]) - _EXPONENTS[0]
    bins[sizes == 0] = 0
    return np.bincount(bins[~np.isnan(sizes)], minlength=N_POWERS).astype(np.float64)


def release_norm(
    search: Search, design: Design, responses: Targets, budget: PrivacyBudget
) -> float:
    """Release the median of the norms of the matrices; one with the response NaN is null."""
    kernel = partial(_norm_counts, responses=responses)
    counts = design.map_sum(kernel, len(SCALE_GRID) + 1)
    return budget.quantile(search, GridCounts.of(SCALE_GRID, counts, design.n_records), q=0.5)


def _norm_counts(records: slice, matrices: Matrices, responses: Targets) -> np.ndarray:
    norms = np.where(np.isnan(responses[records]), np.nan, matrices.norms())
    return bin_counts(norms, np.append(SCALE_GRID, np.inf)).astype(np.float64)


def exact_norm(design: Design) -> float:
    """Compute the median norm of public matrices."""
    norm = float(np.median(design.norms()))
    return norm if SCALE_GRID[0] <= norm <= SCALE_GRID[-1] else 1.0
