"""Centers and spreads of features in unknown units: private, or exact ones of public rows."""

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from skdp.data.design import Design, entries_of
from skdp.linalg.matrices import Matrices
from skdp._scales.shrinkage import Scales
from skdp.linear_model._trace.problem import TraceProblem
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
from skdp.linear_model._trace.transform import RareFeatures, Transform
from skdp.linear_model._units_of_data import OTHER_UNITS_OF_X
from skdp.privacy import PrivacyBudget, Release
from skdp.privacy.clipping import clip_rows
from skdp.privacy.quantile import SCALE_GRID

__all__ = ["exact_standardization", "standardizing"]

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


def standardizing(found: Scales, problem: TraceProblem) -> Transform:
    """Map features to mean 0 and variance 1, as far as their released scales tell."""
    center = found.center if problem.fit_intercept else None
    squares = found.variance if problem.fit_intercept else found.variance + found.center**2
    spread = np.sqrt(np.where(squares > 0, squares, 1.0))
    largest = np.where(found.is_void, 1.0, _LARGEST) if problem.cost.is_private else None
    shape = problem.matrix_shape
    return Transform(
        None if center is None else center.reshape(shape),
        (1 / spread).reshape(shape),
        largest=None if largest is None else largest.reshape(shape),
        rare_entries=_rare_entries(found.others),
    )


def _rare_entries(others: np.ndarray) -> float:
    """Return how many rare features differ from their usual value in a mean row; inf if few do."""
    is_rare = others < _RARE
    return float(others[is_rare].sum()) if is_rare.mean() >= 0.5 else math.inf


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
