"""Centers and spreads of features in unknown units: private, or exact ones of public rows."""

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

# The variance around the mean is at least this fraction of that around the median; not studied.
_LEAST_REST = 0.25
# Size of entries in bins that noise hides, in units of the largest visible one. Rather too large: a
# feature whose spread is taken to be too small would rule all others. Not studied.
_HIDDEN_SIZE = 1.0
# Features that differ from their centers in a smaller fraction of the records are rare; not
# studied.
_RARE = 0.25
_LEAST_RARE = 1e-3
# A larger fraction, in standard deviations of its noise, is hardly noise alone; not studied.
_CLEAR = 2.0
# Standardized entries are clipped to that size, and those of rare features to so many times the
# size of a feature with only one value beside its center. Only these are in
# benchmarks/trace_regression/unlike_columns.md, "spiked" and "linear in long tails".
_LARGEST = 16.0
_LARGEST_RARE = 3.0

# Sample of public rows, for a rough median and quantile: its length, and its size where rows are
# long; not studied.
_SAMPLE_ROWS = (400, 10_000)
_SAMPLE_ENTRIES = 1 << 21
# Squares of larger entries could overflow.
_LARGEST_USABLE = 1e100  # not studied


def release_standardization(
    plan: FeatureReleases, design: Design, budget: PrivacyBudget
) -> Transform:
    """Release the median of every entry, if planned, and the root mean square around it.

    If the plan has them, means take the place of the medians. They differ much for indicators and
    for skewed features.
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
    # The median of a feature that is 0 in half of the records is an arbitrary number between 0 and
    # the others. If everything visible is as far from the center as 0 is, 0 becomes the center.
    is_mostly_zero = (center != 0) & (magnitudes.zero_fraction == 0)
    is_mostly_zero &= exponents(center) == magnitudes.only_exponents
    center, least = np.where(is_mostly_zero, 0.0, center), np.where(is_mostly_zero, 0.0, least)
    spread, rare = _spreads(magnitudes.with_pooled_bins(), ~is_mostly_zero)
    # A center far from 0 is known to within `least`: its error must not rule the other features.
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
    """Bound standardized entries; those of rare features are large, as their spread is small."""
    others = np.clip(1 - magnitudes.zero_fraction, max(magnitudes.noise_std, _LEAST_RARE), 1.0)
    return np.maximum(_LARGEST, _LARGEST_RARE / np.sqrt(others))


def _spreads(
    magnitudes: MagnitudeHistogram, is_usable: np.ndarray
) -> tuple[np.ndarray, RareFeatures | None]:
    """Compute spreads from released sizes, where these are usable, and for rare features."""
    spread = np.where(is_usable, magnitudes.root_mean_squares(_HIDDEN_SIZE), 0.0)
    is_rare = (spread == 0) & (1 - magnitudes.noisy[:, 0] < _RARE)
    # A feature that is not rare but whose sizes noise hides gets the largest spread. That is right
    # if all features are alike, and otherwise makes the feature too small to do harm.
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
    """Release the mean of standardized rows, which are clipped entry by entry, then in norm."""
    bound = norm_bound(design.n_entries)
    kernel = partial(_clipped_rows, center=center, spread=spread, largest=largest, bound=bound)
    total = design.map_sum(kernel, design.n_entries)
    released, _ = budget.release(plan, total, bound, rounding=design.rounding)
    return np.asarray(released / design.n_records)


def _rare_features(
    magnitudes: MagnitudeHistogram, is_rare: np.ndarray, largest_spread: float
) -> RareFeatures:
    """Compute one spread for all features that noise hides one by one, from their mean histogram.

    If noise hides that, too, their entries off the center are taken to be as large as the spread of
    the other features. If noise hides even how rare these entries are, their spread is taken to be
    that of the other features: too small a spread would make a feature of mostly noise large.
    """
    fraction = float(1 - magnitudes.noisy[0, 0])
    is_clear = fraction > _CLEAR * magnitudes.noise_std
    fraction = float(np.clip(fraction, max(magnitudes.noise_std, _LEAST_RARE), 1.0))
    visible = float(magnitudes.root_mean_squares(_HIDDEN_SIZE)[0])
    guess = largest_spread * (math.sqrt(fraction) if is_clear else 1.0)
    return RareFeatures(
        n_features=int(is_rare.sum()),
        are_many=bool(is_clear and is_rare.mean() >= 0.5),
        fraction=fraction,
        spread=visible or guess,
        is_guess=visible == 0 < magnitudes.noise_std,
    )


def exact_standardization(design: Design, *, centered: bool) -> Transform:
    """Compute means and standard deviations of the entries of public matrices, but for outliers.

    Outliers count as the rough center that a sample gives.
    """
    sample = sample_rows(design, int(np.clip(_SAMPLE_ENTRIES // design.n_entries, *_SAMPLE_ROWS)))
    sample[np.abs(sample) > _LARGEST_USABLE] = 0.0
    middle = np.median(sample, axis=0) if centered else np.zeros(design.n_entries)
    largest = np.array([outlier_threshold(np.abs(column)) for column in (sample - middle).T])
    inliers = partial(_inlier_differences, middle=middle, largest=largest)
    shift = np.zeros(design.n_entries)
    if centered:
        kernel = partial(_power_sum, inliers=inliers, shift=shift, power=1)
        shift = design.map_sum(kernel, design.n_entries) / design.n_records
    kernel = partial(_power_sum, inliers=inliers, shift=shift, power=2)
    squares = design.map_sum(kernel, design.n_entries)
    spread = np.sqrt(squares / design.n_records)
    spread[~((spread > SCALE_GRID[0]) & (spread < SCALE_GRID[-1]))] = 1.0
    shape = design.matrix_shape
    mean = middle + shift
    return Transform(mean.reshape(shape) if centered else None, (1 / spread).reshape(shape))


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
    inliers: Callable[[Matrices], np.ndarray],
    shift: np.ndarray,
    power: int,
) -> np.ndarray:
    return np.asarray(((inliers(matrices) - shift) ** power).sum(axis=0))


def _inlier_differences(matrices: Matrices, middle: np.ndarray, largest: np.ndarray) -> np.ndarray:
    values = entries_of(matrices)
    differences = np.where(np.abs(values) <= _LARGEST_USABLE, values, 0.0) - middle
    return np.where(np.abs(differences) <= largest, differences, 0.0)
