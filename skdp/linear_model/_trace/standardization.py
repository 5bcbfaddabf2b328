"""Features of mean 0 and variance 1: by released scales, or by exact ones of public rows."""

from collections.abc import Callable
from functools import partial

import numpy as np

from skdp._scales import Scales
from skdp.data.matrices import Design, entries_of
from skdp.linalg.matrices import Matrices
from skdp.linear_model._trace.problem import TraceProblem
from skdp.linear_model._trace.public_rows import outlier_threshold, sample_rows
from skdp.linear_model._trace.transform import Transform
from skdp.privacy.releases import SCALE_GRID

# Features that differ from their usual value in a smaller fraction of the records are rare; not
# studied.
_RARE = 0.25
# With fewer rare features than that in a mean record, many records have none, and their gradients
# are short; not studied.
_FEW_RARE = 2.0
# Standardized entries are clipped to that size: benchmarks/trace_regression/unlike_columns.md,
# "spiked" and "linear in long tails". Where noise hides the scale, that of others is unknown, and
# they must not be larger than the feature itself is taken to be.
_LARGEST, _LARGEST_OF_HIDDEN = 16.0, 1.0

# Sample of public rows, for a rough median and quantile: its length, and its size where rows are
# long; not studied.
_SAMPLE_ROWS = (400, 10_000)
_SAMPLE_ENTRIES = 1 << 21
# Squares of larger entries could overflow.
_LARGEST_USABLE = 1e100  # not studied


def standardized_by(found: Scales, problem: TraceProblem) -> Transform:
    """Map features to mean 0 and variance 1, as far as their released scales tell."""
    shape, center, squares = problem.matrix_shape, None, found.variance
    if problem.fit_intercept:
        center = found.center.reshape(shape)
    else:
        squares = squares + found.center**2
    largest = None
    if problem.cost.is_private:
        largest = np.where(found.is_void, _LARGEST_OF_HIDDEN, _LARGEST).reshape(shape)
    return Transform(
        center,
        (1 / np.sqrt(np.where(squares > 0, squares, 1.0))).reshape(shape),
        are_rare=_are_rare(found.others),
        n_hidden=int(found.is_void.sum()) if problem.cost.is_private else 0,
        largest=largest,
    )


def _are_rare(others: np.ndarray) -> bool:
    """Tell whether at least half of the features are rare, and a mean record has few of these.

    `others` are the fractions of the entries that are not the usual ones.
    """
    is_rare = others < _RARE
    return bool(is_rare.mean() >= 0.5 and others[is_rare].sum() < _FEW_RARE)


def exact_standardization(design: Design, *, centered: bool) -> Transform:
    """Compute means and standard deviations of the entries of public matrices, but for outliers.

    Outliers count as the rough center that a sample gives.
    """
    sample = sample_rows(design, int(np.clip(_SAMPLE_ENTRIES // design.n_entries, *_SAMPLE_ROWS)))
    sample[np.abs(sample) > _LARGEST_USABLE] = 0.0
    usual = np.median(sample, axis=0)
    middle = usual if centered else np.zeros(design.n_entries)
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
    return Transform(
        mean.reshape(shape) if centered else None,
        (1 / spread).reshape(shape),
        are_rare=_are_rare((sample != usual).mean(axis=0)),
    )


# Kernels.


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
