"""Sums over the records of a trace regression: clipped gradients, scales, centers, curvatures."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from skdp.data.matrices import Design, RankOneMatrices
from skdp.data.parts import Targets
from skdp.data.people import People, sample_weight_of
from skdp.data.reduce import map_sum
from skdp.linalg.matrices import Coordinates, FixedRank, Matrices, project_coordinates
from skdp.linalg.norms import GridCounts, bin_counts
from skdp.linear_model._descent import OTHER_UNITS_OF_Y, n_within
from skdp.privacy import PrivacyBudget, Release
from skdp.privacy.clipping import NO_CLIPPING, clip_weights, weighting_to
from skdp.privacy.releases import SCALE_GRID, Search, warnings_for_ends

# ------------------------------
# Records, and sums over them of clipped vectors.

#: A function of a block of matrices that returns coordinates and the factors to multiply them by.
Vectors = Callable[[slice, Matrices], tuple[Coordinates, np.ndarray]]


@dataclass(frozen=True)
class Records:
    """Matrices with their responses; a record whose response is NaN is null.

    Each matrix has a further coordinate `intercept`, a constant; 0 without an intercept. If public,
    `covariance` is the covariance of all entries; None also stands for the identity.
    """

    design: Design
    responses: Targets
    intercept: float
    covariance: np.ndarray | None = None

    def without(self, point: FixedRank, offset: float) -> "Records":
        """Subtract the predictions of released coefficients from the responses."""
        residuals = np.asarray(self.responses) - self.design.inner(point) - offset
        return replace(self, responses=Targets.of(residuals))

    def counted_residuals(self, point: FixedRank, offset: float) -> np.ndarray:
        """Count residuals by size, block by block: memory never holds the residuals of all rows."""

        def _kernel(rows: slice, matrices: Matrices) -> np.ndarray:
            residuals = self.responses[rows] - matrices.tangent(point, 0.0)[1] - offset
            return count_by_power(residuals, matrices.sample_weight)

        return np.asarray(self.design.map_sum(_kernel, N_POWERS))


def clipped_sum(
    design: Design, vectors: Vectors, level: float, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Sum vectors clipped to a norm; return the sum and the number of unclipped vectors.

    Vectors that are not finite contribute nothing, and are not counted.
    """

    def _clipped(records: slice, matrices: Matrices) -> tuple[np.ndarray, Any]:
        coordinates, factors = vectors(records, matrices)
        # The norm of the product, as a product of two norms may underflow and bound nothing.
        coordinates.multiply(factors)
        norms = coordinates.norms()
        weights = clip_weights(norms, level, coordinates.size)
        unclipped = n_within(norms, level, matrices.sample_weight)
        return coordinates.weighted_sum(matrices.times_sample_weight(weights)), unclipped

    return tuple(design.map_sum(_clipped, size + 1))


def products(
    rows: slice, matrices: Matrices, responses: Targets, point: FixedRank | None = None
) -> tuple[Coordinates, np.ndarray]:
    """Return entries, or tangent coordinates at a point, and responses to multiply them by."""
    coordinates = matrices.entries() if point is None else matrices.tangent(point, 0.0)[0]
    return coordinates, responses[rows]


# ------------------------------
# Public weights that limit the influence of few very long public matrices.

# A value is an outlier if it exceeds `_LONGEST` times the quantile that `_LARGEST_FRACTION` of the
# sizes exceed. With a larger fraction, good values would be outliers. Not studied.
_LARGEST_FRACTION = 0.05
_LONGEST = 5.0
# A vector longer than so many medians has the weight 0: beside it, rounding would lose all others.
_LONGEST_COORDINATES = 1e3  # not studied


def outlier_threshold(sizes: np.ndarray) -> float:
    """Return the size above which nonzero values count as outliers."""
    positive = sizes[(sizes > 0) & (sizes <= NO_CLIPPING)]
    if positive.size == 0:
        return NO_CLIPPING
    quantile = np.quantile(positive, 1 - _LARGEST_FRACTION, method="lower")
    return float(min(_LONGEST * quantile, NO_CLIPPING))


def inlier_mask(design: Design) -> np.ndarray:
    """Mark matrices whose norm is no outlier, with sparse factors scaled by column first."""
    sides = [side for side, size in enumerate(design.matrix_shape) if size > 1]
    if isinstance(design.source, RankOneMatrices) and all(map(design.is_sparse, sides)):
        parts = (design.source.left, design.source.right)
        maps = [_inverse_sizes(part) if issparse(part) else None for part in parts]
        design = design.mapped(*maps)
    norms = design.norms()
    return norms <= outlier_threshold(norms)


def _inverse_sizes(part: csr_array) -> np.ndarray:
    """Return one over the median size of stored entries, by column; 1 for columns without any."""
    sizes = np.abs(part.data)
    order = np.lexsort((sizes, part.indices))
    counts = np.bincount(part.indices, minlength=part.shape[1])
    inverses = np.ones(part.shape[1])
    has_rows = counts > 0
    # Positions of the lower medians in the sizes, which are sorted within each column.
    middles = (np.cumsum(counts) - counts + (counts - 1) // 2)[has_rows]
    medians = sizes[order[middles]].astype(np.float64)
    is_usable = (medians > 1 / NO_CLIPPING) & (medians <= NO_CLIPPING)
    inverses[has_rows] = 1 / np.where(is_usable, medians, 1.0)
    return inverses


def downweight_long_rows(lengths: np.ndarray, *, downweights: bool) -> np.ndarray:
    """Return weights that shorten long vectors to the median norm of nonzero vectors.

    Vectors that could overflow, or are far longer than the median, have the weight 0. Without
    `downweights` only overflowing vectors do, and all others have the weight 1.
    """
    is_usable = (lengths > 0) & (lengths <= NO_CLIPPING)
    if not downweights or not is_usable.any():
        return is_usable.astype(np.float64)
    median = float(np.median(lengths[is_usable]))
    is_usable &= lengths <= _LONGEST_COORDINATES * median
    return np.where(is_usable, np.minimum(1.0, median / np.where(is_usable, lengths, 1.0)), 0.0)


# ------------------------------
# Released scales of responses and matrices; exact ones of public matrices.

# Bins from 1e-12 to 1e18; smaller sizes count in the first bin, as 0. Not studied.
_EXPONENTS = np.arange(-40, 61)
#: Powers of two by which numbers are counted.
POWERS = 2.0**_EXPONENTS  # not tuned
N_POWERS = len(POWERS)
# Larger values count as this one, as their exponents could overflow. Not studied.
_LARGEST = 1e300
# Root mean square of numbers spread evenly over a bin, from p / sqrt(2) to p * sqrt(2), divided by
# its power of two p. So responses of 1 are estimated as 1.08.
_SIZE_IN_BIN = math.sqrt(7 / 6)  # not tuned
#: Least scale of responses, and the scale if noise hides them all. Not studied.
LEAST_SPREAD = 1e-12
# Size of responses in bins that noise hides, relative to the largest visible bin: assumed as if
# responses were normal. Not studied.
_HIDDEN_SIZE = 0.6
# A bin is near a visible bin up to this distance, and is then visible above this many standard
# deviations of the noise: few bins are near, so noise rarely fills one.
# benchmarks/least_squares/made_up.md
_NEAR, _CLEAR_OF_NEAR = 2, 3.0
# At most this many neighboring bins are merged if none is visible. Not studied.
_MOST_BINS = 8
# Least estimate of the fraction of responses that differ from the center; not studied.
_LEAST_FRACTION = 0.02


#: Warning of a guessed spread; the noun that follows names the units.
GUESSED_SPREAD = (
    "The fit has learned nearly nothing of the responses: too few of them differ from the median "
    "to be distinguished from noise. Pass response_bound, a public bound of their size, a larger "
    "epsilon, or more"
)


@dataclass(frozen=True)
class Spread:
    """The root mean square `size` of centered responses; if most are 0, of those that are not 0.

    `fraction_off_center` is then the fraction of responses that are not 0; else it is 1. The size
    is a guess if noise hides these responses, and no public bound is known.
    """

    size: float
    fraction_off_center: float = 1.0
    is_guess: bool = False

    @property
    def of_all(self) -> float:
        """The root mean square of all centered responses, including those at the center."""
        return self.size * math.sqrt(self.fraction_off_center)


def count_responses(
    responses: Targets, n_jobs: int | None = None, people: People | None = None
) -> np.ndarray:
    """Count responses by size."""

    def _kernel(rows: slice, values: np.ndarray) -> np.ndarray:
        return count_by_power(values[:, 0], sample_weight_of(people, rows))

    return np.asarray(map_sum(responses, _kernel, N_POWERS, n_jobs))


def release_spread(
    plan: Release, counts: np.ndarray, budget: PrivacyBudget, farthest: float, n_units: int
) -> Spread:
    """Release a histogram of centered responses by size, and estimate their root mean square.

    If most responses are at the center and noise hides all others, the result is `farthest`, the
    public bound of their distance, or a guess if that is infinite.
    """
    # In a histogram over all powers of two, noise matters only in bins that are nearly empty. A
    # search in unknown units would need many counts, all of them right.
    released, noise_std = budget.release(plan, counts[np.newaxis])
    # The margin is wide: an empty bin that noise fills, many powers too high, would dominate.
    noise_std /= n_units
    edge = noise_std * (math.sqrt(2 * math.log(N_POWERS)) + 2.5)
    fractions = _visible_bins(released[0] / n_units, edge, _CLEAR_OF_NEAR * noise_std)
    largest = int(np.flatnonzero(fractions).max(initial=0))
    # Zeros, such as centered constants, are in the first bin, which must give no warning.
    top = POWERS[[max(largest, 1)]]
    budget.warnings += warnings_for_ends(plan.name, top, POWERS, OTHER_UNITS_OF_Y)
    sizes = _SIZE_IN_BIN * POWERS
    sizes[0] = 0.0
    hidden = float(np.clip(1 - fractions.sum(), 0.0, 1.0))
    size = math.sqrt(fractions @ sizes**2 + hidden * (_HIDDEN_SIZE * sizes[largest]) ** 2)
    at_center, off_center = float(fractions[0]), 1.0
    if at_center > 0.5:
        off_center = max(1 - at_center, _LEAST_FRACTION)
    if size > 0:
        return Spread(size / math.sqrt(off_center), off_center)
    if math.isfinite(farthest):
        return Spread(farthest, off_center)
    return Spread(LEAST_SPREAD, off_center, is_guess=True)


def _visible_bins(fractions: np.ndarray, edge: float, near_edge: float) -> np.ndarray:
    """Set bins that may be noise to 0; if only the center is left, merge neighboring bins.

    Few responses of different sizes may be hidden in each single bin. Near visible bins the edge is
    lower: without the bins next to the bulk, a long tail would seem short.
    """
    is_visible, is_wider = np.zeros(len(fractions), dtype=bool), fractions > edge
    while (is_visible != is_wider).any():
        is_visible = is_wider
        # The first bin, of zeros, has no neighbors.
        is_bulk = np.append(False, is_visible[1:])
        is_near = np.convolve(is_bulk, np.ones(2 * _NEAR + 1), "same") > 0.5
        is_wider = is_visible | (is_near & (fractions > near_edge))
    visible = np.where(is_visible, fractions, 0.0)
    width = 2
    while not visible[1:].any() and width <= _MOST_BINS:
        sums = np.convolve(fractions[1:], np.ones(width), "valid")
        first = 1 + int(sums.argmax())
        if sums.max() > edge * math.sqrt(width):
            part = np.maximum(fractions[first : first + width], 0.0)
            visible[first : first + width] = part * sums.max() / part.sum()
        width *= 2
    return visible


def count_by_power(values: np.ndarray, sample_weight: np.ndarray | None = None) -> np.ndarray:
    """Count values by the power of two nearest to their size; NaN is not counted."""
    sizes = np.minimum(np.abs(values), _LARGEST)
    exponents = np.frexp(sizes * math.sqrt(2))[1] - 1
    bins = np.clip(exponents, _EXPONENTS[0], _EXPONENTS[-1]) - _EXPONENTS[0]
    bins[sizes == 0] = 0
    is_there = ~np.isnan(sizes)
    weights = None if sample_weight is None else sample_weight[is_there]
    return np.bincount(bins[is_there], weights, N_POWERS).astype(np.float64)


def release_norm(
    search: Search, design: Design, responses: Targets, budget: PrivacyBudget
) -> float:
    """Release the median norm of the matrices; a record whose response is NaN is null."""

    def _counts(records: slice, matrices: Matrices) -> np.ndarray:
        norms = np.where(np.isnan(responses[records]), np.nan, matrices.norms())
        edges = np.append(SCALE_GRID, np.inf)
        return bin_counts(norms, edges, matrices.sample_weight).astype(np.float64)

    counts = design.map_sum(_counts, len(SCALE_GRID) + 1)
    return budget.quantile(search, GridCounts.of(SCALE_GRID, counts, design.n_records), q=0.5)


# ------------------------------
# Released covariances of rows and of columns, which whiten the matrices.

# Maps of rows and of columns; None is the identity.
Maps = list[np.ndarray | None]

# Steps converge even if a curvature is this many times its estimate. Not studied.
_TOLERATED = 3.0


def release_whitening(
    plan: Sequence[Release | None],
    design: Design,
    responses: Targets,
    budget: PrivacyBudget,
    bound: float,
) -> tuple[Maps, float]:
    """Release maps that whiten rows and columns, and the least variance after whitening.

    The length of gradient steps suits matrices with uncorrelated entries. So a fit clips matrices
    with entries of scale 1 in norm and releases the sums of :math:`X_i X_i^T` and of
    :math:`X_i^T X_i`. A side of length 1 has no sum and no map. The map of sparse factors is a
    vector, from the diagonal of their second moment, as a matrix would make them dense. Without a
    plan matrices are public, and their moments, without outliers, are exact.
    """
    maps, least_variance, n_records = Maps([None, None]), 1.0, design.n_records
    if not plan:
        is_inlier, bound = inlier_mask(design), NO_CLIPPING
        responses = Targets.of(np.where(is_inlier, 0.0, np.nan))
        n_records = max(int(np.count_nonzero(is_inlier)), 1)
    for side, moment in _moments(design, responses, bound).items():
        noise_std, release = 0.0, plan[side] if plan else None
        if release is not None:
            released = budget.release(release, moment, bound, rounding=design.rounding)
            moment, noise_std = released
        n_vectors = n_records * design.matrix_shape[1 - side]
        maps[side], least = whitening_of(moment / n_vectors, noise_std / n_vectors)
        least_variance *= least
    return maps, least_variance


def _moments(design: Design, responses: Targets, bound: float) -> dict[int, np.ndarray]:
    """Sum the second moments of rows and of columns of clipped matrices, in one pass."""
    sides = [side for side, length in enumerate(design.matrix_shape) if length > 1]
    clipped = weighting_to(bound, design.n_entries)

    def _second_moments(records: slice, matrices: Matrices) -> tuple[np.ndarray, ...]:
        weights = clipped(matrices.norms())
        weights[np.isnan(responses[records])] = 0.0
        weights = matrices.times_root_sample_weight(weights)
        return tuple(matrices.second_moment(side, weights) for side in sides)

    lengths = [(design.matrix_shape[side], 1 if design.is_sparse(side) else 2) for side in sides]
    size = sum(length**power for length, power in lengths)
    return dict(zip(sides, design.map_sum(_second_moments, size), strict=True)) if sides else {}


def diagonal_limit(size: int) -> float:
    """Return a bound that the largest of `size` normal numbers rarely exceeds."""
    return math.sqrt(2 * math.log(2 * size))


def whitening_of(moment: np.ndarray, noise_std: float) -> tuple[np.ndarray, float]:
    """Return the inverse root of a noisy covariance, and the least variance after whitening.

    That variance is estimated from noisy values, and at most 1.
    """
    if moment.ndim == 1:
        edge = noise_std * diagonal_limit(len(moment))
        variances, least_variance = _cleaned(moment, edge, noise_std**2)
        return 1 / np.sqrt(variances), least_variance
    values, vectors = np.linalg.eigh(moment)
    # Largest eigenvalue of symmetric noise, and mean square of its eigenvalues.
    edge, variance = noise_std * math.sqrt(2 * len(values)), noise_std**2 * (len(values) + 1) / 2
    variances, least_variance = _cleaned(values, edge, variance)
    return (vectors / np.sqrt(variances)) @ vectors.T, least_variance


def _cleaned(values: np.ndarray, edge: float, noise_variance: float) -> tuple[np.ndarray, float]:
    """Remove noise from noisy variances; return also the least true variance after whitening.

    Values that exceed the median by more than 1.5 times `edge`, the largest noise, stay as they
    are. The others are shrunk to their mean, by the part of their scatter that is noise. Along
    values below `edge` over `_TOLERATED` steps could diverge, and values up to 1e-13 of the largest
    are rounding: both become `least`. The second result is the mean divided by it, at most 1.
    """
    is_bulk = values <= np.median(values) + 1.5 * edge
    center = max(float(values[is_bulk].mean()), 0.0)
    variance = float(np.square(values[is_bulk] - center).mean())
    contrast = max(0.0, 1 - noise_variance / variance) if variance > 0 else 0.0
    cleaned = np.where(is_bulk, center + contrast * (values - center), values)
    floor, largest = max(edge / _TOLERATED, 1e-30), float(values.max())
    is_small = cleaned <= max(floor, 1e-13 * largest)
    least = max(floor, 1e-6 * largest)
    return np.where(is_small, least, cleaned), min(1.0, center / least)


# ------------------------------
# Centers of dense matrices: released means, shrunk by their noise.

# Matrices are clipped to this multiple of their median norm around the last center.
_CENTER_CLIP = 1.3  # not tuned
# A part of a mean is visible if its square exceeds that of noise by this many standard deviations.
_CERTAIN = 3.0  # not tuned


def release_center(
    plan: tuple[Search, Release],
    design: Design,
    center: np.ndarray,
    responses: Targets,
    budget: PrivacyBudget,
) -> tuple[np.ndarray, float]:
    """Release the visible part of the mean of matrices around a center, and their median norm.

    The noise is proportional to the norm: if the mean is far from the center, it is rough relative
    to the spread of the matrices. So centers come in rounds.
    """
    view = replace(design, center=center)
    norm = release_norm(plan[0], view, responses, budget)
    level = _CENTER_CLIP * norm if budget.is_private else NO_CLIPPING
    ones = responses.mapped(lambda values: np.where(np.isnan(values), np.nan, 1.0))
    total, _ = clipped_sum(view, partial(products, responses=ones), level, design.n_entries)
    released, noise_std = budget.release(plan[1], total, level, rounding=view.rounding)
    mean = released.reshape(design.matrix_shape) / design.n_records
    return visible_mean(mean, noise_std / design.n_records), norm


def public_center(design: Design) -> np.ndarray:
    """Compute the mean of public matrices, without outliers."""
    center = np.zeros(design.matrix_shape)
    # The second round leaves out matrices that are far from the first mean.
    for _ in range(2):
        view = replace(design, center=center)
        is_inlier = inlier_mask(view)
        vectors = partial(products, responses=Targets.of(np.where(is_inlier, 1.0, np.nan)))
        total, _ = clipped_sum(view, vectors, NO_CLIPPING, design.n_entries)
        mean = total.reshape(design.matrix_shape) / max(np.count_nonzero(is_inlier), 1)
        center = center + mean
    return center


def visible_mean(noisy: np.ndarray, noise_std: float) -> np.ndarray:
    """Return the visible parts of a noisy mean: total mean, row means, column means, and the rest.

    Each part is shrunk by its noise, and is 0 if it may be noise alone.
    """
    rows = np.broadcast_to(noisy.mean(axis=1, keepdims=True), noisy.shape)
    columns = np.broadcast_to(noisy.mean(axis=0, keepdims=True), noisy.shape)
    whole = np.full(noisy.shape, noisy.mean())
    n_rows, n_columns = noisy.shape
    parts = (
        (whole, 1),
        (rows - whole, n_rows - 1),
        (columns - whole, n_columns - 1),
        (noisy - rows - columns + whole, (n_rows - 1) * (n_columns - 1)),
    )
    visible = np.zeros(noisy.shape)
    for part, dimension in parts:
        squares, noise = float(np.square(part).sum()), dimension * noise_std**2
        if squares > noise * (1 + _CERTAIN * math.sqrt(2 / max(dimension, 1))):
            visible += part * (1 - noise / squares)
    return visible


# ------------------------------
# Curvatures of the loss along released gradients, which give the step lengths.

# The bins of curvatures, for matrices of scale 1; with more bins, noise would fill some.
_CURVATURES = slice(31, 56)  # from 2**-9 to 2**15; not tuned
# Mean of numbers spread evenly in a bin, relative to its power of two.
_MEAN_IN_BIN = 1.06  # not tuned
# A bin is filled if it exceeds `_ALONE` standard deviations of noise, or if it and the bin below
# both exceed `_PAIR`: a bin that noise fills, many powers too high, would make steps far too short.
# The mean counts `_BELOW` bins below the highest filled one, as lower bins hardly matter. Not
# studied beyond digits, sensors and independent entries.
_PAIR, _ALONE, _BELOW = 2.5, 4.5, 8
# For uncorrelated entries a curvature equals the fraction of unclipped gradients. A curvature is
# assumed to be at least `_LEAST` times this fraction, which counts as `_LEAST_UNCLIPPED` or more.
_LEAST, _LEAST_UNCLIPPED = 0.8, 0.1  # not studied


def release_curvature(
    plan: Release,
    design: Design,
    vectors: Vectors,
    along: tuple[FixedRank, float],
    level: float,
    unclipped: float,
    budget: PrivacyBudget,
) -> float:
    r"""Release the curvature of the clipped loss along a direction of length 1.

    For matrices :math:`Z_i` and a direction P, it is the mean of :math:`w_i \langle P, Z_i
    \rangle^2`, where :math:`w_i` clips the gradient. A histogram of these numbers, with the
    sensitivity of one count, shows the mean whatever their size; without noise, a sum does.
    """
    in_bins, (direction, shift) = budget.is_private, along

    def _curvatures(rows: slice, matrices: Matrices) -> np.ndarray:
        """Count the curvatures of records in a block by power of two, or sum them."""
        coordinates, factors = vectors(rows, matrices)
        coordinates.multiply(factors)
        norms = coordinates.norms()
        inner = matrices.tangent(direction, 0.0)[1] + shift
        curvatures = clip_weights(norms, level, coordinates.size) * inner**2
        usable = np.where(np.isfinite(norms) & np.isfinite(curvatures), curvatures, np.nan)
        if in_bins:
            return count_by_power(usable, matrices.sample_weight)
        return np.array([np.nansum(matrices.times_sample_weight(usable))])

    counts = design.map_sum(_curvatures, N_POWERS if in_bins else 1)
    if not in_bins:
        # If the gradient is 0, as for constant responses, the curvature 0 is replaced by 1.
        return float(budget.release(plan, counts)[0][0]) / design.n_records or 1.0
    noisy, noise_std = budget.release(plan, counts[np.newaxis])
    return _mean_curvature(noisy[0] / design.n_records, noise_std / design.n_records, unclipped)


def _mean_curvature(fractions: np.ndarray, noise_std: float, unclipped: float) -> float:
    """Estimate the mean curvature of the records from a noisy histogram."""
    fractions, powers = fractions[_CURVATURES], POWERS[_CURVATURES]
    least = _LEAST * max(unclipped, _LEAST_UNCLIPPED)
    expected = least / _LEAST
    is_high = fractions > _PAIR * noise_std
    is_filled = is_high & np.append(False, is_high[:-1]) | (fractions > _ALONE * noise_std)
    if not is_filled.any():
        return expected
    top = int(np.flatnonzero(is_filled).max())
    counted = slice(max(top - _BELOW, 0), top + 2)
    fractions, powers = fractions[counted], powers[counted]
    excess = float(fractions @ powers) * _MEAN_IN_BIN - expected
    # The difference from the curvature of uncorrelated entries is shrunk by its noise.
    variance = (noise_std * _MEAN_IN_BIN) ** 2 * float(powers @ powers)
    excess *= max(0.0, 1 - variance / excess**2) if excess else 0.0
    return max(expected + excess, least)


def public_curvature(
    design: Design, along: tuple[FixedRank, float], weights: np.ndarray, unclipped: float
) -> float:
    """Compute the curvature along a direction of public matrices, whose residuals are clipped.

    Clipped residuals, all but the fraction `unclipped`, count with half of their curvature.
    """
    inner = design.inner(along[0]) + along[1]
    inner[(weights == 0) | ~np.isfinite(inner)] = 0.0
    unclipped = max(unclipped, _LEAST_UNCLIPPED)
    curvature = float(weights @ inner**2) / design.n_records
    return max(curvature * (1 + unclipped) / 2, _LEAST * unclipped)


# ------------------------------
# For tables: predictions by row and column means, to which a low-rank matrix is added.

# Responses are clipped to this many times their spread.
_MARGIN_CLIP = 2.0  # not tuned
# Assumed size of the mean of centered responses, in units of their spread.
_USUAL_MEAN = 0.3  # benchmarks/trace_regression/margins.md


@dataclass(frozen=True)
class Margins:
    """Predictions by row and column alone, and the mean of all cells.

    The `matrix` has rank 2: row means times ones, plus ones times column means.
    """

    matrix: FixedRank
    offset: float

    @property
    def are_hidden(self) -> bool:
        """Whether noise hides the means of all rows and columns, which are then 0."""
        return not (self.matrix.left[:, 0].any() or self.matrix.right[:, 1].any())

    def without_means(self) -> "Margins":
        """Set the means of all rows and columns to 0."""
        left, right = self.matrix.left * [0, 1], self.matrix.right * [1, 0]
        return Margins(FixedRank(left, np.ones(2), right), self.offset)

    def __add__(self, other: "Margins") -> "Margins":
        left = self.matrix.left + other.matrix.left * [1, 0]
        right = self.matrix.right + other.matrix.right * [0, 1]
        return Margins(FixedRank(left, np.ones(2), right), self.offset + other.offset)


def release_margins(
    plan: Release, records: Records, maps: Maps, spread: float, budget: PrivacyBudget
) -> Margins:
    """Release sums of responses by row and column; return means shrunk by their noise.

    The sums are the coordinates of a tangent vector at a constant matrix.
    """
    design, (n_rows, n_columns) = records.design, records.design.matrix_shape
    left, right = (np.full((size, 1), size**-0.5) for size in (n_rows, n_columns))
    constant = FixedRank(left, np.zeros(1), right)
    level = min(_MARGIN_CLIP * spread * math.sqrt(n_rows + n_columns), NO_CLIPPING)
    vectors = partial(products, point=constant, responses=records.responses)
    total, _ = clipped_sum(design, vectors, level, n_rows + n_columns)
    # Clipped norms are those of projected vectors: only the projected sum keeps to their bound.
    total = project_coordinates(constant, total)
    released, noise_std = budget.release(plan, total, level, rounding=design.rounding)
    sums = [side / math.sqrt(len(side)) for side in np.split(released, [n_rows])]
    # Projected column sums add up to 0, but for noise: give them the total of the row sums.
    sum_of_all = float(sums[0].sum())
    sums[1] += sum_of_all / n_columns - sums[1].mean()
    offset, residual = sum_of_all / design.n_records, spread if math.isfinite(spread) else 0.0
    means = []
    for of_side, inverse_roots in zip(sums, maps, strict=True):
        assert inverse_roots is not None
        # The variances that whiten a side show how many records each row, or column, has.
        variances = 1 / np.square(inverse_roots)
        counts = design.n_records * variances / variances.sum()
        noise_of_sum = noise_std / math.sqrt(len(counts))
        means.append(_shrunken_means(of_side - offset * counts, counts, residual, noise_of_sum))
    rows, columns = means
    left = np.column_stack([rows, np.ones(n_rows)]) / math.sqrt(n_rows * n_columns)
    right = np.column_stack([np.ones(n_columns), columns])
    # The mean of all cells is shrunk by its noise, relative to its usual size.
    noise = noise_std / design.n_records / max(_USUAL_MEAN * residual, LEAST_SPREAD)
    return Margins(FixedRank(left, np.ones(2), right), offset / (1 + noise * noise))


def _shrunken_means(
    sums: np.ndarray, counts: np.ndarray, spread: float, noise_std: float
) -> np.ndarray:
    """Estimate random effects, the means of groups, from noisy sums; 0 if all may be noise."""
    noise = counts * spread**2 + noise_std**2
    excess = float(np.square(sums).sum() - noise.sum() * (1 + math.sqrt(2 / len(sums))))
    variance = max(excess / float(counts @ counts), 0.0)
    scales = np.square(counts) * variance + noise
    return np.divide(sums * counts * variance, scales, out=np.zeros(len(sums)), where=scales > 0)
