"""Sums over the records of a trace regression, for scales, centers, gradients and curvatures."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from skdp.data.matrices import Design, RankOneMatrices
from skdp.data.parts import Targets
from skdp.data.people import sample_weight_of
from skdp.data.reduce import map_sum
from skdp.linalg.matrices import Coordinates, FixedRank, Matrices, project_coordinates
from skdp.linalg.norms import GridCounts, bin_counts
from skdp.linear_model._descent import OTHER_UNITS_OF_Y, n_within
from skdp.privacy import PrivacyBudget, Release
from skdp.privacy.clipping import NO_CLIPPING, clip_weights, weighting_to
from skdp.privacy.releases import SCALE_GRID, Search, warnings_for_ends

# ------------------------------
# Records, and sums of clipped vectors, one per record.

#: A function of a block of matrices: it returns coordinates and a factor for each matrix.
Vectors = Callable[[slice, Matrices], tuple[Coordinates, np.ndarray]]


@dataclass(frozen=True)
class Records:
    """Matrices with their responses; a record whose response is NaN is null."""

    design: Design  # the matrices
    responses: Targets
    intercept: float  # constant that is a further coordinate of each matrix; 0 without an intercept
    covariance: np.ndarray | None = None  # of all entries, if it is public; None for the identity

    def without(self, point: FixedRank, offset: float) -> "Records":
        """Return records whose responses are residuals of the released coefficients `point`."""
        residuals = np.asarray(self.responses) - self.design.inner(point) - offset
        return replace(self, responses=Targets.of(residuals))

    def counted_residuals(self, point: FixedRank, offset: float) -> np.ndarray:
        """Count residuals by size, block by block, so that memory never holds all residuals."""

        def _kernel(rows: slice, matrices: Matrices) -> np.ndarray:
            residuals = self.responses[rows] - matrices.tangent(point, 0.0)[1] - offset
            return count_by_power(residuals, matrices.sample_weight)

        return np.asarray(self.design.map_sum(_kernel, N_POWERS))


def clipped_sum(
    design: Design, vectors: Vectors, level: float, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Sum vectors clipped to norm `level`; return the sum and the number of unclipped vectors.

    The vector of a record has `size` entries. Vectors with NaN or infinity add nothing, and are not
    counted.
    """

    def _clipped(records: slice, matrices: Matrices) -> tuple[np.ndarray, Any]:
        coordinates, factors = vectors(records, matrices)
        # The norm of the product, as the product of a factor and a norm may underflow.
        coordinates.multiply(factors)
        norms = coordinates.norms()
        weights = clip_weights(norms, level, coordinates.size)
        unclipped = n_within(norms, level, matrices.sample_weight)
        return coordinates.weighted_sum(matrices.times_sample_weight(weights)), unclipped

    return tuple(design.map_sum(_clipped, size + 1))


def products(
    rows: slice, matrices: Matrices, responses: Targets, point: FixedRank | None = None
) -> tuple[Coordinates, np.ndarray]:
    """Return entries of matrices, or their tangent coordinates at `point`, and their responses."""
    coordinates = matrices.entries() if point is None else matrices.tangent(point, 0.0)[0]
    return coordinates, responses[rows]


# ------------------------------
# Public weights that limit the influence of few very long public matrices.

# A size is an outlier if it exceeds `_LONGEST` times the quantile that the largest sizes, the
# fraction `_LARGEST_FRACTION` of all, exceed. With a larger fraction, good values would be
# outliers. Not studied.
_LARGEST_FRACTION = 0.05
_LONGEST = 5.0
# A vector longer than this many medians has the weight 0: in a sum with it, rounding would lose the
# digits of all other vectors.
_LONGEST_COORDINATES = 1e3  # not studied


def outlier_threshold(sizes: np.ndarray) -> float:
    """Return the size above which nonzero values count as outliers."""
    positive = sizes[(sizes > 0) & (sizes <= NO_CLIPPING)]
    if positive.size == 0:
        return NO_CLIPPING
    quantile = np.quantile(positive, 1 - _LARGEST_FRACTION, method="lower")
    return float(min(_LONGEST * quantile, NO_CLIPPING))


def inlier_mask(design: Design) -> np.ndarray:
    """Mark matrices whose norm is no outlier.

    If all factors are sparse, their columns are first divided by the median size of their entries.
    """
    sides = [side for side, size in enumerate(design.matrix_shape) if size > 1]
    if isinstance(design.source, RankOneMatrices) and all(map(design.is_sparse, sides)):
        parts = (design.source.left, design.source.right)
        maps = [_inverse_sizes(part) if issparse(part) else None for part in parts]
        design = design.mapped(*maps)
    norms = design.norms()
    return norms <= outlier_threshold(norms)


def _inverse_sizes(part: csr_array) -> np.ndarray:
    """Return the inverse median size of the stored entries of each column; 1 for empty columns."""
    sizes = np.abs(part.data)
    order = np.lexsort((sizes, part.indices))
    counts = np.bincount(part.indices, minlength=part.shape[1])
    inverses = np.ones(part.shape[1])
    has_rows = counts > 0
    # Positions of the lower medians in `order`, which sorts sizes within each column.
    middles = (np.cumsum(counts) - counts + (counts - 1) // 2)[has_rows]
    medians = sizes[order[middles]].astype(np.float64)
    is_usable = (medians > 1 / NO_CLIPPING) & (medians <= NO_CLIPPING)
    inverses[has_rows] = 1 / np.where(is_usable, medians, 1.0)
    return inverses


def downweight_long_rows(lengths: np.ndarray, *, downweights: bool) -> np.ndarray:
    """Return weights that shorten long vectors to the median norm of nonzero vectors.

    The weight is 0 for null vectors, for vectors that could overflow, and for vectors far longer
    than the median. Without `downweights`, all vectors that cannot overflow have the weight 1.
    """
    is_usable = (lengths > 0) & (lengths <= NO_CLIPPING)
    if not downweights or not is_usable.any():
        return is_usable.astype(np.float64)
    median = float(np.median(lengths[is_usable]))
    is_usable &= lengths <= _LONGEST_COORDINATES * median
    return np.where(is_usable, np.minimum(1.0, median / np.where(is_usable, lengths, 1.0)), 0.0)


# ------------------------------
# Released scales of responses and of matrices.

# Histograms of sizes have a bin for each power of two from 1e-12 to 1e18. Smaller sizes count as 0,
# in the first bin, and larger ones in the last bin. Not studied.
_EXPONENTS = np.arange(-40, 61)
#: The powers of two: bin p holds sizes from p / sqrt(2) to p * sqrt(2).
POWERS = 2.0**_EXPONENTS  # not tuned
N_POWERS = len(POWERS)
# Larger values count as this one, as their product with the root of 2 could overflow. Not studied.
_LARGEST = 1e300
# Root mean square of sizes spread evenly over the bin of a power of two, divided by this power.
_SIZE_IN_BIN = math.sqrt(7 / 6)  # not tuned
#: Least spread of responses, and the spread if noise hides all responses. Not studied.
LEAST_SPREAD = 1e-12
# Assumed size of responses in bins that noise hides, relative to the largest visible bin: as of
# normal responses. Not studied.
_HIDDEN_SIZE = 0.6
# A bin within `_NEAR` bins of a visible one is visible itself from `_CLEAR_OF_NEAR` standard
# deviations of the noise on. Other bins have a higher limit: noise rarely fills one of few bins.
# benchmarks/least_squares/made_up.md
_NEAR, _CLEAR_OF_NEAR = 2, 3.0
# Visible bins surely lack responses if their sum is `_LACKING` standard deviations of its noise
# below the number of all responses. Up to `_MOST_BINS` neighbors are then merged.
# benchmarks/least_squares/made_up.md, "Tails that noise hides"
_LACKING, _MOST_BINS = 4.0, 8
# Least estimate of the fraction of responses that differ from the center; not studied.
_LEAST_FRACTION = 0.02


#: Warning of a guessed spread of responses, without the name of the units, which ends it.
GUESSED_SPREAD = (
    "The fit has learned nearly nothing of the responses: too few of them differ from the median "
    "to be distinguished from noise. Pass response_bound, a public bound of their size, a larger "
    "epsilon, or more"
)


@dataclass(frozen=True)
class Spread:
    """The spread of centered responses: how many differ from 0, and how far."""

    size: float  # root mean square of responses; if most are 0, of all others
    fraction_off_center: float = 1.0  # fraction of responses other than 0, if most are 0; else 1
    is_guess: bool = False  # whether `size` is a guess, as noise hides responses without a bound
    # Fraction of the responses in bins that noise hides, less the noise std of this fraction.
    hidden: float = 0.0

    @property
    def of_all(self) -> float:
        """The root mean square of all centered responses, including those at the center."""
        return self.size * math.sqrt(self.fraction_off_center)


def count_responses(responses: Targets, view: Any) -> np.ndarray:
    """Count the responses of a view's rows by the power of two nearest to their size."""

    def _kernel(rows: slice, values: np.ndarray) -> np.ndarray:
        return count_by_power(values[:, 0], sample_weight_of(view.people, rows))

    return np.asarray(map_sum(responses, _kernel, N_POWERS, view.n_jobs))


def release_spread(
    plan: Release, counts: np.ndarray, budget: PrivacyBudget, farthest: float, n_units: int
) -> Spread:
    """Release a histogram of centered responses by size, and estimate their root mean square.

    If most responses are at the center and noise hides all others, the size of the others is taken
    to be `farthest`, a public bound, or a guess if that is infinite.
    """
    # A histogram, as noise in it matters only in bins that are nearly empty. A search in unknown
    # units would need many counts, all of which would have to be right.
    (released,), noise_std = budget.release(plan, counts[np.newaxis]).mean(n_units)
    # The edge is high, as one empty bin of large sizes that noise fills would decide the result.
    edge = noise_std * (math.sqrt(2 * math.log(N_POWERS)) + 2.5)
    fractions = _visible_bins(released, edge, noise_std)
    largest = int(np.flatnonzero(fractions).max(initial=0))
    # The first bin has zeros, such as centered constants, so it must give no warning.
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
        hidden -= noise_std * math.sqrt(np.count_nonzero(fractions))
        return Spread(size / math.sqrt(off_center), off_center, hidden=hidden)
    if math.isfinite(farthest):
        return Spread(farthest, off_center)
    return Spread(LEAST_SPREAD, off_center, is_guess=True)


def _visible_bins(fractions: np.ndarray, edge: float, noise_std: float) -> np.ndarray:
    """Set bins that may be noise to 0.

    A bin above `edge` is visible. Beside a visible bin, `_CLEAR_OF_NEAR` standard deviations of
    noise suffice: otherwise long tails would seem short. If visible bins surely lack responses,
    the missing ones are spread over hidden bins. Hidden neighbors are then merged, and are visible
    if their sum stands out.
    """
    is_visible, is_wider = np.zeros(len(fractions), dtype=bool), fractions > edge
    while (is_visible != is_wider).any():
        is_visible = is_wider
        # The first bin, of zeros, has no neighbors.
        is_bulk = np.append(False, is_visible[1:])
        is_near = np.convolve(is_bulk, np.ones(2 * _NEAR + 1), "same") > 0.5
        is_wider = is_visible | (is_near & (fractions > _CLEAR_OF_NEAR * noise_std))
    visible, width = np.where(is_visible, fractions, 0.0), 1
    while width <= _MOST_BINS:
        if 1 - visible.sum() <= _LACKING * noise_std * math.sqrt(np.count_nonzero(visible)):
            break
        hidden = np.where(visible > 0, 0.0, fractions)
        sums = np.convolve(hidden[1:], np.ones(width), "valid")
        first = 1 + int(sums.argmax())
        if sums.max() > edge * math.sqrt(width):
            part = np.maximum(hidden[first : first + width], 0.0)
            visible[first : first + width] += part * sums.max() / part.sum()
        else:
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
    """Release the median norm of the matrices; a NaN in `responses` marks a null record."""

    def _counts(records: slice, matrices: Matrices) -> np.ndarray:
        norms = np.where(np.isnan(responses[records]), np.nan, matrices.norms())
        edges = np.append(SCALE_GRID, np.inf)
        return bin_counts(norms, edges, matrices.sample_weight).astype(np.float64)

    counts = design.map_sum(_counts, len(SCALE_GRID) + 1)
    return budget.quantile(search, GridCounts.of(SCALE_GRID, counts, design.n_records), q=0.5)


# ------------------------------
# Released covariances of rows and of columns, which whiten the matrices.

# Symmetric maps of the rows and of the columns of matrices, or their diagonals; None is the
# identity.
Maps = Sequence[np.ndarray | None]

# Gradient steps converge even if the curvature of the loss is this many times its estimate. Not
# studied.
_TOLERATED = 3.0


def release_whitening(
    plan: Sequence[Release | None],
    design: Design,
    responses: Targets,
    budget: PrivacyBudget,
    bound: float,
) -> tuple[Maps, float]:
    """Release maps that whiten rows and columns of matrices, and the least variance afterwards.

    Gradient steps have the right length for matrices with uncorrelated entries of variance 1. So a
    fit clips matrices X and releases the sums of :math:`X X^T`, for rows, and of :math:`X^T X`, for
    columns. A side of length 1 has no sum and no map. Sparse factors have the diagonal of a sum
    alone, as a full map would make them dense. Without a `plan`, matrices are public, and moments
    are exact, but without outliers.
    """
    maps, least_variance, n_records = list[np.ndarray | None]([None, None]), 1.0, design.n_records
    if not plan:
        is_inlier, bound = inlier_mask(design), NO_CLIPPING
        responses = Targets.of(np.where(is_inlier, 0.0, np.nan))
        n_records = max(int(np.count_nonzero(is_inlier)), 1)
    sides = [side for side, length in enumerate(design.matrix_shape) if length > 1]
    clipped = weighting_to(bound, design.n_entries)

    def _second_moments(records: slice, matrices: Matrices) -> tuple[np.ndarray, ...]:
        weights = clipped(matrices.norms())
        weights[np.isnan(responses[records])] = 0.0
        weights = matrices.times_sample_weight(weights, twice=True)
        return tuple(matrices.second_moment(side, weights) for side in sides)

    lengths = [(design.matrix_shape[side], 1 if design.is_sparse(side) else 2) for side in sides]
    size = sum(length**power for length, power in lengths)
    moments = design.map_sum(_second_moments, size) if sides else ()
    for side, moment in zip(sides, moments, strict=True):
        noise_std, release = 0.0, plan[side] if plan else None
        if release is not None:
            released = budget.release(release, moment, bound, rounding=design.rounding)
            moment, noise_std = released
        n_vectors = n_records * design.matrix_shape[1 - side]
        maps[side], least = whitening_of(moment / n_vectors, noise_std / n_vectors)
        least_variance *= least
    return maps, least_variance


def diagonal_limit(size: int) -> float:
    """Return a bound that the largest of `size` standard normal numbers rarely exceeds."""
    return math.sqrt(2 * math.log(2 * size))


def whitening_of(moment: np.ndarray, noise_std: float) -> tuple[np.ndarray, float]:
    """Return the inverse root of a noisy covariance, and the least variance after whitening.

    A vector stands for a diagonal covariance. The least variance is an estimate, at most 1.
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
    """Remove noise from noisy variances; return also the least variance after whitening by them.

    Outliers, which exceed the median by more than 1.5 times `edge`, the largest noise, stay as they
    are. All others are shrunk to their mean, by the fraction of their scatter that is noise.
    Whitening by a variance far below `edge` would make steps diverge, and variances up to 1e-13 of
    the largest one are rounding errors: all these are raised to `least`. The second result is the
    mean divided by `least`, at most 1.
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

# Differences of matrices from a center are clipped to this multiple of the differences' median
# norm.
_CENTER_CLIP = 1.3  # not tuned
# A part of a noisy mean, such as the row means, is visible if its squared norm exceeds the squared
# norm of noise alone by this many standard deviations.
_CERTAIN = 3.0  # not tuned


def release_center(
    plan: tuple[Search, Release], design: Design, responses: Targets, budget: PrivacyBudget
) -> tuple[np.ndarray, float]:
    """Release the mean of centered matrices, and their median norm.

    The noise of the mean is proportional to this norm, which is large if the center is far off. So
    a fit releases several centers, each around the last one.
    """
    norm = release_norm(plan[0], design, responses, budget)
    level = _CENTER_CLIP * norm if budget.is_private else NO_CLIPPING
    ones = responses.mapped(lambda values: np.where(np.isnan(values), np.nan, 1.0))
    total, _ = clipped_sum(design, partial(products, responses=ones), level, design.n_entries)
    released = budget.release(plan[1], total, level, rounding=design.rounding)
    mean, noise_std = released.mean(design.n_records)
    return visible_mean(mean.reshape(design.matrix_shape), noise_std), norm


def public_center(design: Design) -> np.ndarray:
    """Compute the mean of public matrices, without outliers."""
    center = np.zeros(design.matrix_shape)
    # The second round leaves out outliers, which are far from the mean of the first round.
    for _ in range(2):
        view = replace(design, center=center)
        is_inlier = inlier_mask(view)
        vectors = partial(products, responses=Targets.of(np.where(is_inlier, 1.0, np.nan)))
        total, _ = clipped_sum(view, vectors, NO_CLIPPING, design.n_entries)
        mean = total.reshape(design.matrix_shape) / max(np.count_nonzero(is_inlier), 1)
        center = center + mean
    return center


def visible_mean(noisy: np.ndarray, noise_std: float) -> np.ndarray:
    """Shrink four parts of a noisy mean matrix by the noise.

    The parts are the mean of all entries, the row means minus this mean, the column means minus
    this mean, and the rest. A part that may be noise alone becomes 0.
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

# Used bins of `POWERS` in histograms of curvatures, from 2**-9 to 2**15, as matrices are scaled to
# entries of mean square 1. If all bins were used, noise would seem to fill some.
_CURVATURES = slice(31, 56)  # not tuned
# Mean of numbers spread evenly over the bin of a power of two, divided by this power.
_MEAN_IN_BIN = 1.06  # not tuned
# A bin of curvatures is filled if it exceeds `_ALONE` standard deviations of its noise, or if it
# and the next lower bin both exceed `_PAIR`. The limits are high: one bin of large curvatures that
# noise fills would make steps far too short. The mean uses the highest filled bin, the next higher
# one and `_BELOW` bins below, as lower bins hardly matter. Not studied beyond digits, sensors and
# independent entries.
_PAIR, _ALONE, _BELOW = 2.5, 4.5, 8
# For uncorrelated entries of variance 1, the curvature of the clipped loss is the fraction of
# unclipped gradients. Any curvature is assumed to be at least `LEAST_CURVATURE` times this
# fraction, which counts as `LEAST_UNCLIPPED` if it is smaller.
LEAST_CURVATURE, LEAST_UNCLIPPED = 0.8, 0.1  # not studied


def mean_curvature(fractions: np.ndarray, noise_std: float, unclipped: float) -> float:
    """Estimate the mean curvature of the records from a noisy histogram."""
    fractions, powers = fractions[_CURVATURES], POWERS[_CURVATURES]
    least = LEAST_CURVATURE * max(unclipped, LEAST_UNCLIPPED)
    expected = least / LEAST_CURVATURE
    is_high = fractions > _PAIR * noise_std
    is_filled = is_high & np.append(False, is_high[:-1]) | (fractions > _ALONE * noise_std)
    if not is_filled.any():
        return expected
    top = int(np.flatnonzero(is_filled).max())
    counted = slice(max(top - _BELOW, 0), top + 2)
    fractions, powers = fractions[counted], powers[counted]
    excess = float(fractions @ powers) * _MEAN_IN_BIN - expected
    # The excess over the curvature for uncorrelated entries is shrunk by its noise.
    variance = (noise_std * _MEAN_IN_BIN) ** 2 * float(powers @ powers)
    excess *= max(0.0, 1 - variance / excess**2) if excess else 0.0
    return max(expected + excess, least)


# ------------------------------
# Cells of tables: predictions by row means and column means, to which a fit adds a low-rank matrix.

# For sums by row and column, responses are clipped to this multiple of their spread.
_MARGIN_CLIP = 2.0  # not tuned
#: Assumed size of the mean of responses around their released median, in units of their spread.
USUAL_MEAN = 0.3  # benchmarks/trace_regression/margins.md


def matrix_of_margins(margins: np.ndarray, shape: tuple[int, int]) -> FixedRank:
    """Return the matrix, of rank 2, of row means plus column means, over the root of its size."""
    rows, columns = np.split(margins, [shape[0]])
    left = np.column_stack([rows, np.full(shape[0], 1 / math.sqrt(math.prod(shape)))])
    return FixedRank(left, np.ones(2), np.column_stack([np.ones(shape[1]), columns]))


def release_margins(
    plan: Release, records: Records, maps: Maps, spread: float, budget: PrivacyBudget
) -> tuple[np.ndarray, float]:
    """Release sums of responses by row and column; return means, shrunk by their noise.

    The first result has the row means, over the root of the number of cells, and then the column
    means, all of them minus the mean of all cells; the second result is this mean. The sums are
    computed as tangent coordinates at a constant matrix. `maps` are the inverse roots of the
    frequencies of rows and of columns.
    """
    design, (n_rows, n_columns) = records.design, records.design.matrix_shape
    left, right = (np.full((size, 1), size**-0.5) for size in (n_rows, n_columns))
    constant = FixedRank(left, np.zeros(1), right)
    level = min(_MARGIN_CLIP * spread * math.sqrt(n_rows + n_columns), NO_CLIPPING)
    vectors = partial(products, point=constant, responses=records.responses)
    total, _ = clipped_sum(design, vectors, level, n_rows + n_columns)
    # The clip level bounds the norms of projected vectors, and so only a projected sum.
    total = project_coordinates(constant, total)
    released, noise_std = budget.release(plan, total, level, rounding=design.rounding)
    sums = [side / math.sqrt(len(side)) for side in np.split(released, [n_rows])]
    # The projection makes column sums add up to 0: they get the total of the row sums.
    sum_of_all = float(sums[0].sum())
    sums[1] += sum_of_all / n_columns - sums[1].mean()
    offset, response_std = sum_of_all / design.n_records, spread if math.isfinite(spread) else 0.0
    means = []
    for of_side, inverse_roots in zip(sums, maps, strict=True):
        assert inverse_roots is not None
        # Estimated numbers of records of each row or column, from its variance as an indicator.
        variances = 1 / np.square(inverse_roots)
        counts = design.n_records * variances / variances.sum()
        noise_of_sum = noise_std / math.sqrt(len(counts))
        excess = of_side - offset * counts
        means.append(_shrunken_means(excess, counts, response_std, noise_of_sum))
    # The mean of all cells is shrunk by its noise, relative to the usual size of such a mean.
    noise = noise_std / design.n_records / max(USUAL_MEAN * response_std, LEAST_SPREAD)
    means[0] /= math.sqrt(n_rows * n_columns)
    return np.concatenate(means), offset / (1 + noise * noise)


def _shrunken_means(
    sums: np.ndarray, counts: np.ndarray, response_std: float, noise_std: float
) -> np.ndarray:
    """Estimate the means of groups, as random effects, from noisy sums; 0 if all may be noise.

    `counts` are the sizes of the groups.
    """
    noise = counts * response_std**2 + noise_std**2
    excess = float(np.square(sums).sum() - noise.sum() * (1 + math.sqrt(2 / len(sums))))
    variance = max(excess / float(counts @ counts), 0.0)
    scales = np.square(counts) * variance + noise
    return np.divide(sums * counts * variance, scales, out=np.zeros(len(sums)), where=scales > 0)
