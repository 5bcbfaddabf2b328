"""Centers and spreads of features in unknown units: private ones, and exact ones of public rows."""

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from skdp.data.design import Design, entries_of
from skdp.linalg.matrices import Matrices
from skdp.linear_model._medians import release_medians
from skdp.linear_model._trace.covariances import norm_bound
from skdp.linear_model._trace.magnitude_histogram import (
    N_POWERS,
    MagnitudeHistogram,
    count_by_power,
    exponents,
    release_magnitudes,
)
from skdp.linear_model._trace.public_rows import outlier_threshold, sample_rows
from skdp.linear_model._trace.releases import FeatureReleases
from skdp.linear_model._trace.transform import RareFeatures, Transform
from skdp.linear_model._units_of_data import OTHER_UNITS_OF_X
from skdp.privacy import PrivacyBudget, Release
from skdp.privacy.clipping import clip_rows
from skdp.privacy.quantile import SCALE_GRID

__all__ = ["exact_standardization", "release_standardization"]

# Of the variance around a median, what is always taken to be around the mean; not studied.
_LEAST_REST = 0.25
# As large as the largest that is seen: rather too large, as a feature in too small a unit would
# rule all others. Not studied.
_HIDDEN_SIZE = 1.0
# Features that differ from their centers in a smaller fraction of the records are rare; not
# studied.
_RARE = 0.25
_LEAST_RARE = 1e-3
# A fraction of so many standard deviations of its noise is hardly noise alone; not studied.
_CLEAR = 2.0
# benchmarks/trace_regression/unlike_columns.md, "spiked" and "linear in long tails", has these and
# no others: standardized entries are clipped to that size, and those of rare features to so many
# times that of a feature which has but one value beside its center.
_LARGEST = 16.0
_LARGEST_RARE = 3.0

# Of public features, enough for a rough median and quantile; not studied.
_SAMPLE_ROWS = (400, 10_000)
_SAMPLE_ENTRIES = 1 << 21
_LARGEST_USABLE = 1e100


def release_standardization(
    plan: FeatureReleases, design: Design, budget: PrivacyBudget
) -> Transform:
    """Release the median of every entry, if wanted, and the root mean square around it.

    With budget to spare, the medians are exchanged for means: those of an indicator differ much,
    and so do those of skewed features.
    """
    center, least = np.zeros(design.n_entries), np.zeros(design.n_entries)
    if plan.centers:
        center, least = release_medians(
            plan.centers,
            lambda points: design.map_sum(partial(_count_up_to, points=points), design.n_entries),
            budget,
            design.n_records,
        )
    kernel = partial(_count_sizes, center=center, least=least)
    counts = design.map_sum(kernel, design.n_entries * N_POWERS)
    magnitudes = release_magnitudes(
        plan.spreads, counts, design.n_records, budget, OTHER_UNITS_OF_X
    )
    # Where all that is seen is as far off as 0 is, it may be 0: the median of a feature half of
    # which is 0 is some number of no meaning.
    is_mostly_zero = (center != 0) & (magnitudes.central == 0)
    is_mostly_zero &= exponents(center) == magnitudes.only_exponents
    center, least = np.where(is_mostly_zero, 0.0, center), np.where(is_mostly_zero, 0.0, least)
    spread, rare = _spreads(magnitudes.with_pooled_bins(), ~is_mostly_zero)
    # What is left of a center far from 0 must not rule the other features.
    spread = np.maximum(spread, least)
    largest = _largest_sizes(magnitudes) if budget.is_private else np.full(len(spread), math.inf)
    if plan.means is not None:
        shift = _release_means(plan.means, design, center, spread, largest, budget)
        center = center + shift * spread
        spread = spread * np.sqrt(np.maximum(1 - shift**2, _LEAST_REST))
    shape = design.matrix_shape
    return Transform(
        center.reshape(shape) if plan.centers else None,
        (1 / spread).reshape(shape),
        rare=rare,
        largest=largest.reshape(shape) if budget.is_private else None,
    )


def _largest_sizes(magnitudes: MagnitudeHistogram) -> np.ndarray:
    """Bound standardized entries: those of a rare feature are long beside the spread of all."""
    others = np.clip(1 - magnitudes.central, max(magnitudes.noise_std, _LEAST_RARE), 1.0)
    return np.maximum(_LARGEST, _LARGEST_RARE / np.sqrt(others))


def _spreads(
    magnitudes: MagnitudeHistogram, is_usable: np.ndarray
) -> tuple[np.ndarray, RareFeatures | None]:
    """Read the spreads off released sizes, where these are usable."""
    spread = np.where(is_usable, magnitudes.root_mean_squares(_HIDDEN_SIZE), 0.0)
    is_rare = (spread == 0) & (1 - magnitudes.noisy[:, 0] < _RARE)
    # What differs often, but not as far as can be seen, gets the largest spread: right in a table
    # of like features, and next to nothing among unlike ones.
    largest = float(spread.max()) or 1.0
    spread[spread == 0] = largest
    if not is_rare.any():
        return spread, None
    rare = _rare_features(magnitudes.averaged(is_rare).with_pooled_bins(), is_rare, largest)
    spread[is_rare] = rare.spread
    return spread, rare


def _release_means(
    plan: Release,
    design: Design,
    center: np.ndarray,
    spread: np.ndarray,
    largest: np.ndarray,
    budget: PrivacyBudget,
) -> np.ndarray:
    """Release the means of standardized rows that are clipped entry by entry, then in norm."""
    bound = norm_bound(design.n_entries)
    kernel = partial(_clipped_rows, center=center, spread=spread, largest=largest, bound=bound)
    total = design.map_sum(kernel, design.n_entries)
    released, _ = budget.release(plan, total, bound, rounding=design.rounding)
    return np.asarray(released / design.n_records)


def _rare_features(
    pooled: MagnitudeHistogram, is_rare: np.ndarray, largest_spread: float
) -> RareFeatures:
    """Find the spread of features that are hidden one by one, from the histogram of all of them.

    Where that is hidden, too, they are taken for as large as the others where they are not 0; and
    for as large altogether, where noise hides even how seldom that is, as a feature of little
    variance in too small a unit is mostly noise.
    """
    fraction = float(1 - pooled.noisy[0, 0])
    is_clear = fraction > _CLEAR * pooled.noise_std
    fraction = float(np.clip(fraction, max(pooled.noise_std, _LEAST_RARE), 1.0))
    seen = float(pooled.root_mean_squares(_HIDDEN_SIZE)[0])
    guess = largest_spread * (math.sqrt(fraction) if is_clear else 1.0)
    return RareFeatures(
        n_features=int(is_rare.sum()),
        are_many=bool(is_clear and is_rare.mean() >= 0.5),
        fraction=fraction,
        spread=seen or guess,
        is_guess=seen == 0 < pooled.noise_std,
    )


# Kernels.


def _count_up_to(_: slice, matrices: Matrices, points: np.ndarray) -> np.ndarray:
    return np.count_nonzero(entries_of(matrices) <= points, axis=0).astype(np.float64)


def _count_sizes(_: slice, matrices: Matrices, center: np.ndarray, least: np.ndarray) -> np.ndarray:
    differences = entries_of(matrices) - center
    return count_by_power(np.where(np.abs(differences) < least, 0.0, differences))


def _clipped_rows(
    _: slice,
    matrices: Matrices,
    center: np.ndarray,
    spread: np.ndarray,
    largest: np.ndarray,
    bound: float,
) -> np.ndarray:
    standardized = np.clip((entries_of(matrices) - center) / spread, -largest, largest)
    return np.asarray(clip_rows(standardized, bound).sum(axis=0))


def _power_sum(
    _: slice,
    matrices: Matrices,
    usual: Callable[[Matrices], np.ndarray],
    shift: np.ndarray,
    power: int,
) -> np.ndarray:
    return np.asarray(((usual(matrices) - shift) ** power).sum(axis=0))


def _usual_differences(matrices: Matrices, middle: np.ndarray, largest: np.ndarray) -> np.ndarray:
    differences = _usable(matrices) - middle
    return np.where(np.abs(differences) <= largest, differences, 0.0)


def exact_standardization(design: Design, *, centered: bool) -> Transform:
    """Compute the means and standard deviations of the usual entries of public matrices."""
    sample = sample_rows(design, int(np.clip(_SAMPLE_ENTRIES // design.n_entries, *_SAMPLE_ROWS)))
    sample[np.abs(sample) > _LARGEST_USABLE] = 0.0
    middle = np.median(sample, axis=0) if centered else np.zeros(design.n_entries)
    largest = np.array([outlier_threshold(np.abs(column)) for column in (sample - middle).T])
    usual = partial(_usual_differences, middle=middle, largest=largest)
    shift = np.zeros(design.n_entries)
    if centered:
        kernel = partial(_power_sum, usual=usual, shift=shift, power=1)
        shift = design.map_sum(kernel, design.n_entries) / design.n_records
    kernel = partial(_power_sum, usual=usual, shift=shift, power=2)
    squares = design.map_sum(kernel, design.n_entries)
    spread = np.sqrt(squares / design.n_records)
    spread[~((spread > SCALE_GRID[0]) & (spread < SCALE_GRID[-1]))] = 1.0
    shape = design.matrix_shape
    mean = middle + shift
    return Transform(mean.reshape(shape) if centered else None, (1 / spread).reshape(shape))


def _usable(matrices: Matrices) -> np.ndarray:
    """Return the entries, those whose squares could overflow as 0."""
    values = entries_of(matrices)
    return np.where(np.abs(values) <= _LARGEST_USABLE, values, 0.0)
